//! Running and tracing a kernel.

use std::io::{BufWriter, Write};

use parking_lot::Mutex;
use rocm_emulator::codeobject::{ArgKind, Kernel, KernelArg};
use rocm_emulator::exec::{self, Launch, Options, Trace};
use rocm_emulator::memory::{AllocationKind, Memory};

use crate::args::LaunchArgs;
use crate::source;
use crate::values::{Argument, Buffer};

/// Memory of the device that the tool makes.
const MEMORY: u64 = 64 << 30;

/// `rocm-emu run`, and with a workgroup and wavefront `rocm-emu trace`.
pub fn run(args: &LaunchArgs, trace: Option<([u32; 3], u32)>) -> Result<(), String> {
    let objects = source::open(&args.source)?;
    let (object, kernel) = source::find(&objects, &args.kernel)?;
    let name = &kernel.name;
    let memory = Memory::new(MEMORY);
    let loaded = object.load(&memory).map_err(|error| error.to_string())?;
    let kernel = loaded
        .kernel(name)
        .ok_or_else(|| format!("kernel {name} was not loaded"))?;
    check(&kernel.kernel, args, trace)?;
    let (kernarg, buffers) = place(&memory, &kernel.kernel, &args.arguments)?;

    let out: Mutex<BufWriter<std::io::Stdout>> = Mutex::new(BufWriter::new(std::io::stdout()));
    let mut options = Options {
        threads: args.threads,
        trace: trace.map(|(workgroup, wave)| Trace {
            out: &out,
            workgroup,
            wave,
        }),
        formats: Some(&object.printf_formats),
        ..Options::default()
    };
    if let Some(limit) = args.max_instructions {
        options.max_instructions = limit;
    }
    let launch = Launch {
        kernel,
        grid: args.grid,
        block: args.block,
        dynamic_lds: args.dynamic_lds,
        kernarg: &kernarg,
    };
    let outcome = exec::dispatch(&memory, &launch, &options);
    let mut out = out.into_inner();
    // The trace up to a fault is what one looks for.
    out.flush().map_err(|error| error.to_string())?;
    let counters = outcome.map_err(|fault| fault.to_string())?;
    for (index, address, buffer) in buffers {
        let mut bytes = vec![0; buffer.count * buffer.element.size];
        memory
            .read(address, &mut bytes)
            .map_err(|error| error.to_string())?;
        println!(
            "arg {index} {}: {}",
            buffer.kind(),
            buffer.element.show(&bytes, args.print)
        );
    }
    eprintln!(
        "{}: {} workgroups, {} wavefronts, {} instructions, {} lane operations",
        object.target,
        counters.workgroups,
        counters.wavefronts,
        counters.total_instructions(),
        counters.lane_operations
    );
    Ok(())
}

/// What the runtime would refuse.
fn check(kernel: &Kernel, args: &LaunchArgs, trace: Option<([u32; 3], u32)>) -> Result<(), String> {
    if args.grid.contains(&0) || args.block.contains(&0) {
        return Err("grid and block sizes are 1 or more".into());
    }
    let items: u128 = args.block.iter().map(|&size| u128::from(size)).product();
    if items > u128::from(kernel.max_flat_workgroup_size) {
        return Err(format!(
            "a block of {items} work-items; {} was compiled for at most {}",
            kernel.name, kernel.max_flat_workgroup_size
        ));
    }
    let lds = u64::from(kernel.group_segment_fixed_size) + u64::from(args.dynamic_lds);
    let most = kernel.target.unit().lds_bytes_of_workgroup;
    if lds > u64::from(most) {
        return Err(format!(
            "{lds} bytes of LDS; a workgroup has at most {most}"
        ));
    }
    if let Some((workgroup, wave)) = trace {
        let waves = items.div_ceil(kernel.wavefront_size.into());
        if workgroup
            .iter()
            .zip(args.grid)
            .any(|(&at, size)| at >= size)
        {
            return Err(format!(
                "no workgroup {workgroup:?} in a grid of {:?}",
                args.grid
            ));
        }
        if u128::from(wave) >= waves {
            return Err(format!("no wavefront {wave}; a workgroup has {waves}"));
        }
    }
    Ok(())
}

fn describe(arg: &KernelArg) -> String {
    let kind = match arg.kind {
        ArgKind::GlobalBuffer => "pointer".to_string(),
        ArgKind::ByValue => format!("{} bytes", arg.size),
        other => other.name().to_string(),
    };
    match &arg.name {
        Some(name) => format!("{name}: {kind}"),
        None => kind,
    }
}

/// Buffers in memory: the argument's place, the address, the buffer.
type Placed<'a> = Vec<(usize, u64, &'a Buffer)>;

/// Lay the arguments out and put the buffers into memory.
fn place<'a>(
    memory: &Memory,
    kernel: &Kernel,
    arguments: &'a [Argument],
) -> Result<(Vec<u8>, Placed<'a>), String> {
    let expected: Vec<&KernelArg> = kernel.explicit_args().collect();
    let described: Vec<String> = expected.iter().map(|arg| describe(arg)).collect();
    if expected.len() != arguments.len() {
        return Err(format!(
            "{} takes {} arguments ({}), {} are given",
            kernel.name,
            expected.len(),
            described.join("; "),
            arguments.len()
        ));
    }
    let mut kernarg = vec![0; kernel.explicit_kernarg_size() as usize];
    let mut buffers = Vec::new();
    for (index, (arg, given)) in expected.iter().zip(arguments).enumerate() {
        let bytes = match given {
            Argument::Value(bytes) => bytes.clone(),
            Argument::Null => vec![0; 8],
            Argument::Buffer(buffer) => {
                let bytes = buffer.bytes()?;
                let address = memory
                    .allocate(bytes.len() as u64, AllocationKind::Device)
                    .map_err(|error| error.to_string())?;
                memory
                    .write(address, &bytes)
                    .map_err(|error| error.to_string())?;
                buffers.push((index, address, buffer));
                address.to_le_bytes().to_vec()
            }
        };
        if bytes.len() != arg.size as usize {
            return Err(format!(
                "argument {index} of {}: {} bytes given, expected {}",
                kernel.name,
                bytes.len(),
                described[index]
            ));
        }
        let at = arg.offset as usize;
        kernarg[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    Ok((kernarg, buffers))
}
