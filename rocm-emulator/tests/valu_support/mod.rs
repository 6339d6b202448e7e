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

/// What LLVM 22 makes of instructions of gfx950, which LLVM 19 does not know.
const GFX950: &[(&str, [u32; 2])] = &[
    (
        "v_pk_minimum3_f16 v0, v2, v3, v4",
        [0xd39b_4000, 0x1c12_0702],
    ),
    (
        "v_pk_maximum3_f16 v0, v2, v3, v4",
        [0xd39c_4000, 0x1c12_0702],
    ),
    (
        "v_ashr_pk_i8_i32 v0, v2, v3, v4",
        [0xd265_0000, 0x0412_0702],
    ),
    (
        "v_ashr_pk_u8_i32 v0, v2, v3, v4 op_sel:[0,0,0,1]",
        [0xd266_4000, 0x0412_0702],
    ),
    // One dword, and an s_nop behind it.
    ("v_cvt_f32_bf16_e32 v0, v2", [0x7e00_b702, 0xbf80_0000]),
    ("v_prng_b32_e32 v0, v2", [0x7e00_b102, 0xbf80_0000]),
    (
        "v_bitop3_b32 v0, v2, v3, v4 bitop3:0xca",
        [0xd234_0100, 0x5c12_0702],
    ),
    (
        "v_bitop3_b32 v0, v2, v3, v4 bitop3:1",
        [0xd234_0000, 0x2412_0702],
    ),
    (
        "v_bitop3_b32 v0, v2, v3, 5 bitop3:0x96",
        [0xd234_0200, 0xd216_0702],
    ),
    (
        "v_bitop3_b16 v0, v2, v3, v4 bitop3:0x6c",
        [0xd233_0500, 0x8c12_0702],
    ),
    (
        "v_mfma_f32_32x32x16_f16 v[64:79], v[0:3], v[32:35], v[64:79]",
        [0xd3d5_0040, 0x0502_4100],
    ),
    (
        "v_mfma_f32_32x32x16_bf16 v[64:79], v[0:3], v[32:35], v[64:79]",
        [0xd3b7_0040, 0x0502_4100],
    ),
    (
        "v_mfma_i32_32x32x32_i8 v[64:79], v[0:3], v[32:35], v[64:79]",
        [0xd3b8_0040, 0x0502_4100],
    ),
    (
        "v_mfma_f32_16x16x32_f16 v[64:67], v[0:3], v[32:35], v[64:67]",
        [0xd3d4_0040, 0x0502_4100],
    ),
    (
        "v_mfma_f32_16x16x32_bf16 v[64:67], v[0:3], v[32:35], v[64:67]",
        [0xd3b5_0040, 0x0502_4100],
    ),
    (
        "v_mfma_i32_16x16x64_i8 v[64:67], v[0:3], v[32:35], v[64:67]",
        [0xd3b6_0040, 0x0502_4100],
    ),
    (
        "v_mfma_f32_32x32x16_fp8_bf8 v[64:79], v[0:1], v[32:33], v[64:79]",
        [0xd3f6_0040, 0x0502_4100],
    ),
];

/// The words of each line of assembly text.
pub fn assemble(target: Target, lines: &[&str]) -> Vec<Vec<u32>> {
    if target == Target::Gfx950 {
        let words = lines.iter().map(|line| {
            let row = GFX950.iter().find(|row| row.0 == *line);
            let (_, words) = row.unwrap_or_else(|| panic!("{line}: add LLVM's words to GFX950"));
            words.to_vec()
        });
        return words.collect();
    }
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
