//! Convolutions and their gradients by the runtime's kernels.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Device, Error, Result, Shape, Tensor};
use candle_rocm_runtime::convolution::{
    self, convolve, Axis, Convolution, Dtype, Epilogue, Operands, Operation, Strides,
};

use super::super::activation::Activation;
use super::super::launch::{allocate, with_addresses, write};
use super::super::node::{plain, result_of};
use super::super::operands::wide;
use super::call::{follow, Call};

/// A call without its tensors: what a gradient needs of it beside them.
#[derive(Clone)]
struct Request {
    name: &'static str,
    is_transposed: bool,
    of: Convolution,
}

/// A tensor's strides, as long as they have at most three axes.
fn strides_of(x: &Tensor) -> Strides {
    strides(x.stride())
}

fn strides(of: &[usize]) -> Strides {
    let mut axes = [0; 3];
    let spatial = &of[2..];
    axes[3 - spatial.len()..].copy_from_slice(spatial);
    Strides {
        batch: of[0],
        channel: of[1],
        axes,
    }
}

/// The strides of a tensor of these dimensions without gaps, channels first or last.
fn packed(dims: &[usize], is_last: bool) -> Strides {
    let mut places = [1; 3];
    places[5 - dims.len()..].copy_from_slice(&dims[2..]);
    match is_last {
        true => Strides::channels_last(dims[1], places),
        false => Strides::channels_first(dims[1], places),
    }
}

/// Whether a tensor's channels are neighbours in memory, and its places are not.
fn is_channels_last(x: &Tensor) -> bool {
    x.dims()[1] > 1 && x.stride()[1] == 1 && !x.is_contiguous()
}

/// The dtype as kernels have it.
fn dtype_of(dtype: DType) -> Result<Dtype> {
    match dtype {
        DType::F16 => Ok(Dtype::F16),
        DType::BF16 => Ok(Dtype::BF16),
        DType::F32 => Ok(Dtype::F32),
        DType::F64 => Ok(Dtype::F64),
        other => bail!("no convolution's kernel takes {other:?}"),
    }
}

fn activation_of(activation: Activation) -> convolution::Activation {
    match activation {
        Activation::None => convolution::Activation::None,
        Activation::Relu => convolution::Activation::Relu,
        Activation::Silu => convolution::Activation::Silu,
        Activation::Gelu => convolution::Activation::GeluTanh,
        Activation::GeluErf => convolution::Activation::GeluErf,
    }
}

/// The dimensions of a tensor in memory, channels last.
fn last(dims: &[usize]) -> Vec<usize> {
    let mut all = vec![dims[0]];
    all.extend(&dims[2..]);
    all.push(dims[1]);
    all
}

/// A tensor (batch, axes, channels) as (batch, channels, axes).
fn channels_second(y: &Tensor) -> Result<Tensor> {
    let rank = y.rank();
    let mut order = vec![0, rank - 1];
    order.extend(1..rank - 1);
    y.permute(order)
}

/// The convolution that a call asks for, whose result lies as `of_result` says.
fn described(call: &Call, of_result: Strides) -> Result<Convolution> {
    let mut axes = [Axis::NONE; 3];
    axes[3 - call.axes.len()..].copy_from_slice(&call.axes);
    let (channels, results) = (call.x.dims()[1], call.channels());
    let x = strides_of(call.x);
    let (operation, in_channels, out_channels, inputs, outputs) = match call.is_transposed {
        false => (Operation::Forward, channels, results, x, of_result),
        true => (Operation::Data, results, channels, of_result, x),
    };
    Ok(Convolution {
        operation,
        dtype: dtype_of(call.x.dtype())?,
        batch: call.x.dims()[0],
        groups: call.groups,
        in_channels,
        out_channels,
        axes,
        inputs,
        weights: strides_of(call.weight),
        outputs,
    })
}

/// The result of a call on a GPU.
pub(super) fn launched(call: &Call, device: &CudaDevice) -> Result<Tensor> {
    let dims = call.dims();
    let is_last = is_channels_last(call.x);
    let of_result = packed(&dims, is_last);
    let request = Request {
        name: call.name,
        is_transposed: call.is_transposed,
        of: described(call, of_result)?,
    };
    let is_tracked = call.is_tracked();
    let (activation, residual) = match is_tracked {
        // Their gradients are Candle's.
        true => (Activation::None, None),
        false => (call.activation, call.residual),
    };
    // A residual lies as the result does.
    let residual = residual
        .map(|residual| arranged(residual, is_last))
        .transpose()?;
    let bias = call.bias.map(Tensor::contiguous).transpose()?;
    let mut result = allocate(device, call.x.dtype(), dims.iter().product())?;
    let follows = Follows {
        bias: bias.as_ref(),
        activation,
        residual: residual.as_ref(),
    };
    launch(
        device,
        &request,
        [call.x, call.weight],
        &follows,
        &mut result,
    )?;
    let shape: Shape = match is_last {
        true => last(&dims).into(),
        false => dims.into(),
    };
    let operands: Vec<&Tensor> = [call.x, call.weight]
        .into_iter()
        .chain(bias.as_ref())
        .collect();
    let backward = request.clone();
    let backward = move |operands: &[&Tensor], _: &Tensor, dy: &Tensor| {
        let dy = if is_last {
            channels_second(dy)?
        } else {
            dy.clone()
        };
        gradients(&backward, operands, &dy)
    };
    let y = result_of(call.name, &operands, result, &shape, Box::new(backward))?;
    let y = if is_last { channels_second(&y)? } else { y };
    match is_tracked {
        true => follow(y, None, call.activation, call.residual),
        false => Ok(y),
    }
}

/// A tensor without gaps, channels first or last.
fn arranged(x: &Tensor, is_last: bool) -> Result<Tensor> {
    if !is_last {
        return x.contiguous();
    }
    let rank = x.rank();
    let mut order = vec![0];
    order.extend(2..rank);
    order.push(1);
    channels_second(&x.permute(order)?.contiguous()?)
}

/// What a kernel does after the sums.
struct Follows<'a> {
    bias: Option<&'a Tensor>,
    activation: Activation,
    residual: Option<&'a Tensor>,
}

const NOTHING: Follows = Follows {
    bias: None,
    activation: Activation::None,
    residual: None,
};

/// Launches a convolution of two tensors, in the order x, weight, y of a convolution without the one that is made.
fn launch(
    device: &CudaDevice,
    request: &Request,
    operands: [&Tensor; 2],
    follows: &Follows,
    result: &mut CudaStorage,
) -> Result<()> {
    let stream = device.cuda_stream();
    let tensors = [
        Some(operands[0]),
        Some(operands[1]),
        follows.bias,
        follows.residual,
    ];
    with_addresses(
        request.name,
        &stream,
        tensors,
        |[first, second, bias, residual]| {
            let (made, written) = write(result, &stream)?;
            let is_there = |address: u64| (address != 0).then_some(address);
            let [inputs, weights, outputs] = match (request.of.operation, request.is_transposed) {
                (Operation::Forward, _) => [first, second, made],
                // Of a transposed convolution x stands where outputs do.
                (Operation::Data, _) => [made, second, first],
                (Operation::Weights, false) => [first, made, second],
                (Operation::Weights, true) => [second, made, first],
            };
            let operands = Operands {
                inputs,
                weights,
                outputs,
            };
            let epilogue = Epilogue {
                bias: is_there(bias),
                activation: activation_of(follows.activation),
                residual: is_there(residual),
                ..Epilogue::default()
            };
            // SAFETY: the tensors have these strides and sizes, the result as many elements as the convolution makes; guards keep
            // their memory until the work is given to the stream.
            let done = unsafe { convolve(&stream, &request.of, &operands, &epilogue) };
            drop(written);
            done.map_err(Error::wrap)
        },
    )
}

/// The gradients of x, weight and bias.
fn gradients(request: &Request, operands: &[&Tensor], dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let (x, weight) = (operands[0], operands[1]);
    let Device::Cuda(device) = x.device() else {
        bail!("{}: made on a GPU, and x is not there", request.name);
    };
    let mut of = request.of;
    let lies = strides_of(dy);
    match request.is_transposed {
        false => of.outputs = lies,
        true => of.inputs = lies,
    }
    let made = |operation, operands: [&Tensor; 2], like: &Tensor| -> Result<Tensor> {
        let is_last = operation != Operation::Weights && is_channels_last(like);
        let lies = packed(like.dims(), is_last);
        let mut of = Convolution { operation, ..of };
        match (operation, request.is_transposed) {
            (Operation::Weights, _) => of.weights = lies,
            (_, false) => of.inputs = lies,
            (_, true) => of.outputs = lies,
        }
        let request = Request {
            of,
            ..request.clone()
        };
        let mut result = allocate(device, like.dtype(), like.elem_count())?;
        launch(device, &request, operands, &NOTHING, &mut result)?;
        match is_last {
            true => channels_second(&plain(result, &last(like.dims()).into())),
            false => Ok(plain(result, like.shape())),
        }
    };
    let of_x = match request.is_transposed {
        false => Operation::Data,
        true => Operation::Forward,
    };
    let dx = x
        .track_op()
        .then(|| made(of_x, [dy, weight], x))
        .transpose()?;
    let dweight = weight
        .track_op()
        .then(|| made(Operation::Weights, [x, dy], weight))
        .transpose()?;
    let mut all = vec![dx, dweight];
    if let Some(bias) = operands.get(2) {
        let sum = || -> Result<Tensor> {
            let others: Vec<usize> = (0..dy.rank()).filter(|d| *d != 1).collect();
            wide(dy)?.sum(others)?.to_dtype(bias.dtype())
        };
        all.push(bias.track_op().then(sum).transpose()?);
    }
    Ok(all)
}
