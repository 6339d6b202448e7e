//! Messages, broadcasts and means of gradients between two emulated GPUs, a thread for each.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::VarMap;
use candle_rocm_backend::communication::{Gradients, Id, Rank};
use candle_rocm_backend::graph::Step;
use candle_rocm_backend::{ops, runtime, DeviceExt as _, RuntimeKind};
use candle_rocm_testing::process::{alone, gpus_alike, GPUS};

const DTYPES: [DType; 8] = [
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::U8,
    DType::U32,
    DType::I32,
    DType::I64,
];

/// Small whole numbers, which every dtype has, and other ones for each seed.
fn numbers(seed: usize, (rows, columns): (usize, usize), dtype: DType) -> Result<Tensor> {
    let all = (0..rows * columns).map(|n| ((n * 7 + seed * 13) % 101) as f32);
    let all = Tensor::from_vec(all.collect(), (rows, columns), &Device::Cpu)?;
    all.to_dtype(dtype)
}

fn is_same(found: &Tensor, expected: &Tensor) -> Result<bool> {
    let found = found.to_device(&Device::Cpu)?;
    let of = |x: &Tensor| x.to_dtype(DType::F64)?.to_vec2::<f64>();
    Ok(found.dtype() == expected.dtype() && of(&found)? == of(expected)?)
}

/// What both ranks do; `shape` is of a message of few bytes, or of one that travels in pieces.
fn exchange(rank: &Rank, dtype: DType, shape: (usize, usize)) -> Result<()> {
    let (number, device) = (rank.number(), rank.device());
    let other = 1 - number;
    // A part of a tensor, and not contiguous.
    let whole = numbers(number, (shape.1, shape.0 + 1), dtype)?.to_device(&device)?;
    let own = whole.narrow(1, 1, shape.0)?.t()?;
    let expected = numbers(other, (shape.1, shape.0 + 1), dtype)?;
    let expected = expected.narrow(1, 1, shape.0)?.t()?.contiguous()?;
    let found = match number {
        0 => {
            rank.send(&own, 1)?;
            rank.recv(shape, dtype, 1)?
        }
        _ => {
            let found = rank.recv(shape, dtype, 0)?;
            rank.send(&own, 0)?;
            found
        }
    };
    assert!(
        is_same(&found, &expected)?,
        "{dtype:?} {shape:?}, rank {number}"
    );
    for root in 0..2 {
        let found = rank.broadcast(Some(&own), shape, dtype, root)?;
        let expected = match root == number {
            true => own.to_device(&Device::Cpu)?.contiguous()?,
            false => expected.clone(),
        };
        assert!(
            is_same(&found, &expected)?,
            "{dtype:?} {shape:?} from {root}"
        );
    }
    Ok(())
}

/// A step that sends, receives and tells all, run again and again.
fn captured(rank: &Rank) -> Result<()> {
    let x = numbers(3, (2, 5), DType::F32)?.to_device(&rank.device())?;
    let step = || match rank.number() {
        0 => {
            rank.send(&x, 1)?;
            rank.broadcast(None, (2, 5), DType::F32, 1)
        }
        _ => {
            let doubled = (rank.recv((2, 5), DType::F32, 0)? * 2.)?;
            rank.broadcast(Some(&doubled), (2, 5), DType::F32, 1)
        }
    };
    let (first, step) = Step::capture(&rank.device(), step)?;
    let expected = (numbers(3, (2, 5), DType::F32)? * 2.)?;
    assert!(is_same(&first, &expected)?);
    for _ in 0..3 {
        assert!(is_same(step.run()?, &expected)?);
    }
    Ok(())
}

/// A layer's sum, the residual and the norm: of rows that one launch takes, of more, and of a dtype without it.
fn normed(rank: &Rank) -> Result<()> {
    let (number, device) = (rank.number(), rank.device());
    for (rows, columns, dtype) in [
        (1, 256, DType::F32),
        (3, 64, DType::F16),
        (2, 72, DType::BF16),
        (2, 7, DType::F32),
        (1500, 256, DType::F32),
        (2, 64, DType::F64),
    ] {
        let of = |seed: usize| numbers(seed, (rows, columns), dtype);
        let weight = numbers(5, (1, columns), dtype)?.squeeze(0)?;
        // Whole numbers up to 303: f16 has them, and bf16's are rounded once.
        let sum = [of(0)?, of(1)?, of(2)?].map(|x| x.to_dtype(DType::F64));
        let [one, other, residual] = sum;
        let sum = ((one? + other?)? + residual?)?.to_dtype(dtype)?;
        let part = of(number)?.to_device(&device)?;
        let residual = of(2)?.to_device(&device)?;
        let weight = weight.to_device(&device)?;
        assert!(
            is_same(&rank.sum_add(&part, &residual)?, &sum)?,
            "{rows} x {columns}"
        );
        let (found, normed) = rank.sum_add_rms_norm(&part, &residual, &weight, 1e-5)?;
        assert!(is_same(&found, &sum)?, "{rows} x {columns}, {dtype:?}");
        let expected = ops::rms_norm(&sum.to_device(&device)?, &weight, 1e-5)?;
        let apart = (normed.to_dtype(DType::F64)? - expected.to_dtype(DType::F64)?)?.abs()?;
        let apart = (apart / expected.to_dtype(DType::F64)?.abs()?.maximum(1e-3)?)?;
        // Sums of squares in another order, and a rounding to the other side.
        let unit = [(DType::BF16, 1. / 128.), (DType::F16, 1. / 1024.)];
        let unit = unit
            .iter()
            .find(|(of, _)| *of == dtype)
            .map_or(1e-5, |it| it.1);
        let apart = apart.flatten_all()?.max(0)?.to_scalar::<f64>()?;
        assert!(apart <= unit, "{rows} x {columns}, {dtype:?}: {apart}");
    }
    let x = numbers(0, (2, 8), DType::F32)?.to_device(&device)?;
    let weight = Tensor::ones(7, DType::F32, &device)?;
    let error = rank.sum_add_rms_norm(&x, &x, &weight, 1e-5).unwrap_err();
    let expected = "a norm's weight of [7], F32";
    assert!(error.to_string().contains(expected), "{error}");
    let half = x.to_dtype(DType::F16)?;
    let error = rank.sum_add(&x, &half).unwrap_err().to_string();
    assert!(error.contains("a residual of [2, 8], F16"), "{error}");
    Ok(())
}

fn refused(rank: &Rank) -> Result<()> {
    let x = numbers(0, (2, 5), DType::F32)?.to_device(&rank.device())?;
    let (number, other) = (rank.number(), 1 - rank.number());
    let itself = format!("rank {number} is this one");
    let host = numbers(0, (2, 5), DType::F32)?;
    let eight_bits = Tensor::zeros(4, DType::F8E4M3, &rank.device())?;
    for (result, expected) in [
        (rank.send(&x, 2), "send: there is no rank 2"),
        (rank.send(&x, number), itself.as_str()),
        (rank.recv(3, DType::F32, number).map(drop), itself.as_str()),
        (rank.send(&host, other), "send: x is on Cpu"),
        (rank.send(&eight_bits, other), "which ranks do not exchange"),
        (
            rank.broadcast(None, 3, DType::F32, 5).map(drop),
            "no rank 5",
        ),
        (
            rank.broadcast(None, 3, DType::F32, number).map(drop),
            "gives None",
        ),
        (
            rank.broadcast(Some(&x), 3, DType::F32, number).map(drop),
            "where all expect [3]",
        ),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // Nothing travels.
    match number {
        0 => rank.send(&Tensor::zeros((0, 3), DType::F32, &rank.device())?, 1)?,
        _ => assert_eq!(rank.recv((0, 3), DType::F32, 0)?.dims(), [0, 3]),
    }
    Ok(())
}

/// Gradients of sum(var * factor), which are the factor: a part of a larger tensor, of each dtype, one of three variables
/// without any, and buckets that hold all, some and none of them.
fn average(device: &Device, number: usize, id: Id, bucket: usize) -> Result<()> {
    let dtypes = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let var = |n: usize| Var::zeros((n % 5 + 1, 7), dtypes[n / 2 % 4], device);
    let vars: Vec<Var> = (0..24).map(var).collect::<Result<_>>()?;
    let factor = |rank: usize, n: usize| {
        let dims = vars[n].dims();
        numbers(rank + 3 * n, (dims[1], dims[0]), vars[n].dtype())
    };
    let has_gradient = |n: &usize| n % 3 != 2;
    let rank = Rank::join_beside(device, number, 2, id)?;
    let mut gradients = Gradients::new(rank, vars.clone())?.with_bucket_bytes(bucket);
    for _ in 0..2 {
        let mut loss = Tensor::zeros((), DType::F32, device)?;
        for n in (0..vars.len()).filter(has_gradient) {
            let factor = factor(number, n)?.to_device(device)?.t()?;
            let product = (vars[n].as_tensor() * factor)?.sum_all()?;
            loss = (loss + product.to_dtype(DType::F32)?)?;
        }
        let mut found = loss.backward()?;
        gradients.average(&mut found)?;
        for (n, var) in vars.iter().enumerate() {
            let Some(gradient) = found.get(var) else {
                assert!(!has_gradient(&n), "{n}");
                continue;
            };
            // Halves of whole numbers up to 202, which bf16 rounds: once, of the f32 sum.
            let [one, other] = [0, 1].map(|rank| factor(rank, n)?.t()?.to_dtype(DType::F64));
            let mean = ((one? + other?)? / 2.)?.to_dtype(var.dtype())?;
            assert!(is_same(gradient, &mean)?, "{n}, {bucket}: {gradient}");
        }
    }
    // Now one has a gradient that had none.
    let mut other = vars[2].as_tensor().sum_all()?.backward()?;
    let error = gradients.average(&mut other).unwrap_err().to_string();
    assert!(
        error.contains("variable 0 of shape [1, 7] has no gradient, and had a"),
        "{error}"
    );
    Ok(())
}

/// Variables of another shape, another number of them, and gradients of others.
fn differ(device: &Device, number: usize, ids: [Id; 3]) -> Result<()> {
    let vars = |count: usize, columns: usize| -> Result<Vec<Var>> {
        let var = |n: usize| Var::ones((n + 1, columns), DType::F32, device);
        (0..count).map(var).collect()
    };
    let join = |at: usize| Rank::join(device, number, 2, ids[at]);
    let (other, is_second) = (1 - number, number == 1);
    let shape = Gradients::new(join(0)?, vars(3, 4 + number)?).unwrap_err();
    let shape = shape.to_string();
    assert!(
        shape.contains(&format!("variable 0 of rank {other} is another")),
        "{shape}"
    );
    let count = Gradients::new(join(1)?, vars(3 + number, 4)?).unwrap_err();
    let expected = format!("rank {other} has {} variables", 4 - number);
    assert!(count.to_string().contains(&expected), "{count}");
    let vars = vars(2, 4)?;
    // Whatever the order of the map's variables: names decide.
    let map = VarMap::new();
    if let Ok(mut named) = map.data().lock() {
        let named_vars = vars.iter().enumerate();
        named.extend(named_vars.map(|(n, var)| (format!("layer {n}"), var.clone())));
    }
    let mut gradients = Gradients::of_map(join(2)?, &map)?;
    let mut of_one = vars[usize::from(is_second)].sum_all()?.backward()?;
    let error = gradients.average(&mut of_one).unwrap_err().to_string();
    assert!(
        error.contains(&format!("variable layer 0 of rank {other}")),
        "{error}"
    );
    Ok(())
}

#[test]
fn two_gpus_average_gradients() {
    on_two_gpus("two_gpus_average_gradients", |device, number, ids| {
        for (id, bucket) in ids.into_iter().zip([1, 100, 1 << 20]) {
            average(device, number, id, bucket)?;
        }
        differ(device, number, [ids[3], ids[4], ids[5]])
    });
}

#[test]
fn two_gpus_exchange_tensors() {
    on_two_gpus("two_gpus_exchange_tensors", |device, number, ids| {
        let rank = Rank::join(device, number, 2, ids[0])?;
        refused(&rank)?;
        for dtype in DTYPES {
            exchange(&rank, dtype, (3, 7))?;
        }
        // 480 KB: more than both slots of a channel.
        exchange(&rank, DType::F32, (300, 400))?;
        normed(&rank)?;
        captured(&rank)
    });
}

/// A test's body in a thread for each of two emulated GPUs, with identifiers that both know.
fn on_two_gpus(test: &str, body: fn(&Device, usize, [Id; 6]) -> Result<()>) {
    let gpus = gpus_alike(2);
    let variables = [
        (GPUS, gpus.as_str()),
        ("CANDLE_ROCM_COMM", "own"),
        ("CANDLE_ROCM_GRAPHS", "1"),
    ];
    alone(test, &variables, || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        let ids = [(); 6].map(|()| Rank::new_id().unwrap());
        std::thread::scope(|scope| {
            for number in 0..2 {
                scope.spawn(move || {
                    let device = Device::new_rocm_with_stream(number).unwrap();
                    body(&device, number, ids).unwrap();
                });
            }
        });
    });
}
