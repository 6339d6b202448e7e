//! Finding the code objects in a file.

use std::collections::BTreeSet;
use std::sync::Arc;

use object::{Object, ObjectSection};
use rocm_emulator::codeobject::{bundle, CodeObject, CodeObjectError, Kernel};
use rocm_emulator::isa::Target;

use crate::args::SourceArgs;

/// The code objects of a file for one processor: its own, an entry of its bundle, or one of each bundle that the program
/// embeds.
pub fn open(args: &SourceArgs) -> Result<Vec<Arc<CodeObject>>, String> {
    let file = args.file.display();
    let bytes = std::fs::read(&args.file).map_err(|error| format!("{file}: {error}"))?;
    objects(&bytes, args.arch).map_err(|error| format!("{file}: {error}"))
}

fn objects(bytes: &[u8], arch: Option<Target>) -> Result<Vec<Arc<CodeObject>>, CodeObjectError> {
    let images = match embedded(bytes) {
        Some(section) => bundle::images(section)?,
        None => vec![bytes],
    };
    if let ([image], None) = (images.as_slice(), arch) {
        if !bundle::is_bundle(image) {
            return Ok(vec![Arc::new(CodeObject::parse(image)?)]);
        }
    }
    let target = match arch {
        Some(target) => target,
        None => only_processor(&images)?,
    };
    let mut objects = Vec::new();
    let mut absent = None;
    for image in images {
        match CodeObject::parse_for(image, target) {
            Ok(object) => objects.push(Arc::new(object)),
            // Source files of one program may be compiled for different processors.
            Err(error @ CodeObjectError::NotInBundle { .. }) => absent = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (objects.is_empty(), absent) {
        (true, Some(error)) => Err(error),
        _ => Ok(objects),
    }
}

/// The section of a host program in which clang keeps its bundles.
fn embedded(bytes: &[u8]) -> Option<&[u8]> {
    let host = object::read::elf::ElfFile64::<object::LittleEndian>::parse(bytes).ok()?;
    host.section_by_name(".hip_fatbin")?.data().ok()
}

/// The processor of bundles that have entries for one GPU alone.
fn only_processor(images: &[&[u8]]) -> Result<Target, CodeObjectError> {
    let mut names = BTreeSet::new();
    for image in images {
        let plain = bundle::decompress(image)?;
        let entries = bundle::entries(&plain)?;
        let processors = entries.iter().filter_map(|entry| entry.processor());
        names.extend(processors.map(String::from));
    }
    let names: Vec<String> = names.into_iter().collect();
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

/// A kernel and the code object that has it.
pub type Found<'a> = (&'a Arc<CodeObject>, &'a Arc<Kernel>);

/// The kernel of that name, or the only one whose name contains it.
pub fn find<'a>(objects: &'a [Arc<CodeObject>], name: &str) -> Result<Found<'a>, String> {
    let all = || {
        objects
            .iter()
            .flat_map(|object| object.kernels.iter().map(move |kernel| (object, kernel)))
    };
    if let Some(found) = all().find(|(_, kernel)| kernel.name == name) {
        return Ok(found);
    }
    let alike: Vec<_> = all()
        .filter(|(_, kernel)| kernel.name.contains(name))
        .collect();
    let names = |kernels: &[Found]| {
        let names: Vec<_> = kernels.iter().map(|found| found.1.name.as_str()).collect();
        names.join(", ")
    };
    match alike.as_slice() {
        [found] => Ok(*found),
        [] => Err(format!(
            "no kernel {name}; there are: {}",
            names(&all().collect::<Vec<_>>())
        )),
        several => Err(format!("{name} could be any of: {}", names(several))),
    }
}
