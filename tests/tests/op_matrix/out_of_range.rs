//! Indices outside a dimension and division by an integer zero: an error that names the kernel, and no access.
//!
//! After such an error a process cannot use its GPU, so each case is a process of its own.

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _, RuntimeKind};
use candle_rocm_testing::process;
use candle_rocm_tests::device;

use super::inputs::{from_integers, INDICES, INTEGERS};

/// Names the case that the child process runs.
const CASE: &str = "CANDLE_ROCM_TEST_CASE";

type ByIndex = fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>;

/// Name, kernel's prefix, and the operator on a 4 x 3 table with a vector of two indices.
const BY_INDEX: [(&str, &str, ByIndex); 5] = [
    ("index_select", "is_", |table, ids| {
        table.index_select(ids, 0)
    }),
    ("gather", "gather_", |table, ids| {
        let ids = ids.reshape((2, 1))?.broadcast_as((2, 3))?.contiguous()?;
        table.gather(&ids, 0)
    }),
    ("scatter", "s_", |table, ids| {
        let ids = ids.reshape((2, 1))?.broadcast_as((2, 3))?.contiguous()?;
        table.scatter(&ids, &table.narrow(0, 0, 2)?, 0)
    }),
    ("scatter_add", "sa_", |table, ids| {
        let ids = ids.reshape((2, 1))?.broadcast_as((2, 3))?.contiguous()?;
        table.scatter_add(&ids, &table.narrow(0, 0, 2)?, 0)
    }),
    ("index_add", "ia_", |table, ids| {
        table.index_add(ids, &table.narrow(0, 0, 2)?, 0)
    }),
];

/// One past the end, far past it, and negative.
fn bad_indices(dtype: DType) -> &'static [i64] {
    match dtype {
        DType::U8 => &[4, 254],
        DType::U32 => &[4, u32::MAX as i64 - 1],
        _ => &[4, -1, i64::MAX - 1, i64::MIN],
    }
}

/// Case and kernel.
fn cases() -> Vec<(String, String)> {
    let mut cases = Vec::new();
    for (name, prefix, _) in BY_INDEX {
        for dtype in INDICES {
            for index in bad_indices(dtype) {
                let dtype = dtype.as_str();
                cases.push((
                    format!("{name} {dtype} {index}"),
                    format!("{prefix}{dtype}_f32"),
                ));
            }
        }
    }
    for dtype in INTEGERS {
        let dtype = dtype.as_str();
        cases.push((format!("div {dtype} 0"), format!("bdiv_{dtype}")));
    }
    cases
}

/// What the child process does: the operator, then a read of its result.
fn run_case(case: &str) -> Result<candle_core::Result<Vec<f64>>> {
    let [name, dtype, value] = case.split(' ').collect::<Vec<_>>()[..] else {
        anyhow::bail!("{case}: not a case");
    };
    let dtype: DType = dtype.parse()?;
    let value: i64 = value.parse()?;
    let gpu = device()?;
    let result = if name == "div" {
        let values = from_integers(&[7, value], dtype)?.to_device(&gpu)?;
        Tensor::ones(2, dtype, &gpu)?.div(&values)
    } else {
        let (_, _, operator) = BY_INDEX
            .into_iter()
            .find(|(known, _, _)| *known == name)
            .context("no such operator")?;
        let table = Tensor::ones((4, 3), DType::F32, &gpu)?;
        let ids = from_integers(&[1, value], dtype)?.to_device(&gpu)?;
        operator(&table, &ids)
    };
    Ok(result.and_then(|result| {
        result
            .to_device(&Device::Cpu)?
            .to_dtype(DType::F64)?
            .flatten_all()?
            .to_vec1()
    }))
}

#[test]
#[ignore = "a case of each_is_an_error_that_names_the_kernel, which runs it in a process of its own"]
fn one_case() -> Result<()> {
    let case = std::env::var(CASE).with_context(|| format!("{CASE} names the case"))?;
    match run_case(&case)? {
        Ok(values) => println!("VALUES {values:?}"),
        Err(error) => println!("ERROR {}", error.to_string().replace('\n', " ")),
    }
    Ok(())
}

#[test]
fn each_is_an_error_that_names_the_kernel() -> Result<()> {
    // Hardware says that a kernel failed, not which.
    let emulated = device()?.as_rocm_device()?.runtime_kind() == RuntimeKind::Emulator;
    for (case, kernel) in cases() {
        let mut command = process::command_of("out_of_range::one_case");
        let ended = process::run(command.env(CASE, &case), process::PATIENCE);
        ensure!(ended.end == process::PASSED, "{case}: {}", ended.text());
        let text = &ended.stdout;
        let line = text
            .lines()
            .find_map(|line| line.find("ERROR ").map(|at| &line[at..]))
            .with_context(|| format!("{case}: no error, but {text}"))?;
        ensure!(
            !emulated || line.contains(&kernel),
            "{case}: {line} does not name {kernel}"
        );
    }
    Ok(())
}
