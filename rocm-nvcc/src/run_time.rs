//! CUDA source compiled by a library in the process, AMD's hiprtc, where no compiler need be installed.
//!
//! Such a library has neither clang's own headers nor the C library's: the folder `freestanding/` stands for them, and
//! goes to the library by name with our headers under CUDA's names. Nor has it a preprocessor to ask, so that inline
//! PTX is rewritten in the source as it was written; where a macro or a header has PTX, a compiler is needed.

use std::path::{Path, PathBuf};

use include_dir::{include_dir, Dir};
use rocm_gpus::{Architecture, Gpu};
use rocm_toolchain::cache::Cache;
use rocm_toolchain::unpacked::Sources;
use rocm_toolchain::workers::Outcome;
use rocm_toolchain::Notices;
use xxhash_rust::xxh3::xxh3_128;

use crate::compiler::FORMAT;
use crate::error::{Error, Result};
use crate::headers;
use crate::options::Options;
use crate::program::{Object, Program};
use crate::ptx;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/freestanding");
static FREESTANDING: Sources = Sources::new("freestanding", &FILES);
/// What the library calls the source. Its own name stands in the first line, as not every name is a file's.
const FILE: &str = "source.cu";
/// What it is told, beside the architecture and what the user says.
const FLAGS: &[&str] = &[
    // Instead of HIP's language, ours under CUDA's names.
    "--hiprtc-no-builtin-header",
    "-nogpuinc",
    "-nostdinc",
    "-O3",
    // As the compiler is told: see there.
    "-munsafe-fp-atomics",
    "-Wno-pass-failed",
    "-Wno-ignored-attributes",
    "-Wno-gnu-line-marker",
    "-include",
    "candle_rocm/freestanding.h",
    "-include",
    "cuda_runtime.h",
];
const STANDARD: &str = "-std=c++17";

/// A library that compiles.
pub trait Library {
    /// Names it and its version: it is part of what names results in the cache.
    fn identity(&self) -> String;

    /// The code object, and what the library said without failing.
    ///
    /// # Errors
    /// The library refuses the source: what it said.
    fn compile(&self, unit: &Unit<'_>) -> std::result::Result<(Vec<u8>, String), String>;
}

/// What a library is given.
#[derive(Clone, Debug)]
pub struct Unit<'a> {
    /// What to call the source.
    pub name: &'a str,
    /// The source.
    pub text: &'a str,
    /// Headers: names, as includes give them, and texts.
    pub headers: &'a [(String, &'static str)],
    /// The options.
    pub options: &'a [String],
}

/// Compiles a source for these processors by `library`, or finds it in the cache: by its text, its own headers, its
/// options and the library. Returns what the user should hear, too.
///
/// # Errors
/// The library refuses the source, the source has PTX that is not known or that is not found without a preprocessor, or
/// no folder can be written.
pub fn compile(
    library: &dyn Library,
    archs: &[String],
    name: &str,
    text: &str,
    options: &Options,
) -> Result<(Program, Notices)> {
    let cache = Cache::of_environment(&std::env::temp_dir())?;
    let own = all_headers();
    let included = included(text, &options.include, &own)?;
    let marked = prepared(name, text, &included)?;
    let mut program = Program::of(Path::new(name));
    program.dependencies = included.iter().map(|file| file.path.clone()).collect();
    let unit = Prepared {
        library,
        name,
        text: &marked,
        own: &own,
        included: &included,
    };
    for arch in archs {
        let (object, said) = unit.object(&cache, &program.name, options, arch)?;
        if program.warnings.is_empty() {
            program.warnings = said.trim_end().to_owned();
        }
        program.objects.push(object);
    }
    Ok((program, cache.finish()))
}

/// A source as the library gets it.
struct Prepared<'a> {
    library: &'a dyn Library,
    /// What messages call it.
    name: &'a str,
    text: &'a str,
    /// Headers that go by name.
    own: &'a [(String, &'static str)],
    /// The user's headers.
    included: &'a [Included],
}

impl Prepared<'_> {
    /// Its code for one processor, from the cache or compiled now, and what the library said.
    fn object(
        &self,
        cache: &Cache,
        program: &str,
        options: &Options,
        arch: &str,
    ) -> Result<(Object, String)> {
        let flags = flags(options, arch)?;
        let entry = self.entry(program, arch, &flags);
        let mut said = String::new();
        let made = cache.get_or_make(&entry, true, || {
            let unit = Unit {
                name: FILE,
                text: self.text,
                headers: self.own,
                options: &flags,
            };
            let compiled = self.library.compile(&unit);
            let (code, log) = compiled.map_err(|log| Error::Compile {
                file: PathBuf::from(self.name),
                arch: arch.to_owned(),
                log: log.trim_end().to_owned(),
            })?;
            said = log;
            Ok::<_, Error>(code)
        })?;
        let Outcome::Done(made) = made else {
            return Err(rocm_toolchain::Error::Busy(entry).into());
        };
        let object = Object {
            arch: arch.to_owned(),
            frame: made.frame,
            made: made.made,
        };
        Ok((object, said))
    }

    /// The name of its result in the cache: of all that this depends on.
    fn entry(&self, program: &str, arch: &str, flags: &[String]) -> String {
        let all = format!(
            "library, format {FORMAT}\n{}\n{flags:?}\n{:?}\n{:032x}\n{:032x}",
            self.library.identity(),
            self.included,
            xxh3_128(format!("{:?}", self.own).as_bytes()),
            xxh3_128(self.text.as_bytes())
        );
        let stem = program.replace(|c: char| !c.is_alphanumeric(), "_");
        format!("{stem}-{arch}-{:032x}", xxh3_128(all.as_bytes()))
    }
}

/// What the library is told for a processor.
fn flags(options: &Options, arch: &str) -> Result<Vec<String>> {
    let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    flags.push(format!("--offload-arch={arch}"));
    let cuda_arch = options.cuda_arch()?;
    flags.push(format!("-D__CUDA_ARCH__={cuda_arch}"));
    let vega20 = |gpu: Gpu| gpu.architecture() == Architecture::Vega20;
    if arch.parse().is_ok_and(vega20) {
        // As where a compiler is called.
        flags.push("--gpu-max-threads-per-block=512".to_owned());
    }
    if !options.flags.iter().any(|flag| flag.starts_with("-std=")) {
        flags.push(STANDARD.to_owned());
    }
    flags.extend(options.flags.iter().cloned());
    for folder in own_folders(&options.include) {
        let folder = std::path::absolute(folder).map_err(Error::file(folder))?;
        flags.push(format!("-I{}", folder.display()));
    }
    Ok(flags)
}

/// Every header that goes by name: ours, and those in the C library's place.
fn all_headers() -> Vec<(String, &'static str)> {
    let mut all = headers::all();
    all.extend(FREESTANDING.texts());
    all
}

/// The user's folders without CUDA's own headers, which would go before ours.
fn own_folders(folders: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    folders
        .iter()
        .filter(|folder| !folder.join("cuda_runtime.h").is_file())
}

/// A header of the user's.
#[derive(Debug)]
struct Included {
    path: PathBuf,
    text: String,
}

/// The user's headers that a source includes, and those that they include: also ones whose condition does not hold.
///
/// # Errors
/// One cannot be read.
fn included(
    text: &str,
    folders: &[PathBuf],
    own: &[(String, &'static str)],
) -> Result<Vec<Included>> {
    let mut found: Vec<Included> = Vec::new();
    let mut left = names_included(text, None);
    while let Some((name, beside)) = left.pop() {
        if own.iter().any(|(header, _)| *header == name) {
            continue;
        }
        let places = beside.iter().chain(own_folders(folders));
        let Some(path) = places.map(|place| place.join(&name)).find(|f| f.is_file()) else {
            // The library says so, if it comes to it.
            continue;
        };
        if found.iter().any(|file| file.path == path) {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        left.extend(names_included(&text, path.parent()));
        found.push(Included { path, text });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What a text includes by name, and for quoted names the text's own folder.
fn names_included(text: &str, folder: Option<&Path>) -> Vec<(String, Option<PathBuf>)> {
    let directives = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start();
        let (close, beside) = match rest.chars().next()? {
            '"' => ('"', folder.map(Path::to_owned)),
            '<' => ('>', None),
            _ => return None,
        };
        let (name, _) = rest[1..].split_once(close)?;
        Some((name.to_owned(), beside))
    });
    directives.collect()
}

/// The source with its name before the first line, and its PTX rewritten.
///
/// # Errors
/// PTX that is not known, or that stands where it is not found.
fn prepared(name: &str, text: &str, included: &[Included]) -> Result<String> {
    let marked = format!("# 1 {name:?}\n{text}");
    let hidden = |file: &str, line: usize, instruction: &str| {
        Error::Ptx(vec![ptx::Unknown {
            file: file.to_owned(),
            line,
            instruction: instruction.trim().to_owned(),
            reason: "inline PTX in a macro or a header needs a compiler, clang with the amdgcn target: hiprtc alone \
                     compiles PTX in the source itself"
                .to_owned(),
        }])
    };
    for file in included {
        let plain = without_comments(&file.text);
        if let Some((line, what)) = plain.lines().enumerate().find(|(_, line)| has_asm(line)) {
            return Err(hidden(&file.path.display().to_string(), line + 1, what));
        }
    }
    if !has_asm(text) {
        return Ok(marked);
    }
    let plain = without_comments(text);
    let mut in_directive = false;
    for (line, what) in plain.lines().enumerate() {
        in_directive |= what.trim_start().starts_with('#');
        if in_directive && has_asm(what) {
            return Err(hidden(name, line + 1, what));
        }
        in_directive &= what.ends_with('\\');
    }
    let plain = format!("# 1 {name:?}\n{plain}");
    let rewritten = ptx::rewrite(&plain).known().map_err(Error::Ptx)?;
    Ok(rewritten.unwrap_or(marked))
}

/// Whether a word of it is `asm`.
fn has_asm(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| ["asm", "__asm__", "__asm"].contains(&word))
}

/// A source whose comments are spaces, line for line.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (end, is_comment) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").map(|end| end + 4);
            (end.unwrap_or(rest.len()), true)
        } else if c == '"' || (c == '\'' && !plain.ends_with(|c: char| c.is_ascii_alphanumeric())) {
            (literal_end(rest, c), false)
        } else {
            (c.len_utf8(), false)
        };
        let (piece, after) = rest.split_at(end);
        match is_comment {
            true => plain.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' })),
            false => plain.push_str(piece),
        }
        rest = after;
    }
    plain
}

/// Where the literal that `text` begins with ends. One that nobody closes ends with its line.
fn literal_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' if !escaped => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_lines_stay() {
        let text = "int a; // don't\n/* asm(\n \"x\" */ char c = '\"'; // asm\n\
                    const char *s = \"// no\"; int n = 1'000;\n";
        let plain = without_comments(text);
        assert_eq!(plain.lines().count(), text.lines().count());
        assert!(!has_asm(&plain) && has_asm(text), "{plain}");
        assert!(plain.contains("\"// no\"; int n = 1'000;"), "{plain}");
        assert!(plain.contains("char c = '\"';"), "{plain}");
    }

    #[test]
    fn ptx_is_rewritten_with_its_lines_and_refused_where_it_is_not_found() {
        let kernel = "// isn't PTX\n__device__ int lane() {\n    int x;\n    asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x));\n\
                      \x20   return x;\n}\n";
        let text = prepared("mine.cu", kernel, &[]).unwrap();
        assert!(text.starts_with("# 1 \"mine.cu\"\n"), "{text}");
        assert!(text.contains("candle_rocm::lane()"), "{text}");
        let (_, after) = text.split_once("\n# 4 \"mine.cu\"\n").expect("a marker");
        assert_eq!(after, ";\n    return x;\n}\n");
        // Nothing to rewrite: as it was.
        assert_eq!(
            prepared("a", "int b; // x\n", &[]).unwrap(),
            "# 1 \"a\"\nint b; // x\n"
        );

        let macros = "#define LANE(x) \\\n    asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x))\n";
        let error = prepared("mine.cu", macros, &[]).unwrap_err().to_string();
        assert!(error.starts_with("mine.cu:2: PTX"), "{error}");
        let header = Included {
            path: PathBuf::from("lane.cuh"),
            text: format!("\n{kernel}"),
        };
        let error = prepared("mine.cu", "int a;\n", &[header]).unwrap_err();
        assert!(error.to_string().starts_with("lane.cuh:5: PTX"), "{error}");
    }

    #[test]
    fn the_users_headers_are_found_and_ours_are_not_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.cuh", "#include \"b.cuh\"\n  #  include <cuda_fp16.h>\n");
        write("b.cuh", "#include \"a.cuh\"\n");
        write("c.cuh", "");
        let text = "#include <a.cuh>\n#include \"nobody.h\"\n#include <stdint.h>\n";
        let found = included(text, &[folder.path().to_owned()], &all_headers()).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|file| file.path.file_name().unwrap())
            .collect();
        assert_eq!(names, ["a.cuh", "b.cuh"]);
    }

    #[test]
    fn no_header_of_ours_has_a_name_twice() {
        let mut names: Vec<String> = all_headers().into_iter().map(|(name, _)| name).collect();
        names.sort();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
    }
}
