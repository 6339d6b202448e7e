//! What a product is made of here.

use super::described::{refused, Description, Matrix, Operands};
use crate::base::error::{BlasError, Error};
use crate::blas::dtype_of;
use crate::gemm::library::hipblaslt::{self, Asked};
use crate::gemm::{multiply, Activation as Applied, Epilogue, GemmProblem, Residual, Transpose};
use crate::kernels::launch::PushKernelArg as _;
use crate::kernels::submit::LaunchConfig;
use crate::stream::queue::Stream;

/// The product without addresses and factors.
pub fn problem(
    description: &Description,
    a: &Matrix,
    b: &Matrix,
    c: &Matrix,
    d: &Matrix,
) -> Result<GemmProblem, BlasError> {
    let wrong = |what: String| BlasError(Error::invalid(format!("matrix product: {what}")));
    let turned = |matrix: &Matrix, turned: bool| match turned {
        false => (matrix.rows, matrix.columns),
        true => (matrix.columns, matrix.rows),
    };
    let (m, k) = turned(a, description.transa);
    let (of_b, n) = turned(b, description.transb);
    if k != of_b || (m, n) != (d.rows, d.columns) {
        return Err(wrong(format!(
            "{m} x {k} times {of_b} x {n} is not {} x {}",
            d.rows, d.columns
        )));
    }
    if (c.rows, c.columns, c.dtype, c.batch) != (d.rows, d.columns, d.dtype, d.batch) {
        return Err(wrong("C has another shape or type than D".to_owned()));
    }
    if [a.batch, b.batch] != [d.batch; 2] {
        return Err(wrong(format!(
            "batches of {}, {} and {} matrices",
            a.batch, b.batch, d.batch
        )));
    }
    let size = |name: &str, value: i64| {
        usize::try_from(value).map_err(|_| wrong(format!("{name} is {value}")))
    };
    Ok(GemmProblem {
        transa: transpose(description.transa),
        transb: transpose(description.transb),
        m: size("m", m as i64)?,
        n: size("n", n as i64)?,
        k: size("k", k as i64)?,
        alpha: 1.0,
        a: 0,
        lda: size("lda", a.ld)?,
        stride_a: a.stride,
        b: 0,
        ldb: size("ldb", b.ld)?,
        stride_b: b.stride,
        beta: 0.0,
        c: 0,
        ldc: size("ldc", d.ld)?,
        stride_c: d.stride,
        batch: size("batch", d.batch.into())?,
        dtype: dtype_of(a.dtype, b.dtype, d.dtype)?,
        compute: description.compute,
    })
}

fn transpose(turned: bool) -> Transpose {
    match turned {
        false => Transpose::No,
        true => Transpose::Yes,
    }
}

/// What follows the product: whether a bias does, the activation, and whether ReLU does.
pub fn epilogue(description: &Description) -> Result<(bool, Applied, bool), BlasError> {
    match description.epilogue {
        1 => Ok((false, Applied::None, false)),
        2 => Ok((false, Applied::None, true)),
        4 => Ok((true, Applied::None, false)),
        6 => Ok((true, Applied::None, true)),
        // cuBLASLt's is the one by the hyperbolic tangent.
        32 => Ok((false, Applied::GeluTanh, false)),
        36 => Ok((true, Applied::GeluTanh, false)),
        other => Err(refused(format!(
            "the epilogue {other} of a matrix product: a bias, ReLU and GELU are there, and a bias before one of them"
        ))),
    }
}

/// Gives the product to the stream.
///
/// # Safety
/// The matrices, and the bias, are device memory as described.
pub unsafe fn run(
    stream: &Stream,
    description: &Description,
    operands: &Operands,
) -> Result<(), BlasError> {
    let [a, b, c, d] = &operands.matrices;
    let mut problem = problem(description, a, b, c, d)?;
    let (has_bias, activation, relu) = epilogue(description)?;
    let [a, b, at_c, at_d] = operands.addresses;
    (problem.a, problem.b, problem.c) = (a, b, at_d);
    (problem.alpha, problem.beta) = (operands.alpha, operands.beta);
    if has_bias && description.bias == 0 {
        return Err(BlasError(Error::invalid(
            "matrix product: a bias is asked for, and none was given",
        )));
    }
    let library = hipblaslt::of(stream.context().device()).map_err(BlasError)?;
    if let Some(library) = library {
        let asked = Asked {
            problem: &problem,
            added: (at_c, c.ld, c.stride),
            epilogue: description.epilogue,
            bias: has_bias.then_some((description.bias, description.bias_stride)),
        };
        // SAFETY: the caller's promise.
        if unsafe { library.multiply(stream, &asked) }.map_err(BlasError)? {
            return Ok(());
        }
    }
    let mut epilogue = Epilogue {
        bias: has_bias.then_some(description.bias),
        activation,
        residual: None,
    };
    let same = at_c == at_d && (c.ld, c.stride) == (d.ld, d.stride);
    if operands.beta != 0.0 && !same {
        if operands.beta != 1.0 || activation != Applied::None {
            return Err(refused(
                "a matrix product whose C is not D, with a factor other than 0 and 1 or with an activation: \
                 copy C to D, and give D as both",
            ));
        }
        // Added after the bias, which comes to the same.
        problem.beta = 0.0;
        epilogue.residual = Some(Residual {
            address: at_c,
            ld: c.ld.max(0) as usize,
            stride: c.stride,
        });
    }
    let stride = description.bias_stride;
    if has_bias && stride != 0 && problem.batch > 1 {
        // One product for each bias.
        for index in 0..problem.batch as i64 {
            let (one, epilogue) = nth(&problem, &epilogue, stride, index);
            // SAFETY: the caller's promise, of one of the matrices.
            unsafe { multiply::gemm_with_epilogue(stream, &one, &epilogue) }.map_err(BlasError)?;
        }
    } else {
        // SAFETY: the caller's promise.
        unsafe { multiply::gemm_with_epilogue(stream, &problem, &epilogue) }.map_err(BlasError)?;
    }
    if relu {
        // SAFETY: C was just written as described.
        unsafe { rectify(stream, &problem) }.map_err(BlasError)?;
    }
    Ok(())
}

/// One of a batch, with its own bias.
fn nth(
    problem: &GemmProblem,
    epilogue: &Epilogue,
    bias_stride: i64,
    index: i64,
) -> (GemmProblem, Epilogue) {
    let by = |address: u64, stride: i64, bytes: usize| {
        address.wrapping_add_signed(index.wrapping_mul(stride).wrapping_mul(bytes as i64))
    };
    let operand = |address, stride| by(address, stride, problem.dtype.bytes());
    let moved = |address, stride| by(address, stride, problem.dtype.output_bytes());
    let one = GemmProblem {
        a: operand(problem.a, problem.stride_a),
        b: operand(problem.b, problem.stride_b),
        c: moved(problem.c, problem.stride_c),
        batch: 1,
        ..*problem
    };
    let epilogue = Epilogue {
        bias: epilogue.bias.map(|bias| moved(bias, bias_stride)),
        residual: epilogue.residual.map(|residual| Residual {
            address: moved(residual.address, residual.stride),
            ..residual
        }),
        ..*epilogue
    };
    (one, epilogue)
}

/// ReLU of C, in place: by one launch where its columns and matrices follow each other, else by one for each.
///
/// # Safety
/// C is device memory as described.
unsafe fn rectify(stream: &Stream, problem: &GemmProblem) -> Result<(), Error> {
    let GemmProblem {
        m, n, ldc, batch, ..
    } = *problem;
    let columns = if m == ldc || n == 1 { 1 } else { n };
    let length = m * n / columns.max(1);
    let in_a_row = columns == 1 && problem.stride_c == length as i64;
    let (matrices, length) = if in_a_row {
        (1, length * batch)
    } else {
        (batch, length)
    };
    if length == 0 {
        return Ok(());
    }
    let name = format!("urelu_{}", problem.dtype.result().name());
    let context = stream.context();
    let kernel = context.kernel(&candle_rocm_kernels::UNARY, &name)?;
    let bytes = problem.dtype.output_bytes() as u64;
    for matrix in 0..matrices as i64 {
        for column in 0..columns as u64 {
            let within = column * ldc as u64 * bytes;
            let from = problem
                .stride_c
                .wrapping_mul(matrix)
                .wrapping_mul(bytes as i64);
            let address = problem.c.wrapping_add_signed(from) + within;
            let mut launch = stream.launch_builder(&kernel);
            // Elements, dimensions, and no layout: they are contiguous.
            launch.arg(&length).arg(&1usize).arg(&0usize);
            launch.arg(&address).arg(&address);
            // SAFETY: the kernel's arguments, and so many elements, by the caller's promise.
            unsafe { launch.launch(LaunchConfig::for_num_elems(length as u32)) }?;
        }
    }
    Ok(())
}
