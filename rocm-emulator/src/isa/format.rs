//! Buffer formats: what the numbers in typed buffer instructions and in buffer descriptors mean.

use super::table::Table;
use super::Target;

/// How a component's bits are a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// Of 0 to 1.
    Unorm,
    /// Of -1 to 1.
    Snorm,
    /// An unsigned integer as a float.
    Uscaled,
    /// A signed integer as a float.
    Sscaled,
    /// An unsigned integer.
    Uint,
    /// A signed integer.
    Sint,
    /// A float of so many bits; those of 10 and 11 bits have no sign.
    Float,
}

/// An element of a typed buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFormat {
    /// Bits of each component, the lowest in memory first; zero for those that it does not have.
    pub bits: [u8; 4],
    /// What they are.
    pub number: NumberFormat,
}

const NUMBERS: [(&str, NumberFormat); 7] = [
    ("UNORM", NumberFormat::Unorm),
    ("SNORM", NumberFormat::Snorm),
    ("USCALED", NumberFormat::Uscaled),
    ("SSCALED", NumberFormat::Sscaled),
    ("UINT", NumberFormat::Uint),
    ("SINT", NumberFormat::Sint),
    ("FLOAT", NumberFormat::Float),
];

impl BufferFormat {
    /// The format of a number, which is the format field of a typed buffer instruction; `None` for those that are
    /// reserved. Descriptors have the same numbers in their last dword (ISA manuals, "Buffer resource descriptor").
    pub fn of(target: Target, code: u8) -> Option<BufferFormat> {
        let name = Table::of(target).formats.get(&code.into())?;
        // A default, 8 bits or UNORM, has no name.
        let (mut bits, mut number) = ([8, 0, 0, 0], NumberFormat::Unorm);
        for part in name.split(',').filter(|part| *part != "-") {
            if let Some(text) = part.strip_prefix("BUF_NUM_FORMAT_") {
                number = number_named(text)?;
            } else if let Some(text) = part.strip_prefix("BUF_DATA_FORMAT_") {
                bits = widths(text)?;
            } else {
                let (text, kind) = part.strip_prefix("BUF_FMT_")?.rsplit_once('_')?;
                (bits, number) = (widths(text)?, number_named(kind)?);
            }
        }
        Some(BufferFormat { bits, number })
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        self.bits.iter().map(|bits| u32::from(*bits)).sum::<u32>() / 8
    }
}

fn number_named(text: &str) -> Option<NumberFormat> {
    let row = NUMBERS.iter().find(|row| row.0 == text)?;
    Some(row.1)
}

/// The components' widths, which names list from the highest bits down.
fn widths(text: &str) -> Option<[u8; 4]> {
    let mut bits = [0; 4];
    let parts = text.rsplit('_').collect::<Vec<_>>();
    for (slot, part) in bits.iter_mut().zip(&parts) {
        *slot = part.parse().ok()?;
    }
    (parts.len() <= 4).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_widths_and_kinds() {
        let format = |target, code| BufferFormat::of(target, code).map(|it| (it.bits, it.number));
        let gfx9 = Target::Gfx942;
        assert_eq!(
            format(gfx9, 1),
            Some(([8, 0, 0, 0], NumberFormat::Unorm)),
            "the default"
        );
        assert_eq!(
            format(gfx9, 0x79),
            Some(([10, 10, 10, 2], NumberFormat::Float))
        );
        assert_eq!(
            format(gfx9, 0x4e),
            Some(([32, 32, 32, 32], NumberFormat::Uint))
        );
        assert_eq!(format(gfx9, 0), None);
        let gfx11 = Target::Gfx1100;
        assert_eq!(
            format(gfx11, 0x1e),
            Some(([11, 11, 10, 0], NumberFormat::Float))
        );
        assert_eq!(
            format(gfx11, 0x1d),
            Some(([16, 16, 0, 0], NumberFormat::Float))
        );
        assert_eq!(format(gfx11, 1), Some(([8, 0, 0, 0], NumberFormat::Unorm)));
        assert_eq!(
            BufferFormat::of(gfx11, 0x3c).map(BufferFormat::bytes),
            Some(12)
        );
    }
}
