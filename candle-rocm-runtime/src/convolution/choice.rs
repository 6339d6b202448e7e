//! What the environment asks for: who makes convolutions.

use std::str::FromStr;
use std::sync::OnceLock;

use crate::base::choice;
use crate::base::error::{Error, Result};

/// The variable that says who makes convolutions.
pub const CONV_VARIABLE: &str = candle_rocm_variables::CONV.name;

/// The variable that names the MIOpen to load, and the only place then looked at.
pub const LIBRARY_VARIABLE: &str = candle_rocm_variables::MIOPEN_LIBRARY.name;

/// Who makes convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvChoice {
    /// Our own kernels.
    Own,
    /// MIOpen; that there is none is an error.
    Library,
    /// Our own kernels, but where timings found MIOpen faster.
    Auto,
}

impl FromStr for ConvChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let choices = [
            ("own", Self::Own),
            ("library", Self::Library),
            ("auto", Self::Auto),
        ];
        choice::named(CONV_VARIABLE, text, &choices)
    }
}

impl ConvChoice {
    /// What the environment asks for, read once.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn current() -> Result<Self> {
        static CHOICE: OnceLock<Result<ConvChoice>> = OnceLock::new();
        CHOICE
            .get_or_init(|| choice::text_of(CONV_VARIABLE).parse())
            .clone()
    }
}
