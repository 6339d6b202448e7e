//! Kernels that write what can be recognised, on buffers of 32-bit words.

use std::sync::Arc;

use anyhow::{ensure, Result};
use candle_rocm_kernels as kernels;
use candle_rocm_runtime::{
    Context, DeviceBuffer, Function, LaunchConfig, PushKernelArg, Stream, View,
};

/// Device addresses, without an owner: the test orders their uses by itself.
pub type Address = u64;

/// `fill` and `step` of the kernels that ship.
pub struct Patterns {
    fill: Function,
    step: Function,
}

impl Patterns {
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        Ok(Self {
            fill: context.kernel(&kernels::FILL, "const_set_u32")?,
            step: context.kernel(&kernels::AFFINE, "affine_u32")?,
        })
    }

    /// Sets every word to `value`.
    pub fn fill(&self, stream: &Stream, words: &mut DeviceBuffer<u32>, value: u32) -> Result<()> {
        let (count, none) = (words.len(), 0usize);
        let mut launch = stream.launch_builder(&self.fill);
        launch.arg(&count).arg(&none).arg(&none).arg(&value);
        launch.arg(words);
        // SAFETY: the arguments are those of the kernel, which sets `count` words.
        unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }?;
        Ok(())
    }

    /// `to = from * mul + add` of every word, wrapping.
    pub fn step(
        &self,
        stream: &Stream,
        from: &View<'_, u32>,
        to: &mut DeviceBuffer<u32>,
        [mul, add]: [u32; 2],
    ) -> Result<()> {
        let (count, none) = (from.len(), 0usize);
        ensure!(count == to.len(), "{count} words into {}", to.len());
        let mut launch = stream.launch_builder(&self.step);
        launch.arg(&count).arg(&none).arg(&none).arg(from);
        launch.arg(to).arg(&mul).arg(&add);
        // SAFETY: the arguments are those of the kernel; both buffers have `count` words.
        unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }?;
        Ok(())
    }

    /// [`Patterns::step`] on addresses.
    ///
    /// # Safety
    /// `count` words at `from` are readable and at `to` writable until the launch is done, and the caller orders it
    /// with their other uses.
    pub unsafe fn step_at(
        &self,
        stream: &Stream,
        from: Address,
        to: Address,
        count: usize,
        [mul, add]: [u32; 2],
    ) -> Result<()> {
        let none = 0usize;
        let mut launch = stream.launch_builder(&self.step);
        launch.arg(&count).arg(&none).arg(&none).arg(&from);
        launch.arg(&to).arg(&mul).arg(&add);
        // SAFETY: the caller's promise.
        unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }?;
        Ok(())
    }
}

/// An error that names the first of the words that is not `value`.
pub fn ensure_all(words: &[u32], value: u32, what: impl FnOnce() -> String) -> Result<()> {
    if let Some(at) = words.iter().position(|&word| word != value) {
        let wrong = words.iter().filter(|&&word| word != value).count();
        anyhow::bail!(
            "{}: word {at} of {} is {:#010x}, not {value:#010x} ({wrong} words are wrong)",
            what(),
            words.len(),
            words[at]
        );
    }
    Ok(())
}
