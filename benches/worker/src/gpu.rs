//! The GPU, and the time it takes for operators.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::Result;
use candle_core::cuda_backend::cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaSlice};
use candle_core::quantized::GgmlDType;
use candle_core::{CudaDevice, Device};
use candle_rocm_bench_protocol::Settings;

use crate::data::Block;

/// The GPU.
pub struct Gpu {
    /// For tensors.
    pub device: Device,
    /// Random numbers for inputs.
    pub block: Block,
    /// The same on the CPU, once a case needed them.
    pub cpu_block: Option<Block>,
    /// Random quantised blocks by format.
    pub quantized: HashMap<GgmlDType, Vec<u8>>,
    cuda: CudaDevice,
    filler: Option<Filler>,
}

/// A copy that keeps the GPU busy while operators are enqueued behind it.
struct Filler {
    source: CudaSlice<u8>,
    target: CudaSlice<u8>,
    /// Microseconds of one copy.
    cost_us: f64,
}

/// How long an operator took.
pub struct Span {
    /// Microseconds of one operator on the GPU.
    pub device_us: f64,
    /// Microseconds of one operator until it was enqueued.
    pub host_us: f64,
    /// The GPU began before everything was enqueued.
    pub starved: bool,
}

impl Gpu {
    /// With the inputs of all cases on it.
    pub fn on(device: Device) -> Result<Self> {
        let cuda = device.as_cuda_device()?.clone();
        Ok(Self {
            block: Block::new(&device)?,
            cpu_block: None,
            quantized: HashMap::new(),
            device,
            cuda,
            filler: None,
        })
    }

    /// Its name.
    pub fn name(&self) -> Result<String> {
        Ok(self.cuda.cuda_stream().context().name()?)
    }

    /// Runs `operator(0)`, `operator(1)` ... `operator(repeats - 1)` without the CPU's time in the GPU's: all are
    /// enqueued behind a copy that should take `busy_us` microseconds.
    pub fn time(
        &mut self,
        settings: &Settings,
        repeats: usize,
        busy_us: f64,
        operator: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Span> {
        let stream = self.cuda.cuda_stream();
        let (start, end) = (self.event()?, self.event()?);
        self.cuda_sync()?;
        self.fill(settings, busy_us)?;
        // Memory that the operators take from the stream's pool is mapped here, before the clock runs.
        operator(repeats)?;
        start.record(&stream)?;
        let began = Instant::now();
        for i in 0..repeats {
            operator(i)?;
        }
        end.record(&stream)?;
        let enqueued_us = began.elapsed().as_secs_f64() * 1e6;
        let starved = settings.filler_bytes > 0 && start.is_complete();
        end.synchronize()?;
        let elapsed_us = f64::from(start.elapsed_ms(&end)?) * 1e3;
        Ok(Span {
            device_us: elapsed_us / repeats as f64,
            host_us: enqueued_us / repeats as f64,
            starved,
        })
    }

    /// Waits for the GPU.
    pub fn cuda_sync(&self) -> Result<()> {
        Ok(self.device.synchronize()?)
    }

    fn event(&self) -> Result<CudaEvent> {
        let stream = self.cuda.cuda_stream();
        Ok(stream.context().new_event(Some(CU_EVENT_DEFAULT))?)
    }

    fn fill(&mut self, settings: &Settings, busy_us: f64) -> Result<()> {
        if settings.filler_bytes == 0 || busy_us <= 0. {
            return Ok(());
        }
        if self.filler.is_none() {
            self.filler = Some(self.new_filler(settings.filler_bytes)?);
        }
        let filler = self.filler.as_mut().expect("just made");
        for _ in 0..(busy_us / filler.cost_us).ceil() as usize {
            self.cuda.memcpy_dtod(&filler.source, &mut filler.target)?;
        }
        Ok(())
    }

    fn new_filler(&self, bytes: usize) -> Result<Filler> {
        const COPIES: usize = 16;
        let source = self.cuda.alloc_zeros::<u8>(bytes)?;
        let mut target = self.cuda.alloc_zeros::<u8>(bytes)?;
        let stream = self.cuda.cuda_stream();
        let (start, end) = (self.event()?, self.event()?);
        self.cuda.memcpy_dtod(&source, &mut target)?;
        start.record(&stream)?;
        for _ in 0..COPIES {
            self.cuda.memcpy_dtod(&source, &mut target)?;
        }
        end.record(&stream)?;
        let cost_us = f64::from(start.elapsed_ms(&end)?) * 1e3 / COPIES as f64;
        Ok(Filler {
            source,
            target,
            cost_us: cost_us.max(1.),
        })
    }
}
