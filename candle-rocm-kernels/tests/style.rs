//! The kernels' sources by their lengths: no function has more than [`MOST`] lines, from the line of its opening brace to
//! that of the closing one, and every header begins with a comment that says what it holds.

use std::path::Path;

use candle_rocm_testing::sources;

const MOST: usize = 80;

/// The fewest characters of a header's first line, without its slashes, that can say something.
const LEAST_COMMENT: usize = 20;

/// A block that is not closed yet.
struct Block {
    first_line: usize,
    /// The function that it is the body of, unless it lies in another function.
    function: Option<String>,
    in_function: bool,
}

/// Whether a line is the call of a macro that makes kernels, which no semicolon ends.
fn is_call_of_macro(line: &str) -> bool {
    let name = line.split('(').next().unwrap_or_default();
    let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    line.ends_with(')') && !name.is_empty() && name.chars().all(is_upper)
}

/// The text of a source without comments, literals and preprocessor's lines, whose lines stay where they are.
fn code_alone(text: &str) -> String {
    let mut code = String::new();
    let (mut in_comment, mut in_directive) = (false, false);
    for line in text.lines() {
        let is_directive = in_directive || line.trim_start().starts_with('#');
        // A macro's body has functions, too.
        let is_include = line.trim_start().starts_with("#include");
        in_directive = is_directive && line.ends_with('\\');
        let mut rest = line.trim_end_matches('\\');
        if !is_directive && is_call_of_macro(line) {
            rest = "";
        }
        if is_directive && (is_include || !line.contains('{') && !line.contains('}')) {
            rest = "";
        }
        while let Some(next) = rest.chars().next() {
            if in_comment {
                let (skipped, ends) = rest.split_once("*/").map_or(("", ""), |both| both);
                in_comment = ends.is_empty() && skipped.is_empty() && !rest.starts_with("*/");
                rest = ends;
            } else if rest.starts_with("//") {
                rest = "";
            } else if rest.starts_with("/*") {
                in_comment = true;
                rest = &rest[2..];
            } else if next == '"' {
                // None of the sources has an escaped quote.
                rest = rest[1..].split_once('"').map_or("", |(_, after)| after);
            } else {
                code.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        code.push('\n');
    }
    code
}

/// The name of the function whose body begins behind `head`, if it is one.
fn function(head: &str) -> Option<&str> {
    let mut head = head.trim();
    while let Some(parameters) = head.strip_prefix("template") {
        let mut depth = 0_i32;
        let end = parameters.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            *c == '>' && depth == 0
        });
        head = parameters[end?.0 + 1..].trim_start();
    }
    let first = head.split(|c: char| !c.is_alphanumeric()).next()?;
    let is_type = [
        "struct",
        "class",
        "union",
        "enum",
        "namespace",
        "extern",
        "typedef",
    ];
    if is_type.contains(&first) || head.ends_with('=') {
        return None;
    }
    let (before, _) = head.split_once('(')?;
    let name = before
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .next();
    name.filter(|name| !name.is_empty()).or(Some("a function"))
}

/// Names and lines of a source's functions that are too long.
fn too_long(text: &str) -> Vec<(String, usize)> {
    let (mut found, mut open) = (Vec::new(), Vec::<Block>::new());
    let mut head = String::new();
    for (number, line) in code_alone(text).lines().enumerate() {
        for c in line.chars() {
            match c {
                '{' => {
                    let in_function = open
                        .last()
                        .is_some_and(|block| block.in_function || block.function.is_some());
                    open.push(Block {
                        first_line: number,
                        function: function(&head).filter(|_| !in_function).map(str::to_owned),
                        in_function,
                    });
                    head.clear();
                }
                '}' => {
                    let block = open.pop().expect("every brace that closes was opened");
                    let lines = number - block.first_line + 1;
                    found.extend(
                        block
                            .function
                            .filter(|_| lines > MOST)
                            .map(|name| (name, lines)),
                    );
                    head.clear();
                }
                ';' => head.clear(),
                _ => head.push(c),
            }
        }
        head.push(' ');
    }
    assert!(open.is_empty(), "{} braces are not closed", open.len());
    found
}

/// What is wrong with the first line of a header.
fn first_line_fault(text: &str) -> Option<&'static str> {
    match text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("// "))
    {
        None => Some("does not begin with a comment"),
        Some(comment) if comment.len() < LEAST_COMMENT => {
            Some("begins with a comment that says nothing")
        }
        Some(_) => None,
    }
}

#[test]
fn functions_are_short_and_headers_say_what_they_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let files = sources::below(&folder, &["cu", "cuh"], |_, _| true);
    assert!(files.len() > 80, "only {} files", files.len());
    let mut faults = Vec::new();
    for path in files {
        let file = path.strip_prefix(&folder).unwrap().display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        faults.extend(first_line_fault(&text).map(|fault| format!("{file} {fault}")));
        let long = too_long(&text).into_iter();
        faults.extend(
            long.map(|(name, lines)| {
                format!("{file}: `{name}` has {lines} lines, more than {MOST}")
            }),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn long_functions_are_found() {
    let function = |head: &str, lines: usize| {
        let body = "    work(\"{\"); // }\n".repeat(lines - 2);
        format!("{head} {{\n{body}}}\n")
    };
    for head in [
        "__device__ __forceinline__ void f(int a,\n    int b)",
        "template <class T, template <class, class> class S>\nvoid f(T x)",
        "struct F {\nenum E { A, B };\nT f() const",
        "#if defined(A)\n#endif\nENTRY f(const T *x)",
    ] {
        let end = if head.starts_with("struct") {
            "};\n"
        } else {
            ""
        };
        assert_eq!(too_long(&(function(head, MOST) + end)), [], "{head}");
        let found = too_long(&(function(head, MOST + 1) + end));
        assert_eq!(found, [("f".to_owned(), MOST + 1)], "{head}");
    }
    for head in [
        "struct F",
        "template <class T> struct F : G<T>",
        "namespace f",
        "int table[] =",
    ] {
        assert_eq!(too_long(&function(head, MOST + 1)), [], "{head}");
    }
    // Once for a function with a long loop in it.
    let inner = function("for (;;)", MOST + 1);
    assert_eq!(too_long(&format!("void f() {{\n{inner}}}\n")).len(), 1);
}

#[test]
fn headers_without_a_comment_are_found() {
    assert_eq!(
        first_line_fault("// Sums over the rows of a matrix.\n#pragma once\n"),
        None
    );
    assert!(first_line_fault("#pragma once\n// Sums over the rows of a matrix.\n").is_some());
    assert!(first_line_fault("// Sums.\n#pragma once\n").is_some());
}
