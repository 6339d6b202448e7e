//! Which of several code objects a GPU gets, and those of generic targets made out as if they were for it alone.
//!
//! Code for a generic target runs on each of its members as it is. What HIP makes of it is another matter: HIP knows
//! the targets' names from about ROCm 6.4 on (before, `getProcName` in its `hip_code_object.cpp` refuses them, and code
//! object version 6 with them), and lists of members in later releases lack GPUs that came after them, such as gfx1152.
//! So the header is always written as if the code were compiled for the device's own processor, which every release
//! that knows the device takes. All that HIP's and ROCR's loaders compare with the device is `e_flags`, read by the ABI
//! version in `e_ident`; kernel descriptors and metadata are the same in code object versions 5 and 6, and neither
//! loader reads the target that the metadata names as text.

use rocm_gpus::{Generic, Gpu};

/// `e_ident[EI_CLASS]`, `e_ident[EI_DATA]`: 64 bits, little-endian.
const CLASS_AND_DATA: (usize, [u8; 2]) = (4, [2, 1]);
/// `e_ident[EI_ABIVERSION]`.
const ABI_VERSION: usize = 8;
/// `e_machine`, and its value for AMD GPUs.
const MACHINE: (usize, [u8; 2]) = (18, [224, 0]);
/// `e_flags`.
const FLAGS: std::ops::Range<usize> = 48..52;
/// ABI versions of code object versions 5 and 6.
const VERSION_5: u8 = 3;
const VERSION_6: u8 = 4;
/// Bits of `e_flags`: `EF_AMDGPU_MACH`, and the generic target's version.
const PROCESSOR: u32 = 0xff;
const GENERIC_VERSION: u32 = 0xff00_0000;

/// The code object, decompressed, that `arch` runs, of these (GPU or generic target, zstd frame): its own; else that of
/// the generic target which covers it, with `arch` in its header. `None` where there is neither.
///
/// # Errors
/// In words, if the bytes are damaged.
pub fn object_for(objects: &[(&str, &[u8])], arch: &str) -> Option<Result<Vec<u8>, String>> {
    let unpacked = |frame: &[u8]| zstd::decode_all(frame).map_err(|error| error.to_string());
    let object_of = |target: &str| objects.iter().find(|(name, _)| *name == target);
    if let Some((_, frame)) = object_of(arch) {
        return Some(unpacked(frame));
    }
    let gpu = arch.parse::<Gpu>().ok()?;
    let (_, frame) = object_of(gpu.facts().generic?.name())?;
    Some(unpacked(frame).and_then(|mut code| {
        retarget(&mut code, gpu)?;
        Ok(code)
    }))
}

/// Writes `gpu` as the target into the header of a code object that was compiled for a generic target which covers it.
///
/// # Errors
/// In words, if the bytes are no such code object.
fn retarget(code: &mut [u8], gpu: Gpu) -> Result<(), String> {
    let has = |at: usize, bytes: [u8; 2]| code.get(at..at + 2) == Some(&bytes);
    let is_code_object = code.starts_with(b"\x7fELF")
        && has(CLASS_AND_DATA.0, CLASS_AND_DATA.1)
        && has(MACHINE.0, MACHINE.1);
    let flags = code
        .get(FLAGS)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_le_bytes);
    let (Some(flags), true) = (flags, is_code_object) else {
        return Err("it is no ELF file for AMD GPUs".to_owned());
    };
    let generic = Generic::from_elf_flags(flags);
    if generic.is_none() || generic != gpu.facts().generic || code[ABI_VERSION] != VERSION_6 {
        return Err(format!(
            "its header (flags {flags:#x}, ABI version {}) is not that of code for a generic target that covers {gpu}",
            code[ABI_VERSION]
        ));
    }
    let flags = flags & !(PROCESSOR | GENERIC_VERSION) | gpu.elf_machine();
    code[FLAGS].copy_from_slice(&flags.to_le_bytes());
    code[ABI_VERSION] = VERSION_5;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header as clang writes it for `gfx11-generic`.
    fn header() -> [u8; 64] {
        let mut header = [0; 64];
        header[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x04");
        header[18] = 224;
        header[FLAGS].copy_from_slice(&0x0100_0054u32.to_le_bytes());
        header
    }

    #[test]
    fn a_member_gets_its_own_header() {
        for gpu in Generic::Gfx11.members() {
            let mut code = header();
            retarget(&mut code, gpu).expect("a member");
            assert_eq!(code[FLAGS], gpu.elf_machine().to_le_bytes(), "{gpu}");
            assert_eq!(code[ABI_VERSION], VERSION_5);
            // Nothing else changed.
            code[FLAGS].copy_from_slice(&header()[FLAGS]);
            code[ABI_VERSION] = VERSION_6;
            assert_eq!(code, header());
        }
    }

    #[test]
    fn others_are_refused() {
        for gpu in Gpu::all().filter(|gpu| gpu.facts().generic != Some(Generic::Gfx11)) {
            let mut code = header();
            retarget(&mut code, gpu).expect_err("no member");
            assert_eq!(code, header());
        }
        let damage: [fn(&mut [u8; 64]); 4] = [
            |code| code[0] = 0,
            |code| code[18] = 62,
            |code| code[ABI_VERSION] = VERSION_5,
            |code| code[48] = 0x41,
        ];
        for damage in damage {
            let mut code = header();
            damage(&mut code);
            retarget(&mut code, Gpu::Gfx1100).expect_err("no generic code object");
        }
        retarget(&mut header()[..40], Gpu::Gfx1100).expect_err("too short");
    }
}
