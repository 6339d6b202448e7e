//! Indices outside a dimension and division by an integer zero: an error that names the kernel and says why it trapped,
//! and no access.
//!
//! After such an error a process cannot use its GPU, so each case is a process of its own.

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _, RuntimeKind};
use candle_rocm_kernels::symbols::symbol;
use candle_rocm_testing::process;
use candle_rocm_tests::device;

use super::inputs::{from_integers, integers, Make, INDICES, INTEGERS};

/// Names the case that the child process runs, by its place in [`cases`].
const CASE: &str = "CANDLE_ROCM_TEST_CASE";

/// What a case does on a device.
type Run = Box<dyn Fn(&Device) -> candle_core::Result<Tensor>>;

/// Something that ends with an error.
struct Case {
    name: String,
    /// The kernel that traps.
    kernel: String,
    /// What the error says, one of these: of several bad elements any may be the first.
    sentences: Vec<String>,
    run: Run,
}

/// An operator that takes places from indices.
struct ByIndex {
    name: &'static str,
    /// What its kernels' names begin with.
    kernels: &'static str,
    /// On a 4 x 3 table with a vector of two indices.
    run: fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>,
    /// What the second index is outside of.
    outside: &'static str,
    /// Where that index is in the tensor of indices.
    positions: &'static [usize],
}

const BY_INDEX: [ByIndex; 5] = [
    ByIndex {
        name: "index_select",
        kernels: "is_",
        run: |table, ids| table.index_select(ids, 0),
        outside: "4 rows",
        positions: &[1],
    },
    ByIndex {
        name: "gather",
        kernels: "gather_",
        run: |table, ids| table.gather(&for_each_column(ids)?, 0),
        outside: "a dimension of 4",
        positions: &[3, 4, 5],
    },
    ByIndex {
        name: "scatter",
        kernels: "s_",
        run: |table, ids| table.scatter(&for_each_column(ids)?, &table.narrow(0, 0, 2)?, 0),
        outside: "a dimension of 4",
        positions: &[3, 4, 5],
    },
    ByIndex {
        name: "scatter_add",
        kernels: "sa_",
        run: |table, ids| table.scatter_add(&for_each_column(ids)?, &table.narrow(0, 0, 2)?, 0),
        outside: "a dimension of 4",
        positions: &[3, 4, 5],
    },
    ByIndex {
        name: "index_add",
        kernels: "ia_",
        run: |table, ids| table.index_add(ids, &table.narrow(0, 0, 2)?, 0),
        outside: "4 rows",
        positions: &[1],
    },
];

/// Two indices for each of the table's columns.
fn for_each_column(ids: &Tensor) -> candle_core::Result<Tensor> {
    ids.reshape((2, 1))?.broadcast_as((2, 3))?.contiguous()
}

/// One past the end, far past it, and negative.
fn bad_indices(dtype: DType) -> &'static [i64] {
    match dtype {
        DType::U8 => &[4, 254],
        DType::U32 => &[4, u32::MAX as i64 - 1],
        _ => &[4, -1, i64::MAX - 1, i64::MIN],
    }
}

fn by_index(operator: &'static ByIndex, dtype: DType, index: i64) -> Result<Case> {
    let ids = from_integers(&[1, index], dtype)?;
    let (name, outside, dtype) = (operator.name, operator.outside, dtype.as_str());
    let sentence = |at| {
        format!("{name}: index {index} at position {at} is outside of {outside} (ids: {dtype})")
    };
    Ok(Case {
        name: format!("{name} by {dtype} {index}"),
        kernel: symbol("indexing", &format!("{}{dtype}_f32", operator.kernels)).into_owned(),
        sentences: operator.positions.iter().map(sentence).collect(),
        run: Box::new(move |gpu| {
            let table = Tensor::ones((4, 3), DType::F32, gpu)?;
            (operator.run)(&table, &ids.to_device(gpu)?)
        }),
    })
}

/// Ids in many workgroups, most of them outside of the table, each in another way: what is said is of one of them.
fn many_bad() -> Result<Case> {
    const IDS: i64 = 12_000;
    let id = |at| if at % 3 == 0 { at % 4 } else { 32_000 + at };
    let ids: Vec<i64> = (0..IDS).map(id).collect();
    let sentence = |at| {
        let id = id(at);
        format!("index_select: index {id} at position {at} is outside of 32,000 rows (ids: u32)")
    };
    let ids = from_integers(&ids, DType::U32)?;
    Ok(Case {
        name: "many bad ids".to_string(),
        kernel: symbol("indexing", "is_u32_f32").into_owned(),
        sentences: (0..IDS).filter(|at| at % 3 != 0).map(sentence).collect(),
        run: Box::new(move |gpu| {
            let table = Tensor::ones((32_000, 2), DType::F32, gpu)?;
            table.index_select(&ids.to_device(gpu)?, 0)
        }),
    })
}

/// Elements that divisors are made of: more than a launch has threads, and no multiple of a vector.
const DIVISORS: usize = 12_007;

/// Which of them is zero, and the layout.
const DIVISOR_LAYOUTS: [(&str, usize, Make); 6] = [
    ("in a vector", 5_003, |x| Ok(x.clone())),
    ("past the last vector", DIVISORS - 1, |x| Ok(x.clone())),
    ("in a tile", 5_003, |x| {
        x.narrow(0, 0, 12_000)?.reshape((1_000, 12))?.t()
    }),
    ("in rows of vectors", 5_003, |x| {
        x.narrow(0, 0, 12_000)?
            .reshape((3, 4_000))?
            .narrow(1, 16, 3_968)
    }),
    ("in odd rows", 5_003, |x| {
        x.narrow(0, 1, 12_006)?
            .reshape((2, 6_003))?
            .narrow(1, 1, 6_001)
    }),
    ("in a broadcast", 7, |x| {
        x.narrow(0, 0, 12)?.broadcast_as((1_000, 12))
    }),
];

fn division(dtype: DType, (name, zero, layout): (&str, usize, Make)) -> Result<Case> {
    let mut values = vec![3; DIVISORS];
    values[zero] = 0;
    let divisors = from_integers(&values, dtype)?;
    let zeroes = integers(&layout(&divisors)?)?;
    let zeroes = zeroes.iter().enumerate().filter(|(_, &value)| value == 0);
    let dtype = dtype.as_str();
    let sentence = |(at, _)| format!("div: division by zero at position {at} (of {dtype})");
    Ok(Case {
        name: format!("div of {dtype}, the zero {name}"),
        kernel: format!("bdiv_{dtype}"),
        sentences: zeroes.map(sentence).collect(),
        run: Box::new(move |gpu| {
            let divisors = layout(&divisors.to_device(gpu)?)?;
            divisors.ones_like()?.div(&divisors)
        }),
    })
}

fn cases() -> Result<Vec<Case>> {
    let mut cases = vec![many_bad()?];
    for operator in &BY_INDEX {
        for dtype in INDICES {
            for &index in bad_indices(dtype) {
                cases.push(by_index(operator, dtype, index)?);
            }
        }
    }
    for dtype in INTEGERS {
        cases.push(division(dtype, DIVISOR_LAYOUTS[0])?);
    }
    for layout in DIVISOR_LAYOUTS {
        // The widest vector, and the narrowest.
        cases.push(division(DType::U8, layout)?);
        cases.push(division(DType::I64, layout)?);
    }
    Ok(cases)
}

fn read(result: &Tensor) -> candle_core::Result<Vec<f64>> {
    result
        .to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .flatten_all()?
        .to_vec1()
}

#[test]
#[ignore = "a case of each_is_an_error_that_says_why, which runs it in a process of its own"]
fn one_case() -> Result<()> {
    let case = std::env::var(CASE).with_context(|| format!("{CASE} names the case"))?;
    let gpu = device()?;
    let cases = cases()?;
    let case = cases.get(case.parse::<usize>()?).context("no such case")?;
    match (case.run)(&gpu).and_then(|result| read(&result)) {
        Ok(values) => println!("VALUES {values:?}"),
        Err(error) => println!("ERROR {}", error.to_string().replace('\n', " ")),
    }
    // The GPU is lost, and whatever it is asked says so.
    let later = Tensor::ones(3, DType::F32, &gpu)
        .and_then(|ones| ones.affine(2., 1.))
        .and_then(|result| read(&result));
    match later {
        Ok(values) => println!("LATER {values:?}"),
        Err(error) => println!("LATER ERROR {}", error.to_string().replace('\n', " ")),
    }
    Ok(())
}

#[test]
fn each_is_an_error_that_says_why() -> Result<()> {
    // Hardware says that a kernel failed, not which.
    let emulated = device()?.as_rocm_device()?.runtime_kind() == RuntimeKind::Emulator;
    for (number, case) in cases()?.iter().enumerate() {
        let name = &case.name;
        let mut command = process::command_of("out_of_range::one_case");
        let ended = process::run(command.env(CASE, number.to_string()), process::PATIENCE);
        ensure!(ended.end == process::PASSED, "{name}: {}", ended.text());
        let text = &ended.stdout;
        for start in ["ERROR ", "LATER ERROR "] {
            let line = text
                .lines()
                .find_map(|line| line.find(start).map(|at| &line[at..]))
                .with_context(|| format!("{name}: no {start}, but {text}"))?;
            ensure!(
                !emulated || line.contains(&case.kernel),
                "{name}: {line} does not name {}",
                case.kernel
            );
            ensure!(
                case.sentences
                    .iter()
                    .any(|sentence| line.contains(sentence)),
                "{name}: {line} says none of {:?}",
                &case.sentences[..case.sentences.len().min(3)]
            );
        }
    }
    Ok(())
}

/// What the child process of two GPUs is told to fail first.
const TWO: &str = "out_of_range::each_gpu_says_what_its_own_kernel_did";

#[test]
fn each_gpu_says_what_its_own_kernel_did() -> Result<()> {
    if device()?.as_rocm_device()?.runtime_kind() != RuntimeKind::Emulator {
        return Ok(());
    }
    process::alone(TWO, &[("ROCM_EMU_ARCH", "gfx1100,gfx942")], || {
        fail_on_two().expect("both GPUs say why");
    });
    Ok(())
}

fn fail_on_two() -> Result<()> {
    let first = device()?;
    let second = Device::new_rocm(1)?;
    let select = |gpu: &Device, ids: &[u32]| {
        let table = Tensor::ones((4, 3), DType::F32, gpu)?;
        read(&table.index_select(&Tensor::new(ids, gpu)?, 0)?)
    };
    let wrong = |gpu: &Device, ids: &[u32]| -> Result<String> {
        let error = select(gpu, ids).err().context("a bad id was survived")?;
        Ok(error.to_string())
    };
    // Both have the kernels, and nothing to say.
    for gpu in [&first, &second] {
        ensure!(select(gpu, &[3, 0])? == [1.; 6], "good ids");
    }
    let said = wrong(&second, &[0, 0, 9])?;
    ensure!(said.contains("index 9 at position 2"), "{said}");
    // The other one works, and what it later does wrong is its own.
    ensure!(select(&first, &[1, 2])? == [1.; 6], "the other GPU");
    let said = wrong(&first, &[8])?;
    ensure!(said.contains("index 8 at position 0"), "{said}");
    ensure!(!said.contains("index 9"), "{said}");
    let said = wrong(&second, &[7])?;
    ensure!(said.contains("index 9 at position 2"), "{said}");
    ensure!(!said.contains("index 8"), "{said}");
    Ok(())
}
