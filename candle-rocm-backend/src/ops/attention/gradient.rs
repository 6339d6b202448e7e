//! Launching the kernels of attention's gradients.

use candle_core::{CudaDevice, CudaStorage, DType, Result, Tensor};
use candle_rocm_kernels::attention::{self, Pass};
use candle_rocm_kernels::ATTENTION_BACKWARD;
use candle_rocm_runtime::DeviceRepr;

use super::super::launch::{allocate, allocate_zeros, with_addresses, write};
use super::super::node::plain;
use super::call::{Call, Sizes};
use super::composed;
use super::kernel::{gpu, launch, launch_grid, readable, tile, Operand, Operands, Problem};

candle_rocm_kernels::kernel_argument! { ATTENTION_GRADIENTS,
    /// `AttentionGradients` of kernels/attention/backward.cuh.
    #[derive(Clone, Copy, Default)]
    struct Gradients {
        forward: Problem,
        dout: Operand,
        dq: Operand,
        dk: Operand,
        dv: Operand,
        delta: u64,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Gradients {}

/// Memory for gradients of q, and of k and v, where they are wanted.
struct Room([Option<CudaStorage>; 3]);

impl Room {
    fn new(call: &Call, [of_q, of_keys]: [bool; 2]) -> Result<Self> {
        let device = gpu(call)?;
        let room = |of: &Tensor, wanted: bool| -> Result<Option<CudaStorage>> {
            let (dtype, count) = (of.dtype(), of.elem_count());
            match (wanted, call.packed) {
                (false, _) => Ok(None),
                (true, None) => allocate(device, dtype, count).map(Some),
                // There may be rows that no sequence has.
                (true, Some(_)) => allocate_zeros(device, dtype, count).map(Some),
            }
        };
        Ok(Self([
            room(call.q, of_q)?,
            room(call.k, of_keys)?,
            room(call.v, of_keys)?,
        ]))
    }

    fn tensors(self, call: &Call) -> Vec<Option<Tensor>> {
        let shapes = [call.q.shape(), call.k.shape(), call.v.shape()];
        let each = self.0.into_iter().zip(shapes);
        each.map(|(storage, shape)| storage.map(|storage| plain(storage, shape)))
            .collect()
    }
}

/// Everything but addresses.
fn argument(call: &Call, operands: &Operands, gradient: &Tensor) -> Result<Gradients> {
    let Sizes {
        queries,
        keys,
        heads,
        key_heads,
        elements,
        ..
    } = call.sizes;
    let of_keys = Operand::contiguous(call.name, [keys, key_heads, elements])?;
    Ok(Gradients {
        forward: operands.problem(call)?,
        dout: Operand::of(call.name, gradient)?,
        dq: Operand::contiguous(call.name, [queries, heads, elements])?,
        dk: of_keys,
        dv: of_keys,
        delta: 0,
    })
}

/// Scores whose gradients are composed, in f32: matrix units take weights and their gradients rounded to 16 bits, and
/// the errors of so few do not average out.
const FEW_SCORES: usize = 1024;

/// The gradients of q, and of k and v, where they are wanted, from the result, what
/// [`attend`](super::kernel::attend) left besides, and the result's gradient.
pub(super) fn gradients(
    call: &Call,
    [result, lse, gradient]: [&Tensor; 3],
    [of_q, of_keys]: [bool; 2],
) -> Result<Vec<Option<Tensor>>> {
    let device = gpu(call)?;
    let stream = device.cuda_stream();
    tile(call, device, Pass::BackwardQueries)?;
    if call.scores().iter().product::<usize>() <= FEW_SCORES {
        return composed::gradients(call, gradient);
    }
    let operands = Operands::of(call)?;
    let gradient = readable(gradient)?;
    let mut argument = argument(call, &operands, &gradient)?;
    let mut results = Room::new(call, [of_q, of_keys])?;
    let mut delta = allocate(device, DType::F32, lse.elem_count())?;
    let forwards = [Some(result), Some(lse), Some(&gradient)];
    with_addresses(call.name, &stream, operands.all(), |operands| {
        with_addresses(call.name, &stream, forwards, |[result, lse, gradient]| {
            argument.forward.place(operands);
            (argument.forward.out.at, argument.forward.lse) = (result, lse);
            argument.dout.at = gradient;
            let places = [&mut argument.dq, &mut argument.dk, &mut argument.dv];
            let mut written = Vec::new();
            for (to, storage) in places.into_iter().zip(&mut results.0) {
                if let Some(storage) = storage {
                    let (address, used) = write(storage, &stream)?;
                    to.at = address;
                    written.push(used);
                }
            }
            let (address, _written) = write(&mut delta, &stream)?;
            argument.delta = address;
            // SAFETY: tensors whose shapes were checked, and what forward left of them.
            unsafe { launch_all(call, device, &argument, [of_q, of_keys]) }
        })
    })?;
    Ok(results.tensors(call))
}

/// Launches what makes delta, and then what is wanted.
///
/// # Safety
/// As [`launch`].
unsafe fn launch_all(
    call: &Call,
    device: &CudaDevice,
    argument: &Gradients,
    [of_q, of_keys]: [bool; 2],
) -> Result<()> {
    let sizes = call.sizes;
    let delta = attention::delta_name(call.q.dtype().as_str());
    let tiles = sizes.queries.div_ceil(attention::DELTA_ROWS as usize);
    let grid = [sizes.heads, tiles];
    let workgroup = (attention::DELTA_THREADS, 0);
    // SAFETY: the caller's promise, here and below.
    unsafe {
        launch_grid(
            call,
            device,
            (&ATTENTION_BACKWARD, &delta),
            grid,
            workgroup,
            argument,
        )
    }?;
    if of_q {
        let rows = [sizes.queries, sizes.heads];
        // SAFETY: as above.
        unsafe { launch(call, device, Pass::BackwardQueries, rows, argument) }?;
    }
    if of_keys {
        let rows = [sizes.keys, sizes.key_heads];
        // SAFETY: as above.
        unsafe { launch(call, device, Pass::BackwardKeys, rows, argument) }?;
    }
    Ok(())
}
