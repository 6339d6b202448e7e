//! What an instruction asks of the caches: LLVM's AMDGPUUsage, "Memory Model", has the bits of each family.

use crate::isa::{is_gfx940, Family, Inst, Role, Target};

bitflags::bitflags! {
    /// Caches between a wavefront and memory.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Levels: u8 {
        /// Of a compute unit: L1 of CDNA, L0 of RDNA.
        const FIRST = 1;
        /// Of a shader array: L1 of RDNA2 and RDNA3. RDNA4 has a buffer there, which keeps nothing.
        const ARRAY = 2;
        /// Of an XCD.
        const SECOND = 4;
        /// Of a compute unit or WGP, for scalar loads.
        const SCALAR = 8;
    }
}

/// Who an atomic of GFX12 is one for; the others say nothing narrower than the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scope {
    Unit,
    Group,
    #[default]
    Device,
}

/// What an instruction asks of the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    /// Those that may answer its load.
    pub hits: Levels,
    /// Its store goes on from the second level to memory.
    pub through: bool,
    /// Those that it empties.
    pub empties: Levels,
    /// It writes back what the second level has that memory has not.
    pub writes_back: bool,
    /// Its atomic is one for these.
    pub scope: Scope,
}

/// GLC or SC0, DLC and SC1 among the bits of the cache policy.
const GLC: u16 = 1;
const DLC: u16 = 4;
const SC1: u16 = 16;

impl Policy {
    pub fn of(target: Target, inst: &Inst) -> Policy {
        let cache = inst.mem.cache;
        let scoped = is_gfx940(target);
        let role = inst.op.columns.role;
        let mut hits = hits(target, cache);
        if inst.encoding == crate::isa::Encoding::SMEM && hits.contains(Levels::FIRST) {
            hits = (hits - Levels::FIRST) | Levels::SCALAR;
        }
        Policy {
            hits,
            through: !scoped || cache & SC1 != 0,
            empties: empties(target, role, cache),
            writes_back: role == Role::WriteBack && scoped && cache & SC1 != 0,
            scope: match (target.family(), scope(cache)) {
                (Family::Rdna4, 0) => Scope::Unit,
                (Family::Rdna4, 1) => Scope::Group,
                _ => Scope::Device,
            },
        }
    }
}

/// GFX12's scope: of the compute unit, the shader engine, the device or the system.
fn scope(cache: u16) -> u16 {
    cache >> 3 & 3
}

/// The caches that may answer a load.
fn hits(target: Target, cache: u16) -> Levels {
    let unless = |bypassed: bool, levels: Levels| match bypassed {
        true => Levels::empty(),
        false => levels,
    };
    match target.family() {
        Family::Cdna if is_gfx940(target) => {
            unless(cache & SC1 != 0, Levels::FIRST | Levels::SECOND)
        }
        Family::Cdna => unless(cache & GLC != 0, Levels::FIRST | Levels::SECOND),
        Family::Rdna2 => {
            unless(cache & GLC != 0, Levels::FIRST) | unless(cache & DLC != 0, Levels::ARRAY)
        }
        Family::Rdna3 => unless(cache & GLC != 0, Levels::FIRST | Levels::ARRAY),
        Family::Rdna4 => unless(scope(cache) != 0, Levels::FIRST),
    }
}

/// The caches that an operation on them empties.
fn empties(target: Target, role: Role, cache: u16) -> Levels {
    match role {
        Role::EmptyFirst => Levels::FIRST,
        Role::EmptyArray => Levels::ARRAY,
        Role::EmptyScalar => Levels::SCALAR,
        Role::EmptyByScope if is_gfx940(target) => match (cache & GLC != 0, cache & SC1 != 0) {
            (_, true) => Levels::FIRST | Levels::SECOND,
            (true, false) => Levels::FIRST,
            (false, false) => Levels::empty(),
        },
        // Those whose own scope is narrower.
        Role::EmptyByScope if scope(cache) != 0 => Levels::FIRST,
        _ => Levels::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_of_the_devices_scope_pass_the_caches_that_it_does_not_share() {
        let passes = [
            (Target::Gfx90a, GLC),
            (Target::Gfx942, SC1),
            (Target::Gfx1030, GLC | DLC),
            (Target::Gfx1100, GLC),
            (Target::Gfx1201, 2 << 3),
        ];
        for (target, cache) in passes {
            assert!(!hits(target, cache).intersects(Levels::FIRST | Levels::ARRAY));
            assert!(hits(target, 0).contains(Levels::FIRST), "{target}");
        }
        // A workgroup's: both compute units of a WGP have the array's cache.
        assert_eq!(hits(Target::Gfx1030, GLC), Levels::ARRAY);
        assert!(hits(Target::Gfx942, GLC).contains(Levels::FIRST | Levels::SECOND));
    }

    #[test]
    fn scopes_choose_what_is_emptied() {
        let empties = |target, cache| empties(target, Role::EmptyByScope, cache);
        assert_eq!(empties(Target::Gfx942, 0), Levels::empty());
        assert_eq!(empties(Target::Gfx942, GLC), Levels::FIRST);
        let both = Levels::FIRST | Levels::SECOND;
        assert_eq!(empties(Target::Gfx942, SC1), both);
        assert_eq!(empties(Target::Gfx1201, 0), Levels::empty());
        assert_eq!(empties(Target::Gfx1201, 1 << 3), Levels::FIRST);
    }
}
