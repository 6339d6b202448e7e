//! What clang's start-up code registers: fat binaries, and the host addresses that stand for kernels and
//! device variables. A fat binary is loaded onto a device when something of it is first used there.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::handles::Kind;
use super::module::{self, Function, FUNCTIONS, MODULES};
use super::state::{runtime, Device};

/// Registered programs.
#[derive(Default)]
pub struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Bundles by handle.
    binaries: HashMap<u64, Arc<Vec<u8>>>,
    /// Host address of a kernel's stub: (bundle, kernel).
    kernels: HashMap<u64, (u64, String)>,
    /// Host address of a variable's shadow: (bundle, symbol).
    variables: HashMap<u64, (u64, String)>,
    /// Modules by (bundle, device).
    modules: HashMap<(u64, usize), u64>,
}

impl Registry {
    /// The process's registry. It is apart from the runtime, as registration comes before `main` and must not
    /// read the environment yet.
    pub fn get() -> &'static Registry {
        static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::default);
        &REGISTRY
    }

    /// Keep a bundle; gives a handle.
    pub fn add_binary(&self, bytes: Vec<u8>) -> u64 {
        let mut state = self.state.lock();
        state.next += 16;
        let handle = Kind::Binary.tag() | state.next;
        state.binaries.insert(handle, Arc::new(bytes));
        handle
    }

    /// Forget a bundle, its kernels and variables, and unload its modules.
    pub fn remove_binary(&self, binary: u64) {
        let mut state = self.state.lock();
        state.binaries.remove(&binary);
        state.kernels.retain(|_, (of, _)| *of != binary);
        state.variables.retain(|_, (of, _)| *of != binary);
        let modules: Vec<u64> = state
            .modules
            .iter()
            .filter(|((of, _), _)| *of == binary)
            .map(|(_, module)| *module)
            .collect();
        state.modules.retain(|(of, _), _| *of != binary);
        drop(state);
        if let Ok(runtime) = runtime() {
            for module in modules {
                // The program may have reset the device, which unloads too.
                let _ = module::unload(runtime, module as *const c_void);
            }
        }
    }

    /// A kernel's stub.
    pub fn add_kernel(&self, binary: u64, stub: u64, name: String) {
        self.state.lock().kernels.insert(stub, (binary, name));
    }

    /// A variable's shadow.
    pub fn add_variable(&self, binary: u64, shadow: u64, name: String) {
        self.state.lock().variables.insert(shadow, (binary, name));
    }

    /// A device was reset: its modules are gone.
    pub fn forget_device(&self, device: usize) {
        self.state.lock().modules.retain(|(_, on), _| *on != device);
    }

    /// The function that a kernel's stub stands for, on a device. A function handle is taken as well.
    ///
    /// # Errors
    /// `hipErrorInvalidDeviceFunction` for an address that was not registered.
    pub fn function(&self, device: &Device, stub: *const c_void) -> Result<(u64, Arc<Function>)> {
        if let Ok(function) = FUNCTIONS.get(stub) {
            return Ok((stub as u64, function));
        }
        let found = self.state.lock().kernels.get(&(stub as u64)).cloned();
        let Some((binary, name)) = found else {
            return Err(HipError::new(
                Code::InvalidDeviceFunction,
                format!("{stub:p} is not a kernel that this process registered"),
            ));
        };
        let module = self.module(device, binary)?;
        let handle = MODULES.get(module as *const c_void)?.function(&name)?;
        Ok((handle, FUNCTIONS.get(handle as *const c_void)?))
    }

    /// Device address and bytes of the variable that a shadow stands for.
    ///
    /// # Errors
    /// `hipErrorInvalidSymbol` for an address that was not registered.
    pub fn variable(&self, device: &Device, shadow: *const c_void) -> Result<(u64, u64)> {
        let found = self.state.lock().variables.get(&(shadow as u64)).cloned();
        let invalid = |text: String| HipError::new(Code::InvalidSymbol, text);
        let (binary, name) = found.ok_or_else(|| {
            invalid(format!(
                "{shadow:p} is not a device variable that this process registered"
            ))
        })?;
        let module = self.module(device, binary)?;
        MODULES
            .get(module as *const c_void)?
            .loaded
            .global(&name)
            .ok_or_else(|| invalid(format!("the code object has no variable {name}")))
    }

    fn module(&self, device: &Device, binary: u64) -> Result<u64> {
        let mut state = self.state.lock();
        let key = (binary, device.index);
        if let Some(module) = state.modules.get(&key) {
            return Ok(*module);
        }
        let bytes = state
            .binaries
            .get(&binary)
            .cloned()
            .ok_or(Code::InvalidHandle)?;
        let module = module::load(device, &bytes)?;
        state.modules.insert(key, module);
        Ok(module)
    }
}
