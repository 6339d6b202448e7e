//! 16-bit operands of GFX11 and GFX12 that are half a register: in the short formats bit 7 of the register's number is
//! the half. Words and texts are LLVM 22's for the feature `real-true16`; values are worked out by hand.

mod valu_support;

use rocm_emulator::isa::{decode, disassemble_halves, Target};
use valu_support::*;

/// Registers before, then a register after.
struct Case {
    targets: &'static [Target],
    text: &'static str,
    words: &'static [u32],
    before: &'static [(usize, u32)],
    after: &'static [(usize, u32)],
}

const BOTH: &[Target] = &[Target::Gfx1100, Target::Gfx1201];
const GFX11: &[Target] = &[Target::Gfx1100];
const GFX12: &[Target] = &[Target::Gfx1201];

// 0x3c00 is 1.0, 0x4000 2.0, 0x4200 3.0, 0x4400 4.0, 0x4500 5.0, 0x4600 6.0, 0x4700 7.0.
const CASES: &[Case] = &[
    Case {
        targets: BOTH,
        text: "v_add_f16_e32 v30.l, v0.h, v1.l",
        words: &[0x643c_0380],
        before: &[(0, 0x4600_0000), (1, 0x3c00), (30, 0xaaaa_bbbb)],
        after: &[(30, 0xaaaa_4700)],
    },
    Case {
        targets: BOTH,
        text: "v_add_f16_e32 v30.h, v0.l, v1.h",
        words: &[0x653d_0300],
        before: &[(0, 0x4600), (1, 0x3c00_4400), (30, 0xaaaa_bbbb)],
        after: &[(30, 0x4700_bbbb), (128 + 30, 0)],
    },
    Case {
        targets: BOTH,
        text: "v_mov_b16_e32 v5.h, v2.l",
        words: &[0x7f0a_3902],
        before: &[(2, 0x1111_2222), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x2222_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_mov_b16_e32 v5.l, v2.h",
        words: &[0x7e0a_3982],
        before: &[(2, 0x1111_2222), (5, 0xaaaa_bbbb)],
        after: &[(5, 0xaaaa_1111)],
    },
    Case {
        targets: BOTH,
        text: "v_mov_b16_e32 v5.h, 0x1234",
        words: &[0x7f0a_38ff, 0x1234],
        before: &[(5, 0xaaaa_bbbb)],
        after: &[(5, 0x1234_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_mov_b16_e64 v5.h, v2.h op_sel:[1,1]",
        words: &[0xd59c_4805, 0x0000_0102],
        before: &[(2, 0x1111_2222), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x1111_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_swap_b16 v5.h, v2.l",
        words: &[0x7f0a_cd02],
        before: &[(2, 0x1111_2222), (5, 0xaaaa_bbbb)],
        after: &[(2, 0x1111_aaaa), (5, 0x2222_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_swap_b16 v5.h, v5.l",
        words: &[0x7f0a_cd05],
        before: &[(5, 0xaaaa_bbbb)],
        after: &[(5, 0xbbbb_aaaa)],
    },
    Case {
        targets: BOTH,
        text: "v_cvt_f16_f32_e32 v5.h, v2",
        words: &[0x7f0a_1502],
        before: &[(2, 0x40a0_0000), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x4500_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_cvt_f32_f16_e32 v5, v2.h",
        words: &[0x7e0a_1782],
        before: &[(2, 0x4500_3c00)],
        after: &[(5, 0x40a0_0000)],
    },
    Case {
        targets: BOTH,
        text: "v_cvt_i32_i16_e32 v5, v2.h",
        words: &[0x7e0a_d582],
        before: &[(2, 0xfffe_0001)],
        after: &[(5, 0xffff_fffe)],
    },
    Case {
        targets: BOTH,
        text: "v_sat_pk_u8_i16_e32 v6.h, v2",
        words: &[0x7f0c_c502],
        before: &[(2, 0xffff_0123), (6, 0xaaaa_bbbb)],
        after: &[(6, 0x00ff_bbbb)],
    },
    // 3 * 2 + 1: the destination's half is what is added to.
    Case {
        targets: BOTH,
        text: "v_fmac_f16_e32 v5.h, v2.h, v3.l",
        words: &[0x6d0a_0782],
        before: &[(2, 0x4200_0000), (3, 0x4000), (5, 0x3c00_4400)],
        after: &[(5, 0x4700_4400)],
    },
    // 1 * 2 + 3.
    Case {
        targets: BOTH,
        text: "v_fmamk_f16 v5.l, v2.h, 0x4000, v3.h",
        words: &[0x6e0b_0782, 0x4000],
        before: &[(2, 0x3c00_0000), (3, 0x4200_0000), (5, 0xaaaa_bbbb)],
        after: &[(5, 0xaaaa_4500)],
    },
    Case {
        targets: BOTH,
        text: "v_fmaak_f16 v5.h, v2.l, v3.h, 0x4000",
        words: &[0x710b_0702, 0x4000],
        before: &[(2, 0x3c00), (3, 0x4200_0000), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x4500_bbbb)],
    },
    // 2 * 2^2.
    Case {
        targets: BOTH,
        text: "v_ldexp_f16_e32 v5.l, v2.l, v3.h",
        words: &[0x760b_0702],
        before: &[(2, 0x4000), (3, 0x0002_0005), (5, 0xaaaa_bbbb)],
        after: &[(5, 0xaaaa_4800)],
    },
    Case {
        targets: GFX12,
        text: "v_min_num_f16_e32 v5.l, v2.h, v3.l",
        words: &[0x600a_0782],
        before: &[(2, 0x3c00_4700), (3, 0x4000), (5, 0xaaaa_bbbb)],
        after: &[(5, 0xaaaa_3c00)],
    },
    // The bytes 38 and 40 are 1.0 and 2.0.
    Case {
        targets: GFX12,
        text: "v_cvt_pk_f32_fp8_e32 v[6:7], v2.h",
        words: &[0x7e0c_dd82],
        before: &[(2, 0x4038_0000)],
        after: &[(6, 0x3f80_0000), (7, 0x4000_0000)],
    },
    Case {
        targets: GFX11,
        text: "v_add_f16_dpp v5.h, v2.h, v3.h row_shr:1 row_mask:0xf bank_mask:0xf",
        words: &[0x650b_06fa, 0xff01_1182],
        // Lane 0 has no source, and keeps what it holds.
        before: &[(2, 0x4600_0000), (3, 0x3c00_0000), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x4700_bbbb)],
    },
    Case {
        targets: GFX11,
        text: "v_add_f16_dpp v5.l, v2.h, v3.l dpp8:[0,1,2,3,4,5,6,7]",
        words: &[0x640a_06e9, 0xfac6_8882],
        before: &[(2, 0x4600_0000), (3, 0x3c00), (5, 0xaaaa_bbbb)],
        after: &[(5, 0xaaaa_4700)],
    },
    // The long formats have all registers, and `op_sel`.
    Case {
        targets: BOTH,
        text: "v_add_f16_e64 v5.h, v2.l, v130.h op_sel:[0,1,1]",
        words: &[0xd532_5005, 0x0003_0502],
        before: &[(2, 0x4600), (130, 0x3c00_0000), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x4700_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_cndmask_b16 v5.h, v2.l, v3.h, vcc_lo",
        words: &[0xd65d_5005, 0x01aa_0702],
        before: &[(2, 0x1111_2222), (3, 0x3333_4444), (5, 0xaaaa_bbbb)],
        after: &[(5, 0x3333_bbbb)],
    },
    Case {
        targets: BOTH,
        text: "v_alignbit_b32 v5, v2, v3, v4.h op_sel:[0,0,1,0]",
        words: &[0xd616_2005, 0x0412_0702],
        before: &[(2, 0x1234_5678), (3, 0x9abc_def0), (4, 0x0008_0004)],
        after: &[(5, 0x789a_bcde)],
    },
];

#[test]
fn halves_of_registers() {
    for case in CASES {
        for &target in case.targets {
            let mut wave = wave(target);
            wave.vcc = u64::MAX;
            for &(register, value) in case.before {
                set(&mut wave, register, value);
            }
            lower_words(target, wave.lanes, case.text, case.words).run(&mut wave);
            for &(register, value) in case.after {
                // Lane 17: DPP's lanes 0 and 16 have no source.
                let got = wave.vgpr[register].0[17];
                assert_eq!(got, value, "{target}: {}: v{register}", case.text);
            }
        }
    }
}

#[test]
fn texts_name_the_halves() {
    for case in CASES {
        for &target in case.targets {
            let inst = decode(target, case.words).expect("an instruction");
            assert_eq!(usize::from(inst.size), 4 * case.words.len());
            assert_eq!(disassemble_halves(target, &inst), case.text, "{target}");
        }
    }
}

#[test]
fn comparisons_of_halves() {
    // v_cmp_lt_f16_e32 vcc_lo, v2.h, v3.l; v_cmp_eq_i16_e32 vcc_lo, v2.l, v3.h; v_cmp_class_f16_e32 vcc_lo, v2.l, v3.h.
    let less = 0x7c02_0782;
    let equal = 0x7c65_0702;
    let class = 0x7cfb_0702;
    for &target in BOTH {
        let mut wave = wave(target);
        let mut check = |word: u32, v2: u32, v3: u32, holds: bool| {
            set(&mut wave, 2, v2);
            set(&mut wave, 3, v3);
            wave.vcc = if holds { 0 } else { u64::MAX };
            lower_words(target, wave.lanes, "a comparison", &[word]).run(&mut wave);
            let expected = if holds { wave.lane_mask() } else { 0 };
            assert_eq!(wave.vcc & wave.lane_mask(), expected, "{target} {word:x}");
        };
        check(less, 0x3c00_4700, 0x0000_4000, true);
        check(less, 0x4700_3c00, 0x0000_4000, false);
        check(equal, 0x1111_8001, 0x8001_2222, true);
        check(equal, 0x8001_1111, 0x8001_2222, false);
        // 1.0 is of class 8: a positive normal number.
        check(class, 0x3c00, 0x0100_0000, true);
        check(class, 0x3c00, 0x0000_0100, false);
    }
}
