//! Launching the kernels of attention's gradients.

use candle_core::{CudaStorage, DType, Result, Tensor};
use candle_rocm_kernels::attention::{self, Pass};
use candle_rocm_kernels::BACKWARD;
use candle_rocm_runtime::DeviceRepr;

use super::super::launch::{allocate, allocate_zeros, read, write};
use super::super::node::plain;
use super::call::{Call, Sizes};
use super::kernel::{gpu, launch, launch_grid, with_addresses, Operand, Operands, Problem};

/// `AttentionGradients` of kernels/attention/backward.cuh.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Gradients {
    forward: Problem,
    of_result: Operand,
    of_q: Operand,
    of_k: Operand,
    of_v: Operand,
    delta: u64,
}

const _: () = assert!(size_of::<Gradients>() as u64 == attention::GRADIENTS_BYTES);

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Gradients {}

/// The gradients of q, and of k and v, where they are wanted, from the result, its gradient, which is contiguous, and what
/// [`attend`](super::kernel::attend) left besides.
pub(super) fn gradients(
    call: &Call,
    [result, lse, gradient]: [&Tensor; 3],
    [of_q, of_keys]: [bool; 2],
) -> Result<Vec<Option<Tensor>>> {
    let device = gpu(call)?;
    let stream = device.cuda_stream();
    let operands = Operands::of(call)?;
    let Sizes {
        queries,
        keys,
        heads,
        key_heads,
        elements,
        ..
    } = call.sizes;
    let queries_of = Operand::contiguous(call.name, [queries, heads, elements])?;
    let keys_of = Operand::contiguous(call.name, [keys, key_heads, elements])?;
    let mut argument = Gradients {
        forward: operands.problem(call)?,
        of_result: queries_of,
        of_q: queries_of,
        of_k: keys_of,
        of_v: keys_of,
        delta: 0,
    };
    // Of packed sequences there may be rows that none of them has.
    let room = |of: &Tensor, wanted: bool| -> Result<Option<CudaStorage>> {
        let (dtype, count) = (of.dtype(), of.elem_count());
        match (wanted, call.packed) {
            (false, _) => Ok(None),
            (true, None) => allocate(device, dtype, count).map(Some),
            (true, Some(_)) => allocate_zeros(device, dtype, count).map(Some),
        }
    };
    let mut results = [
        room(call.q, of_q)?,
        room(call.k, of_keys)?,
        room(call.v, of_keys)?,
    ];
    let mut delta = allocate(device, DType::F32, lse.elem_count())?;
    let [q, k, v, mask, slopes, starts_q, starts_k, pages] = operands.all();
    let tensors = [
        q,
        k,
        v,
        mask,
        slopes,
        starts_q,
        starts_k,
        pages,
        Some(result),
        Some(lse),
        Some(gradient),
    ];
    with_addresses(call.name, &stream, tensors, |addresses| {
        let [q, k, v, mask, slopes, starts_q, starts_k, pages, result, lse, gradient] = addresses;
        let forward = &mut argument.forward;
        forward.place([q, k, v, mask, slopes, starts_q, starts_k, pages]);
        (forward.out.at, forward.lse) = (result, lse);
        argument.of_result.at = gradient;
        let places = [&mut argument.of_q, &mut argument.of_k, &mut argument.of_v];
        let mut written = Vec::new();
        for (to, storage) in places.into_iter().zip(&mut results) {
            if let Some(storage) = storage {
                let (address, used) = write(storage, &stream)?;
                to.at = address;
                written.push(used);
            }
        }
        {
            let (address, _written) = write(&mut delta, &stream)?;
            argument.delta = address;
            let kernel = attention::delta_name(call.q.dtype().as_str());
            let tiles = queries.div_ceil(attention::DELTA_ROWS as usize);
            let threads = attention::DELTA_THREADS;
            // SAFETY: tensors whose shapes were checked, as forward; the result and what is left besides are forward's.
            unsafe {
                launch_grid(
                    call,
                    device,
                    (&BACKWARD, &kernel),
                    [heads, tiles],
                    threads,
                    &argument,
                )
            }?;
        }
        let _read = read(&delta, &stream)?;
        if of_q {
            // SAFETY: as above.
            unsafe {
                launch(
                    call,
                    device,
                    Pass::BackwardQueries,
                    [queries, heads],
                    &argument,
                )
            }?;
        }
        if of_keys {
            // SAFETY: as above.
            unsafe {
                launch(
                    call,
                    device,
                    Pass::BackwardKeys,
                    [keys, key_heads],
                    &argument,
                )
            }?;
        }
        Ok(())
    })?;
    let shapes = [call.q.shape(), call.k.shape(), call.v.shape()];
    let tensors = results.into_iter().zip(shapes);
    Ok(tensors
        .map(|(result, shape)| result.map(|result| plain(result, shape)))
        .collect())
}
