//! The names that kernels have in code objects.
//!
//! Kernels that move elements without reading their values stand there once for each size of element: `gather_u32_bf16` and
//! `gather_u32_f16` are both `gather_u32_i16`. Hosts ask for any type.

use std::borrow::Cow;

use crate::dtypes::{self, Dtype};
use crate::launch_heuristics::untyped;

/// By module, kernels that move elements, by their names without types.
const MOVES: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/moves.rs"));

/// One type of each size.
const SIZES: &[&str] = include!(concat!(env!("OUT_DIR"), "/sizes.rs"));

/// The name in the code object of `module` of what hosts launch as `kernel`, such as `ucopy_i16` of `ucopy_bf16`. Names
/// that no kernel has stay as they are.
pub fn symbol<'a>(module: &str, kernel: &'a str) -> Cow<'a, str> {
    let own = Cow::Borrowed(kernel);
    let has_it =
        |(name, moves): &(&str, &[&str])| *name == module && moves.contains(&untyped(kernel));
    if !MOVES.iter().any(has_it) {
        return own;
    }
    let Some((name, end)) = kernel.rsplit_once('_') else {
        return own;
    };
    match dtypes::find(end).and_then(of_size) {
        Some(stands) if stands != end => format!("{name}_{stands}").into(),
        _ => own,
    }
}

/// The type that stands for those of this one's size.
fn of_size(dtype: Dtype) -> Option<&'static str> {
    let has_size = |name: &&&str| dtypes::find(name).is_some_and(|of| of.bytes == dtype.bytes);
    SIZES.iter().find(has_size).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_stand_once_for_each_size() {
        for dtype in dtypes::ALL {
            let stands = of_size(*dtype).expect("a type of each size");
            let found = symbol("indexing", &format!("gather_u32_{}", dtype.name)).into_owned();
            assert_eq!(found, format!("gather_u32_{stands}"));
            let bytes = dtypes::find(stands).map(|of| of.bytes);
            assert_eq!(bytes, Some(dtype.bytes), "{stands} for {}", dtype.name);
        }
        assert_eq!(symbol("indexing", "s_i64_f8e4m3"), "s_i64_u8");
        assert_eq!(symbol("conv", "im2col1d_f64"), "im2col1d_i64");
        assert_eq!(symbol("unary", "ucopy_f32"), "ucopy_u32");
        assert_eq!(symbol("ternary", "where_u8_bf16"), "where_u8_i16");
    }

    #[test]
    fn others_keep_their_names() {
        for (module, kernel) in [
            ("indexing", "ia_u32_bf16"),
            ("indexing", "sa_u32_f32"),
            ("indexing", "gather_u32_i16"),
            ("indexing", "gather_u32_half"),
            ("indexing", "gather"),
            ("unary", "gather_u32_bf16"),
            ("unary", "uneg_bf16"),
            ("user", "ucopy_bf16"),
        ] {
            assert_eq!(symbol(module, kernel), kernel);
        }
    }
}
