//! Products with quantised weights, in each format, by few and by many vectors.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module as _, Result, Tensor};
use parity::case::Input;
use parity::weights::{quantized, weights, FORMATS};

use crate::results::ladder::{any, Kind, Ladders};
use crate::results::lawful::TRANSCENDENTAL;

/// Elements of a row of weights.
const COLUMNS: usize = 512;

/// Weights' bytes.
fn bytes(format: GgmlDType, rows: usize) -> Result<Input> {
    quantized(any(DType::F32, 51, &[rows, COLUMNS])?.tensor(), format)
}

/// The weights that bytes are of, on their device.
fn weights_of(bytes: &Tensor, format: GgmlDType) -> Result<QTensor> {
    let of_row = COLUMNS / format.block_size() * format.type_size();
    weights(bytes, format, &[bytes.elem_count() / of_row, COLUMNS])
}

pub(super) fn add(ladders: &mut Ladders) {
    for format in FORMATS {
        // Activations are rounded to 8 bits: 2^-6 of the largest result. Their factors are quotients.
        let kind = Kind {
            top: 131,
            least: 1,
            lawful: Some(TRANSCENDENTAL),
            tolerance: Some([2., 0., 262_144.]),
        };
        for vectors in [1, 5, 33] {
            let inputs = move |rows: usize| {
                Ok(vec![
                    bytes(format, rows)?,
                    any(DType::F32, 52, &[vectors, COLUMNS])?,
                ])
            };
            let name = format!("{format:?} by {vectors}");
            ladders.add(kind, name, inputs, move |x| {
                let weights = weights_of(&x[0], format)?;
                // The truth: the CPU's product with what the weights stand for.
                match x[1].device() {
                    Device::Cpu => {
                        let floats = weights.dequantize(&Device::Cpu)?.to_dtype(x[1].dtype())?;
                        x[1].matmul(&floats.t()?)
                    }
                    _ => QMatMul::from_qtensor(weights)?.forward(&x[1]),
                }
            });
        }
        let exact = Kind {
            // A product and a sum of an integer with scales of f16.
            lawful: None,
            tolerance: Some([2., 0., 0.]),
            ..kind
        };
        let inputs = move |rows: usize| Ok(vec![bytes(format, rows)?]);
        ladders.add(exact, format!("{format:?} to f32"), inputs, move |x| {
            weights_of(&x[0], format)?.dequantize(x[0].device())
        });
    }
}
