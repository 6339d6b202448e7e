//! What concerns whole wavefronts: EXEC, lane masks, DPP, SDWA, permutes, dual issue, packed math, MODE.

mod valu_support;

use rocm_emulator::exec::{valu, Mode, Wave};
use rocm_emulator::isa::{decode, Encoding, Target};
use valu_support::*;

/// Lane l of v2 holds 100 + l.
fn numbered(target: Target) -> Wave {
    let mut wave = wave(target);
    for (lane, dword) in wave.vgpr[2].0.iter_mut().enumerate() {
        *dword = 100 + lane as u32;
    }
    wave
}

/// Run `line`, which writes v0 from v2, and compare lane by lane; v0 holds 7 before.
fn check_lanes(wave: &mut Wave, line: &str, expected: impl Fn(usize) -> u32) {
    set(wave, 0, 7);
    run(wave, &[line]);
    for lane in 0..wave.lanes as usize {
        assert_eq!(
            wave.vgpr[0].0[lane],
            expected(lane),
            "{}: {line}: lane {lane}",
            wave.target
        );
    }
}

fn lane(index: usize) -> u32 {
    100 + index as u32
}

#[test]
fn inactive_lanes_keep_their_values() {
    for target in [Target::Gfx942, Target::Gfx1100] {
        let mut wave = numbered(target);
        wave.set_exec(0x8000_0000_4000_0005);
        let exec = wave.exec();
        check_lanes(&mut wave, "v_not_b32 v0, v2", |l| {
            if exec >> l & 1 == 1 {
                !lane(l)
            } else {
                7
            }
        });
    }
}

#[test]
fn compares_write_masks_with_zero_for_inactive_lanes() {
    let mut wave = numbered(Target::Gfx942);
    wave.set_exec(0xffff_0000_ffff_0000);
    wave.vcc = u64::MAX;
    wave.sgpr[10] = u32::MAX;
    wave.sgpr[11] = u32::MAX;
    set(&mut wave, 4, 140);
    run(
        &mut wave,
        &["v_cmp_gt_u32 vcc, v4, v2", "v_cmp_eq_u32 s[10:11], v4, v2"],
    );
    assert_eq!(wave.vcc, ((1u64 << 40) - 1) & wave.exec());
    assert_eq!((wave.sgpr[10], wave.sgpr[11]), (0, 0));
    run(&mut wave, &["v_cmp_ne_u32 s[10:11], v4, v2"]);
    assert_eq!((wave.sgpr[10], wave.sgpr[11]), (0xffff_0000, 0xffff_0000));
    // GFX9 writes the mask to VCC too.
    run(&mut wave, &["v_cmpx_gt_u32 vcc, v4, v2"]);
    assert_eq!(wave.exec(), 0xffff_0000);
    assert_eq!(wave.vcc, 0xffff_0000);

    let mut wave = numbered(Target::Gfx1100);
    set(&mut wave, 4, 110);
    wave.vcc = 0x1234;
    run(
        &mut wave,
        &["v_cmp_le_u32 s5, v4, v2", "v_cmpx_gt_u32 v4, v2"],
    );
    assert_eq!(wave.sgpr[5], !0u32 << 10);
    assert_eq!((wave.exec(), wave.vcc), (0x3ff, 0x1234));
}

#[test]
fn float_compares_know_nan() {
    let pairs = [
        (1.0f32, 2.0f32),
        (2.0, 2.0),
        (3.0, 2.0),
        (f32::NAN, 2.0),
        (1.0, f32::NAN),
        (-0.0, 0.0),
    ];
    // One bit a pair, lowest first.
    let expected = [
        ("lt", 0b000001),
        ("eq", 0b100010),
        ("le", 0b100011),
        ("gt", 0b000100),
        ("lg", 0b000101),
        ("ge", 0b100110),
        ("o", 0b100111),
        ("u", 0b011000),
        ("nge", 0b011001),
        ("nlg", 0b111010),
        ("ngt", 0b111011),
        ("nle", 0b011100),
        ("neq", 0b011101),
        ("nlt", 0b111110),
    ];
    for target in [Target::Gfx942, Target::Gfx1100] {
        let mut wave = wave(target);
        for (lane, (a, b)) in pairs.iter().enumerate() {
            wave.vgpr[2].0[lane] = a.to_bits();
            wave.vgpr[4].0[lane] = b.to_bits();
        }
        wave.set_exec(0x3f);
        let vcc = if target == Target::Gfx942 {
            "vcc"
        } else {
            "vcc_lo"
        };
        for (condition, mask) in expected {
            run(
                &mut wave,
                &[&format!("v_cmp_{condition}_f32 {vcc}, v2, v4")],
            );
            assert_eq!(wave.vcc, mask, "{target} {condition}");
        }
    }
}

#[test]
fn classes() {
    let values = [
        0x7f80_0001u32,
        0x7fc0_0000,
        0xff80_0000,
        0xbf80_0000,
        0x8000_0001,
        0x8000_0000,
        0,
        1,
        0x3f80_0000,
        0x7f80_0000,
    ];
    let mut wave = wave(Target::Gfx1100);
    for (class, &value) in values.iter().enumerate() {
        wave.vgpr[2].0[class] = value;
        wave.vgpr[4].0[class] = 1 << class;
        wave.vgpr[5].0[class] = 0x3ff ^ 1 << class;
    }
    wave.set_exec(0x3ff);
    run(
        &mut wave,
        &["v_cmp_class_f32 s4, v2, v4", "v_cmp_class_f32 s5, v2, v5"],
    );
    assert_eq!((wave.sgpr[4], wave.sgpr[5]), (0x3ff, 0));
}

#[test]
fn dpp_rows_and_quads() {
    let row = |l: usize| l / 16 * 16;
    let all = "row_mask:0xf bank_mask:0xf";
    for target in [Target::Gfx942, Target::Gfx1100] {
        let w = &mut numbered(target);
        let dpp = |control: &str| format!("v_mov_b32_dpp v0, v2 {control} {all}");
        check_lanes(w, &dpp("quad_perm:[3,0,1,1]"), |l| {
            lane(l / 4 * 4 + [3, 0, 1, 1][l % 4])
        });
        check_lanes(w, &dpp("row_shr:3"), |l| {
            if l % 16 < 3 {
                7
            } else {
                lane(l - 3)
            }
        });
        check_lanes(w, &dpp("row_shl:5"), |l| {
            if l % 16 > 10 {
                7
            } else {
                lane(l + 5)
            }
        });
        check_lanes(w, &dpp("row_ror:4"), |l| lane(row(l) + (l + 12) % 16));
        check_lanes(w, &dpp("row_mirror"), |l| lane(row(l) + 15 - l % 16));
        check_lanes(w, &dpp("row_half_mirror"), |l| lane(l / 8 * 8 + 7 - l % 8));
        check_lanes(w, &format!("{} bound_ctrl:1", dpp("row_shr:1")), |l| {
            if l % 16 == 0 {
                0
            } else {
                lane(l - 1)
            }
        });
        // Rows and banks that are masked off are not written.
        check_lanes(
            w,
            "v_mov_b32_dpp v0, v2 quad_perm:[0,0,0,0] row_mask:0x1 bank_mask:0x6",
            |l| {
                if l / 16 == 0 && (1..3).contains(&(l / 4 % 4)) {
                    lane(l / 4 * 4)
                } else {
                    7
                }
            },
        );
        // A disabled source lane counts as invalid.
        w.set_exec(!2);
        check_lanes(w, &dpp("quad_perm:[1,1,1,1]"), |l| {
            if l < 4 {
                7
            } else {
                lane(l / 4 * 4 + 1)
            }
        });
    }
    let w = &mut numbered(Target::Gfx942);
    check_lanes(
        w,
        &format!("v_mov_b32_dpp v0, v2 row_bcast:15 {all}"),
        |l| {
            if l < 16 {
                7
            } else {
                lane(row(l) - 1)
            }
        },
    );
    check_lanes(
        w,
        &format!("v_mov_b32_dpp v0, v2 row_bcast:31 {all}"),
        |l| if l < 32 { 7 } else { lane(31) },
    );
    check_lanes(w, &format!("v_mov_b32_dpp v0, v2 wave_shr:1 {all}"), |l| {
        if l == 0 {
            7
        } else {
            lane(l - 1)
        }
    });
    check_lanes(w, &format!("v_mov_b32_dpp v0, v2 wave_rol:1 {all}"), |l| {
        lane((l + 1) % 64)
    });
    check_lanes(
        w,
        &format!("v_mov_b32_dpp v0, v2 row_newbcast:5 {all}"),
        |l| lane(row(l) + 5),
    );
    let w = &mut numbered(Target::Gfx1100);
    check_lanes(w, &format!("v_mov_b32_dpp v0, v2 row_share:9 {all}"), |l| {
        lane(row(l) + 9)
    });
    check_lanes(w, &format!("v_mov_b32_dpp v0, v2 row_xmask:6 {all}"), |l| {
        lane(l ^ 6)
    });
    check_lanes(w, "v_mov_b32_dpp v0, v2 dpp8:[7,6,5,4,0,1,2,3]", |l| {
        lane(l / 8 * 8 + [7, 6, 5, 4, 0, 1, 2, 3][l % 8])
    });
    w.set_exec(!2);
    check_lanes(
        w,
        &format!("v_mov_b32_dpp v0, v2 quad_perm:[1,1,1,1] {all} fi:1"),
        |l| {
            if l == 1 {
                7
            } else {
                lane(l / 4 * 4 + 1)
            }
        },
    );
}

#[test]
fn dpp_feeds_arithmetic() {
    let w = &mut numbered(Target::Gfx942);
    set(w, 4, 1000);
    check_lanes(
        w,
        "v_add_u32_dpp v0, v2, v4 row_ror:1 row_mask:0xf bank_mask:0xf",
        |l| 1000 + lane(l / 16 * 16 + (l + 15) % 16),
    );
    let w = &mut wave(Target::Gfx1100);
    set(w, 2, (-3.0f32).to_bits());
    set(w, 4, 0.5f32.to_bits());
    run(
        w,
        &["v_sub_f32_dpp v0, |v2|, -v4 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"],
    );
    assert_eq!(f32::from_bits(get(w, 0)), 3.5);
}

#[test]
fn sdwa_selects_parts_of_dwords() {
    let w = &mut wave(Target::Gfx942);
    set(w, 2, 0x8899_aabb);
    set(w, 4, 0x0102_0304);
    let cases: &[(&str, u32)] = &[
        ("v_add_u32_sdwa v0, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:WORD_1", 0x88 + 0x0102),
        ("v_add_u32_sdwa v0, sext(v2), v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:BYTE_0", 0xffff_ff99 + 4),
        ("v_add_u32_sdwa v0, v2, v4 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:BYTE_1", 0x1234_be78),
        ("v_add_u32_sdwa v0, v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:BYTE_0", 0xaabf_0000),
        ("v_add_u32_sdwa v0, v2, v4 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:WORD_0 src1_sel:BYTE_0", 0xffff_aabf),
    ];
    for &(line, expected) in cases {
        set(w, 0, 0x1234_5678);
        run(w, &[line]);
        assert_eq!(get(w, 0), expected, "{line}");
    }
    // f16 in the high half, negated.
    set(w, 2, 0x4200_0000);
    set(w, 4, 0x0000_3c00);
    run(w, &["v_add_f16_sdwa v0, -v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_0"]);
    assert_eq!(get(w, 0), 0xc000);
}

#[test]
fn lanes_to_scalars_and_back() {
    for target in [Target::Gfx942, Target::Gfx1100] {
        let w = &mut numbered(target);
        w.sgpr[3] = 20;
        w.sgpr[6] = 0xabc;
        w.set_exec(0xfff0);
        run(
            w,
            &[
                "v_readfirstlane_b32 s4, v2",
                "v_readlane_b32 s5, v2, s3",
                "v_writelane_b32 v2, s6, 1",
            ],
        );
        assert_eq!((w.sgpr[4], w.sgpr[5]), (104, 120));
        // EXEC does not matter to a written lane.
        assert_eq!(w.vgpr[2].0[1], 0xabc);
        w.set_exec(0);
        run(w, &["v_readfirstlane_b32 s4, v2"]);
        assert_eq!(w.sgpr[4], 100);
    }
}

#[test]
fn permlanes() {
    let w = &mut numbered(Target::Gfx1100);
    w.sgpr[0] = 0x7654_3210;
    w.sgpr[1] = 0xfedc_ba98;
    check_lanes(w, "v_permlanex16_b32 v0, v2, s0, s1", |l| lane(l ^ 16));
    w.sgpr[0] = 0x8888_9999;
    check_lanes(w, "v_permlane16_b32 v0, v2, s0, s1", |l| {
        lane(l / 16 * 16 + [9, 9, 9, 9, 8, 8, 8, 8, 8, 9, 10, 11, 12, 13, 14, 15][l % 16])
    });
    let w = &mut numbered(Target::Gfx942);
    set(w, 0, 7);
    w.set_exec(0xf);
    run(w, &["v_swap_b32 v0, v2"]);
    assert_eq!(w.vgpr[0].0[..5], [100, 101, 102, 103, 7]);
    assert_eq!(w.vgpr[2].0[..5], [7, 7, 7, 7, 104]);
}

#[test]
fn mbcnt_counts_the_lanes_below() {
    let w = &mut wave(Target::Gfx942);
    run(
        w,
        &[
            "v_mbcnt_lo_u32_b32 v0, -1, 0",
            "v_mbcnt_hi_u32_b32 v0, -1, v0",
        ],
    );
    assert!((0..64).all(|l| w.vgpr[0].0[l] == l as u32));
    w.sgpr[0] = 0x5555_5555;
    run(w, &["v_mbcnt_lo_u32_b32 v1, s0, 3"]);
    assert_eq!((w.vgpr[1].0[5], w.vgpr[1].0[63]), (3 + 3, 16 + 3));
}

#[test]
fn cndmask_and_carries_read_masks() {
    let w = &mut wave(Target::Gfx942);
    set(w, 2, 1);
    set(w, 4, 2);
    w.vcc = 0xaaaa_aaaa_aaaa_aaaa;
    w.sgpr[8] = 0xffff_0000;
    w.sgpr[9] = 1;
    run(
        w,
        &[
            "v_cndmask_b32 v0, v2, v4, vcc",
            "v_cndmask_b32_e64 v1, v2, -v4, s[8:9]",
        ],
    );
    for l in 0..64 {
        assert_eq!(w.vgpr[0].0[l], 1 + l as u32 % 2);
        let chosen = if (16..33).contains(&l) {
            0x8000_0002
        } else {
            1
        };
        assert_eq!(w.vgpr[1].0[l], chosen, "lane {l}");
    }
}

/// A dual-issue instruction made of two ordinary ones.
fn run_dual(wave: &mut Wave, x: &str, y: &str) {
    let [mut first, second] = [x, y].map(|line| {
        let words = assemble(wave.target, &[line]).remove(0);
        decode(wave.target, &words).expect("an ordinary instruction decodes")
    });
    first.encoding = Encoding::VOPD;
    first.second = Some(Box::new(second));
    let op = valu::lower(wave.target, wave.lanes, &first).expect("both halves have semantics");
    op.run(wave);
}

#[test]
fn dual_issue_reads_before_it_writes() {
    let w = &mut wave(Target::Gfx1100);
    set(w, 0, 5.0f32.to_bits());
    set(w, 1, 7.0f32.to_bits());
    set(w, 3, 2.0f32.to_bits());
    run_dual(w, "v_mov_b32 v0, v1", "v_mov_b32 v1, v0");
    let values = |w: &Wave| [0, 1].map(|register| f32::from_bits(get(w, register)));
    assert_eq!(values(w), [7.0, 5.0]);
    // v1 += 7 * 2 with the v0 from before.
    run_dual(w, "v_mul_f32 v0, v1, v3", "v_fmac_f32 v1, v0, v3");
    assert_eq!(values(w), [10.0, 19.0]);
}

#[test]
fn packed_halves_and_their_selection() {
    for target in [Target::Gfx942, Target::Gfx1100] {
        let w = &mut wave(target);
        // (high, low): v2 = (2, 1), v4 = (8, 4), v6 = (-1, 0.5)
        set(w, 2, 0x4000_3c00);
        set(w, 4, 0x4800_4400);
        set(w, 6, 0xbc00_3800);
        let cases: &[(&str, u32)] = &[
            ("v_pk_add_f16 v0, v2, v4", 0x4900_4500),
            (
                "v_pk_mul_f16 v0, v2, v4 op_sel:[1,0] op_sel_hi:[0,1]",
                0x4800_4800,
            ),
            ("v_pk_fma_f16 v0, v2, v4, v6", 0x4b80_4480),
            (
                "v_pk_add_f16 v0, v2, v4 neg_lo:[1,0] neg_hi:[0,1]",
                0xc600_4200,
            ),
            ("v_pk_max_f16 v0, v2, v6", 0x4000_3c00),
            ("v_pk_add_f16 v0, v2, 1.0 op_sel_hi:[1,0]", 0x4200_4000),
            ("v_pk_add_u16 v0, v2, v4", 0x8800_8000),
            ("v_pk_add_u16 v0, v4, v6 clamp", 0xffff_7c00),
            ("v_pk_lshlrev_b16 v0, v2, v4", 0x4800_4400),
        ];
        for &(line, expected) in cases {
            run(w, &[line]);
            assert_eq!(get(w, 0), expected, "{target}: {line}");
        }
    }
    let w = &mut wave(Target::Gfx942);
    set(w, 2, 1.5f32.to_bits());
    set(w, 3, 2.5f32.to_bits());
    set(w, 4, 10f32.to_bits());
    set(w, 5, 20f32.to_bits());
    run(
        w,
        &[
            "v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[2:3]",
            "v_pk_mul_f32 v[12:13], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,0] neg_lo:[0,1]",
            "v_pk_mov_b32 v[14:15], v[2:3], v[4:5] op_sel:[1,0]",
        ],
    );
    let got: Vec<f32> = (10..16)
        .map(|register| f32::from_bits(get(w, register)))
        .collect();
    assert_eq!(got[..4], [16.5, 52.5, -25.0, 15.0]);
    assert_eq!(got[4], 2.5);
}

#[test]
fn dot_products() {
    let w = &mut wave(Target::Gfx1100);
    set(w, 2, 0xff80_7f01);
    set(w, 4, 0x0203_8004);
    set(w, 6, 100);
    let signed = |x: i64| x;
    run(
        w,
        &[
            "v_dot4_i32_iu8 v10, v2, v4, v6 neg_lo:[1,1,0]",
            "v_dot4_i32_iu8 v11, v2, v4, v6 neg_lo:[1,0,0]",
            "v_dot4_u32_u8 v12, v2, v4, v6",
            "v_dot8_u32_u4 v13, v2, v4, v6",
            "v_dot2_f32_f16 v14, v20, v21, v22",
        ],
    );
    assert_eq!(
        get(w, 10) as i32 as i64,
        signed(-2 - 128 * 3 + 127 * -128 + 4 + 100)
    );
    assert_eq!(
        get(w, 11) as i32 as i64,
        signed(-2 - 128 * 3 + 127 * 128 + 4 + 100)
    );
    assert_eq!(get(w, 12) as i64, 255 * 2 + 128 * 3 + 127 * 128 + 4 + 100);
    let nibbles = |x: u32| (0..8).map(move |i| x >> (4 * i) & 15);
    let sum: u32 = nibbles(0xff80_7f01)
        .zip(nibbles(0x0203_8004))
        .map(|(a, b)| a * b)
        .sum();
    assert_eq!(get(w, 13), sum + 100);
    set(w, 20, 0x4000_3c00);
    set(w, 21, 0x4400_4200);
    set(w, 22, 0.25f32.to_bits());
    run(w, &["v_dot2_f32_f16 v14, v20, v21, v22"]);
    assert_eq!(f32::from_bits(get(w, 14)), 1.0 * 3.0 + 2.0 * 4.0 + 0.25);
}

#[test]
fn mixed_precision_fma_reads_halves_where_told() {
    for target in [Target::Gfx942, Target::Gfx1100] {
        let w = &mut wave(target);
        set(w, 2, 0x4000_3c00);
        set(w, 4, 0.5f32.to_bits());
        set(w, 6, 0x4800_4400);
        set(w, 0, 0x1111_1111);
        run(
            w,
            &[
                "v_fma_mix_f32 v10, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,0,1]",
                "v_fma_mix_f32 v11, -v2, v4, |v4| op_sel_hi:[1,0,0]",
                "v_fma_mixlo_f16 v0, v2, v4, v6 op_sel_hi:[1,0,1]",
                "v_fma_mixhi_f16 v0, v2, v4, v6 op_sel:[0,0,1] op_sel_hi:[1,0,1]",
            ],
        );
        assert_eq!(f32::from_bits(get(w, 10)), 2.0 * 0.5 + 4.0);
        assert_eq!(f32::from_bits(get(w, 11)), -0.5 + 0.5);
        assert_eq!(get(w, 0), 0x4840_4480, "{target}");
    }
}

fn with_mode(change: impl Fn(&mut Mode)) -> Wave {
    let mut mode = MODE;
    change(&mut mode);
    wave_with(Target::Gfx942, mode)
}

#[test]
fn denormals_are_flushed_where_mode_says() {
    let denormal = 0x0040_0000u32;
    // (field, input kept, output kept)
    for (field, input, output) in [
        (0, false, false),
        (1, true, false),
        (2, false, true),
        (3, true, true),
    ] {
        let w = &mut with_mode(|mode| mode.denorm_f32 = field);
        set(w, 2, denormal);
        set(w, 4, 2.0f32.to_bits());
        set(w, 5, 0x0080_0000);
        set(w, 6, 0.5f32.to_bits());
        run(
            w,
            &[
                "v_mul_f32 v0, v2, v4",
                "v_mul_f32 v1, v5, v6",
                "v_mov_b32 v3, v2",
            ],
        );
        assert_eq!(
            get(w, 0),
            if input { 0x0080_0000 } else { 0 },
            "input, field {field}"
        );
        assert_eq!(
            get(w, 1),
            if output { denormal } else { 0 },
            "output, field {field}"
        );
        assert_eq!(get(w, 3), denormal, "a move changes nothing");
    }
    let w = &mut with_mode(|mode| mode.denorm_f64_f16 = 0);
    set(w, 2, 0x8200);
    set64(w, 4, 1);
    run(
        w,
        &["v_add_f16 v0, v2, v2", "v_add_f64 v[6:7], v[4:5], v[4:5]"],
    );
    assert_eq!((get(w, 0), get64(w, 6)), (0x8000, 0));
}

#[test]
fn rounding_modes() {
    // 1 + 2^-25: below a tie in f32. And its negative.
    let one = 0x3f80_0000u32;
    let tiny = 0x3300_0000u32;
    for (mode, up, down) in [
        (0, one, one),
        (1, one + 1, one),
        (2, one, one + 1),
        (3, one, one),
    ] {
        let w = &mut with_mode(|m| m.round_f32 = mode);
        set(w, 2, one);
        set(w, 4, tiny);
        run(w, &["v_add_f32 v0, v2, v4", "v_sub_f32 v1, -v2, v4"]);
        assert_eq!(get(w, 0), up, "mode {mode}");
        assert_eq!(get(w, 1), down | 1 << 31, "mode {mode}");
        let w = &mut with_mode(|m| m.round_f64_f16 = mode);
        set64(w, 2, 1.0f64.to_bits());
        set64(w, 4, 2.0f64.powi(-60).to_bits());
        set(w, 6, 0x3c00);
        set(w, 7, 0x0001);
        run(
            w,
            &[
                "v_add_f64 v[8:9], v[2:3], v[4:5]",
                "v_add_f16 v10, v6, v7",
                "v_fma_f64 v[12:13], v[2:3], -v[2:3], v[2:3]",
            ],
        );
        assert_eq!(
            get64(w, 8),
            1.0f64.to_bits() + (mode == 1) as u64,
            "mode {mode}"
        );
        assert_eq!(get(w, 10), 0x3c00 + (mode == 1) as u32, "mode {mode}");
        // Exact cancellation is -0 only when rounding down.
        assert_eq!(
            get64(w, 12),
            if mode == 2 { 1 << 63 } else { 0 },
            "mode {mode}"
        );
    }
    // Overflow, conversion and f16 narrowing toward zero stop at the largest number.
    let w = &mut with_mode(|m| (m.round_f32, m.round_f64_f16) = (3, 3));
    set(w, 2, f32::MAX.to_bits());
    set(w, 4, 0x7fff_ffff);
    set(w, 6, 65519.9f32.to_bits());
    run(
        w,
        &[
            "v_add_f32 v0, v2, v2",
            "v_cvt_f32_i32 v1, v4",
            "v_cvt_f16_f32 v3, v6",
        ],
    );
    assert_eq!(
        (get(w, 0), get(w, 1), get(w, 3)),
        (f32::MAX.to_bits(), 0x4eff_ffff, 0x7bff)
    );
}

#[test]
fn directed_results_bracket_the_nearest() {
    // Rounding down and up are computed in integers, rounding to nearest by the FPU.
    let mut random = Random::new(5);
    let lines = [
        "v_fma_f32 v0, v2, v4, v6",
        "v_mul_f32 v0, v2, v4",
        "v_add_f32 v0, v2, v4",
    ];
    let (mut down, mut up, mut near) = (
        with_mode(|m| m.round_f32 = 2),
        with_mode(|m| m.round_f32 = 1),
        with_mode(|_| {}),
    );
    for _ in 0..50 {
        for l in 0..64 {
            for register in [2, 4, 6] {
                let bits = random.bits() as u32 & 0x8fff_ffff | 0x3800_0000;
                for w in [&mut down, &mut up, &mut near] {
                    w.vgpr[register].0[l] = bits;
                }
            }
        }
        for line in lines {
            for w in [&mut down, &mut up, &mut near] {
                run(w, &[line]);
            }
            for l in 0..64 {
                let value = |w: &Wave| f32::from_bits(w.vgpr[0].0[l]);
                let (low, high, middle) = (value(&down), value(&up), value(&near));
                assert!(
                    low <= middle && middle <= high,
                    "{line}: {low} {middle} {high}"
                );
                let next = f32::from_bits(if low >= 0.0 {
                    low.to_bits() + 1
                } else {
                    low.to_bits() - 1
                });
                assert!(
                    high == low || high == next,
                    "{line}: {low} and {high} are not neighbours"
                );
            }
        }
    }
}

#[test]
fn approximations_are_within_one_unit() {
    let mut random = Random::new(9);
    let w = &mut wave(Target::Gfx1100);
    let ulp = |value: f64| 2f64.powi((value.abs().log2().floor() as i32).max(-126) - 23);
    type Reference = fn(f64) -> f64;
    let cases: &[(&str, Reference, f32, f32)] = &[
        ("v_exp_f32 v0, v2", f64::exp2, -126.0, 128.0),
        ("v_log_f32 v0, v2", f64::log2, 1e-30, 1e30),
        ("v_rcp_f32 v0, v2", |x| 1.0 / x, -1e30, 1e30),
        ("v_rsq_f32 v0, v2", |x| 1.0 / x.sqrt(), 1e-30, 1e30),
        ("v_sqrt_f32 v0, v2", f64::sqrt, 0.0, 1e30),
        (
            "v_sin_f32 v0, v2",
            |x| (x * std::f64::consts::TAU).sin(),
            -0.24,
            0.24,
        ),
        (
            "v_cos_f32 v0, v2",
            |x| (x * std::f64::consts::TAU).cos(),
            -0.2,
            0.2,
        ),
    ];
    for &(line, reference, low, high) in cases {
        for l in 0..32 {
            let unit = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
            w.vgpr[2].0[l] = ((low as f64 + unit * (high as f64 - low as f64)) as f32).to_bits();
        }
        run(w, &[line]);
        for l in 0..32 {
            let x = f32::from_bits(w.vgpr[2].0[l]) as f64;
            let (got, want) = (f32::from_bits(w.vgpr[0].0[l]) as f64, reference(x));
            assert!(
                (got - want).abs() <= 0.501 * ulp(want),
                "{line}: {x} gives {got}, not {want}"
            );
        }
    }
    for (line, pairs) in [
        (
            "v_log_f32 v0, v2",
            [
                (0.0f32, f32::NEG_INFINITY),
                (1.0, 0.0),
                (f32::INFINITY, f32::INFINITY),
                (8.0, 3.0),
            ],
        ),
        (
            "v_exp_f32 v0, v2",
            [
                (-200.0, 0.0),
                (200.0, f32::INFINITY),
                (f32::NEG_INFINITY, 0.0),
                (3.0, 8.0),
            ],
        ),
        (
            "v_rcp_f32 v0, v2",
            [
                (0.0, f32::INFINITY),
                (-0.0, f32::NEG_INFINITY),
                (f32::INFINITY, 0.0),
                (4.0, 0.25),
            ],
        ),
        (
            "v_sin_f32 v0, v2",
            [(0.25, 1.0), (0.75, -1.0), (0.0, 0.0), (1024.25, 1.0)],
        ),
        (
            "v_cos_f32 v0, v2",
            [(0.5, -1.0), (0.25, 0.0), (0.0, 1.0), (-3.5, -1.0)],
        ),
    ] {
        for (input, want) in pairs {
            set(w, 2, input.to_bits());
            run(w, &[line]);
            assert_eq!(f32::from_bits(get(w, 0)), want, "{line} of {input}");
        }
    }
}

#[test]
fn exponents_and_fractions() {
    let w = &mut wave(Target::Gfx942);
    for (input, mantissa, exponent) in [
        (12.0f32, 0.75f32, 4),
        (-0.5, -0.5, 0),
        (1e-45, 0.5, -148),
        (0.0, 0.0, 0),
        (f32::INFINITY, f32::INFINITY, 0),
    ] {
        set(w, 2, input.to_bits());
        set(w, 4, exponent as u32);
        run(
            w,
            &[
                "v_frexp_mant_f32 v0, v2",
                "v_frexp_exp_i32_f32 v1, v2",
                "v_ldexp_f32 v3, v0, v4",
            ],
        );
        assert_eq!(
            (f32::from_bits(get(w, 0)), get(w, 1) as i32),
            (mantissa, exponent),
            "{input}"
        );
        assert_eq!(f32::from_bits(get(w, 3)), input);
    }
    for (input, e, want) in [
        (1.5f64, -1074, 1e-323f64),
        (1.0, 1024, f64::INFINITY),
        (3.0, 10, 3072.0),
        (5e-324, 1100, 6.709_037_e7 * 0.0 + 2f64.powi(26)),
    ] {
        set64(w, 2, input.to_bits());
        set(w, 4, e as u32);
        run(w, &["v_ldexp_f64 v[6:7], v[2:3], v4"]);
        assert_eq!(f64::from_bits(get64(w, 6)), want, "{input} * 2^{e}");
    }
    set(w, 2, (-1e-10f32).to_bits());
    set(w, 4, 2.5f32.to_bits());
    run(
        w,
        &[
            "v_fract_f32 v0, v2",
            "v_rndne_f32 v1, v4",
            "v_floor_f32 v3, v2",
            "v_trunc_f32 v5, -v4",
        ],
    );
    assert_eq!(get(w, 0), 0x3f7f_ffff, "a fraction stays below one");
    assert_eq!(
        [1, 3, 5].map(|r| f32::from_bits(get(w, r))),
        [2.0, -1.0, -2.0]
    );
}

#[test]
fn eight_bit_floats() {
    // (target, fp8 codes and values, bf8 codes and values)
    for (target, fp8, bf8) in [
        (
            Target::Gfx942,
            [
                (0x40u32, 1.0f32),
                (0x7f, 240.0),
                (0x01, 0.000_976_562_5),
                (0xc4, -1.5),
            ],
            [
                (0x40u32, 1.0f32),
                (0x7f, 57344.0),
                (0x01, 7.629_394_5e-6),
                (0xc2, -1.5),
            ],
        ),
        (
            Target::Gfx1201,
            [
                (0x38, 1.0),
                (0x7e, 448.0),
                (0x01, 0.001_953_125),
                (0xbc, -1.5),
            ],
            [
                (0x3c, 1.0),
                (0x7b, 57344.0),
                (0x01, 1.525_878_9e-5),
                (0xbe, -1.5),
            ],
        ),
    ] {
        for (name, cases) in [("fp8", fp8), ("bf8", bf8)] {
            let w = &mut wave(target);
            for (code, value) in cases {
                set(w, 2, code);
                set(w, 3, value.to_bits());
                set(w, 1, 0xaaaa_aaaa);
                set(w, 4, 0xbbbb_bbbb);
                set(w, 5, 0);
                run(
                    w,
                    &[
                        &format!("v_cvt_f32_{name} v0, v2"),
                        &format!("v_cvt_pk_{name}_f32 v1, v3, v3 op_sel:[0,0,1]"),
                        &format!("v_cvt_sr_{name}_f32 v4, v3, v5"),
                    ],
                );
                assert_eq!(
                    f32::from_bits(get(w, 0)),
                    value,
                    "{target} {name} {code:#x}"
                );
                assert_eq!(
                    get(w, 1),
                    code << 24 | code << 16 | 0xaaaa,
                    "{target} {name} {value}"
                );
                assert_eq!(get(w, 4), 0xbbbb_bb00 | code, "{target} {name} {value}");
            }
        }
    }
    let w = &mut wave(Target::Gfx942);
    set(w, 2, 0x4844_4240);
    run(
        w,
        &[
            "v_cvt_f32_fp8_sdwa v0, v2 src0_sel:BYTE_3",
            "v_cvt_pk_f32_fp8_sdwa v[4:5], v2 src0_sel:WORD_1",
        ],
    );
    assert_eq!(
        [0, 4, 5].map(|r| f32::from_bits(get(w, r))),
        [2.0, 1.5, 2.0]
    );
    // Ties go to even; past the largest comes NaN.
    set(w, 2, 17.0f32.to_bits());
    set(w, 3, 300.0f32.to_bits());
    run(w, &["v_cvt_pk_fp8_f32 v0, v2, v3"]);
    assert_eq!(get(w, 0) & 0xffff, 0x8060);
}
