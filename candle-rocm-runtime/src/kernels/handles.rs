//! Kernels by HIP's handles, for programs that launch by those.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::function::LoadedFunction;
use super::module::{Function, LoadedModule};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::types::hipFunction_t;

/// What a handle that somebody has stands for, as long as its module is loaded.
type Named = (Weak<LoadedFunction>, Weak<LoadedModule>);

/// The handles that were given out.
static HANDLES: RwLock<Option<HashMap<usize, Named>>> = RwLock::new(None);

impl Function {
    /// HIP's handle, under cudarc's name. It lives as long as this object.
    pub fn cu_function(&self) -> hipFunction_t {
        let raw = self.loaded.raw;
        let named = (Arc::downgrade(&self.loaded), Arc::downgrade(&self.module));
        let mut handles = HANDLES.write();
        handles.get_or_insert_default().insert(raw as usize, named);
        raw
    }

    /// The kernel of a handle that [`Function::cu_function`] gave.
    ///
    /// # Errors
    /// No kernel that is loaded has this handle.
    pub(crate) fn of_handle(raw: hipFunction_t) -> Result<Self> {
        let handles = HANDLES.read();
        let named = handles.as_ref().and_then(|all| all.get(&(raw as usize)));
        let kernel = named.and_then(|(loaded, module)| {
            Some(Self {
                loaded: loaded.upgrade()?,
                module: module.upgrade()?,
            })
        });
        kernel.ok_or_else(|| {
            Error::new(
                ErrorKind::Hip(crate::base::cuda_names::CUresult::CUDA_ERROR_INVALID_HANDLE as u32),
                format!("{raw:p} is the handle of no kernel that is loaded"),
            )
        })
    }
}
