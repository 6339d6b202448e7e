//! Functions of the driver that are functions of HIP.

/// A function of the provider's table.
macro_rules! entry {
    (required $hip:ident $name:ident) => {
        $crate::base::error::Result::Ok($hip.$name)
    };
    (optional $hip:ident $name:ident) => {
        $crate::base::hip::calls::optional!($hip, $name)
    };
}
pub(super) use entry;

/// Functions of the driver that are functions of HIP, called so that a capture in progress elsewhere forbids none; what
/// `notes` counts is noted for who records what is enqueued.
macro_rules! same {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $type:ty),*) => [$need:ident $(notes $counted:ident)?] $hip:ident($($pass:expr),*);
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As CUDA's: handles are alive, and addresses have what is read or written there.
            pub unsafe fn $name($($arg: $type),*) -> $crate::base::cuda_names::CUresult {
                let call = || {
                    let hip = $crate::runtime::current()?.hip();
                    let call = $crate::raw_handles::same::entry!($need hip $hip)?;
                    $($crate::base::enqueued::note(|noted| noted.$counted += 1);)?
                    // SAFETY: the caller's promise; both functions want the same.
                    let status = hip.relaxed(|| unsafe { call($($pass),*) });
                    hip.check(status, || stringify!($name))
                };
                $crate::driver_api::given(call())
            }
        )*
    };
}
pub(super) use same;
