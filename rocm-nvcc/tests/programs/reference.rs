//! What the programs should do, whoever compiles and runs them: what they are given, and what is found compared with plain
//! Rust.

/// What each thread reads, and what it writes.
pub type Words = [u32; 4];

/// What all threads of a launch know.
#[derive(Clone, Copy)]
pub struct Launch {
    /// Blocks.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
}

/// A thread's place.
#[derive(Clone, Copy)]
pub struct Place {
    /// The launch.
    pub launch: Launch,
    /// The thread in the grid.
    pub thread: u32,
}

impl Place {
    pub fn in_block(self) -> u32 {
        self.thread % self.launch.block
    }

    pub fn block(self) -> u32 {
        self.thread / self.launch.block
    }
}

/// What a program should write.
#[derive(Clone, Copy)]
pub enum Reference {
    /// Of a thread by itself.
    Thread(fn(Words) -> Words),
    /// Of a thread that knows its place.
    Placed(fn(Place, Words) -> Words),
    /// Floats, each within so much of its size.
    Near(f64, fn(Words) -> [f64; 4]),
    /// Of each lane of a warp, which has as many lanes as there are words.
    Warp(fn(&[Words]) -> Vec<Words>),
    /// Of each thread of a block.
    Block(fn(&[Words]) -> Vec<Words>),
    /// What lies in memory afterwards, which held [`memory`]'s words.
    Memory(fn(Launch, &[Words], &mut [u32])),
    /// Of a thread that also reads memory, which nobody writes.
    Reading(fn(&[u32], Words) -> Words),
}

/// A program's name in its file, and what it should do.
pub type Program = (&'static str, Reference);

const LAUNCHES: [Launch; 2] = [Launch { grid: 3, block: 40 }, Launch { grid: 2, block: 96 }];

/// What lies in memory that all threads have: zeros where programs sum, else numbers.
fn memory(reference: Reference) -> Vec<u32> {
    match reference {
        Reference::Memory(_) => vec![0; 64],
        _ => (0..64)
            .map(|i: u32| (i + 1).wrapping_mul(0x9e37_79b9))
            .collect(),
    }
}

/// Words of all kinds: any, small ones, and the edges of integers and floats.
fn inputs(count: u32) -> Vec<Words> {
    const EDGES: [u32; 16] = [
        0,
        1,
        0x8000_0000,
        0xffff_ffff,
        0x7fff_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0001,
        0x0000_0001,
        0x3f80_0000,
        0xbf80_0000,
        0x7c00_fc00,
        0x7fff_8000,
        0x4780_0000,
        0x0001_7bff,
        0x3380_0001,
    ];
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    (0..count)
        .map(|_| {
            std::array::from_fn(|_| {
                let word = next();
                match word % 4 {
                    0 => EDGES[(word >> 8) as usize % EDGES.len()],
                    // A float of ordinary size.
                    1 => ((word >> 8) as f32 / 65536.0 - 128.0).to_bits(),
                    _ => next(),
                }
            })
        })
        .collect()
}

/// A launch of a program: what it is given, and what it left.
pub struct Ran<'a> {
    /// The program's name.
    pub name: &'a str,
    /// How many threads.
    pub launch: Launch,
    /// Four words for each thread.
    pub input: &'a [u32],
    /// The same, which it writes.
    pub output: Vec<u32>,
    /// What all threads have.
    pub memory: Vec<u32>,
}

/// Launches each program as often as it should be, by `run`, which fills in what the launch left. Returns how many did what
/// they should, and of the others what differs.
pub fn check(
    programs: &[Program],
    on: &str,
    mut run: impl FnMut(&mut Ran<'_>),
) -> (usize, Vec<String>) {
    let (mut agree, mut failures) = (0, Vec::new());
    for &(name, reference) in programs {
        for launch in LAUNCHES {
            let input = inputs(launch.grid * launch.block);
            let words: Vec<u32> = input.iter().flatten().copied().collect();
            let mut ran = Ran {
                name,
                launch,
                input: &words,
                output: vec![0xdead_beef; words.len()],
                memory: memory(reference),
            };
            run(&mut ran);
            let found = ran.output.chunks(4);
            let found: Vec<Words> = found.map(|words| words.try_into().expect("four")).collect();
            match compare(launch, reference, &input, &found, &ran.memory) {
                Ok(()) => agree += 1,
                Err(why) => {
                    failures.push(format!("{name} on {on}, blocks of {}: {why}", launch.block));
                }
            }
        }
    }
    (agree, failures)
}

/// What differs first, in words.
fn compare(
    launch: Launch,
    reference: Reference,
    input: &[Words],
    found: &[Words],
    memory_after: &[u32],
) -> Result<(), String> {
    let block = launch.block as usize;
    let expected: Vec<Words> = match reference {
        Reference::Thread(of) => input.iter().map(|words| of(*words)).collect(),
        Reference::Placed(of) => (0..)
            .zip(input)
            .map(|(thread, words)| of(Place { launch, thread }, *words))
            .collect(),
        Reference::Warp(of) => input
            .chunks(block)
            .flat_map(|block| block.chunks(32).flat_map(of))
            .collect(),
        Reference::Block(of) => input.chunks(block).flat_map(of).collect(),
        Reference::Reading(of) => {
            let memory = memory(reference);
            input.iter().map(|words| of(&memory, *words)).collect()
        }
        Reference::Memory(of) => {
            let mut expected = memory(reference);
            of(launch, input, &mut expected);
            return match expected == memory_after {
                true => Ok(()),
                false => Err(format!("memory is {memory_after:x?}, not {expected:x?}")),
            };
        }
        Reference::Near(tolerance, of) => {
            for (thread, (words, found)) in input.iter().zip(found).enumerate() {
                for (at, (expected, found)) in of(*words).into_iter().zip(found).enumerate() {
                    let found = f64::from(f32::from_bits(*found));
                    let near = (found - expected).abs() <= tolerance * expected.abs().max(0.25);
                    if !near {
                        return Err(format!(
                            "thread {thread}, result {at}: {found}, not {expected}, of {words:x?}"
                        ));
                    }
                }
            }
            return Ok(());
        }
    };
    let lengths = (expected.len(), found.len());
    assert_eq!(lengths.0, lengths.1, "the reference's results");
    let differs = (0..found.len()).find(|&thread| expected[thread] != found[thread]);
    differs.map_or(Ok(()), |thread| {
        let (found, expected, of) = (found[thread], expected[thread], input[thread]);
        Err(format!(
            "thread {thread}: {found:x?}, not {expected:x?}, of {of:x?}"
        ))
    })
}

/// The bits of a number, of NaN always the same.
pub fn word(x: f32) -> u32 {
    if x.is_nan() {
        0x7fc0_0000
    } else {
        x.to_bits()
    }
}

/// Results of each lane from the lanes' words and one's place among them.
pub fn lanes(words: &[Words], of: impl Fn(usize) -> Words) -> Vec<Words> {
    (0..words.len()).map(of).collect()
}

/// A bit for each lane for which it holds.
pub fn ballot(words: &[Words], of: impl Fn(&Words) -> bool) -> u32 {
    (0..)
        .zip(words)
        .map(|(lane, words)| u32::from(of(words)) << lane)
        .sum()
}

/// The bits of so many lanes.
pub fn mask(count: usize) -> u32 {
    (u64::pow(2, count as u32) - 1) as u32
}
