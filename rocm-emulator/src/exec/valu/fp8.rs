//! Eight-bit floating point: E4M3 and E5M2, in OCP's encodings (GFX12) and in CDNA3's, which have no
//! infinities and no negative zero ("FNUZ": 0x80 is the only NaN, and the exponent bias is one more).

/// One 8-bit format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fp8 {
    E4M3,
    E5M2,
    E4M3Fnuz,
    E5M2Fnuz,
}

impl Fp8 {
    const fn fraction_bits(self) -> u32 {
        match self {
            Fp8::E4M3 | Fp8::E4M3Fnuz => 3,
            Fp8::E5M2 | Fp8::E5M2Fnuz => 2,
        }
    }

    const fn bias(self) -> i32 {
        match self {
            Fp8::E4M3 => 7,
            Fp8::E5M2 => 15,
            Fp8::E4M3Fnuz => 8,
            Fp8::E5M2Fnuz => 16,
        }
    }

    const fn is_fnuz(self) -> bool {
        matches!(self, Fp8::E4M3Fnuz | Fp8::E5M2Fnuz)
    }

    /// The largest finite magnitude's code.
    const fn largest(self) -> u32 {
        match self {
            Fp8::E4M3 => 0x7e,
            Fp8::E5M2 => 0x7b,
            Fp8::E4M3Fnuz | Fp8::E5M2Fnuz => 0x7f,
        }
    }

    /// f32 bits of a code.
    const fn decode_bits(self, code: u8) -> u32 {
        let sign = (code as u32 & 0x80) << 24;
        let magnitude = code as u32 & 0x7f;
        let bits = self.fraction_bits();
        if self.is_fnuz() && code == 0x80 {
            return 0x7fc0_0000;
        }
        if magnitude > self.largest() {
            let infinite = matches!(self, Fp8::E5M2) && magnitude == 0x7c;
            return sign | if infinite { 0x7f80_0000 } else { 0x7fc0_0000 };
        }
        let mut exponent = (magnitude >> bits) as i32;
        let mut fraction = magnitude & ((1 << bits) - 1);
        if exponent == 0 {
            if fraction == 0 {
                return sign;
            }
            exponent = 1;
            while fraction >> bits == 0 {
                fraction <<= 1;
                exponent -= 1;
            }
            fraction &= (1 << bits) - 1;
        }
        sign | ((exponent - self.bias() + 127) as u32) << 23 | fraction << (23 - bits)
    }

    const fn table(self) -> [u32; 256] {
        let mut table = [0; 256];
        let mut code = 0;
        while code < 256 {
            table[code] = self.decode_bits(code as u8);
            code += 1;
        }
        table
    }

    /// The value of a code, exactly.
    #[inline(always)]
    pub fn decode(self, code: u8) -> f32 {
        static TABLES: [[u32; 256]; 4] = [
            Fp8::E4M3.table(),
            Fp8::E5M2.table(),
            Fp8::E4M3Fnuz.table(),
            Fp8::E5M2Fnuz.table(),
        ];
        f32::from_bits(TABLES[self as usize][code as usize])
    }

    /// The nearest code, ties to even. Values that round past the largest become NaN, or infinity where the
    /// format has one.
    pub fn encode(self, value: f32) -> u8 {
        self.round(value, |discarded, width, kept| {
            let half = 1u64 << (width - 1);
            discarded > half || (discarded == half && kept & 1 == 1)
        })
    }

    /// Stochastic rounding: the discarded fraction plus the top bits of `random` carries into the result.
    pub fn encode_stochastic(self, value: f32, random: u32) -> u8 {
        self.round(value, |discarded, width, _| {
            let random = if width > 32 {
                (random as u64) << (width - 32)
            } else {
                random as u64 >> (32 - width)
            };
            (discarded + random) >> width != 0
        })
    }

    /// Round with a rule: (discarded bits, how many they are, kept bits) -> round away from zero.
    fn round(self, value: f32, away: impl Fn(u64, u32, u64) -> bool) -> u8 {
        let bits = value.to_bits();
        let sign = (bits >> 24) as u8 & 0x80;
        let nan = if self.is_fnuz() { 0x80 } else { 0x7f | sign };
        let overflow = match self {
            Fp8::E5M2 => 0x7c | sign,
            _ => nan,
        };
        if value.is_nan() {
            return nan;
        }
        if value.is_infinite() {
            return overflow;
        }
        let exponent = (bits >> 23 & 0xff) as i32;
        let significand = if exponent == 0 {
            bits & 0x7f_ffff
        } else {
            bits & 0x7f_ffff | 0x80_0000
        };
        // The code's exponent field before rounding; zero or less among its denormals.
        let field = exponent.max(1) - 127 + self.bias();
        let extra = if field < 1 { 1 - field } else { 0 };
        let width = (23 - self.fraction_bits() as i32 + extra).min(60) as u32;
        // Kept bits hold the hidden bit in place of an exponent of one.
        let kept = significand as u64 >> width;
        let discarded = significand as u64 & ((1 << width) - 1);
        let base = if field < 1 {
            0
        } else {
            (field as u64 - 1) << self.fraction_bits()
        };
        let rounded = base + kept + away(discarded, width, kept) as u64;
        if rounded > self.largest() as u64 {
            overflow
        } else if rounded == 0 && self.is_fnuz() {
            0
        } else {
            rounded as u8 | sign
        }
    }
}
