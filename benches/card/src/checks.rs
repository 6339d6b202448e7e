//! Graphs, events, streams, copies, memory, threads, processes: a check each.

use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{ensure, Context as _, Result};
use candle_core::cuda_backend::cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
use candle_core::{Device, Tensor};
use candle_rocm_backend::graph::{Input, Step};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_card_record::{Item, State};
use parity::recording::{hash_of, Array};

use crate::asked::Asked;
use crate::gpu::{self, gib};
use crate::job::Job;

/// What is checked.
pub fn jobs<'a>(device: &'a Device, asked: &'a Asked) -> Vec<Job<'a>> {
    let runs = if asked.short { 3 } else { 100 };
    vec![
        Job::new("graphs", move || graphs(device, runs)),
        Job::new("repeatable", move || repeatable(device, runs)),
        Job::new("events", move || events(device)),
        Job::new("streams", move || streams(device, asked, runs)),
        Job::new("copies", move || copies(device, asked)),
        Job::new("memory", move || memory(device, asked)),
        Job::new("threads", move || threads(asked)),
        Job::new("two processes", move || processes(asked)),
    ]
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
    Ok(numbers.into_iter().map(f32::to_bits).collect())
}

/// Some kernels of several kinds, one after another, on a square matrix.
fn chain(x: &Tensor) -> candle_core::Result<Tensor> {
    let mut x = x.clone();
    for _ in 0..4 {
        let scores = candle_nn::ops::softmax_last_dim(&x.matmul(&x.t()?)?)?;
        x = ((scores.matmul(&x)? + &x)?.tanh()? * 0.5)?;
    }
    Ok(x)
}

/// A square matrix whose elements depend on the seed.
fn square(device: &Device, size: usize, seed: u64) -> Result<Tensor> {
    let numbers = parity::numbers::Numbers::between(-1., 1., seed, size * size);
    let tensor = numbers.tensor(candle_core::DType::F32, &[size, size])?;
    Ok(tensor.to_device(device)?)
}

/// A graph whose input is set between launches computes what the same kernels compute one by one.
fn graphs(device: &Device, runs: u64) -> Result<Item> {
    if let Some(why) = gpu::why_graphs_are_off(device)? {
        return Ok(Item::new("", State::Note, why));
    }
    let input = Input::new(&square(device, 65, 0)?)?;
    let (_, step) = Step::capture(device, || chain(input.tensor()))?;
    let mut stale = 0;
    for seed in 1..=runs {
        let value = square(device, 65, seed)?;
        input.set(&value)?;
        let captured = bits(step.run()?)?;
        stale += u64::from(captured != bits(&chain(&value)?)?);
    }
    let kernels = step.enqueued().kernels.len();
    let line = format!("{stale} of {runs} launches of {kernels} kernels gave other numbers than the kernels one by one");
    Ok(Item::new("", State::of_check(stale == 0), line)
        .with("runs", runs)
        .with("kernels", kernels)
        .with("other", stale))
}

/// The same kernels on the same inputs give the same bits.
fn repeatable(device: &Device, runs: u64) -> Result<Item> {
    let x = square(device, 129, 1)?;
    let first = bits(&chain(&x)?)?;
    let mut other = 0;
    for _ in 0..runs {
        other += u64::from(bits(&chain(&x)?)? != first);
    }
    let line = format!("{other} of {runs} runs gave other bits than the first");
    Ok(Item::new("", State::of_check(other == 0), line)
        .with("runs", runs)
        .with("other", other))
}

/// Events' times are in order, and no longer than the host's.
fn events(device: &Device) -> Result<Item> {
    let stream = device.as_rocm_device()?.cuda_stream();
    let event = || stream.context().new_event(Some(CU_EVENT_DEFAULT));
    let (start, middle, end) = (event()?, event()?, event()?);
    let x = square(device, 129, 1)?;
    chain(&x)?;
    device.synchronize()?;
    let began = Instant::now();
    start.record(&stream)?;
    chain(&x)?;
    middle.record(&stream)?;
    chain(&x)?;
    end.record(&stream)?;
    end.synchronize()?;
    let host = began.elapsed().as_secs_f64() * 1e3;
    let [first, both] = [start.elapsed_ms(&middle)?, start.elapsed_ms(&end)?].map(f64::from);
    let line = format!(
        "{first:.3} ms to the first event, {both:.3} to the second, {host:.3} by the host's clock"
    );
    // The emulator runs work as it is enqueued, so that the host's clock has all of it there, too.
    let fits = first > 0. && both > first && both <= host * 1.05 + 0.1;
    Ok(Item::new("", State::of_check(fits), line)
        .with("first_ms", first)
        .with("both_ms", both)
        .with("host_ms", host))
}

/// A stream that waits for another's event sees what that wrote.
fn streams(device: &Device, asked: &Asked, runs: u64) -> Result<Item> {
    let ordinal = device.as_rocm_device()?.cuda_stream().context().ordinal();
    let other = Device::new_rocm_with_stream(ordinal)?;
    let size = if asked.short { 65 } else { 513 };
    let x = square(device, size, 3)?;
    let expected = bits(&(chain(&chain(&x)?)? * 2.)?)?;
    let (one, two) = (
        device.as_rocm_device()?.cuda_stream(),
        other.as_rocm_device()?.cuda_stream(),
    );
    let mut wrong = 0;
    for _ in 0..runs {
        let first = chain(&chain(&x)?)?;
        let event = one.record_event(None)?;
        two.wait(&event)?;
        // Copied and doubled on the other stream.
        let doubled = (first.to_device(&other)? * 2.)?;
        other.synchronize()?;
        wrong += u64::from(bits(&doubled)? != expected);
    }
    let line =
        format!("{wrong} of {runs} times a stream that waited for another read something else");
    Ok(Item::new("", State::of_check(wrong == 0), line)
        .with("runs", runs)
        .with("wrong", wrong))
}

/// Bytes come back from the GPU as they went there, of odd numbers of them too.
fn copies(device: &Device, asked: &Asked) -> Result<Item> {
    let most = if asked.short { 1 << 20 } else { 256 << 20 };
    let mut random = candle_rocm_testing::random::Random::new(5);
    let block: Vec<u8> = (0..4099).map(|_| random.bits() as u8).collect();
    let mut sizes = vec![1, 3, 4097, 65_537];
    sizes.extend([most - 1, most]);
    let mut wrong = Vec::new();
    for &size in &sizes {
        let bytes: Vec<u8> = block.iter().copied().cycle().take(size).collect();
        let there = Tensor::from_slice(&bytes, size, device)?.copy()?;
        if there.to_vec1::<u8>()? != bytes {
            wrong.push(size);
        }
    }
    let line = match wrong.first() {
        None => format!(
            "to the GPU, on it and back: all of {} sizes up to {most} bytes are as they were",
            sizes.len()
        ),
        Some(size) => format!("{size} bytes came back otherwise than they went"),
    };
    Ok(Item::new("", State::of_check(wrong.is_empty()), line)
        .with("bytes", most)
        .with("wrong", wrong))
}

/// Most of the free memory holds what is written to it, and is given back.
fn memory(device: &Device, asked: &Asked) -> Result<Item> {
    let gpu = device.as_rocm_device()?;
    gpu.release_cached_memory()?;
    let (free, total) = gpu.memory()?;
    // What other programs may need in the meantime stays.
    let wanted = if asked.short { 8 << 20 } else { free / 10 * 8 };
    let each = (wanted / 8).min(4 << 30) & !3;
    let count = (wanted / each.max(4)).max(1);
    let mut blocks = Vec::new();
    for number in 0..count {
        blocks.push(Tensor::full(number as u32 + 1, each / 4, device)?);
    }
    let mut wrong = 0;
    for (number, block) in blocks.iter().enumerate() {
        let expected = number as u32 + 1;
        let [least, most] = [block.min(0)?, block.max(0)?].map(|x| x.to_scalar::<u32>());
        wrong += usize::from([least?, most?] != [expected; 2]);
    }
    drop(blocks);
    gpu.release_cached_memory()?;
    let (after, _) = gpu.memory()?;
    let lost = free.saturating_sub(after);
    let line = format!(
        "{:.2} of {:.2} GiB written and read, {wrong} of {count} blocks wrong; {:.3} GiB not given back",
        gib(each * count),
        gib(total),
        gib(lost)
    );
    // Code and the runtime's own memory stay; a block may not.
    let is_well = wrong == 0 && lost < (each / 2).max(256 << 20);
    Ok(Item::new("", State::of_check(is_well), line)
        .with("bytes", each * count)
        .with("wrong", wrong)
        .with("lost", lost))
}

/// Threads, each with a stream of its own, compute what one computes.
fn threads(asked: &Asked) -> Result<Item> {
    const THREADS: u64 = 8;
    let device = gpu::open(asked)?;
    let ordinal = device.as_rocm_device()?.cuda_stream().context().ordinal();
    let rounds = if asked.short { 2 } else { 50 };
    let expected: Vec<Vec<u32>> = (0..THREADS)
        .map(|seed| bits(&chain(&square(&device, 65, seed)?)?))
        .collect::<Result<_>>()?;
    let work = |seed: u64| -> Result<usize> {
        let device = Device::new_rocm_with_stream(ordinal)?;
        let x = square(&device, 65, seed)?;
        let mut wrong = 0;
        for _ in 0..rounds {
            wrong += usize::from(bits(&chain(&x)?)? != expected[seed as usize]);
        }
        Ok(wrong)
    };
    let wrong: Vec<Result<usize>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| scope.spawn(move || work(seed)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
            .collect()
    });
    let wrong: usize = wrong.into_iter().sum::<Result<usize>>()?;
    let all = THREADS as usize * rounds;
    let line =
        format!("{wrong} of {all} results of {THREADS} threads are others than one thread's");
    Ok(Item::new("", State::of_check(wrong == 0), line)
        .with("threads", THREADS)
        .with("wrong", wrong))
}

/// Two processes at once compute what one computes.
fn processes(asked: &Asked) -> Result<Item> {
    let start = || -> Result<Child> {
        let mut command = asked.program(&["digest"])?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().context("starting a process")
    };
    let expected = digest(asked)?;
    let children = [start(), start()];
    let mut wrong = 0;
    for child in children {
        let output = child?.wait_with_output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "a process ended: {}: {}",
            output.status,
            told.trim()
        );
        wrong += usize::from(String::from_utf8_lossy(&output.stdout).trim() != expected);
    }
    let line = format!("{wrong} of 2 processes at once gave other numbers than this one");
    Ok(Item::new("", State::of_check(wrong == 0), line).with("wrong", wrong))
}

/// A number made of the bits of many results, for one process to compare with another's.
///
/// # Errors
/// There is no GPU; Candle's.
pub fn digest(asked: &Asked) -> Result<String> {
    let device = gpu::open(asked)?;
    let mut results = Vec::new();
    for seed in 0..4 {
        results.push(Array::of(&chain(&square(&device, 129, seed)?)?)?);
    }
    Ok(format!("{:016x}", hash_of(&results)))
}
