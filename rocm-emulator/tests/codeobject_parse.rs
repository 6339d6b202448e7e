//! Code objects as clang writes them, whole, cut off and damaged.

use std::process::Command;
use std::sync::Arc;

use candle_rocm_testing::hip::{compile, toolchain, Compile};
use candle_rocm_testing::llvm::Tools;
use candle_rocm_testing::random::Random;
use rocm_emulator::codeobject::{bundle, ArgKind, CodeObject, CodeObjectError};
use rocm_emulator::isa::Target;
use rocm_emulator::memory::{AllocationKind, Memory};
use rocm_gpus::Generic;

const SOURCE: &str = r#"
#include "hip_min.h"
__device__ int counter[4] = {1, 2, 3, 4};
__device__ int *table[2] = {counter, counter + 1};
__constant__ float coefficients[3] = {1.f, 2.f, 3.f};
extern "C" __global__ void axpy(float a, const float *x, float *y, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] += a * x[i] * coefficients[i % 3] + *table[i & 1];
}
extern "C" __global__ __launch_bounds__(64) void shared(int *out) {
    __shared__ int lds[64];
    int i = __builtin_amdgcn_workitem_id_x();
    lds[i] = out[i];
    __builtin_amdgcn_s_barrier();
    out[i] = lds[63 - i];
}
"#;

fn object(target: Target, version: u32) -> Vec<u8> {
    compile(SOURCE, &Compile::device(target.name()).version(version))
}

#[test]
fn every_target_and_version_parses() {
    for target in [
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx1030,
        Target::Gfx1100,
        Target::Gfx1201,
    ] {
        for version in [5, 6] {
            let object = CodeObject::parse(&object(target, version)).unwrap();
            assert_eq!((object.target, object.version), (target, version));
            let axpy = object.kernel("axpy").unwrap();
            let args: Vec<_> = axpy
                .explicit_args()
                .map(|a| (a.offset, a.size, a.kind))
                .collect();
            assert_eq!(
                args,
                [
                    (0, 4, ArgKind::ByValue),
                    (8, 8, ArgKind::GlobalBuffer),
                    (16, 8, ArgKind::GlobalBuffer),
                    (24, 4, ArgKind::ByValue)
                ]
            );
            assert_eq!(axpy.explicit_kernarg_size(), 28);
            assert_eq!(axpy.wavefront_size, target.wavefront_size());
            assert_eq!(
                axpy.descriptor.wavefront_size32,
                target.wavefront_size() == 32
            );
            assert_eq!(axpy.descriptor.kernarg_size, axpy.kernarg_size);
            assert!(axpy.descriptor.enable_kernarg_segment_ptr);
            assert!(axpy.descriptor.vgprs >= axpy.vgpr_count && axpy.vgpr_count > 0);
            // HIP's defaults: round to nearest even, keep f32 and f64 denormals.
            assert_eq!(
                (axpy.descriptor.round_f32, axpy.descriptor.round_f64_f16),
                (0, 0)
            );
            assert_eq!(axpy.descriptor.denorm_f64_f16, 3);
            assert!(axpy
                .args
                .iter()
                .any(|a| a.kind == ArgKind::HiddenGroupSize(0)));
            assert!(!object.code(axpy).is_empty() && object.code(axpy).len().is_multiple_of(4));
            let shared = object.kernel("shared").unwrap();
            assert_eq!(shared.group_segment_fixed_size, 256);
            assert_eq!(shared.descriptor.group_segment_fixed_size, 256);
            assert_eq!(shared.max_flat_workgroup_size, 64);
            let globals: Vec<_> = object
                .globals
                .iter()
                .map(|g| (g.name.as_str(), g.size))
                .collect();
            for expected in [("counter", 16), ("table", 16), ("coefficients", 12)] {
                assert!(
                    globals.contains(&expected),
                    "{expected:?} is not in {globals:?}"
                );
            }
        }
    }
}

#[test]
fn loading_relocates_and_unloading_frees() {
    let object = Arc::new(CodeObject::parse(&object(Target::Gfx1100, 5)).unwrap());
    let memory = Memory::new(1 << 20);
    let loaded = object.load(&memory).unwrap();
    let (counter, _) = loaded.global("counter").unwrap();
    let (table, bytes) = loaded.global("table").unwrap();
    assert_eq!(bytes, 16);
    let mut pointers = [0; 16];
    memory.read(table, &mut pointers).unwrap();
    let pointer = |at: usize| u64::from_le_bytes(pointers[at..at + 8].try_into().unwrap());
    assert_eq!((pointer(0), pointer(8)), (counter, counter + 4));
    let mut ints = [0; 16];
    memory.read(counter, &mut ints).unwrap();
    assert_eq!(ints, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    let axpy = loaded.kernel("axpy").unwrap();
    assert!(axpy.code.contains(&axpy.entry));
    let mut first = [0; 4];
    memory.read(axpy.entry, &mut first).unwrap();
    assert_eq!(first, object.code(&axpy.kernel)[..4]);
    let info = memory.lookup(axpy.entry).unwrap();
    assert_eq!(
        (info.kind, info.base),
        (AllocationKind::Code, loaded.allocation)
    );
    assert!(loaded.kernel("absent").is_none() && loaded.global("absent").is_none());
    memory.free(loaded.allocation).unwrap();
    let small = Memory::new(64);
    assert!(matches!(
        object.load(&small),
        Err(CodeObjectError::Memory(_))
    ));
    assert_eq!(small.used(), 0);
}

#[test]
fn what_is_wrong_is_named() {
    let gfx942 = object(Target::Gfx942, 5);
    let error = CodeObject::parse_for(&gfx942, Target::Gfx1100)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("gfx942") && error.contains("gfx1100"),
        "{error}"
    );
    assert!(matches!(
        CodeObject::parse(b"not an object"),
        Err(CodeObjectError::NotElf(_))
    ));
    assert!(matches!(
        CodeObject::parse(b""),
        Err(CodeObjectError::NotElf(_))
    ));
    let host = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(
        CodeObject::parse(&host),
        Err(CodeObjectError::NotAmdgpu(_))
    ));
    let half = CodeObject::parse(&gfx942[..gfx942.len() / 2]).unwrap_err();
    assert!(matches!(half, CodeObjectError::Truncated { .. }), "{half}");
    let mut unknown = gfx942.clone();
    unknown[48] = 0xf0;
    assert!(matches!(
        CodeObject::parse(&unknown),
        Err(CodeObjectError::UnknownProcessor(_))
    ));
    let renamed = replace(&gfx942, b"axpy.kd\0", b"axpz.kd\0");
    assert_eq!(
        CodeObject::parse(&renamed),
        Err(CodeObjectError::MissingSymbol("axpy.kd".into()))
    );
    let anonymous = replace(&gfx942, b"AMDGPU\0", b"AMDCPU\0");
    assert_eq!(
        CodeObject::parse(&anonymous),
        Err(CodeObjectError::NoMetadata)
    );
}

/// Replace every occurrence of `from` by `to`, of the same length.
fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut found = 0;
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert!(found > 0);
    bytes
}

#[test]
fn no_truncation_and_no_flipped_byte_panics() {
    for version in [5, 6] {
        let whole = object(Target::Gfx1100, version);
        let memory = Memory::new(1 << 30);
        for length in 0..whole.len() {
            assert!(
                CodeObject::parse(&whole[..length]).is_err(),
                "{length} bytes of {}",
                whole.len()
            );
        }
        let mut numbers = Random::new(u64::from(version));
        let mut random = |below: usize| numbers.below(below);
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(4) {
                // Half of the flips hit the headers, where they hurt most.
                let at = if random(2) == 0 {
                    random(0x700)
                } else {
                    random(bytes.len())
                };
                bytes[at] ^= 1 << random(8);
            }
            match CodeObject::parse(&bytes) {
                Ok(object) => {
                    accepted += 1;
                    if let Ok(loaded) = Arc::new(object).load(&memory) {
                        memory.free(loaded.allocation).unwrap();
                    }
                }
                Err(_) => refused += 1,
            }
        }
        assert!(
            accepted > 100 && refused > 100,
            "{accepted} accepted, {refused} refused"
        );
    }
}

#[test]
fn bundles_plain_and_compressed() {
    let targets = [Target::Gfx942, Target::Gfx1100];
    for compressed in [false, true] {
        let archs = targets.map(|target| target.name());
        let bytes = compile(SOURCE, &Compile::bundle(&archs).compressed(compressed));
        assert!(bundle::is_bundle(&bytes));
        for target in targets {
            let object = CodeObject::parse_for(&bytes, target).unwrap();
            assert_eq!(object.target, target);
            assert!(object.kernel("axpy").is_some());
        }
        let error = CodeObject::parse_for(&bytes, Target::Gfx1201)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("gfx1201") && error.contains("gfx942") && error.contains("gfx1100"),
            "{error}"
        );
        let size = bundle::size_of_image(|at, count| part(&bytes, at, count)).unwrap();
        assert!(
            size <= bytes.len() && CodeObject::parse_for(&bytes[..size], Target::Gfx1100).is_ok()
        );
        for length in (0..bytes.len()).step_by(if compressed { 7 } else { 61 }) {
            if let Ok(object) = CodeObject::parse_for(&bytes[..length], Target::Gfx1100) {
                // Only what follows the entry may be missing.
                assert!(!compressed && object.kernel("axpy").is_some());
            }
        }
    }
    let elf = object(Target::Gfx1100, 5);
    let size = bundle::size_of_image(|at, count| part(&elf, at, count));
    assert_eq!(size.unwrap(), elf.len());
    for none in [&b"garbage!"[..], b"\x7fELF and then nothing"] {
        assert!(bundle::size_of_image(|at, count| part(none, at, count)).is_err());
    }
}

/// Some bytes of an image, or an error where it ends before them.
fn part(image: &[u8], at: u64, count: usize) -> Result<Vec<u8>, CodeObjectError> {
    let bytes = image.get(at as usize..).and_then(|rest| rest.get(..count));
    let ends = || CodeObjectError::Malformed("it ends before that".into());
    bytes.map(<[u8]>::to_vec).ok_or_else(ends)
}

#[test]
fn qualifiers_of_bundle_entries_are_ignored() {
    let mut options = Compile::bundle(&[]);
    options.archs = vec!["gfx942:sramecc+:xnack-".into()];
    let bytes = compile(SOURCE, &options);
    assert_eq!(
        CodeObject::parse_for(&bytes, Target::Gfx942)
            .unwrap()
            .target,
        Target::Gfx942
    );
}

/// A code object of a generic target, as clang writes it.
fn generic(target: Generic) -> Vec<u8> {
    let mut how = Compile::device("gfx1100").version(6);
    how.archs = vec![target.name().into()];
    compile(SOURCE, &how)
}

/// `e_flags`, and `e_ident[EI_ABIVERSION]`.
fn set_header(object: &mut [u8], flags: u32, abi_version: u8) {
    object[48..52].copy_from_slice(&flags.to_le_bytes());
    object[8] = abi_version;
}

/// By AMD's rules: the code of a generic target is for its members alone, in code object version 6, with a version of the
/// generic target.
#[test]
fn generic_code_is_for_its_members() {
    for target in [Generic::Gfx10_3, Generic::Gfx11, Generic::Gfx12] {
        let object = generic(target);
        for gpu in Target::all() {
            let parsed = CodeObject::parse_for(&object, gpu);
            if gpu.facts().generic == Some(target) {
                let parsed = parsed.unwrap();
                assert_eq!((parsed.target, parsed.version), (gpu, 6));
                assert!(parsed.kernels.iter().all(|kernel| kernel.target == gpu));
            } else {
                assert_eq!(
                    parsed.unwrap_err(),
                    CodeObjectError::WrongTarget {
                        expected: gpu,
                        found: target.name().into()
                    }
                );
            }
        }
        assert!(target
            .members()
            .any(|gpu| gpu == CodeObject::parse(&object).unwrap().target));
        let member = target.members().next().unwrap();
        for (generic_version, abi_version, version) in [(0, 4, 6), (1, 3, 5)] {
            let mut wrong = object.clone();
            let flags = target.elf_machine() | generic_version << 24;
            set_header(&mut wrong, flags, abi_version);
            assert_eq!(
                CodeObject::parse_for(&wrong, member).unwrap_err(),
                CodeObjectError::GenericVersion {
                    generic: target.name(),
                    version,
                    generic_version
                }
            );
        }
        // A later version of the target, and the code made out as a member's own, which others then refuse.
        let mut later = object.clone();
        set_header(&mut later, target.elf_machine() | 2 << 24, 4);
        assert_eq!(
            CodeObject::parse_for(&later, member).unwrap().target,
            member
        );
        let mut own = object.clone();
        set_header(&mut own, member.elf_machine(), 3);
        let parsed = CodeObject::parse_for(&own, member).unwrap();
        assert_eq!((parsed.target, parsed.version), (member, 5));
        let other = target.members().last().unwrap();
        assert!(matches!(
            CodeObject::parse_for(&own, other),
            Err(CodeObjectError::WrongTarget { .. })
        ));
    }
}

#[test]
fn a_bundles_own_entry_comes_before_the_generic_one() {
    let mut how = Compile::bundle(&["gfx1100"]).version(6);
    how.archs = vec!["gfx1100".into(), "gfx11-generic".into()];
    let bundle = compile(SOURCE, &how);
    for (gpu, flags) in [
        (Target::Gfx1100, Target::Gfx1100.elf_machine()),
        (Target::Gfx1151, Generic::Gfx11.elf_machine()),
    ] {
        let object = bundle::select(&bundle, gpu).unwrap();
        assert_eq!(u32::from(object[48]), flags, "{gpu}");
        assert_eq!(CodeObject::parse_for(&bundle, gpu).unwrap().target, gpu);
    }
    assert!(matches!(
        bundle::select(&bundle, Target::Gfx1201),
        Err(CodeObjectError::NotInBundle { .. })
    ));
}

/// The linker puts the notes of several objects one after the other.
#[test]
fn every_metadata_note_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let objects = ["first", "second", "third"].map(|name| {
        let source = folder.path().join(format!("{name}.c"));
        let kernel = format!(
            "__attribute__((amdgpu_kernel, visibility(\"protected\"))) void {name}(int *x) {{ *x = 1; }}"
        );
        std::fs::write(&source, kernel).unwrap();
        let object = source.with_extension("o");
        run(Command::new(&toolchain().clang)
            .args(["-x", "c", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100"])
            .args(["-nogpulib", "-O1", "-c", "-o"])
            .args([&object, &source]));
        object
    });
    let linked = folder.path().join("linked");
    run(Command::new(&Tools::find().lld)
        .args(["-shared", "-o"])
        .arg(&linked)
        .args(&objects));
    let object = CodeObject::parse(&std::fs::read(linked).unwrap()).unwrap();
    let mut names: Vec<&str> = object.kernels.iter().map(|k| k.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["first", "second", "third"]);
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
