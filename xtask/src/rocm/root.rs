//! AMD's packages in a private folder of the user's cache: nothing on the system changes.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use super::packages::{Package, Set, RUNTIME, VERSION};
use crate::cargo;

/// Where the packages put libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Stands in a tree when everything is unpacked: what it was made of.
const COMPLETE: &str = "complete";
/// What lists of apt's name mirrors of.
const ARCHIVES: [&str; 2] = ["deb", "Types: deb"];

/// A package that nobody has any more, or not in time.
#[derive(Debug)]
pub struct Gone(pub String);

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Gone {}

/// The private folder.
pub struct Root(PathBuf);

impl Root {
    /// The folder with HIP and ROCr in it: as it was left, or from packages in `given`, or from this machine's own mirror
    /// of Debian, in so much time at most.
    ///
    /// # Errors
    /// [`Gone`] where a package cannot be had.
    pub fn ready(given: Option<&Path>, patience: Option<Duration>) -> Result<Root> {
        let root = Root(cache()?.join(format!("candle-rocm/amd-runtime/{VERSION}")));
        root.add(&RUNTIME, given, patience)?;
        Ok(root)
    }

    /// The same, with other packages beside them.
    ///
    /// # Errors
    /// [`Gone`] where one cannot be had.
    pub fn with(self, set: &Set, given: Option<&Path>) -> Result<Root> {
        self.add(set, given, None)?;
        Ok(self)
    }

    /// Unpacks what is not there yet as it is pinned now.
    fn add(&self, set: &Set, given: Option<&Path>, patience: Option<Duration>) -> Result<()> {
        let (tree, listed) = (self.0.join(set.tree), listed(set));
        if fs::read_to_string(tree.join(COMPLETE)).is_ok_and(|text| text == listed) {
            return Ok(());
        }
        let until = patience.map(|patience| Instant::now() + patience);
        let packages = self.packages(set, given, until)?;
        if tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        for package in packages {
            let unpack = Command::new("dpkg-deb")
                .arg("--extract")
                .args([&package, &tree])
                .status()
                .context("cannot start dpkg-deb: this needs Debian or one of its kin")?;
            if !unpack.success() {
                bail!("dpkg-deb cannot unpack {}: {unpack}", package.display());
            }
        }
        Ok(fs::write(tree.join(COMPLETE), listed)?)
    }

    /// AMD's HIP.
    pub fn hip(&self) -> PathBuf {
        self.libraries(&RUNTIME).join("libamdhip64.so.7")
    }

    /// A folder as ROCm's, with HIP's library and those named, of a set, under the names that linkers look for.
    pub fn for_linkers(&self, set: &Set, libraries: &[&str]) -> Result<PathBuf> {
        let folder = self.0.join("rocm");
        fs::create_dir_all(folder.join("lib"))?;
        let named = libraries.iter().map(|name| self.libraries(set).join(name));
        for library in named.chain([self.hip()]) {
            // Without the number of its version.
            let name = library.file_stem().context("a library has a name")?;
            let link = folder.join("lib").join(name);
            if fs::symlink_metadata(&link).is_ok() {
                fs::remove_file(&link)?;
            }
            std::os::unix::fs::symlink(library, &link)?;
        }
        Ok(folder)
    }

    /// What starts a program with the folder's libraries: the newer C library's own loader.
    pub fn loader(&self) -> PathBuf {
        self.libraries(&RUNTIME).join("ld-linux-x86-64.so.2")
    }

    /// Where the libraries of a set are.
    pub fn libraries(&self, set: &Set) -> PathBuf {
        self.0.join(set.tree).join(LIBRARIES)
    }

    /// A set's packages as files, checked.
    fn packages(
        &self,
        set: &Set,
        given: Option<&Path>,
        until: Option<Instant>,
    ) -> Result<Vec<PathBuf>> {
        let folder = self.0.join("packages");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut files = Vec::new();
        let mut missing = Vec::new();
        for package in set.packages {
            let here = folder.join(package.file());
            let there = given.and_then(|given| find(given, package));
            match [Some(here.clone()), there]
                .into_iter()
                .flatten()
                .find(|file| file.is_file())
            {
                Some(file) if checks(&file, package)? => files.push(file),
                Some(file) if file != here => {
                    bail!(
                        "{} is not the package that is pinned: its SHA-256 is another",
                        file.display()
                    )
                }
                _ => missing.push(package),
            }
        }
        if missing.is_empty() {
            return Ok(files);
        }
        let bytes: u64 = missing.iter().map(|package| package.bytes).sum();
        eprintln!(
            "{} {VERSION}: fetching {} packages of Debian, {} MB, into {} (unpacked about {} MB)",
            set.what,
            missing.len(),
            bytes.div_ceil(1_000_000),
            self.0.display(),
            set.unpacked
        );
        let mirrors = mirrors();
        for package in missing {
            let file = folder.join(package.file());
            fetch(package, &mirrors, &file, until)?;
            files.push(file);
        }
        Ok(files)
    }
}

/// What a complete tree was made of.
fn listed(set: &Set) -> String {
    let packages = set.packages.iter();
    let lines = packages.map(|package| format!("{}  {}\n", package.sha256, package.path));
    lines.collect()
}

/// The user's folder for what can be made again.
fn cache() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    cache
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where caches are")
}

/// A package's file in a folder; apt writes the colon of a version as `%3a`, and leaves it out of names in the pool.
fn find(folder: &Path, package: &Package) -> Option<PathBuf> {
    let plain = |name: &str| match name.split_once("%3a") {
        Some((before, after)) => match before.rsplit_once('_') {
            Some((name, _)) => format!("{name}_{after}"),
            None => after.to_owned(),
        },
        None => name.to_owned(),
    };
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut files = entries.map(|entry| entry.path());
    files.find(|file| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| plain(name) == package.file())
    })
}

/// Whether a file is the package that is pinned.
fn checks(file: &Path, package: &Package) -> Result<bool> {
    let text = cargo::output(Command::new("sha256sum").arg("--").arg(file))?;
    Ok(text.starts_with(package.sha256))
}

/// Fetch a package from the first mirror that has it. Each is checked.
fn fetch(package: &Package, mirrors: &[String], file: &Path, until: Option<Instant>) -> Result<()> {
    let partial = file.with_extension("partial");
    let mut why = None;
    for mirror in mirrors {
        let Some(mut command) = helper(until) else {
            return Err(Gone(format!("{} did not come in time", package.file())).into());
        };
        command
            .args(["-o", "Acquire::Retries=1", "download-file"])
            .arg(format!(
                "{mirror}/pool/{}",
                package.path.replace('+', "%2b")
            ))
            .arg(&partial)
            .arg(format!("SHA256:{}", package.sha256));
        let done = command.output().context("cannot start apt's apt-helper")?;
        if done.status.success() && checks(&partial, package)? {
            fs::rename(&partial, file)?;
            return Ok(());
        }
        // The first mirror is the likeliest to have had it.
        why.get_or_insert_with(|| reason(&done));
    }
    if partial.exists() {
        fs::remove_file(&partial)?;
    }
    let why = why.unwrap_or_else(|| "apt's lists name no mirror".to_owned());
    Err(Gone(format!(
        "{} is not to be had ({why}); a folder that has it can be named with --packages",
        package.file()
    ))
    .into())
}

/// What fetches a file as apt does, until then; nothing when that is past.
fn helper(until: Option<Instant>) -> Option<Command> {
    const HELPER: &str = "/usr/lib/apt/apt-helper";
    let Some(until) = until else {
        return Some(Command::new(HELPER));
    };
    let left = until.saturating_duration_since(Instant::now()).as_secs();
    let mut command = Command::new("timeout");
    command.args([&left.to_string(), HELPER]);
    // To `timeout`, 0 seconds are no limit.
    (left != 0).then_some(command)
}

/// Why apt's helper got nothing: its own first line about it.
fn reason(done: &Output) -> String {
    let text = String::from_utf8_lossy(&done.stderr);
    match text.lines().find_map(|line| line.strip_prefix("E: ")) {
        Some(line) => line.trim().to_owned(),
        None => done.status.to_string(),
    }
}

/// The mirrors that this machine's apt has, each once, in their order.
fn mirrors() -> Vec<String> {
    let mut lists = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        lists.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut mirrors = Vec::new();
    for list in lists {
        let text = fs::read_to_string(list).unwrap_or_default();
        for mirror in named(&text) {
            if !mirrors.contains(&mirror) {
                mirrors.push(mirror);
            }
        }
    }
    // An archive's root is called after it; those of others are asked last.
    mirrors.sort_by_key(|mirror| !mirror.ends_with("/debian"));
    mirrors
}

/// The mirrors that a list of apt's names, in either of its forms.
fn named(list: &str) -> Vec<String> {
    let lines = list.lines().map(str::trim);
    let lines = lines.filter(|line| {
        line.starts_with("URIs:") || ARCHIVES.iter().any(|archive| line.starts_with(archive))
    });
    let words = lines.flat_map(str::split_whitespace);
    let mirrors = words.filter(|word| word.starts_with("http://") || word.starts_with("https://"));
    mirrors
        .map(|mirror| mirror.trim_end_matches('/').to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::packages::{COLLECTIVES, LIBRARIES};
    use super::*;

    #[test]
    fn both_forms_of_lists_name_mirrors() {
        let old = "# deb http://no.example/debian sid main\n\
                   deb [arch=amd64 signed-by=/x] http://one.example/debian/ sid main\n\
                   deb-src http://one.example/debian sid main\n";
        let one = "http://one.example/debian";
        assert_eq!(named(old), [one, one]);
        let new = "Types: deb\n# http://no.example\nURIs: https://two.example/debian http://three.example\nSuites: sid\n";
        assert_eq!(
            named(new),
            ["https://two.example/debian", "http://three.example"]
        );
    }

    #[test]
    fn packages_are_pinned_once_each() {
        let all = || {
            [RUNTIME, LIBRARIES, COLLECTIVES]
                .into_iter()
                .flat_map(|set| set.packages)
        };
        let mut files: Vec<&str> = all().map(Package::file).collect();
        for package in all() {
            assert!(package.path.starts_with("main/") && package.file().ends_with(".deb"));
            assert!(package.bytes > 1000, "{}", package.path);
            let hexadecimal = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(package.sha256.len() == 64 && package.sha256.chars().all(hexadecimal));
        }
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), all().count());
        // AMD's own are of one version.
        for file in files
            .iter()
            .filter(|file| file.starts_with("libroc") || file.contains("hip"))
        {
            assert!(file.contains(VERSION), "{file}");
        }
    }

    #[test]
    fn a_package_that_no_mirror_has_is_named() {
        let file = std::env::temp_dir().join("no-package.deb");
        let package = &RUNTIME.packages[0];
        let error = fetch(package, &[], &file, None).unwrap_err();
        assert!(error.is::<Gone>());
        let text = error.to_string();
        assert!(
            text.starts_with(package.file()) && text.lines().count() == 1,
            "{text}"
        );
        // Too late for it.
        let mirrors = ["http://no.example/debian".to_owned()];
        let error = fetch(package, &mirrors, &file, Some(Instant::now())).unwrap_err();
        assert!(error.is::<Gone>());
    }

    #[test]
    fn a_file_of_another_content_is_not_the_package() {
        let folder = std::env::temp_dir().join(format!("candle-rocm-root-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let package = &RUNTIME.packages[0];
        let file = folder.join(package.file());
        fs::write(&file, "no package").unwrap();
        assert_eq!(find(&folder, package), Some(file.clone()));
        assert!(!checks(&file, package).unwrap());
        let apts = folder.join("libllvm22_1%3a22.1.8-3_amd64.deb");
        fs::write(&apts, "").unwrap();
        let llvm = RUNTIME
            .packages
            .iter()
            .find(|package| package.file().starts_with("libllvm22"))
            .unwrap();
        assert_eq!(find(&folder, llvm), Some(apts));
        fs::remove_dir_all(folder).unwrap();
    }
}
