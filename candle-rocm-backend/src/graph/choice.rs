//! Whether steps are to be captured.

use candle_core::{bail, Result};
use candle_rocm_runtime::variables::GRAPHS;

/// The variable that turns steps of sessions off: `0`, or `1`.
pub const VARIABLE: &str = GRAPHS.name;

/// Whether the environment lets a step be captured (`CANDLE_ROCM_GRAPHS`, by default it does). Sessions of
/// candle-rocm-transformers ask; [`Step::capture`](super::Step::capture) captures whenever it is called.
///
/// # Errors
/// The variable is neither `0` nor `1`.
pub fn are_wanted() -> Result<bool> {
    wanted(std::env::var(VARIABLE).ok().as_deref())
}

fn wanted(value: Option<&str>) -> Result<bool> {
    match value {
        None | Some("" | "1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => {
            bail!("{VARIABLE}={other}: 0 launches each kernel by itself, 1 captures steps")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_turns_graphs_off() {
        for (value, expected) in [
            (None, true),
            (Some(""), true),
            (Some("1"), true),
            (Some("0"), false),
        ] {
            assert_eq!(wanted(value).unwrap(), expected, "{value:?}");
        }
        let error = wanted(Some("off")).unwrap_err().to_string();
        assert!(error.contains("CANDLE_ROCM_GRAPHS=off"), "{error}");
    }
}
