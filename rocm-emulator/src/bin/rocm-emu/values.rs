//! Kernel arguments as a person writes them, and buffers as a person reads them.

use std::path::PathBuf;

use half::{bf16, f16};

/// An element type of arguments and buffers.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// Its name.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    parse: fn(&str) -> Option<Vec<u8>>,
    /// The bytes of a small number, for `iota`.
    count: fn(u64) -> Vec<u8>,
    show: fn(&[u8]) -> String,
}

macro_rules! elements {
    ($($name:literal: $type:ty, $from:expr;)*) => {
        const ELEMENTS: &[Element] = &[$(Element {
            name: $name,
            size: size_of::<$type>(),
            parse: |text| text.parse::<$type>().ok().map(|value| value.to_le_bytes().to_vec()),
            count: |index| {
                let from: fn(u64) -> $type = $from;
                from(index).to_le_bytes().to_vec()
            },
            show: |bytes| bytes
                .try_into()
                .map_or_else(|_| "?".into(), |bytes| format!("{}", <$type>::from_le_bytes(bytes))),
        },)*];
    };
}

elements! {
    "u8": u8, |i| i as u8;
    "i8": i8, |i| i as i8;
    "u16": u16, |i| i as u16;
    "i16": i16, |i| i as i16;
    "u32": u32, |i| i as u32;
    "i32": i32, |i| i as i32;
    "u64": u64, |i| i;
    "i64": i64, |i| i as i64;
    "f16": f16, |i| f16::from_f32(i as f32);
    "bf16": bf16, |i| bf16::from_f32(i as f32);
    "f32": f32, |i| i as f32;
    "f64": f64, |i| i as f64;
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.name == other.name
    }
}

impl Element {
    fn find(name: &str) -> Result<Element, String> {
        let found = ELEMENTS.iter().find(|element| element.name == name);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = ELEMENTS.iter().map(|element| element.name).collect();
            format!("unknown type {name:?}; there are {}", names.join(", "))
        })
    }

    /// One value in hexadecimal or decimal.
    fn value(self, text: &str) -> Result<Vec<u8>, String> {
        let text = text.trim();
        let integer = !self.name.contains('f');
        let decimal = match text.strip_prefix("0x") {
            Some(digits) if integer => u64::from_str_radix(digits, 16)
                .map(|value| value.to_string())
                .unwrap_or_default(),
            _ => text.to_string(),
        };
        (self.parse)(&decimal).ok_or_else(|| format!("{text:?} is not a {}", self.name))
    }

    /// The first values of a buffer as text.
    pub fn show(self, bytes: &[u8], most: usize) -> String {
        let all = bytes.len() / self.size;
        let shown: Vec<String> = bytes
            .chunks_exact(self.size)
            .take(most)
            .map(self.show)
            .collect();
        let rest = if all > shown.len() {
            format!(" ... ({} more)", all - shown.len())
        } else {
            String::new()
        };
        format!("{}{rest}", shown.join(" "))
    }
}

/// What a buffer holds at first.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Zero,
    Iota,
    Random,
    Values(Vec<Vec<u8>>),
    File(PathBuf),
}

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A number's bytes.
    Value(Vec<u8>),
    /// A null pointer.
    Null,
    /// A pointer to a buffer.
    Buffer(Buffer),
}

/// A buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Type of its elements.
    pub element: Element,
    /// Elements.
    pub count: usize,
    content: Content,
}

impl Buffer {
    /// The type and size as written.
    pub fn kind(&self) -> String {
        format!("{}[{}]", self.element.name, self.count)
    }

    /// Its bytes at the start.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let size = self.element.size;
        let total = self
            .count
            .checked_mul(size)
            .filter(|&total| total <= 1 << 36)
            .ok_or_else(|| format!("{} is too large", self.kind()))?;
        let repeat = |make: &mut dyn FnMut(usize) -> Vec<u8>| -> Vec<u8> {
            (0..self.count).flat_map(make).collect()
        };
        Ok(match &self.content {
            Content::Zero => vec![0; total],
            Content::Iota => repeat(&mut |index| (self.element.count)(index as u64)),
            Content::Random => {
                // Small whole numbers from a fixed seed: exact in every type, and the same each time.
                let mut state = 0x2545_f491_4f6c_dd1du64;
                repeat(&mut |_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (self.element.count)(state >> 57)
                })
            }
            Content::Values(values) if values.len() == 1 => repeat(&mut |_| values[0].clone()),
            Content::Values(values) if values.len() == self.count => values.concat(),
            Content::Values(values) => {
                return Err(format!("{} is given {} values", self.kind(), values.len()))
            }
            Content::File(path) => {
                let bytes =
                    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                if bytes.len() != total {
                    return Err(format!(
                        "{} has {} bytes, {} needs {total}",
                        path.display(),
                        bytes.len(),
                        self.kind()
                    ));
                }
                bytes
            }
        })
    }
}

/// Parse `u32=5`, `f32[16]=iota`, `null`.
pub fn argument(text: &str) -> Result<Argument, String> {
    if text == "null" {
        return Ok(Argument::Null);
    }
    let (kind, value) = text
        .split_once('=')
        .ok_or("expected TYPE=VALUE, TYPE[COUNT]=CONTENT or null")?;
    let Some((name, count)) = kind.split_once('[') else {
        return Ok(Argument::Value(Element::find(kind)?.value(value)?));
    };
    let element = Element::find(name)?;
    let count = count
        .strip_suffix(']')
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| format!("{kind:?}: expected a count in brackets, such as f32[16]"))?;
    let content = match value {
        "zero" => Content::Zero,
        "iota" => Content::Iota,
        "random" => Content::Random,
        _ => match value.strip_prefix('@') {
            Some(path) => Content::File(path.into()),
            None => Content::Values(
                value
                    .split(',')
                    .map(|value| element.value(value))
                    .collect::<Result<_, _>>()?,
            ),
        },
    };
    Ok(Argument::Buffer(Buffer {
        element,
        count,
        content,
    }))
}

fn triple(text: &str, missing: u32) -> Result<[u32; 3], String> {
    let mut all = [missing; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("expected at most three numbers: x,y,z".into());
    }
    for (to, part) in all.iter_mut().zip(parts) {
        *to = part
            .trim()
            .parse()
            .map_err(|_| format!("{part:?} is not a number"))?;
    }
    Ok(all)
}

/// Parse sizes: `8`, `8,4`, `8,4,2`; those not given are 1.
pub fn dimensions(text: &str) -> Result<[u32; 3], String> {
    triple(text, 1)
}

/// Parse coordinates; those not given are 0.
pub fn coordinates(text: &str) -> Result<[u32; 3], String> {
    triple(text, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_parse() {
        assert_eq!(argument("u32=5"), Ok(Argument::Value(vec![5, 0, 0, 0])));
        assert_eq!(argument("u16=0x1ff"), Ok(Argument::Value(vec![0xff, 1])));
        assert_eq!(argument("f16=1.5"), Ok(Argument::Value(vec![0, 0x3e])));
        assert_eq!(argument("null"), Ok(Argument::Null));
        let bytes = |text: &str| match argument(text) {
            Ok(Argument::Buffer(buffer)) => buffer.bytes(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes("i16[3]=iota"), Ok(vec![0, 0, 1, 0, 2, 0]));
        assert_eq!(bytes("u8[3]=7"), Ok(vec![7; 3]));
        assert_eq!(bytes("i8[2]=-1,2"), Ok(vec![255, 2]));
        assert_eq!(bytes("f64[2]=zero"), Ok(vec![0; 16]));
        assert!(bytes("u8[3]=1,2").unwrap_err().contains("2 values"));
        for bad in [
            "5", "u32", "u32=x", "f99=1", "f32[=1", "f32[x]=1", "u8=300", "u32=0xzz",
        ] {
            assert!(argument(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_parse() {
        assert_eq!(dimensions("8,4"), Ok([8, 4, 1]));
        assert_eq!(coordinates("8"), Ok([8, 0, 0]));
        assert!(dimensions("1,2,3,4").is_err() && dimensions("x").is_err());
    }

    #[test]
    fn buffers_are_cut_for_printing() {
        let element = Element::find("i32").unwrap();
        let bytes: Vec<u8> = [1i32, -2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(element.show(&bytes, 9), "1 -2 3");
        assert_eq!(element.show(&bytes, 1), "1 ... (2 more)");
    }
}
