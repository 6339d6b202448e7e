//! Releases of HIP that are too old for a GPU.

use rocm_gpus::Gpu;

/// What a release that is too old does to a GPU's users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// What is wrong and what to do, in words.
    pub text: String,
    /// Whether the process would end, or worse, when it allocates memory.
    pub is_fatal: bool,
}

/// A version as `hipRuntimeGetVersion` gives it, in the usual form.
pub fn shown(version: i32) -> String {
    let (major, minor) = parts(version);
    format!("{major}.{minor}.{}", version % 100_000)
}

fn parts(version: i32) -> (u32, u32) {
    let version = version.max(0) as u32;
    (version / 10_000_000, version / 100_000 % 100)
}

/// Whether HIP of a version, as `hipRuntimeGetVersion` gives it, is too old for a processor; none where it is not, or where
/// one of the two is not known.
pub fn too_old(arch: &str, version: i32) -> Option<TooOld> {
    let least = arch.parse::<Gpu>().ok()?.least_release();
    if version <= 0 || parts(version) >= (least.major, least.minor) {
        return None;
    }
    Some(TooOld {
        text: format!(
            "{arch} needs ROCm {}.{} or later, and this is HIP {}: {}. Install a later ROCm",
            least.major,
            least.minor,
            shown(version),
            least.before
        ),
        is_fatal: least.is_fatal_before,
    })
}

#[cfg(test)]
mod tests {
    use super::{shown, too_old};

    #[test]
    fn each_card_has_its_least_release() {
        for (arch, old, good) in [
            ("gfx1150", 70_151_831, 70_200_000),
            ("gfx1151", 60_443_483, 71_700_000),
            ("gfx950", 60_400_000, 70_000_000),
            ("gfx1200", 60_300_000, 60_400_000),
            ("gfx1201", 60_342_131, 70_226_015),
        ] {
            let found = too_old(arch, old).unwrap();
            assert!(found.text.contains(&shown(old)), "{found:?}");
            assert_eq!(found.is_fatal, arch.starts_with("gfx115"), "{found:?}");
            assert_eq!(too_old(arch, good), None, "{arch}");
            assert_eq!(too_old(arch, 0), None, "{arch}");
        }
        assert_eq!(too_old("gfx1100", 60_000_000), None);
        assert_eq!(too_old("sm_90", 12_080), None);
        assert_eq!(shown(70_226_015), "7.2.26015");
    }
}
