//! What decoding makes of single instructions, and of words that are none.

use rocm_emulator::isa::{self, Dpp, LaneControl, Operand, Special, Target};

fn decode(target: Target, words: &[u32]) -> isa::Inst {
    isa::decode(target, words).unwrap_or_else(|error| panic!("{error}"))
}

fn vgpr(first: u16, dwords: u8) -> Operand {
    Operand::Vgpr { first, dwords }
}

#[test]
fn operands_have_their_widths_and_places() {
    // v_fma_f64 v[64:65], v[16:17], v[32:33], -v[48:49]
    let inst = decode(Target::Gfx1100, &[0xd614_0040, 0x84c2_4110]);
    assert_eq!((inst.op.name, inst.size), ("v_fma_f64", 8));
    assert_eq!(inst.dst[0], vgpr(64, 2));
    assert_eq!(inst.src[..3], [vgpr(16, 2), vgpr(32, 2), vgpr(48, 2)]);
    assert_eq!(inst.mods.neg, 4);

    // v_cmpx_lt_f32_e32 v1, v2 writes EXEC, which its text does not name.
    let inst = decode(Target::Gfx1100, &[0x7d22_0501]);
    let exec = Operand::Special {
        reg: Special::ExecLo,
        dwords: 1,
    };
    assert_eq!((inst.op.name, inst.dst[0]), ("v_cmpx_lt_f32", exec));
    assert_eq!(
        isa::disassemble(Target::Gfx1100, &inst, 0),
        "v_cmpx_lt_f32_e32 v1, v2"
    );
}

#[test]
fn branches_go_backwards() {
    let inst = decode(Target::Gfx942, &[0xbf82_fff0]);
    assert_eq!(inst.src[0], Operand::Immediate(-16));
}

#[test]
fn offsets_have_signs() {
    // global_load_dwordx4 v[4:7], v2, s[8:9] offset:-16
    let inst = decode(Target::Gfx942, &[0xdc5c_9ff0, 0x0408_0002]);
    assert_eq!(
        (inst.op.name, inst.mem.offset),
        ("global_load_dwordx4", -16)
    );
    assert_eq!((inst.dst[0], inst.src[0]), (vgpr(4, 4), vgpr(2, 1)));
}

#[test]
fn data_parallel_primitives_take_the_place_of_source_0() {
    // v_mov_b32_dpp v1, v3 row_shr:4 row_mask:0xf bank_mask:0xe
    let inst = decode(Target::Gfx942, &[0x7e02_02fa, 0xfe01_1403]);
    let dpp = Dpp {
        ctrl: 0x114,
        row_mask: 0xf,
        bank_mask: 0xe,
        bound_ctrl: false,
        fetch_inactive: false,
    };
    assert_eq!(
        (inst.size, inst.src[0], inst.lane),
        (8, vgpr(3, 1), LaneControl::Dpp(dpp))
    );
}

#[test]
fn dual_issue_has_two_halves_and_the_implied_condition() {
    // v_dual_add_f32 v8, v9, v8 :: v_dual_cndmask_b32 v7, 0x7ff00000, v7
    let inst = decode(Target::Gfx1100, &[0xc912_1109, 0x0806_0eff, 0x7ff0_0000]);
    let second = inst.second.expect("the Y half");
    assert_eq!((inst.op.name, inst.size), ("v_dual_add_f32", 12));
    assert_eq!(second.dst[0], vgpr(7, 1));
    assert_eq!(second.src[0], Operand::Literal(0x7ff0_0000));
    let vcc = Operand::Special {
        reg: Special::VccLo,
        dwords: 1,
    };
    assert_eq!(second.src[2], vcc);
}

#[test]
fn words_that_are_no_instruction_are_named() {
    for target in Target::all() {
        let error = isa::decode(target, &[]).expect_err("no words");
        assert_eq!(error.size, None);
        // An opcode that no target defines: SOPP 127.
        let error = isa::decode(target, &[0xbfff_0000, 1, 2, 3, 4]).expect_err("no opcode");
        assert_eq!((error.target, error.size), (target, Some(4)));
        assert!(error.to_string().contains("bfff0000"), "{error}");
        assert!(error.to_string().contains(target.name()), "{error}");
    }
    // A literal and a second dword that are missing.
    assert!(isa::decode(Target::Gfx1100, &[0x7e00_02ff]).is_err());
    assert!(isa::decode(Target::Gfx942, &[0xd1cb_0000]).is_err());
}

/// Whatever the words, decoding ends with an instruction that can be shown, or with an error.
#[test]
fn any_words_decode_or_fail() {
    let mut state = 0x1234_5678_9abc_def0u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    for target in Target::all() {
        let mut decoded = 0;
        for _ in 0..100_000 {
            let words = [next(), next(), next(), next()];
            if let Ok(inst) = isa::decode(target, &words) {
                decoded += 1;
                assert!(matches!(inst.size, 4 | 8 | 12 | 16), "{words:08x?}");
                assert!(!isa::disassemble(target, &inst, 0).is_empty());
            }
        }
        assert!(
            decoded > 10_000,
            "{target}: {decoded} of 100000 random words decode"
        );
    }
}
