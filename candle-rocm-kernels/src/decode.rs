//! What the kernels `attend_*` of [`ATTENTION_DECODE`](crate::ATTENTION_DECODE) take: attention of few queries to a long
//! cache, whose keys workgroups share in splits. The host chooses by the lists of `kernels/attention/decode_kernels.cuh`.

use rocm_gpus::costs;

use crate::by_architecture::Lists;
use crate::numbers::decode;
use crate::processor::Processor;
use crate::split::{self, Split};

/// Work-items of a workgroup.
pub const THREADS: u32 = 256;
/// Splits of a sequence's keys at most, as many as work-items of the workgroup that puts them together.
pub const MAX_SPLITS: u32 = decode::MAX_SPLITS;

/// Keys of a wavefront's step, where matrix instructions multiply them.
const MATRIX_KEYS: u32 = 16;

/// A row of kernels/attention/decode_kernels.cuh, which says what the columns are.
#[derive(Clone, Copy, Debug)]
struct Listed {
    elements: u32,
    queries: u32,
    matrix: u32,
}

include!(concat!(env!("OUT_DIR"), "/decode_kernels.rs"));

/// The types of which there is each kernel, as [`Kernel::name`] takes them.
pub const ATTEND_TYPES: &[&str] = include!(concat!(env!("OUT_DIR"), "/attend_types.rs"));

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The most elements of a head.
    pub elements: u32,
    /// Queries of a workgroup, which have the same keys.
    pub queries: u32,
    /// Keys that are worth a workgroup.
    pub keys: u32,
    /// Workgroups that a compute unit has registers for, as far as keys are shared out by them.
    pub resident: u32,
}

impl Kernel {
    /// The kernel for heads of so many elements, of `bytes` each in the cache, where `group` heads of queries have one of keys. None
    /// for more than 512 elements.
    pub fn of(processor: Processor, bytes: usize, elements: u32, group: u32) -> Option<Kernel> {
        let suits = |of: &&Listed| elements <= of.elements && (group == 1 || of.queries > 1);
        let listed = KERNELS.of(processor).iter().find(suits)?;
        let by_matrix = listed.matrix > 0 && bytes == 2 && processor != Processor::Nvidia(None);
        // Groups of lanes that hold a row each, of eight elements a lane, or sixteen.
        let groups = THREADS / (listed.elements / 8).min(32);
        Some(Kernel {
            elements: listed.elements,
            queries: listed.queries,
            keys: match processor.architecture() {
                Some(amd) if by_matrix => MATRIX_KEYS * THREADS / amd.unit().wavefront,
                _ => costs::ATTEND_KEYS_OF_GROUP.value as u32 * groups,
            },
            resident: match by_matrix {
                true => listed.matrix,
                false => costs::ATTEND_WORKGROUPS.value as u32,
            },
        })
    }

    /// Those that a processor has: the most elements of a head, and the queries of a workgroup.
    pub fn listed(processor: Processor) -> impl Iterator<Item = (u32, u32)> {
        let listed = KERNELS.of(processor).iter();
        listed.map(|of| (of.elements, of.queries))
    }

    /// Its name. `dtype` is `f16`, `bf16` or `f32`; or `f32_f16` or `f32_bf16`, the cache's after what comes in and goes out.
    pub fn name(&self, dtype: &str) -> String {
        format!("attend_{}_{}_{dtype}", self.elements, self.queries)
    }

    /// Columns of the grid: groups of queries of all heads of keys.
    pub fn columns(&self, group: u32, kv_heads: u32) -> u32 {
        kv_heads * group.div_ceil(self.queries)
    }

    /// How many workgroups share `seen` keys on a GPU of so many compute units, where `others` have other queries or keys.
    pub fn splits(&self, units: u32, others: u32, seen: u32) -> u32 {
        let keys = Split {
            step: self.keys.into(),
            least_steps: 1,
            most: MAX_SPLITS.into(),
        };
        // Beyond the last whole step there is work for one more.
        let most = keys.most(u64::from(seen).next_multiple_of(keys.step));
        split::filling((units * self.resident).into(), others.into(), most) as u32
    }
}
