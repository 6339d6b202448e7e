//! What the kernels `attend_*` of [`ATTENTION_DECODE`](crate::ATTENTION_DECODE) take: attention of few queries to a long
//! cache, whose keys workgroups share in splits. The host chooses by this; `kernels/attention/decode_rows.cuh` and
//! `decode_matrix.cuh` are what it says.

use rocm_gpus::{Architecture, MatrixUnit};

use crate::numbers::decode;
use crate::processor::Processor;
use crate::split::{self, Split};

/// Work-items of a workgroup.
pub const THREADS: u32 = 256;
/// Splits of a sequence's keys at most, as many as work-items of the workgroup that puts them together.
pub const MAX_SPLITS: u32 = decode::MAX_SPLITS;

/// What the row of a head is rounded up to, and the queries of a key's group that a workgroup takes, one before several: the
/// list of `kernels/attention/decode_kernels.cuh`.
pub const ATTEND: &[(u32, u32)] = include!(concat!(env!("OUT_DIR"), "/attend.rs"));
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
        let suits =
            |(most, queries): &&(u32, u32)| elements <= *most && (group == 1 || *queries > 1);
        let &(elements, queries) = ATTEND.iter().find(suits)?;
        let matrix_keys = match (queries, bytes) {
            (2.., 2) => keys_by_matrix(processor, elements),
            _ => None,
        };
        // Groups of lanes that hold a row each, of eight elements a lane, or sixteen: four rows are worth a group.
        let row_keys = 4 * THREADS / (elements / 8).min(32);
        let nvidia = processor.multiprocessor().is_some();
        Some(Kernel {
            elements,
            queries,
            keys: matrix_keys.filter(|_| !nvidia).unwrap_or(row_keys),
            // By matrix instructions rows of 128 take all registers of an NVIDIA GPU.
            resident: match matrix_keys {
                Some(_) if nvidia && elements == 128 => 1,
                _ => 2,
            },
        })
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

/// Keys of a workgroup, 16 for each wavefront, where matrix instructions multiply them.
fn keys_by_matrix(processor: Processor, elements: u32) -> Option<u32> {
    let target = match processor {
        Processor::Nvidia(Some(_)) => return (elements <= 128).then_some(16 * THREADS / 32),
        Processor::Nvidia(None) | Processor::Unknown => return None,
        Processor::Amd(target) => target,
    };
    let most = match (target.unit().matrix_unit, target.architecture()) {
        (MatrixUnit::Mfma, architecture) if architecture != Architecture::Cdna1 => 256,
        (MatrixUnit::Wmma, Architecture::Rdna4) => 128,
        _ => 0,
    };
    (elements <= most).then_some(16 * THREADS / target.unit().wavefront)
}
