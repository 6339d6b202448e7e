//! One thing that is looked at.

use anyhow::Result;
use candle_rocm_card_record::Item;

/// What a job does: an error is an item that is wrong.
pub type Run<'a> = Box<dyn FnOnce() -> Result<Item> + 'a>;

/// One thing that is looked at, which gives one item.
pub struct Job<'a> {
    /// The item's name.
    pub name: String,
    /// Looks at it.
    pub run: Run<'a>,
}

impl<'a> Job<'a> {
    /// A job.
    pub fn new(name: impl Into<String>, run: impl FnOnce() -> Result<Item> + 'a) -> Job<'a> {
        Job {
            name: name.into(),
            run: Box::new(run),
        }
    }
}
