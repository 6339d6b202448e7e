//! What kernels execute, counted into a file: so that those of AMD's libraries can be set beside ours.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use parking_lot::Mutex;
use rocm_emulator::codeobject::LoadedKernel;
use rocm_emulator::exec::{Class, Counters, Cycles, LaunchTime, Profile, Sampling};
use rocm_emulator::isa::{decode, Target};
use rocm_emulator::memory::Memory;
use rocm_emulator::trouble;

/// Names the file, to which each launch adds a line.
const FILE_VARIABLE: &str = "ROCM_EMU_COUNTS";
/// How many workgroups of a launch are executed at most, or [`TIMED`].
const WORKGROUPS_VARIABLE: &str = "ROCM_EMU_COUNTS_WORKGROUPS";
/// Those alone that tell a launch's time.
const TIMED: &str = "timed";
/// What AMD's HIP calls its own kernels, which copy and fill memory: they are always executed whole.
const HIPS_OWN: &str = "__amd_";
/// An instruction's words at most.
const WORDS: usize = 4;

/// The file, and how much of a launch is counted.
pub struct Counts {
    file: Mutex<File>,
    executed: Executed,
}

/// Which workgroups of a launch are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// Each of them.
    All,
    /// So many at most, the first along each axis.
    First(u32),
    /// Those that the model of time samples. Where there is none of the GPU's, each of them.
    Timed,
}

/// A launch that was executed.
pub struct Counted<'a> {
    /// Its kernel.
    pub kernel: &'a LoadedKernel,
    /// Whether that is one of AMD's HIP's own.
    pub is_hips_own: bool,
    /// Workgroups that the packet asks for.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// What was counted.
    pub counters: Counters,
    /// The same by instruction.
    pub profile: &'a Profile,
    /// What it would take, if that was asked for.
    pub time: Option<LaunchTime>,
}

impl Counts {
    /// What the environment asks for.
    ///
    /// # Errors
    /// In words: the file cannot be written, or the number is none.
    pub fn from_environment() -> Result<Option<Counts>, String> {
        let Some(path) = std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let executed = match std::env::var(WORKGROUPS_VARIABLE) {
            Ok(text) if text == TIMED => Executed::Timed,
            Ok(text) if !text.is_empty() => {
                let most = text.parse().ok().filter(|most| *most > 0);
                Executed::First(most.ok_or_else(|| {
                    format!("{WORKGROUPS_VARIABLE}={text}: neither a number nor {TIMED}")
                })?)
            }
            _ => Executed::All,
        };
        let counts = Counts::new(Path::new(&path), executed);
        let counts = counts.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Some(counts))
    }

    /// Into this file, of these workgroups of a launch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: &Path, executed: Executed) -> std::io::Result<Counts> {
        let file = OpenOptions::new().create(true).append(true).open(file)?;
        Ok(Counts {
            file: Mutex::new(file),
            executed,
        })
    }

    /// The workgroups of a launch among which those are that are executed.
    pub fn grid(&self, is_hips_own: bool, grid: [u32; 3]) -> [u32; 3] {
        match self.executed {
            Executed::First(most) if !is_hips_own => first(grid, most),
            _ => grid,
        }
    }

    /// What tells a launch's time, repeated on operands that lie in the Infinity Cache: where there is a model of the GPU's
    /// time, and the launch is executed whole.
    /// Without those that it does not sample, if so many are asked for.
    pub fn cycles(&self, target: Target, is_hips_own: bool, is_whole: bool) -> Option<Cycles> {
        let sampling = Sampling {
            warm: true,
            alone: self.executed == Executed::Timed && !is_hips_own,
            ..Sampling::default()
        };
        Cycles::new(target, sampling).ok().filter(|_| is_whole)
    }

    /// Add a launch's line, an object of JSON.
    pub fn add(&self, target: Target, memory: &Memory, counted: &Counted) {
        let Counted {
            kernel,
            is_hips_own,
            grid,
            block,
            counters,
            profile,
            time,
        } = counted;
        let total = profile.total();
        let microseconds = time.map_or("null".to_owned(), |time| {
            format!("{:.1}", time.microseconds)
        });
        let line = format!(
            "{{\"kernel\": {:?}, \"hips_own\": {is_hips_own}, \"gpu\": \"{target}\", \"workgroups\": {}, \"executed\": {}, \"items\": {}, \
             \"wavefronts\": {}, \"scalar\": {}, \"vector\": {}, \"memory\": {}, \"lds\": {}, \"matrix\": {}, \
             \"matrix_cycles\": {}, \"lds_cycles\": {}, \"lds_conflicts\": {}, \"bytes_loaded\": {}, \
             \"bytes_stored\": {}, \"lines\": {}, \"least_lines\": {}, \
             \"microseconds\": {microseconds}}}\n",
            kernel.kernel.name,
            size(*grid),
            counters.workgroups,
            size(*block),
            counters.wavefronts,
            counters.of(Class::Scalar),
            counters.of(Class::Vector),
            counters.of(Class::Memory),
            counters.of(Class::Lds),
            counters.of(Class::Matrix),
            matrix_cycles(target, memory, kernel, profile),
            total.lds_cycles,
            total.lds_conflicts,
            counters.bytes_loaded,
            counters.bytes_stored,
            total.lines,
            total.least_lines,
        );
        if let Err(error) = self.file.lock().write_all(line.as_bytes()) {
            trouble::say(format_args!("{FILE_VARIABLE}: {error}"));
        }
    }
}

/// Whether a kernel is one of AMD's HIP's own, some of which have no name: its results may not be left out.
pub fn is_hips_own(kernel: &str, has_name: bool) -> bool {
    !has_name || kernel.starts_with(HIPS_OWN)
}

fn size(sides: [u32; 3]) -> u64 {
    sides.iter().map(|side| u64::from(*side)).product()
}

/// A grid of at most so many workgroups, the first along each axis.
fn first(grid: [u32; 3], most: u32) -> [u32; 3] {
    let mut left = most;
    grid.map(|side| {
        let side = side.min(left);
        left = (left / side.max(1)).max(1);
        side
    })
}

/// Cycles for which the matrix instructions occupy the matrix unit of a SIMD.
fn matrix_cycles(target: Target, memory: &Memory, kernel: &LoadedKernel, profile: &Profile) -> u64 {
    let cycles = |offset: i64| {
        let address = kernel.entry.wrapping_add_signed(offset);
        let room = kernel
            .code
            .end
            .saturating_sub(address)
            .min(4 * WORDS as u64);
        let mut bytes = vec![0; room as usize];
        memory.read(address, &mut bytes).ok()?;
        let words = bytes.chunks_exact(4);
        let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let instruction = decode(target, &words.collect::<Vec<_>>()).ok()?;
        target.architecture().matrix_cycles(instruction.op.name)
    };
    let instructions = profile.instructions();
    instructions
        .map(|(offset, row)| row.executions * cycles(offset).unwrap_or(0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn a_part_of_a_grid_is_no_larger_than_asked_for() {
        assert_eq!(first([256, 1, 1], 16), [16, 1, 1]);
        assert_eq!(first([16, 16, 1], 16), [16, 1, 1]);
        assert_eq!(first([4, 16, 1], 16), [4, 4, 1]);
        assert_eq!(first([3, 5, 7], 16), [3, 5, 1]);
        assert_eq!(first([2, 2, 2], 100), [2, 2, 2]);
    }
}
