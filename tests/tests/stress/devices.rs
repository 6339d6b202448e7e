//! Tensors that move between threads, streams and Candle devices of one GPU.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

use anyhow::{Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::DeviceExt as _;

use super::amount::{amount, is_emulated, shared};
use super::inputs::{integers, Random};

/// A tensor all of whose elements are `value`.
struct Message {
    tensor: Tensor,
    value: i64,
}

fn ensure_all(tensor: &Tensor, value: i64, what: &str) -> Result<()> {
    let found = integers(&tensor.to_dtype(DType::I64)?)?;
    if let Some(at) = found.iter().position(|&found| found != value) {
        anyhow::bail!(
            "{what}: element {at} of {} is {}, not {value}",
            found.len(),
            found[at]
        );
    }
    Ok(())
}

/// A thread with a device: makes tensors, computes with them, sends them to the next thread.
fn talk(
    number: usize,
    devices: &[Device],
    rounds: usize,
    largest: usize,
    next: SyncSender<Message>,
    previous: &Receiver<Message>,
) -> Result<()> {
    let mut random = Random::new(100 + number as u64);
    let mut kept: Vec<Message> = Vec::new();
    for round in 0..rounds {
        let own = &devices[number % devices.len()];
        let most = 1 << random.below(largest.ilog2() as usize + 1);
        let size = 1 + random.below(most);
        // f32 holds such integers exactly.
        let value = (number * 10_000 + round % 10_000) as i64;
        let start = Tensor::full(value as f32, size, own)?;
        let tensor = start.affine(2.0, 6.0)?.affine(0.5, -3.0)?;
        kept.push(Message { tensor, value });
        // To any device, also to those that other threads use at this moment; what it was made from goes at once.
        let to = &devices[random.below(devices.len())];
        let at = random.below(kept.len());
        let Message { tensor, value } = kept.swap_remove(at);
        let moved = tensor.to_device(to)?;
        drop(tensor);
        let tensor = moved.affine(1.0, 1.0)?;
        drop(moved);
        let message = Message {
            tensor,
            value: value + 1,
        };
        match next.try_send(message) {
            Ok(()) => {}
            Err(std::sync::mpsc::TrySendError::Full(message))
            | Err(std::sync::mpsc::TrySendError::Disconnected(message)) => kept.push(message),
        }
        if let Ok(message) = previous.try_recv() {
            kept.push(message);
        }
        while kept.len() > 8 {
            let Message { tensor, value } = kept.swap_remove(random.below(kept.len()));
            ensure_all(&tensor, value, &format!("thread {number}, round {round}"))?;
        }
    }
    for Message { tensor, value } in kept {
        ensure_all(&tensor, value, &format!("thread {number}, at the end"))?;
    }
    Ok(())
}

/// Every thread with devices of all kinds: one with the thread's own stream, several with created streams.
#[test]
fn tensors_move_between_threads_and_devices() -> Result<()> {
    let _gpu = shared();
    let (threads, largest) = if is_emulated()? {
        (3, 1 << 11)
    } else {
        (12, 1 << 20)
    };
    let rounds = amount(1500, 400)?;
    let mut devices = vec![candle_rocm_tests::device()?];
    for _ in 1..threads {
        devices.push(Device::new_rocm_with_stream(0)?);
    }
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| sync_channel(4)).unzip();
    senders.rotate_left(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = senders
            .into_iter()
            .zip(receivers)
            .enumerate()
            .map(|(number, (next, previous))| {
                let devices = &devices;
                scope.spawn(move || talk(number, devices, rounds, largest, next, &previous))
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread returns its error"))
    })
}

/// One thread, two devices: from the default one, whose buffers nothing tracks while it has one stream.
#[test]
fn a_move_waits_for_what_it_moves() -> Result<()> {
    let _gpu = shared();
    let from = candle_rocm_tests::device()?;
    let to = Device::new_rocm_with_stream(0)?;
    let size = if is_emulated()? { 1 << 11 } else { 1 << 22 };
    for round in 0..amount(60, 20)? {
        let mut tensor = Tensor::full(0f32, size, &from)?;
        for _ in 0..20 {
            tensor = tensor.affine(1.0, 1.0)?;
        }
        let moved = tensor.to_device(&to)?;
        // The block is free, and most likely the next one given out on its stream.
        drop(tensor);
        let other = Tensor::full(-1f32, size, &from)?;
        let what = format!("round {round}");
        ensure_all(&moved, 20, &what).context("the moved tensor")?;
        ensure_all(&other, -1, &what).context("the one after it")?;
    }
    Ok(())
}
