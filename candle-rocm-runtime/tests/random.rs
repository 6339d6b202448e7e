//! Random numbers: the generator against its published test vectors, the device against the same
//! arithmetic on the host, bit by bit, and the distributions' moments. On each of the five emulated
//! instruction sets, or the one that `ROCM_EMU_ARCH` names.

mod common;
#[path = "common/philox.rs"]
mod philox;

use candle_rocm_runtime::{random, Rng};
use common::on_each_device;
use philox::philox4x32_10;

/// The vectors for `philox4x32 10` of Random123's `kat_vectors`.
#[test]
fn philox_gives_the_published_vectors() {
    let ones = u32::MAX;
    let cases = [
        (
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        ),
        (
            [ones; 4],
            [ones; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (counter, key, expected) in cases {
        assert_eq!(philox4x32_10(counter, key), expected);
    }
}

fn block(seed: u64, kind: u32, number: u64) -> [u32; 4] {
    philox4x32_10(
        [number as u32, (number >> 32) as u32, kind, 0],
        [seed as u32, (seed >> 32) as u32],
    )
}

fn unit_f32(word: u32) -> f32 {
    ((word >> 8) + 1) as f32 / (1u32 << 24) as f32
}

fn unit_f64(low: u32, high: u32) -> f64 {
    let word = u64::from(high) << 32 | u64::from(low);
    ((word >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// The kernels' own order of operations, in f32 and f64.
macro_rules! box_muller {
    ($name:ident, $float:ty, $bits:ty, $signed:ty, $turn:ty, $turn_signed:ty, $mantissa_bits:expr, $sqrt_half:expr,
     $log:expr, $sin:expr, $cos:expr) => {
        fn $name(u: $float, turn: $turn) -> [$float; 2] {
            let shifted = u.to_bits().wrapping_sub($sqrt_half);
            let exponent = (shifted as $signed >> $mantissa_bits) as $float;
            let mask: $bits = (1 << $mantissa_bits) - 1;
            let mantissa = <$float>::from_bits((shifted & mask) + $sqrt_half);
            let s = (mantissa - 1.0) / (mantissa + 1.0);
            let square = s * s;
            let mut series = 1.0 / (2 * $log - 1) as $float;
            for i in (0..$log - 1).rev() {
                series = series.mul_add(square, 1.0 / (2 * i + 1) as $float);
            }
            let ln = exponent.mul_add(std::f64::consts::LN_2 as $float, 2.0 * s * series);
            let radius = (-2.0 * ln).sqrt();

            let bits = <$turn>::BITS - 2;
            let quarter = turn.wrapping_add(1 << (bits - 1)) >> bits;
            let rest = turn.wrapping_sub(quarter << bits) as $turn_signed;
            let unit = (std::f64::consts::FRAC_PI_2 / ((1 as $turn) << bits) as f64) as $float;
            let x = rest as $float * unit;
            let square = x * x;
            let (mut sine, mut cosine): ($float, $float) = (0.0, 0.0);
            for i in (1..$sin).rev() {
                sine = sine.mul_add(square, square) * (-1.0 / (2 * i * (2 * i + 1)) as $float);
            }
            sine = sine.mul_add(x, x);
            for i in (1..$cos).rev() {
                cosine = cosine.mul_add(square, square) * (-1.0 / (2 * i * (2 * i - 1)) as $float);
            }
            cosine += 1.0;
            // Independent of the quarters' bookkeeping: the turn's own sine and cosine.
            let (c, s) = match quarter {
                0 => (cosine, sine),
                1 => (-sine, cosine),
                2 => (-cosine, -sine),
                _ => (sine, -cosine),
            };
            let angle = turn as f64 / (<$turn>::MAX as f64 + 1.0) * std::f64::consts::TAU;
            let slack = 8.0 * f64::from(<$float>::EPSILON);
            assert!(
                (f64::from(c) - angle.cos()).abs() < slack
                    && (f64::from(s) - angle.sin()).abs() < slack
            );
            let exact = (-2.0 * f64::from(u).ln()).sqrt();
            assert!(
                (f64::from(radius) - exact).abs() <= 4.0 * f64::from(<$float>::EPSILON) * exact
            );
            [radius * c, radius * s]
        }
    };
}
box_muller!(
    box_muller_f32,
    f32,
    u32,
    i32,
    u32,
    i32,
    23,
    0x3f35_04f3,
    6,
    5,
    6
);
box_muller!(
    box_muller_f64,
    f64,
    u64,
    i64,
    u64,
    i64,
    52,
    0x3fe6_a09e_667f_3bcd,
    12,
    9,
    10
);

fn uniform_f32(seed: u64, i: u64) -> f32 {
    unit_f32(block(seed, 0, i / 4)[i as usize % 4])
}

fn uniform_f64(seed: u64, i: u64) -> f64 {
    let words = block(seed, 1, i / 2);
    let at = i as usize % 2 * 2;
    unit_f64(words[at], words[at + 1])
}

fn normal_f32(seed: u64, i: u64) -> f32 {
    let words = block(seed, 2, i / 4);
    let at = i as usize % 4 / 2 * 2;
    box_muller_f32(unit_f32(words[at]), words[at + 1])[i as usize % 2]
}

fn normal_f64(seed: u64, i: u64) -> f64 {
    let words = block(seed, 3, i / 2);
    let turn = u64::from(words[3]) << 32 | u64::from(words[2]);
    box_muller_f64(unit_f64(words[0], words[1]), turn)[i as usize % 2]
}

/// Odd lengths, seeds with high bits, offsets inside a block and beyond 32 bits.
const SEQUENCES: [(usize, u64, u64); 6] = [
    (1, 0, 0),
    (2, 1, 3),
    (1027, 299_792_458, 0),
    (515, 0xfeed_face_cafe_beef, 5),
    (300, 7, (1 << 34) - 2),
    (17, 7, u64::MAX - 100),
];

#[test]
fn the_device_gives_the_same_bits_as_the_host() {
    on_each_device("the_device_gives_the_same_bits_as_the_host", |context| {
        let stream = context.default_stream();
        macro_rules! check {
            ($fill:expr, $expected:expr, $type:ty) => {
                for (count, seed, offset) in SEQUENCES {
                    // One element more, to see that it is left alone.
                    let mut all = stream.clone_htod(&vec![-9.0 as $type; count + 1]).unwrap();
                    $fill(&mut all.slice_mut(..count), seed, offset);
                    let got = stream.clone_dtoh(&all).unwrap();
                    assert_eq!(got[count], -9.0);
                    for i in 0..count {
                        let expected: $type = $expected(seed, offset + i as u64);
                        assert_eq!(
                            got[i].to_bits(),
                            expected.to_bits(),
                            "number {i} of {count} from {offset}, seed {seed}: {} and {expected}",
                            got[i]
                        );
                    }
                }
            };
        }
        check!(
            |dst: &mut _, seed, offset| random::fill_uniform(&stream, dst, seed, offset).unwrap(),
            uniform_f32,
            f32
        );
        check!(
            |dst: &mut _, seed, offset| random::fill_uniform(&stream, dst, seed, offset).unwrap(),
            uniform_f64,
            f64
        );
        check!(
            |dst: &mut _, seed, offset| random::fill_normal(
                &stream, dst, 0.5f32, 3.0, seed, offset
            )
            .unwrap(),
            |seed, i| normal_f32(seed, i).mul_add(3.0, 0.5),
            f32
        );
        check!(
            |dst: &mut _, seed, offset| random::fill_normal(
                &stream, dst, 0.5f64, 3.0, seed, offset
            )
            .unwrap(),
            |seed, i| normal_f64(seed, i).mul_add(3.0, 0.5),
            f64
        );
    });
}

#[test]
fn a_sequence_does_not_depend_on_how_it_is_cut() {
    on_each_device("a_sequence_does_not_depend_on_how_it_is_cut", |context| {
        let stream = context.default_stream();
        let mut whole = stream.alloc_zeros::<f32>(100).unwrap();
        Rng::new(42, stream.clone())
            .unwrap()
            .fill_with_normal(&mut whole, 0.0, 1.0)
            .unwrap();
        let mut parts = stream.alloc_zeros::<f32>(100).unwrap();
        let rng = Rng::new(42, stream.clone()).unwrap();
        for (start, end) in [(0, 1), (1, 34), (34, 34), (34, 100)] {
            rng.fill_with_normal(&mut parts.slice_mut(start..end), 0.0, 1.0)
                .unwrap();
        }
        assert_eq!(
            stream.clone_dtoh(&whole).unwrap(),
            stream.clone_dtoh(&parts).unwrap()
        );
    });
}

/// Mean, variance, skewness and kurtosis about zero within five standard errors, which a sound generator
/// misses once in two million seeds; this one is fixed.
#[test]
fn moments_are_those_of_the_distribution() {
    on_each_device("moments_are_those_of_the_distribution", |context| {
        const COUNT: usize = 200_001;
        let stream = context.default_stream();
        let rng = Rng::new(299_792_458, stream.clone()).unwrap();
        let check = |what: &str, numbers: &[f64], moments: [f64; 8]| {
            for power in 1..=4 {
                let mean = numbers.iter().map(|x| x.powi(power as i32)).sum::<f64>() / COUNT as f64;
                let expected = moments[power - 1];
                // The variance of x^p is E[x^2p] - E[x^p]^2.
                let variance = moments[2 * power - 1] - expected * expected;
                let error = (variance / COUNT as f64).sqrt();
                assert!(
                    (mean - expected).abs() < 5.0 * error,
                    "{what}: moment {power} is {mean}, not {expected} +- {error}"
                );
            }
        };
        let uniform = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].map(|p| 1.0 / (p + 1.0));
        let normal = [0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0];
        macro_rules! numbers {
            ($type:ty, $buffer:ident => $fill:expr) => {{
                let mut $buffer = stream.alloc_zeros::<$type>(COUNT).unwrap();
                $fill.unwrap();
                let numbers: Vec<f64> = stream
                    .clone_dtoh(&$buffer)
                    .unwrap()
                    .into_iter()
                    .map(f64::from)
                    .collect();
                numbers
            }};
        }
        for numbers in [
            numbers!(f32, x => rng.fill_with_uniform(&mut x)),
            numbers!(f64, x => rng.fill_with_uniform(&mut x)),
        ] {
            assert!(numbers.iter().all(|&x| 0.0 < x && x <= 1.0));
            check("uniform", &numbers, uniform);
        }
        check(
            "normal f32",
            &numbers!(f32, x => rng.fill_with_normal(&mut x, 0.0f32, 1.0)),
            normal,
        );
        check(
            "normal f64",
            &numbers!(f64, x => rng.fill_with_normal(&mut x, 0.0f64, 1.0)),
            normal,
        );
    });
}

#[test]
fn nothing_to_fill_is_no_error() {
    on_each_device("nothing_to_fill_is_no_error", |context| {
        let stream = context.default_stream();
        let mut empty = stream.alloc_zeros::<f64>(0).unwrap();
        random::fill_uniform(&stream, &mut empty, 1, 2).unwrap();
        random::fill_normal(&stream, &mut empty, 0.0, 1.0, 1, 2).unwrap();
    });
}
