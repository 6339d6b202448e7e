//! Plans that were made before, by GPU and problem: the second launch of a problem plans nothing.
//!
//! What a plan depends on is in its key, or stays as it is for the whole process: the GPU, the environment, the library that was
//! loaded, the winners of timings. A family has a static [`PlanCache`] of its own, declared by [`plan_cache`](crate::plan_cache).

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;
use std::thread::LocalKey;

use foldhash::fast::{FixedState, RandomState};
use parking_lot::RwLock;

use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;

/// Most problems of a family that plans are kept of on a GPU: a context that grows has products of new shapes for each token.
const MOST: usize = 1024;
/// Plans that a thread finds without a lock, each in the one place that its key has: a model has less than twenty problems.
const RECENT: usize = 64;

/// The plans of one family.
pub struct PlanCache<K: 'static, P: 'static> {
    of_devices: PerDevice<Kept<K, P>>,
    recent: &'static LocalKey<Recent<K, P>>,
}

/// Declares a [`PlanCache`]: `plan_cache!(static NAME: Key => Plan);`.
#[macro_export]
macro_rules! plan_cache {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $key:ty => $plan:ty) => {
        $(#[$attribute])*
        $visibility static $name: $crate::plan::cache::PlanCache<$key, $plan> = {
            ::std::thread_local! {
                static RECENT: $crate::plan::cache::Recent<$key, $plan> =
                    const { $crate::plan::cache::Recent::new() };
            }
            $crate::plan::cache::PlanCache::new(&RECENT)
        };
    };
}

impl<K: Copy + Eq + Hash, P> PlanCache<K, P> {
    /// With no plans yet, and where threads have those that they used last.
    pub const fn new(recent: &'static LocalKey<Recent<K, P>>) -> Self {
        Self {
            of_devices: PerDevice::new(),
            recent,
        }
    }

    /// The plan that is kept for this key on this GPU.
    #[inline]
    pub fn get(&self, device: &Device, key: &K) -> Option<Found<K, P>> {
        let place = place_of(key);
        let of_thread = self
            .recent
            .try_with(|recent| recent.take(place, device.ordinal(), key));
        if let Ok(Some(plan)) = of_thread {
            return Some(Found {
                plan: Some(plan),
                from: Some((self.recent, place)),
            });
        }
        self.get_shared(device, key, place)
    }

    #[inline(never)]
    fn get_shared(&self, device: &Device, key: &K, place: usize) -> Option<Found<K, P>> {
        let plan = self.of_devices.get(device)?.get(key)?;
        // A thread whose variables are gone has no places.
        let _ = self
            .recent
            .try_with(|recent| recent.put(place, device.ordinal(), key, &plan));
        Some(Found::alone(plan))
    }

    /// The plan that is kept, or the one that `make` makes, which is then kept.
    ///
    /// # Errors
    /// Those of `make`.
    #[inline]
    pub fn get_or_make<E>(
        &self,
        device: &Device,
        key: &K,
        make: impl FnOnce() -> Result<P, E>,
    ) -> Result<Found<K, P>, E> {
        match self.get(device, key) {
            Some(found) => Ok(found),
            None => Ok(self.keep(device, *key, make()?)),
        }
    }

    /// Keeps a plan, unless another thread was first. Where there are too many, the others go, and those still in use come back
    /// one by one.
    pub fn keep(&self, device: &Device, key: K, plan: P) -> Found<K, P> {
        let kept = self.of_devices.get_or_init(device, Kept::default);
        Found::alone(kept.keep(key, plan))
    }
}

/// Which of a thread's places a key has.
#[inline]
fn place_of(key: &impl Hash) -> usize {
    FixedState::default().hash_one(key) as usize % RECENT
}

/// A plan in use.
pub struct Found<K: 'static, P: 'static> {
    /// There until this is dropped.
    plan: Option<Arc<P>>,
    /// Where it was taken from, and goes back to.
    from: Option<(&'static LocalKey<Recent<K, P>>, usize)>,
}

impl<K, P> Found<K, P> {
    /// One that no thread has at hand.
    pub fn alone(plan: impl Into<Arc<P>>) -> Self {
        Self {
            plan: Some(plan.into()),
            from: None,
        }
    }
}

impl<K, P> Deref for Found<K, P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        match &self.plan {
            Some(plan) => plan,
            None => unreachable!("a plan is taken when it is dropped"),
        }
    }
}

impl<K, P> Drop for Found<K, P> {
    #[inline]
    fn drop(&mut self) {
        if let (Some((recent, place)), Some(plan)) = (self.from, self.plan.take()) {
            // A thread whose variables are gone has no places.
            let _ = recent.try_with(|recent| recent.put_back(place, plan));
        }
    }
}

/// The plans that a thread used last.
pub struct Recent<K, P>(RefCell<[Option<Place<K, P>>; RECENT]>);

struct Place<K, P> {
    ordinal: usize,
    key: K,
    /// None while it is in use: taking it and putting it back counts no references.
    plan: Option<Arc<P>>,
}

impl<K: Copy + Eq, P> Recent<K, P> {
    #[inline]
    fn take(&self, place: usize, ordinal: usize, key: &K) -> Option<Arc<P>> {
        match &mut self.0.borrow_mut()[place] {
            Some(found) if found.key == *key && found.ordinal == ordinal => found.plan.take(),
            _ => None,
        }
    }

    /// Puts a plan in a place, unless the one that is there is in use.
    fn put(&self, place: usize, ordinal: usize, key: &K, plan: &Arc<P>) {
        let slot = &mut self.0.borrow_mut()[place];
        if slot.as_ref().is_none_or(|there| there.plan.is_some()) {
            *slot = Some(Place {
                ordinal,
                key: *key,
                plan: Some(plan.clone()),
            });
        }
    }
}

impl<K, P> Recent<K, P> {
    /// With no plans yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(RefCell::new([const { None }; RECENT]))
    }

    #[inline]
    fn put_back(&self, place: usize, plan: Arc<P>) {
        if let Some(there) = &mut self.0.borrow_mut()[place] {
            there.plan = Some(plan);
        }
    }
}

/// What is kept of one GPU's problems, at most so many of them.
struct Kept<K, P> {
    of_keys: RwLock<HashMap<K, Arc<P>, RandomState>>,
}

impl<K, P> Default for Kept<K, P> {
    fn default() -> Self {
        Self {
            of_keys: RwLock::default(),
        }
    }
}

impl<K: Eq + Hash, P> Kept<K, P> {
    fn get(&self, key: &K) -> Option<Arc<P>> {
        self.of_keys.read().get(key).cloned()
    }

    fn keep(&self, key: K, plan: P) -> Arc<P> {
        let mut of_keys = self.of_keys.write();
        if of_keys.len() >= MOST && !of_keys.contains_key(&key) {
            of_keys.clear();
        }
        of_keys.entry(key).or_insert_with(|| Arc::new(plan)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_kept() {
        let kept = Kept::default();
        for key in 1..=MOST {
            kept.keep(key, key);
        }
        assert_eq!(kept.get(&1).as_deref(), Some(&1));
        // The first to come is kept.
        assert_eq!(*kept.keep(1, 7), 1);
        let more = MOST + 1;
        kept.keep(more, more);
        assert_eq!(kept.get(&1), None);
        assert_eq!(kept.get(&more).as_deref(), Some(&more));
        assert!(kept.of_keys.read().len() <= MOST);
    }

    #[test]
    fn a_place_has_one_gpus_one_key_and_none_while_it_is_in_use() {
        let recent = Recent::new();
        let plan = Arc::new("plan");
        recent.put(3, 0, &1u64, &plan);
        for (place, ordinal, key) in [(2, 0, 1), (3, 1, 1), (3, 0, 2)] {
            assert_eq!(recent.take(place, ordinal, &key), None);
        }
        let taken = recent.take(3, 0, &1).unwrap();
        assert_eq!(recent.take(3, 0, &1), None);
        // Another key's plan does not take the place meanwhile, so that what comes back is the key's.
        recent.put(3, 0, &2, &Arc::new("other"));
        recent.put_back(3, taken);
        assert_eq!(recent.take(3, 0, &2), None);
        assert_eq!(recent.take(3, 0, &1).as_deref(), Some(&"plan"));
        recent.put_back(3, plan);
        recent.put(3, 0, &2, &Arc::new("other"));
        assert_eq!(recent.take(3, 0, &2).as_deref(), Some(&"other"));
    }

    #[cfg(feature = "emulator")]
    #[test]
    fn gpus_have_plans_of_their_own() {
        use crate::runtime::{self, RuntimeKind};

        plan_cache!(static NAMES: u64 => String);
        candle_rocm_testing::process::alone(
            "plan::cache::tests::gpus_have_plans_of_their_own",
            &[("ROCM_EMU_ARCH", "gfx90a,gfx1100")],
            || {
                runtime::select(RuntimeKind::Emulator).unwrap();
                let current = runtime::current().unwrap();
                let [one, other] = [0, 1].map(|ordinal| current.device(ordinal).unwrap());
                NAMES.keep(one, 1, "one".to_owned());
                assert!(NAMES.get(other, &1).is_none());
                NAMES.keep(other, 1, "other".to_owned());
                // From all threads' plans, and then from this one's.
                for _ in 0..3 {
                    assert_eq!(NAMES.get(one, &1).unwrap().as_str(), "one");
                    assert_eq!(NAMES.get(other, &1).unwrap().as_str(), "other");
                }
                // Two uses at a time.
                let [first, second] = [0; 2].map(|_| NAMES.get(one, &1).unwrap());
                assert_eq!((first.as_str(), second.as_str()), ("one", "one"));
            },
        );
    }
}
