//! What a wavefront finds in its registers when it starts, and what a launch puts into memory for it: kernel
//! arguments with the hidden ones, and the dispatch packet.
//!
//! LLVM's AMDGPUUsage, "Initial Kernel Execution State"; HSA's `hsa_kernel_dispatch_packet_t`.

use super::launch::{DispatchPacket, Launch, PACKET_BYTES};
use crate::codeobject::{ArgKind, KernelDescriptor};
use crate::exec::memory::SWIZZLE;
use crate::exec::services::Services;
use crate::exec::wave::{Mode, Wave, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::fault::FaultKind;
use crate::isa::{is_gfx90a, is_gfx940, Family, Target};
use crate::memory::Memory;

/// Bytes after the arguments that a kernel may load: the compiler rounds scalar loads up to their alignment.
const PADDING: usize = 64;
/// Stack that a kernel gets whose need the compiler does not know: HIP's default limit for a lane.
const DYNAMIC_STACK: u32 = 16 << 10;

/// Scratch bytes of a lane.
pub(crate) fn scratch_size(launch: &Launch) -> u32 {
    let kernel = &launch.kernel.kernel;
    let dynamic = if kernel.uses_dynamic_stack {
        DYNAMIC_STACK
    } else {
        0
    };
    kernel.private_segment_fixed_size + dynamic
}

/// The memory that a launch brings along, 8-byte aligned: arguments, padding, packet. With a packet of a queue, that
/// packet alone.
pub(crate) struct Arguments {
    block: Box<[u64]>,
    packet: usize,
    /// Where the arguments lie.
    address: u64,
    queue: u64,
    number: u64,
    /// Arguments that wavefronts find in registers.
    preloaded: Vec<u32>,
    /// Work-items along each dimension.
    items: [u64; 3],
}

impl Arguments {
    /// What a launch brings along, with the arguments of `services`.
    pub fn new(launch: &Launch, services: &Services) -> Arguments {
        let kernel = &launch.kernel.kernel;
        let size = (kernel.kernarg_size as usize).max(launch.kernarg.len());
        let packet = (size + PADDING).next_multiple_of(64);
        let mut block = vec![0u64; (packet + PACKET_BYTES) / 8].into_boxed_slice();
        let base = block.as_ptr() as u64;
        put(&mut block, 0, launch.kernarg);
        for arg in kernel.args.iter().filter(|arg| arg.kind.is_hidden()) {
            let value = services.argument(arg.kind);
            let Some(value) = value.or_else(|| hidden(arg.kind, launch)) else {
                continue;
            };
            let value = value.to_le_bytes();
            let bytes = (arg.size as usize).min(value.len());
            if arg.offset as usize + bytes <= size {
                put(&mut block, arg.offset as usize, &value[..bytes]);
            }
        }
        for (at, bytes) in packet_fields(launch, base) {
            put(&mut block, packet + at, &bytes);
        }
        let dword = |at: usize| {
            let pair = block.get(at / 2).copied().unwrap_or(0);
            (pair >> (at % 2 * 32)) as u32
        };
        let axes = [0, 1, 2];
        Arguments {
            preloaded: preloads(&kernel.descriptor).map(dword).collect(),
            items: axes.map(|axis| u64::from(launch.grid[axis]) * u64::from(launch.block[axis])),
            block,
            packet,
            address: base,
            queue: 0,
            number: 0,
        }
    }

    /// What a queue's packet brings along: its arguments stay where they are.
    ///
    /// # Errors
    /// Arguments that wavefronts are to find in registers are not in memory.
    pub fn of_packet(
        launch: &Launch,
        memory: &Memory,
        packet: &DispatchPacket,
    ) -> Result<Arguments, FaultKind> {
        let address = packet.arguments();
        let preloaded = preloads(&launch.kernel.kernel.descriptor).map(|at| {
            let (mut bytes, place) = ([0; 4], address + 4 * at as u64);
            memory
                .read(place, &mut bytes)
                .map_err(|error| FaultKind::OutOfBounds {
                    access: "load",
                    address: place,
                    bytes: 4,
                    nearest: error.nearest,
                })?;
            Ok(u32::from_le_bytes(bytes))
        });
        let preloaded = preloaded.collect::<Result<_, FaultKind>>()?;
        let mut block = vec![0u64; PACKET_BYTES / 8].into_boxed_slice();
        put(&mut block, 0, &packet.bytes);
        Ok(Arguments {
            block,
            packet: 0,
            address,
            queue: packet.queue,
            number: packet.number,
            preloaded,
            items: packet.items().map(u64::from),
        })
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn packet(&self) -> u64 {
        self.block.as_ptr() as u64 + self.packet as u64
    }

    /// Addresses that the kernel may read.
    pub fn window(&self) -> (u64, u64) {
        let first = self.block.as_ptr() as u64;
        (first, first + 8 * self.block.len() as u64)
    }

    /// The sizes of a workgroup of `block`: the last along a dimension has what is left of the grid.
    fn extent(&self, block: [u32; 3], workgroup: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|axis| {
            let before = u64::from(workgroup[axis]) * u64::from(block[axis]);
            let left = self.items[axis].saturating_sub(before);
            left.min(block[axis].into()) as u32
        })
    }
}

/// Write bytes into a block of quadwords.
fn put(block: &mut [u64], at: usize, bytes: &[u8]) {
    for (i, byte) in bytes.iter().enumerate() {
        let shift = (at + i) % 8 * 8;
        let qword = &mut block[(at + i) / 8];
        *qword = *qword & !(0xff << shift) | u64::from(*byte) << shift;
    }
}

/// The dwords of the arguments that wavefronts find in registers.
fn preloads(descriptor: &KernelDescriptor) -> std::ops::Range<usize> {
    let first = descriptor.kernarg_preload_offset as usize;
    first..first + descriptor.kernarg_preload_length as usize
}

/// The value of a hidden argument; `None` for one that stays as the launch's own bytes have it, which is 0 if they end
/// before it: offsets and remainders, heap and queue.
fn hidden(kind: ArgKind, launch: &Launch) -> Option<u64> {
    let at = |values: [u32; 3], axis: u8| u64::from(values[usize::from(axis).min(2)]);
    Some(match kind {
        ArgKind::HiddenBlockCount(axis) => at(launch.grid, axis),
        ArgKind::HiddenGroupSize(axis) => at(launch.block, axis),
        ArgKind::HiddenGridDims => dimensions(launch).into(),
        ArgKind::HiddenDynamicLdsSize => launch.dynamic_lds.into(),
        ArgKind::HiddenPrivateBase => PRIVATE_APERTURE >> 32,
        ArgKind::HiddenSharedBase => SHARED_APERTURE >> 32,
        _ => return None,
    })
}

fn dimensions(launch: &Launch) -> u16 {
    let last = (0..3)
        .rev()
        .find(|&axis| launch.grid[axis] * launch.block[axis] > 1);
    last.unwrap_or(0) as u16 + 1
}

fn packet_fields(launch: &Launch, kernarg: u64) -> Vec<(usize, Vec<u8>)> {
    let u16s = |at: usize, value: u32| (at, (value as u16).to_le_bytes().to_vec());
    let u32s = |at: usize, value: u32| (at, value.to_le_bytes().to_vec());
    let u64s = |at: usize, value: u64| (at, value.to_le_bytes().to_vec());
    let [x, y, z] = launch.block;
    let items = |axis: usize| launch.grid[axis].wrapping_mul(launch.block[axis]);
    let kernel = &launch.kernel.kernel;
    vec![
        // Type 2: a kernel dispatch.
        u16s(0, 2),
        u16s(2, dimensions(launch).into()),
        u16s(4, x),
        u16s(6, y),
        u16s(8, z),
        u32s(12, items(0)),
        u32s(16, items(1)),
        u32s(20, items(2)),
        u32s(24, kernel.private_segment_fixed_size),
        u32s(28, kernel.group_segment_fixed_size + launch.dynamic_lds),
        u64s(32, launch.kernel.descriptor),
        u64s(40, kernarg),
    ]
}

/// The floating-point modes that the descriptor asks for.
pub(crate) fn mode(descriptor: &KernelDescriptor) -> Mode {
    Mode {
        round_f32: descriptor.round_f32,
        round_f64_f16: descriptor.round_f64_f16,
        denorm_f32: descriptor.denorm_f32,
        denorm_f64_f16: descriptor.denorm_f64_f16,
        dx10_clamp: descriptor.dx10_clamp,
        ieee: descriptor.ieee,
    }
}

/// Flat scratch is set up by the hardware, not by the kernel.
fn architected_flat_scratch(target: Target) -> bool {
    match target.family() {
        Family::Cdna => is_gfx940(target),
        Family::Rdna2 => false,
        Family::Rdna3 | Family::Rdna4 => true,
    }
}

/// Scalar registers, filled one after the other.
struct Scalars<'a> {
    registers: &'a mut [u32; 106],
    next: usize,
}

impl Scalars<'_> {
    /// Values past the last register are dropped, as a descriptor that asks for them is malformed.
    fn push(&mut self, value: u32) {
        if let Some(register) = self.registers.get_mut(self.next) {
            *register = value;
        }
        self.next += 1;
    }
}

/// Set the registers of wavefront `index` of a workgroup as the hardware does.
pub(crate) fn start(
    wave: &mut Wave,
    launch: &Launch,
    arguments: &Arguments,
    workgroup: [u32; 3],
    index: u32,
) {
    let descriptor = &launch.kernel.kernel.descriptor;
    let target = wave.target;
    wave.pc = launch.kernel.entry;
    wave.mode = mode(descriptor);
    wave.scc = false;
    wave.vcc = 0;
    wave.m0 = 0;
    wave.flat_scratch = 0;
    let mut scalars = Scalars {
        registers: &mut wave.sgpr,
        next: 0,
    };
    let wide = |value: u64| [value as u32, (value >> 32) as u32];
    if descriptor.enable_private_segment_buffer {
        for dword in [0, SWIZZLE, u32::MAX, 0] {
            scalars.push(dword);
        }
    }
    let pointers = [
        (descriptor.enable_dispatch_ptr, arguments.packet()),
        (descriptor.enable_queue_ptr, arguments.queue),
        (descriptor.enable_kernarg_segment_ptr, arguments.address()),
        (descriptor.enable_dispatch_id, arguments.number),
        (descriptor.enable_flat_scratch_init, 0),
    ];
    for (_, value) in pointers.into_iter().filter(|(enabled, _)| *enabled) {
        wide(value)
            .into_iter()
            .for_each(|dword| scalars.push(dword));
    }
    if descriptor.enable_private_segment_size {
        scalars.push(scratch_size(launch));
    }
    for dword in &arguments.preloaded {
        scalars.push(*dword);
    }
    // The system's values follow the user SGPRs, of which the kernel may leave some unused.
    scalars.next = descriptor.user_sgprs as usize;
    let [x, y, z] = workgroup;
    if target.family() == Family::Rdna4 {
        wave.ttmp[9] = x;
        wave.ttmp[7] = y & 0xffff | z << 16;
    } else {
        for (enabled, value) in descriptor.enable_workgroup_id.into_iter().zip([x, y, z]) {
            if enabled {
                scalars.push(value);
            }
        }
        if descriptor.enable_workgroup_info {
            scalars.push(0);
        }
        if descriptor.enable_private_segment && !architected_flat_scratch(target) {
            scalars.push(0);
        }
    }
    let extent = arguments.extent(launch.block, workgroup);
    start_lanes(wave, descriptor, extent, index);
}

/// Work-item ids and EXEC, in a workgroup of these sizes.
fn start_lanes(wave: &mut Wave, descriptor: &KernelDescriptor, extent: [u32; 3], index: u32) {
    let [width, height, depth] = extent;
    let total = u64::from(width) * u64::from(height) * u64::from(depth);
    let first = u64::from(index) * u64::from(wave.lanes);
    let active = total.saturating_sub(first).min(wave.lanes.into()) as u32;
    wave.set_exec(u64::MAX.checked_shr(64 - active).unwrap_or(0));
    let packed = match wave.target.family() {
        Family::Cdna => is_gfx90a(wave.target),
        Family::Rdna2 => false,
        Family::Rdna3 | Family::Rdna4 => true,
    };
    for lane in 0..wave.lanes {
        let item = (first + u64::from(lane)) as u32;
        let id = [item % width, item / width % height, item / width / height];
        if packed {
            let fields = id.iter().take(usize::from(descriptor.workitem_id) + 1);
            let word = fields
                .enumerate()
                .fold(0, |word, (axis, id)| word | id << (10 * axis));
            wave.vgpr[0].0[lane as usize] = word;
        } else {
            let given = usize::from(descriptor.workitem_id) + 1;
            for (row, id) in wave.vgpr.iter_mut().zip(id).take(given) {
                row.0[lane as usize] = id;
            }
        }
    }
}
