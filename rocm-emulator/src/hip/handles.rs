//! Handles: numbers that name an object in a table. A wrong handle is not found, and never dereferenced.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::RwLock;

use super::error::{Code, Result};

/// The kinds of objects that handles name, as their number in a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Streams.
    Stream = 1,
    /// Events.
    Event,
    /// Modules.
    Module,
    /// Functions of modules.
    Function,
    /// Graphs.
    Graph,
    /// Instantiated graphs.
    GraphExec,
    /// Memory pools.
    Pool,
    /// Programs registered by clang's start-up code.
    Binary,
    /// Contexts of devices.
    Context,
}

impl Kind {
    /// The bits that all handles of the kind have. Above user-space addresses, so that no handle is ever a valid
    /// pointer.
    pub const fn tag(self) -> u64 {
        1 << 62 | (self as u64) << 48
    }
}

/// A table of objects of one kind behind opaque C handles.
pub struct Table<T> {
    tag: u64,
    objects: RwLock<(u64, HashMap<u64, Arc<T>>)>,
}

impl<T> Table<T> {
    /// An empty table. Handles of different kinds never collide, so that one kind's handle is refused by the others.
    pub fn new(kind: Kind) -> Table<T> {
        Table {
            tag: kind.tag(),
            objects: RwLock::new((0, HashMap::new())),
        }
    }

    /// Reserve a handle, build the object that it names, and put it into the table.
    pub fn insert(&self, build: impl FnOnce(u64) -> T) -> u64 {
        let mut objects = self.objects.write();
        // Steps of 16, as pointers would be aligned; zero stays free.
        objects.0 += 16;
        let handle = self.tag | objects.0;
        objects.1.insert(handle, Arc::new(build(handle)));
        handle
    }

    /// Put an object that others hold, too, into the table.
    pub fn insert_shared(&self, object: Arc<T>) -> u64 {
        let mut objects = self.objects.write();
        objects.0 += 16;
        let handle = self.tag | objects.0;
        objects.1.insert(handle, object);
        handle
    }

    /// The object that a handle names.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` when there is none.
    pub fn get(&self, handle: *const c_void) -> Result<Arc<T>> {
        let objects = self.objects.read();
        let found = objects.1.get(&(handle as u64));
        found.cloned().ok_or_else(|| Code::InvalidHandle.into())
    }

    /// The object whose handle has this number below the table's tag.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` when there is none.
    pub fn get_by_number(&self, number: u64) -> Result<Arc<T>> {
        self.get((self.tag | number) as *const c_void)
    }

    /// Take an object out.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` when there is none.
    pub fn remove(&self, handle: *const c_void) -> Result<Arc<T>> {
        let removed = self.objects.write().1.remove(&(handle as u64));
        removed.ok_or_else(|| Code::InvalidHandle.into())
    }

    /// Take out all objects for which `condition` holds.
    pub fn remove_where(&self, condition: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut objects = self.objects.write();
        let handles: Vec<u64> = objects
            .1
            .iter()
            .filter(|(_, object)| condition(object))
            .map(|(handle, _)| *handle)
            .collect();
        handles
            .iter()
            .filter_map(|handle| objects.1.remove(handle))
            .collect()
    }

    /// Every object.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.objects.read().1.values().cloned().collect()
    }
}
