//! The machine that the environment describes: memory sizes.

use std::ptr::null_mut;

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
