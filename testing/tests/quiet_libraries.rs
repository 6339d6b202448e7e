//! No library of the workspace writes to standard output or standard error: those are the program's. A library returns
//! what there is to say, or gives it to `tracing`.

use std::path::PathBuf;

use candle_rocm_testing::sources::{self, root};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Files and folders that may, each with the reason.
const MAY: &[(&str, &str)] = &[
    (
        "rocm-nvcc/src/build_script.rs",
        "lines for cargo: a build script calls it, and cargo reads that one's output",
    ),
    (
        "compat/cudaforge/src/builder.rs",
        "likewise: the crate whose API it has prints these",
    ),
    (
        "compat/bindgen_cuda/src/lib.rs",
        "likewise: the crate whose API it has prints these",
    ),
    (
        "rocm-emulator/src/trouble.rs",
        "where the program has no log, as C programs that load the emulator as AMD's library",
    ),
    (
        "candle-rocm-runtime/src/profile/at_exit.rs",
        "the table that CANDLE_ROCM_PROFILE=1 asks for",
    ),
    (
        "benches/worker",
        "a program, which another runs in its own process",
    ),
    (
        "benches/card/src/child.rs",
        "part of a program, whose processes tell each other what they find",
    ),
    ("examples", "part of programs, whose output it is"),
    ("testing", "part of tests, whose output it is"),
];

/// What writes, when called as a macro.
const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
/// Functions of `std::io`.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// The lines of a source that write, but for what is compiled for tests alone.
fn writes(text: &str) -> Vec<usize> {
    let tokens: TokenStream = text.parse().expect("Rust");
    let mut lines = Vec::new();
    collect(tokens, &mut lines);
    lines
}

fn collect(tokens: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Punct(_) if is(at, '#') && is_for_tests(tokens.get(at + 1)) => {
                // The item behind it: to its braces, or to a semicolon.
                at += 2;
                let ends = |token: &TokenTree| match token {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(punct) => punct.as_char() == ';',
                    _ => false,
                };
                at += tokens[at..].iter().position(ends).unwrap_or(0);
            }
            TokenTree::Ident(name) => {
                let called = matches!(tokens.get(at + 1), Some(TokenTree::Group(group))
                    if group.delimiter() == Delimiter::Parenthesis && group.stream().is_empty());
                // `.stdout()` is a method of something else.
                let of_something = at > 0 && is(at - 1, '.');
                let name_is = |names: &[&str]| names.iter().any(|one| name == one);
                if name_is(&MACROS) && is(at + 1, '!')
                    || name_is(&STREAMS) && called && !of_something
                {
                    lines.push(name.span().start().line);
                }
            }
            TokenTree::Group(group) => collect(group.stream(), lines),
            _ => {}
        }
        at += 1;
    }
}

/// Whether this is `[cfg(test)]`.
fn is_for_tests(token: Option<&TokenTree>) -> bool {
    let words = |tokens: TokenStream| tokens.to_string().replace(' ', "");
    matches!(token, Some(TokenTree::Group(group)) if words(group.stream()) == "cfg(test)")
}

/// The folders of the workspace's packages that have a library, as the workspace's manifest names them.
fn libraries() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let members = members.split('"').skip(1).step_by(2);
    members
        .filter(|member| root().join(member).join("src/lib.rs").is_file())
        .map(str::to_owned)
        .collect()
}

/// The sources of a library: all of `src` but programs, which are `main.rs` and what is below `bin`.
fn sources_of(library: &str) -> Vec<PathBuf> {
    let mut files = sources::below(&root().join(library).join("src"), &["rs"], |_, name| {
        name != "bin"
    });
    files.retain(|path| path.file_name().is_some_and(|name| name != "main.rs"));
    files
}

#[test]
fn libraries_write_to_no_stream_of_the_program() {
    let libraries = libraries();
    assert!(libraries.len() >= 20, "{libraries:?}");
    let mut used = vec![false; MAY.len()];
    let mut found = Vec::new();
    for library in &libraries {
        for file in sources_of(library) {
            let text = std::fs::read_to_string(&file).unwrap();
            let lines = writes(&text);
            if lines.is_empty() {
                continue;
            }
            let short = file.strip_prefix(root()).unwrap();
            match MAY.iter().position(|(may, _)| short.starts_with(may)) {
                Some(may) => used[may] = true,
                None => found.push(format!("{}: lines {lines:?}", short.display())),
            }
        }
    }
    assert!(
        found.is_empty(),
        "libraries that write to standard output or standard error:\n{}",
        found.join("\n")
    );
    for ((may, _), used) in MAY.iter().zip(used) {
        assert!(used, "{may} writes nothing, and need not be let");
    }
}

#[test]
fn what_writes_is_found_and_what_does_not_is_not() {
    for text in [
        "fn f() { println!(\"{x}\"); }",
        "fn f() { std::eprint!(\"\") }",
        "fn f() { let x = dbg!(y); }",
        "fn f() { writeln!(io::stderr(), \"x\") }",
        "fn f() { std::io::stdout().lock(); }",
        "macro_rules! say { () => { eprintln!() } }",
        "#[cfg(test)] mod tests { fn f() { println!() } } fn g() { println!() }",
    ] {
        assert_eq!(writes(text), [1], "{text}");
    }
    for text in [
        "/// println!(\"{x}\")\nfn f() { /* dbg!() */ let s = \"println!()\"; }",
        "fn f() { command.stdout(Stdio::null()).stderr(x); output.stdout; child.stderr() }",
        "fn print() { print(); self.stdout }",
        "#[cfg(test)] mod tests { fn f() { println!() } }",
        "#[cfg(test)] use std::io::stdout; fn f() {}",
    ] {
        assert!(writes(text).is_empty(), "{text}");
    }
}
