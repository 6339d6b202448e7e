//! An AMD GPU in software.
//!
//! The crate loads HSACO code objects, the very bytes that ship, and executes their instructions on
//! the CPU. It is functional, not cycle-accurate. From the bottom up:
//!
//! - [`isa`]: instruction words of each GFX family to [`isa::Inst`] and back to assembly text;
//! - [`codeobject`]: ELF, AMDGPU metadata, kernel descriptors, clang's offload bundles;
//! - [`memory`]: the device's address space and the check of every access against live allocations;
//! - [`exec`]: wavefronts, workgroups and grids, and what each instruction does;
//! - [`fault`]: what ends a launch, in one message; [`trouble`]: how what no call can return is said;
//! - [`hip`]: the HIP runtime API over all of this, also exported as a `libamdhip64.so`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use rocm_emulator::codeobject::CodeObject;
//! use rocm_emulator::exec::{dispatch, Launch, Options};
//! use rocm_emulator::memory::{AllocationKind, Memory};
//!
//! # let source = r#"extern "C" __attribute__((global)) void twice(unsigned* x) {
//! #     x[__builtin_amdgcn_workitem_id_x()] *= 2; }"#;
//! # use candle_rocm_testing::hip::{compile, Compile};
//! # let code: Vec<u8> = compile(source, &Compile::device("gfx1100"));
//! // `code` is what clang makes of a kernel `twice` that doubles each element of its workgroup.
//! let memory = Memory::new(1 << 20);
//! let program = Arc::new(CodeObject::parse(&code)?).load(&memory)?;
//! let x = memory.allocate(4 * 32, AllocationKind::Device)?;
//! memory.write(x, &21u32.to_le_bytes())?;
//! let launch = Launch {
//!     kernel: program.kernel("twice").expect("the program has it"),
//!     grid: [1, 1, 1],
//!     block: [32, 1, 1],
//!     dynamic_lds: 0,
//!     kernarg: &x.to_le_bytes(),
//! };
//! let counters = dispatch(&memory, &launch, &Options::default())?;
//! let mut first = [0; 4];
//! memory.read(x, &mut first)?;
//! assert_eq!(u32::from_le_bytes(first), 42);
//! assert_eq!(counters.bytes_stored, 4 * 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod codeobject;
pub mod exec;
pub mod fault;
pub mod hip;
pub mod isa;
pub mod memory;
pub mod trouble;
