//! Whether the environment wants graphs.

use candle_rocm_variables::GRAPHS;

use crate::base::error::{Error, Result};

/// The variable that says whether steps are captured: `0`, `1` or `auto`.
pub const VARIABLE: &str = GRAPHS.name;

/// What [`VARIABLE`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Each kernel is launched by itself.
    Off,
    /// Steps are captured, whether or not the GPU's graphs are right.
    On,
    /// Steps are captured where the GPU's graphs are right.
    Auto,
}

impl Wish {
    /// What the environment says now.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn of_environment() -> Result<Self> {
        Self::of(std::env::var(VARIABLE).ok().as_deref())
    }

    fn of(value: Option<&str>) -> Result<Self> {
        match value {
            None | Some("" | "auto") => Ok(Self::Auto),
            Some("0") => Ok(Self::Off),
            Some("1") => Ok(Self::On),
            Some(other) => Err(Error::invalid(format!(
                "{VARIABLE}={other}: 0 launches each kernel by itself, 1 captures steps, auto captures them where the \
                 GPU's graphs were found right"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_checked_unless_the_variable_says_otherwise() {
        for (value, expected) in [
            (None, Wish::Auto),
            (Some(""), Wish::Auto),
            (Some("auto"), Wish::Auto),
            (Some("1"), Wish::On),
            (Some("0"), Wish::Off),
        ] {
            assert_eq!(Wish::of(value).unwrap(), expected, "{value:?}");
        }
        let error = Wish::of(Some("off")).unwrap_err().to_string();
        assert!(error.contains("CANDLE_ROCM_GRAPHS=off"), "{error}");
    }
}
