//! `printf` of a kernel: a format and its arguments as words of 64 bits, made into text by C's own `snprintf`.

use std::ffi::{c_char, CString};

/// Conversions that take an integer, and those that take a floating-point number (always 64 bits here).
const INTEGERS: &[u8] = b"diouxXc";
const REALS: &[u8] = b"fFeEgGaA";
/// A width or precision above this is a mistake, and would take the host's memory.
const MOST_DIGITS: usize = 6;

/// A conversion of a format, between `%` and its letter.
struct Conversion {
    /// As C wants it, without `*` and without what changes the type of the argument's bytes.
    text: String,
    letter: u8,
}

/// The text of a message: the format, padded to 8 bytes, then each argument: a number in a word, or a string padded to
/// 8 bytes. Text after a conversion whose argument is missing is left out, as AMD's runtime does.
pub(super) fn text(message: &[u8]) -> Vec<u8> {
    let mut arguments = Arguments { rest: message };
    let format = arguments.string();
    let mut text = Vec::new();
    let mut at = 0;
    while at < format.len() {
        let plain = format[at..].iter().position(|&byte| byte == b'%');
        let Some(plain) = plain else {
            text.extend(&format[at..]);
            break;
        };
        text.extend(&format[at..at + plain]);
        at += plain + 1;
        if format.get(at) == Some(&b'%') {
            text.push(b'%');
            at += 1;
            continue;
        }
        if arguments.rest.is_empty() {
            break;
        }
        let Some(conversion) = conversion(format, &mut at, &mut arguments) else {
            break;
        };
        convert(&conversion, &mut arguments, &mut text);
    }
    text
}

/// Read a conversion, with what `*` takes; `None` where there is none.
fn conversion(format: &[u8], at: &mut usize, arguments: &mut Arguments) -> Option<Conversion> {
    let mut text = String::from("%");
    let take = |set: &[u8], at: &mut usize, text: &mut String| {
        while let Some(byte) = format.get(*at).filter(|byte| set.contains(byte)) {
            text.push(char::from(*byte));
            *at += 1;
        }
    };
    take(b"-+ #0'", at, &mut text);
    if let Some(width) = number(format, at, arguments) {
        // A negative width is the flag `-` and a width.
        text += &width.to_string();
    }
    if format.get(*at) == Some(&b'.') {
        *at += 1;
        match number(format, at, arguments) {
            Some(precision) if precision < 0 => {}
            precision => text += &format!(".{}", precision.unwrap_or(0)),
        }
    }
    let mut length = String::new();
    take(b"hlqjztL", at, &mut length);
    let letter = *format.get(*at)?;
    *at += 1;
    // Characters and strings are plain ones, and there are no long doubles.
    if INTEGERS.contains(&letter) && letter != b'c' {
        text += &length.replace('L', "ll");
    }
    text.push(char::from(letter));
    let known = INTEGERS.contains(&letter) || REALS.contains(&letter) || b"spn".contains(&letter);
    known.then_some(Conversion { text, letter })
}

/// Digits, or `*` and its argument.
fn number(format: &[u8], at: &mut usize, arguments: &mut Arguments) -> Option<i32> {
    if format.get(*at) == Some(&b'*') {
        *at += 1;
        let most = 10i32.pow(MOST_DIGITS as u32);
        return Some((arguments.word() as i32).clamp(-most, most));
    }
    let digits = format[*at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    let digits = &format[*at..*at + count.min(MOST_DIGITS)];
    *at += count;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Append an argument as its conversion says.
fn convert(conversion: &Conversion, arguments: &mut Arguments, text: &mut Vec<u8>) {
    // No NUL is in it: it was put together from known characters.
    let Ok(format) = CString::new(conversion.text.as_str()) else {
        return;
    };
    match conversion.letter {
        // The place to write the count to is not of this memory.
        b'n' => drop(arguments.word()),
        b's' => {
            let string = CString::new(arguments.string()).unwrap_or_default();
            print(text, |to, room| {
                // SAFETY: the format takes one string, and `to` has that room.
                unsafe { libc::snprintf(to, room, format.as_ptr(), string.as_ptr()) }
            });
        }
        letter if REALS.contains(&letter) => {
            let value = f64::from_bits(arguments.word());
            print(text, |to, room| {
                // SAFETY: the format takes one double, and `to` has that room.
                unsafe { libc::snprintf(to, room, format.as_ptr(), value) }
            });
        }
        _ => {
            let value = arguments.word();
            print(text, |to, room| {
                // SAFETY: the format takes one integer or pointer, which is read from a place of 64 bits, and `to` has
                // that room.
                unsafe { libc::snprintf(to, room, format.as_ptr(), value) }
            });
        }
    }
}

/// Append what a call of `snprintf` writes.
fn print(text: &mut Vec<u8>, call: impl Fn(*mut c_char, usize) -> i32) {
    let length = usize::try_from(call(std::ptr::null_mut(), 0)).unwrap_or(0);
    let mut written = vec![0u8; length + 1];
    call(written.as_mut_ptr().cast(), written.len());
    text.extend(&written[..length]);
}

/// What is left of a message.
struct Arguments<'m> {
    rest: &'m [u8],
}

impl<'m> Arguments<'m> {
    /// The next word; 0 when there are no more.
    fn word(&mut self) -> u64 {
        let word = self.rest.first_chunk().copied().unwrap_or_default();
        self.skip(8);
        u64::from_le_bytes(word)
    }

    /// The next string, without its NUL.
    fn string(&mut self) -> &'m [u8] {
        let length = self.rest.iter().position(|&byte| byte == 0);
        let string = &self.rest[..length.unwrap_or(self.rest.len())];
        self.skip((string.len() + 1).next_multiple_of(8));
        string
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    enum Value<'a> {
        Word(u64),
        Text(&'a str),
    }
    use Value::{Text, Word};

    fn printed(format: &str, values: &[Value]) -> String {
        let mut message = Vec::new();
        let mut put = |text: &str| {
            message.extend(text.as_bytes());
            message.resize((message.len() + 1).next_multiple_of(8), 0);
        };
        put(format);
        for value in values {
            match value {
                Word(word) => message.extend(word.to_le_bytes()),
                Text(text) => {
                    message.extend(text.as_bytes());
                    message.resize((message.len() + 1).next_multiple_of(8), 0);
                }
            }
        }
        String::from_utf8(text(&message)).unwrap()
    }

    #[test]
    fn conversions() {
        let real = |value: f64| Word(value.to_bits());
        let cases = [
            ("plain\n", vec![], "plain\n"),
            (
                "100%% of %d",
                vec![Word(u64::from(-7i32 as u32))],
                "100% of -7",
            ),
            (
                "[%5d|%-5d|%05d]",
                vec![Word(42), Word(42), Word(42)],
                "[   42|42   |00042]",
            ),
            (
                "[%*d|%-*d]",
                vec![Word(4), Word(7), Word(4), Word(7)],
                "[   7|7   ]",
            ),
            (
                "[%*d]",
                vec![Word(u64::from(-4i32 as u32)), Word(7)],
                "[7   ]",
            ),
            ("%.*f", vec![Word(2), real(1.0 / 3.0)], "0.33"),
            (
                "%lld %llu %lx",
                vec![Word(u64::MAX), Word(u64::MAX), Word(1 << 40)],
                "-1 18446744073709551615 10000000000",
            ),
            ("%hhu %hd", vec![Word(0x1ff), Word(0xffff)], "255 -1"),
            (
                "%g %e %a",
                vec![real(0.1), real(-2.0), real(1.0)],
                "0.1 -2.000000e+00 0x1p+0",
            ),
            ("%Lf", vec![real(1.5)], "1.500000"),
            ("%c%c", vec![Word(104), Word(105)], "hi"),
            (
                "<%s><%-8s><%.3s>",
                vec![Text("one"), Text("two"), Text("threefold")],
                "<one><two     ><thr>",
            ),
            (
                "%s after %d",
                vec![Text("a string of more than eight bytes"), Word(3)],
                "a string of more than eight bytes after 3",
            ),
            ("%n%d", vec![Word(9), Word(1)], "1"),
            ("%p", vec![Word(0x1234)], "0x1234"),
            // Arguments that are missing end the text.
            ("a %d b %d c", vec![Word(1)], "a 1 b "),
            ("50% of %d", vec![], "50"),
        ];
        for (format, values, expected) in cases {
            assert_eq!(printed(format, &values), expected, "{format}");
        }
    }
}
