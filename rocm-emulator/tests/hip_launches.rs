//! HIP's functions by name, and launches beside the ordinary ones: cooperative, and with events.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use candle_rocm_testing::hip::{compile, Compile};
use rocm_emulator::hip::abi::types::*;
use rocm_emulator::hip::{abi, last_fault, Code};
use rocm_emulator::isa::Target;

#[macro_use]
mod hip_support;
use hip_support::*;

/// The version that programs compiled with HIP 6.1 ask for, flags, and what is not there.
#[test]
fn functions_are_found_by_name_and_version() {
    let _serial = device();
    let address = |name: &str| abi::symbol(name).unwrap().as_ptr();
    let (mut found, mut status) = (null_mut(), 9);
    for (name, version, flags, expected) in [
        (c"hipMalloc", 500, 0, "hipMalloc"),
        (c"hipMalloc", 70_051_831, 1, "hipMalloc"),
        (c"hipLaunchKernel", 601, 2, "hipLaunchKernel"),
        (c"hipGetDeviceProperties", 502, 0, "hipGetDeviceProperties"),
        (
            c"hipGetDeviceProperties",
            600,
            0,
            "hipGetDevicePropertiesR0600",
        ),
        (
            c"hipGetDeviceProperties",
            60_140_091,
            2,
            "hipGetDevicePropertiesR0600",
        ),
    ] {
        ok!(hipGetProcAddress(
            name.as_ptr(),
            &mut found,
            version,
            flags,
            &mut status
        ));
        assert_eq!(
            (found, status),
            (address(expected), 0),
            "{name:?} {version}"
        );
    }
    ok!(hipGetProcAddress(
        c"hipFree".as_ptr(),
        &mut found,
        601,
        0,
        null_mut()
    ));
    assert_eq!(found, address("hipFree"));
    fails!(
        InvalidValue,
        hipGetProcAddress(c"hipNone".as_ptr(), &mut found, 601, 0, &mut status)
    );
    assert_eq!((found, status), (null_mut(), 1));
    for (name, to, flags) in [
        (null(), &raw mut found, 0),
        (c"".as_ptr(), &raw mut found, 0),
        (c"hipFree".as_ptr(), null_mut(), 0),
        (c"hipFree".as_ptr(), &raw mut found, 3),
    ] {
        fails!(
            InvalidValue,
            hipGetProcAddress(name, to, 601, flags, &mut status)
        );
    }
}

const COOPERATIVE: &str = r#"
#include "hip_min.h"
extern "C" __global__ void meet(unsigned *counter, unsigned *out) {
    unsigned n = __builtin_amdgcn_grid_size_x() / blockDim_x;
    if (threadIdx_x == 0) {
        __hip_atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
        while (__hip_atomic_load(counter, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < n) __builtin_amdgcn_s_sleep(1);
    }
    __builtin_amdgcn_s_barrier();
    out[blockIdx_x] = *counter;
}
"#;

#[test]
fn cooperative_launches_are_as_large_as_the_gpu() {
    let _serial = device();
    for (ordinal, target) in [(0, Target::Gfx1100), (1, Target::Gfx942)] {
        ok!(hipSetDevice(ordinal));
        let image = compile(COOPERATIVE, &Compile::device(target.name()));
        let (mut module, mut function) = (null_mut(), null_mut());
        ok!(hipModuleLoadData(&mut module, image.as_ptr().cast()));
        ok!(hipModuleGetFunction(
            &mut function,
            module,
            c"meet".as_ptr()
        ));
        let (mut cooperative, mut units, mut blocks) = (0, 0, 0);
        ok!(hipDeviceGetAttribute(&mut cooperative, 10, ordinal));
        ok!(hipDeviceGetAttribute(&mut units, 63, ordinal));
        ok!(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function,
            1024,
            0
        ));
        assert_eq!(cooperative, 1);
        let most = (units * blocks) as u32;
        assert!(most > 50, "{most}");
        for groups in [1, 40, most] {
            let (mut counter, mut out) = (malloc(4), malloc(4 * groups as usize));
            ok!(hipMemset(counter, 0, 4));
            let mut parameters: [*mut c_void; 2] =
                [(&raw mut counter).cast(), (&raw mut out).cast()];
            let params = parameters.as_mut_ptr();
            ok!(hipModuleLaunchCooperativeKernel(
                function,
                groups,
                1,
                1,
                1024,
                1,
                1,
                0,
                null_mut(),
                params
            ));
            let want: Vec<u8> = groups.to_le_bytes().repeat(groups as usize);
            assert_eq!(download(out, want.len()), want, "{target} {groups}");
            fails!(
                CooperativeLaunchTooLarge,
                hipModuleLaunchCooperativeKernel(
                    function,
                    most,
                    2,
                    1,
                    1024,
                    1,
                    1,
                    0,
                    null_mut(),
                    params
                )
            );
            assert!(last_fault().unwrap().contains(&format!("holds {most} ")));
            fails!(
                CooperativeLaunchTooLarge,
                hipLaunchCooperativeKernel(
                    function,
                    dim3 {
                        x: most + 1,
                        y: 1,
                        z: 1
                    },
                    dim3 {
                        x: 1024,
                        y: 1,
                        z: 1
                    },
                    params,
                    0,
                    null_mut()
                )
            );
            ok!(hipFree(counter));
            ok!(hipFree(out));
        }
        ok!(hipModuleUnload(module));
    }
    ok!(hipSetDevice(0));
}

#[test]
fn launches_with_events_count_work_items() {
    let _serial = device();
    let (mut module, mut function, mut host) = (null_mut(), null_mut(), null_mut());
    ok!(hipModuleLoadData(
        &mut module,
        code(Target::Gfx1100).as_ptr().cast()
    ));
    ok!(hipModuleGetFunction(
        &mut function,
        module,
        c"scale".as_ptr()
    ));
    ok!(hipHostMalloc(&mut host, 1024, 0));
    // SAFETY: 1024 bytes that nothing else uses while the host looks at them.
    let floats = || unsafe { std::slice::from_raw_parts_mut(host.cast::<f32>(), 256) };
    floats().fill(1.0);
    let (mut pointer, mut factor, mut count) = (host, 2f32, 256i32);
    let mut parameters: [*mut c_void; 3] = [
        (&raw mut pointer).cast(),
        (&raw mut factor).cast(),
        (&raw mut count).cast(),
    ];
    let params = parameters.as_mut_ptr();
    let (s, start, stop) = (stream(), event(), event());
    let no = null_mut();
    ok!(hipExtModuleLaunchKernel(
        function, 256, 1, 1, 128, 1, 1, 0, s, params, no, start, stop, 0
    ));
    assert_eq!(floats(), [2.0; 256]);
    let mut milliseconds = -1.0;
    ok!(hipEventElapsedTime(&mut milliseconds, start, stop));
    assert!(milliseconds >= 0.0);
    let (grid, block) = (dim3 { x: 2, y: 1, z: 1 }, dim3 { x: 128, y: 1, z: 1 });
    ok!(hipExtLaunchKernel(
        function,
        grid,
        block,
        params,
        0,
        s,
        no.cast(),
        stop,
        1
    ));
    assert_eq!(floats(), [4.0; 256]);
    fails!(
        InvalidConfiguration,
        hipExtModuleLaunchKernel(
            function,
            200,
            1,
            1,
            128,
            1,
            1,
            0,
            s,
            params,
            no,
            no.cast(),
            no.cast(),
            0
        )
    );
    fails!(
        InvalidValue,
        hipExtLaunchKernel(function, grid, block, params, 0, s, no.cast(), no.cast(), 8)
    );
    fails!(
        InvalidHandle,
        hipExtLaunchKernel(
            function,
            grid,
            block,
            params,
            0,
            s,
            BAD.cast(),
            no.cast(),
            0
        )
    );
    assert_eq!(floats(), [4.0; 256]);
    ok!(hipHostFree(host));
    ok!(hipModuleUnload(module));
}
