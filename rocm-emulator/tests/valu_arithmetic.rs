//! Vector arithmetic against the ISA manuals' definitions, from assembly text to results.

mod valu_support;

use candle_rocm_testing::numbers::to_odd;
use rocm_emulator::isa::Target;
use valu_support::*;

const BOTH: [Target; 2] = [Target::Gfx942, Target::Gfx1100];

/// f32 values at which something special happens.
const F32_EDGES: &[u32] = &[
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x3fc0_0000,
    0xbfc0_0000,
    0x4020_0000,
    0x3f7f_ffff,
    0x3f80_0001,
    0x4b00_0001,
    0x4b7f_ffff,
    0x4f00_0000,
    0x4eff_ffff,
    0xcf00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffc0_1234,
    0x3dcc_cccd,
    0x4049_0fdb,
    0xc2f7_0000,
    0x42c8_0000,
    0x0d80_0000,
    0x7180_0000,
];

/// Run `line` (dst v0, sources v2, v4, v6) over all pairs or triples of edges, a lane each, and compare.
fn check32(
    target: Target,
    line: &str,
    sources: usize,
    edges: &[u32],
    expected: impl Fn(&[u32]) -> u32,
) {
    let op = lower(target, target.wavefront_size(), line);
    let mut wave = wave(target);
    let lanes = wave.lanes as usize;
    let total = edges.len().pow(sources as u32);
    let argument =
        |case: usize, source: usize| edges[case / edges.len().pow(source as u32) % edges.len()];
    for start in (0..total).step_by(lanes) {
        for lane in 0..lanes {
            for source in 0..sources {
                wave.vgpr[2 + 2 * source].0[lane] = argument((start + lane) % total, source);
            }
        }
        op.run(&mut wave);
        for lane in 0..lanes {
            let case = (start + lane) % total;
            let arguments: Vec<u32> = (0..sources).map(|source| argument(case, source)).collect();
            let (got, want) = (wave.vgpr[0].0[lane], expected(&arguments));
            assert!(
                got == want || both_nan(got, want),
                "{target}: {line}: {arguments:08x?} gives {got:08x}, not {want:08x}"
            );
        }
    }
}

/// NaN payloads of arithmetic are not compared.
fn both_nan(a: u32, b: u32) -> bool {
    f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// f64 to f32 by integer arithmetic alone, ties to even: independent of the compiler's conversion.
fn narrow(value: f64) -> u32 {
    let bits = value.to_bits();
    let sign = ((bits >> 63) as u32) << 31;
    if value.is_nan() {
        return 0x7fc0_0000;
    }
    if value.is_infinite() || value == 0.0 {
        return sign | if value == 0.0 { 0 } else { 0x7f80_0000 };
    }
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023;
    let significand = bits & ((1 << 52) - 1) | 1 << 52;
    let drop = if exponent < -126 {
        29 + (-126 - exponent)
    } else {
        29
    };
    if drop > 60 {
        return sign;
    }
    let kept = significand >> drop;
    let rest = significand & ((1 << drop) - 1);
    let half = 1u64 << (drop - 1);
    let rounded = kept + (rest > half || rest == half && kept & 1 == 1) as u64;
    let field = if exponent < -126 {
        0
    } else {
        (exponent + 126) as u64
    };
    let total = (field << 23) + rounded;
    sign | (total as u32).min(0x7f80_0000)
}

#[test]
fn f32_sums_and_products_are_rounded_once() {
    // Products of f32 are exact in f64; sums of these edges are exact or decided well above its last bit.
    for target in BOTH {
        check32(target, "v_mul_f32 v0, v2, v4", 2, F32_EDGES, |a| {
            narrow(f(a[0]) as f64 * f(a[1]) as f64)
        });
        check32(target, "v_add_f32 v0, v2, v4", 2, F32_EDGES, |a| {
            narrow(f(a[0]) as f64 + f(a[1]) as f64)
        });
        check32(target, "v_subrev_f32 v0, v2, v4", 2, F32_EDGES, |a| {
            narrow(f(a[1]) as f64 - f(a[0]) as f64)
        });
        check32(target, "v_sub_f32_e64 v0, -v2, |v4|", 2, F32_EDGES, |a| {
            narrow(-f(a[0]) as f64 - f(a[1] & 0x7fff_ffff) as f64)
        });
    }
}

#[test]
fn fma_is_fused() {
    // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24 is lost if the product is rounded first.
    for target in BOTH {
        let mut wave = wave(target);
        set(&mut wave, 2, (1.0f32 + 2.0f32.powi(-12)).to_bits());
        set(&mut wave, 4, (1.0f32 + 2.0f32.powi(-11)).to_bits());
        run(&mut wave, &["v_fma_f32 v0, v2, v2, -v4"]);
        assert_eq!(f(get(&wave, 0)), 2.0f32.powi(-24));
        set(&mut wave, 1, 0x3f80_0000);
        run(&mut wave, &["v_fmac_f32 v1, v2, v2"]);
        assert_eq!(
            get(&wave, 1),
            narrow(1.0 + (1.0 + 2.0f64.powi(-12)).powi(2))
        );
    }
}

#[test]
fn min_and_max_prefer_numbers_and_order_zeroes() {
    let expected = |a: u32, b: u32, larger: bool| -> u32 {
        let quiet = |bits: u32| bits | 0x40_0000;
        let signalling = |bits: u32| f(bits).is_nan() && bits & 0x40_0000 == 0;
        if signalling(a) {
            return quiet(a);
        }
        if signalling(b) {
            return quiet(b);
        }
        if f(a).is_nan() {
            return b;
        }
        if f(b).is_nan() {
            return a;
        }
        if f(a) == f(b) {
            // Equal values differ in the sign of zero alone.
            let negative = if a >> 31 == 1 { a } else { b };
            let positive = if a >> 31 == 1 { b } else { a };
            return if larger { positive } else { negative };
        }
        if (f(a) > f(b)) == larger {
            a
        } else {
            b
        }
    };
    for target in BOTH {
        check32(target, "v_max_f32 v0, v2, v4", 2, F32_EDGES, |a| {
            expected(a[0], a[1], true)
        });
        check32(target, "v_min_f32 v0, v2, v4", 2, F32_EDGES, |a| {
            expected(a[0], a[1], false)
        });
    }
}

#[test]
fn med3_is_the_middle_of_three() {
    let edges = &[
        0xff80_0000,
        0xbf80_0000,
        0x8000_0000,
        0,
        0x3f80_0000,
        0x4000_0000,
        0x7f80_0000,
    ];
    check32(
        Target::Gfx1100,
        "v_med3_f32 v0, v2, v4, v6",
        3,
        edges,
        |a| {
            let key = |bits: &u32| {
                let signed = *bits as i32;
                if signed < 0 {
                    !(signed & 0x7fff_ffff) as i64
                } else {
                    signed as i64
                }
            };
            let mut sorted = a.to_vec();
            sorted.sort_by_key(key);
            sorted[1]
        },
    );
}

#[test]
fn conversions_to_integers_truncate_and_saturate() {
    for target in BOTH {
        check32(target, "v_cvt_i32_f32 v0, v2", 1, F32_EDGES, |a| {
            let value = f(a[0]) as f64;
            let clamped = if value.is_nan() {
                0.0
            } else {
                value.clamp(-2147483648.0, 2147483647.0)
            };
            clamped.trunc() as i64 as u32
        });
        check32(target, "v_cvt_u32_f32 v0, v2", 1, F32_EDGES, |a| {
            let value = f(a[0]) as f64;
            let clamped = if value.is_nan() {
                0.0
            } else {
                value.clamp(0.0, 4294967295.0)
            };
            clamped.trunc() as i64 as u32
        });
    }
}

#[test]
fn f16_conversions_match_an_independent_library() {
    let mut random = Random::new(7);
    let edges: Vec<u32> = (0..0x800)
        .flat_map(|i| {
            // Around every 16th f16: the value, its ties with the next, and both sides of the tie.
            let middle = half::f16::from_bits(i << 4).to_f32().to_bits();
            [
                middle,
                middle + 0x1000,
                middle + 0x0fff,
                middle + 0x1001,
                middle | 1 << 31,
            ]
        })
        .chain(F32_EDGES.iter().copied())
        .chain((0..2000).map(|_| random.bits() as u32))
        .collect();
    for target in BOTH {
        check32(target, "v_cvt_f16_f32 v0, v2", 1, &edges, |a| {
            half::f16::from_f32(f(a[0])).to_bits() as u32
        });
        let halves: Vec<u32> = (0..0x1_0000).collect();
        check32(target, "v_cvt_f32_f16 v0, v2", 1, &halves, |a| {
            half::f16::from_bits(a[0] as u16).to_f32().to_bits()
        });
    }
}

#[test]
fn f16_arithmetic_is_rounded_once() {
    let mut random = Random::new(3);
    let edges: Vec<u32> = [
        0u32, 0x8000, 1, 0x3ff, 0x400, 0x3c00, 0xbc01, 0x7bff, 0x7c00, 0x7e00, 0x3555,
    ]
    .into_iter()
    .chain((0..12).map(|_| random.bits() as u32 & 0xffff))
    .collect();
    let h = |bits: u32| half::f16::from_bits(bits as u16).to_f64();
    let same = |want: half::f16| want.to_bits() as u32;
    // f64 holds products of halves exactly and their sums to well beyond a tie; the crate rounds from f64 by way of f32 where
    // the CPU does, which is twice.
    let rounded = |x: f64| half::f16::from_f32(to_odd(x));
    for target in BOTH {
        let op = lower(target, target.wavefront_size(), "v_fma_f16 v0, v2, v4, v6");
        let mut wave = wave(target);
        for &a in &edges {
            for &b in &edges {
                for &c in &edges {
                    for (register, bits) in [(2, a), (4, b), (6, c)] {
                        set(&mut wave, register, bits);
                    }
                    op.run(&mut wave);
                    let want = rounded(h(a).mul_add(h(b), h(c)));
                    let got = half::f16::from_bits(get(&wave, 0) as u16);
                    assert!(
                        got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                        "{target}: fma({a:04x}, {b:04x}, {c:04x}) gives {got:?}, not {want:?}"
                    );
                }
            }
        }
        check32(target, "v_mul_f16 v0, v2, v4", 2, &edges[..9], |a| {
            same(rounded(h(a[0]) * h(a[1])))
        });
    }
}

#[test]
fn sixteen_bit_results_keep_or_zero_the_other_half() {
    for (target, rest) in [(Target::Gfx942, 0), (Target::Gfx1100, 0xabcd_0000u32)] {
        let mut wave = wave(target);
        set(&mut wave, 0, 0xabcd_1234);
        set(&mut wave, 2, 0x3c00);
        set(&mut wave, 4, 0x4000);
        run(&mut wave, &["v_add_f16 v0, v2, v4"]);
        assert_eq!(get(&wave, 0), rest | 0x4200, "{target}");
        // op_sel writes the high half and keeps the low one everywhere.
        set(&mut wave, 0, 0xabcd_1234);
        run(&mut wave, &["v_fma_f16 v0, v2, v4, v4 op_sel:[0,0,0,1]"]);
        assert_eq!(get(&wave, 0), 0x4400_1234, "{target}");
    }
}

#[test]
fn integer_operations() {
    let edges = &[
        0u32,
        1,
        2,
        31,
        32,
        33,
        63,
        64,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1234_5678,
        0x00ff_ff80,
    ];
    type Expected = fn(&[u32]) -> u32;
    let cases: &[(&str, Expected)] = &[
        ("v_lshlrev_b32 v0, v2, v4", |a| {
            ((a[1] as u64) << (a[0] % 32)) as u32
        }),
        ("v_lshrrev_b32 v0, v2, v4", |a| a[1] >> (a[0] % 32)),
        ("v_ashrrev_i32 v0, v2, v4", |a| {
            ((a[1] as i32 as i64) >> (a[0] % 32)) as u32
        }),
        ("v_mul_lo_u32 v0, v2, v4", |a| {
            (a[0] as u64 * a[1] as u64) as u32
        }),
        ("v_mul_hi_u32 v0, v2, v4", |a| {
            ((a[0] as u128 * a[1] as u128) >> 32) as u32
        }),
        ("v_mul_hi_i32 v0, v2, v4", |a| {
            ((a[0] as i32 as i128 * a[1] as i32 as i128) >> 32) as u32
        }),
        ("v_bfm_b32 v0, v2, v4", |a| {
            ((((1u64 << (a[0] % 32)) - 1) << (a[1] % 32)) & 0xffff_ffff) as u32
        }),
        ("v_bcnt_u32_b32 v0, v2, v4", |a| {
            (0..32).filter(|i| a[0] >> i & 1 == 1).count() as u32 + a[1].wrapping_mul(1)
        }),
        ("v_bfrev_b32 v0, v2", |a| {
            (0..32).fold(0, |r, i| r | (a[0] >> i & 1) << (31 - i))
        }),
        ("v_mul_u32_u24 v0, v2, v4", |a| {
            ((a[0] & 0xff_ffff) as u64 * (a[1] & 0xff_ffff) as u64) as u32
        }),
        ("v_mul_i32_i24 v0, v2, v4", |a| {
            let s = |x: u32| ((x & 0xff_ffff) as i64) - if x >> 23 & 1 == 1 { 1 << 24 } else { 0 };
            (s(a[0]) * s(a[1])) as u32
        }),
        ("v_min_i32 v0, v2, v4", |a| {
            (a[0] as i32).min(a[1] as i32) as u32
        }),
        ("v_max_u32 v0, v2, v4", |a| {
            if a[0] > a[1] {
                a[0]
            } else {
                a[1]
            }
        }),
    ];
    for target in BOTH {
        for (line, expected) in cases {
            let sources = if line.contains("v4") { 2 } else { 1 };
            // The sum in v_bcnt wraps.
            check32(target, line, sources, edges, |a| {
                if line.starts_with("v_bcnt") {
                    a[0].count_ones().wrapping_add(a[1])
                } else {
                    expected(a)
                }
            });
        }
        check32(target, "v_bfe_u32 v0, v2, v4, v6", 3, edges, |a| {
            let (offset, width) = (a[1] % 32, a[2] % 32);
            ((a[0] as u64 >> offset) & ((1u64 << width) - 1)) as u32
        });
        check32(target, "v_bfe_i32 v0, v2, v4, v6", 3, edges, |a| {
            let (offset, width) = (a[1] % 32, a[2] % 32);
            if width == 0 {
                return 0;
            }
            let field = (a[0] as i32 >> offset) as u32 as u64 & ((1 << width) - 1);
            if field >> (width - 1) & 1 == 1 {
                (field | !((1u64 << width) - 1)) as u32
            } else {
                field as u32
            }
        });
        check32(target, "v_alignbit_b32 v0, v2, v4, v6", 3, edges, |a| {
            let shift = a[2] % 32;
            (0..32).fold(0, |r, i| {
                let place = i + shift;
                let bit = if place < 32 {
                    a[1] >> place & 1
                } else {
                    a[0] >> (place - 32) & 1
                };
                r | bit << i
            })
        });
        check32(
            target,
            "v_perm_b32 v0, v2, v4, v6",
            3,
            &[0x0403_0201, 0x0807_8605, 0x0c0d_0a08, 0x090b_0700],
            |a| {
                let bytes: Vec<u32> = a[1]
                    .to_le_bytes()
                    .iter()
                    .chain(&a[0].to_le_bytes())
                    .map(|&b| b as u32)
                    .collect();
                (0..4).fold(0, |r, i| {
                    let byte = match a[2] >> (8 * i) & 0xff {
                        s @ 0..=7 => bytes[s as usize],
                        s @ 8..=11 => {
                            if bytes[2 * (s as usize - 8) + 1] >> 7 == 1 {
                                0xff
                            } else {
                                0
                            }
                        }
                        12 => 0,
                        _ => 0xff,
                    };
                    r | byte << (8 * i)
                })
            },
        );
    }
}

#[test]
fn names_that_differ_between_families() {
    for (target, lines) in [
        (
            Target::Gfx942,
            [
                "v_add_u32 v0, v2, v4",
                "v_sub_u32 v1, v2, v4",
                "v_ffbh_u32 v3, v2",
                "v_addc_co_u32 v5, vcc, v2, v4, vcc",
            ],
        ),
        (
            Target::Gfx1100,
            [
                "v_add_nc_u32 v0, v2, v4",
                "v_sub_nc_u32 v1, v2, v4",
                "v_clz_i32_u32 v3, v2",
                "v_add_co_ci_u32 v5, vcc_lo, v2, v4, vcc_lo",
            ],
        ),
    ] {
        let mut wave = wave(target);
        set(&mut wave, 2, 0xffff_0000);
        set(&mut wave, 4, 0x0001_0001);
        wave.vcc = 0x5;
        run(&mut wave, &lines);
        assert_eq!(get(&wave, 0), 1);
        assert_eq!(get(&wave, 1), 0xfffd_ffff);
        assert_eq!(get(&wave, 3), 0);
        assert_eq!(wave.vgpr[5].0[..3], [2, 1, 2]);
        assert_eq!(wave.vcc & wave.lane_mask(), wave.lane_mask());
    }
}

#[test]
fn clamp_saturates() {
    let mut wave = wave(Target::Gfx1100);
    set(&mut wave, 2, 0xffff_fff0);
    set(&mut wave, 4, 0x20);
    set(&mut wave, 6, 0x7fff_fff0);
    set(&mut wave, 8, 2.5f32.to_bits());
    set(&mut wave, 10, f32::NAN.to_bits());
    run(
        &mut wave,
        &[
            "v_add_nc_u32_e64 v20, v2, v4 clamp",
            "v_sub_nc_u32_e64 v21, v4, v2 clamp",
            "v_add_nc_i32 v22, v6, v4 clamp",
            "v_mad_u32_u24 v23, v2, v2, v2 clamp",
            "v_add_f32_e64 v24, v8, v8 clamp",
            "v_mul_f32_e64 v25, v8, -v8 clamp",
            "v_mul_f32_e64 v26, v10, v8 clamp",
        ],
    );
    let got: Vec<u32> = (20..27).map(|register| get(&wave, register)).collect();
    assert_eq!(got, [u32::MAX, 0, 0x7fff_ffff, u32::MAX, 0x3f80_0000, 0, 0]);
}

#[test]
fn sixty_four_bits() {
    for target in BOTH {
        let mut wave = wave(target);
        set64(&mut wave, 2, 0x0123_4567_89ab_cdef);
        set(&mut wave, 4, 68);
        set(&mut wave, 5, 0xffff_ffff);
        set64(&mut wave, 6, u64::MAX - 5);
        set64(&mut wave, 8, 1.5f64.to_bits());
        set64(&mut wave, 10, (-0.1f64).to_bits());
        let mad = if target == Target::Gfx942 {
            "s[6:7]"
        } else {
            "s6"
        };
        run(
            &mut wave,
            &[
                "v_lshlrev_b64 v[20:21], v4, v[2:3]",
                "v_lshrrev_b64 v[22:23], v4, v[2:3]",
                &format!("v_mad_u64_u32 v[24:25], {mad}, v5, v5, v[6:7]"),
                "v_fma_f64 v[26:27], v[8:9], v[10:11], 1.0",
                "v_add_f64 v[28:29], v[8:9], -v[10:11]",
            ],
        );
        assert_eq!(get64(&wave, 20), 0x0123_4567_89ab_cdef << 4);
        assert_eq!(get64(&wave, 22), 0x0123_4567_89ab_cdef >> 4);
        let product = 0xffff_ffffu128 * 0xffff_ffff + (u64::MAX - 5) as u128;
        assert_eq!(get64(&wave, 24), product as u64);
        assert_eq!(
            wave.sgpr[6] as u64,
            (product >> 64) as u64 * (wave.lane_mask() & 0xffff_ffff)
        );
        assert_eq!(f64::from_bits(get64(&wave, 26)), 0.85);
        assert_eq!(f64::from_bits(get64(&wave, 28)), 1.6);
    }
    // The destination overlaps the source by one register.
    let mut wave = wave(Target::Gfx1100);
    set64(&mut wave, 2, 0x0123_4567_89ab_cdef);
    run(&mut wave, &["v_lshlrev_b64 v[3:4], 4, v[2:3]"]);
    assert_eq!(get64(&wave, 3), 0x0123_4567_89ab_cdef << 4);
}

/// The whole sequence that the compiler emits for an IEEE division.
#[test]
fn division_is_correctly_rounded() {
    let mut random = Random::new(11);
    for target in BOTH {
        let vcc = if target == Target::Gfx942 {
            "vcc"
        } else {
            "vcc_lo"
        };
        let null = if target == Target::Gfx942 {
            "s[0:1]"
        } else {
            "null"
        };
        let lines = [
            &*format!("v_div_scale_f32 v10, {null}, v4, v4, v2"),
            "v_rcp_f32 v11, v10",
            "v_fma_f32 v12, -v10, v11, 1.0",
            "v_fmac_f32 v11, v12, v11",
            &*format!("v_div_scale_f32 v12, {vcc}, v2, v4, v2"),
            "v_mul_f32 v13, v12, v11",
            "v_fma_f32 v14, -v10, v13, v12",
            "v_fmac_f32 v13, v14, v11",
            "v_fma_f32 v10, -v10, v13, v12",
            "v_div_fmas_f32 v10, v10, v11, v13",
            "v_div_fixup_f32 v0, v10, v4, v2",
        ];
        let mut wave = wave(target);
        let ops: Vec<_> = lines
            .iter()
            .zip(assemble(target, &lines))
            .map(|(line, words)| lower_words(target, wave.lanes, line, &words))
            .collect();
        let mut check = |numerators: &[u32], denominators: &[u32]| {
            for (lane, (&n, &d)) in numerators.iter().zip(denominators).enumerate() {
                wave.vgpr[2].0[lane] = n;
                wave.vgpr[4].0[lane] = d;
            }
            for op in &ops {
                op.run(&mut wave);
            }
            for (lane, (&n, &d)) in numerators.iter().zip(denominators).enumerate() {
                let (got, want) = (wave.vgpr[0].0[lane], (f(n) / f(d)).to_bits());
                assert!(
                    got == want || both_nan(got, want),
                    "{target}: {n:08x} / {d:08x} gives {got:08x}, not {want:08x}"
                );
            }
        };
        for &n in F32_EDGES {
            for chunk in F32_EDGES.chunks(32) {
                check(&vec![n; chunk.len()], chunk);
            }
        }
        for _ in 0..2000 {
            let mut draw = || (0..32).map(|_| random.bits() as u32).collect::<Vec<_>>();
            let (n, d) = (draw(), draw());
            check(&n, &d);
        }
    }
}

#[test]
fn double_division_is_correctly_rounded() {
    let mut random = Random::new(12);
    let target = Target::Gfx942;
    let lines = [
        "v_div_scale_f64 v[10:11], s[0:1], v[4:5], v[4:5], v[2:3]",
        "v_rcp_f64 v[12:13], v[10:11]",
        "v_fma_f64 v[14:15], -v[10:11], v[12:13], 1.0",
        "v_fma_f64 v[12:13], v[12:13], v[14:15], v[12:13]",
        "v_fma_f64 v[14:15], -v[10:11], v[12:13], 1.0",
        "v_fma_f64 v[12:13], v[12:13], v[14:15], v[12:13]",
        "v_div_scale_f64 v[14:15], vcc, v[2:3], v[4:5], v[2:3]",
        "v_mul_f64 v[16:17], v[14:15], v[12:13]",
        "v_fma_f64 v[10:11], -v[10:11], v[16:17], v[14:15]",
        "v_div_fmas_f64 v[10:11], v[10:11], v[12:13], v[16:17]",
        "v_div_fixup_f64 v[0:1], v[10:11], v[4:5], v[2:3]",
    ];
    let mut wave = wave(target);
    let ops: Vec<_> = lines
        .iter()
        .zip(assemble(target, &lines))
        .map(|(line, words)| lower_words(target, wave.lanes, line, &words))
        .collect();
    let edges = [
        0u64,
        1 << 63,
        1,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0x3ff0_0000_0000_0001,
        0x4008_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0xc024_0000_0000_0000,
        0x0360_0000_0000_0000,
        0x7ca0_0000_0000_0003,
    ];
    let mut cases: Vec<(u64, u64)> = edges
        .iter()
        .flat_map(|&n| edges.iter().map(move |&d| (n, d)))
        .collect();
    cases.extend((0..20_000).map(|_| (random.bits(), random.bits())));
    for chunk in cases.chunks(64) {
        for (lane, &(n, d)) in chunk.iter().enumerate() {
            for (register, value) in [(2, n), (4, d)] {
                wave.vgpr[register].0[lane] = value as u32;
                wave.vgpr[register + 1].0[lane] = (value >> 32) as u32;
            }
        }
        for op in &ops {
            op.run(&mut wave);
        }
        for (lane, &(n, d)) in chunk.iter().enumerate() {
            let got = wave.vgpr[0].0[lane] as u64 | (wave.vgpr[1].0[lane] as u64) << 32;
            let want = (f64::from_bits(n) / f64::from_bits(d)).to_bits();
            assert!(
                got == want || f64::from_bits(got).is_nan() && f64::from_bits(want).is_nan(),
                "{n:016x} / {d:016x} gives {got:016x}, not {want:016x}"
            );
        }
    }
}

/// gfx950's operation of three operands by truth table: the bit for (a, b, c) is number 4a + 2b + c.
#[test]
fn three_operands_by_a_truth_table() {
    let [a, b, c] = [0xf0f0_f0f0u32, 0xcccc_3333, 0xaaaa_5555];
    let cases: [(&str, u32); 4] = [
        ("v_bitop3_b32 v0, v2, v3, v4 bitop3:0xca", a & b | !a & c),
        ("v_bitop3_b32 v0, v2, v3, v4 bitop3:1", !(a | b | c)),
        ("v_bitop3_b32 v0, v2, v3, 5 bitop3:0x96", a ^ b ^ 5),
        // b where a or c, else its complement where both: 0x6c is b ^ (a & c).
        (
            "v_bitop3_b16 v0, v2, v3, v4 bitop3:0x6c",
            (b ^ a & c) & 0xffff,
        ),
    ];
    for (line, expected) in cases {
        let mut wave = wave(Target::Gfx950);
        for (register, value) in [(2, a), (3, b), (4, c)] {
            set(&mut wave, register, value);
        }
        run(&mut wave, &[line]);
        assert_eq!(wave.vgpr[0].0[5] & 0xffff, expected & 0xffff, "{line}");
        if line.contains("b32") {
            assert_eq!(wave.vgpr[0].0[5], expected, "{line}");
        }
        let words = assemble(Target::Gfx950, &[line]).remove(0);
        let inst = rocm_emulator::isa::decode(Target::Gfx950, &words).expect("an instruction");
        let text = rocm_emulator::isa::disassemble(Target::Gfx950, &inst, 0);
        assert_eq!(text, line);
    }
}

/// What gfx950 has alone, with values worked out by hand.
#[test]
fn instructions_of_gfx950() {
    let cases: [(&str, [u32; 3], u32); 8] = [
        // Of each half: (1.0, 2.0, 3.0) and (4.0, NaN, 5.0).
        (
            "v_pk_minimum3_f16 v0, v2, v3, v4",
            [0x4400_3c00, 0x7e01_4000, 0x4500_4200],
            0x7e01_3c00,
        ),
        (
            "v_pk_maximum3_f16 v0, v2, v3, v4",
            [0x4400_3c00, 0x4600_4000, 0x4500_4200],
            0x4600_4200,
        ),
        // -1000 >> 2 is -250, 400 >> 2 is 100.
        (
            "v_ashr_pk_i8_i32 v0, v2, v3, v4",
            [-1000i32 as u32, 400, 2],
            0xaaaa_6480,
        ),
        (
            "v_ashr_pk_u8_i32 v0, v2, v3, v4 op_sel:[0,0,0,1]",
            [-1000i32 as u32, 4000, 2],
            0xff00_aaaa,
        ),
        (
            "v_cvt_f32_bf16_e32 v0, v2",
            [0x1234_3f80, 0, 0],
            0x3f80_0000,
        ),
        (
            "v_cvt_f32_bf16_e32 v0, v2",
            [0x1234_c040, 0, 0],
            0xc040_0000,
        ),
        ("v_prng_b32_e32 v0, v2", [0x4000_0001, 0, 0], 0x8000_0002),
        ("v_prng_b32_e32 v0, v2", [0x8000_0001, 0, 0], 2 ^ 197),
    ];
    for (line, sources, expected) in cases {
        let mut wave = wave(Target::Gfx950);
        set(&mut wave, 0, 0xaaaa_aaaa);
        for (register, value) in (2..).zip(sources) {
            set(&mut wave, register, value);
        }
        run(&mut wave, &[line]);
        assert_eq!(wave.vgpr[0].0[5], expected, "{line}");
    }
}
