//! Families of kernels, each with its ladders.

mod attention;
mod conv;
mod elementwise;
mod linalg;
mod moving;
mod optimisers;
mod products;
mod quantised;
mod random;
mod rows;
mod sparse;

use super::ladder::{Ladder, Ladders};

/// A family's name and what adds its ladders.
type Family = (&'static str, fn(&mut Ladders));

/// All families.
const FAMILIES: &[Family] = &[
    ("unary", elementwise::unary),
    ("binary", elementwise::binary),
    ("cast", elementwise::cast),
    ("affine", elementwise::affine),
    ("ternary", elementwise::ternary),
    ("fill", elementwise::fill),
    ("copy", elementwise::copy),
    ("indexing", moving::indexing),
    ("reduce", moving::reduce),
    ("sort", moving::sort),
    ("scan", moving::scan),
    ("positions", moving::positions),
    ("matmul", products::matmul),
    ("skinny", products::skinny),
    ("grouped", products::grouped),
    ("fp8", products::fp8),
    ("quantised", quantised::add),
    ("attention", attention::forward),
    ("attention gradients", attention::backward),
    ("attention of one query", attention::one_query),
    ("norms", rows::norms),
    ("softmax", rows::softmax),
    ("rope", rows::rope),
    ("activations", rows::activations),
    ("losses", rows::losses),
    ("conv", conv::add),
    ("fft", rows::fft),
    ("linalg", linalg::add),
    ("sparse", sparse::add),
    ("optimisers", optimisers::add),
    ("random", random::add),
];

/// The families in order, each with its ladders.
pub fn all() -> Vec<(&'static str, Vec<Ladder>)> {
    let of = |(name, add): &Family| {
        let mut ladders = Ladders::default();
        add(&mut ladders);
        (*name, ladders.0)
    };
    FAMILIES.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_cases_can_be_made() {
        let mut names = std::collections::HashSet::new();
        for (family, ladders) in all() {
            assert!(!ladders.is_empty(), "{family}");
            for ladder in ladders {
                assert!(
                    names.insert(format!("{family}/{}", ladder.name)),
                    "{family}: {}",
                    ladder.name
                );
                let least = *ladder.sizes().last().unwrap();
                let case = (ladder.make)(least).unwrap();
                assert!(!case.inputs.is_empty(), "{}", case.name);
            }
        }
    }
}
