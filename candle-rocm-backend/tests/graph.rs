//! Captured steps: what they give, what they enqueue, and what cannot be captured.

mod common;

use std::panic::{catch_unwind, AssertUnwindSafe};

use candle_core::{DType, Device, Result, Tensor, D};
use candle_nn::{ops, Module};
use candle_rocm_backend::graph::{are_on, recorded, Input, Step};
use candle_rocm_backend::DeviceExt as _;
use candle_rocm_testing::process::{alone, is_child};
use candle_rocm_testing::stand_in::library;
use common::{numbers, Random};

/// A stream of its own, and the calling thread's default one; with and without events that order streams.
fn devices() -> Result<Vec<(&'static str, Device)>> {
    let default = common::device()?;
    let plain = Device::new_rocm_with_stream(0)?;
    // SAFETY: all work of this device runs on its one stream.
    unsafe { plain.as_rocm_device()?.disable_event_tracking() };
    Ok(vec![
        ("the default stream", default),
        ("its own stream", Device::new_rocm_with_stream(0)?),
        ("its own stream, untracked", plain),
    ])
}

/// A layer as models have it: a norm, two products, a softmax, and a sum into the residual.
struct Layer {
    scale: Tensor,
    up: candle_nn::Linear,
    down: candle_nn::Linear,
}

impl Layer {
    const WIDTH: usize = 32;

    fn new(device: &Device) -> Result<Self> {
        let mut random = Random::new(7);
        let mut matrix = |rows: usize, columns: usize| {
            let values = common::normal(&mut random, rows * columns);
            (Tensor::from_vec(values, (rows, columns), device)? * 0.2)?.contiguous()
        };
        Ok(Self {
            scale: matrix(1, Self::WIDTH)?.flatten_all()?,
            up: candle_nn::Linear::new(matrix(64, Self::WIDTH)?, None),
            down: candle_nn::Linear::new(matrix(Self::WIDTH, 64)?, None),
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.up.forward(&ops::rms_norm(x, &self.scale, 1e-5)?)?;
        let x = (x + self.down.forward(&hidden.silu()?)?)?;
        ops::softmax(&x, D::Minus1)
    }
}

fn inputs(device: &Device, count: usize) -> Result<Vec<Tensor>> {
    let mut random = Random::new(3);
    let mut input = |_| Tensor::from_vec(common::normal(&mut random, 2 * 32), (2, 32), device);
    (0..count).map(&mut input).collect()
}

#[test]
fn runs_give_what_eager_calls_give_bit_by_bit() -> Result<()> {
    for (name, device) in devices()? {
        let layer = Layer::new(&device)?;
        let inputs = inputs(&device, 4)?;
        let eager = inputs.iter().map(|x| numbers(&layer.forward(x)?));
        let eager = eager.collect::<Result<Vec<_>>>()?;
        let x = Input::new(&inputs[0])?;
        let (first, step) = Step::capture(&device, || layer.forward(x.tensor()))?;
        assert_eq!(numbers(&first)?, eager[0], "{name}");
        for round in 0..3 {
            for (input, expected) in inputs.iter().zip(&eager) {
                x.set(input)?;
                assert_eq!(&numbers(step.run()?)?, expected, "{name}, round {round}");
            }
        }
        // From the host, and of a transposed tensor.
        x.set(&inputs[1].to_device(&Device::Cpu)?)?;
        assert_eq!(numbers(step.run()?)?, eager[1], "{name}");
        x.set(&inputs[2].t()?.contiguous()?.t()?)?;
        assert_eq!(numbers(step.run()?)?, eager[2], "{name}");
    }
    Ok(())
}

#[test]
fn a_step_that_changes_memory_does_so_once_a_run() -> Result<()> {
    for (name, device) in devices()? {
        let count = Input::new(&Tensor::new(0u32, &device)?)?;
        let one = Tensor::ones(1, DType::U32, &device)?;
        let advance = || {
            let place = count.tensor().flatten_all()?;
            place.slice_set(&(&place + &one)?, 0, 0)?;
            place.affine(10., 0.)
        };
        let (first, step) = Step::capture(&device, advance)?;
        assert_eq!(first.to_vec1::<u32>()?, [10], "{name}");
        for run in 2..5 {
            assert_eq!(step.run()?.to_vec1::<u32>()?, [10 * run], "{name}");
        }
        assert_eq!(count.tensor().to_scalar::<u32>()?, 4, "{name}");
    }
    Ok(())
}

#[test]
fn what_a_run_enqueues_is_counted_and_a_run_is_one_launch() -> Result<()> {
    let device = common::device()?;
    let layer = Layer::new(&device)?;
    let x = Input::new(&inputs(&device, 1)?[0])?;
    let (eager, noted) = recorded(|| layer.forward(x.tensor()));
    eager?;
    let (_, step) = Step::capture(&device, || layer.forward(x.tensor()))?;
    assert_eq!(step.enqueued().kernels, noted.kernels);
    assert!(
        noted.kernels.contains(&"rmsnorm_f32".to_owned()),
        "{noted:?}"
    );
    let (run, noted) = recorded(|| step.run().map(|_| ()));
    run?;
    assert_eq!((noted.graphs, noted.count()), (1, 1));
    Ok(())
}

/// The text of what `step` is refused with, after which the device computes as before, and captures.
fn refusal(device: &Device, step: impl Fn() -> Result<Tensor>) -> Result<String> {
    let error = Step::capture(device, step).expect_err("this cannot be captured");
    let x = Tensor::new(&[1f32, 2.], device)?;
    assert_eq!(x.sqr()?.to_vec1::<f32>()?, [1., 4.]);
    let (_, step) = Step::capture(device, || x.sqr())?;
    assert_eq!(step.run()?.to_vec1::<f32>()?, [1., 4.]);
    Ok(error.to_string())
}

#[test]
fn what_cannot_be_captured_is_named_and_leaves_the_device_as_it_was() -> Result<()> {
    for (name, device) in devices()? {
        let x = Tensor::new(&[1f32, 2., 3., 4.], &device)?;
        let text = refusal(&device, || {
            let largest = x.sqr()?.max(0)?.to_scalar::<f32>()?;
            x.affine(f64::from(largest), 0.)
        })?;
        for part in [
            "after 2 kernels, the last of them `fast_max_f32`",
            "to_cpu_storage",
        ] {
            assert!(text.contains(part), "{name}: {text}");
        }
        // More than Candle keeps for parameters, from the host.
        let large = vec![1f32; 5000];
        let text = refusal(&device, || Tensor::new(large.as_slice(), &device)?.sqr())?;
        assert!(text.contains("before its first kernel"), "{name}: {text}");
        assert!(text.contains("host"), "{name}: {text}");
        let text = refusal(&device, || x.reshape((3, 3)))?;
        assert!(text.contains("shape"), "{name}: {text}");
        let text = refusal(&device, || Ok(x.clone()))?;
        assert!(text.contains("enqueues nothing"), "{name}: {text}");
        let text = refusal(&device, || {
            Step::capture(&device, || x.sqr()).map(|(first, _)| first)?;
            let (_, inner) = Step::capture(&device, || x.sqr())?;
            inner.run().cloned()
        })?;
        assert!(text.contains("while another is"), "{name}: {text}");
    }
    let text = Step::capture(&Device::Cpu, || Ok(())).expect_err("no GPU");
    assert!(text.to_string().contains("on a GPU"), "{text}");
    Ok(())
}

#[test]
fn a_panic_in_a_step_ends_the_capture() -> Result<()> {
    for (name, device) in devices()? {
        let x = Tensor::new(&[1f32, 2.], &device)?;
        let mut calls = 0;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Step::capture(&device, || {
                calls += 1;
                assert!(calls < 2, "as it should");
                x.sqr()
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(x.sqr()?.to_vec1::<f32>()?, [1., 4.], "{name}");
        let (_, step) = Step::capture(&device, || x.sqr())?;
        assert_eq!(step.run()?.to_vec1::<f32>()?, [1., 4.], "{name}");
    }
    Ok(())
}

/// Where graphs do not see what set their inputs, capturing is refused with the way out.
#[test]
fn a_step_is_refused_where_graphs_are_wrong() {
    let path = match is_child() {
        true => "",
        false => library().to_str().expect("a path"),
    };
    let variables = [
        ("CANDLE_ROCM_RUNTIME", "amd"),
        ("CANDLE_ROCM_HIP_LIBRARY", path),
        ("ROCM_EMU_GRAPH_FAULT", "stale"),
    ];
    alone(
        "a_step_is_refused_where_graphs_are_wrong",
        &variables,
        || {
            let device = Device::new_rocm_with_stream(0).unwrap();
            let x = Tensor::new(&[1f32, 2.], &device).unwrap();
            let text = Step::capture(&device, || x.sqr()).unwrap_err().to_string();
            for part in [
                "call the function itself",
                "ROCm/hip 3887",
                "CANDLE_ROCM_GRAPHS=1",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!are_on(&device).unwrap());
        },
    );
}

/// A few elements travel as kernels' arguments, and nothing is copied.
#[test]
fn small_inputs_are_kernels_arguments() -> Result<()> {
    let device = common::device()?;
    let set = |input: &Input, value: &Tensor| -> Result<(Vec<String>, usize)> {
        let (done, noted) = recorded(|| input.set(value));
        done?;
        Ok((noted.kernels, noted.copies))
    };
    let input = Input::new(&Tensor::zeros((2, 3), DType::U32, &device)?)?;
    for (value, launches) in [([[7u32; 3]; 2], 1), ([[7; 3], [7, 9, 9]], 2)] {
        let value = Tensor::new(&value, &Device::Cpu)?;
        let kernels = vec!["const_set_u32".to_owned(); launches];
        assert_eq!(set(&input, &value)?, (kernels, 0));
        assert_eq!(input.tensor().to_vec2::<u32>()?, value.to_vec2::<u32>()?);
    }
    // Many values go by a copy to a buffer that no graph reads.
    let value = Tensor::arange(0u32, 6, &Device::Cpu)?.reshape((2, 3))?;
    assert_eq!(set(&input, &value)?, (vec!["copy2d_u32".to_owned()], 1));
    assert_eq!(input.tensor().to_vec2::<u32>()?, value.to_vec2::<u32>()?);
    Ok(())
}

#[test]
fn inputs_are_set_to_what_they_are_like() -> Result<()> {
    let device = common::device()?;
    let input = Input::new(&Tensor::zeros((2, 3), DType::F32, &device)?)?;
    for wrong in [
        Tensor::zeros((3, 2), DType::F32, &device)?,
        Tensor::zeros((2, 3), DType::F16, &device)?,
    ] {
        let text = input.set(&wrong).expect_err("another tensor").to_string();
        assert!(text.contains("[2, 3]"), "{text}");
    }
    // Its memory is its own, whatever it was made of.
    let source = Tensor::zeros((2, 3), DType::F32, &device)?;
    let input = Input::new(&source)?;
    input.set(&Tensor::ones((2, 3), DType::F32, &device)?)?;
    assert_eq!(numbers(&source)?, [0.; 6]);
    assert_eq!(numbers(input.tensor())?, [1.; 6]);
    let empty = Input::new(&Tensor::zeros((0, 3), DType::F32, &device)?)?;
    empty.set(&Tensor::zeros((0, 3), DType::F32, &device)?)?;
    Ok(())
}
