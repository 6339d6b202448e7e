//! Which Rust types may live in device memory or be passed to a kernel.

/// A type whose bytes mean the same on the device.
///
/// # Safety
/// The type is plain data with a fixed layout (`#[repr(C)]` if a structure), without padding that
/// matters and without host pointers that the device would follow.
pub unsafe trait DeviceRepr {
    /// Whether small arrays of it are parameters: words that kernels of ours read and never write.
    #[doc(hidden)]
    const IS_PARAMETER: bool = false;
}

/// A type of which all bits zero is a value.
///
/// # Safety
/// All bits zero is a valid value of the type.
pub unsafe trait ValidAsZeroBits {}

macro_rules! plain_types {
    ($($type:ty),* $(,)?) => {
        $(
            // SAFETY: a number (or a `bool`, a byte of 0 or 1), laid out alike on the host and on AMD GPUs.
            unsafe impl DeviceRepr for $type {}
        )*
        plain_types!(@zero $($type),*);
    };
    (@zero $($type:ty),*) => {
        $(
            // SAFETY: zero, or false.
            unsafe impl ValidAsZeroBits for $type {}
        )*
    };
}

plain_types!(
    bool,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    f32,
    f64,
    half::f16,
    half::bf16,
    float8::F8E4M3,
    float8::F8E5M2,
);

// No tensor's elements: Candle passes dimensions and strides so.
// SAFETY: as above.
unsafe impl DeviceRepr for usize {
    const IS_PARAMETER: bool = true;
}
plain_types!(@zero usize);

// SAFETY: an array is its elements in order.
unsafe impl<T: DeviceRepr, const N: usize> DeviceRepr for [T; N] {}
// SAFETY: as above.
unsafe impl<T: ValidAsZeroBits, const N: usize> ValidAsZeroBits for [T; N] {}

macro_rules! tuples {
    ($($name:ident)+) => {
        // SAFETY: all bits of each field zero is a value of each field.
        unsafe impl<$($name: ValidAsZeroBits),+> ValidAsZeroBits for ($($name,)+) {}
        tuples!(@shorter $($name)+);
    };
    (@shorter $first:ident) => {};
    (@shorter $first:ident $($rest:ident)+) => { tuples!($($rest)+); };
}
tuples!(A B C D E F G H I J K L);

/// What a type is called in CUDA C++, for kernels whose names or sources are made of it.
pub trait CudaTypeName {
    /// The name.
    const NAME: &'static str;
}

macro_rules! names {
    ($($type:ty => $name:literal,)*) => {
        $(
            impl CudaTypeName for $type {
                const NAME: &'static str = $name;
            }
        )*
    };
}
names! {
    bool => "bool",
    i8 => "char",
    i16 => "short",
    i32 => "int",
    i64 => "long",
    isize => "intptr_t",
    u8 => "unsigned char",
    u16 => "unsigned short",
    u32 => "unsigned int",
    u64 => "unsigned long",
    usize => "size_t",
    f32 => "float",
    f64 => "double",
    half::f16 => "__half",
    half::bf16 => "__nv_bfloat16",
    float8::F8E4M3 => "__nv_fp8_e4m3",
    float8::F8E5M2 => "__nv_fp8_e5m2",
}
