//! A step of a program, captured once and run again with one launch.
//!
//! What decodes a text launches some hundred kernels a token, each of which costs the host more time than a small one
//! takes the GPU. A captured step is one launch. Its shapes are the same each time, and it reads what changes, such as the
//! token, from tensors that stay in place: [`Input`].
//!
//! ```
//! # use candle_rocm_backend::{runtime, RuntimeKind};
//! # runtime::select(RuntimeKind::Emulator)?;
//! use candle_core::{Device, Tensor};
//! use candle_rocm_backend::graph::{Input, Step};
//! use candle_rocm_backend::DeviceExt as _;
//!
//! let device = Device::new_rocm_with_stream(0)?;
//! let x = Input::new(&Tensor::new(&[1f32, 2., 3.], &device)?)?;
//! let (first, step) = Step::capture(&device, || x.tensor().sqr()?.sum_all())?;
//! assert_eq!(first.to_scalar::<f32>()?, 14.);
//! x.set(&Tensor::new(&[2f32, 2., 2.], &device)?)?;
//! assert_eq!(step.run()?.to_scalar::<f32>()?, 12.);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choice;
mod input;
mod step;

pub use candle_rocm_runtime::enqueued::{recorded, Enqueued};
pub use choice::{agree, are_on, is_to_be_compared, why_off, VARIABLE};
pub use input::Input;
pub use step::Step;
