//! What the environment asks for: who multiplies matrices, and whether timings choose.

use std::str::FromStr;
use std::sync::OnceLock;

use crate::base::choice;
use crate::base::error::{Error, Result};

/// The variable that says who multiplies matrices.
pub const GEMM_VARIABLE: &str = candle_rocm_variables::GEMM.name;

/// The variable that names the vendor's library to load, and the only place then looked at.
pub const LIBRARY_VARIABLE: &str = candle_rocm_variables::BLAS_LIBRARY.name;

/// Whether the library is chosen for products with a bias and an activation, hipBLASLt.
pub const LT_LIBRARY_VARIABLE: &str = candle_rocm_variables::BLASLT_LIBRARY.name;

/// The variable that turns the timing on.
pub const TUNE_VARIABLE: &str = candle_rocm_variables::GEMM_TUNE.name;

/// Who multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmChoice {
    /// Our own kernels.
    Own,
    /// The vendor's library; that there is none is an error.
    Library,
    /// The vendor's library on NVIDIA GPUs if it can be loaded, but for few columns with something after them, which are
    /// one launch of ours; else our own kernels.
    Auto,
}

impl FromStr for GemmChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let choices = [
            ("own", Self::Own),
            ("library", Self::Library),
            ("auto", Self::Auto),
        ];
        choice::named(GEMM_VARIABLE, text, &choices)
    }
}

impl GemmChoice {
    /// What the environment asks for, read once.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn current() -> Result<Self> {
        static CHOICE: OnceLock<Result<GemmChoice>> = OnceLock::new();
        CHOICE
            .get_or_init(|| choice::text_of(GEMM_VARIABLE).parse())
            .clone()
    }
}

/// What to do about timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuning {
    Off,
    /// Use those that there are.
    Use,
    /// Time what is not known.
    Measure,
}

impl FromStr for Tuning {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" | "0" => Ok(Self::Off),
            "use" => Ok(Self::Use),
            "1" => Ok(Self::Measure),
            _ => Err(Error::invalid(format!(
                "{TUNE_VARIABLE}={text}: the choices are 0, 1 (time products and keep the results) and use (use kept \
                 results alone)"
            ))),
        }
    }
}

impl Tuning {
    /// What the environment asks for, read once.
    pub fn current() -> Result<Self> {
        static TUNING: OnceLock<Result<Tuning>> = OnceLock::new();
        TUNING
            .get_or_init(|| match GemmChoice::current()? {
                // There is nothing to choose.
                GemmChoice::Library => Ok(Self::Off),
                GemmChoice::Own | GemmChoice::Auto => choice::text_of(TUNE_VARIABLE).parse(),
            })
            .clone()
    }
}

/// Whether timings choose, so that a library may be worth loading that is no default.
pub(crate) fn timings_choose() -> Result<bool> {
    Ok(Tuning::current()? != Tuning::Off)
}
