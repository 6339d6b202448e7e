//! A step on the emulator: its results, and what is counted of it.

use std::collections::HashMap;
use std::sync::Arc;

use candle_rocm_kernel_report::listing::Listing;
use candle_rocm_kernel_report::{distances, loops};
use candle_rocm_testing::gpu::{Gpu, Number};
use candle_rocm_testing::hip::{compile, Compile};
use half::f16;
use parking_lot::Mutex;
use rocm_emulator::codeobject::LoadedCodeObject;
use rocm_emulator::exec::{Checks, Class, Cycles, InstructionProfile, Options, Profile, Sampling};
use rocm_emulator::isa::Target;

use crate::page::{value, Launch, Step};
use crate::problem::Problem;

/// Bytes of device memory.
const MEMORY: u64 = 1 << 28;

/// What is counted of a step's launches together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Instructions of wavefronts, and of them matrix instructions.
    pub instructions: u64,
    pub matrix: u64,
    /// Global memory and LDS.
    pub moved: InstructionProfile,
    /// Vector registers of the kernel that has most.
    pub vgprs: u32,
    /// Least cycles of arithmetic between a load and its wait, in the loop with the most arithmetic.
    pub ahead: Option<u64>,
}

/// A GPU with a step's kernels and a problem's buffers.
pub struct Run<'a> {
    gpu: Gpu,
    program: Arc<LoadedCodeObject>,
    step: &'a Step,
    problem: &'a Problem,
    buffers: HashMap<&'static str, u64>,
}

impl<'a> Run<'a> {
    /// Compiles the step and uploads the problem.
    pub fn new(target: Target, step: &'a Step, problem: &'a Problem) -> Run<'a> {
        let gpu = Gpu::empty(target, MEMORY);
        gpu.memory.remember_writes();
        let code = || compile(&step.source, &Compile::device(target.name()));
        let program = gpu.program(&step.title, code);
        let buffers = problem.buffers.iter().map(|buffer| {
            let address = gpu.buffer(buffer.bytes);
            let bytes: Vec<u8> = buffer.data.iter().flat_map(|x| x.to_le_bytes()).collect();
            gpu.memory.write(address, &bytes).expect("just allocated");
            (buffer.name, address)
        });
        Run {
            buffers: buffers.collect(),
            gpu,
            program,
            step,
            problem,
        }
    }

    fn launch(&self, launch: &Launch, options: &Options<'_>) -> rocm_emulator::exec::Counters {
        let lanes = self.gpu.target.wavefront_size();
        let mut names: HashMap<&str, u32> = self.problem.sizes.iter().copied().collect();
        names.insert("lanes", lanes);
        let grid = [0, 1, 2].map(|axis| value(&launch.grid[axis], &names));
        let each = if launch.of_wavefronts { lanes } else { 1 };
        let argument = |name: &String| match self.buffers.get(name.as_str()) {
            Some(address) => address.to(),
            None => value(name, &names).to(),
        };
        let arguments: Vec<Vec<u8>> = launch.arguments.iter().map(argument).collect();
        let shape = (grid, [launch.items * each, 1, 1]);
        let name = &launch.name;
        self.gpu
            .launch_of(&self.program, name, shape, 0, &arguments, options)
            .unwrap_or_else(|fault| panic!("{}, {name}: {fault}", self.gpu.target))
    }

    /// Runs the step under the emulator's checks and holds its results against those expected; counts.
    pub fn check(&self) -> Figures {
        let mut figures = Figures::default();
        for launch in &self.step.launches {
            let profile = Mutex::new(Profile::default());
            let counters = self.launch(
                launch,
                &Options {
                    profile: Some(&profile),
                    checks: Checks::RACES
                        .with(Checks::UNINITIALISED)
                        .with(Checks::WAITS)
                        .with(Checks::ORDER),
                    ..Options::default()
                },
            );
            figures.instructions += counters.total_instructions();
            figures.matrix += counters.of(Class::Matrix);
            figures.moved += profile.into_inner().total();
            let object = &self.program.object;
            let kernel = object.kernel(&launch.name).expect("it was launched");
            figures.vgprs = figures.vgprs.max(kernel.vgpr_count);
            let listing = Listing::of(object, kernel).expect("it decodes");
            let ahead = loops::k_blocks(&listing)
                .iter()
                .filter_map(|of| distances::of(&listing, of).load)
                .min();
            figures.ahead = figures.ahead.into_iter().chain(ahead).min();
        }
        self.compare();
        figures
    }

    fn compare(&self) {
        let expected = &self.problem.expected;
        assert!(!expected.is_empty(), "nothing is expected");
        let bits: Vec<u16> = self
            .gpu
            .download(self.buffers[self.problem.result], expected.len());
        for (at, (bits, expected)) in bits.into_iter().zip(expected).enumerate() {
            let found = f16::from_bits(bits).to_f64();
            assert!(
                (found - expected.value).abs() <= expected.limit,
                "{}, {}: element {at} is {found}, not {} within {:e}",
                self.gpu.target,
                self.step.title,
                expected.value,
                expected.limit
            );
        }
    }

    /// Microseconds by the emulator's clock; `None` for GPUs that it has no model of. Only a sample of the workgroups is
    /// executed.
    pub fn microseconds(&self) -> Option<f64> {
        let sampling = Sampling {
            alone: true,
            rounds: 3,
            ..Sampling::default()
        };
        let mut sum = 0.0;
        for launch in &self.step.launches {
            let cycles = Cycles::new(self.gpu.target, sampling).ok()?;
            let options = Options {
                cycles: Some(&cycles),
                ..Options::default()
            };
            self.launch(launch, &options);
            sum += cycles.time().expect("the launch ended well").microseconds;
        }
        Some(sum)
    }
}
