//! Ways to compute products that were found before, by GPU and problem.
//!
//! What a launch depends on beside its [`Key`], such as a capture in progress or a stream's memory for sums that are reduced in
//! the kernel, is asked for at each launch.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use super::choice::timings_choose;
use super::epilogue::Epilogue;
use super::library::handles::Library;
use super::plan::Plan;
use super::prepared::Prepared;
use super::problem::{GemmProblem, Transpose};
use crate::plan_cache;

/// All of a problem and its epilogue that a way depends on: two with the same key differ in
/// [`Values`](super::product::Values) alone. In words, so that it is compared as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key([u64; 13]);

impl Hash for Key {
    /// Sizes and choices tell nearly all problems apart: the rest is compared alone.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [m, n, k, batch, .., choices] = self.0;
        state.write_u64(m ^ n.rotate_left(32));
        state.write_u64(k ^ batch.rotate_left(32));
        state.write_u64(choices);
    }
}

impl Key {
    /// Of any problem and epilogue, checked or not.
    #[inline]
    pub fn of(problem: &GemmProblem, epilogue: &Epilogue) -> Self {
        // A choice that makes no sense is an error for whoever looks for a way, and none is kept.
        Self::new(problem, epilogue, timings_choose().unwrap_or(false))
    }

    #[inline]
    fn new(problem: &GemmProblem, epilogue: &Epilogue, timings_choose: bool) -> Self {
        let is_address = |address: u64| address != 0;
        let residual = epilogue
            .residual
            .filter(|residual| is_address(residual.address));
        let (ld, stride) = residual.map_or((0, 0), |residual| (residual.ld, residual.stride));
        // Timings tell alignments apart, powers of two up to 16; no plan does.
        let alignments = match timings_choose {
            true => problem.alignments(),
            false => [0; 3],
        };
        let bits = [
            (u64::from(problem.transa == Transpose::Yes), 1),
            (u64::from(problem.transb == Transpose::Yes), 1),
            (u64::from(problem.has_sum()), 1),
            (u64::from(problem.beta != 0.0), 1),
            (u64::from(epilogue.bias.is_some_and(is_address)), 1),
            (u64::from(residual.is_some()), 1),
            (epilogue.activation as u64, 4),
            (problem.dtype as u64, 4),
            (problem.compute as u64, 16),
            (alignments[0], 5),
            (alignments[1], 5),
            (alignments[2], 5),
        ];
        let choices = bits
            .into_iter()
            .fold(0, |all, (value, width)| all << width | value);
        Self([
            problem.m as u64,
            problem.n as u64,
            problem.k as u64,
            problem.batch as u64,
            problem.lda as u64,
            problem.ldb as u64,
            problem.ldc as u64,
            ld as u64,
            problem.stride_a as u64,
            problem.stride_b as u64,
            problem.stride_c as u64,
            stride as u64,
            choices,
        ])
    }
}

/// Who computes the products of a key, and how.
#[derive(Debug)]
pub(super) struct Way {
    /// The library that is asked first.
    pub library: Option<&'static Library>,
    /// Our own plan, if it was chosen already.
    pub plan: Option<Plan>,
    /// Our own kernels, once they were needed.
    pub own: OnceLock<Prepared>,
}

plan_cache!(
    /// The ways of all GPUs' problems.
    pub(super) static WAYS: Key => Way
);

#[cfg(test)]
mod tests {
    use candle_rocm_kernels::Processor;

    use super::*;
    use crate::base::cuda_names::cublasComputeType_t;
    use crate::gemm::epilogue::{Activation, Residual};
    use crate::gemm::problem::GemmDtype;
    use crate::gemm::product::Values;
    use crate::plan::gpu::Gpu;

    fn problem() -> GemmProblem {
        GemmProblem {
            beta: 1.0,
            ..GemmProblem::packed(
                GemmDtype::F16,
                [Transpose::Yes, Transpose::No],
                [256, 64, 512],
                [512, 1024, 2048],
            )
        }
    }

    fn epilogue() -> Epilogue {
        Epilogue {
            bias: Some(4096),
            activation: Activation::Silu,
            residual: Some(Residual {
                address: 8192,
                ld: 256,
                stride: 0,
            }),
        }
    }

    /// Changes that a plan, or its arguments but for values, may depend on.
    #[test]
    fn what_a_way_depends_on_is_in_its_key() {
        let problems: [fn(&mut GemmProblem); 18] = [
            |p| p.m -= 1,
            |p| p.n -= 1,
            |p| p.k -= 1,
            |p| p.batch += 1,
            |p| p.lda += 1,
            |p| p.ldb += 1,
            |p| p.ldc += 1,
            |p| p.stride_a += 1,
            |p| p.stride_b += 1,
            |p| p.stride_c += 1,
            |p| p.transa = Transpose::No,
            |p| p.transb = Transpose::Yes,
            |p| p.dtype = GemmDtype::BF16,
            |p| p.dtype = GemmDtype::F16ToF32,
            |p| p.compute = cublasComputeType_t::CUBLAS_COMPUTE_16F,
            |p| p.alpha = 0.0,
            |p| p.beta = 0.0,
            |p| (p.m, p.n) = (p.n, p.m),
        ];
        let epilogues: [fn(&mut Epilogue); 6] = [
            |e| e.bias = None,
            |e| e.bias = Some(0),
            |e| e.activation = Activation::None,
            |e| e.residual = None,
            |e| e.residual.as_mut().unwrap().ld += 1,
            |e| e.residual.as_mut().unwrap().stride = 1 << 20,
        ];
        let key = Key::new(&problem(), &epilogue(), false);
        for (number, change) in problems.into_iter().enumerate() {
            let mut changed = problem();
            change(&mut changed);
            assert_ne!(
                Key::new(&changed, &epilogue(), false),
                key,
                "problem {number}"
            );
        }
        for (number, change) in epilogues.into_iter().enumerate() {
            let mut changed = epilogue();
            change(&mut changed);
            assert_ne!(
                Key::new(&problem(), &changed, false),
                key,
                "epilogue {number}"
            );
        }
    }

    /// Values that no plan depends on: the key is the same, and so is the plan.
    #[test]
    fn values_are_in_no_key() {
        let mut moved = GemmProblem {
            a: 2,
            b: 4,
            c: 6,
            alpha: 2.5,
            beta: -1.0,
            ..problem()
        };
        let mut outside = epilogue();
        outside.bias = Some(10);
        outside.residual.as_mut().unwrap().address = 12;
        let key = Key::new(&problem(), &epilogue(), false);
        assert_eq!(Key::new(&moved, &outside, false), key);
        for processor in ["gfx90a", "gfx1030", "sm_90"].map(Processor::of) {
            let gpu = Gpu {
                processor,
                compute_units: 100,
            };
            let plan = Plan::new(&problem(), &epilogue(), gpu).unwrap();
            let fresh = Plan::new(&moved, &outside, gpu).unwrap();
            let product = plan.product.with_values(&Values::of(&moved, &outside));
            assert_eq!(Plan { product, ..plan }, fresh);
        }
        // Where timings choose, they tell alignments apart, and nothing more of an address.
        let key = Key::new(&problem(), &epilogue(), true);
        assert_ne!(Key::new(&moved, &outside, true), key);
        (moved.a, moved.b, moved.c) = (1 << 20, 1 << 21, 1 << 22);
        assert_eq!(Key::new(&moved, &outside, true), key);
    }
}
