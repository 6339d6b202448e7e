//! What the compiler says of each kernel.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{anyhow, Context, Result};
use candle_rocm_kernels::occupancy::{wavefronts_per_simd, Demand};
use candle_rocm_kernels::Module;
use rocm_emulator::codeobject::{CodeObject, Kernel};

use crate::listing::Listing;
use crate::loops::{self, Loop};

/// A kernel's resources and its hot loop.
pub struct Report {
    /// What the code object says.
    pub kernel: Arc<Kernel>,
    /// Wavefronts that a SIMD holds.
    pub waves: u64,
    /// The code.
    pub listing: Listing,
    /// The loop with the most arithmetic.
    pub hot: Option<Loop>,
}

impl Report {
    /// Registers that were spilled, scalar and vector ones.
    pub fn spills(&self) -> u32 {
        self.kernel.vgpr_spill_count + self.kernel.sgpr_spill_count
    }
}

/// An architecture's code objects, each parsed when it is first asked for.
pub struct Kernels {
    arch: String,
    objects: HashMap<&'static str, CodeObject>,
}

impl Kernels {
    /// Of an architecture that the build embeds.
    pub fn new(arch: &str) -> Kernels {
        Kernels {
            arch: arch.to_owned(),
            objects: HashMap::new(),
        }
    }

    fn object(&mut self, module: &Module) -> Result<&CodeObject> {
        if !self.objects.contains_key(module.name()) {
            let code = module.code_object(&self.arch)?;
            self.objects
                .insert(module.name(), CodeObject::parse(&code)?);
        }
        Ok(&self.objects[module.name()])
    }

    /// The names of a module's kernels, in order.
    pub fn names(&mut self, module: &Module) -> Result<Vec<String>> {
        let object = self.object(module)?;
        let mut names: Vec<_> = object.kernels.iter().map(|k| k.name.clone()).collect();
        names.sort();
        Ok(names)
    }

    /// A kernel of a module.
    ///
    /// # Errors
    /// There is no such kernel, or its code is not what the decoder knows.
    pub fn report(&mut self, module: &Module, name: &str) -> Result<Report> {
        let arch = self.arch.clone();
        let object = self.object(module)?;
        report(object, &module.symbol(name), &arch)
            .with_context(|| format!("module {}", module.name()))
    }
}

/// A kernel of a code object.
///
/// # Errors
/// There is no such kernel, or its code is not what the decoder knows.
pub fn report(object: &CodeObject, name: &str, arch: &str) -> Result<Report> {
    let kernel = object
        .kernel(name)
        .with_context(|| format!("no kernel {name} for {arch}"))?;
    let demand = Demand {
        vgprs: kernel.vgpr_count.into(),
        lds_bytes: kernel.group_segment_fixed_size.into(),
        workgroup: kernel.max_flat_workgroup_size.into(),
        wavefront: kernel.wavefront_size.into(),
    };
    let waves = wavefronts_per_simd(arch, &demand)
        .ok_or_else(|| anyhow!("nothing is known of {arch}'s registers"))?;
    let listing = Listing::of(object, kernel)?;
    Ok(Report {
        kernel: kernel.clone(),
        waves,
        hot: loops::hot(&listing),
        listing,
    })
}
