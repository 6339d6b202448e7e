//! From assembly text to registers: assemble with LLVM, decode, lower, run.

#![allow(dead_code)]

use candle_rocm_testing::llvm::Tools;
pub use candle_rocm_testing::random::Random;
use rocm_emulator::exec::valu::{self, VectorOp};
use rocm_emulator::exec::{Mode, Wave};
use rocm_emulator::isa::{decode, Target};

/// What our compiler leaves MODE at: nearest-even, denormals kept, IEEE and DX10_CLAMP on.
pub const MODE: Mode = Mode {
    round_f32: 0,
    round_f64_f16: 0,
    denorm_f32: 3,
    denorm_f64_f16: 3,
    dx10_clamp: true,
    ieee: true,
};

/// The words of each line of assembly text.
pub fn assemble(target: Target, lines: &[&str]) -> Vec<Vec<u32>> {
    Tools::find().assemble(target.name(), lines)
}

/// Lower one line of assembly text.
pub fn lower(target: Target, lanes: u32, line: &str) -> VectorOp {
    let words = assemble(target, &[line]).remove(0);
    lower_words(target, lanes, line, &words)
}

pub fn lower_words(target: Target, lanes: u32, line: &str, words: &[u32]) -> VectorOp {
    let inst = decode(target, words)
        .unwrap_or_else(|error| panic!("{target}: {line}: {words:08x?}: {error}"));
    valu::lower(target, lanes, &inst).unwrap_or_else(|error| panic!("{target}: {line}: {error}"))
}

/// A wave with 256 vector registers (and accumulators on CDNA), all lanes active.
pub fn wave(target: Target) -> Wave {
    wave_with(target, MODE)
}

pub fn wave_with(target: Target, mode: Mode) -> Wave {
    let lanes = target.wavefront_size();
    let mut wave = Wave::new(target, lanes, 256, 256, mode);
    wave.set_exec(u64::MAX);
    wave
}

/// Run lines of text one after the other.
pub fn run(wave: &mut Wave, lines: &[&str]) {
    let (target, lanes) = (wave.target, wave.lanes);
    for (line, words) in lines.iter().zip(assemble(target, lines)) {
        let op = lower_words(target, lanes, line, &words);
        op.validate(wave.vgpr.len(), wave.agpr.len())
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        op.run(wave);
    }
}

/// The same dword in every lane.
pub fn set(wave: &mut Wave, register: usize, value: u32) {
    wave.vgpr[register].0.fill(value);
}

/// The same 64-bit value in every lane of a register pair.
pub fn set64(wave: &mut Wave, register: usize, value: u64) {
    set(wave, register, value as u32);
    set(wave, register + 1, (value >> 32) as u32);
}

pub fn get(wave: &Wave, register: usize) -> u32 {
    wave.vgpr[register].0[0]
}

pub fn get64(wave: &Wave, register: usize) -> u64 {
    get(wave, register) as u64 | (get(wave, register + 1) as u64) << 32
}

/// Uniform in -1..1, a multiple of 1/64: sums of products of such are exact in f32.
pub fn small(random: &mut Random) -> f32 {
    ((random.bits() >> 40) as i32 % 128 - 64) as f32 / 64.0
}
