//! Choices that a variable of the environment makes by name.

use super::error::{Error, Result};

/// The variable without blanks around it; empty where it is not set.
pub(crate) fn text_of(variable: &str) -> String {
    let text = std::env::var(variable).unwrap_or_default();
    text.trim().to_owned()
}

/// The choice that `text` names; nothing is the last.
///
/// # Errors
/// It names none of them: the variable and all names are told.
pub(crate) fn named<T: Copy>(variable: &str, text: &str, choices: &[(&str, T)]) -> Result<T> {
    let found = match text {
        "" => choices.last(),
        _ => choices.iter().find(|(name, _)| *name == text),
    };
    if let Some((_, choice)) = found {
        return Ok(*choice);
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    Err(Error::invalid(format!(
        "{variable}={text}: the choices are {} and {last}",
        others.join(", ")
    )))
}
