//! Code objects of several architectures as text: what stands where build scripts embed PTX.
//!
//! The first line names the format and the program, each further one has an architecture and, in base64, its code object
//! as a zstd frame. Text that is NUL-terminated, as of `include_str!` with a NUL, is the same.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;

use crate::error::{Error, Result};

/// How the text begins.
const BEGIN: &str = "// candle-rocm code objects, format 1: ";

/// The text of the program `name`, whose objects are architectures and zstd frames.
pub fn encode<'a>(name: &str, objects: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut text = format!("{BEGIN}{name}\n");
    for (arch, frame) in objects {
        text += arch;
        text.push(' ');
        STANDARD.encode_string(frame, &mut text);
        text.push('\n');
    }
    text
}

/// Whether the text is of this kind, whole or damaged.
pub fn is_encoded(text: &str) -> bool {
    text.starts_with(BEGIN)
}

/// What such text holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The program's name.
    pub name: String,
    /// The code objects: architectures and zstd frames.
    pub objects: Vec<(String, Vec<u8>)>,
}

/// What the text holds.
///
/// # Errors
/// It is no such text, or is damaged.
pub fn decode(text: &str) -> Result<Decoded> {
    let damaged = |what: &str| Error::Text(what.to_owned());
    let text = text
        .trim_end_matches('\0')
        .strip_prefix(BEGIN)
        .ok_or_else(|| damaged("the first line is another format's"))?;
    let mut lines = text.lines();
    let name = lines.next().unwrap_or_default().to_owned();
    let mut objects = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (arch, encoded) = line
            .split_once(' ')
            .ok_or_else(|| damaged("a line without an architecture"))?;
        let frame = STANDARD
            .decode(encoded)
            .map_err(|error| damaged(&format!("that of {arch} is damaged: {error}")))?;
        objects.push((arch.to_owned(), frame));
    }
    match objects.is_empty() {
        true => Err(damaged("there are none")),
        false => Ok(Decoded { name, objects }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_read_again() {
        let held: [(&str, &[u8]); 2] = [("gfx942", b"one"), ("gfx11-generic", &[0, 255])];
        let text = encode("two", held);
        assert_eq!(
            text,
            "// candle-rocm code objects, format 1: two\ngfx942 b25l\ngfx11-generic AP8=\n"
        );
        assert!(is_encoded(&text));
        let Decoded { name, objects } = decode(&(text.clone() + "\0")).expect("as it was");
        assert_eq!(name, "two");
        assert_eq!(objects[1], ("gfx11-generic".to_owned(), vec![0, 255]));
        for damaged in [
            ".version 8.0",
            &text[..BEGIN.len() + 4],
            &text.replace("gfx942 ", "gfx942"),
        ] {
            decode(damaged).expect_err("no such text");
        }
    }
}
