//! Messages and broadcasts of tensors between two emulated GPUs, a thread for each.

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::graph::Step;
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};
use candle_rocm_testing::process::alone;

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

#[test]
fn two_gpus_exchange_tensors() {
    let arch = std::env::var("ROCM_EMU_ARCH").unwrap_or("gfx1100".into());
    let archs = [arch.split(',').next().unwrap(); 2].join(",");
    let variables = [
        ("ROCM_EMU_ARCH", archs.as_str()),
        ("CANDLE_ROCM_COMM", "own"),
        ("CANDLE_ROCM_GRAPHS", "1"),
    ];
    alone("two_gpus_exchange_tensors", &variables, || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        let id = Rank::new_id().unwrap();
        std::thread::scope(|scope| {
            for number in 0..2 {
                scope.spawn(move || {
                    let device = Device::new_rocm_with_stream(number).unwrap();
                    let rank = Rank::join(&device, number, 2, id).unwrap();
                    refused(&rank).unwrap();
                    for dtype in DTYPES {
                        exchange(&rank, dtype, (3, 7)).unwrap();
                    }
                    // 480 KB: more than both slots of a channel.
                    exchange(&rank, DType::F32, (300, 400)).unwrap();
                    captured(&rank).unwrap();
                });
            }
        });
    });
}
