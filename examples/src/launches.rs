//! What a pass gives to the GPU, counted.

#[cfg(feature = "rocm")]
pub use candle_rocm_backend::graph::Enqueued as Launches;

/// What nothing can be noted of: this build has no GPU.
#[cfg(not(feature = "rocm"))]
#[derive(Clone, Debug)]
pub enum Launches {}

/// Why each kernel is launched by itself on a device whose graphs are wrong.
#[cfg(feature = "rocm")]
pub(crate) use candle_rocm_backend::graph::why_off as why_not_captured;

/// The same without a GPU.
#[cfg(not(feature = "rocm"))]
pub(crate) fn why_not_captured(_: &candle_core::Device) -> Option<String> {
    None
}

/// Runs `run`, and notes what it gives to the GPU, if that is `wanted`.
pub(crate) fn noted<T>(wanted: bool, run: impl FnOnce() -> T) -> (T, Option<Launches>) {
    #[cfg(feature = "rocm")]
    if wanted {
        let (result, launches) = candle_rocm_backend::graph::recorded(run);
        return (result, Some(launches));
    }
    let _ = wanted;
    (run(), None)
}

/// A line for people: what the host gave to the GPU for a token, and what was in the graph among it.
#[cfg(feature = "rocm")]
pub(crate) fn describe(step: &Launches, captured: Option<&Launches>) -> String {
    let words = |noted: &Launches| {
        format!(
            "{} kernels, {} products by a library, {} copies, {} fills",
            noted.kernels.len(),
            noted.library_products,
            noted.copies,
            noted.fills
        )
    };
    let graph = match captured {
        Some(captured) if step.graphs > 0 => format!("; in the graph {}", words(captured)),
        _ => String::new(),
    };
    format!(
        "a token took {} launches: {} graphs, {}{graph}",
        step.count(),
        step.graphs,
        words(step)
    )
}

/// The same of nothing.
#[cfg(not(feature = "rocm"))]
pub(crate) fn describe(step: &Launches, _: Option<&Launches>) -> String {
    match *step {}
}
