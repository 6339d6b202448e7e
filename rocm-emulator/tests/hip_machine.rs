//! The machine that the environment describes: memory sizes, hidden GPUs, GPUs that pass for others.

use std::ptr::null_mut;

use candle_rocm_testing::hip::{compile, Compile};
use candle_rocm_testing::process::alone;
use rocm_emulator::hip::abi::types::*;
use rocm_emulator::hip::{abi, last_fault, Code};

#[macro_use]
mod hip_support;
use hip_support::*;

const MIB: usize = 1 << 20;

/// Free and total bytes of the current device.
fn memory() -> (usize, usize) {
    let (mut free, mut total) = (0, 0);
    ok!(hipMemGetInfo(&mut free, &mut total));
    (free, total)
}

#[test]
fn each_card_has_the_memory_that_it_is_given() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx1151,gfx1100"),
        ("ROCM_EMU_MEMORY", "512MiB,1GiB"),
    ];
    alone(
        "each_card_has_the_memory_that_it_is_given",
        &variables,
        || {
            for (device, bytes) in [(0, 512 * MIB), (1, 1024 * MIB)] {
                ok!(hipSetDevice(device));
                assert_eq!(memory(), (bytes, bytes));
                // SAFETY: integers, characters and pointers.
                let mut properties: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
                ok!(hipGetDevicePropertiesR0600(&mut properties, device));
                assert_eq!(properties.totalGlobalMem, bytes);
                let mut total = 0;
                ok!(hipDeviceTotalMem(&mut total, device));
                assert_eq!(total, bytes);
                let most = malloc(bytes - 64 * MIB);
                assert_eq!(memory().0, 64 * MIB);
                let mut more = null_mut();
                fails!(OutOfMemory, hipMalloc(&mut more, 65 * MIB));
                ok!(hipFree(most));
                assert_eq!(memory().0, bytes);
            }
        },
    );
}

#[test]
fn one_size_is_that_of_every_card() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx942,gfx1100"),
        ("ROCM_EMU_MEMORY", "64 MiB"),
    ];
    alone("one_size_is_that_of_every_card", &variables, || {
        for device in [0, 1] {
            ok!(hipSetDevice(device));
            assert_eq!(memory().1, 64 * MIB);
        }
    });
}

#[test]
fn sizes_that_do_not_fit_the_cards_are_refused() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx942"),
        ("ROCM_EMU_MEMORY", "1GiB,2GiB"),
    ];
    alone(
        "sizes_that_do_not_fit_the_cards_are_refused",
        &variables,
        || {
            fails!(NoDevice, hipInit(0));
            let fault = last_fault().unwrap();
            assert!(fault.contains("2 sizes for 1 devices"), "{fault}");
        },
    );
}

/// The processors of the GPUs that the process sees, as HIP says them, and their PCI buses.
fn seen() -> Vec<(String, i32)> {
    let mut count = 0;
    ok!(hipGetDeviceCount(&mut count));
    let describe = |device| {
        // SAFETY: integers, characters and pointers.
        let mut properties: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
        ok!(hipGetDevicePropertiesR0600(&mut properties, device));
        (string(&properties.gcnArchName), properties.pciBusID)
    };
    (0..count).map(describe).collect()
}

#[test]
fn visible_devices_are_those_that_the_variables_name() {
    const TEST: &str = "visible_devices_are_those_that_the_variables_name";
    let all = [
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
    ];
    // ROCr's list, HIP's, CUDA's; what is seen. HIP's numbers count what ROCr left; CUDA's list is HIP's second choice.
    for (values, expected) in [
        (["", "1", ""], "gfx1100@4"),
        (["", "", "2"], "gfx1201@5"),
        (["", "0", "2"], "gfx1036@3"),
        (["", "2,0", ""], "gfx1201@5 gfx1036@3"),
        (["1,2", "1", ""], "gfx1201@5"),
        (["GPU-00000000e0000002", "", ""], "gfx1100@4"),
    ] {
        let mut variables = vec![
            ("ROCM_EMU_ARCH", "gfx1036,gfx1100,gfx1201"),
            ("EXPECTED", expected),
        ];
        variables.extend(all.into_iter().zip(values));
        alone(TEST, &variables, || {
            let seen = seen()
                .into_iter()
                .map(|(arch, bus)| format!("{arch}@{bus}"));
            let seen: Vec<String> = seen.collect();
            assert_eq!(seen.join(" "), std::env::var("EXPECTED").unwrap());
        });
    }
}

#[test]
fn no_device_is_left_where_all_are_hidden() {
    let variables = [("ROCM_EMU_ARCH", "gfx1100"), ("HIP_VISIBLE_DEVICES", "-1")];
    alone("no_device_is_left_where_all_are_hidden", &variables, || {
        let mut count = 7;
        fails!(NoDevice, hipGetDeviceCount(&mut count));
        let fault = last_fault().unwrap();
        assert!(
            fault.contains("HIP_VISIBLE_DEVICES=-1 hides every GPU"),
            "{fault}"
        );
    });
}

#[test]
fn a_gpu_passes_for_another() {
    let variables = [
        ("ROCM_EMU_ARCH", "gfx1031,gfx1100,gfx1100"),
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0"),
        ("HSA_OVERRIDE_GFX_VERSION_2", "9.0.0"),
    ];
    alone("a_gpu_passes_for_another", &variables, || {
        let names: Vec<String> = seen().into_iter().map(|(arch, _)| arch).collect();
        assert_eq!(names, ["gfx1030", "gfx900", "gfx1030"]);
        // The driver's names are the GPUs' own.
        let cards = rocm_emulator::hip::cards();
        let own: Vec<&str> = cards.iter().map(|card| card.processor).collect();
        assert_eq!(own, ["gfx1031", "gfx1100", "gfx1100"]);
        assert_eq!((cards[0].node, cards[0].pci_bus), (1, 3));
        let code = compile(
            "extern \"C\" __attribute__((global)) void nothing() {}",
            &Compile::device("gfx1030"),
        );
        // Of the three GPUs, the first has gfx1030's instructions.
        let load = |device| {
            ok!(hipSetDevice(device));
            let mut module = null_mut();
            // SAFETY: a code object says its own size.
            unsafe { abi::hipModuleLoadData(&mut module, code.as_ptr().cast()) }
        };
        assert_eq!([0, 1, 2].map(load), [0, 209, 209]);
        let fault = last_fault().unwrap();
        assert!(fault.contains("gfx1100 passes for gfx1030"), "{fault}");
    });
}
