//! What our code objects say of a kernel that a profiler names.

use std::collections::HashMap;

use anyhow::Result;
use candle_rocm_kernels::{Module, MODULES};

use crate::kernels::{Kernels, Report};
use crate::listing::Unit;

/// What a code object says of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Vector registers as a profiler reads them off the descriptor: in granules, without accumulation registers.
    pub vgprs: u32,
    /// Accumulation registers, in granules.
    pub agprs: u32,
    /// Bytes of LDS of a workgroup, without what a launch adds.
    pub lds: u32,
    /// Bytes of scratch of a work-item.
    pub scratch: u32,
    /// Lanes of a wavefront.
    pub wavefront: u32,
    /// Registers of a lane, of both kinds where they are one file, of which occupancy is made.
    pub registers: u32,
    /// Instructions of vector and matrix units that the code has, executed or not.
    pub vector_instructions: u64,
}

impl Compiled {
    fn of(report: &Report) -> Compiled {
        let kernel = &report.kernel;
        let descriptor = &kernel.descriptor;
        let computes = |unit| matches!(unit, Unit::Vector | Unit::Matrix);
        let lines = report.listing.lines.iter();
        Compiled {
            vgprs: match descriptor.accum_offset {
                0 => descriptor.vgprs,
                offset => offset,
            },
            agprs: descriptor.agprs,
            lds: kernel.group_segment_fixed_size,
            scratch: kernel.private_segment_fixed_size,
            wavefront: kernel.wavefront_size,
            registers: kernel.vgpr_count,
            vector_instructions: lines.filter(|line| computes(line.unit)).count() as u64,
        }
    }
}

/// Who knows kernels by the names that profilers have of them.
pub trait Catalogue {
    /// What is known of a kernel, for a GPU by LLVM's name; `None` for kernels of others.
    ///
    /// # Errors
    /// The code is not what it should be.
    fn compiled(&mut self, arch: &str, kernel: &str) -> Result<Option<Compiled>>;

    /// Why there is nothing to compare with on this GPU; `None` if there is.
    fn lacks(&self, arch: &str) -> Option<String>;
}

/// The kernels that this program embeds.
#[derive(Default)]
pub struct Embedded(HashMap<String, Architecture>);

struct Architecture {
    kernels: Kernels,
    modules: HashMap<String, &'static Module>,
}

impl Architecture {
    fn new(arch: &str) -> Result<Architecture> {
        let mut kernels = Kernels::new(arch);
        let mut modules = HashMap::new();
        for module in MODULES {
            let names = kernels.names(module)?;
            modules.extend(names.into_iter().map(|name| (name, *module)));
        }
        Ok(Architecture { kernels, modules })
    }
}

impl Catalogue for Embedded {
    fn compiled(&mut self, arch: &str, kernel: &str) -> Result<Option<Compiled>> {
        if self.lacks(arch).is_some() {
            return Ok(None);
        }
        if !self.0.contains_key(arch) {
            self.0.insert(arch.to_owned(), Architecture::new(arch)?);
        }
        let Some(Architecture { kernels, modules }) = self.0.get_mut(arch) else {
            return Ok(None);
        };
        let Some(module) = modules.get(kernel) else {
            return Ok(None);
        };
        let report = kernels.report(module, kernel)?;
        Ok(Some(Compiled::of(&report)))
    }

    fn lacks(&self, arch: &str) -> Option<String> {
        let module = MODULES.first()?;
        match candle_rocm_kernels::serves(arch) {
            true => None,
            false => module
                .code_object(arch)
                .err()
                .map(|error| error.to_string()),
        }
    }
}
