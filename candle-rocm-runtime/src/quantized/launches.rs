//! Launches of quantised products' kernels: each name is spelled once, each kernel found once, each grid checked once.

use std::hash::{Hash, Hasher};

use crate::kernels::ready::ReadyLaunch;
use crate::kernels::submit::LaunchConfig;
use crate::plan_cache;

plan_cache!(
    /// Kernels on grids.
    pub(super) static LAUNCHES: Key => ReadyLaunch
);

/// What a kernel's name is made of, joined by underscores: the empty pieces are left out, and the number where it is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name(pub [&'static str; 3], pub u32);

impl Name {
    /// A name as it is.
    pub const fn whole(name: &'static str) -> Self {
        Self([name, "", ""], 0)
    }

    /// The kernel's name.
    pub fn spelled(&self) -> String {
        let Self(pieces, number) = self;
        let mut name = pieces.map(str::to_owned).to_vec();
        name.extend((*number != 0).then(|| number.to_string()));
        name.retain(|piece| !piece.is_empty());
        name.join("_")
    }
}

/// A kernel of an embedded module, on a grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Its number.
    pub module: usize,
    pub name: Name,
    pub config: LaunchConfig,
}

impl Key {
    /// Names by where their pieces are: equal ones elsewhere are found by themselves.
    #[inline]
    fn words(&self) -> [usize; 11] {
        let Self {
            module,
            name: Name([first, second, third], number),
            config,
        } = self;
        let at = |piece: &str| piece.as_ptr() as usize;
        let lengths = first.len() | second.len() << 16 | third.len() << 32;
        let (x, y, z) = config.grid_dim;
        [
            *module,
            at(first),
            at(second),
            at(third),
            lengths,
            *number as usize,
            x as usize,
            y as usize,
            z as usize,
            config.block_dim.0 as usize,
            config.shared_mem_bytes as usize,
        ]
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for Key {}

impl Hash for Key {
    /// Names and grids tell nearly all apart: the rest is compared alone.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [_, first, second, third, _, number, x, y, z, ..] = self.words();
        state.write_usize(first ^ second.rotate_left(21) ^ third.rotate_left(42));
        state.write_usize(x ^ y.rotate_left(21) ^ z.rotate_left(42) ^ number.rotate_left(32));
    }
}

/// Launches a kernel with these arguments, each a variable, in the kernel's order. To be called in an `unsafe` block: the
/// arguments are the kernel's, in number, order and type, and what the addresses name is memory that it may read and write.
macro_rules! launch {
    ($stream:expr, $module:expr, $name:expr, $grid:expr, $threads:expr, [$($argument:expr),* $(,)?]) => {{
        let context = $stream.context();
        let key = $crate::quantized::launches::Key {
            module: $module.index(),
            name: $name,
            config: $crate::kernels::submit::LaunchConfig {
                grid_dim: $grid,
                block_dim: ($threads, 1, 1),
                shared_mem_bytes: 0,
            },
        };
        let make = || {
            let name = key.name.spelled();
            $crate::kernels::ready::ReadyLaunch::of(context, $module, &name, key.config)
        };
        let ready = $crate::quantized::launches::LAUNCHES.get_or_make(context.device(), &key, make)?;
        ready.launch($stream, &mut $crate::kernels::ready::addresses_of![$($argument),*])
    }};
}
pub(super) use launch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_from_what_they_are_made_of() {
        for (name, spelled) in [
            (Name::whole("mmq_sum"), "mmq_sum"),
            (Name(["mmvq", "q4_k", ""], 8), "mmvq_q4_k_8"),
            (Name(["mmvq", "q4_0", "cudas"], 0), "mmvq_q4_0_cudas"),
            (
                Name(["moe_prefill", "q8_0", "bf16"], 0),
                "moe_prefill_q8_0_bf16",
            ),
        ] {
            assert_eq!(name.spelled(), spelled);
        }
    }

    #[test]
    fn all_of_a_launch_is_in_its_key() {
        let config = LaunchConfig {
            grid_dim: (1, 2, 3),
            block_dim: (64, 1, 1),
            shared_mem_bytes: 0,
        };
        let key = Key {
            module: 1,
            name: Name(["mmq", "q4_k", ""], 16),
            config,
        };
        let changes: [fn(&mut Key); 9] = [
            |key| key.module = 2,
            |key| key.name.0[0] = "mmvq",
            |key| key.name.0[1] = "q4_0",
            |key| key.name.0[2] = "cudas",
            |key| key.name.1 = 64,
            |key| key.config.grid_dim.0 = 2,
            |key| key.config.grid_dim.1 = 3,
            |key| key.config.grid_dim.2 = 1,
            |key| key.config.block_dim.0 = 128,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = key;
            change(&mut changed);
            assert!(changed != key, "change {number}");
        }
    }
}
