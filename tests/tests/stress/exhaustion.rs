//! Memory that runs out: the error says what is needed and what there is, and the same program then succeeds.

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_testing::process;

use super::amount::{alone, amount, is_emulated};
use super::inputs::{floats, many_numbers};

/// What the emulated GPU has in this test, in bytes.
const EMULATED_MEMORY: usize = 64 << 20;

/// The program that must still work afterwards.
fn program(device: &Device) -> Result<Vec<f64>> {
    let x = many_numbers(DType::F32, 7, 48 * 64)?
        .reshape((48, 64))?
        .to_device(device)?;
    let product = x.matmul(&x.t()?)?;
    floats(&candle_nn::ops::softmax(&product, 1)?)
}

/// Blocks until the GPU has no more, and the error at the end.
fn fill(device: &Device, block: usize) -> Result<(Vec<Tensor>, String)> {
    let mut blocks = Vec::new();
    loop {
        match Tensor::full(blocks.len() as u32, block / 4, device) {
            Ok(tensor) => blocks.push(tensor),
            Err(error) => return Ok((blocks, error.to_string())),
        }
        ensure!(blocks.len() < 100_000, "the GPU's memory never ends");
    }
}

fn check_message(error: &str, bytes: usize) -> Result<()> {
    for part in [
        "out of device memory".to_string(),
        format!("{bytes} bytes asked for"),
        "in use".to_string(),
        "bytes free of".to_string(),
        // What to do.
        "drop tensors".to_string(),
    ] {
        ensure!(error.contains(&part), "the error lacks \"{part}\": {error}");
    }
    Ok(())
}

#[test]
#[ignore = "the process that runs out, for running_out_is_an_error_and_recovers"]
fn the_process() -> Result<()> {
    let device = candle_rocm_tests::device()?;
    let gpu = device.as_rocm_device()?;
    let before = program(&device)?;
    // A sixty-fourth of it all, so that a few blocks remain when it ends.
    let (_, total) = gpu.memory()?;
    let block = (total / 64).next_multiple_of(1 << 20);
    for round in 0..amount(3, 2)? {
        // Another thread goes on meanwhile: each of its programs works, or says that there is no memory.
        let (done, stop) = (
            std::sync::atomic::AtomicUsize::new(0),
            std::sync::atomic::AtomicBool::new(false),
        );
        let (blocks, error) = std::thread::scope(|scope| {
            use std::sync::atomic::Ordering::SeqCst;
            let other = scope.spawn(|| -> Result<()> {
                while !stop.load(SeqCst) {
                    match program(&device) {
                        Ok(values) => {
                            ensure!(values == before, "other numbers while memory is short")
                        }
                        Err(error) => {
                            let error = format!("{error:#}");
                            ensure!(error.contains("out of device memory"), "{error}");
                        }
                    }
                    done.fetch_add(1, SeqCst);
                }
                Ok(())
            });
            let filled = fill(&device, block);
            let after = done.load(SeqCst);
            // It runs at least once with the memory full.
            while done.load(SeqCst) < after + 2 && !other.is_finished() {
                std::thread::yield_now();
            }
            stop.store(true, SeqCst);
            other.join().expect("the thread returns its error")?;
            filled
        })?;
        check_message(&error, block).with_context(|| format!("round {round}"))?;
        ensure!(
            blocks.len() >= 32,
            "only {} blocks of {block} bytes fit into {total}",
            blocks.len()
        );
        // What there is stays right.
        for (i, tensor) in blocks.iter().enumerate() {
            let ends = [tensor.narrow(0, 0, 1)?, tensor.narrow(0, block / 4 - 1, 1)?];
            for end in ends {
                ensure!(
                    // Not the whole block, of which it is a part.
                    end.force_contiguous()?.to_vec1::<u32>()? == [i as u32],
                    "round {round}: block {i} changed"
                );
            }
        }
        // Every other block: free memory in pieces, until the cache is given back.
        let odd: Vec<Tensor> = blocks.into_iter().skip(1).step_by(2).collect();
        ensure!(program(&device)? == before, "round {round}: other numbers");
        drop(odd);
        // More than any piece: the pool returns what it caches and asks again.
        let half = Tensor::zeros(total / 2, DType::U8, &device)?;
        drop(half);
        ensure!(program(&device)? == before, "round {round}: other numbers");
    }
    // More than there is, and more than an address space.
    let error = Tensor::zeros(2 * total, DType::U8, &device)
        .err()
        .context("twice the memory was given out")?;
    check_message(&error.to_string(), 2 * total)?;
    let error = Tensor::zeros(usize::MAX / 4, DType::F64, &device)
        .err()
        .context("more than an address space was given out")?;
    ensure!(
        error.to_string().contains("address space"),
        "{error} says nothing of an address space"
    );
    ensure!(program(&device)? == before, "other numbers at the end");
    println!("RECOVERED");
    Ok(())
}

/// In a process of its own: the other tests' memory is not this one's to use up, and an emulated GPU is given little.
#[test]
fn running_out_is_an_error_and_recovers() -> Result<()> {
    let emulated = is_emulated()?;
    let _gpu = alone();
    // What this process caches would be missing there.
    candle_rocm_tests::device()?
        .as_rocm_device()?
        .release_cached_memory()?;
    let mut command = process::command_of("exhaustion::the_process");
    if emulated {
        command.env("ROCM_EMU_MEMORY", EMULATED_MEMORY.to_string());
    }
    let ended = process::run(&mut command, process::PATIENCE);
    ensure!(
        ended.end == process::PASSED && ended.stdout.contains("RECOVERED"),
        "{}",
        ended.text()
    );
    Ok(())
}
