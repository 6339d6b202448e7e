//! The list of cases.
//!
//! Left out is what fails in Candle's host code before a kernel is launched, on CUDA as on AMD GPUs: see
//! docs/user/candle-host-bugs.md. So there are no comparisons of i16 and i32 and no conversions to them, no `index_add` to
//! a view that begins inside its buffer, no turned weights of `conv1d`, no `gather` of fewer indices than the source
//! has in a later dimension, no sums and sorts of nothing. Left out too are indices out of range and integer division
//! by zero, which on CUDA end the process's use of the GPU.

mod casts;
mod convolution;
mod elementwise;
mod gradients;
mod indexing;
mod joining;
mod layouts;
mod list;
mod matmul;
mod quantized;
mod reduction;
mod rows;
mod sorting;

use candle_core::Result;

use crate::case::Case;

pub(crate) use layouts::{Layout, LAYOUTS, LONG, SMALL_LAYOUTS};
pub(crate) use list::{any, input, name, List};

/// Every case, in a fixed order, with unique names.
pub fn all() -> Result<Vec<Case>> {
    let mut list = List::default();
    elementwise::add(&mut list)?;
    casts::add(&mut list)?;
    reduction::add(&mut list)?;
    sorting::add(&mut list)?;
    indexing::add(&mut list)?;
    joining::add(&mut list)?;
    matmul::add(&mut list)?;
    convolution::add(&mut list)?;
    rows::add(&mut list)?;
    quantized::add(&mut list)?;
    gradients::add(&mut list)?;
    Ok(list.cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_have_a_tolerance() -> Result<()> {
        let mut names = std::collections::HashSet::new();
        for case in all()? {
            assert!(names.insert(case.name.clone()), "{}: twice", case.name);
            for dtype in crate::numbers::FLOATS {
                assert!(
                    crate::tolerance::of(case.operator, dtype).is_some(),
                    "{}: no tolerance",
                    case.name
                );
            }
        }
        Ok(())
    }
}
