//! Results in Candle's graph.
//!
//! Candle's custom operators compute one result of at most three operands. Ours are computed first, of any number and
//! with any number of results, and each result then becomes a custom operator that only hands it over: for the graph, and
//! for the gradients.

use std::sync::Mutex;

use candle_core::op::BackpropOp;
use candle_core::{
    bail, CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Storage,
    Tensor,
};

/// Makes the gradients of a node's operands (in their order; `None` where none is wanted) from those, its result and the
/// result's gradient, which is contiguous.
pub(crate) type Backward =
    Box<dyn Fn(&[&Tensor], &Tensor, &Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync>;

struct Node {
    name: &'static str,
    shape: Shape,
    /// Taken by the one forward pass.
    result: Mutex<Option<Storage>>,
    backward: Backward,
}

/// The tensor of a result of these operands, one to three, on the GPU.
pub(crate) fn result_of(
    name: &'static str,
    operands: &[&Tensor],
    result: CudaStorage,
    shape: &Shape,
    backward: Backward,
) -> Result<Tensor> {
    result_in(name, operands, Storage::Cuda(result), shape, backward)
}

/// The tensor of a result of these operands, one to three, that was made on their device.
pub(crate) fn result_in(
    name: &'static str,
    operands: &[&Tensor],
    result: Storage,
    shape: &Shape,
    backward: Backward,
) -> Result<Tensor> {
    if !operands.iter().any(|operand| operand.track_op()) {
        return Ok(plain_in(result, shape));
    }
    let node = Node {
        name,
        shape: shape.clone(),
        result: Mutex::new(Some(result)),
        backward,
    };
    match operands {
        [a] => a.apply_op1(node),
        [a, b] => a.apply_op2(b, node),
        [a, b, c] => a.apply_op3(b, c, node),
        _ => bail!("{name}: {} operands in the graph", operands.len()),
    }
}

/// The tensor of a result on the GPU that no gradient goes through.
pub(crate) fn plain(result: CudaStorage, shape: &Shape) -> Tensor {
    plain_in(Storage::Cuda(result), shape)
}

/// The tensor of a result that no gradient goes through.
pub(crate) fn plain_in(result: Storage, shape: &Shape) -> Tensor {
    Tensor::from_storage(result, shape.clone(), BackpropOp::none(), false)
}

impl Node {
    fn hand_over(&self) -> Result<(Storage, Shape)> {
        let result = self.result.lock().map(|mut result| result.take());
        match result {
            Ok(Some(result)) => Ok((result, self.shape.clone())),
            _ => bail!("{}: its result was handed over already", self.name),
        }
    }

    fn gradients(
        &self,
        operands: &[&Tensor],
        result: &Tensor,
        gradient: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        (self.backward)(operands, result, &gradient.contiguous()?)
    }
}

/// What follows an operand's name, once for each.
macro_rules! for_each {
    ($operand:ident $what:ty) => {
        $what
    };
}

/// Candle's custom operator of these operands, and the type of their gradients.
macro_rules! custom_op {
    ($custom_op:ident: $($operand:ident),+ => $gradients:ty) => {
        impl $custom_op for Node {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(
                &self,
                $(_: for_each!($operand &CpuStorage), _: &Layout,)+
            ) -> Result<(CpuStorage, Shape)> {
                match self.hand_over()? {
                    (Storage::Cpu(result), shape) => Ok((result, shape)),
                    _ => bail!("{}: not made on the CPU, and asked for there", self.name),
                }
            }

            fn cuda_fwd(
                &self,
                $(_: for_each!($operand &CudaStorage), _: &Layout,)+
            ) -> Result<(CudaStorage, Shape)> {
                match self.hand_over()? {
                    (Storage::Cuda(result), shape) => Ok((result, shape)),
                    _ => bail!("{}: not made on a GPU, and asked for there", self.name),
                }
            }

            fn bwd(
                &self,
                $($operand: &Tensor,)+
                result: &Tensor,
                gradient: &Tensor,
            ) -> Result<$gradients> {
                let operands = [$($operand),+];
                let mut gradients = self.gradients(&operands, result, gradient)?.into_iter();
                $(let $operand = gradients.next().flatten();)+
                Ok(($($operand),+))
            }
        }
    };
}
type Gradient = Option<Tensor>;
custom_op!(CustomOp1: a => Gradient);
custom_op!(CustomOp2: a, b => (Gradient, Gradient));
custom_op!(CustomOp3: a, b, c => (Gradient, Gradient, Gradient));
