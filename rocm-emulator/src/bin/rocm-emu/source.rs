//! Finding the code object in a file.

use std::borrow::Cow;
use std::sync::Arc;

use object::{Object, ObjectSection};
use rocm_emulator::codeobject::{bundle, CodeObject, CodeObjectError, Kernel};
use rocm_emulator::isa::Target;

use crate::args::SourceArgs;

/// The code object of a file: its own, or an entry of its bundle.
pub fn open(args: &SourceArgs) -> Result<Arc<CodeObject>, String> {
    let file = args.file.display();
    let bytes = std::fs::read(&args.file).map_err(|error| format!("{file}: {error}"))?;
    let bytes = match embedded_bundle(&bytes) {
        Some(section) => section.to_vec(),
        None => bytes,
    };
    let parsed = match (args.arch, bundle::is_bundle(&bytes)) {
        (Some(target), _) => CodeObject::parse_for(&bytes, target),
        (None, false) => CodeObject::parse(&bytes),
        (None, true) => only_entry(&bytes).and_then(|target| CodeObject::parse_for(&bytes, target)),
    };
    parsed
        .map(Arc::new)
        .map_err(|error| format!("{file}: {error}"))
}

/// The section of a host program in which clang keeps its bundles; the first bundle of it.
fn embedded_bundle(bytes: &[u8]) -> Option<&[u8]> {
    let host = object::read::elf::ElfFile64::<object::LittleEndian>::parse(bytes).ok()?;
    host.section_by_name(".hip_fatbin")?.data().ok()
}

/// The processor of a bundle that has one entry for a GPU.
fn only_entry(bytes: &[u8]) -> Result<Target, CodeObjectError> {
    let plain: Cow<[u8]> = bundle::decompress(bytes)?;
    let entries = bundle::entries(&plain)?;
    let names: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.processor())
        .collect();
    match names.as_slice() {
        [name] => name
            .parse::<Target>()
            .map_err(|error| CodeObjectError::Malformed(error.to_string())),
        [] => Err(CodeObjectError::Malformed(
            "the bundle holds no code object for a GPU".into(),
        )),
        names => Err(CodeObjectError::Malformed(format!(
            "the bundle holds {}; choose one with --arch",
            names.join(", ")
        ))),
    }
}

/// The kernel of that name, or the only one whose name contains it.
pub fn find<'a>(object: &'a CodeObject, name: &str) -> Result<&'a Arc<Kernel>, String> {
    if let Some(kernel) = object.kernel(name) {
        return Ok(kernel);
    }
    let alike: Vec<_> = object
        .kernels
        .iter()
        .filter(|kernel| kernel.name.contains(name))
        .collect();
    let names = |kernels: &[&Arc<Kernel>]| {
        let names: Vec<_> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        names.join(", ")
    };
    match alike.as_slice() {
        [kernel] => Ok(kernel),
        [] => Err(format!(
            "no kernel {name}; there are: {}",
            names(&object.kernels.iter().collect::<Vec<_>>())
        )),
        several => Err(format!("{name} could be any of: {}", names(several))),
    }
}
