//! What a layer above keeps for each stream of a GPU, and hands on to another when a stream is gone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::queue::Stream;
use crate::base::error::Result;
use crate::device::gpu::Device;
use crate::order::key::StreamKey;
use crate::order::raw_event::RawEvent;

/// A value for each stream of one GPU that asked for one.
pub(crate) struct PerStream<T> {
    of_streams: RwLock<HashMap<StreamKey, Arc<T>, RandomState>>,
    idle: Mutex<Vec<Idle<T>>>,
    /// How many wait for another stream.
    most_idle: usize,
}

/// A value whose stream or thread is gone.
struct Idle<T> {
    value: T,
    /// After the last work of its stream; none if that was the stream of a thread that has ended, which only the
    /// legacy default stream can name.
    last_work: Option<RawEvent>,
}

impl<T: Send + Sync> PerStream<T> {
    /// With no values yet, of which so many at most are to wait for another stream.
    pub fn new(most_idle: usize) -> Self {
        Self {
            of_streams: RwLock::default(),
            idle: Mutex::default(),
            most_idle,
        }
    }

    /// The stream's value, if it has one.
    pub fn get(&self, key: StreamKey) -> Option<Arc<T>> {
        self.of_streams.read().get(&key).cloned()
    }

    /// The stream's value: the one it has, one of a stream that is gone, whose last work the stream then waits for, or
    /// what `make` makes. A value new to the stream goes through `bind`. The GPU is current on this thread.
    ///
    /// # Errors
    /// Those of `make` and `bind`, and HIP's where it refuses to order the streams.
    pub fn get_or_make(
        &'static self,
        stream: &Stream,
        make: impl FnOnce() -> Result<T>,
        bind: impl FnOnce(T) -> Result<T>,
    ) -> Result<Arc<T>> {
        let key = stream.key();
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        // Held while a value is made, so that a stream gets no second one.
        let mut of_streams = self.of_streams.write();
        if let Some(value) = of_streams.get(&key) {
            return Ok(value.clone());
        }
        let device = stream.context().device();
        // A stream that is captured cannot wait for work outside of the capture.
        let idle = match device.pool().is_any_capturing() {
            true => None,
            false => self.idle.lock().pop(),
        };
        let value = match idle {
            Some(idle) => {
                let hip = device.hip();
                match idle.last_work {
                    Some(event) => event.wait_on(hip, stream.raw())?,
                    None => {
                        RawEvent::record(hip, std::ptr::null_mut())?.wait_on(hip, stream.raw())?
                    }
                }
                idle.value
            }
            None => make()?,
        };
        let value = Arc::new(bind(value)?);
        if key.is_per_thread() {
            let device = device.clone();
            // A thread that ends calls the driver no more; the threads after it take its values over.
            at_thread_end(move || drop(self.release(&device, key)));
        }
        of_streams.insert(key, value.clone());
        Ok(value)
    }

    /// From now on the stream has none.
    pub fn forget(&self, key: StreamKey) -> Option<Arc<T>> {
        self.of_streams.write().remove(&key)
    }

    /// The stream is about to be destroyed, or its thread has ended: its value waits for another. Returns it if enough
    /// others do, or if the stream's last work cannot be told.
    pub fn release(&self, device: &Device, key: StreamKey) -> Option<T> {
        // What is being used right now would be used for a dead stream.
        let value = Arc::into_inner(self.forget(key)?)?;
        let mut idle = self.idle.lock();
        let last_work = if key.is_per_thread() {
            None
        } else if idle.len() < self.most_idle {
            match RawEvent::record(device.hip(), key.raw()) {
                Ok(event) => Some(event),
                Err(_) => return Some(value),
            }
        } else {
            return Some(value);
        };
        idle.push(Idle { value, last_work });
        None
    }
}

thread_local! {
    /// What is to be done when this thread ends.
    static ENDS: Ends = const { Ends(RefCell::new(Vec::new())) };
}

struct Ends(RefCell<Vec<Box<dyn FnOnce()>>>);

fn at_thread_end(end: impl FnOnce() + 'static) {
    // Where the thread is already ending, its values stay with it.
    let _ = ENDS.try_with(|ends| ends.0.borrow_mut().push(Box::new(end)));
}

impl Drop for Ends {
    fn drop(&mut self) {
        for end in self.0.get_mut().drain(..) {
            end();
        }
    }
}
