//! The table agrees with itself, and with figures that AMD publishes.

use std::collections::BTreeSet;

use rocm_gpus::{Architecture, CodeTarget, Generic, Gpu, MatrixUnit, Rates};

#[test]
fn names_and_machines_are_unique() {
    let mut seen = BTreeSet::new();
    for gpu in Gpu::all() {
        assert_eq!(gpu.facts().gpu, gpu);
        assert_eq!(gpu.hip_name().parse(), Ok(gpu));
        assert_eq!(Gpu::from_elf_flags(gpu.elf_machine() | 0x500), Some(gpu));
        assert!(seen.insert(gpu.elf_machine()), "{gpu}");
    }
    for generic in Generic::ALL {
        assert_eq!(
            generic.name().parse(),
            Ok(CodeTarget::Generic(generic)),
            "{generic}"
        );
        assert_eq!(
            Generic::from_elf_flags(generic.elf_machine() | 0x0100_0000),
            Some(generic)
        );
        assert!(seen.insert(generic.elf_machine()), "{generic}");
        assert!(generic.members().count() > 0, "{generic}");
    }
    assert!("gfx9999".parse::<Gpu>().is_err());
    assert!("gfx11".parse::<CodeTarget>().is_err());
}

#[test]
fn versions_are_the_names_digits() {
    for (name, version) in [
        ("gfx90a", (9, 0, 10)),
        ("gfx942", (9, 4, 2)),
        ("gfx1036", (10, 3, 6)),
        ("gfx1151", (11, 5, 1)),
        ("gfx1201", (12, 0, 1)),
    ] {
        let gpu: Gpu = name.parse().expect("in the table");
        assert_eq!(gpu.version(), version);
    }
}

#[test]
fn generic_targets_share_encodings_and_what_hip_counts() {
    for generic in Generic::ALL {
        let target = CodeTarget::Generic(generic);
        for gpu in generic.members() {
            assert_eq!(gpu.family(), target.family(), "{gpu}");
            assert_eq!(gpu.wavefront_size(), target.unit().wavefront, "{gpu}");
            assert!(target.vgprs() <= gpu.facts().vgprs, "{gpu}");
            assert!(target.covers(gpu));
        }
    }
    assert_eq!(CodeTarget::Generic(Generic::Gfx11).vgprs(), 1024);
    assert_eq!(CodeTarget::Generic(Generic::Gfx12).vgprs(), 1536);
    assert!(!CodeTarget::Generic(Generic::Gfx12).covers(Gpu::Gfx1100));
}

/// KiB of registers of a compute unit, or workgroup processor, in AMD's "GPU specifications".
#[test]
fn register_files_are_as_amd_publishes_them() {
    for (gpu, kib) in [
        (Gpu::Gfx906, 256),
        (Gpu::Gfx90a, 512),
        (Gpu::Gfx942, 512),
        (Gpu::Gfx950, 512),
        (Gpu::Gfx1030, 512),
        (Gpu::Gfx1032, 512),
        (Gpu::Gfx1100, 768),
        (Gpu::Gfx1101, 768),
        (Gpu::Gfx1102, 512),
        (Gpu::Gfx1103, 512),
        (Gpu::Gfx1150, 512),
        (Gpu::Gfx1151, 768),
        (Gpu::Gfx1152, 512),
        (Gpu::Gfx1200, 768),
        (Gpu::Gfx1201, 768),
    ] {
        let unit = gpu.unit();
        let bytes = gpu.facts().vgprs * unit.simds * unit.wavefront * 4;
        assert_eq!(bytes >> 10, kib, "{gpu}");
        assert_eq!(gpu.facts().vgprs % gpu.vgpr_granule(), 0, "{gpu}");
    }
}

/// GB/s in AMD's data sheets.
#[test]
fn bandwidths_are_as_amd_publishes_them() {
    for (gpu, gigabytes) in [
        (Gpu::Gfx906, 1024),
        (Gpu::Gfx908, 1229),
        (Gpu::Gfx90a, 1638),
        (Gpu::Gfx942, 5325),
        (Gpu::Gfx950, 8192),
        (Gpu::Gfx1030, 512),
        (Gpu::Gfx1031, 384),
        (Gpu::Gfx1032, 256),
        (Gpu::Gfx1034, 144),
        (Gpu::Gfx1100, 960),
        (Gpu::Gfx1101, 624),
        (Gpu::Gfx1102, 288),
        (Gpu::Gfx1151, 256),
        (Gpu::Gfx1200, 322),
        (Gpu::Gfx1201, 644),
    ] {
        let found = gpu.facts().product.memory.megabytes_per_second();
        assert!(found.abs_diff(gigabytes * 1000) < 1000, "{gpu}: {found}");
    }
}

/// Operations of the matrix unit per cycle and compute unit that AMD publishes: they follow from instructions' cycles,
/// and agree with the table's rates.
#[test]
fn peaks_follow_from_the_cycles() {
    type Rate = fn(&Rates) -> u32;
    let (f16, bf16, i8, f32, f64): (Rate, Rate, Rate, Rate, Rate) =
        (|r| r.f16, |r| r.bf16, |r| r.i8, |r| r.f32, |r| r.f64);
    // (architecture, instruction, operations of one, operations per cycle, the rate)
    let published = [
        (
            Architecture::Cdna1,
            "v_mfma_f32_32x32x8f16",
            16384,
            1024,
            f16,
        ),
        (
            Architecture::Cdna1,
            "v_mfma_f32_32x32x4bf16",
            8192,
            512,
            bf16,
        ),
        (
            Architecture::Cdna4,
            "v_mfma_f32_32x32x16_f16",
            32768,
            4096,
            f16,
        ),
        (
            Architecture::Cdna4,
            "v_mfma_i32_16x16x64_i8",
            32768,
            8192,
            i8,
        ),
        (
            Architecture::Cdna4,
            "v_mfma_f64_16x16x4_f64",
            2048,
            128,
            f64,
        ),
        (
            Architecture::Cdna2,
            "v_mfma_f32_32x32x8bf16_1k",
            16384,
            1024,
            bf16,
        ),
        (
            Architecture::Cdna2,
            "v_mfma_f32_16x16x16f16",
            8192,
            1024,
            f16,
        ),
        (Architecture::Cdna2, "v_mfma_i32_32x32x8i8", 16384, 1024, i8),
        (Architecture::Cdna2, "v_mfma_f32_32x32x2f32", 4096, 256, f32),
        (Architecture::Cdna2, "v_mfma_f64_16x16x4f64", 2048, 256, f64),
        (
            Architecture::Cdna3,
            "v_mfma_f32_32x32x8_bf16",
            16384,
            2048,
            bf16,
        ),
        (
            Architecture::Cdna3,
            "v_mfma_f32_16x16x16_f16",
            8192,
            2048,
            f16,
        ),
        (
            Architecture::Cdna3,
            "v_mfma_i32_32x32x16_i8",
            32768,
            4096,
            i8,
        ),
        (
            Architecture::Cdna3,
            "v_mfma_f32_32x32x2_f32",
            4096,
            256,
            f32,
        ),
        (
            Architecture::Cdna3,
            "v_mfma_f32_16x16x4_f32",
            2048,
            256,
            f32,
        ),
        (
            Architecture::Cdna3,
            "v_mfma_f64_16x16x4_f64",
            2048,
            256,
            f64,
        ),
        (
            Architecture::Rdna3,
            "v_wmma_f32_16x16x16_bf16",
            8192,
            512,
            bf16,
        ),
        (
            Architecture::Rdna3_5,
            "v_wmma_i32_16x16x16_iu8",
            8192,
            512,
            i8,
        ),
        (
            Architecture::Rdna4,
            "v_wmma_f32_16x16x16_f16",
            8192,
            1024,
            f16,
        ),
        (
            Architecture::Rdna4,
            "v_wmma_i32_16x16x16_iu8",
            8192,
            2048,
            i8,
        ),
    ];
    for (architecture, name, operations, peak, rate) in published {
        let unit = architecture.unit();
        let cycles = architecture
            .matrix_cycles(name)
            .expect("a matrix instruction");
        let simds = u64::from(unit.simds / unit.compute_units);
        assert_eq!(operations * simds / cycles, peak, "{architecture:?} {name}");
        let multiply_adds = u64::from(rate(&unit.matrix) / unit.compute_units);
        assert_eq!(2 * multiply_adds, peak, "{architecture:?} {name}");
    }
    assert_eq!(Architecture::Cdna3.matrix_cycles("v_fma_f32"), None);
    assert_eq!(Architecture::Rdna2.matrix_cycles("v_dot4_i32_i8"), None);
    for architecture in Architecture::ALL {
        let unit = architecture.unit();
        let has_cycles = ["v_mfma_f32_32x32x8f16", "v_wmma_f32_16x16x16_f16"]
            .iter()
            .any(|name| architecture.matrix_cycles(name).is_some());
        assert_eq!(
            has_cycles,
            unit.matrix_unit != MatrixUnit::Dot,
            "{architecture:?}"
        );
    }
}
