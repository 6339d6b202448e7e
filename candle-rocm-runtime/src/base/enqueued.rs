//! What a thread gives to GPUs, noted for who asks.

use std::cell::{Cell, RefCell};

thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
    static NOTED: RefCell<Enqueued> = RefCell::new(Enqueued::default());
}

/// What was given to GPUs: each of them costs the host a call, and the GPU a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Names of the kernels, in order.
    pub kernels: Vec<String>,
    /// Matrix products by a library (rocBLAS, cuBLAS), whose kernels have no names here.
    pub library_products: usize,
    /// Convolutions by a library (MIOpen), likewise.
    pub library_convolutions: usize,
    /// Copies between host and GPUs, or within them.
    pub copies: usize,
    /// Memory set to zero.
    pub fills: usize,
    /// Graphs launched, whatever is in them.
    pub graphs: usize,
}

impl Enqueued {
    /// How many there are in all.
    pub fn count(&self) -> usize {
        let by_libraries = self.library_products + self.library_convolutions;
        self.kernels.len() + by_libraries + self.copies + self.fills + self.graphs
    }

    fn add(&mut self, other: Self) {
        self.kernels.extend(other.kernels);
        self.library_products += other.library_products;
        self.library_convolutions += other.library_convolutions;
        self.copies += other.copies;
        self.fills += other.fills;
        self.graphs += other.graphs;
    }
}

/// Runs `run`, and notes what the calling thread gives to GPUs meanwhile, work that is captured into a graph included.
///
/// ```
/// use candle_rocm_runtime::{enqueued, runtime, Context, RuntimeKind};
///
/// runtime::select(RuntimeKind::Emulator)?;
/// let stream = Context::new(0)?.default_stream();
/// let (x, noted) = enqueued::recorded(|| stream.clone_htod(&[1u8, 2, 3]));
/// assert_eq!((noted.copies, noted.count()), (1, 1));
/// # drop(x?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn recorded<T>(run: impl FnOnce() -> T) -> (T, Enqueued) {
    let recording = Recording::begin();
    let result = run();
    let noted = NOTED.with_borrow(Clone::clone);
    drop(recording);
    (result, noted)
}

/// Puts back what was noted before, and adds to it, also where `run` panics.
struct Recording {
    outer: Option<Enqueued>,
}

impl Recording {
    fn begin() -> Self {
        let outer = NOTED.take();
        let asked = ASKED.replace(true);
        Self {
            outer: asked.then_some(outer),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let inner = NOTED.take();
        match self.outer.take() {
            None => ASKED.set(false),
            Some(mut outer) => {
                outer.add(inner);
                NOTED.set(outer);
            }
        }
    }
}

/// Notes something, if anyone asks. A thread that ends, whose variables are gone, is asked by nobody.
#[inline]
pub(crate) fn note(work: impl FnOnce(&mut Enqueued)) {
    if ASKED.try_with(Cell::get).unwrap_or(false) {
        NOTED.with_borrow_mut(work);
    }
}

#[cfg(test)]
mod tests {
    use super::{note, recorded, ASKED};

    #[test]
    fn inner_records_are_parts_of_outer_ones() {
        note(|noted| noted.copies += 1);
        let ((), outer) = recorded(|| {
            note(|noted| noted.kernels.push("a".to_owned()));
            let ((), inner) = recorded(|| {
                note(|noted| noted.kernels.push("b".to_owned()));
                note(|noted| noted.fills += 1);
            });
            assert_eq!((inner.kernels, inner.fills), (vec!["b".to_owned()], 1));
            note(|noted| noted.graphs += 1);
        });
        assert_eq!(outer.kernels, ["a", "b"]);
        assert_eq!(outer.count(), 4);
        let ((), nothing) = recorded(|| ());
        assert_eq!(nothing.count(), 0);
    }

    #[test]
    fn a_panic_ends_the_record() {
        let panicked = std::panic::catch_unwind(|| recorded(|| panic!("as it should")));
        assert!(panicked.is_err());
        assert!(!ASKED.get());
    }
}
