//! The GPUs: one row each.

use std::fmt;
use std::str::FromStr;

use crate::generic::{Generic, ELF_MACHINE};
use crate::{Architecture, Family, Unit};

/// What memory a product has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Two transfers in a cycle of the memory clock.
    Hbm2,
    /// Four.
    Hbm3,
    /// Sixteen.
    Gddr6,
    /// The computer's own: two.
    Shared,
}

/// A product's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it is.
    pub kind: MemoryKind,
    /// As HIP reports it.
    pub clock_mhz: u32,
    /// Width of the bus.
    pub bus_bits: u32,
}

impl Memory {
    /// Bytes that it moves at most, in 10^6 a second.
    pub fn megabytes_per_second(&self) -> u64 {
        let transfers = match self.kind {
            MemoryKind::Hbm2 | MemoryKind::Shared => 2,
            MemoryKind::Hbm3 => 4,
            MemoryKind::Gddr6 => 16,
        };
        u64::from(self.clock_mhz) * transfers * u64::from(self.bus_bits) / 8
    }
}

/// One product: the one that the emulator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// As the driver reports it.
    pub name: &'static str,
    /// Compute units; of a product with two GPUs, those of one.
    pub compute_units: u32,
    /// XCDs (XCDs) over which workgroups are dealt out, each with a second-level cache.
    pub xcds: u32,
    /// Highest engine clock.
    pub clock_mhz: u32,
    /// Its memory.
    pub memory: Memory,
    /// KiB of one second-level cache.
    pub l2_kib: u32,
    /// MiB of the cache between that and memory (Infinity Cache, MALL); 0 where there is none.
    pub infinity_cache_mib: u32,
    /// Device id; the vendor is 0x1002.
    pub pci_id: u32,
}

/// What is known of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which one.
    pub gpu: Gpu,
    /// LLVM's name of the processor, such as `gfx1100`.
    pub name: &'static str,
    /// Its generation.
    pub architecture: Architecture,
    /// `EF_AMDGPU_MACH` of code for it alone.
    pub elf_machine: u32,
    /// The generic target whose code it runs, too.
    pub generic: Option<Generic>,
    /// 32-bit vector registers of a lane, for all wavefronts of a SIMD; those for accumulation included where they are
    /// unified.
    pub vgprs: u32,
    /// What HIP adds to the name: the state of features that code can be compiled for, ECC on and XNACK off.
    pub qualifiers: &'static str,
    /// The largest product.
    pub product: Product,
    /// Products with it, as shops call them.
    pub cards: &'static [&'static str],
}

/// What HIP adds on GPUs with ECC and with page faults that can be resumed.
const ECC: &str = ":sramecc+:xnack-";

const fn memory(kind: MemoryKind, clock_mhz: u32, bus_bits: u32) -> Memory {
    Memory {
        kind,
        clock_mhz,
        bus_bits,
    }
}

/// Declares [`Gpu`] and its table from one list.
macro_rules! gpus {
    ($($gpu:ident $name:literal $architecture:ident $elf:literal $generic:expr, $vgprs:literal $qualifiers:expr;
        $product:literal, $units:literal CUs / $xcds:literal, $clock:literal MHz,
        $memory:ident $memory_clock:literal MHz $bus:literal bits,
        $l2:literal KiB, $infinity:literal MiB, $pci:literal;
        $($card:literal),*;)*) => {
        /// A GPU, by LLVM's name of its processor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Gpu {
            $($gpu),*
        }

        const GPUS: &[Facts] = &[$(Facts {
            gpu: Gpu::$gpu,
            name: $name,
            architecture: Architecture::$architecture,
            elf_machine: $elf,
            generic: $generic,
            vgprs: $vgprs,
            qualifiers: $qualifiers,
            product: Product {
                name: $product,
                compute_units: $units,
                xcds: $xcds,
                clock_mhz: $clock,
                memory: memory(MemoryKind::$memory, $memory_clock, $bus),
                l2_kib: $l2,
                infinity_cache_mib: $infinity,
                pci_id: $pci,
            },
            cards: &[$($card),*],
        }),*];
    };
}

// Sources. ELF machines, generic targets, features: LLVM 20's AMDGPUUsage ("AMDGPU Processors", "AMDGPU Generic
// Processors", EF_AMDGPU_MACH). Vector registers: LLVM's AMDGPUBaseInfo (getTotalNumVGPRs) and the feature 1_5xVGPRs;
// AMD's "GPU specifications" (ROCm documentation) has the same as KiB. Compute units, caches, targets of the products:
// the latter. Not looked up, but as generally published: the same of products that it does not list (gfx1033 to
// gfx1036, gfx1153), clocks, memory, PCI ids.
gpus! {
    Gfx906 "gfx906" Vega20 0x2f Some(Generic::Gfx9), 256 ECC;
        "AMD Instinct MI60", 64 CUs / 1, 1_800 MHz, Hbm2 1_000 MHz 4096 bits, 4096 KiB, 0 MiB, 0x66a1;
        "Instinct MI50", "Instinct MI60", "Radeon VII", "Radeon Pro VII";
    Gfx908 "gfx908" Cdna1 0x30 None, 256 ECC;
        "AMD Instinct MI100", 120 CUs / 1, 1_502 MHz, Hbm2 1_200 MHz 4096 bits, 8192 KiB, 0 MiB, 0x738c;
        "Instinct MI100";
    Gfx90a "gfx90a" Cdna2 0x3f None, 512 ECC;
        "AMD Instinct MI250X", 110 CUs / 1, 1_700 MHz, Hbm2 1_600 MHz 4096 bits, 8192 KiB, 0 MiB, 0x7408;
        "Instinct MI210", "Instinct MI250", "Instinct MI250X";
    Gfx942 "gfx942" Cdna3 0x4c Some(Generic::Gfx9_4), 512 ECC;
        "AMD Instinct MI300X", 304 CUs / 8, 2_100 MHz, Hbm3 1_300 MHz 8192 bits, 4096 KiB, 256 MiB, 0x74a1;
        "Instinct MI300A", "Instinct MI300X", "Instinct MI325X";
    Gfx950 "gfx950" Cdna4 0x4f Some(Generic::Gfx9_4), 512 ECC;
        "AMD Instinct MI355X", 256 CUs / 8, 2_400 MHz, Hbm3 2_000 MHz 8192 bits, 4096 KiB, 256 MiB, 0x75a3;
        "Instinct MI350X", "Instinct MI355X";
    Gfx1030 "gfx1030" Rdna2 0x36 Some(Generic::Gfx10_3), 1024 "";
        "AMD Radeon RX 6900 XT", 80 CUs / 1, 2_250 MHz, Gddr6 1_000 MHz 256 bits, 4096 KiB, 128 MiB, 0x73bf;
        "Radeon RX 6800", "Radeon RX 6800 XT", "Radeon RX 6900 XT", "Radeon RX 6950 XT", "Radeon PRO W6800",
        "Radeon PRO V620";
    Gfx1031 "gfx1031" Rdna2 0x37 Some(Generic::Gfx10_3), 1024 "";
        "AMD Radeon RX 6700 XT", 40 CUs / 1, 2_581 MHz, Gddr6 1_000 MHz 192 bits, 3072 KiB, 96 MiB, 0x73df;
        "Radeon RX 6700", "Radeon RX 6700 XT", "Radeon RX 6750 XT";
    Gfx1032 "gfx1032" Rdna2 0x38 Some(Generic::Gfx10_3), 1024 "";
        "AMD Radeon RX 6600 XT", 32 CUs / 1, 2_589 MHz, Gddr6 1_000 MHz 128 bits, 2048 KiB, 32 MiB, 0x73ff;
        "Radeon RX 6600", "Radeon RX 6600 XT", "Radeon RX 6650 XT", "Radeon PRO W6600";
    Gfx1033 "gfx1033" Rdna2 0x39 Some(Generic::Gfx10_3), 1024 "";
        "AMD Custom GPU 0405", 8 CUs / 1, 1_600 MHz, Shared 2_750 MHz 128 bits, 1024 KiB, 0 MiB, 0x163f;
        "Steam Deck";
    Gfx1034 "gfx1034" Rdna2 0x3e Some(Generic::Gfx10_3), 1024 "";
        "AMD Radeon RX 6500 XT", 16 CUs / 1, 2_815 MHz, Gddr6 1_125 MHz 64 bits, 1024 KiB, 16 MiB, 0x743f;
        "Radeon RX 6400", "Radeon RX 6500 XT", "Radeon PRO W6400";
    Gfx1035 "gfx1035" Rdna2 0x3d Some(Generic::Gfx10_3), 1024 "";
        "AMD Radeon 680M", 12 CUs / 1, 2_400 MHz, Shared 3_200 MHz 128 bits, 2048 KiB, 0 MiB, 0x1681;
        "Radeon 660M", "Radeon 680M";
    Gfx1036 "gfx1036" Rdna2 0x45 Some(Generic::Gfx10_3), 1024 "";
        "AMD Radeon Graphics", 2 CUs / 1, 2_200 MHz, Shared 2_600 MHz 128 bits, 256 KiB, 0 MiB, 0x164e;
        "Radeon 610M", "the graphics of Ryzen 7000 and 9000 for desktops";
    Gfx1100 "gfx1100" Rdna3 0x41 Some(Generic::Gfx11), 1536 "";
        "AMD Radeon RX 7900 XTX", 96 CUs / 1, 2_500 MHz, Gddr6 1_250 MHz 384 bits, 6144 KiB, 96 MiB, 0x744c;
        "Radeon RX 7900 GRE", "Radeon RX 7900 XT", "Radeon RX 7900 XTX", "Radeon PRO W7800", "Radeon PRO W7900";
    Gfx1101 "gfx1101" Rdna3 0x46 Some(Generic::Gfx11), 1536 "";
        "AMD Radeon RX 7800 XT", 60 CUs / 1, 2_430 MHz, Gddr6 1_219 MHz 256 bits, 4096 KiB, 64 MiB, 0x747e;
        "Radeon RX 7700", "Radeon RX 7700 XT", "Radeon RX 7800 XT", "Radeon PRO W7700", "Radeon PRO V710";
    Gfx1102 "gfx1102" Rdna3 0x47 Some(Generic::Gfx11), 1024 "";
        "AMD Radeon RX 7600", 32 CUs / 1, 2_655 MHz, Gddr6 1_125 MHz 128 bits, 2048 KiB, 32 MiB, 0x7480;
        "Radeon RX 7600", "Radeon RX 7600 XT", "Radeon PRO W7500", "Radeon PRO W7600";
    Gfx1103 "gfx1103" Rdna3 0x44 Some(Generic::Gfx11), 1024 "";
        "AMD Radeon 780M", 12 CUs / 1, 2_700 MHz, Shared 2_800 MHz 128 bits, 2048 KiB, 0 MiB, 0x15bf;
        "Radeon 740M", "Radeon 760M", "Radeon 780M";
    Gfx1150 "gfx1150" Rdna3_5 0x43 Some(Generic::Gfx11), 1024 "";
        "AMD Radeon 890M", 16 CUs / 1, 2_900 MHz, Shared 3_750 MHz 128 bits, 2048 KiB, 0 MiB, 0x150e;
        "Radeon 880M", "Radeon 890M";
    Gfx1151 "gfx1151" Rdna3_5 0x4a Some(Generic::Gfx11), 1536 "";
        "AMD Radeon 8060S", 40 CUs / 1, 2_900 MHz, Shared 4_000 MHz 256 bits, 2048 KiB, 32 MiB, 0x1586;
        "Radeon 8040S", "Radeon 8050S", "Radeon 8060S";
    Gfx1152 "gfx1152" Rdna3_5 0x55 Some(Generic::Gfx11), 1024 "";
        "AMD Radeon 860M", 8 CUs / 1, 3_000 MHz, Shared 4_000 MHz 128 bits, 1024 KiB, 0 MiB, 0x1114;
        "Radeon 840M", "Radeon 860M";
    Gfx1153 "gfx1153" Rdna3_5 0x58 Some(Generic::Gfx11), 1024 "";
        "AMD Radeon 840M", 4 CUs / 1, 2_900 MHz, Shared 4_000 MHz 128 bits, 512 KiB, 0 MiB, 0x1902;
        "Radeon 820M", "Radeon 840M";
    Gfx1200 "gfx1200" Rdna4 0x48 Some(Generic::Gfx12), 1536 "";
        "AMD Radeon RX 9060 XT", 32 CUs / 1, 3_130 MHz, Gddr6 1_258 MHz 128 bits, 4096 KiB, 32 MiB, 0x7590;
        "Radeon RX 9060", "Radeon RX 9060 XT";
    Gfx1201 "gfx1201" Rdna4 0x4e Some(Generic::Gfx12), 1536 "";
        "AMD Radeon RX 9070 XT", 64 CUs / 1, 2_970 MHz, Gddr6 1_258 MHz 256 bits, 8192 KiB, 64 MiB, 0x7550;
        "Radeon RX 9070 GRE", "Radeon RX 9070", "Radeon RX 9070 XT", "Radeon AI PRO R9600D", "Radeon AI PRO R9700";
}

impl Gpu {
    /// Every GPU, in the order of the table.
    pub fn all() -> impl Iterator<Item = Gpu> {
        GPUS.iter().map(|facts| facts.gpu)
    }

    /// What is known of it.
    pub fn facts(self) -> &'static Facts {
        &GPUS[self as usize]
    }

    /// LLVM's name of the processor, such as `gfx1100`.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Its generation.
    pub fn architecture(self) -> Architecture {
        self.facts().architecture
    }

    /// Its instruction encodings.
    pub fn family(self) -> Family {
        self.architecture().family()
    }

    /// What HIP counts as one of its multiprocessors.
    pub fn unit(self) -> &'static Unit {
        self.architecture().unit()
    }

    /// `EF_AMDGPU_MACH` in the ELF header's flags of code for it alone.
    pub fn elf_machine(self) -> u32 {
        self.facts().elf_machine
    }

    /// Lanes in a wavefront as our kernels are compiled.
    pub fn wavefront_size(self) -> u32 {
        self.unit().wavefront
    }

    /// What HIP counts as multiprocessors of its [`Product`].
    pub fn multiprocessors(self) -> u32 {
        self.facts().product.compute_units / self.unit().compute_units
    }

    /// Multiprocessors that share a second-level cache, where it has several of those.
    pub fn multiprocessors_of_xcd(self) -> Option<u32> {
        let xcds = self.facts().product.xcds;
        (xcds > 1).then(|| self.multiprocessors() / xcds)
    }

    /// Vector registers are given out in multiples of this (LLVM's AMDGPUBaseInfo, getVGPRAllocGranule).
    pub fn vgpr_granule(self) -> u32 {
        vgpr_granule(self.facts().vgprs)
    }

    /// `gcnArchName` of HIP: the processor with its features.
    pub fn hip_name(self) -> String {
        let facts = self.facts();
        format!("{}{}", facts.name, facts.qualifiers)
    }

    /// Major, minor and stepping: the digits of the name, of which the last is hexadecimal.
    pub fn version(self) -> (u32, u32, u32) {
        let digits = self.name().trim_start_matches("gfx");
        let (major, rest) = digits.split_at(digits.len() - 2);
        let digit = |at: usize| u32::from_str_radix(&rest[at..=at], 16).unwrap_or_default();
        (major.parse().unwrap_or_default(), digit(0), digit(1))
    }

    /// The GPU that an ELF header's `e_flags` name, if it is in the table. Generic targets are none.
    pub fn from_elf_flags(flags: u32) -> Option<Gpu> {
        Gpu::all().find(|gpu| gpu.elf_machine() == flags & ELF_MACHINE)
    }
}

/// What a file of so many registers is given out in.
pub(crate) fn vgpr_granule(vgprs: u32) -> u32 {
    match vgprs {
        1536 => 24,
        1024 => 16,
        512 => 8,
        _ => 4,
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownGpu(String);

impl fmt::Display for UnknownGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = GPUS.iter().map(|facts| facts.name).collect();
        write!(
            f,
            "unknown architecture {:?}; known are {}",
            self.0,
            known.join(", ")
        )
    }
}

impl std::error::Error for UnknownGpu {}

impl FromStr for Gpu {
    type Err = UnknownGpu;

    /// Takes a processor's name, with or without features: `gfx942` and `gfx942:sramecc+:xnack-`.
    fn from_str(name: &str) -> Result<Self, UnknownGpu> {
        let base = name.split(':').next().unwrap_or(name);
        Gpu::all()
            .find(|gpu| gpu.name() == base)
            .ok_or_else(|| UnknownGpu(name.to_owned()))
    }
}
