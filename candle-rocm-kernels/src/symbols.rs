//! The names that kernels have in code objects.
//!
//! Kernels that move elements without reading their values stand there once for each size of element, and those that read
//! indices once for all types of indices: `gather_u32_bf16` and `gather_i64_f16` are both `gather_i16`. So do comparisons:
//! `lt_f32` and `eq_f32` are `compare_f32`. Hosts ask for any of them. The type of indices, or which comparison it is, is
//! an argument, [`last_argument`], which who launches by such a name adds.

use std::borrow::Cow;

use crate::dtypes::{self, Dtype};
use crate::launch_heuristics::untyped;

/// By module, kernels that move elements, by their names without types.
const MOVES: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/moves.rs"));

/// Modules, kernels with an argument for the type of their indices, by their names without types, and the number of
/// arguments before it.
const BY_INDEX: &[(&str, &str, usize)] = include!(concat!(env!("OUT_DIR"), "/by_index.rs"));

/// Modules, kernels as hosts call them and as they stand there, both without types, the number of arguments before that
/// which tells them apart, and its value.
const TOLD_APART: &[(&str, &str, &str, usize, u32)] =
    include!(concat!(env!("OUT_DIR"), "/told_apart.rs"));

/// One type of each size.
const SIZES: &[&str] = include!(concat!(env!("OUT_DIR"), "/sizes.rs"));

/// Types of indices, as kernels number them (`IndexType` of kernels/indexing/indices.cuh).
const INDEX_TYPES: [(&str, u32); 3] = [("u8", 0), ("u32", 2), ("i64", 3)];

/// An argument that a kernel takes behind those that hosts pass: the type of its indices, or which comparison it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastArgument {
    /// How many arguments hosts pass.
    pub given: usize,
    /// The argument.
    pub value: u32,
}

/// The name in the code object of `module` of what hosts launch as `kernel`, such as `ucopy_i16` of `ucopy_bf16`. Names
/// that no kernel has stay as they are.
pub fn symbol<'a>(module: &str, kernel: &'a str) -> Cow<'a, str> {
    let own = Cow::Borrowed(kernel);
    if let Some((name, element, _)) = told_apart(module, kernel) {
        return format!("{name}_{element}").into();
    }
    let name = untyped(kernel);
    let has_it = |(of, moves): &(&str, &[&str])| *of == module && moves.contains(&name);
    let moves = MOVES.iter().any(has_it);
    let by_index = of_index(module, kernel).is_some();
    if !moves && !by_index {
        return own;
    }
    let Some((rest, end)) = kernel.rsplit_once('_') else {
        return own;
    };
    let Some(dtype) = dtypes::find(end) else {
        return own;
    };
    let end = match moves {
        true => of_size(dtype).unwrap_or(end),
        false => end,
    };
    let found = format!("{}_{end}", if by_index { name } else { rest });
    match found == kernel {
        true => own,
        false => found.into(),
    }
}

/// The argument behind those that hosts pass to `kernel` of `module`, if it takes one: 2 behind 8 for `gather_u32_bf16`.
pub fn last_argument(module: &str, kernel: &str) -> Option<LastArgument> {
    match told_apart(module, kernel) {
        Some((_, _, argument)) => Some(argument),
        None => of_index(module, kernel),
    }
}

/// Of a kernel that an argument tells apart: its name in the code object without a type, its element and that argument.
fn told_apart<'a>(module: &str, kernel: &'a str) -> Option<(&'static str, &'a str, LastArgument)> {
    let (hosts, element) = kernel.rsplit_once('_')?;
    dtypes::find(element)?;
    let of_kernel =
        |(of, name, ..): &&(&str, &str, &str, usize, u32)| (*of, *name) == (module, hosts);
    let &(_, _, name, given, value) = TOLD_APART.iter().find(of_kernel)?;
    Some((name, element, LastArgument { given, value }))
}

/// The type of indices as an argument.
fn of_index(module: &str, kernel: &str) -> Option<LastArgument> {
    let (typed, element) = kernel.rsplit_once('_')?;
    let (name, index) = typed.rsplit_once('_')?;
    dtypes::find(element)?;
    let of_type = INDEX_TYPES.iter().find(|(of, _)| *of == index)?;
    let of_kernel = |(of, kernel, _): &&(&str, &str, usize)| (*of, *kernel) == (module, name);
    let (_, _, given) = BY_INDEX.iter().find(of_kernel)?;
    Some(LastArgument {
        given: *given,
        value: of_type.1,
    })
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
            for index in ["u8", "u32", "i64"] {
                let kernel = format!("gather_{index}_{}", dtype.name);
                assert_eq!(symbol("indexing", &kernel), format!("gather_{stands}"));
            }
            let found = symbol("unary", &format!("ucopy_{}", dtype.name)).into_owned();
            assert_eq!(found, format!("ucopy_{stands}"));
            let bytes = dtypes::find(stands).map(|of| of.bytes);
            assert_eq!(bytes, Some(dtype.bytes), "{stands} for {}", dtype.name);
        }
        assert_eq!(symbol("indexing", "s_i64_f8e4m3"), "s_u8");
        assert_eq!(symbol("conv", "im2col1d_f64"), "im2col1d_i64");
        assert_eq!(symbol("unary", "ucopy_f32"), "ucopy_u32");
        assert_eq!(symbol("ternary", "where_u8_bf16"), "where_u8_i16");
    }

    #[test]
    fn the_type_of_indices_is_an_argument() {
        let of = |kernel| last_argument("indexing", kernel).map(|of| (of.given, of.value));
        assert_eq!(of("is_u8_f32"), Some((10, 0)));
        assert_eq!(of("ia_u32_bf16"), Some((8, 2)));
        assert_eq!(of("sa_i64_f8e4m3"), Some((7, 3)));
        assert_eq!(symbol("indexing", "ia_u32_bf16"), "ia_bf16");
        assert_eq!(symbol("indexing", "sa_i64_f32"), "sa_f32");
        for (module, kernel) in [
            ("indexing", "ia_f32"),
            ("indexing", "ia_i16_f32"),
            ("indexing", "ia_u32_half"),
            ("ternary", "where_u8_f32"),
            ("user", "ia_u32_f32"),
        ] {
            assert_eq!(last_argument(module, kernel), None, "{module} {kernel}");
        }
    }

    #[test]
    fn comparisons_are_told_apart_by_an_argument() {
        let of = |kernel| last_argument("binary", kernel).map(|of| (of.given, of.value));
        assert_eq!(of("lt_f8e4m3"), Some((6, 1)));
        assert_eq!(of("ne_i64"), Some((6, 2 | 8)));
        assert_eq!(of("badd_f32"), None);
        assert_eq!(symbol("binary", "ge_bf16"), "compare_bf16");
        assert_eq!(symbol("binary", "compare_bf16"), "compare_bf16");
        assert_eq!(symbol("user", "ge_bf16"), "ge_bf16");
    }

    #[test]
    fn others_keep_their_names() {
        for (module, kernel) in [
            ("indexing", "gather_i16"),
            ("indexing", "gather_u32_half"),
            ("indexing", "gather"),
            ("unary", "gather_u32_bf16"),
            ("unary", "uneg_bf16"),
            ("user", "ucopy_bf16"),
            ("user", "ia_u32_bf16"),
        ] {
            assert_eq!(symbol(module, kernel), kernel);
        }
    }
}
