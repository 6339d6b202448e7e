//! Conversions between all element types, on the values where they go wrong.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_same, for_all, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::CAST;
use half::{bf16, f16};

/// Zero, halves, limits of each integer type and their neighbours, limits of each float type, values
/// between two neighbours of a smaller type, NaN, infinities.
const SPECIAL: &[f64] = &[
    0.0,
    -0.0,
    0.5,
    -0.5,
    0.99,
    1.0,
    1.5,
    2.5,
    -1.0,
    -1.5,
    127.0,
    128.0,
    255.0,
    256.0,
    300.0,
    -129.0,
    448.0,
    463.9,
    464.0,
    465.0,
    480.0,
    32767.0,
    32768.0,
    -32768.0,
    -32769.0,
    65504.0,
    65519.0,
    65520.0,
    2147483647.0,
    2147483648.0,
    -2147483648.0,
    -2147483649.0,
    4294967295.0,
    4294967296.0,
    9007199254740993.0,
    9223372036854774784.0,
    9.3e18,
    -9.3e18,
    1e38,
    3.5e38,
    1e300,
    -1e300,
    1e-3,
    0.0009765625,
    0.0009766,
    0.001953125,
    0.0146484375,
    0.015625,
    1e-7,
    6e-8,
    3e-8,
    1e-40,
    1e-45,
    1e-300,
    1.0009765625,
    1.00048828125,
    1.00390625,
    1.01171875,
    17.0,
    19.0,
    18.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// An integer's value.
fn integer<T: Element>(value: T) -> i64 {
    match T::NAME {
        "i64" => {
            let mut bytes = Vec::new();
            value.put(&mut bytes);
            i64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        }
        _ => value.number() as i64,
    }
}

/// Candle's `to_dtype`, by Rust's `as`: integers wrap, floats saturate, integers reach small floats
/// through f32.
fn cast<T: Element, U: Element>(value: T) -> U {
    match (T::EPSILON == 0.0, U::EPSILON == 0.0) {
        (true, true) => U::get(&integer(value).to_le_bytes()[..U::BYTES]),
        (true, false) if U::BYTES == 8 => U::of(integer(value) as f64),
        (true, false) => U::of((integer(value) as f32) as f64),
        (false, _) => U::of(value.number()),
    }
}

fn from<T: Element>(gpu: &Gpu) {
    macro_rules! to {
        ($($type:ty)*) => { $(pair::<T, $type>(gpu);)* };
    }
    to!(u8 u32 i16 i32 i64 half::bf16 half::f16 f32 f64 float8::F8E4M3);
}

fn pair<T: Element, U: Element>(gpu: &Gpu) {
    let mut source: Vec<T> = SPECIAL.iter().map(|&value| T::of(value)).collect();
    if T::BYTES <= 2 {
        // Every value there is.
        source = (0..1u32 << (8 * T::BYTES))
            .map(|bits| T::get(&bits.to_le_bytes()[..T::BYTES]))
            .collect();
    }
    let expected: Vec<U> = source.iter().map(|&value| cast(value)).collect();
    let name = format!("cast_{}_{}", T::NAME, U::NAME);
    let count = source.len();
    let found: Vec<U> = gpu.run(
        &CAST,
        &name,
        [count.div_ceil(1024) as u32, 1, 1],
        [1024, 1, 1],
        &[
            Arg::N(count),
            Arg::N(1),
            Arg::Null,
            Arg::input(&source),
            Arg::output::<U>(count),
        ],
    );
    assert_same(&found, &expected, &name);
}

#[test]
fn casts_are_those_of_rust() {
    on_each_gpu(|gpu| {
        for_all!(from, gpu);
    });
}

/// Candle's CPU backend rounds f64 to 16 bits by way of f32, or of the upper half of the f64, depending on
/// the machine; the kernels round once.
#[test]
fn f64_rounds_once() {
    on_each_gpu(|gpu| {
        // Just beyond the middle of two neighbours, by less than f32 can tell.
        let source = [1.003906250000001f64, 1.0004882812500002, -1.003906250000001];
        let arguments = [Arg::N(3), Arg::N(1), Arg::Null, Arg::input(&source)];
        let (grid, block) = ([1, 1, 1], [1024, 1, 1]);
        let to_bf16 = [&arguments[..], &[Arg::output::<bf16>(3)]].concat();
        let found: [bf16; 3] = three(gpu.run(&CAST, "cast_f64_bf16", grid, block, &to_bf16));
        assert_eq!(found.map(f64::from), [1.0078125, 1.0, -1.0078125]);
        let to_f16 = [&arguments[..], &[Arg::output::<f16>(3)]].concat();
        let found: [f16; 3] = three(gpu.run(&CAST, "cast_f64_f16", grid, block, &to_f16));
        assert_eq!(
            found.map(f64::from),
            [1.00390625, 1.0009765625, -1.00390625]
        );
    });
}

fn three<T: Element>(values: Vec<T>) -> [T; 3] {
    values.try_into().expect("three results")
}
