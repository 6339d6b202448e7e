//! Binary floating point in integers: every rounding mode of MODE, and results rounded exactly once.

/// MODE's rounding field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    NearestEven,
    Up,
    Down,
    TowardZero,
}

impl Rounding {
    /// The field's encoding (ISA manuals, "Mode register").
    pub fn of(field: u8) -> Rounding {
        match field & 3 {
            0 => Rounding::NearestEven,
            1 => Rounding::Up,
            2 => Rounding::Down,
            _ => Rounding::TowardZero,
        }
    }
}

/// An IEEE format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bits of the stored fraction.
    fraction: u32,
    /// Bits of the exponent.
    exponent: u32,
}

pub(super) const F16: Format = Format {
    fraction: 10,
    exponent: 5,
};
pub(super) const F32: Format = Format {
    fraction: 23,
    exponent: 8,
};
pub(super) const F64: Format = Format {
    fraction: 52,
    exponent: 11,
};

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn exponent_max(self) -> i32 {
        (1 << self.exponent) - 1
    }

    fn infinity(self, negative: bool) -> u64 {
        (self.exponent_max() as u64) << self.fraction | self.sign(negative)
    }

    fn sign(self, negative: bool) -> u64 {
        (negative as u64) << (self.fraction + self.exponent)
    }

    fn quiet_bit(self) -> u64 {
        1 << (self.fraction - 1)
    }

    pub fn negate(self, bits: u64) -> u64 {
        bits ^ self.sign(true)
    }

    /// One.
    pub fn one(self) -> u64 {
        (self.bias() as u64) << self.fraction
    }
}

/// A number taken apart: `significand * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// The payload as fraction bits.
    Nan(u64),
    Infinite(bool),
    Finite {
        negative: bool,
        exponent: i32,
        significand: u128,
    },
}

fn unpack(format: Format, bits: u64) -> Number {
    let negative = bits >> (format.fraction + format.exponent) & 1 == 1;
    let field = (bits >> format.fraction) as i32 & format.exponent_max();
    let fraction = bits & ((1 << format.fraction) - 1);
    let lowest = 1 - format.bias() - format.fraction as i32;
    if field == format.exponent_max() {
        if fraction == 0 {
            Number::Infinite(negative)
        } else {
            Number::Nan(bits)
        }
    } else if field == 0 {
        Number::Finite {
            negative,
            exponent: lowest,
            significand: fraction as u128,
        }
    } else {
        Number::Finite {
            negative,
            exponent: lowest + field - 1,
            significand: (fraction | 1 << format.fraction) as u128,
        }
    }
}

/// `significand * 2^exponent` in a format. The lowest bit of `significand` may stand for anything inexact
/// below it, as long as two bits lie between it and the result's last.
fn round(
    format: Format,
    negative: bool,
    exponent: i32,
    significand: u128,
    rounding: Rounding,
) -> u64 {
    let sign = format.sign(negative);
    if significand == 0 {
        return sign;
    }
    let top = 127 - significand.leading_zeros() as i32;
    let lowest = 1 - format.bias() - format.fraction as i32;
    // Bits to drop so that `fraction + 1` bits stay, or fewer among the denormals.
    let drop = (top - format.fraction as i32).max(lowest - exponent);
    let (kept, exact, above_half, half) = if drop <= 0 {
        (significand << -drop, true, false, false)
    } else if drop > 127 {
        (0, false, false, false)
    } else {
        let rest = significand & ((1 << drop) - 1);
        let middle = 1u128 << (drop - 1);
        (
            significand >> drop,
            rest == 0,
            rest > middle,
            rest == middle,
        )
    };
    let up = match rounding {
        Rounding::NearestEven => above_half || (half && kept & 1 == 1),
        Rounding::Up => !exact && !negative,
        Rounding::Down => !exact && negative,
        Rounding::TowardZero => false,
    };
    let mut kept = kept as u64 + up as u64;
    let mut exponent = exponent + drop;
    if kept >> (format.fraction + 1) != 0 {
        kept >>= 1;
        exponent += 1;
    }
    if kept >> format.fraction == 0 {
        // Denormal or zero.
        return sign | kept;
    }
    let field = exponent - lowest + 1;
    if field >= format.exponent_max() {
        let to_infinity = match rounding {
            Rounding::NearestEven => true,
            Rounding::Up => !negative,
            Rounding::Down => negative,
            Rounding::TowardZero => false,
        };
        return if to_infinity {
            format.infinity(negative)
        } else {
            format.infinity(negative) - 1
        };
    }
    sign | (field as u64) << format.fraction | kept & ((1 << format.fraction) - 1)
}

/// (a * b + c) * 2^scale, rounded once.
pub(super) fn fused(format: Format, a: u64, b: u64, c: u64, scale: i32, rounding: Rounding) -> u64 {
    let nan = format.infinity(false) | format.quiet_bit();
    let numbers = [a, b, c].map(|bits| unpack(format, bits));
    for number in numbers {
        if let Number::Nan(bits) = number {
            return bits | format.quiet_bit();
        }
    }
    let sign_bit = format.sign(true);
    let product_negative = (a ^ b) & sign_bit != 0;
    let is_zero = |bits: u64| bits & !sign_bit == 0;
    let addend_negative = c & sign_bit != 0;
    let product_infinite = [numbers[0], numbers[1]]
        .iter()
        .any(|number| matches!(number, Number::Infinite(_)));
    if product_infinite {
        let invalid = is_zero(a) || is_zero(b);
        let opposed = numbers[2] == Number::Infinite(!product_negative);
        return if invalid || opposed {
            nan
        } else {
            format.infinity(product_negative)
        };
    }
    let (
        Number::Finite {
            exponent: ea,
            significand: sa,
            ..
        },
        Number::Finite {
            exponent: eb,
            significand: sb,
            ..
        },
        Number::Finite {
            exponent: ec,
            significand: sc,
            ..
        },
    ) = (numbers[0], numbers[1], numbers[2])
    else {
        return format.infinity(addend_negative);
    };
    let product = sa * sb;
    if product == 0 && sc == 0 {
        let negative = if product_negative == addend_negative {
            product_negative
        } else {
            rounding == Rounding::Down
        };
        return format.sign(negative);
    }
    // Bring both to a top bit at 125, then shift the smaller right, keeping what falls off in the last bit.
    let (product, ep) = normalise(product, ea + eb);
    let (addend, ec) = normalise(sc, ec);
    let top = if product == 0 {
        ec
    } else if addend == 0 {
        ep
    } else {
        ep.max(ec)
    };
    let product = shift_right_sticky(product, top - ep);
    let addend = shift_right_sticky(addend, top - ec);
    let (negative, significand) = if product_negative == addend_negative {
        (product_negative, product + addend)
    } else if product >= addend {
        (product_negative, product - addend)
    } else {
        (addend_negative, addend - product)
    };
    if significand == 0 {
        return format.sign(rounding == Rounding::Down);
    }
    round(format, negative, top + scale, significand, rounding)
}

fn normalise(significand: u128, exponent: i32) -> (u128, i32) {
    if significand == 0 {
        return (0, exponent);
    }
    let shift = significand.leading_zeros() as i32 - 2;
    (significand << shift, exponent - shift)
}

fn shift_right_sticky(significand: u128, by: i32) -> u128 {
    if significand == 0 || by <= 0 {
        significand
    } else if by > 126 {
        1
    } else {
        significand >> by | (significand & ((1 << by) - 1) != 0) as u128
    }
}

/// A number of one format in another.
pub(super) fn convert(from: Format, bits: u64, to: Format, rounding: Rounding) -> u64 {
    match unpack(from, bits) {
        Number::Nan(bits) => {
            let negative = bits & from.sign(true) != 0;
            let fraction = bits & ((1 << from.fraction) - 1);
            let moved = if from.fraction > to.fraction {
                fraction >> (from.fraction - to.fraction)
            } else {
                fraction << (to.fraction - from.fraction)
            };
            to.infinity(negative) | to.quiet_bit() | moved
        }
        Number::Infinite(negative) => to.infinity(negative),
        Number::Finite {
            negative,
            exponent,
            significand,
        } => round(to, negative, exponent, significand, rounding),
    }
}

/// An integer in a format.
pub(super) fn from_integer(value: i64, to: Format, rounding: Rounding) -> u64 {
    round(to, value < 0, 0, value.unsigned_abs() as u128, rounding)
}
