//! Events: what threads of the host sleep on until a queue or another thread sets it.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::abi::{EventData, FOREVER, SIGNAL_EVENT};

/// Most events of a process, as of the kernel's driver (`KFD_SIGNAL_EVENT_LIMIT`).
pub const MOST: usize = 4096;

/// One event.
#[derive(Clone, Copy, Debug)]
struct Event {
    kind: u32,
    auto_reset: bool,
    is_set: bool,
    /// How often it was set, from 1 on. Who says which age it has seen is not kept waiting for one that came since.
    age: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The events came.
    Complete,
    /// The time was over.
    TimedOut,
    /// One of the events does not exist.
    Unknown,
}

/// The events of the process.
#[derive(Default)]
pub struct Events {
    /// By number, less one.
    events: Mutex<Vec<Option<Event>>>,
    changed: Condvar,
}

impl Events {
    /// A new event's number; `None` if there are too many.
    pub fn create(&self, kind: u32, auto_reset: bool) -> Option<u32> {
        let mut events = self.events.lock();
        let free = events.iter().position(Option::is_none);
        let place = free.unwrap_or(events.len());
        if place >= MOST {
            return None;
        }
        let event = Event {
            kind,
            auto_reset,
            is_set: false,
            age: 1,
        };
        match free {
            Some(place) => events[place] = Some(event),
            None => events.push(Some(event)),
        }
        Some(place as u32 + 1)
    }

    /// End an event; false if there is no such one.
    pub fn destroy(&self, number: u32) -> bool {
        let mut events = self.events.lock();
        let event = place(number).and_then(|place| events.get_mut(place)?.take());
        self.changed.notify_all();
        event.is_some()
    }

    /// Set an event that is a signal; false if there is no such one.
    pub fn set(&self, number: u32) -> bool {
        self.change(number, |event| {
            event.is_set = true;
            event.age += 1;
        })
    }

    /// Reset an event; false if there is no such one.
    pub fn reset(&self, number: u32) -> bool {
        self.change(number, |event| event.is_set = false)
    }

    fn change(&self, number: u32, change: impl FnOnce(&mut Event)) -> bool {
        let mut events = self.events.lock();
        let event = place(number).and_then(|place| events.get_mut(place)?.as_mut());
        let signal = event.filter(|event| event.kind == SIGNAL_EVENT);
        let found = signal.map(change).is_some();
        self.changed.notify_all();
        found
    }

    /// Wait for one of these, or for all, at most so many milliseconds. Ages are read and written.
    pub fn wait(&self, wanted: &mut [EventData], all: bool, milliseconds: u32) -> Waited {
        let patience = Duration::from_millis(milliseconds.into());
        let until = (milliseconds != FOREVER).then(|| Instant::now() + patience);
        let mut events = self.events.lock();
        // Several may wait for an event that resets itself: each sees that it was set since it came.
        let mut begun = Vec::with_capacity(wanted.len());
        for data in wanted.iter() {
            match find(&events, data.event) {
                Some(event) => begun.push(event.age),
                None => return Waited::Unknown,
            }
        }
        loop {
            let mut came = 0;
            for (data, begun) in wanted.iter().zip(&begun) {
                let Some(event) = find(&events, data.event) else {
                    return Waited::Unknown;
                };
                let seen = data.data[0];
                let signal = event.kind == SIGNAL_EVENT;
                let since = event.age != *begun || seen != 0 && seen != event.age;
                came += usize::from(signal && (event.is_set || since));
            }
            if came == wanted.len() || came > 0 && !all {
                break;
            }
            match until {
                None => self.changed.wait(&mut events),
                Some(until) if self.changed.wait_until(&mut events, until).timed_out() => {
                    return Waited::TimedOut;
                }
                Some(_) => {}
            }
        }
        for data in wanted {
            let place = place(data.event);
            let event = place.and_then(|place| events.get_mut(place)?.as_mut());
            let Some(event) = event.filter(|event| event.kind == SIGNAL_EVENT) else {
                continue;
            };
            data.data[0] = event.age;
            event.is_set &= !event.auto_reset;
        }
        Waited::Complete
    }
}

fn place(number: u32) -> Option<usize> {
    (number as usize).checked_sub(1)
}

fn find(events: &[Option<Event>], number: u32) -> Option<Event> {
    *events.get(place(number)?)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn data(event: u32, age: u64) -> EventData {
        EventData {
            data: [age, 0, 0, 0],
            extension: 0,
            event,
            pad: 0,
        }
    }

    #[test]
    fn an_event_wakes_who_waits() {
        let events = Arc::new(Events::default());
        let event = events.create(SIGNAL_EVENT, true).unwrap();
        let other = events.clone();
        let thread = std::thread::spawn(move || other.wait(&mut [data(event, 1)], true, FOREVER));
        assert!(events.set(event));
        assert_eq!(thread.join().unwrap(), Waited::Complete);
        // It has reset itself, and who has seen its age waits again.
        assert_eq!(
            events.wait(&mut [data(event, 2)], true, 1),
            Waited::TimedOut
        );
        // Who has not does not.
        let mut late = [data(event, 1)];
        assert_eq!(events.wait(&mut late, true, FOREVER), Waited::Complete);
        assert_eq!(late[0].data[0], 2);
    }

    #[test]
    fn one_or_all_are_waited_for() {
        let events = Events::default();
        let [first, second] = [false, false].map(|auto| events.create(SIGNAL_EVENT, auto).unwrap());
        assert!(events.set(second));
        let mut both = [data(first, 0), data(second, 0)];
        assert_eq!(events.wait(&mut both, false, 0), Waited::Complete);
        assert_eq!(events.wait(&mut both, true, 1), Waited::TimedOut);
        assert!(events.reset(second));
        let mut both = [data(first, 0), data(second, 0)];
        assert_eq!(events.wait(&mut both, false, 1), Waited::TimedOut);
    }

    #[test]
    fn numbers_are_used_again_and_checked() {
        let events = Events::default();
        let first = events.create(SIGNAL_EVENT, false).unwrap();
        let system = events.create(8, false).unwrap();
        assert!(!events.set(system), "the host sets signals alone");
        assert!(events.destroy(first) && !events.destroy(first) && !events.set(first));
        assert_eq!(events.wait(&mut [data(first, 0)], true, 0), Waited::Unknown);
        assert_eq!(events.create(SIGNAL_EVENT, false), Some(first));
        while events.create(SIGNAL_EVENT, false).is_some() {}
        assert_eq!(events.events.lock().len(), MOST);
    }
}
