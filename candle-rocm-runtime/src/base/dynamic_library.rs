//! Finding a vendor's shared library when it is first needed.

use std::ffi::{c_void, OsString};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::Library;
use parking_lot::Mutex;
use rocm_toolchain::installations;

/// Where a library may be.
pub(crate) struct Search {
    /// The variable that names the library, or its folder, and then the only place looked at.
    pub variable: &'static str,
    /// Variables that name an installation, and the folders of libraries in one.
    pub roots: &'static [(&'static str, &'static [&'static str])],
    /// Folders of libraries in each installation of ROCm, wherever those are.
    pub rocm: &'static [&'static str],
    /// Folders where the vendor's packages install it.
    pub folders: &'static [&'static str],
    /// Names of the library, the preferred one first.
    pub names: &'static [&'static str],
}

/// A loaded library, and the path under which it was found.
pub(crate) struct Found {
    pub library: &'static Library,
    pub path: String,
}

impl Search {
    /// The path that the user named, if any.
    pub fn named(&self) -> Option<PathBuf> {
        non_empty(self.variable).map(PathBuf::from)
    }

    fn candidates(&self) -> Vec<PathBuf> {
        if let Some(path) = self.named() {
            return if path.is_dir() {
                self.names.iter().map(|name| path.join(name)).collect()
            } else {
                vec![path]
            };
        }
        let rocm = match self.rocm {
            [] => Vec::new(),
            _ => installations::here(),
        };
        let rocm = rocm
            .iter()
            .flat_map(|root| self.rocm.iter().map(move |folder| root.join(folder)));
        self.roots
            .iter()
            .filter_map(|(variable, folders)| Some((non_empty(variable)?, folders)))
            .flat_map(|(root, folders)| folders.iter().map(move |f| Path::new(&root).join(f)))
            .chain(rocm)
            .chain(self.folders.iter().map(PathBuf::from))
            // A bare name goes through the loader's own search (LD_LIBRARY_PATH, ld.so.cache).
            .chain([PathBuf::new()])
            .flat_map(|folder| self.names.iter().map(move |name| folder.join(name)))
            .collect()
    }

    /// Loads the first that can be loaded. It is never unloaded: vendors' libraries keep threads and state of the
    /// process.
    ///
    /// # Errors
    /// None can be: why not, for each in a line of its own. A later search that finds the same refers to these lines.
    pub fn load(&self) -> Result<Found, String> {
        self.load_or_list().map_err(|tried| {
            let mut said = SAID.lock();
            match said.iter_mut().find(|(name, _)| *name == self.variable) {
                Some((_, before)) if *before == tried => {
                    "What was tried is in the first error of this process.".to_owned()
                }
                Some((_, before)) => {
                    before.clone_from(&tried);
                    format!("Tried:\n{tried}")
                }
                None => {
                    said.push((self.variable, tried.clone()));
                    format!("Tried:\n{tried}")
                }
            }
        })
    }

    fn load_or_list(&self) -> Result<Found, String> {
        let mut tried = Vec::new();
        for path in self.candidates() {
            // SAFETY: loading runs the initialisers of the vendor's library, or of the one that the user named.
            match unsafe { Library::new(&path) } {
                Ok(library) => {
                    return Ok(Found {
                        library: Box::leak(Box::new(library)),
                        path: path.display().to_string(),
                    })
                }
                Err(error) => tried.push(format!("  {}: {}", path.display(), cause(&error))),
            }
        }
        Err(tried.join("\n"))
    }
}

/// What the last search for each library tried and why it failed, by the variable that names the library.
static SAID: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());

/// What the last search for the library that this variable names tried, a line each, if it failed.
pub fn tried(variable: &str) -> Option<String> {
    let said = SAID.lock();
    let found = said.iter().find(|(name, _)| *name == variable);
    found.map(|(_, tried)| tried.clone())
}

/// The address of a symbol.
pub(crate) fn symbol(library: &'static Library, name: &str) -> Option<NonNull<c_void>> {
    // SAFETY: nothing is done with the symbol but taking its address.
    let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) }.ok()?;
    // SAFETY: the library is never unloaded, so that the address outlives the borrow.
    NonNull::new(unsafe { symbol.into_raw() }.into_raw())
}

/// Looks up a function by its C name; the error is that name.
///
/// # Safety
/// `F` is the type of the C function that has this name, as a function pointer.
pub(crate) unsafe fn function<F: Copy>(
    library: &'static Library,
    name: &'static str,
) -> Result<F, &'static str> {
    const { assert!(std::mem::size_of::<F>() == std::mem::size_of::<*mut c_void>()) };
    let pointer = symbol(library, name).ok_or(name)?;
    // SAFETY: a function pointer by the caller's promise, which has the size of an address.
    Ok(unsafe { std::mem::transmute_copy(&pointer) })
}

fn non_empty(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// The loader's reason; `libloading` keeps it in the source of its error.
fn cause(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error
        .source()
        .map_or_else(|| error.to_string(), |source| source.to_string())
}
