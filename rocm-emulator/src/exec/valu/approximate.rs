//! Functions that the hardware approximates, computed to well below the last bit of f32 and without
//! branches, so that they vectorise.

/// 2^x for |x| up to about 1020; accurate to 1e-14, saturating beyond f32's range.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    /// ln(2)^k / k!
    const SERIES: [f64; 13] = [
        1.0,
        std::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_576,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_1,
        0.000_154_035_303_933_816_06,
        1.525_273_380_405_984e-5,
        1.321_548_679_014_431e-6,
        1.017_808_600_923_97e-7,
        7.054_911_620_801_121e-9,
        4.445_538_271_870_81e-10,
        2.567_843_599_348_82e-11,
    ];
    // Beyond these the result is infinite or zero in f32.
    // A NaN stays one.
    let clamped = x.clamp(-300.0, 300.0);
    // Adding 1.5 * 2^52 leaves the nearest integer in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let shifted = clamped + MAGIC;
    let fraction = clamped - (shifted - MAGIC);
    let mut sum = SERIES[12];
    let mut k = 12;
    while k > 0 {
        k -= 1;
        sum = sum * fraction + SERIES[k];
    }
    let exponent = shifted.to_bits().wrapping_sub(MAGIC.to_bits());
    let scaled = f64::from_bits(sum.to_bits().wrapping_add(exponent << 52));
    if x.is_nan() {
        x
    } else {
        scaled
    }
}

/// log2 of an f32, accurate to 1e-14 relative; NaN below zero, -inf at zero.
#[inline(always)]
pub(super) fn log2(x: f32) -> f64 {
    let wide = x as f64;
    let bits = wide.to_bits();
    // Exponent such that the mantissa lies in sqrt(1/2)..sqrt(2).
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (shifted as i64 >> 52) as i32;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent as i64 as u64) << 52));
    // log2(m) = 2/ln(2) * atanh((m - 1) / (m + 1))
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 1.0 / 21.0;
    let mut k = 19;
    while k > 0 {
        sum = sum * square + 1.0 / k as f64;
        k -= 2;
    }
    let value = exponent as f64 + s * sum * 2.885_390_081_777_926_8;
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x.is_nan() | (x < 0.0) {
        f64::NAN
    } else if x == f32::INFINITY {
        f64::INFINITY
    } else {
        value
    }
}

/// sin(2 pi x); NaN for infinities, and -0 for -0.
#[inline(always)]
pub(super) fn sin_turns(x: f64) -> f64 {
    let turn = if x == 0.0 { x } else { x - x.round_ties_even() };
    // Fold into a quarter turn on either side of zero, where sine is monotonic.
    let folded = if turn > 0.25 {
        0.5 - turn
    } else if turn < -0.25 {
        -0.5 - turn
    } else {
        turn
    };
    quarter_sine(folded)
}

/// cos(2 pi x); NaN for infinities.
#[inline(always)]
pub(super) fn cos_turns(x: f64) -> f64 {
    let turn = x - x.round_ties_even();
    quarter_sine(0.25 - turn.abs())
}

/// sin(2 pi x) for |x| up to 1/4.
#[inline(always)]
fn quarter_sine(x: f64) -> f64 {
    /// (-1)^k (2 pi)^(2k+1) / (2k+1)!
    const SERIES: [f64; 11] = [
        std::f64::consts::TAU,
        -41.341_702_240_399_755,
        81.605_249_276_075_04,
        -76.705_859_753_061_36,
        42.058_693_944_897_634,
        -15.094_642_576_822_984,
        3.819_952_584_848_280_3,
        -0.718_122_301_778_500_1,
        0.104_229_162_208_139_78,
        -0.012_031_585_942_120_619,
        0.001_130_923_748_251_795_4,
    ];
    let square = x * x;
    let mut sum = SERIES[10];
    let mut k = 10;
    while k > 0 {
        k -= 1;
        sum = sum * square + SERIES[k];
    }
    sum * x
}
