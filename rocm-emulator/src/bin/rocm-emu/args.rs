//! Arguments that several commands take.

use std::path::PathBuf;

use clap::Args;
use rocm_emulator::isa::Target;

use crate::values;

/// Where the code is.
#[derive(Args)]
pub struct SourceArgs {
    /// A code object (HSACO), an offload bundle, or a HIP program or library that embeds some.
    pub file: PathBuf,
    /// The processor to take out of a bundle of several, such as gfx1100.
    #[arg(long)]
    pub arch: Option<Target>,
}

/// A launch.
#[derive(Args)]
pub struct LaunchArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// The kernel; its mangled name or the unmistakable part of it.
    pub kernel: String,
    /// Workgroups: x, or x,y,z.
    #[arg(long, default_value = "1", value_parser = values::dimensions)]
    pub grid: [u32; 3],
    /// Work-items of a workgroup: x, or x,y,z.
    #[arg(long, default_value = "64", value_parser = values::dimensions)]
    pub block: [u32; 3],
    /// Bytes of dynamic LDS.
    #[arg(long, default_value_t = 0)]
    pub dynamic_lds: u32,
    /// An argument of the kernel, in order. A number: `u32=5`, `f32=0.5`. A buffer, printed afterwards:
    /// `f32[16]=iota`, `=zero`, `=random`, one value for all, a list `1,2,3`, or `@file` for raw bytes. `null`.
    #[arg(long = "arg", value_name = "TYPE=VALUE", value_parser = values::argument)]
    pub arguments: Vec<values::Argument>,
    /// Elements of each buffer to print.
    #[arg(long, default_value_t = 64)]
    pub print: usize,
    /// Threads; 0 means all cores.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Instructions that one wavefront may execute.
    #[arg(long)]
    pub max_instructions: Option<u64>,
}
