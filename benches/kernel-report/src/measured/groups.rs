//! Launches of the same kernel in the same way, together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::records::{Count, Launch, Resources};

/// Launches that are one row of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The kernel's name.
    pub kernel: String,
    /// Workgroups along x, y and z.
    pub grid: [u64; 3],
    /// Work-items of a workgroup along x, y and z.
    pub workgroup: [u64; 3],
    /// What the kernel takes.
    pub resources: Resources,
}

/// How long launches ran, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Each launch whose time is known, in order of size.
    sorted: Vec<u64>,
    /// Launches that ended before they began.
    pub reversed: usize,
}

impl Times {
    /// Times of launches; `None` for one that ended before it began.
    fn of(times: impl Iterator<Item = Option<u64>>) -> Times {
        let mut of = Times::default();
        for time in times {
            match time {
                Some(time) => of.sorted.push(time),
                None => of.reversed += 1,
            }
        }
        of.sorted.sort_unstable();
        of
    }

    /// Launches whose time is known.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.sorted.iter().sum()
    }

    /// The mean; 0 of none.
    pub fn mean(&self) -> f64 {
        self.total() as f64 / self.count().max(1) as f64
    }

    /// The shortest; 0 of none.
    pub fn least(&self) -> f64 {
        self.sorted.first().map_or(0.0, |&least| least as f64)
    }

    /// As many are shorter as are longer: the mean of two in the middle where the number is even. `None` of none.
    pub fn median(&self) -> Option<f64> {
        let (&low, &high) = (
            self.sorted.get(self.count().saturating_sub(1) / 2)?,
            self.sorted.get(self.count() / 2)?,
        );
        Some((low + high) as f64 / 2.0)
    }
}

/// Launches by shape, those that took the longest together first.
pub fn by_shape<'a>(launches: impl Iterator<Item = &'a Launch>) -> Vec<(Shape, Times)> {
    let mut times: BTreeMap<Shape, Vec<Option<u64>>> = BTreeMap::new();
    for launch in launches {
        let shape = Shape {
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            workgroup: launch.workgroup,
            resources: launch.resources,
        };
        times.entry(shape).or_default().push(launch.nanoseconds);
    }
    let times = times.into_iter();
    let mut rows: Vec<_> = times
        .map(|(shape, times)| (shape, Times::of(times.into_iter())))
        .collect();
    rows.sort_by_key(|(_, times)| std::cmp::Reverse(times.total()));
    rows
}

/// Launches as counters tell of them: of the grid only the size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// The kernel's name.
    pub kernel: String,
    /// Work-items of the grid.
    pub items: u64,
    /// Work-items of a workgroup.
    pub workgroup: u64,
}

impl Size {
    fn of(launch: &Launch) -> Size {
        let workgroup = launch.workgroup.iter().product::<u64>();
        Size {
            kernel: launch.kernel.clone(),
            items: launch.grid.iter().product::<u64>() * workgroup,
            workgroup,
        }
    }
}

/// What counters say of launches of one size.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By counter, a value of each launch that has one.
    values: BTreeMap<String, Vec<f64>>,
    /// How long the launches ran: of a trace where there is one, else while they were counted.
    pub times: Times,
    /// Launches that were counted.
    pub launches: usize,
}

impl Counters {
    /// The mean of a counter's values; `None` if there are none.
    pub fn mean(&self, counter: &str) -> Option<f64> {
        let values = self.values.get(counter)?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// Counters of a GPU.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// By size of the launch, those that took the longest together first.
    pub rows: Vec<(Size, Counters)>,
    /// Counters that are 0 in every launch of every kernel.
    pub zero: BTreeSet<String>,
    /// Values that are no numbers.
    pub no_numbers: usize,
}

/// One launch while it was counted.
#[derive(Default)]
struct CountedLaunch {
    values: BTreeMap<String, f64>,
    nanoseconds: Option<u64>,
}

impl Counted {
    /// Counters of launches, beside the times of a trace.
    pub fn of<'a>(
        counts: impl Iterator<Item = &'a Count>,
        launches: impl Iterator<Item = &'a Launch>,
    ) -> Counted {
        let mut counted = Counted::default();
        type Launches = BTreeMap<(PathBuf, String, u64), CountedLaunch>;
        let mut sizes: BTreeMap<Size, Launches> = BTreeMap::new();
        for count in counts {
            if !count.value.is_finite() {
                counted.no_numbers += 1;
                continue;
            }
            let size = Size {
                kernel: count.kernel.clone(),
                items: count.items,
                workgroup: count.workgroup,
            };
            let launch = sizes.entry(size).or_default();
            let launch = launch.entry(count.launch.clone()).or_default();
            // Some releases have a row for each part of the GPU.
            *launch.values.entry(count.counter.clone()).or_default() += count.value;
            launch.nanoseconds = count.nanoseconds;
        }
        let mut traced: BTreeMap<Size, Vec<Option<u64>>> = BTreeMap::new();
        for launch in launches {
            let times = traced.entry(Size::of(launch)).or_default();
            times.push(launch.nanoseconds);
        }
        for (size, launches) in sizes {
            let own = launches.values().map(|launch| launch.nanoseconds);
            let times = match traced.remove(&size) {
                Some(times) => Times::of(times.into_iter()),
                None => Times::of(own),
            };
            let mut counters = Counters {
                times,
                launches: launches.len(),
                ..Counters::default()
            };
            for launch in launches.into_values() {
                for (counter, value) in launch.values {
                    counters.values.entry(counter).or_default().push(value);
                }
            }
            counted.rows.push((size, counters));
        }
        counted.zero = counted.zeros();
        let total = |counters: &Counters| counters.times.total();
        let rows = &mut counted.rows;
        rows.sort_by_key(|(_, counters)| std::cmp::Reverse(total(counters)));
        counted
    }

    fn zeros(&self) -> BTreeSet<String> {
        let all = || self.rows.iter().flat_map(|(_, counters)| &counters.values);
        let named = all().map(|(counter, _)| counter.clone());
        let moves = |(_, values): &(&String, &Vec<f64>)| values.iter().any(|&value| value != 0.0);
        let moving: BTreeSet<&String> = all().filter(moves).map(|(counter, _)| counter).collect();
        named.filter(|counter| !moving.contains(counter)).collect()
    }
}
