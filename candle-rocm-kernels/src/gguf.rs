//! GGUF's formats of quantised matrices that kernels multiply: one table. `kernels/quantized/formats.cuh` reads their blocks.

/// How vectors are scaled that module `mmq` multiplies a format with.
///
/// They are quantised to blocks of [`CHUNK`](crate::mmq::CHUNK) signed bytes, behind 16 bytes of scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scales {
    /// Four f32, each the scale of 32 elements.
    D4,
    /// Four pairs of f16, the scale and the sum of 32 elements.
    DS4,
    /// Two f16, the scales of 64 elements, then six, the sums of 16 elements of the first 96.
    D2S6,
}

impl Scales {
    /// As in the kernels' names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::D4 => "D4",
            Self::DS4 => "DS4",
            Self::D2S6 => "D2S6",
        }
    }
}

/// A format. Modules `mmvq`, `mmq`, `upcast` and `quantized_chained` have kernels for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// As in the kernels' names.
    pub name: &'static str,
    /// Elements of a block; a row has a multiple of them.
    pub elements: u32,
    /// Bytes of a block.
    pub bytes: u32,
    /// Of the vectors that module `mmq` multiplies it with.
    pub scales: Scales,
}

const fn format(name: &'static str, elements: u32, bytes: u32, scales: Scales) -> Format {
    Format {
        name,
        elements,
        bytes,
        scales,
    }
}

/// Four bits and a scale.
pub const Q4_0: Format = format("q4_0", 32, 18, Scales::DS4);
/// Four bits, a scale and a minimum.
pub const Q4_1: Format = format("q4_1", 32, 20, Scales::DS4);
/// Five bits and a scale.
pub const Q5_0: Format = format("q5_0", 32, 22, Scales::D4);
/// Five bits, a scale and a minimum.
pub const Q5_1: Format = format("q5_1", 32, 24, Scales::DS4);
/// Eight bits and a scale.
pub const Q8_0: Format = format("q8_0", 32, 34, Scales::D4);
/// Two bits, scales and minima of 16 elements.
pub const Q2_K: Format = format("q2_k", 256, 84, Scales::D2S6);
/// Three bits, scales of 16 elements.
pub const Q3_K: Format = format("q3_k", 256, 110, Scales::D4);
/// Four bits, scales and minima of 32 elements.
pub const Q4_K: Format = format("q4_k", 256, 144, Scales::DS4);
/// Five bits, scales and minima of 32 elements.
pub const Q5_K: Format = format("q5_k", 256, 176, Scales::DS4);
/// Six bits, scales of 16 elements.
pub const Q6_K: Format = format("q6_k", 256, 210, Scales::D4);

/// All of them.
pub const FORMATS: [Format; 10] = [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K];

/// Those that module `moe` has kernels for, as Candle numbers them.
pub const OF_EXPERTS: [Format; 6] = [Q8_0, Q4_K, Q2_K, Q3_K, Q5_K, Q6_K];

#[cfg(test)]
mod tests {
    use super::FORMATS;

    /// The kernels say the same of each format's blocks.
    #[test]
    fn blocks_are_the_kernels() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/quantized/formats.cuh");
        let text = std::fs::read_to_string(file).unwrap();
        let number = |line: &str, name: &str| -> u32 {
            let (_, rest) = line.split_once(&format!("{name} = ")).unwrap();
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
            rest[..digits].parse().unwrap()
        };
        for format in FORMATS {
            let name = format.name.to_uppercase();
            let start = format!("struct {name} ");
            let mut lines = text.lines().skip_while(|line| !line.starts_with(&start));
            let sizes = lines.find(|line| line.contains("ELEMENTS = ")).unwrap();
            assert_eq!(number(sizes, "ELEMENTS"), format.elements, "{name}");
            assert_eq!(number(sizes, "BYTES"), format.bytes, "{name}");
        }
    }
}
