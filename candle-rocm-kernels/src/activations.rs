//! Activation functions, as the kernels have them: the list is that of `kernels/portable/activations.cuh`.

/// A function that kernels apply to elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Activation {
    /// As kernels' names end: `activate_gelu_f32`.
    pub name: &'static str,
    /// What a product's `activation` is for it; products have those below 4.
    pub number: u32,
}

include!(concat!(env!("OUT_DIR"), "/activations.rs"));
