//! Host threads that panic with tensors, buffers, streams and captures in their hands: the others do not notice.

use std::thread::ScopedJoinHandle;

use anyhow::{ensure, Result};
use candle_core::{CpuStorage, CudaStorage, CustomOp1, DType, Device, Layout, Shape, Tensor};
use candle_rocm_backend::DeviceExt as _;
use candle_rocm_runtime::cuda_names::CUstreamCaptureMode as Mode;
use candle_rocm_runtime::{LaunchConfig, PushKernelArg as _};

use super::amount::{self, amount, context, shared};
use super::inputs::{floats, many_numbers};
use super::patterns::{ensure_all, Patterns};

/// What every panic here says, so that another one is not taken for it.
const ON_PURPOSE: &str = "a panic on purpose";

/// An operator that panics while candle-core holds its input.
struct Panics;

impl CustomOp1 for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        panic!("{ON_PURPOSE}")
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> candle_core::Result<(CudaStorage, Shape)> {
        panic!("{ON_PURPOSE}")
    }
}

fn ensure_panicked<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<()> {
    match thread.join() {
        Ok(Ok(_)) => anyhow::bail!("the thread did not panic"),
        Ok(Err(error)) => Err(error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
            ensure!(
                text.as_deref() == Some(ON_PURPOSE),
                "another panic: {text:?}"
            );
            Ok(())
        }
    }
}

fn program(device: &Device, x: &Tensor) -> Result<Vec<f64>> {
    let product = x.to_device(device)?.matmul(&x.t()?.to_device(device)?)?;
    floats(&product.tanh()?)
}

#[test]
fn panicking_threads_leave_candles_device_usable() -> Result<()> {
    let _gpu = shared();
    let device = Device::new_rocm_with_stream(0)?;
    let x = many_numbers(DType::F32, 3, 24 * 24)?.reshape((24, 24))?;
    let shared_tensor = x.to_device(&device)?;
    let expected = program(&device, &x)?;
    for round in 0..amount(50, 10)? {
        std::thread::scope(|scope| -> Result<()> {
            let worker = scope.spawn(|| -> Result<()> {
                for _ in 0..4 {
                    ensure!(
                        program(&device, &x)? == expected,
                        "round {round}: other numbers"
                    );
                }
                Ok(())
            });
            let panicking = [
                // Results on their way, and a clone of a shared tensor.
                scope.spawn(|| -> Result<()> {
                    let _kept = shared_tensor.clone();
                    let _pending = (shared_tensor.matmul(&shared_tensor)? * 2.0)?;
                    panic!("{ON_PURPOSE}")
                }),
                // Inside an operator, while the shared tensor's storage is borrowed.
                scope.spawn(|| -> Result<()> {
                    shared_tensor.apply_op1_no_bwd(&Panics)?;
                    Ok(())
                }),
                // A device and all its handles.
                scope.spawn(|| -> Result<()> {
                    let own = Device::new_rocm_with_stream(0)?;
                    let _moved = shared_tensor.to_device(&own)?.sqr()?;
                    panic!("{ON_PURPOSE}")
                }),
                // Random numbers come from a generator behind a lock.
                scope.spawn(|| -> Result<()> {
                    let _random = Tensor::rand(0f32, 1.0, (100,), &device)?;
                    panic!("{ON_PURPOSE}")
                }),
            ];
            panicking.into_iter().try_for_each(ensure_panicked)?;
            worker.join().expect("the thread returns its error")
        })?;
        ensure!(
            floats(&shared_tensor)? == floats(&x)?,
            "round {round}: the shared tensor changed"
        );
        let random = floats(&Tensor::rand(0f32, 1.0, (100,), &device)?)?;
        ensure!(random.iter().all(|value| (0.0..1.0).contains(value)));
    }
    Ok(())
}

#[test]
fn panicking_threads_leave_the_runtime_usable() -> Result<()> {
    let _gpu = shared();
    let context = context()?;
    let patterns = Patterns::new(&context)?;
    let function = context.kernel(&candle_rocm_kernels::FILL, "const_set_u32")?;
    let stream = context.new_stream()?;
    let words = 1000;
    for round in 0..amount(50, 10)? as u32 {
        let mut kept = stream.alloc_zeros::<u32>(words)?;
        patterns.fill(&stream, &mut kept, round)?;
        std::thread::scope(|scope| -> Result<()> {
            let panicking = [
                // A buffer with work on it, on a stream that goes as well.
                scope.spawn(|| -> Result<()> {
                    let own = context.new_stream()?;
                    let mut buffer = own.alloc_zeros::<u32>(words)?;
                    patterns.fill(&own, &mut buffer, !round)?;
                    panic!("{ON_PURPOSE}")
                }),
                // A launch half made.
                scope.spawn(|| -> Result<()> {
                    let own = context.new_stream()?;
                    let mut buffer = own.alloc_zeros::<u32>(words)?;
                    let (count, none) = (buffer.len(), 0usize);
                    let mut launch = own.launch_builder(&function);
                    launch.arg(&count).arg(&none).arg(&none);
                    launch.arg(&round).arg(&mut buffer);
                    let _config = LaunchConfig::for_num_elems(words as u32);
                    panic!("{ON_PURPOSE}")
                }),
                // A capture that nobody ends.
                scope.spawn(|| -> Result<()> {
                    let alone = amount::context()?;
                    // SAFETY: one stream. A wait for an event from before the capture would end it.
                    unsafe { alone.disable_event_tracking() };
                    let own = alone.new_stream()?;
                    let mut buffer = own.alloc_zeros::<u32>(words)?;
                    own.begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
                    own.memset_zeros(&mut buffer)?;
                    panic!("{ON_PURPOSE}")
                }),
                // The reader of a shared buffer.
                scope.spawn(|| -> Result<()> {
                    let own = context.per_thread_stream();
                    let _copy = own.clone_dtod(&kept)?;
                    panic!("{ON_PURPOSE}")
                }),
            ];
            panicking.into_iter().try_for_each(ensure_panicked)
        })?;
        ensure_all(&stream.clone_dtoh(&kept)?, round, || {
            format!("round {round}: the buffer that all share")
        })?;
    }
    context.synchronize()?;
    Ok(())
}
