//! What a user should hear of a build that succeeded. Nothing here prints: who calls says it in their own way, a build
//! script as `cargo::warning=`, a program in its log.

use std::fmt;
use std::path::PathBuf;

use crate::variables;

/// One thing to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// The compiler is older than a GPU that was asked for, and a generic target stands for it.
    Covered {
        /// The GPU.
        name: String,
        /// The generic target.
        target: String,
    },
    /// Compiled kernels are not kept where they usually are.
    CacheElsewhere {
        /// Where they are kept.
        folder: PathBuf,
        /// Why, in words.
        reason: String,
    },
    /// An entry of the cache was damaged, and is made again.
    CacheDamaged(PathBuf),
    /// Something is wrong with the cache, which costs time alone. The text names the file.
    CacheTrouble(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Covered { name, target } => {
                write!(f, "the compiler does not know {name}: {target} covers it")
            }
            Notice::CacheElsewhere { folder, reason } => write!(
                f,
                "kernel cache: compiled kernels are kept in {}, not in the user's cache ({reason}); {} names another \
                 folder",
                folder.display(),
                variables::KERNEL_CACHE
            ),
            Notice::CacheDamaged(path) => write!(
                f,
                "kernel cache: {}: was damaged, and is replaced",
                path.display()
            ),
            Notice::CacheTrouble(trouble) => write!(f, "kernel cache: {trouble}"),
        }
    }
}

/// What there is to say, each thing once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "somebody should say these"]
pub struct Notices(Vec<Notice>);

impl Notices {
    /// None so far.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One more, unless it is there.
    pub fn push(&mut self, notice: Notice) {
        if !self.0.contains(&notice) {
            self.0.push(notice);
        }
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order in which they came up.
    pub fn iter(&self) -> std::slice::Iter<'_, Notice> {
        self.0.iter()
    }
}

impl Extend<Notice> for Notices {
    fn extend<I: IntoIterator<Item = Notice>>(&mut self, notices: I) {
        notices.into_iter().for_each(|notice| self.push(notice));
    }
}

impl FromIterator<Notice> for Notices {
    fn from_iter<I: IntoIterator<Item = Notice>>(notices: I) -> Self {
        let mut all = Self::new();
        all.extend(notices);
        all
    }
}

impl IntoIterator for Notices {
    type Item = Notice;
    type IntoIter = std::vec::IntoIter<Notice>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Notices {
    type Item = &'a Notice;
    type IntoIter = std::slice::Iter<'a, Notice>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
