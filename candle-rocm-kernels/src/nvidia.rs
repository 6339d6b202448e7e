//! What plans and tables of kernels know of NVIDIA's multiprocessors, by compute capability.
//!
//! From NVIDIA's "CUDA C++ Programming Guide" (technical specifications per compute capability) and the white papers of
//! GA100, GA102 and GH100; it is here, and not with AMD's GPUs, because these run our kernels for checks alone.

use rocm_gpus::Rates;

/// A multiprocessor, as far as our kernels use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// Bytes of LDS (shared memory) that one workgroup can ask for. All together have a KiB more.
    pub lds_bytes_of_workgroup: u32,
    /// Multiply-adds in a cycle by `mma.sync`; 0 for what it has not, or in f64 no faster than other instructions.
    pub matrix: Rates,
}

/// GA100: 1,024 multiply-adds of f16 in a cycle, 64 of f64. GH100 has no published rate for `mma.sync`, but one for the
/// instructions of warp groups, of about twice these.
const LARGE: Rates = Rates {
    f16: 1024,
    bf16: 1024,
    i8: 2048,
    f32: 0,
    f64: 64,
};
/// GA102 and what followed it in workstations.
const SMALL: Rates = Rates {
    f16: 512,
    bf16: 512,
    i8: 1024,
    f32: 0,
    f64: 0,
};

impl Multiprocessor {
    /// That of an architecture such as `sm_90`; none of AMD's, nor of those before compute capability 8.0, which have no
    /// bf16.
    pub fn of(arch: &str) -> Option<Self> {
        let capability: u32 = arch
            .strip_prefix("sm_")?
            .trim_end_matches(char::is_alphabetic)
            .parse()
            .ok()?;
        let (kib, matrix) = match capability {
            80 => (163, LARGE),
            87 => (163, SMALL),
            90 | 100 | 103 => (227, LARGE),
            81.. => (99, SMALL),
            _ => return None,
        };
        Some(Self {
            lds_bytes_of_workgroup: kib << 10,
            matrix,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_told_apart() {
        let lds = |arch| Multiprocessor::of(arch).map(|unit| unit.lds_bytes_of_workgroup >> 10);
        let of = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_120"].map(lds);
        assert_eq!(
            of,
            [None, Some(163), Some(99), Some(227), Some(227), Some(99)]
        );
        assert_eq!(["gfx942", "sm_", "sm_x"].map(lds), [None; 3]);
    }
}
