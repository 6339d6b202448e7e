//! Random programs: thousands of operators on a pool of tensors, each result held to Candle's CPU backend.
//!
//! A program is made while it runs: [`make`] chooses the next operator from the shapes, dtypes and ranges of the tensors
//! that are alive, all of which the host knows without waiting. Nothing waits for the GPU until a batch is complete;
//! then every result is read back, and each operator is computed on the CPU in f64 (i64 for integers) *from the GPU's own
//! inputs*. Errors therefore never add up, tolerances are those of one operator, and yet the GPU runs ahead of the host.
//!
//! In that first run results are kept until they are compared. In the second run the same program frees each tensor
//! after its last use, on many threads and streams at once, and what is alive at the end must have the same bits.
//!
//! A failure prints the seed, the step, the operator and its inputs' shapes, strides and dtypes. Steps are compared in
//! order and each from inputs that were read back, so that the failing step is the end of the smallest failing prefix;
//! of that prefix the steps are listed that the failing one depends on, and whether the operator fails by itself.

mod make;
mod operators;

use std::collections::HashMap;

use anyhow::{bail, ensure, Context as _, Result};
use candle_core::{Device, Tensor};
use candle_rocm_backend::DeviceExt as _;

use super::amount::{amount, is_emulated, shared};
use super::inputs::{floats, integers};
use make::Maker;
use operators::Operation;

/// Steps between two comparisons.
const BATCH: usize = 250;

/// An operator in a program; its result's number is its own place.
pub struct Step {
    operation: Operation,
    /// The results that it takes, by number.
    inputs: Vec<usize>,
    /// Results that are not used after it, its own included.
    dead: Vec<usize>,
}

/// What was made in the first run.
struct Program {
    seed: u64,
    /// The tensors that everything is made from, on the CPU; results count from their number.
    bank: Vec<Tensor>,
    steps: Vec<Step>,
    /// The results alive at the end, with their bits.
    last: HashMap<usize, Bits>,
}

/// All elements, exactly.
#[derive(PartialEq)]
enum Bits {
    Floats(Vec<u64>),
    Integers(Vec<i64>),
}

impl Bits {
    fn of(tensor: &Tensor) -> Result<Self> {
        Ok(if tensor.dtype().is_int() {
            Self::Integers(integers(tensor)?)
        } else {
            Self::Floats(floats(tensor)?.into_iter().map(f64::to_bits).collect())
        })
    }
}

/// On the CPU and contiguous, once for each result.
fn downloaded<'a>(
    cache: &'a mut HashMap<usize, Tensor>,
    number: usize,
    tensor: &Tensor,
) -> Result<&'a Tensor> {
    use std::collections::hash_map::Entry;
    Ok(match cache.entry(number) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(tensor.to_device(&Device::Cpu)?.force_contiguous()?),
    })
}

fn describe(tensor: &Tensor) -> String {
    let layout = if tensor.is_contiguous() {
        String::new()
    } else {
        format!(" strides {:?}", tensor.stride())
    };
    format!("{:?}{:?}{layout}", tensor.dtype(), tensor.dims())
}

/// The first run.
struct Run {
    seed: u64,
    steps: Vec<Step>,
    /// By number: the results that were not dropped yet.
    results: HashMap<usize, Tensor>,
    cpu: HashMap<usize, Tensor>,
    /// What the inputs and the result of each step look like.
    shapes: Vec<String>,
    /// The number of the first step's result.
    first: usize,
}

impl Run {
    /// Compares the steps from `from` on.
    fn compare(&mut self, from: usize) -> Result<()> {
        // Everything first, so that no comparison gives the GPU time.
        for number in self.first + from..self.first + self.steps.len() {
            downloaded(&mut self.cpu, number, &self.results[&number])?;
        }
        for at in from..self.steps.len() {
            let step = &self.steps[at];
            let inputs: Vec<Tensor> = step.inputs.iter().map(|i| self.cpu[i].clone()).collect();
            let found = self.cpu[&(self.first + at)].clone();
            let operation = &step.operation;
            let compared = operation.compare(&inputs, &found);
            if let Err(error) = compared {
                bail!("{}\n{error:#}", self.report(at)?);
            }
        }
        Ok(())
    }

    fn report(&self, at: usize) -> Result<String> {
        let step = &self.steps[at];
        let inputs: Vec<Tensor> = step
            .inputs
            .iter()
            .map(|i| self.results[i].clone())
            .collect();
        let again = match step.operation.run(&inputs) {
            Err(error) => format!("by itself, on the same inputs, it is an error: {error}"),
            Ok(again) => {
                let again = again.to_device(&Device::Cpu)?.force_contiguous()?;
                let inputs: Vec<Tensor> = step.inputs.iter().map(|i| self.cpu[i].clone()).collect();
                match step.operation.compare(&inputs, &again) {
                    Ok(()) => "run again by itself, on the same inputs, it is right".to_string(),
                    Err(_) => {
                        "run again by itself, on the same inputs, it is wrong too".to_string()
                    }
                }
            }
        };
        let mut needed = vec![self.first + at];
        let mut next = 0;
        while next < needed.len() {
            let number = needed[next];
            next += 1;
            let Some(step) = number.checked_sub(self.first).map(|at| &self.steps[at]) else {
                continue;
            };
            for input in &step.inputs {
                if !needed.contains(input) {
                    needed.push(*input);
                }
            }
        }
        needed.sort_unstable();
        let lines: Vec<String> = needed
            .iter()
            .filter_map(|number| number.checked_sub(self.first))
            .map(|at| format!("  step {at}: {}", self.shapes[at]))
            .collect();
        // The last ones say most.
        let shown = &lines[lines.len().saturating_sub(40)..];
        Ok(format!(
            "seed {}, step {at}: {}\n{again}\nthe smallest failing prefix has {} steps, of which it depends on {}:\n{}",
            self.seed,
            self.shapes[at],
            at + 1,
            lines.len(),
            shown.join("\n")
        ))
    }
}

/// Makes a program of `count` steps, runs it, and compares every step.
fn make_and_compare(device: &Device, seed: u64, count: usize) -> Result<Program> {
    let bank = make::bank(seed)?;
    let mut maker = Maker::new(seed);
    let mut run = Run {
        seed,
        steps: Vec::new(),
        results: HashMap::new(),
        cpu: HashMap::new(),
        shapes: Vec::new(),
        first: bank.len(),
    };
    for (number, tensor) in bank.iter().enumerate() {
        let on_device = tensor.to_device(device)?;
        maker.add_bank(number, tensor.dtype());
        run.results.insert(number, on_device);
        run.cpu.insert(number, tensor.clone());
    }
    let mut compared = 0;
    while run.steps.len() < count {
        let at = run.steps.len();
        let made = maker.next(&run.results);
        let inputs: Vec<Tensor> = made.inputs.iter().map(|i| run.results[i].clone()).collect();
        let shapes: Vec<String> = inputs.iter().map(describe).collect();
        let what = format!("{} of {}", made.operation.name, shapes.join(", "));
        let result = made
            .operation
            .run(&inputs)
            .with_context(|| format!("seed {seed}, step {at}: {what}"))?;
        run.shapes.push(format!(
            "{what} -> {}; inputs are results {:?}",
            describe(&result),
            made.inputs
                .iter()
                .map(|number| *number as isize - run.first as isize)
                .collect::<Vec<_>>()
        ));
        let number = run.first + at;
        let dead = maker.note(number, &result, &made);
        run.results.insert(number, result);
        run.steps.push(Step {
            operation: made.operation,
            inputs: made.inputs,
            dead,
        });
        if run.steps.len() - compared == BATCH || run.steps.len() == count {
            run.compare(compared)?;
            // What a later step may take stays; of the rest only what they were is remembered.
            for step in &run.steps[compared..] {
                for number in &step.dead {
                    run.results.remove(number);
                    run.cpu.remove(number);
                }
            }
            compared = run.steps.len();
        }
    }
    let last = maker
        .alive()
        .map(|number| Ok((number, Bits::of(&run.results[&number])?)))
        .collect::<Result<_>>()?;
    Ok(Program {
        seed,
        bank,
        steps: run.steps,
        last,
    })
}

/// Runs a program again, each tensor freed after its last use, and compares what is left, bit by bit.
fn replay(program: &Program, device: &Device) -> Result<()> {
    let mut results: HashMap<usize, Tensor> = HashMap::new();
    for (number, tensor) in program.bank.iter().enumerate() {
        results.insert(number, tensor.to_device(device)?);
    }
    for (at, step) in program.steps.iter().enumerate() {
        let inputs: Vec<Tensor> = step.inputs.iter().map(|i| results[i].clone()).collect();
        let result = step
            .operation
            .run(&inputs)
            .with_context(|| format!("step {at}: {}", step.operation.name))?;
        drop(inputs);
        results.insert(program.bank.len() + at, result);
        for number in &step.dead {
            results.remove(number);
        }
    }
    for (number, expected) in &program.last {
        ensure!(
            Bits::of(&results[number])? == *expected,
            "seed {}: result {number} of {} steps, freed as it went, has other bits than in the first run",
            program.seed,
            program.steps.len()
        );
    }
    Ok(())
}

/// Ten thousand operators on a GPU, in programs of different seeds.
#[test]
fn random_programs_agree_with_the_cpu() -> Result<()> {
    let _gpu = shared();
    let device = candle_rocm_tests::device()?;
    let steps = amount(10_000, 3000)?;
    // Few enough programs to be long, enough to be different.
    let programs = if is_emulated()? { 2 } else { 5 };
    for seed in 0..programs {
        make_and_compare(&device, seed, steps.div_ceil(programs as usize))?;
    }
    Ok(())
}

/// The same program on many streams at once, each of which has only the memory that the others are done with.
#[test]
fn random_programs_run_alike_on_many_streams() -> Result<()> {
    let _gpu = shared();
    let steps = amount(2000, 400)?;
    let streams = if is_emulated()? { 2 } else { 8 };
    let program = make_and_compare(&candle_rocm_tests::device()?, 1000, steps)?;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..streams)
            .map(|number| {
                let program = &program;
                scope.spawn(move || -> Result<()> {
                    let device = Device::new_rocm_with_stream(0)?;
                    for round in 0..3 {
                        replay(program, &device)
                            .with_context(|| format!("stream {number}, round {round}"))?;
                    }
                    Ok(())
                })
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread returns its error"))
    })
}
