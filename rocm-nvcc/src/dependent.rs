//! Calls of templates in classes that depend on a template's arguments, without the word `template` that standard C++
//! demands there, and nvcc does not: `Vector<T>::load<4>(x)` reads as two comparisons. The word is put in.
//!
//! Only source that does not compile as it is comes here, so that a comparison which looks like a call stays one.

/// What clang says of such a call: where it is read, or once the arguments are known, of one template and of several.
const SAID: [&str; 3] = [
    "use 'template' keyword to treat",
    "missing 'template' keyword prior to dependent template name",
    "reference to overloaded function could not be resolved",
];

/// Whether this is, among others, about such a call.
pub(crate) fn is_meant(log: &str) -> bool {
    SAID.iter().any(|said| log.contains(said))
}

/// `text`, as the preprocessor wrote it, with the word in each such call of a user's file; `None` where there is none.
pub(crate) fn with_word(text: &str) -> Option<String> {
    let mut system = SystemHeaders::of(text);
    let mut rewritten = String::new();
    let mut copied = 0;
    for (at, found) in text.match_indices(">::") {
        let name = at + found.len();
        if !system.has(at) && is_call(&text[name..]) && begins_expression(&text[..=at]) {
            rewritten += &text[copied..name];
            rewritten += "template ";
            copied = name;
        }
    }
    (copied > 0).then(|| rewritten + &text[copied..])
}

/// Whether this begins `name<arguments>(`, the arguments being names, numbers and types.
fn is_call(text: &str) -> bool {
    let Some(arguments) = text.trim_start_matches(in_name).strip_prefix('<') else {
        return false;
    };
    let mut open = 1;
    for (at, c) in arguments.char_indices() {
        match c {
            '<' => open += 1,
            '>' => open -= 1,
            c if in_name(c) || c.is_whitespace() || c == ':' || c == ',' => {}
            _ => return false,
        }
        if open == 0 {
            return text.starts_with(in_name) && arguments[at + 1..].trim_start().starts_with('(');
        }
    }
    false
}

/// Whether the class that ends here is the begin of an expression, and not of what a declaration declares.
fn begins_expression(text: &str) -> bool {
    let mut rest = text;
    // Back over `space::Class<arguments>`, or several.
    loop {
        if rest.ends_with('>') {
            let Some(begin) = matching(rest) else {
                return false;
            };
            rest = &rest[..begin];
        }
        rest = rest.trim_end_matches(in_name);
        match rest.strip_suffix("::") {
            Some(space) => rest = space,
            None => break,
        }
    }
    let rest = rest.trim_end();
    let word = rest.trim_end_matches(in_name).len();
    &rest[word..] == "return"
        || rest.ends_with([
            ';', '{', '}', '(', '[', ',', '=', '?', ':', '+', '-', '/', '|', '!',
        ])
}

/// Where the `<` is that belongs to the last character, `>`.
fn matching(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, c) in text.char_indices().rev() {
        match c {
            '>' => open += 1,
            '<' => open -= 1,
            ';' | '{' | '}' => return None,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

fn in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Which parts of preprocessed text are the system's headers.
struct SystemHeaders<'a> {
    lines: std::str::Lines<'a>,
    text: &'a str,
    now: bool,
}

impl<'a> SystemHeaders<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            lines: text.lines(),
            text,
            now: false,
        }
    }

    /// Whether this place, no earlier than the one before, is in one.
    fn has(&mut self, at: usize) -> bool {
        let mut ahead = self.lines.clone();
        while let Some(line) = ahead.next() {
            if line.as_ptr() as usize - self.text.as_ptr() as usize > at {
                break;
            }
            // `# 12 "file" 1 3 4`: 3 says so.
            if let Some((_, flags)) = line
                .strip_prefix("# ")
                .and_then(|marker| marker.rsplit_once('"'))
            {
                self.now = flags.split(' ').any(|flag| flag == "3");
            }
            self.lines = ahead.clone();
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::with_word;

    #[test]
    fn calls_get_the_word() {
        let cases = [
            (
                "{ Cast<A, B>::cast<n>(x); }",
                "{ Cast<A, B>::template cast<n>(x); }",
            ),
            ("return a::Cast<B<2>>::cast< n + 0 >(x);", ""),
            (
                "return a::Cast<B<2>>::cast< C<int> > (x);",
                "return a::Cast<B<2>>::template cast< C<int> > (x);",
            ),
            (
                "y = f(Cast<A>::cast<1>(x))",
                "y = f(Cast<A>::template cast<1>(x))",
            ),
        ];
        for (text, expected) in cases {
            let expected = (!expected.is_empty()).then_some(expected);
            assert_eq!(with_word(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_such_call_stays() {
        let cases = [
            // Declared, not called.
            "template<> void Cast<int>::cast<1>(int x) {}",
            "template<> int *Cast<int>::cast<1>(int x) {}",
            "{ Cast<A>::template cast<n>(x); }",
            "{ Cast<A>::cast(x); }",
            "{ a = Limits<A>::least < b && c > (d); }",
            "{ Cast<A>::Type<n> x; }",
        ];
        for text in cases {
            assert_eq!(with_word(text), None, "{text}");
        }
    }

    #[test]
    fn headers_of_the_system_stay() {
        let call = "{ Cast<A>::cast<1>(x); }";
        let text = format!("# 1 \"a.cuh\" 1 3 4\n{call}\n# 2 \"b.cu\" 2\n{call}\n");
        let rewritten = with_word(&text).unwrap();
        assert_eq!(rewritten.matches("template").count(), 1);
        assert!(rewritten.find("template").unwrap() > text.find("b.cu").unwrap());
    }
}
