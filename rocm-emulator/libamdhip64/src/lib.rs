//! rocm-emulator as a drop-in libamdhip64.so.
//!
//! Every function of `rocm_emulator::hip_functions!` is exported under its C name and is the emulator's function of that
//! name. Where the build script finds the linker for it, the names have the symbol versions of AMD's library.

use rocm_emulator::hip::abi;

/// Exports a function under its name: a jump to the emulator's. Being assembly, it is not in rustc's list of exports, so
/// that the version script decides.
#[cfg(versioned)]
macro_rules! export {
    ($jump:literal; $($name:ident)*) => {
        $(std::arch::global_asm!(
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ", @function"),
            concat!(stringify!($name), ":"),
            $jump,
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            function = sym abi::$name,
        );)*
    };
}

#[cfg(versioned)]
macro_rules! export_all {
    (
        status { $($module:ident :: $name:ident($($arg:ident: $type:ty),*);)* }
        plain { $($plain_module:ident :: $plain:ident($($plain_arg:ident: $plain_type:ty),*) -> $returns:ty;)* }
    ) => {
        #[cfg(target_arch = "x86_64")]
        export!("jmp {function}"; $($name)* $($plain)*);
        #[cfg(target_arch = "aarch64")]
        export!("b {function}"; $($name)* $($plain)*);
    };
}

#[cfg(not(versioned))]
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

#[cfg(not(versioned))]
use rocm_emulator::hip::abi::types::*;

#[cfg(not(versioned))]
macro_rules! export_all {
    (
        status { $($module:ident :: $name:ident($($arg:ident: $type:ty),*);)* }
        plain { $($plain_module:ident :: $plain:ident($($plain_arg:ident: $plain_type:ty),*) -> $returns:ty;)* }
    ) => {
        $(
            #[doc = concat!("HIP's `", stringify!($name), "`.\n\n# Safety\nSee `rocm_emulator::hip::abi`.")]
            #[no_mangle]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> hipError_t {
                // SAFETY: the program's promise, handed on.
                unsafe { abi::$name($($arg),*) }
            }
        )*
        $(
            #[doc = concat!("HIP's `", stringify!($plain), "`.\n\n# Safety\nSee `rocm_emulator::hip::abi`.")]
            #[no_mangle]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $plain($($plain_arg: $plain_type),*) -> $returns {
                // SAFETY: the program's promise, handed on.
                unsafe { abi::$plain($($plain_arg),*) }
            }
        )*
    };
}
rocm_emulator::hip_functions!(export_all);
