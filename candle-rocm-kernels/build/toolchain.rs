//! Finds the compiler for AMD GPUs: a clang with the amdgcn target, its lld, and ROCm's device
//! libraries (ocml bitcode).
//!
//! Uses nothing but `std` and the `which` crate, so that other tools can include it by path.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the compiler to use, instead of the search.
pub const CLANG_VARIABLE: &str = "CANDLE_ROCM_CLANG";
/// Names the folder with `ocml.bc`, instead of the search.
pub const DEVICE_LIBS_VARIABLE: &str = "CANDLE_ROCM_DEVICE_LIBS";
/// Where ROCm is installed, as ROCm's own tools understand them.
pub const ROCM_VARIABLES: [&str; 2] = ["ROCM_PATH", "HIP_PATH"];
/// What to install on Debian or Ubuntu where there is no ROCm.
pub const DEBIAN_PACKAGES: &str = "clang-19 lld-19 llvm-19 rocm-device-libs";

/// The newest and oldest `clang-NN` looked for. LLVM 17 was the first to know gfx942.
const CLANG_VERSIONS: std::ops::RangeInclusive<u32> = 17..=30;

/// A compiler and the device libraries it links.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The clang driver.
    pub clang: PathBuf,
    /// The first line of its `--version`.
    pub version: String,
    /// The folder with `ocml.bc` and the `oclc_*.bc` beside it.
    pub device_libs: PathBuf,
    /// Processors and generic targets it compiles for, such as `gfx1100` and `gfx11-generic`, of the generations that HIP
    /// serves (gfx9 on).
    pub processors: Vec<String>,
}

/// No usable toolchain; shows what was tried and what to do.
#[derive(Debug)]
pub struct Missing {
    /// One line for each candidate: what it is and why it was refused.
    tried: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "no compiler for AMD GPUs was found (clang with the amdgcn target, lld, ROCm's device libraries)."
        )?;
        writeln!(f, "  Debian, Ubuntu:  apt-get install {DEBIAN_PACKAGES}")?;
        writeln!(
            f,
            "  ROCm elsewhere:  set ROCM_PATH (as in ROCM_PATH=/opt/rocm)"
        )?;
        writeln!(
            f,
            "  By hand:         {CLANG_VARIABLE}=/path/to/clang++ {DEVICE_LIBS_VARIABLE}=/path/to/amdgcn/bitcode"
        )?;
        writeln!(
            f,
            "  Without kernels: CANDLE_ROCM_SKIP_KERNELS=1 (checks and documents; cannot run on a GPU)"
        )?;
        write!(f, "Tried:")?;
        for line in &self.tried {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Missing {}

/// Finds a toolchain: the variables first, then ROCm's own, then the system's, newest first.
///
/// # Errors
/// If no candidate has the amdgcn target, lld and device libraries; the error lists why.
pub fn find() -> Result<Toolchain, Missing> {
    let mut tried = Vec::new();
    for clang in clang_candidates(&mut tried) {
        match inspect(&clang) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) => tried.push(format!("{}: {reason}", clang.display())),
        }
    }
    if tried.is_empty() {
        tried.push("no clang in PATH, no ROCM_PATH, no /opt/rocm".to_string());
    }
    Err(Missing { tried })
}

/// ROCm installations: the variables', then the usual place.
fn rocm_roots() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ROCM_VARIABLES
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .collect();
    roots.push(PathBuf::from("/opt/rocm"));
    roots
}

fn clang_candidates(tried: &mut Vec<String>) -> Vec<PathBuf> {
    if let Some(choice) = std::env::var_os(CLANG_VARIABLE) {
        return match which::which(&choice) {
            Ok(path) => vec![path],
            Err(error) => {
                tried.push(format!(
                    "{CLANG_VARIABLE}={}: {error}",
                    choice.to_string_lossy()
                ));
                vec![]
            }
        };
    }
    let mut found = Vec::new();
    for root in rocm_roots() {
        for folder in ["lib/llvm/bin", "llvm/bin", "bin"] {
            for name in ["amdclang++", "clang++"] {
                found.extend(which::which(root.join(folder).join(name)));
            }
        }
    }
    for version in CLANG_VERSIONS.rev() {
        for name in ["clang++", "clang"] {
            found.extend(which::which(format!("{name}-{version}")));
        }
    }
    for name in ["amdclang++", "clang++", "clang"] {
        found.extend(which::which(name));
    }
    found
}

/// Checks that `clang` can compile and link for AMD GPUs.
fn inspect(clang: &Path) -> Result<Toolchain, String> {
    let version = output(clang, &["--version"])?
        .lines()
        .next()
        .unwrap_or_default()
        .to_string();
    let listing = output(
        clang,
        &[
            "--target=amdgcn-amd-amdhsa",
            "-nogpulib",
            "--print-supported-cpus",
        ],
    )
    .map_err(|reason| format!("no amdgcn target ({reason})"))?;
    let processors: Vec<String> = listing
        .split_whitespace()
        .filter(|word| generation(word).is_some_and(|generation| generation >= 9))
        .map(str::to_string)
        .collect();
    if processors.is_empty() {
        return Err("no amdgcn target".to_string());
    }
    // clang prints the bare name back when it knows no such program.
    let lld = output(clang, &["-print-prog-name=ld.lld"])?;
    if which::which(lld.trim()).is_err() {
        return Err("no ld.lld beside it (package lld)".to_string());
    }
    let device_libs = device_libs(clang)?;
    Ok(Toolchain {
        clang: clang.to_path_buf(),
        version,
        device_libs,
        processors,
    })
}

/// The major version in a processor's name: 9 of `gfx90a`, 11 of `gfx1100` and `gfx11-generic`.
fn generation(processor: &str) -> Option<u32> {
    isa_version(processor).map(|version| version / 1000)
}

/// `__oclc_ISA_version` of a processor or of a file's suffix: `gfx90a` or `90a` is 9010, whose last two characters are minor
/// version and stepping, in hexadecimal; `gfx10-3-generic` is 10300.
pub fn isa_version(processor: &str) -> Option<u32> {
    let digits = processor.strip_prefix("gfx").unwrap_or(processor);
    if let Some(versions) = digits.strip_suffix("-generic") {
        let (major, minor) = versions.split_once('-').unwrap_or((versions, "0"));
        return Some(major.parse::<u32>().ok()? * 1000 + minor.parse::<u32>().ok()? * 100);
    }
    if !(3..=4).contains(&digits.len()) || !digits.is_ascii() {
        return None;
    }
    let (major, rest) = digits.split_at(digits.len() - 2);
    let minor = u32::from_str_radix(&rest[..1], 16).ok()?;
    let stepping = u32::from_str_radix(&rest[1..], 16).ok()?;
    Some(major.parse::<u32>().ok()? * 1000 + minor * 100 + stepping)
}

/// The folder with `ocml.bc`.
fn device_libs(clang: &Path) -> Result<PathBuf, String> {
    if let Some(choice) = std::env::var_os(DEVICE_LIBS_VARIABLE) {
        let folder = PathBuf::from(choice);
        return match folder.join("ocml.bc").is_file() {
            true => Ok(folder),
            false => Err(format!(
                "{DEVICE_LIBS_VARIABLE}={}: no ocml.bc there",
                folder.display()
            )),
        };
    }
    let mut folders = Vec::new();
    for root in rocm_roots() {
        folders.push(root.join("amdgcn/bitcode"));
        folders.extend(children(
            &root.join("lib/llvm/lib/clang"),
            "lib/amdgcn/bitcode",
        ));
    }
    if let Ok(resources) = output(clang, &["-print-resource-dir"]) {
        let resources = Path::new(resources.trim());
        folders.push(resources.join("lib/amdgcn/bitcode"));
        folders.push(resources.join("amdgcn/bitcode"));
    }
    for base in [
        "/usr/lib",
        "/usr/lib64",
        "/usr",
        "/usr/local/lib",
        "/usr/local",
    ] {
        folders.push(Path::new(base).join("amdgcn/bitcode"));
    }
    // Debian's multiarch folder, then Fedora's per-clang folder.
    folders.extend(children(Path::new("/usr/lib"), "amdgcn/bitcode"));
    folders.extend(children(Path::new("/usr/lib/clang"), "amdgcn/bitcode"));
    folders.extend(children(Path::new("/usr/lib64/clang"), "amdgcn/bitcode"));
    folders
        .into_iter()
        .find(|folder| folder.join("ocml.bc").is_file())
        .ok_or_else(|| {
            format!("no ocml.bc (package rocm-device-libs; or set {DEVICE_LIBS_VARIABLE})")
        })
}

/// `folder/*/suffix` for each entry, in descending order of name.
fn children(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join(suffix))
        .collect();
    found.sort();
    found.reverse();
    found
}

/// Standard output of a command that succeeded.
fn output<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Result<String, String> {
    let result = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    if !result.status.success() {
        let message = String::from_utf8_lossy(&result.stderr);
        return Err(message.lines().next().unwrap_or("failed").to_string());
    }
    // Listings such as --print-supported-cpus go to standard error.
    let mut text = String::from_utf8_lossy(&result.stdout).into_owned();
    text += &String::from_utf8_lossy(&result.stderr);
    Ok(text)
}

impl Toolchain {
    /// The bitcode to link for `processor`.
    ///
    /// ocml reads these constants to pick between ways of computing. We ask for denormals kept,
    /// infinities and NaNs honoured, no unsafe rewrites and correctly rounded square roots.
    ///
    /// `__oclc_ISA_version` gets the file of the processor or, where an older ocml has none, the
    /// nearest below it. That is no approximation: disassembled, ocml compares the number with 8000
    /// and 9000 alone (what GCN 3 and Vega added), so every gfx9 and later number means the same to
    /// it. (ockl does compare finer, and is not linked.)
    ///
    /// # Errors
    /// If a file that ocml needs is not there.
    pub fn bitcode(&self, processor: &str) -> Result<Vec<PathBuf>, String> {
        const REQUIRED: [&str; 4] = [
            "ocml",
            "oclc_daz_opt_off",
            "oclc_unsafe_math_off",
            "oclc_finite_only_off",
        ];
        // Later ocml leaves square roots to the compiler, and may drop the file.
        const WHERE_PRESENT: [&str; 1] = ["oclc_correctly_rounded_sqrt_on"];
        let path = |stem: &str| self.device_libs.join(format!("{stem}.bc"));
        let mut files = Vec::new();
        for stem in REQUIRED {
            let file = path(stem);
            if !file.is_file() {
                return Err(format!(
                    "{} is missing (package rocm-device-libs)",
                    file.display()
                ));
            }
            files.push(file);
        }
        files.extend(
            WHERE_PRESENT
                .iter()
                .map(|stem| path(stem))
                .filter(|file| file.is_file()),
        );
        let wanted = isa_version(processor)
            .ok_or_else(|| format!("{processor} is no AMD processor's name"))?;
        let nearest = std::fs::read_dir(&self.device_libs)
            .map_err(|error| format!("{}: {error}", self.device_libs.display()))?
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let version = name
                    .strip_prefix("oclc_isa_version_")?
                    .strip_suffix(".bc")?;
                Some((isa_version(version)?, entry.path()))
            })
            .filter(|(version, _)| (9000..=wanted).contains(version))
            .max()
            .ok_or_else(|| {
                format!(
                    "{}: no oclc_isa_version_*.bc for {processor}",
                    self.device_libs.display()
                )
            })?;
        files.push(nearest.1);
        Ok(files)
    }

    /// Compiles a source that needs neither headers nor device libraries, such as a test's, to the
    /// code object of one `processor`.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile_alone(&self, source: &Path, processor: &str) -> Result<Vec<u8>, String> {
        let object = std::env::temp_dir().join(format!(
            "candle-rocm-{}-{processor}-{}.hsaco",
            source.file_stem().unwrap_or_default().to_string_lossy(),
            std::process::id()
        ));
        let result = Command::new(&self.clang)
            .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"])
            .args(["-nogpuinc", "-nogpulib", "-O3", "-c"])
            .arg(format!("--offload-arch={processor}"))
            .arg(source)
            .arg("-o")
            .arg(&object)
            .output()
            .map_err(|error| format!("{}: {error}", self.clang.display()))?;
        if !result.status.success() {
            return Err(String::from_utf8_lossy(&result.stderr).into_owned());
        }
        let bytes = std::fs::read(&object).map_err(|error| error.to_string());
        // A leftover in the temporary folder harms nobody.
        let _ = std::fs::remove_file(&object);
        bytes
    }
}
