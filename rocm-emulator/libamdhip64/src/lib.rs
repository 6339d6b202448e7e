//! rocm-emulator as a drop-in libamdhip64.so.
//!
//! Every function of `rocm_emulator::hip_functions!` is exported under its C name and calls the emulator's
//! function of that name.
#![allow(non_snake_case)]

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use rocm_emulator::hip::abi;
use rocm_emulator::hip::abi::types::*;

macro_rules! export {
    (
        status { $($module:ident :: $name:ident($($arg:ident: $type:ty),*);)* }
        plain { $($plain_module:ident :: $plain:ident($($plain_arg:ident: $plain_type:ty),*) -> $returns:ty;)* }
    ) => {
        $(
            #[doc = concat!("HIP's `", stringify!($name), "`.\n\n# Safety\nSee `rocm_emulator::hip::abi`.")]
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> hipError_t {
                // SAFETY: the program's promise, handed on.
                unsafe { abi::$name($($arg),*) }
            }
        )*
        $(
            #[doc = concat!("HIP's `", stringify!($plain), "`.\n\n# Safety\nSee `rocm_emulator::hip::abi`.")]
            #[no_mangle]
            pub unsafe extern "C" fn $plain($($plain_arg: $plain_type),*) -> $returns {
                // SAFETY: the program's promise, handed on.
                unsafe { abi::$plain($($plain_arg),*) }
            }
        )*
    };
}
rocm_emulator::hip_functions!(export);
