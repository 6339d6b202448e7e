//! Compiled kernels, kept from build to build in a folder that all of a user's target folders share.
//!
//! An entry is one file, named by all that it depends on: a zstd frame with a checksum, written aside, renamed, and never
//! changed afterwards. Builds side by side lock what they make, so that none does another's work again. The time of
//! an entry's file is that of its last use; where the folder outgrows its limit, those unused for longest go.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytesize::ByteSize;
use fs4::TryLockError;

use crate::error::{Error, Result};
use crate::notice::{Notice, Notices};
use crate::user_cache;
use crate::variables::{KERNEL_CACHE, KERNEL_CACHE_SIZE};
use crate::workers::Outcome;

/// The limit where nobody sets one.
const DEFAULT_SIZE: ByteSize = ByteSize::gib(2);
/// How the names of entries end.
const ENTRY: &str = ".hsaco.zst";
/// How the names of unfinished entries end, which only a build that was killed leaves behind.
const ASIDE: &str = ".aside";
/// After this time nobody is writing an unfinished entry any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder, as one build sees it.
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// The names of this build's entries.
    used: Mutex<HashSet<String>>,
    /// What went wrong without harm to the build.
    notices: Mutex<Notices>,
}

/// What [`Cache::get_or_make`] returns.
pub struct Entry {
    /// The zstd frame.
    pub frame: Vec<u8>,
    /// Bytes in it.
    pub raw: usize,
    /// Whether it was made now, as against found.
    pub made: bool,
}

/// The folder to use and, where it is not the usual one, why.
///
/// That is the one that the user names; else `usual`, the one in the user's cache, or where that cannot be written, a
/// folder in the target folder, which `cargo clean` removes.
///
/// # Errors
/// The user names a folder that cannot be written, or no folder at all can be.
pub fn folder(
    named: Option<OsString>,
    usual: Option<PathBuf>,
    out: &Path,
) -> Result<(PathBuf, Option<Notice>)> {
    if let Some(named) = named.filter(|value| !value.is_empty()) {
        let folder = PathBuf::from(named);
        return match writable(&folder) {
            Ok(()) => Ok((folder, None)),
            Err(error) => Err(Error::Variable {
                name: KERNEL_CACHE,
                value: folder.display().to_string(),
                reason: error.to_string(),
            }),
        };
    }
    let reason = match usual {
        Some(folder) => match writable(&folder) {
            Ok(()) => return Ok((folder, None)),
            Err(error) => Error::file(&folder)(error).to_string(),
        },
        None => "this user has no home folder".to_string(),
    };
    // OUT_DIR is <target>/<profile>/build/<package>/out.
    let target = out.ancestors().nth(4);
    let target = target.filter(|target| target.parent().is_some());
    let folder = target.unwrap_or(out).join("candle-rocm-kernels");
    writable(&folder).map_err(Error::file(&folder))?;
    let notice = Notice::CacheElsewhere {
        folder: folder.clone(),
        reason,
    };
    Ok((folder, Some(notice)))
}

/// Makes `folder` if need be, and tries to write there.
fn writable(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| tempfile::tempfile_in(folder))
        .map(|_| ())
}

/// The limit that the user sets, or the default one where that is empty.
///
/// # Errors
/// What was set is not a size.
pub fn limit(set: &str) -> Result<u64> {
    match set.trim() {
        "" => Ok(DEFAULT_SIZE.as_u64()),
        size => match size.parse::<ByteSize>() {
            Ok(size) => Ok(size.as_u64()),
            Err(error) => Err(Error::Variable {
                name: KERNEL_CACHE_SIZE,
                value: size.to_owned(),
                reason: format!("{error}; 500MiB is a size"),
            }),
        },
    }
}

impl Cache {
    /// The cache in `folder`, which [`Cache::shrink`] holds to `limit` bytes.
    pub fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            used: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// The cache that the environment names ([`KERNEL_CACHE`], [`KERNEL_CACHE_SIZE`]), or the user's; as [`folder`] finds
    /// it.
    ///
    /// # Errors
    /// No folder can be written, or a variable's value is none.
    pub fn of_environment(out: &Path) -> Result<Self> {
        let named = std::env::var_os(KERNEL_CACHE);
        let (folder, notice) = folder(named, user_cache::kernels(), out)?;
        let size = std::env::var(KERNEL_CACHE_SIZE).unwrap_or_default();
        let cache = Self::new(folder, limit(&size)?);
        notice.into_iter().for_each(|notice| cache.note(notice));
        Ok(cache)
    }

    /// The entry of this `name`, which a build elsewhere may be making: then the answer is [`Outcome::Busy`], or with
    /// `wait` that build's entry when it is done. If nobody made it yet, `make` returns its content.
    ///
    /// # Errors
    /// Those of `make`. What is wrong with the folder costs time alone, and [`Cache::notices`] tells it.
    pub fn get_or_make<E: From<Error>>(
        &self,
        name: &str,
        wait: bool,
        make: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<Outcome<Entry>, E> {
        let name = format!("{name}{ENTRY}");
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone());
        if let Some(entry) = self.read(&name) {
            return Ok(Outcome::Done(entry));
        }
        // Held to the end of this function. Whoever held it before may have made the entry.
        let _lock = match self.lock(&name, wait) {
            Ok(Some(lock)) => {
                if let Some(entry) = self.read(&name) {
                    return Ok(Outcome::Done(entry));
                }
                Some(lock)
            }
            Ok(None) => return Ok(Outcome::Busy),
            // Some file systems know no locks. Then two builds may do the same work, without harm.
            Err(error) => {
                self.trouble(&error);
                None
            }
        };
        let content = make()?;
        let frame = compress(&content).map_err(Error::Frame)?;
        if let Err(error) = self.write(&name, &frame) {
            self.trouble(&Error::file(&self.folder.join(&name))(error));
        }
        Ok(Outcome::Done(Entry {
            frame,
            raw: content.len(),
            made: true,
        }))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What went wrong without harm to the build, each once.
    pub fn notices(&self) -> Notices {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.clone()
    }

    /// Holds the cache to its size. Returns what went wrong, without harm to what was made.
    pub fn finish(&self) -> Notices {
        if let Err(error) = self.shrink() {
            self.trouble(&error);
        }
        self.notices()
    }

    fn note(&self, notice: Notice) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push(notice);
    }

    fn trouble(&self, error: &Error) {
        self.note(Notice::CacheTrouble(error.to_string()));
    }

    /// An entry that is there and whole. From now on it is the one used last.
    fn read(&self, name: &str) -> Option<Entry> {
        let path = self.folder.join(name);
        let frame = match std::fs::read(&path) {
            Ok(frame) => frame,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    self.trouble(&Error::file(&path)(error));
                }
                return None;
            }
        };
        match zstd::decode_all(frame.as_slice()) {
            Ok(content) if !content.is_empty() => {
                let used = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
                if let Err(error) = used {
                    // Another build may have removed it; somebody else's file keeps its time.
                    if !matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::PermissionDenied
                    ) {
                        self.trouble(&Error::file(&path)(error));
                    }
                }
                Some(Entry {
                    frame,
                    raw: content.len(),
                    made: false,
                })
            }
            // Cut short by a crash or a full disk: made again, and replaced.
            _ => {
                self.note(Notice::CacheDamaged(path));
                None
            }
        }
    }

    /// The lock of an entry; none if another has it and we do not `wait`.
    ///
    /// The files that are locked stay. They are empty, and as many entries share one, there are at most 4,096.
    fn lock(&self, name: &str, wait: bool) -> Result<Option<File>> {
        let folder = self.folder.join("locks");
        let digest = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
        let path = folder.join(format!("{:03x}", digest & 0xfff));
        let context = |error: std::io::Error| Error::file(&path)(error);
        std::fs::create_dir_all(&folder).map_err(context)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(context)?;
        if wait {
            fs4::FileExt::lock(&file).map_err(context)?;
            return Ok(Some(file));
        }
        match fs4::FileExt::try_lock(&file) {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(context(error)),
        }
    }

    /// Writes an entry aside and renames it, so that builds running beside never see half a file.
    fn write(&self, name: &str, frame: &[u8]) -> std::io::Result<()> {
        let mut aside = tempfile::Builder::new()
            .prefix(name)
            .suffix(ASIDE)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(&self.folder)?;
        aside.write_all(frame)?;
        aside.persist(self.folder.join(name))?;
        Ok(())
    }

    /// Removes entries until the folder is within its limit, those unused for longest first, and never this build's;
    /// and what killed builds left behind. Returns the bytes that are left.
    ///
    /// # Errors
    /// The folder cannot be read, or an entry not be removed.
    pub fn shrink(&self) -> Result<u64> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = Vec::new();
        let mut total = 0;
        let listing = std::fs::read_dir(&self.folder);
        for entry in listing.map_err(Error::file(&self.folder))? {
            let entry = entry.map_err(Error::file(&self.folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // One that is gone was removed by another build.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.ends_with(ENTRY) {
                total += metadata.len();
                if !used.contains(&name) {
                    entries.push((time, entry.path(), metadata.len()));
                }
            } else if name.ends_with(ASIDE) && time.elapsed().is_ok_and(|age| age > ABANDONED) {
                remove(&entry.path())?;
            }
        }
        entries.sort();
        for (_, path, bytes) in entries {
            if total <= self.limit {
                break;
            }
            remove(&path)?;
            total -= bytes;
        }
        Ok(total)
    }
}

/// Removes a file, unless another build has done so.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}

/// A frame with its content's size and checksum.
fn compress(content: &[u8]) -> std::io::Result<Vec<u8>> {
    /// The level beyond which code objects shrink no more to speak of.
    const LEVEL: i32 = 12;
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(content.len() as u64))?;
    encoder.write_all(content)?;
    encoder.finish()
}
