//! The AMDGPU metadata note: MessagePack that describes each kernel's arguments and resources.

use std::collections::HashMap;

use rmpv::ValueRef;

use super::CodeObjectError;

/// What a kernel argument is (LLVM's AMDGPUUsage, "Code Object V3 Kernel Argument Metadata Map" and the
/// hidden arguments of V5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArgKind {
    /// Bytes copied from the launch.
    ByValue,
    /// A pointer to global memory.
    GlobalBuffer,
    /// A pointer to LDS.
    DynamicSharedPointer,
    /// Grid size in workgroups along x, y or z: `u32`.
    HiddenBlockCount(u8),
    /// Workgroup size along x, y or z: `u16`.
    HiddenGroupSize(u8),
    /// Size of the last, partial workgroup along x, y or z, or 0: `u16`.
    HiddenRemainder(u8),
    /// Global offset along x, y or z: `u64`, 0 in HIP.
    HiddenGlobalOffset(u8),
    /// Dimensions of the grid: `u16`.
    HiddenGridDims,
    HiddenPrintfBuffer,
    HiddenHostcallBuffer,
    HiddenMultigridSyncArg,
    HiddenHeapV1,
    HiddenDefaultQueue,
    HiddenCompletionAction,
    /// Dynamic LDS bytes of the launch: `u32`.
    HiddenDynamicLdsSize,
    /// High dword of the private aperture: `u32`.
    HiddenPrivateBase,
    /// High dword of the shared aperture: `u32`.
    HiddenSharedBase,
    HiddenQueuePtr,
    /// A place that is not read.
    HiddenNone,
    /// Images, samplers, pipes, queues and anything later: nothing that HIP compute kernels use.
    Other,
}

/// The metadata's names of [`ArgKind`].
const ARG_KINDS: &[(&str, ArgKind)] = &[
    ("by_value", ArgKind::ByValue),
    ("global_buffer", ArgKind::GlobalBuffer),
    ("dynamic_shared_pointer", ArgKind::DynamicSharedPointer),
    ("hidden_block_count_x", ArgKind::HiddenBlockCount(0)),
    ("hidden_block_count_y", ArgKind::HiddenBlockCount(1)),
    ("hidden_block_count_z", ArgKind::HiddenBlockCount(2)),
    ("hidden_group_size_x", ArgKind::HiddenGroupSize(0)),
    ("hidden_group_size_y", ArgKind::HiddenGroupSize(1)),
    ("hidden_group_size_z", ArgKind::HiddenGroupSize(2)),
    ("hidden_remainder_x", ArgKind::HiddenRemainder(0)),
    ("hidden_remainder_y", ArgKind::HiddenRemainder(1)),
    ("hidden_remainder_z", ArgKind::HiddenRemainder(2)),
    ("hidden_global_offset_x", ArgKind::HiddenGlobalOffset(0)),
    ("hidden_global_offset_y", ArgKind::HiddenGlobalOffset(1)),
    ("hidden_global_offset_z", ArgKind::HiddenGlobalOffset(2)),
    ("hidden_grid_dims", ArgKind::HiddenGridDims),
    ("hidden_printf_buffer", ArgKind::HiddenPrintfBuffer),
    ("hidden_hostcall_buffer", ArgKind::HiddenHostcallBuffer),
    ("hidden_multigrid_sync_arg", ArgKind::HiddenMultigridSyncArg),
    ("hidden_heap_v1", ArgKind::HiddenHeapV1),
    ("hidden_default_queue", ArgKind::HiddenDefaultQueue),
    ("hidden_completion_action", ArgKind::HiddenCompletionAction),
    ("hidden_dynamic_lds_size", ArgKind::HiddenDynamicLdsSize),
    ("hidden_private_base", ArgKind::HiddenPrivateBase),
    ("hidden_shared_base", ArgKind::HiddenSharedBase),
    ("hidden_queue_ptr", ArgKind::HiddenQueuePtr),
    ("hidden_none", ArgKind::HiddenNone),
];

impl ArgKind {
    /// True for what the runtime adds after the arguments that the program passes.
    pub fn is_hidden(self) -> bool {
        self.name().starts_with("hidden_")
    }

    /// The metadata's name; `other` for kinds that have none here.
    pub fn name(self) -> &'static str {
        ARG_KINDS
            .iter()
            .find(|row| row.1 == self)
            .map_or("other", |row| row.0)
    }

    fn from_name(name: &str) -> ArgKind {
        ARG_KINDS
            .iter()
            .find(|row| row.0 == name)
            .map_or(ArgKind::Other, |row| row.1)
    }
}

/// One kernel argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelArg {
    /// Byte offset in the kernarg segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What it is.
    pub kind: ArgKind,
    /// The source's name, where the compiler recorded it.
    pub name: Option<String>,
}

/// One kernel's entry in the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelMetadata {
    pub name: String,
    pub symbol: String,
    pub args: Vec<KernelArg>,
    pub kernarg_size: u32,
    pub kernarg_align: u32,
    pub group_segment_fixed_size: u32,
    pub private_segment_fixed_size: u32,
    pub wavefront_size: u32,
    pub max_flat_workgroup_size: u32,
    pub required_workgroup_size: Option<[u32; 3]>,
    pub vgpr_count: u32,
    pub agpr_count: u32,
    pub sgpr_count: u32,
    pub vgpr_spill_count: u32,
    pub sgpr_spill_count: u32,
    pub uses_dynamic_stack: bool,
}

/// Formats of `printf`s in their buffered form, by the number that a message names them with.
pub type PrintfFormats = HashMap<u64, String>;

/// What a metadata note says.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub kernels: Vec<KernelMetadata>,
    pub printf_formats: PrintfFormats,
}

/// Read a note's MessagePack document, and add what it says.
pub(super) fn parse(mut note: &[u8], metadata: &mut Metadata) -> Result<(), CodeObjectError> {
    let document = rmpv::decode::read_value_ref(&mut note)
        .map_err(|error| malformed(format!("metadata is not MessagePack: {error}")))?;
    let Some(kernels) = get(&document, "amdhsa.kernels") else {
        return Err(malformed("metadata has no amdhsa.kernels".into()));
    };
    for map in list(kernels, "amdhsa.kernels")? {
        metadata.kernels.push(kernel(map)?);
    }
    if let Some(formats) = get(&document, "amdhsa.printf") {
        let formats = list(formats, "amdhsa.printf")?.iter();
        metadata
            .printf_formats
            .extend(formats.filter_map(printf_format));
    }
    Ok(())
}

/// A format of `amdhsa.printf`, `0:0:<hash>,<format>` for HIP; OpenCL's have numbers of arguments and no hash.
fn printf_format(value: &ValueRef) -> Option<(u64, String)> {
    let ValueRef::String(text) = value else {
        return None;
    };
    let (hash, format) = text.as_str()?.splitn(3, ':').nth(2)?.split_once(',')?;
    Some((u64::from_str_radix(hash, 16).ok()?, format.to_string()))
}

fn kernel(map: &ValueRef) -> Result<KernelMetadata, CodeObjectError> {
    let name = text(map, ".name")?;
    let number = |key: &str| -> Result<u32, CodeObjectError> {
        optional_number(map, key)?
            .ok_or_else(|| malformed(format!("kernel {name}: metadata has no {key}")))
    };
    let count = |key: &str| Ok(optional_number(map, key)?.unwrap_or(0));
    let args = match get(map, ".args") {
        Some(args) => list(args, ".args")?
            .iter()
            .map(argument)
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let required_workgroup_size = match get(map, ".reqd_workgroup_size") {
        Some(sizes) => match list(sizes, ".reqd_workgroup_size")? {
            [x, y, z] => {
                let dim = |value: &ValueRef| {
                    unsigned(value).ok_or_else(|| {
                        malformed(format!(
                            "kernel {name}: .reqd_workgroup_size is not numbers"
                        ))
                    })
                };
                Some([dim(x)?, dim(y)?, dim(z)?])
            }
            _ => {
                return Err(malformed(format!(
                    "kernel {name}: .reqd_workgroup_size has not three elements"
                )))
            }
        },
        None => None,
    };
    Ok(KernelMetadata {
        symbol: text(map, ".symbol")?,
        args,
        kernarg_size: number(".kernarg_segment_size")?,
        kernarg_align: optional_number(map, ".kernarg_segment_align")?.unwrap_or(16),
        group_segment_fixed_size: number(".group_segment_fixed_size")?,
        private_segment_fixed_size: number(".private_segment_fixed_size")?,
        wavefront_size: number(".wavefront_size")?,
        max_flat_workgroup_size: number(".max_flat_workgroup_size")?,
        required_workgroup_size,
        vgpr_count: count(".vgpr_count")?,
        agpr_count: count(".agpr_count")?,
        sgpr_count: count(".sgpr_count")?,
        vgpr_spill_count: count(".vgpr_spill_count")?,
        sgpr_spill_count: count(".sgpr_spill_count")?,
        uses_dynamic_stack: matches!(
            get(map, ".uses_dynamic_stack"),
            Some(ValueRef::Boolean(true))
        ),
        name,
    })
}

fn argument(map: &ValueRef) -> Result<KernelArg, CodeObjectError> {
    let number = |key: &str| {
        optional_number(map, key)?
            .ok_or_else(|| malformed(format!("kernel argument: metadata has no {key}")))
    };
    let name = match get(map, ".name") {
        Some(_) => Some(text(map, ".name")?),
        None => None,
    };
    Ok(KernelArg {
        offset: number(".offset")?,
        size: number(".size")?,
        kind: ArgKind::from_name(&text(map, ".value_kind")?),
        name,
    })
}

fn get<'a, 'v>(map: &'a ValueRef<'v>, key: &str) -> Option<&'a ValueRef<'v>> {
    match map {
        ValueRef::Map(entries) => entries
            .iter()
            .find(|(name, _)| matches!(name, ValueRef::String(s) if s.as_str() == Some(key)))
            .map(|(_, value)| value),
        _ => None,
    }
}

fn list<'a, 'v>(value: &'a ValueRef<'v>, key: &str) -> Result<&'a [ValueRef<'v>], CodeObjectError> {
    match value {
        ValueRef::Array(items) => Ok(items),
        _ => Err(malformed(format!("metadata: {key} is not a list"))),
    }
}

fn text(map: &ValueRef, key: &str) -> Result<String, CodeObjectError> {
    match get(map, key) {
        Some(ValueRef::String(s)) => s
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| malformed(format!("metadata: {key} is not UTF-8"))),
        _ => Err(malformed(format!("metadata has no text {key}"))),
    }
}

fn unsigned(value: &ValueRef) -> Option<u32> {
    match value {
        ValueRef::Integer(n) => n.as_u64().and_then(|n| n.try_into().ok()),
        _ => None,
    }
}

fn optional_number(map: &ValueRef, key: &str) -> Result<Option<u32>, CodeObjectError> {
    match get(map, key) {
        None => Ok(None),
        Some(value) => unsigned(value)
            .map(Some)
            .ok_or_else(|| malformed(format!("metadata: {key} is not a number below 2^32"))),
    }
}

fn malformed(what: String) -> CodeObjectError {
    CodeObjectError::Malformed(what)
}
