//! Why a source does not compile, sorted.

use rocm_nvcc::Error;

/// What kind of thing stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Inline PTX that nothing here knows.
    Ptx,
    /// NVIDIA's CUTLASS or CuTe, whose kernels are made for its GPUs.
    Cutlass,
    /// Textures and surfaces.
    Texture,
    /// More shared memory than a workgroup can have.
    SharedMemory,
    /// A kernel that launches kernels.
    DynamicParallelism,
    /// A header that is not there.
    Header,
    /// A name that the headers do not have.
    Name,
    /// Anything else that the compiler refuses.
    Other,
}

impl Kind {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ptx => "unknown PTX",
            Kind::Cutlass => "CUTLASS",
            Kind::Texture => "textures",
            Kind::SharedMemory => "shared memory",
            Kind::DynamicParallelism => "dynamic parallelism",
            Kind::Header => "a header that is missing",
            Kind::Name => "a name that is missing",
            Kind::Other => "the compiler's error",
        }
    }
}

/// One thing that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    /// What it is.
    pub kind: Kind,
    /// Where: file and line, where that is known.
    pub place: String,
    /// What was said of it.
    pub text: String,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, place, text } = self;
        match place.as_str() {
            "" => write!(f, "{}: {text}", kind.name()),
            place => write!(f, "{place}: {}: {text}", kind.name()),
        }
    }
}

/// Everything in the way, each once, in the order in which it was said.
pub fn of(error: &Error) -> Vec<Reason> {
    let mut reasons = Vec::new();
    match error {
        Error::Ptx(unknown) => {
            for one in unknown {
                let text = format!("`{}`: {}", one.instruction, one.reason);
                reasons.push(Reason {
                    kind: Kind::Ptx,
                    place: format!("{}:{}", one.file, one.line),
                    text,
                });
            }
        }
        Error::Compile { log, .. } => reasons.extend(log.lines().filter_map(said)),
        other => reasons.push(Reason {
            kind: Kind::Other,
            place: String::new(),
            text: other.to_string(),
        }),
    }
    if reasons.is_empty() {
        // The compiler failed without a line that says "error".
        reasons.push(Reason {
            kind: Kind::Other,
            place: String::new(),
            text: error.to_string(),
        });
    }
    let mut seen = std::collections::HashSet::new();
    reasons.retain(|reason| seen.insert(reason.to_string()));
    reasons
}

/// A line of the compiler, if it tells of an error.
fn said(line: &str) -> Option<Reason> {
    let (place, text) = line.split_once("error: ")?;
    let place = place
        .trim_end_matches("fatal ")
        .trim_end_matches([':', ' ']);
    // Without the column.
    let place = match place.rsplit_once(':') {
        Some((file, column)) if file.contains(':') && column.parse::<u32>().is_ok() => file,
        _ => place,
    };
    Some(Reason {
        kind: kind(text),
        place: place.to_owned(),
        text: text.to_owned(),
    })
}

fn kind(text: &str) -> Kind {
    let holds = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if holds(&["cutlass", "cute/", "'cute'"]) {
        Kind::Cutlass
    } else if holds(&["texture", "Texture", "surf2D", "tex1D", "tex2D", "tex3D"]) {
        Kind::Texture
    } else if holds(&["local memory", "LDS size"]) {
        Kind::SharedMemory
    } else if holds(&[
        "reference to __global__ function",
        "'__hipPushCallConfiguration'",
    ]) {
        Kind::DynamicParallelism
    } else if text.contains("file not found") {
        Kind::Header
    } else if holds(&[
        "undeclared identifier",
        "unknown type name",
        "no member named",
    ]) {
        Kind::Name
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_lines_are_sorted() {
        let log = "\
k.cu:3:10: fatal error: 'cutlass/cutlass.h' file not found
k.cu:4:5: error: use of undeclared identifier '__nv_thing'
k.cu:4:5: error: use of undeclared identifier '__nv_thing'
<unknown>:0:0: error: local memory (70000) exceeds limit (65536) in function '_Z1kv'
k.cu:9:3: error: reference to __global__ function 'f' in __global__ function
k.cu:10:1: error: unknown type name 'cudaTextureObject_t'
k.cu:11:1: warning: unused
k.cu:12:2: error: expected ';'";
        let error = Error::Compile {
            file: "k.cu".into(),
            arch: "the GPU".to_owned(),
            log: log.to_owned(),
        };
        let reasons = of(&error);
        let kinds: Vec<Kind> = reasons.iter().map(|reason| reason.kind).collect();
        assert_eq!(
            kinds,
            [
                Kind::Cutlass,
                Kind::Name,
                Kind::SharedMemory,
                Kind::DynamicParallelism,
                Kind::Texture,
                Kind::Other
            ]
        );
        assert_eq!(
            reasons[1].to_string(),
            "k.cu:4: a name that is missing: use of undeclared identifier '__nv_thing'"
        );
    }

    #[test]
    fn what_has_no_line_is_told_whole() {
        let error = Error::Setup("no compiler".to_owned());
        assert_eq!(
            of(&error)[0].to_string(),
            "the compiler's error: no compiler"
        );
    }
}
