//! Reductions of tensors along some of their dimensions.

use std::marker::PhantomData;
use std::sync::Arc;

use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::REDUCE;

use super::descriptors::{Dnn, DnnDataType, TensorDescriptor};
use super::layer::{self, one_dtype, Direction, Directions, Factors, LayerArguments};
use super::sys::{cudnnNanPropagation_t, cudnnReduceTensorOp_t};
use super::{invalid, unsupported};
use crate::base::error::{DnnError, Result as OwnResult};
use crate::kernels::launch::PushKernelArg as _;
use crate::kernels::submit::LaunchConfig;
use crate::memory::access::{DevicePtr, DevicePtrMut};
use crate::stream::queue::Stream;

/// Marks a reduction that says where extrema are: their numbers among the elements of each result.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlatIndices;

/// Marks a reduction that does not say where extrema are.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIndices;

/// What elements are reduced to.
#[derive(Clone, Debug)]
pub struct ReductionDescriptor<T, Idx> {
    op: cudnnReduceTensorOp_t,
    nan_propagation: cudnnNanPropagation_t,
    #[allow(unused)]
    indices: Idx,
    #[allow(unused)]
    handle: Arc<Dnn>,
    marker: PhantomData<T>,
}

impl Dnn {
    fn reduction<T, Idx>(
        self: &Arc<Self>,
        op: cudnnReduceTensorOp_t,
        nan_propagation: cudnnNanPropagation_t,
        indices: Idx,
    ) -> ReductionDescriptor<T, Idx> {
        ReductionDescriptor {
            op,
            nan_propagation,
            indices,
            handle: self.clone(),
            marker: PhantomData,
        }
    }

    /// A reduction that says where extrema are.
    ///
    /// # Errors
    /// None: of what is no extremum, the operation's places are 0.
    pub fn create_reduction_flat_indices<T: DnnDataType>(
        self: &Arc<Self>,
        op: cudnnReduceTensorOp_t,
        nan_opt: cudnnNanPropagation_t,
    ) -> Result<ReductionDescriptor<T, FlatIndices>, DnnError> {
        Ok(self.reduction(op, nan_opt, FlatIndices))
    }

    /// A reduction that does not say where extrema are.
    ///
    /// # Errors
    /// None.
    pub fn create_reduction_no_indices<T: DnnDataType>(
        self: &Arc<Self>,
        op: cudnnReduceTensorOp_t,
        nan_opt: cudnnNanPropagation_t,
    ) -> Result<ReductionDescriptor<T, NoIndices>, DnnError> {
        Ok(self.reduction(op, nan_opt, NoIndices))
    }
}

/// c = alpha * reduction(a) + beta * c: along the dimensions of which c has one element.
#[derive(Debug)]
pub struct ReduceTensor<'a, T: DnnDataType, Idx> {
    /// What elements are reduced to.
    pub reduce: &'a ReductionDescriptor<T, Idx>,
    /// Inputs.
    pub a: &'a TensorDescriptor<T>,
    /// Outputs.
    pub c: &'a TensorDescriptor<T>,
}

const LAYER: &str = "reduction";

impl<T: DnnDataType, Idx> ReduceTensor<'_, T, Idx> {
    /// Bytes of the caller's that it works in: none.
    ///
    /// # Errors
    /// As `launch`.
    pub fn get_workspace_size(&self) -> Result<usize, DnnError> {
        self.directions().map(|_| 0)
    }

    /// What is kept and what is reduced, in the order of the dimensions.
    fn directions(&self) -> Result<[Directions; 2], DnnError> {
        one_dtype::<T, T>(LAYER)?;
        let (a, c) = (&self.a.shape, &self.c.shape);
        let is_kept = |(of_a, of_c): (&usize, &usize)| of_a == of_c;
        let fits = |(of_a, of_c): (&usize, &usize)| *of_c == 1 || of_a == of_c;
        if a.dims.len() != c.dims.len() || !a.dims.iter().zip(&c.dims).all(fits) {
            return Err(invalid(format!(
                "a reduction of a {:?} to c {:?}: each dimension of c is that of a, or 1",
                a.dims, c.dims
            )));
        }
        if a.dims.contains(&0) && !c.dims.contains(&0) {
            return Err(invalid(format!(
                "a reduction of a {:?}, which has no elements",
                a.dims
            )));
        }
        let all = (0..a.dims.len()).map(|i| {
            let direction = Direction {
                count: a.dims[i],
                x: a.strides[i],
                y: c.strides[i],
            };
            (is_kept((&a.dims[i], &c.dims[i])), direction)
        });
        let (kept, reduced): (Vec<_>, Vec<_>) = all.partition(|(is_kept, _)| *is_kept);
        let of = |directions: Vec<(bool, Direction)>, keeps_y: bool| {
            let directions = directions.into_iter().map(|(_, direction)| Direction {
                y: if keeps_y { direction.y } else { 0 },
                ..direction
            });
            Directions::of(&directions.collect::<Vec<_>>())
        };
        // Those that are reduced have no place in c.
        Ok([of(kept, true), of(reduced, false)])
    }

    /// # Safety
    /// The memory holds what the descriptors say, and `indices`, which may be 0, is the address of as many as there are results.
    unsafe fn give<A, C>(
        &self,
        factors: (T, T),
        a: &A,
        c: &mut C,
        indices: u64,
    ) -> Result<(), DnnError>
    where
        A: DevicePtr<T>,
        C: DevicePtrMut<T>,
    {
        let dtype = one_dtype::<T, T>(LAYER)?;
        let [kept, reduced] = self.directions()?;
        let factors = Factors::new(factors);
        let stream = &self.a.handle.stream;
        let (a, _a) = a.device_ptr(stream);
        let (c, _c) = c.device_ptr_mut(stream);
        let is_sum = self.reduce.op == cudnnReduceTensorOp_t::CUDNN_REDUCE_TENSOR_ADD;
        if is_sum && factors.are_plain() && indices == 0 && is_written_in_order(&kept) {
            // SAFETY: the caller's promise.
            return Ok(unsafe { sum_by_candles(stream, dtype, [&kept, &reduced], [a, c]) }?);
        }
        let propagates = cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
        let arguments = LayerArguments {
            x: a,
            y: c,
            indices,
            mode: self.reduce.op as u32,
            propagates_nan: (self.reduce.nan_propagation == propagates).into(),
            ..LayerArguments::new(LAYER, &kept, &reduced, factors, layer::units(stream))?
        };
        // SAFETY: the caller's promise.
        unsafe { layer::launch(stream, LAYER, dtype, arguments.workgroups(), &arguments) }
    }
}

impl<T: DnnDataType> ReduceTensor<'_, T, FlatIndices> {
    /// Bytes of the indices: 4 for each result.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn get_indices_size(&self) -> Result<usize, DnnError> {
        let [kept, _] = self.directions()?;
        let bytes = kept.elements().and_then(|elements| elements.checked_mul(4));
        bytes.ok_or_else(|| invalid(format!("a reduction to {:?} elements", self.c.shape.dims)))
    }

    /// Gives it to the stream. Of results in the order of c's dimensions, each index is the number of the extremum among the
    /// elements of the result, the first of those that are equal; 0 of reductions to what is no extremum.
    ///
    /// # Safety
    /// The memory holds what the descriptors say, and an index for each result.
    ///
    /// # Errors
    /// c's dimensions are neither a's nor 1; a type that no kernel takes; more than four strides; 2^31 elements; too few indices;
    /// or a launch fails.
    pub unsafe fn launch<Indices, Workspace, A, C>(
        &self,
        indices: &mut Indices,
        _: &mut Workspace,
        factors: (T, T),
        a: &A,
        c: &mut C,
    ) -> Result<(), DnnError>
    where
        Indices: DevicePtrMut<u32>,
        Workspace: DevicePtrMut<u8>,
        A: DevicePtr<T>,
        C: DevicePtrMut<T>,
    {
        let bytes = self.get_indices_size()?;
        if indices.num_bytes() < bytes {
            return Err(unsupported(format!(
                "a reduction has {bytes} bytes of indices, and the memory for them has {}",
                indices.num_bytes()
            )));
        }
        let (indices, _indices) = indices.device_ptr_mut(&self.a.handle.stream);
        // SAFETY: the caller's promise.
        unsafe { self.give(factors, a, c, indices) }
    }
}

impl<T: DnnDataType> ReduceTensor<'_, T, NoIndices> {
    /// Gives it to the stream.
    ///
    /// # Safety
    /// The memory holds what the descriptors say.
    ///
    /// # Errors
    /// c's dimensions are neither a's nor 1; a type that no kernel takes; more than four strides; 2^31 elements; or a launch
    /// fails.
    pub unsafe fn launch<Workspace, A, C>(
        &self,
        _: &mut Workspace,
        factors: (T, T),
        a: &A,
        c: &mut C,
    ) -> Result<(), DnnError>
    where
        Workspace: DevicePtrMut<u8>,
        A: DevicePtr<T>,
        C: DevicePtrMut<T>,
    {
        // SAFETY: the caller's promise.
        unsafe { self.give(factors, a, c, 0) }
    }
}

/// Whether results follow one another in c.
fn is_written_in_order(kept: &Directions) -> bool {
    let mut next = 1;
    kept.0.iter().all(|direction| {
        let follows = direction.y == next;
        next *= direction.count;
        follows
    })
}

/// Sums by Candle's kernel, whose results follow one another.
///
/// # Safety
/// The addresses are those of as many elements.
unsafe fn sum_by_candles(
    stream: &Arc<Stream>,
    dtype: Dtype,
    [kept, reduced]: [&Directions; 2],
    [a, c]: [u64; 2],
) -> OwnResult<()> {
    // As Candle asks for it: a workgroup for each result.
    const MOST_THREADS: usize = 1024;
    let counts = |directions: &Directions| directions.elements().unwrap_or(usize::MAX);
    let (results, of_each) = (counts(kept), counts(reduced));
    let all = kept.0.iter().rev().chain(reduced.0.iter().rev());
    let (mut info, strides): (Vec<usize>, Vec<usize>) =
        all.map(|direction| (direction.count, direction.x)).unzip();
    // Sums of one element have a dimension of one.
    if info.is_empty() {
        info.push(1);
    }
    let dimensions = info.len();
    info.extend(strides);
    info.resize(2 * dimensions, 1);
    let info = stream.clone_htod(&info)?;
    let name = format!("fast_sum_{}", dtype.name());
    let function = stream.context().kernel(&REDUCE, &name)?;
    let elements = results.saturating_mul(of_each);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&elements).arg(&of_each).arg(&dimensions);
    launch.arg(&info).arg(&a).arg(&c);
    let config = LaunchConfig {
        grid_dim: (u32::try_from(results).unwrap_or(u32::MAX), 1, 1),
        block_dim: (of_each.min(MOST_THREADS).next_power_of_two() as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel's arguments, and so many elements, by the caller's promise.
    unsafe { launch.launch(config) }?;
    Ok(())
}
