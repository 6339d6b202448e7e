//! What can be asked of a kernel, and set, under cudarc's names.

use super::module::Function;
use crate::base::cuda_names::{CUfunc_cache, CUfunction_attribute, CUoccupancy_flags};
use crate::base::error::{Error, Result};
use crate::base::hip::calls::optional;
use crate::stream::queue::Stream;

use super::submit::LaunchConfig;

impl Function {
    /// How many workgroups of this size fit on a compute unit at once.
    pub(crate) fn active_workgroups(&self, work_items: u32, dynamic_lds: usize) -> Result<u32> {
        let device = self.device();
        device.bind()?;
        let hip = device.hip();
        let query = optional!(hip, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)?;
        let mut count = 0;
        let raw = self.loaded.raw;
        // SAFETY: the function is loaded and the output is writable.
        let status = unsafe { query(&mut count, raw, work_items as i32, dynamic_lds) };
        hip.check(status, || {
            format!("the occupancy of kernel `{}`", self.name())
        })?;
        Ok(count.max(0) as u32)
    }

    /// How many workgroups of this size fit on a compute unit at once. The flags change nothing.
    ///
    /// # Errors
    /// HIP has no answer.
    pub fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        block_size: u32,
        dynamic_smem_size: usize,
        _flags: Option<CUoccupancy_flags>,
    ) -> Result<u32> {
        self.active_workgroups(block_size, dynamic_smem_size)
    }

    /// The most LDS, beside the kernel's own, with which so many workgroups fit on a compute unit at once.
    ///
    /// # Errors
    /// HIP has no answer, or so many do not fit without any.
    pub fn occupancy_available_dynamic_smem_per_block(
        &self,
        num_blocks: u32,
        block_size: u32,
    ) -> Result<usize> {
        let own = self.static_lds_bytes();
        let most = self.device().info().max_lds_bytes.saturating_sub(own) as usize;
        let fits = |bytes: usize| Ok(self.active_workgroups(block_size, bytes)? >= num_blocks);
        if !fits(0)? {
            return Err(Error::invalid(format!(
                "{num_blocks} workgroups of {block_size} of kernel `{}` do not fit on a compute unit",
                self.name()
            )));
        }
        // `low` fits, and what is above `high` does not: more memory never lets more fit.
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match fits(middle)? {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        Ok(low)
    }

    /// The least grid that fills the GPU, and the size of its workgroups: of those of most work-items on a compute unit,
    /// the largest. No limit is 0. The function gives the LDS that a workgroup of a size needs; without one it is the
    /// number given.
    ///
    /// # Errors
    /// HIP has no answer.
    pub fn occupancy_max_potential_block_size(
        &self,
        block_size_to_dynamic_smem_size: extern "C" fn(block_size: std::ffi::c_int) -> usize,
        dynamic_smem_size: usize,
        block_size_limit: u32,
        _flags: Option<CUoccupancy_flags>,
    ) -> Result<(u32, u32)> {
        let info = self.device().info();
        let step = info.wavefront_size.max(1);
        let most = match block_size_limit {
            0 => self.largest_workgroup(),
            limit => limit.min(self.largest_workgroup()),
        };
        let (mut best, mut chosen) = (0, (0, 0));
        let mut size = most;
        while size != 0 {
            let needed = block_size_to_dynamic_smem_size(size as i32).max(dynamic_smem_size);
            let fits = needed + self.static_lds_bytes() as usize <= info.max_lds_bytes as usize;
            let count = if fits {
                self.active_workgroups(size, needed)?
            } else {
                0
            };
            if count * size > best {
                best = count * size;
                chosen = (count * info.compute_units, size);
            }
            // The largest need not be whole wavefronts; the others are.
            size = (size - 1) / step * step;
        }
        Ok(chosen)
    }

    /// Clusters of workgroups.
    ///
    /// # Errors
    /// Always: no AMD GPU has them.
    pub fn occupancy_max_active_clusters(
        &self,
        _config: LaunchConfig,
        _stream: &Stream,
    ) -> Result<u32> {
        Err(self.no_clusters())
    }

    /// Clusters of workgroups.
    ///
    /// # Errors
    /// Always: no AMD GPU has them.
    pub fn occupancy_max_potential_cluster_size(
        &self,
        _config: LaunchConfig,
        _stream: &Stream,
    ) -> Result<u32> {
        Err(self.no_clusters())
    }

    fn no_clusters(&self) -> Error {
        Error::unsupported(format!(
            "kernel `{}` in clusters of workgroups, which AMD GPUs do not have",
            self.name()
        ))
    }

    /// An attribute of the kernel.
    ///
    /// # Errors
    /// HIP does not know it.
    pub fn get_attribute(&self, attribute: CUfunction_attribute) -> Result<i32> {
        use CUfunction_attribute as Attribute;
        match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => {
                return Ok(self.largest_workgroup() as i32)
            }
            Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => {
                return Ok(self.static_lds_bytes() as i32)
            }
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let most = self.device().info().max_lds_bytes;
                return Ok(most.saturating_sub(self.static_lds_bytes()) as i32);
            }
            _ => {}
        }
        let device = self.device();
        device.bind()?;
        let hip = device.hip();
        let get = optional!(hip, hipFuncGetAttribute)?;
        let mut value = 0;
        // SAFETY: the function is loaded and the output is writable.
        let status = unsafe { get(&mut value, attribute as u32, self.loaded.raw) };
        hip.check(status, || {
            format!("{attribute:?} of kernel `{}`", self.name())
        })?;
        Ok(value)
    }

    /// Vector registers of a work-item.
    ///
    /// # Errors
    /// As [`Function::get_attribute`].
    pub fn num_regs(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// LDS bytes of the kernel's own.
    ///
    /// # Errors
    /// None.
    pub fn shared_size_bytes(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    }

    /// Bytes of constants.
    ///
    /// # Errors
    /// As [`Function::get_attribute`].
    pub fn const_size_bytes(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
    }

    /// Bytes of a work-item's scratch memory.
    ///
    /// # Errors
    /// As [`Function::get_attribute`].
    pub fn local_size_bytes(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    /// The largest workgroup that the kernel was compiled for.
    ///
    /// # Errors
    /// None.
    pub fn max_threads_per_block(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
    }

    /// HIP's number in the place of PTX's version.
    ///
    /// # Errors
    /// As [`Function::get_attribute`].
    pub fn ptx_version(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)
    }

    /// HIP's number in the place of the version of NVIDIA's machine code.
    ///
    /// # Errors
    /// As [`Function::get_attribute`].
    pub fn binary_version(&self) -> Result<i32> {
        self.get_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)
    }

    /// Sets an attribute. LDS needs no asking for, up to what the GPU has for a workgroup; how it is shared with the cache
    /// is not chosen.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument), as CUDA's `CUDA_ERROR_INVALID_VALUE`: more
    /// LDS than a workgroup can have, or less than none; an attribute that cannot be set. Clusters.
    pub fn set_attribute(&self, attribute: CUfunction_attribute, value: i32) -> Result<()> {
        use CUfunction_attribute as Attribute;
        match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                self.check_dynamic_lds(value.into())
            }
            Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => Ok(()),
            Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET
            | Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
            | Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
            | Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH
            | Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            | Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                Err(self.no_clusters())
            }
            _ => Err(Error::invalid(format!(
                "{attribute:?} of kernel `{}` cannot be set",
                self.name()
            ))),
        }
    }

    /// A preference, which nothing here depends on.
    ///
    /// # Errors
    /// None.
    pub fn set_function_cache_config(&self, _config: CUfunc_cache) -> Result<()> {
        Ok(())
    }

    /// An error if a workgroup cannot have so much LDS beside the kernel's own.
    pub(crate) fn check_dynamic_lds(&self, bytes: i64) -> Result<()> {
        let (own, info) = (self.static_lds_bytes(), self.device().info());
        let most = i64::from(info.max_lds_bytes.saturating_sub(own));
        if (0..=most).contains(&bytes) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "kernel `{}` with {bytes} bytes of dynamic LDS and {own} of its own: {} has {} for a workgroup, so that at \
             most {most} can be asked for",
            self.name(),
            info.arch,
            info.max_lds_bytes
        )))
    }
}
