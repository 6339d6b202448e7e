//! The modules' constants, made of the kernel files: a file's name is its module's, and its first sentence says what is in
//! it.

use std::path::{Path, PathBuf};

use rocm_toolchain::compile;

/// Those that Candle knows, in the order of `candle-kernels`.
const CANDLE: [&str; 11] = [
    "affine",
    "binary",
    "cast",
    "conv",
    "fill",
    "indexing",
    "quantized",
    "reduce",
    "sort",
    "ternary",
    "unary",
];

/// Writes `modules.rs` to `out`: `Id`, `ALL_IDS`, `MODULES` and a static for each file, Candle's first, then ours by name.
///
/// # Errors
/// A file cannot be read, does not begin with a sentence, or is missing; or the result cannot be written.
pub fn write(sources: &[PathBuf], out: &Path) -> Result<(), String> {
    let mut named: Vec<(&str, &Path)> = sources
        .iter()
        .map(|source| (compile::module(source), source.as_path()))
        .collect();
    named.sort_by_key(|(name, _)| {
        let of_candle = CANDLE.iter().position(|candle| candle == name);
        (of_candle.unwrap_or(CANDLE.len()), *name)
    });
    if let Some(missing) = CANDLE
        .iter()
        .find(|name| !named.iter().any(|(of, _)| of == *name))
    {
        return Err(format!(
            "no kernel file {missing}.cu, which Candle's host code loads"
        ));
    }
    let (mut statics, mut ids) = (String::new(), String::new());
    for (index, (name, source)) in named.iter().enumerate() {
        let doc = sentence(source)?;
        if index < CANDLE.len() {
            ids += &format!("    #[doc = {doc:?}]\n    {},\n", capitalised(name));
        }
        let constant = name.to_uppercase();
        statics += &format!(
            "#[doc = {doc:?}]\npub static {constant}: Module = Module {{ index: {index}, name: {name:?}, objects: \
             embedded::{constant} }};\n"
        );
    }
    let all = |names: &[(&str, &Path)], spelled: fn(&str) -> String| {
        let names: Vec<_> = names.iter().map(|(name, _)| spelled(name)).collect();
        names.join(", ")
    };
    let candle = &named[..CANDLE.len()];
    let text = format!(
        "/// The modules that Candle knows, in `candle-kernels`' order.\n\
         #[repr(u32)]\n#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\npub enum Id {{\n{ids}}}\n\
         /// Every [`Id`], in the order of [`Module::index`].\npub const ALL_IDS: [Id; {}] = [{}];\n\
         /// Candle's modules, under the names of `candle-kernels`.\n\
         pub mod candle {{\n    pub use super::{{Id, Module, ALL_IDS, {}}};\n}}\n\
         {statics}\
         /// Every module, in the order of [`Module::index`].\npub static MODULES: &[&Module] = &[{}];\n",
        CANDLE.len(),
        all(candle, |name| format!("Id::{}", capitalised(name))),
        all(candle, str::to_uppercase),
        all(&named, |name| format!("&{}", name.to_uppercase())),
    );
    let file = out.join("modules.rs");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// The first sentence of the comment that a file begins with.
fn sentence(source: &Path) -> Result<String, String> {
    let context = |what: &str| format!("{}: {what}", source.display());
    let text = std::fs::read_to_string(source).map_err(|error| context(&error.to_string()))?;
    let comment = text.lines().map_while(|line| line.strip_prefix("//"));
    let comment = comment.map(str::trim).collect::<Vec<_>>().join(" ");
    let end = comment.find(". ").or(comment.rfind('.'));
    match end {
        Some(end) => Ok(comment[..=end].to_string()),
        None => Err(context(
            "it does not begin with a sentence that says what is in it",
        )),
    }
}

/// `Affine` of `affine`.
fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
