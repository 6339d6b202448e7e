//! In the place of what compiles for AMD GPUs at run time, in programs without it.

use super::compile_options::CompileOptions;
use super::image::Image;
use crate::base::error::{Error, ErrorKind};

/// Refuses: the error names the feature that compiles.
pub(super) fn compile(
    _text: &str,
    name: &str,
    _options: &CompileOptions,
    _archs: &[String],
) -> Result<Image, Error> {
    Err(Error::new(
        ErrorKind::Module,
        format!(
            "{name} is CUDA source, and this program was built without what compiles it for AMD GPUs at run time: turn on \
             the feature `rtc` of candle-rocm-backend, or depend on cudarc with its default features"
        ),
    ))
}
