//! Ranks as processes, each with an emulated GPU of its own.

use std::ffi::c_char;
use std::path::Path;
use std::time::{Duration, Instant};

use candle_rocm_runtime::communication::{Comm, Id, ReduceOp};
use candle_rocm_runtime::Context;
use candle_rocm_testing::needs;
use candle_rocm_testing::process::{self, command_of, End, Ended};

use crate::common::select;
use crate::exercise::{collectives, COUNTS};

/// What a rank is told.
const RANK: &str = "CANDLE_ROCM_TEST_RANK";
const WORLD: &str = "CANDLE_ROCM_TEST_WORLD";
const ID: &str = "CANDLE_ROCM_TEST_ID";
/// Which rank dies, and where.
const VICTIM: &str = "CANDLE_ROCM_TEST_VICTIM";
const POINT: &str = "CANDLE_ROCM_TEST_POINT";

/// How long the others may take to find out.
const LIMIT: Duration = Duration::from_secs(10);

fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str) -> usize {
    told(name).and_then(|text| text.parse().ok()).expect(name)
}

fn id_of(text: &str) -> Id {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap() as c_char;
    Id::uninit(std::array::from_fn(byte))
}

fn text_of(id: &Id) -> String {
    id.internal()
        .iter()
        .map(|byte| format!("{:02x}", *byte as u8))
        .collect()
}

/// Runs a rank's process for each, and gives how they ended.
fn run(world: usize, arch: &str, victim: Option<(usize, &str)>) -> Vec<Ended> {
    let id = Id::new().unwrap();
    let start = |rank: usize| {
        let mut command = command_of("processes::a_rank");
        command
            .env(RANK, rank.to_string())
            .env(WORLD, world.to_string())
            .env(ID, text_of(&id))
            .env("ROCM_EMU_ARCH", arch)
            .env("ROCM_EMU_MEMORY", "1GiB")
            .env("CANDLE_ROCM_COMM", "own")
            .env("CANDLE_ROCM_COMM_TIMEOUT", "5");
        if let Some((victim, point)) = victim {
            command.env(VICTIM, victim.to_string()).env(POINT, point);
        }
        std::thread::spawn(move || process::run(&mut command, Duration::from_secs(100)))
    };
    let threads: Vec<_> = (0..world).map(start).collect();
    let ended = threads.into_iter().map(|it| it.join().unwrap()).collect();
    let token: [u8; 16] = std::array::from_fn(|at| id.internal()[16 + at] as u8);
    let token = u128::from_le_bytes(token);
    let name = format!(
        "candle-rocm-{:016x}{:016x}",
        token as u64,
        (token >> 64) as u64
    );
    assert!(!Path::new("/dev/shm").join(name).exists(), "memory stays");
    ended
}

fn serves(arch: &str) -> bool {
    needs::serves(arch, candle_rocm_kernels::serves)
}

fn all_collectives(world: usize, arch: &str) {
    if !serves(arch) {
        return;
    }
    for ended in run(world, arch, None) {
        assert_eq!(ended.end, End::Code(0), "{}", ended.text());
    }
}

#[test]
fn two() {
    all_collectives(2, "gfx942");
}

#[test]
fn four() {
    all_collectives(4, "gfx1100");
}

/// Where rank 1 dies: before it comes, when it has come, between two collectives, as it waits in one, between messages.
const POINTS: [&str; 5] = ["before", "come", "between", "waiting", "message"];

#[test]
fn a_rank_that_is_killed_is_named_by_the_others() {
    if !serves("gfx1100") {
        return;
    }
    for point in POINTS {
        let ended = run(3, "gfx1100", Some((1, point)));
        for (rank, ended) in ended.iter().enumerate() {
            let expected = match rank {
                1 => End::Signal(9),
                _ => End::Code(0),
            };
            assert_eq!(ended.end, expected, "{point}: {}", ended.text());
        }
    }
}

fn die_at(point: &str) {
    if told(POINT).as_deref() == Some(point) && number(VICTIM) == number(RANK) {
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

/// The error that each rank but the victim must get, in time.
fn named(what: impl FnOnce() -> String) {
    let start = Instant::now();
    let message = what();
    assert!(start.elapsed() < LIMIT, "{:?}: {message}", start.elapsed());
    let victim = format!("rank {}", number(VICTIM));
    assert!(message.starts_with(&victim), "{message}");
}

fn until_it_fails(comm: &Comm) -> String {
    let stream = comm.stream();
    let mut x = stream.clone_htod(&[1f32; 1000]).unwrap();
    for turn in 0.. {
        if turn == 3 {
            die_at("between");
        }
        if turn == 3 && told(POINT).as_deref() == Some("waiting") {
            match comm.rank() {
                // Long after the others.
                2 => std::thread::sleep(Duration::from_millis(600)),
                1 => drop(std::thread::spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    die_at("waiting");
                })),
                _ => {}
            }
        }
        if let Err(error) = comm.all_reduce_in_place(&mut x, &ReduceOp::Max) {
            return error.message().to_owned();
        }
        if turn == 2 && told(POINT).as_deref() == Some("message") {
            die_at("message");
            return match comm.recv(&mut x, 1) {
                Err(error) => error.message().to_owned(),
                Ok(_) => panic!("a message of a rank that is no more"),
            };
        }
    }
    unreachable!("there is an error")
}

#[test]
#[ignore = "a rank, which other tests start"]
fn a_rank() {
    select();
    let (rank, world) = (number(RANK), number(WORLD));
    let id = id_of(&told(ID).expect(ID));
    let stream = Context::new(0).unwrap().new_stream().unwrap();
    die_at("before");
    let comm = Comm::from_rank(stream, rank, world, id);
    let Some(point) = told(POINT) else {
        let comm = comm.unwrap();
        assert_eq!(comm.provider(), "our kernels, through the host's memory");
        collectives::<f32>(&comm, &COUNTS);
        collectives::<half::f16>(&comm, &[77, 65_537]);
        collectives::<u8>(&comm, &[77]);
        // Nobody leaves before all have read what they wait for.
        return;
    };
    if point == "before" {
        return named(|| comm.unwrap_err().message().to_owned());
    }
    die_at("come");
    match comm {
        // One may have died before this one knew that all had come.
        Err(error) if point == "come" => named(|| error.message().to_owned()),
        comm => {
            let comm = comm.unwrap();
            named(|| until_it_fails(&comm));
        }
    }
}
