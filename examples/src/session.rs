//! A session of candle-rocm-transformers as the examples' loop takes it: one sequence, logits to the host.

use anyhow::{ensure, Context, Result};
use candle_core::Tensor;
use candle_rocm_transformers::{Session, Transformer};

/// Memory for one sequence of up to `capacity` tokens.
///
/// # Errors
/// The device has not the memory.
pub(crate) fn new(model: Transformer, capacity: usize) -> Result<Session> {
    Session::new(model, 1, capacity)
        .with_context(|| format!("memory for {capacity} tokens: --context asks for fewer"))
}

/// The logits after the last of `tokens`, `position` of which were read before.
///
/// # Errors
/// The session is somewhere else, or an operator fails.
pub(crate) fn forward(session: &mut Session, tokens: &[u32], position: usize) -> Result<Tensor> {
    ensure!(
        session.length() == position,
        "{} tokens were read, and the next is to be number {position}",
        session.length()
    );
    let logits = match tokens {
        [token] if position > 0 => session.next(&[*token])?,
        _ => {
            let tokens = Tensor::new(tokens, session.model().device())?;
            session.prompt(&tokens.unsqueeze(0)?)?
        }
    };
    Ok(logits.squeeze(0)?)
}
