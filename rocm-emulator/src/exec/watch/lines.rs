//! How many cache lines an instruction touches.

use super::profile::InstructionProfile;
use crate::exec::memory::Footprint;
use crate::exec::wave::LANES;
use crate::isa::Target;

/// Bytes of a line of the cache that vector memory instructions go through.
pub fn line_bytes(target: Target) -> u64 {
    target.unit().line_bytes.into()
}

/// Add a wavefront's access to memory.
pub(crate) fn count(row: &mut InstructionProfile, target: Target, access: &Footprint) {
    let line = line_bytes(target);
    let bytes = u64::from(access.bytes);
    // An element may lie across the boundary of two lines.
    let mut touched = [0u64; 2 * LANES];
    let mut count = 0;
    for lane in access.active(u64::MAX) {
        let first = access.places[lane];
        for line in [first / line, first.wrapping_add(bytes - 1) / line] {
            if count == 0 || touched[count - 1] != line {
                touched[count] = line;
                count += 1;
            }
        }
    }
    let touched = &mut touched[..count];
    touched.sort_unstable();
    let different = touched.chunk_by(|a, b| a == b).count() as u64;
    let moved = u64::from(access.lanes.count_ones()) * bytes;
    row.global_bytes += moved;
    row.lines += different;
    // Lanes that share an address need fewer lines than their bytes would fill.
    row.least_lines += moved.div_ceil(line).min(different);
}
