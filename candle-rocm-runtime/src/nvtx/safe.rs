//! Events with what they carry.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

use crate::profile;

/// Names of categories.
static CATEGORIES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

/// Begins a range, which ends where the result is dropped: `Event::message(msg).range()`.
pub fn scoped_range<S: AsRef<str>>(msg: S) -> Range {
    Event::message(msg).range()
}

/// Names a moment: `Event::message(msg).mark()`.
pub fn mark<S: AsRef<str>>(msg: S) {
    Event::message(msg).mark();
}

/// Gives events of this category its name.
pub fn name_category<S: AsRef<str>>(category: u32, name: S) {
    CATEGORIES.lock().insert(category, name.as_ref().to_owned());
}

/// A range or a mark in the making.
#[derive(Clone, Debug)]
pub struct Event {
    message: String,
    category: Option<u32>,
    payload: Option<Payload>,
}

/// A value that an event carries.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// Of 32 bits, with a sign.
    I32(i32),
    /// Of 64 bits, with a sign.
    Int64(i64),
    /// Of 32 bits.
    U32(u32),
    /// Of 64 bits.
    U64(u64),
    /// A float of 32 bits.
    F32(f32),
    /// A float of 64 bits.
    F64(f64),
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::I32(value) => value.fmt(f),
            Payload::Int64(value) => value.fmt(f),
            Payload::U32(value) => value.fmt(f),
            Payload::U64(value) => value.fmt(f),
            Payload::F32(value) => value.fmt(f),
            Payload::F64(value) => value.fmt(f),
        }
    }
}

impl Event {
    /// An event of this name.
    pub fn message<S: AsRef<str>>(message: S) -> Self {
        Self {
            message: message.as_ref().to_owned(),
            category: None,
            payload: None,
        }
    }

    /// Puts it into a category, whose name [`name_category`] gives.
    pub fn category(&mut self, category: u32) -> &mut Self {
        self.category = Some(category);
        self
    }

    /// Its colour, which nobody is told.
    pub fn argb(&mut self, _argb: u32) -> &mut Self {
        self
    }

    /// Has it carry a value.
    pub fn payload(&mut self, payload: Payload) -> &mut Self {
        self.payload = Some(payload);
        self
    }

    /// Names a moment.
    pub fn mark(self) {
        profile::mark(&self.name());
    }

    /// Begins a range, which ends where the result is dropped.
    pub fn range(self) -> Range {
        Range {
            _named: profile::range_with(|| self.name()),
        }
    }

    /// What profilers are told: `category: message (payload)`.
    fn name(&self) -> String {
        let mut name = String::new();
        if let Some(category) = self.category {
            match CATEGORIES.lock().get(&category) {
                Some(of) => name += &format!("{of}: "),
                None => name += &format!("{category}: "),
            }
        }
        name += &self.message;
        if let Some(payload) = self.payload {
            name += &format!(" ({payload})");
        }
        name
    }
}

/// A range that ends where this is dropped.
#[derive(Debug)]
pub struct Range {
    _named: profile::Range,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_event_carries_is_in_its_name() {
        let mut event = Event::message("gemm");
        assert_eq!(event.name(), "gemm");
        event
            .category(7)
            .argb(0xffff_0000)
            .payload(Payload::F64(0.5));
        assert_eq!(event.name(), "7: gemm (0.5)");
        name_category(7, "forward");
        assert_eq!(event.name(), "forward: gemm (0.5)");
    }
}
