//! What is given to a GPU, as a profile names it.

use std::borrow::Cow;

/// Something given to a stream.
pub(crate) enum Work<'a> {
    /// A kernel on a grid.
    Kernel {
        name: &'a str,
        workgroups: (u32, u32, u32),
        threads: (u32, u32, u32),
    },
    /// A copy of so many bytes; the name says from where.
    Copy { name: &'static str, bytes: usize },
    /// Bytes set to a value.
    Fill { bytes: usize },
    /// A product by a library, whose kernels have no names here.
    Product { library: &'static str },
    /// A convolution by a library, likewise.
    Convolution { library: &'static str },
    /// A whole graph.
    Graph,
}

impl Work<'_> {
    /// Its row in a table.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Work::Kernel { name, .. } => Cow::Borrowed(name),
            Work::Copy { name, .. } => Cow::Borrowed(name),
            Work::Fill { .. } => Cow::Borrowed("fill"),
            Work::Product { library } => Cow::Owned(format!("product by {library}")),
            Work::Convolution { library } => Cow::Owned(format!("convolution by {library}")),
            Work::Graph => Cow::Borrowed("graph"),
        }
    }

    /// Bytes that a copy or a fill moves; 0 of what is unknown.
    pub fn bytes(&self) -> usize {
        match self {
            Work::Copy { bytes, .. } | Work::Fill { bytes } => *bytes,
            _ => 0,
        }
    }

    /// The grid of a kernel: workgroups, and work-items of each.
    pub fn grid(&self) -> Option<[(u32, u32, u32); 2]> {
        match self {
            Work::Kernel {
                workgroups,
                threads,
                ..
            } => Some([*workgroups, *threads]),
            _ => None,
        }
    }
}
