//! SIMD without compiling for a particular CPU: hot loops are compiled once for the baseline and once
//! for a CPU with AVX2, FMA and F16C, and the CPU that runs decides.

use std::sync::OnceLock;

/// What the CPU can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What the target guarantees.
    Baseline,
    /// AVX2, FMA, F16C, BMI1/2, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// The CPU's level, detected once.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return Level::Avx2;
        }
        Level::Baseline
    })
}

/// Define a function that is compiled for each level and dispatches at the call.
///
/// Everything that the body calls and that is to be SIMD must be `#[inline(always)]`.
///
/// ```text
/// multiversion! {
///     /// Sum of two rows.
///     pub fn add(out: &mut [u32; 64], a: &[u32; 64], b: &[u32; 64]) {
///         for i in 0..64 { out[i] = a[i].wrapping_add(b[i]); }
///     }
/// }
/// ```
macro_rules! multiversion {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident : $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => { $(
        $(#[$meta])*
        $vis fn $name($($arg: $type),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($arg: $type),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2($($arg: $type),*) $(-> $ret)? {
                body($($arg),*)
            }

            match $crate::exec::simd::level() {
                // SAFETY: the level says that the CPU has these features.
                #[cfg(target_arch = "x86_64")]
                $crate::exec::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    )* };
}
pub(crate) use multiversion;
