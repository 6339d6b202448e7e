//! A GPU of the process.

use std::fmt;

use super::info::DeviceInfo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::table::HipTable;
use crate::base::sticky::StickyError;
use crate::runtime::least_release::too_old;
use crate::runtime::{Runtime, RuntimeKind};

/// A GPU of the process.
pub struct Device {
    runtime: &'static Runtime,
    ordinal: usize,
    info: DeviceInfo,
    sticky: StickyError,
}

impl Device {
    pub(super) fn open(runtime: &'static Runtime, ordinal: usize) -> Result<Self> {
        let info = DeviceInfo::read(runtime, ordinal)?;
        if runtime.kind() == RuntimeKind::Amd {
            check_release(ordinal, &info, runtime.version())?;
        }
        Ok(Self {
            runtime,
            ordinal,
            info,
            sticky: StickyError::default(),
        })
    }

    /// The runtime that this GPU belongs to.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// HIP's functions.
    #[inline]
    pub fn hip(&self) -> &'static HipTable {
        self.runtime.hip()
    }

    /// Its number, from 0.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// What is known about it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// True if it is emulated.
    pub fn is_emulated(&self) -> bool {
        self.runtime.kind() == RuntimeKind::Emulator
    }

    /// Makes this GPU the calling thread's current one, as HIP's calls expect.
    #[inline]
    pub fn bind(&self) -> Result<()> {
        self.hip().select(self.ordinal)
    }

    /// Free and total device memory in bytes, as the driver counts them: what the pool caches is not free.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        let hip = self.hip();
        // SAFETY: both outputs are writable.
        let status = unsafe { (hip.hipMemGetInfo)(&mut free, &mut total) };
        hip.check(status, || {
            format!("reading the free memory of GPU {}", self.ordinal)
        })?;
        Ok((free, total))
    }

    /// The error that work on this GPU left for its next call.
    pub(crate) fn sticky(&self) -> &StickyError {
        &self.sticky
    }
}

/// Refuses a GPU whose use would end the process by this release of HIP, and warns of others that it is too old for.
fn check_release(ordinal: usize, info: &DeviceInfo, version: i32) -> Result<()> {
    let Some(old) = too_old(&info.arch, version) else {
        return Ok(());
    };
    let text = format!("GPU {ordinal}, {}: {}", info.name, old.text);
    if old.is_fatal {
        return Err(Error::new(ErrorKind::Runtime, text));
    }
    tracing::warn!("{text}");
    Ok(())
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Device({}: {} {})",
            self.ordinal, self.info.arch, self.info.name
        )
    }
}
