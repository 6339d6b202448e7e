//! The structs that kernels are told, as headers declare them. The host declares each by
//! [`kernel_argument!`](crate::kernel_argument), which compiles only if both agree.

/// A struct's layout, as the compiler of kernels lays it out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Bytes of all of it.
    pub bytes: usize,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// As the header names it.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes; a pointer has 8.
    pub bytes: usize,
}

include!(concat!(env!("OUT_DIR"), "/arguments.rs"));

impl Layout {
    /// Holds a struct of the host to it: so many bytes, and these fields by name, offset and bytes.
    ///
    /// # Panics
    /// If something differs: at compile time, where a constant is made of it.
    pub const fn assert_is(&self, bytes: usize, fields: &[Field]) {
        assert!(
            fields.len() == self.fields.len(),
            "the kernel's struct has other fields"
        );
        let mut i = 0;
        while i < fields.len() {
            let (ours, theirs) = (fields[i], self.fields[i]);
            assert!(
                is_same(ours.name, theirs.name),
                "the kernel names a field otherwise"
            );
            assert!(
                ours.offset == theirs.offset,
                "the kernel has a field elsewhere"
            );
            assert!(
                ours.bytes == theirs.bytes,
                "the kernel's field has another size"
            );
            i += 1;
        }
        assert!(bytes == self.bytes, "the kernel's struct has another size");
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}

/// Declares a struct that a kernel is told, with the layout of this constant of [`arguments`](crate::arguments): its fields are
/// those of the kernel's, by name, or the program does not compile.
///
/// ```
/// candle_rocm_kernels::kernel_argument! { DIVISOR,
///     /// What is divided by.
///     #[derive(Clone, Copy)]
///     struct Divisor {
///         value: u32,
///         multiplier: u32,
///         shift: u32,
///     }
/// }
/// assert_eq!(size_of::<Divisor>(), 12);
/// ```
///
/// ```compile_fail
/// candle_rocm_kernels::kernel_argument! { DIVISOR,
///     struct Divisor {
///         value: u32,
///         shift: u32,
///         multiplier: u32,
///     }
/// }
/// ```
#[macro_export]
macro_rules! kernel_argument {
    (
        $layout:ident,
        $(#[$of_struct:meta])*
        $visible:vis struct $name:ident {
            $($(#[$of_field:meta])* $seen:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$of_struct])*
        #[repr(C)]
        $visible struct $name {
            $($(#[$of_field])* $seen $field: $type,)*
        }

        const _: () = $crate::arguments::$layout.assert_is(
            ::std::mem::size_of::<$name>(),
            &[$($crate::arguments::Field {
                name: stringify!($field),
                offset: ::std::mem::offset_of!($name, $field),
                bytes: ::std::mem::size_of::<$type>(),
            }),*],
        );
    };
}
