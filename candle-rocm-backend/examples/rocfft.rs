//! A Fourier transform of a tensor by AMD's rocFFT, through the crate rocm-rs: no copy, and Candle's stream.
//!
//! `SKIP_BINDGEN=1 ROCM_PATH=/opt/rocm cargo run -p candle-rocm-backend --features rocm-rs --example rocfft`

use std::f64::consts::TAU;

use candle_core::{Device, Error, Result, Tensor};
use candle_rocm_backend::{rocm_rs as lent, DeviceExt as _, RocmDevice};
use rocm_rs::hip::DeviceMemory;
use rocm_rs::rocfft::execution::ExecutionInfo;
use rocm_rs::rocfft::plan::{PlacementType, Plan, Precision, TransformType};

// rocm-rs has its names, and links nothing with SKIP_BINDGEN.
#[link(name = "rocfft")]
extern "C" {}

/// Rows, and complex numbers in each: factors of 2, 3 and 5.
const ROWS: usize = 3;
const LENGTH: usize = 240;

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let signal: Vec<f32> = (0..ROWS * LENGTH * 2)
        .map(|i| ((i * i + 3 * i) % 101) as f32 / 50.5 - 1.)
        .collect();
    // The transform is of twice the signal: of what a kernel on the stream has just written.
    let x = (Tensor::from_slice(&signal, (ROWS, LENGTH, 2), &device)? * 2.)?;
    let spectrum = transform(&x, device.as_rocm_device()?)?;
    // A Candle kernel reads what rocFFT wrote.
    let halved = (&spectrum * 0.5)?.flatten_all()?.to_vec1::<f32>()?;
    assert_eq!(
        x.flatten_all()?.to_vec1::<f32>()?,
        signal.iter().map(|v| v * 2.).collect::<Vec<_>>()
    );
    let error = relative_error(&halved, &signal);
    println!("{ROWS} transforms of {LENGTH} complex numbers by rocFFT: {error:.1e} off the sums in f64, relatively");
    // A transform of f32 rounds in each of its log2(240) < 8 steps: some 2^-24 each, and room for factors.
    assert!(error < 8. * 2f64.powi(-24), "{error:e}");
    Ok(())
}

/// The transform of each row of complex numbers.
fn transform(x: &Tensor, device: &RocmDevice) -> Result<Tensor> {
    rocm_rs::rocfft::setup().map_err(Error::wrap)?;
    let (placement, kind) = (PlacementType::NotInPlace, TransformType::ComplexForward);
    let mut plan = Plan::new(placement, kind, Precision::Single, 1, &[LENGTH], ROWS, None)
        .map_err(Error::wrap)?;
    let out = DeviceMemory::<f32>::new(x.elem_count()).map_err(Error::wrap)?;
    let work = DeviceMemory::<u8>::new(plan.get_work_buffer_size().map_err(Error::wrap)?)
        .map_err(Error::wrap)?;
    let mut enqueue = |input: &DeviceMemory<f32>, stream: &rocm_rs::hip::Stream| {
        let mut info = ExecutionInfo::new()?;
        // SAFETY: the stream and the work buffer outlive the transform: it is waited for below.
        unsafe {
            info.set_stream(stream.as_raw().cast())?;
            if work.size() != 0 {
                info.set_work_buffer(work.as_ptr(), work.size())?;
            }
        }
        plan.execute(&[input.as_ptr()], &[out.as_ptr()], Some(&mut info))
    };
    let run = |input: &DeviceMemory<f32>| {
        let run = |stream: &rocm_rs::hip::Stream| {
            enqueue(input, stream).map_err(Error::wrap)?;
            // The plan and the work buffer go when this function returns.
            stream.synchronize().map_err(Error::wrap)
        };
        // SAFETY: nothing clones the stream.
        unsafe { lent::with_stream(device, run) }
    };
    // SAFETY: a transform out of place reads its input, on the device's stream.
    unsafe { lent::with_memory::<f32, _>(x, run) }?;
    // SAFETY: of the current GPU, which is the device's; written on its stream.
    unsafe { lent::from_memory(out, x.shape(), device) }
}

/// The distance of rows of complex numbers to the transforms of others, as a part of these.
fn relative_error(found: &[f32], signal: &[f32]) -> f64 {
    let (mut off, mut all) = (0., 0.);
    for (found, signal) in found.chunks(2 * LENGTH).zip(signal.chunks(2 * LENGTH)) {
        for (k, bin) in found.chunks(2).enumerate() {
            let (mut re, mut im) = (0., 0.);
            for (j, value) in signal.chunks(2).enumerate() {
                let (sin, cos) = (-TAU * (j * k % LENGTH) as f64 / LENGTH as f64).sin_cos();
                let (a, b) = (f64::from(value[0]), f64::from(value[1]));
                re += a * cos - b * sin;
                im += a * sin + b * cos;
            }
            off += (f64::from(bin[0]) - re).powi(2) + (f64::from(bin[1]) - im).powi(2);
            all += re * re + im * im;
        }
    }
    (off / all).sqrt()
}
