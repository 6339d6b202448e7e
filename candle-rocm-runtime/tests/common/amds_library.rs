//! A library of AMD's over its HIP, loaded as programs load one that they were not linked to.

use std::ffi::c_int;

/// The library.
pub struct AmdsLibrary(libloading::Library);

impl AmdsLibrary {
    /// The one that an environment variable names.
    pub fn named_by(variable: &str) -> Self {
        let path = std::env::var(variable).unwrap_or_else(|_| {
            panic!("set {variable} to the library's path, as cargo xtask rocm --libraries does")
        });
        // SAFETY: AMD's library; its initialisers register its kernels with HIP.
        let library = unsafe { libloading::Library::new(&path) };
        Self(library.unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    /// What `call` gets from the function `name`, whose type is that of the library's header.
    pub fn ask<F: Copy, R>(&self, name: &str, call: impl FnOnce(F) -> R) -> R {
        // SAFETY: each caller says the header's type.
        let function = unsafe { self.0.get::<F>(name.as_bytes()) };
        call(*function.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    /// The same of a function that gives a status, which must be success.
    pub fn call<F: Copy>(&self, name: &str, call: impl FnOnce(F) -> c_int) {
        let status = self.ask(name, call);
        assert_eq!(status, 0, "{name}: status");
    }
}
