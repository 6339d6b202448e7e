//! Functions of CUDA that are functions of HIP under other names.

/// Functions of CUDA that are functions of HIP under other names.
macro_rules! same {
    ($($name:ident => $hip:ident($($arg:ident: $type:ty),*) $(+ $more:expr)?;)*) => {
        $(
            /// HIP's function, under CUDA's name.
            ///
            /// # Safety
            /// As CUDA's.
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
                let call = || {
                    let hip = $crate::runtime::current()?.hip();
                    // SAFETY: the caller's promise; both functions want the same.
                    let status = unsafe { (hip.$hip)($($arg,)* $($more)?) };
                    hip.check(status, || stringify!($hip))
                };
                $crate::linked::errors::returned(stringify!($name), call())
            }
        )*
    };
}
pub(super) use same;
