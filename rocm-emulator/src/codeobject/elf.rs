//! From an ELF file to a [`CodeObject`].

use std::sync::Arc;

use object::elf::{
    EM_AMDGPU, ET_DYN, PF_W, PF_X, PT_LOAD, SHF_ALLOC, STT_FUNC, STT_OBJECT, STV_HIDDEN,
};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, Object, ObjectSymbol, RelocationFlags, RelocationTarget};

use super::metadata::{self, KernelMetadata, Metadata};
use super::{
    CodeObject, CodeObjectError, Global, Kernel, KernelDescriptor, Relocation, RelocationKind,
    Segment,
};
use crate::isa::Target;
use rocm_gpus::Generic;

/// `ELFOSABI_AMDGPU_HSA`.
const OSABI_HSA: u8 = 64;
/// Note type of the MessagePack metadata.
const NT_AMDGPU_METADATA: u32 = 32;
/// No code object needs more; a corrupt header may ask for exabytes.
const MAX_IMAGE: u64 = 4 << 30;

/// Code objects for generic targets have this version at least, `EI_ABIVERSION` 4, and the version of the generic
/// target in their flags.
const GENERIC_SINCE: u32 = 6;
/// The version of every generic target that AMD's loader (ROCR, `GetSupportedGenericVersions`) takes at least.
const LEAST_GENERIC_VERSION: u32 = 1;

/// ELF relocation numbers (LLVM's AMDGPUUsage, "Relocation Records").
const RELOCATIONS: &[(u32, &str, RelocationKind)] = &[
    (1, "R_AMDGPU_ABS32_LO", RelocationKind::Abs32Lo),
    (2, "R_AMDGPU_ABS32_HI", RelocationKind::Abs32Hi),
    (3, "R_AMDGPU_ABS64", RelocationKind::Abs64),
    (4, "R_AMDGPU_REL32", RelocationKind::Rel32),
    (5, "R_AMDGPU_REL64", RelocationKind::Rel64),
    (6, "R_AMDGPU_ABS32", RelocationKind::Abs32),
    (10, "R_AMDGPU_REL32_LO", RelocationKind::Rel32Lo),
    (11, "R_AMDGPU_REL32_HI", RelocationKind::Rel32Hi),
    (13, "R_AMDGPU_RELATIVE64", RelocationKind::Relative64),
];

type File<'data> = ElfFile64<'data, LittleEndian>;

pub(super) fn parse(bytes: &[u8], expected: Option<Target>) -> Result<CodeObject, CodeObjectError> {
    check_header(bytes)?;
    let file = File::parse(bytes).map_err(|error| bad("ELF file", error))?;
    let header = file.elf_header();
    let little = LittleEndian;
    if header.e_machine(little) != EM_AMDGPU || header.e_type(little) != ET_DYN {
        return Err(CodeObjectError::NotAmdgpu(format!(
            "ELF machine {} type {}, expected {EM_AMDGPU} (AMDGPU) and {ET_DYN} (linked shared object)",
            header.e_machine(little),
            header.e_type(little)
        )));
    }
    let ident = header.e_ident();
    if ident.os_abi != OSABI_HSA {
        return Err(CodeObjectError::NotAmdgpu(format!(
            "OS ABI {}, expected {OSABI_HSA} (AMDGPU HSA)",
            ident.os_abi
        )));
    }
    let version = u32::from(ident.abi_version) + 2;
    let target = target_of(header.e_flags(little), version, expected)?;
    let segments = segments(&file)?;
    let metadata = metadata(&file)?;
    let mut object = CodeObject {
        target,
        version,
        kernels: Vec::with_capacity(metadata.kernels.len().min(4096)),
        printf_formats: metadata.printf_formats,
        globals: globals(&file)?,
        segments,
        relocations: relocations(&file)?,
        align: alignment(&file)?,
    };
    for kernel in metadata.kernels {
        let kernel = complete(&file, &object, kernel)?;
        object.kernels.push(Arc::new(kernel));
    }
    Ok(object)
}

/// Name the plain mistakes before the ELF reader gives a terse error.
fn check_header(bytes: &[u8]) -> Result<(), CodeObjectError> {
    if !bytes.starts_with(b"\x7fELF") {
        let shown: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
        return Err(CodeObjectError::NotElf(if shown.is_empty() {
            "(none)".into()
        } else {
            shown.join(" ")
        }));
    }
    if bytes.len() < 64 {
        return Err(CodeObjectError::Truncated {
            what: "ELF header".into(),
            need: 64,
            have: bytes.len() as u64,
        });
    }
    if bytes[4] != 2 || bytes[5] != 1 {
        return Err(CodeObjectError::NotAmdgpu(
            "not a 64-bit little-endian ELF file".into(),
        ));
    }
    let section_table = u64::from_le_bytes(bytes[40..48].try_into().unwrap_or_default());
    let entry = u64::from(u16::from_le_bytes([bytes[58], bytes[59]]));
    let entries = u64::from(u16::from_le_bytes([bytes[60], bytes[61]]));
    let need = section_table.saturating_add(entry * entries);
    if need > bytes.len() as u64 {
        return Err(CodeObjectError::Truncated {
            what: "ELF section table".into(),
            need,
            have: bytes.len() as u64,
        });
    }
    Ok(())
}

/// The GPU that a header's flags are for. Code for a generic target is for each of its members, by the rules of AMD's
/// loader (ROCR, `Isa::IsCompatible`); without an expectation, for the first of them.
fn target_of(
    flags: u32,
    version: u32,
    expected: Option<Target>,
) -> Result<Target, CodeObjectError> {
    let wrong = |found: &str| match expected {
        Some(expected) => CodeObjectError::WrongTarget {
            expected,
            found: found.into(),
        },
        None => CodeObjectError::UnknownProcessor(flags),
    };
    if let Some(generic) = Generic::from_elf_flags(flags) {
        if version < GENERIC_SINCE || flags >> 24 < LEAST_GENERIC_VERSION {
            return Err(CodeObjectError::GenericVersion {
                generic: generic.name(),
                version,
                generic_version: flags >> 24,
            });
        }
        let mut members = generic.members();
        return match expected {
            Some(expected) => members.find(|&target| target == expected),
            None => members.next(),
        }
        .ok_or_else(|| wrong(generic.name()));
    }
    let found = Target::from_elf_flags(flags).ok_or(CodeObjectError::UnknownProcessor(flags))?;
    match expected {
        Some(expected) if expected != found => Err(wrong(found.name())),
        _ => Ok(found),
    }
}

fn segments(file: &File) -> Result<Vec<Segment>, CodeObjectError> {
    let little = LittleEndian;
    let mut segments = Vec::new();
    for header in file.elf_program_headers() {
        if header.p_type(little) != PT_LOAD {
            continue;
        }
        let address = header.p_vaddr(little);
        let memory_size = header.p_memsz(little);
        let data = header
            .data(little, file.data())
            .map_err(|()| CodeObjectError::Truncated {
                what: format!("segment at {address:#x}"),
                need: header
                    .p_offset(little)
                    .saturating_add(header.p_filesz(little)),
                have: file.data().len() as u64,
            })?;
        let end = address.checked_add(memory_size);
        if data.len() as u64 > memory_size || end.is_none_or(|end| end > MAX_IMAGE) {
            return Err(CodeObjectError::Malformed(format!(
                "segment at {address:#x}: {} bytes in the file, {memory_size} in memory",
                data.len()
            )));
        }
        segments.push(Segment {
            address,
            data: data.to_vec(),
            memory_size,
            executable: header.p_flags(little) & PF_X != 0,
            writable: header.p_flags(little) & PF_W != 0,
        });
    }
    segments.sort_by_key(|segment| segment.address);
    for pair in segments.windows(2) {
        if pair[0].address + pair[0].memory_size > pair[1].address {
            return Err(CodeObjectError::Malformed(format!(
                "segments at {:#x} and {:#x} overlap",
                pair[0].address, pair[1].address
            )));
        }
    }
    if segments.is_empty() {
        return Err(CodeObjectError::Malformed("no loadable segment".into()));
    }
    Ok(segments)
}

/// What all metadata notes say: a library that is linked of several code objects has one for each of them.
fn metadata(file: &File) -> Result<Metadata, CodeObjectError> {
    let little = LittleEndian;
    let mut metadata = Metadata::default();
    let mut found = false;
    for header in file.elf_program_headers() {
        let notes = header
            .notes(little, file.data())
            .map_err(|error| bad("note segment", error))?;
        let Some(mut notes) = notes else { continue };
        while let Some(note) = notes.next().map_err(|error| bad("note", error))? {
            if note.n_type(little) == NT_AMDGPU_METADATA && note.name() == b"AMDGPU" {
                metadata::parse(note.desc(), &mut metadata)?;
                found = true;
            }
        }
    }
    match found {
        true => Ok(metadata),
        false => Err(CodeObjectError::NoMetadata),
    }
}

/// Variables that other modules and the host may name: sized objects that are not kernel descriptors.
fn globals(file: &File) -> Result<Vec<Global>, CodeObjectError> {
    let little = LittleEndian;
    let mut globals = Vec::new();
    for symbol in file.dynamic_symbols() {
        let raw = symbol.elf_symbol();
        if raw.st_type() != STT_OBJECT || raw.st_visibility() == STV_HIDDEN || symbol.is_undefined()
        {
            continue;
        }
        let name = symbol.name().map_err(|error| bad("symbol name", error))?;
        if !name.ends_with(".kd") {
            globals.push(Global {
                name: name.into(),
                address: raw.st_value(little),
                size: raw.st_size(little),
            });
        }
    }
    Ok(globals)
}

fn relocations(file: &File) -> Result<Vec<Relocation>, CodeObjectError> {
    let mut relocations = Vec::new();
    for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let number = match relocation.flags() {
            RelocationFlags::Elf { r_type } => r_type,
            _ => continue,
        };
        if number == 0 {
            continue;
        }
        let Some((_, name, kind)) = RELOCATIONS.iter().find(|row| row.0 == number) else {
            return Err(CodeObjectError::Relocation {
                kind: format!("number {number}"),
                offset,
                reason: "not a dynamic relocation that the loader knows".into(),
            });
        };
        let symbol = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = file
                    .dynamic_symbol_table()
                    .and_then(|table| {
                        object::ObjectSymbolTable::symbol_by_index(&table, index).ok()
                    })
                    .ok_or_else(|| CodeObjectError::Relocation {
                        kind: (*name).into(),
                        offset,
                        reason: format!("no dynamic symbol {}", index.0),
                    })?;
                if symbol.is_undefined() {
                    return Err(CodeObjectError::MissingSymbol(
                        symbol.name().unwrap_or("?").into(),
                    ));
                }
                symbol.address()
            }
            _ => 0,
        };
        relocations.push(Relocation {
            offset,
            kind: *kind,
            symbol,
            addend: relocation.addend(),
        });
    }
    Ok(relocations)
}

fn alignment(file: &File) -> Result<u64, CodeObjectError> {
    let little = LittleEndian;
    let sections = file
        .elf_header()
        .sections(little, file.data())
        .map_err(|error| bad("section table", error))?;
    let align = sections
        .iter()
        .filter(|section| section.sh_flags(little) & u64::from(SHF_ALLOC) != 0)
        .map(|section| section.sh_addralign(little))
        .max()
        .unwrap_or(0)
        .max(256);
    if !align.is_power_of_two() || align > 1 << 20 {
        return Err(CodeObjectError::Malformed(format!(
            "section alignment {align}"
        )));
    }
    Ok(align)
}

/// Join a kernel's metadata with its descriptor and code.
fn complete(
    file: &File,
    object: &CodeObject,
    data: KernelMetadata,
) -> Result<Kernel, CodeObjectError> {
    let symbol = find_symbol(file, &data.symbol)
        .ok_or_else(|| CodeObjectError::MissingSymbol(data.symbol.clone()))?;
    let descriptor_address = symbol.0;
    let bytes = object.bytes_at(descriptor_address).ok_or_else(|| {
        CodeObjectError::Malformed(format!(
            "kernel {}: descriptor at {descriptor_address:#x} is outside the segments",
            data.name
        ))
    })?;
    let descriptor = KernelDescriptor::decode(bytes, object.target)?;
    let entry = descriptor_address.wrapping_add_signed(descriptor.entry_byte_offset);
    let code_size = code_size(file, object, entry).ok_or_else(|| {
        CodeObjectError::Malformed(format!(
            "kernel {}: entry {entry:#x} is not in an executable segment",
            data.name
        ))
    })?;
    check(&data, &descriptor)?;
    Ok(Kernel {
        name: data.name,
        target: object.target,
        descriptor,
        args: data.args,
        kernarg_size: data.kernarg_size,
        kernarg_align: data.kernarg_align,
        group_segment_fixed_size: data.group_segment_fixed_size,
        private_segment_fixed_size: data.private_segment_fixed_size,
        wavefront_size: data.wavefront_size,
        max_flat_workgroup_size: data.max_flat_workgroup_size,
        required_workgroup_size: data.required_workgroup_size,
        vgpr_count: data.vgpr_count,
        agpr_count: data.agpr_count,
        sgpr_count: data.sgpr_count,
        vgpr_spill_count: data.vgpr_spill_count,
        sgpr_spill_count: data.sgpr_spill_count,
        uses_dynamic_stack: data.uses_dynamic_stack,
        descriptor_address,
        entry,
        code_size,
    })
}

/// Bytes of a kernel's code: what its symbol says, or all up to its segment's end; `None` where no code can be.
fn code_size(file: &File, object: &CodeObject, entry: u64) -> Option<u64> {
    let little = LittleEndian;
    let first_word_is_in = |segment: &&Segment| {
        let offset = entry.checked_sub(segment.address);
        let end = offset.and_then(|offset| offset.checked_add(4));
        segment.executable && end.is_some_and(|end| end <= segment.data.len() as u64)
    };
    let segment = object.segments.iter().find(first_word_is_in)?;
    if !entry.is_multiple_of(4) {
        return None;
    }
    let to_end = segment.address + segment.data.len() as u64 - entry;
    let of_symbol = file
        .dynamic_symbols()
        .chain(file.symbols())
        .map(|symbol| *symbol.elf_symbol())
        .find(|raw| raw.st_type() == STT_FUNC && raw.st_value(little) == entry)
        .map(|raw| raw.st_size(little))
        .filter(|size| (1..=to_end).contains(size));
    Some(of_symbol.unwrap_or(to_end))
}

/// Whether a kernel's metadata makes sense, alone and beside its descriptor.
fn check(data: &KernelMetadata, descriptor: &KernelDescriptor) -> Result<(), CodeObjectError> {
    let malformed = |what: String| {
        Err(CodeObjectError::Malformed(format!(
            "kernel {}: {what}",
            data.name
        )))
    };
    if !matches!(data.wavefront_size, 32 | 64)
        || (data.wavefront_size == 32) != descriptor.wavefront_size32
    {
        return malformed(format!(
            "wavefront size {} in the metadata, {} in the descriptor",
            data.wavefront_size,
            if descriptor.wavefront_size32 { 32 } else { 64 }
        ));
    }
    for arg in &data.args {
        let end = arg.offset.checked_add(arg.size);
        if end.is_none_or(|end| end > data.kernarg_size) {
            return malformed(format!(
                "argument of {} bytes at offset {} is past the kernarg segment's {} bytes",
                arg.size, arg.offset, data.kernarg_size
            ));
        }
    }
    if data.kernarg_size > 1 << 20 {
        return malformed(format!("kernarg segment of {} bytes", data.kernarg_size));
    }
    if !data.kernarg_align.is_power_of_two() || data.kernarg_align > 4096 {
        return malformed(format!("kernarg alignment {}", data.kernarg_align));
    }
    Ok(())
}

/// Address and size of a defined symbol.
fn find_symbol(file: &File, name: &str) -> Option<(u64, u64)> {
    file.dynamic_symbols()
        .chain(file.symbols())
        .find(|symbol| !symbol.is_undefined() && symbol.name() == Ok(name))
        .map(|symbol| (symbol.address(), symbol.size()))
}

fn bad(what: &str, error: object::Error) -> CodeObjectError {
    CodeObjectError::Malformed(format!("{what}: {error}"))
}
