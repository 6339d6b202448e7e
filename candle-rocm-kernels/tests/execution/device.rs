//! An emulated GPU with the kernels loaded, and one call that runs a kernel.

use crate::elements::{from_bytes, to_bytes, Element};
use candle_rocm_kernels::launch_heuristics::{self, Grid, LaunchHeuristic, Row};
use candle_rocm_kernels::Module;
use candle_rocm_testing::gpu;
use rocm_emulator::codeobject::LoadedCodeObject;
use rocm_emulator::exec::{Counters, Options};
use std::sync::Arc;

/// One kernel argument.
#[derive(Clone)]
pub enum Arg {
    /// A usize or i64.
    N(usize),
    I(i32),
    F(f32),
    D(f64),
    B(bool),
    /// An element by value.
    Element(Vec<u8>),
    /// A struct by value: its fields, which follow one another without gaps.
    Struct(Vec<Arg>),
    /// A null pointer.
    Null,
    /// A pointer `offset` bytes into a buffer of these bytes; `result` if the launch is run for them.
    Buffer {
        bytes: Vec<u8>,
        offset: usize,
        result: bool,
    },
}

impl Arg {
    pub fn input<T: Element>(values: &[T]) -> Arg {
        Arg::input_from(values, 0)
    }

    /// The pointer is to element `start`.
    pub fn input_from<T: Element>(values: &[T], start: usize) -> Arg {
        Arg::Buffer {
            bytes: to_bytes(values),
            offset: start * T::BYTES,
            result: false,
        }
    }

    /// Room for `count` results, filled with nonsense before the launch.
    pub fn output<T: Element>(count: usize) -> Arg {
        Arg::Buffer {
            bytes: vec![0xa5; count * T::BYTES],
            offset: 0,
            result: true,
        }
    }

    pub fn in_out<T: Element>(values: &[T]) -> Arg {
        Arg::in_out_from(values, 0)
    }

    pub fn in_out_from<T: Element>(values: &[T], start: usize) -> Arg {
        Arg::Buffer {
            bytes: to_bytes(values),
            offset: start * T::BYTES,
            result: true,
        }
    }

    pub fn sizes(values: &[usize]) -> Arg {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Arg::Buffer {
            bytes,
            offset: 0,
            result: false,
        }
    }

    pub fn element<T: Element>(value: T) -> Arg {
        Arg::Element(to_bytes(&[value]))
    }
}

/// A GPU and the modules loaded on it.
pub struct Gpu {
    pub arch: &'static str,
    /// Run kernels as on a GPU of so many compute units, not with the geometry asked for.
    pub units: Option<u32>,
    gpu: gpu::Gpu,
}

impl Gpu {
    pub fn new(arch: &'static str, units: Option<u32>) -> Gpu {
        Gpu {
            arch,
            units,
            gpu: gpu::Gpu::empty(arch.parse().expect("a GPU that is emulated"), 1 << 30),
        }
    }

    fn program(&self, module: &Module) -> Arc<LoadedCodeObject> {
        let embedded = || {
            module
                .code_object(self.arch)
                .expect("an embedded architecture")
        };
        self.gpu.program(module.name(), embedded)
    }

    /// Work-items of the largest workgroup that the kernel was compiled for.
    pub fn largest_workgroup(&self, module: &Module, name: &str) -> u32 {
        let program = self.program(module);
        let kernel = program.kernel(&module.symbol(name));
        let kernel = kernel.expect("a kernel of the module");
        kernel.kernel.max_flat_workgroup_size
    }

    fn geometry(
        &self,
        module: &Module,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
    ) -> ([u32; 3], [u32; 3]) {
        let largest_workgroup = self.largest_workgroup(module, name);
        // A kernel that was not compiled for the workgroups that Candle asks for is never launched with them.
        let compute_units = match self.units {
            None if block.iter().product::<u32>() <= largest_workgroup => return (grid, block),
            units => units.unwrap_or(1),
        };
        let asked = Grid {
            workgroups: grid,
            threads: block,
        };
        let gpu = launch_heuristics::Gpu {
            compute_units,
            largest_workgroup,
        };
        let heuristic = LaunchHeuristic::of(module.name(), name);
        let told = heuristic.told(0, |parameter| match &args[parameter.number] {
            Arg::N(value) => *value as u64,
            Arg::I(value) => *value as u64,
            Arg::Null => 0,
            Arg::F(_) | Arg::D(_) => panic!("{name} has no number at {parameter:?}"),
            // A buffer has an address, whatever it will be.
            _ => 1,
        });
        let asked = heuristic
            .meant(asked, told)
            .expect("a grid that can be made");
        let row = Row {
            elements: told.row,
            element_bytes: launch_heuristics::element_bytes(name),
            strided: told.strided,
        };
        let plan = heuristic.plan(asked, row, gpu);
        (plan.workgroups, plan.threads)
    }

    /// An argument's bytes; buffers that it points to are allocated.
    fn place(&self, arg: &Arg, buffers: &mut Vec<u64>, results: &mut Vec<(u64, usize)>) -> Vec<u8> {
        match arg {
            Arg::N(value) => value.to_le_bytes().to_vec(),
            Arg::I(value) => value.to_le_bytes().to_vec(),
            Arg::F(value) => value.to_le_bytes().to_vec(),
            Arg::D(value) => value.to_le_bytes().to_vec(),
            Arg::B(value) => vec![*value as u8],
            Arg::Element(bytes) => bytes.clone(),
            Arg::Struct(fields) => fields
                .iter()
                .flat_map(|field| self.place(field, buffers, results))
                .collect(),
            Arg::Null => vec![0; 8],
            Arg::Buffer {
                bytes,
                offset,
                result: is_result,
            } => {
                let address = self.gpu.upload_bytes(bytes);
                buffers.push(address);
                if *is_result {
                    results.push((address, bytes.len()));
                }
                (address + *offset as u64).to_le_bytes().to_vec()
            }
        }
    }

    /// Runs a kernel and returns its result buffer.
    pub fn run<R: Element>(
        &self,
        module: &Module,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
    ) -> Vec<R> {
        self.run_with_lds(module, name, grid, block, 0, args)
    }

    /// The same with dynamic LDS, in bytes.
    pub fn run_with_lds<R: Element>(
        &self,
        module: &Module,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        lds: usize,
        args: &[Arg],
    ) -> Vec<R> {
        let (results, _) = self.launch(module, name, grid, block, lds, args);
        from_bytes(results.last().expect("a result among the arguments"))
    }

    /// Runs a kernel and returns the bytes of all its result buffers, in the arguments' order, and what it did.
    pub fn launch(
        &self,
        module: &Module,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        lds: usize,
        args: &[Arg],
    ) -> (Vec<Vec<u8>>, Counters) {
        let (grid, block) = self.geometry(module, name, grid, block, args);
        let program = self.program(module);
        let (mut buffers, mut results) = (Vec::new(), Vec::new());
        let mut bytes_of = |arg| self.place(arg, &mut buffers, &mut results);
        let last = module.last_argument(name);
        let last = last.map(|of| of.value.to_le_bytes().to_vec());
        let args: Vec<Vec<u8>> = args.iter().map(&mut bytes_of).chain(last).collect();
        let counters = self
            .gpu
            .launch_of(
                &program,
                &module.symbol(name),
                (grid, block),
                lds as u32,
                &args,
                &Options::default(),
            )
            .unwrap_or_else(|fault| panic!("{name} on {}: {fault}", self.arch));
        let results = results.into_iter();
        let results = results
            .map(|(address, count)| self.gpu.download_bytes(address, count))
            .collect();
        for address in buffers {
            self.gpu.memory.free(address).expect("allocated above");
        }
        (results, counters)
    }
}
