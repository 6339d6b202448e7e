//! AMD's hiprtc: where it is, and what names it in the cache of what it compiled.

use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use rocm_nvcc::run_time::{self, Unit};

use super::rtc::{Kind, Rtc};
use crate::base::dynamic_library::Search;

/// Names the library, or its folder, and then the only place looked at.
pub(super) const HIPRTC_VARIABLE: &str = "CANDLE_ROCM_HIPRTC_LIBRARY";

const HIPRTC: Kind = Kind {
    search: Search {
        variable: HIPRTC_VARIABLE,
        roots: &[],
        rocm: &["lib"],
        folders: &[],
        names: &["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"],
    },
    prefix: "hiprtc",
    code: "Code",
};
/// How the names of files begin that results depend on.
const FILES: &[&str] = &["libhiprtc", "libamd_comgr"];

/// The library, loaded.
pub(super) struct Hiprtc {
    rtc: Rtc,
    identity: OnceLock<String>,
}

/// The library; or in words what was tried.
pub(super) fn library() -> Result<&'static Hiprtc, &'static str> {
    static LOADED: OnceLock<Result<Hiprtc, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        Ok(Hiprtc {
            rtc: Rtc::load(&HIPRTC)?,
            identity: OnceLock::new(),
        })
    });
    loaded.as_ref().map_err(String::as_str)
}

impl Hiprtc {
    /// Its path, as it was found.
    pub fn path(&self) -> &str {
        self.rtc.path()
    }

    /// Its version and the files that it is, with their sizes and times: releases share versions.
    fn find_identity(&self) -> String {
        let (major, minor) = self.rtc.version();
        self.rtc.load_compiler();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mut files: Vec<String> = mapped(&maps, FILES)
            .map(|path| {
                let about = std::fs::metadata(path).map(|about| {
                    let time = about.modified().ok();
                    let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                    (about.len(), time)
                });
                format!("{path} {:?}", about.ok())
            })
            .collect();
        files.sort();
        files.dedup();
        format!("{} {major}.{minor} {}", HIPRTC.prefix, files.join(", "))
    }
}

impl run_time::Library for Hiprtc {
    fn identity(&self) -> String {
        self.identity.get_or_init(|| self.find_identity()).clone()
    }

    fn compile(&self, unit: &Unit<'_>) -> Result<(Vec<u8>, String), String> {
        self.rtc
            .compile(unit.name, unit.text, unit.headers, unit.options)
    }
}

/// The files in a table of the process's memory whose names begin with one of these.
fn mapped<'a>(maps: &'a str, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    maps.lines().filter_map(move |line| {
        let path = &line[line.find('/')?..];
        let file = Path::new(path).file_name()?.to_str()?;
        names
            .iter()
            .any(|name| file.starts_with(name))
            .then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::mapped;

    #[test]
    fn files_are_found_by_name() {
        let maps = "7f-80 r--p 0 fe:00 1   /opt/a b/libhiprtc.so.7.2\n7f-80 rw-p 0 0:0 0 \n\
                    80-81 r 0 fe:00 2 /x/libc.so\n";
        let found: Vec<&str> = mapped(maps, &["libhiprtc"]).collect();
        assert_eq!(found, ["/opt/a b/libhiprtc.so.7.2"]);
    }
}
