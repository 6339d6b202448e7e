//! The 64-byte kernel descriptor: how the hardware sets a wavefront up.
//!
//! LLVM's AMDGPUUsage, "Kernel Descriptor", gives the fields; a few bits change meaning with the family.

use super::CodeObjectError;
use crate::isa::{Accumulation, Family, Target};

/// A kernel descriptor, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDescriptor {
    /// LDS bytes that every workgroup has, dynamic LDS not included.
    pub group_segment_fixed_size: u32,
    /// Scratch bytes for each lane.
    pub private_segment_fixed_size: u32,
    /// Bytes of kernel arguments, hidden ones included.
    pub kernarg_size: u32,
    /// Distance from the descriptor to the first instruction.
    pub entry_byte_offset: i64,
    /// `COMPUTE_PGM_RSRC1` as it stands.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2` as it stands.
    pub rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3` as it stands.
    pub rsrc3: u32,
    /// `KERNEL_CODE_PROPERTIES` as it stands.
    pub properties: u16,
    /// Vector registers that a wave gets, rounded up to the granule. CDNA2 and later: accumulation registers included.
    pub vgprs: u32,
    /// CDNA2 and later: the first accumulation register's place in the unified file, a multiple of 4; otherwise 0.
    pub accum_offset: u32,
    /// Accumulation registers that a wave gets: the end of the unified file, or a file of their own (gfx908).
    pub agprs: u32,
    /// Scalar registers that a wave gets (GFX9; later families always have 106 and report 0 here).
    pub sgprs: u32,
    /// f32 rounding at start, as in `exec::Mode::round_f32`.
    pub round_f32: u8,
    /// f64 and f16 rounding at start.
    pub round_f64_f16: u8,
    /// f32 denormals at start: bit 0 inputs kept, bit 1 outputs kept.
    pub denorm_f32: u8,
    /// f64 and f16 denormals at start, the same bits.
    pub denorm_f64_f16: u8,
    /// Clamp turns NaN into zero; false on GFX12, which has no such mode.
    pub dx10_clamp: bool,
    /// IEEE mode; false on GFX12, which has no such mode.
    pub ieee: bool,
    /// 16-bit results that overflow are clamped to the largest number.
    pub fp16_overflow: bool,
    /// Workgroups run on a whole WGP instead of one CU (RDNA).
    pub wgp_mode: bool,
    /// Scratch is set up (`ENABLE_PRIVATE_SEGMENT`).
    pub enable_private_segment: bool,
    /// SGPRs that are loaded before the workgroup ids.
    pub user_sgprs: u32,
    /// Whether the workgroup's x, y and z go into SGPRs after the user SGPRs (before GFX12).
    pub enable_workgroup_id: [bool; 3],
    /// Whether the workgroup information word follows them.
    pub enable_workgroup_info: bool,
    /// Work-item ids given: 0 x, 1 x and y, 2 x, y and z.
    pub workitem_id: u8,
    /// User SGPRs: 4 for the private segment buffer.
    pub enable_private_segment_buffer: bool,
    /// User SGPRs: 2 for the dispatch packet's address.
    pub enable_dispatch_ptr: bool,
    /// User SGPRs: 2 for the queue's address.
    pub enable_queue_ptr: bool,
    /// User SGPRs: 2 for the kernel arguments' address.
    pub enable_kernarg_segment_ptr: bool,
    /// User SGPRs: 2 for the dispatch id.
    pub enable_dispatch_id: bool,
    /// User SGPRs: 2 for the flat scratch base.
    pub enable_flat_scratch_init: bool,
    /// User SGPRs: 1 for the private segment's size.
    pub enable_private_segment_size: bool,
    /// Waves are 32 wide.
    pub wavefront_size32: bool,
    /// The stack's size is not known to the compiler.
    pub uses_dynamic_stack: bool,
    /// Dwords of kernel arguments that are loaded into user SGPRs (gfx90a, gfx942).
    pub kernarg_preload_length: u32,
    /// First dword of the kernel arguments that is preloaded.
    pub kernarg_preload_offset: u32,
}

impl KernelDescriptor {
    /// Bytes of a descriptor.
    pub const SIZE: usize = 64;

    /// Decode the descriptor of a kernel for `target`.
    pub fn decode(bytes: &[u8], target: Target) -> Result<KernelDescriptor, CodeObjectError> {
        let bytes: &[u8; Self::SIZE] =
            bytes
                .first_chunk()
                .ok_or_else(|| CodeObjectError::Truncated {
                    what: "kernel descriptor".into(),
                    need: Self::SIZE as u64,
                    have: bytes.len() as u64,
                })?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let (rsrc3, rsrc1, rsrc2) = (u32_at(44), u32_at(48), u32_at(52));
        let (properties, preload) = (u16_at(56), u16_at(58));
        let bit = |word: u32, at: u32| word >> at & 1 != 0;
        let property = |at: u32| bit(properties.into(), at);

        let family = target.family();
        let cdna = family == Family::Cdna;
        let gfx12 = family == Family::Rdna4;
        let wavefront_size32 = property(10);
        let registers = Registers::decode(rsrc1, rsrc3, wavefront_size32, target);
        let preloads = target.unit().accumulation == Accumulation::Unified;
        let preloaded = |value: u16| if preloads { u32::from(value) } else { 0 };
        Ok(KernelDescriptor {
            group_segment_fixed_size: u32_at(0),
            private_segment_fixed_size: u32_at(4),
            kernarg_size: u32_at(8),
            entry_byte_offset: i64::from(u32_at(16)) | i64::from(u32_at(20)) << 32,
            rsrc1,
            rsrc2,
            rsrc3,
            properties,
            vgprs: registers.vgprs,
            accum_offset: registers.accum_offset,
            agprs: registers.agprs,
            sgprs: registers.sgprs,
            round_f32: field(rsrc1, 12, 2) as u8,
            round_f64_f16: field(rsrc1, 14, 2) as u8,
            denorm_f32: field(rsrc1, 16, 2) as u8,
            denorm_f64_f16: field(rsrc1, 18, 2) as u8,
            dx10_clamp: !gfx12 && bit(rsrc1, 21),
            ieee: !gfx12 && bit(rsrc1, 23),
            fp16_overflow: bit(rsrc1, 26),
            wgp_mode: !cdna && bit(rsrc1, 29),
            enable_private_segment: bit(rsrc2, 0),
            user_sgprs: field(rsrc2, 1, 5),
            enable_workgroup_id: [bit(rsrc2, 7), bit(rsrc2, 8), bit(rsrc2, 9)],
            enable_workgroup_info: bit(rsrc2, 10),
            workitem_id: field(rsrc2, 11, 2) as u8,
            enable_private_segment_buffer: property(0),
            enable_dispatch_ptr: property(1),
            enable_queue_ptr: property(2),
            enable_kernarg_segment_ptr: property(3),
            enable_dispatch_id: property(4),
            enable_flat_scratch_init: property(5),
            enable_private_segment_size: property(6),
            wavefront_size32,
            uses_dynamic_stack: property(11),
            kernarg_preload_length: preloaded(preload & 0x7f),
            kernarg_preload_offset: preloaded(preload >> 7),
        })
    }
}

/// Bits of a word.
fn field(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1 << width) - 1)
}

/// The registers that a wavefront gets, as [`KernelDescriptor`] has them.
struct Registers {
    vgprs: u32,
    accum_offset: u32,
    agprs: u32,
    sgprs: u32,
}

impl Registers {
    fn decode(rsrc1: u32, rsrc3: u32, wavefront_size32: bool, target: Target) -> Registers {
        let accumulation = target.unit().accumulation;
        let unified = accumulation == Accumulation::Unified;
        let vgpr_granule = if unified || wavefront_size32 { 8 } else { 4 };
        let vgprs = (field(rsrc1, 0, 6) + 1) * vgpr_granule;
        let accum_offset = match unified {
            true => (field(rsrc3, 0, 6) + 1) * 4,
            false => 0,
        };
        Registers {
            vgprs,
            accum_offset,
            agprs: match accumulation {
                Accumulation::None => 0,
                // Both files get what the larger of the two counts asks for.
                Accumulation::Separate => vgprs,
                Accumulation::Unified => vgprs.saturating_sub(accum_offset),
            },
            sgprs: match target.family() {
                // GFX9 counts in 16s, encoded in 8s.
                Family::Cdna => (field(rsrc1, 6, 4) / 2 + 1) * 16,
                _ => 0,
            },
        }
    }
}
