//! Concatenation.

use candle_core::{DType, Device, IndexOp as _, Result, Tensor, Var};
use candle_rocm_backend::ops;

use crate::common::{numbers, Random, DTYPES};
use crate::devices;

/// Whole numbers below 100, which every dtype has.
fn small(seed: u64, dims: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let mut random = Random::new(seed);
    let next = |_| random.below(16) as f32;
    let values: Vec<f32> = (0..dims.iter().product()).map(next).collect();
    // On GPUs Candle casts to no i16 and i32.
    Tensor::from_vec(values, dims, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

/// The elements in the order of rows of `outer` dimensions.
fn check(tensors: &[Tensor], dim: usize, what: &str) -> Result<()> {
    let found = ops::cat(tensors, dim)?;
    let outer: usize = tensors[0].dims()[..dim].iter().product();
    let all: Vec<Vec<f64>> = tensors.iter().map(numbers).collect::<Result<_>>()?;
    let mut expected: Vec<f64> = Vec::new();
    for row in 0..outer {
        for elements in &all {
            let width = elements.len() / outer.max(1);
            expected.extend(&elements[row * width..][..width]);
        }
    }
    let mut dims = tensors[0].dims().to_vec();
    dims[dim] = tensors.iter().map(|tensor| tensor.dims()[dim]).sum();
    assert_eq!(
        (found.dtype(), found.dims()),
        (tensors[0].dtype(), &dims[..]),
        "{what}"
    );
    assert_eq!(numbers(&found)?, expected, "{what}");
    Ok(())
}

#[test]
fn every_dtype_and_dimension_is_joined() -> Result<()> {
    for device in devices() {
        for dtype in DTYPES {
            for dim in 0..3 {
                // Units of 16 bytes and of an element, and a tensor of none.
                for sizes in [[16, 32, 48], [1, 3, 2], [4, 0, 5]] {
                    let tensor = |size: usize| {
                        let mut dims = [2, 3, 5];
                        dims[dim] = size;
                        small(size as u64, &dims, dtype, &device)
                    };
                    let tensors = sizes.into_iter().map(tensor).collect::<Result<Vec<_>>>()?;
                    check(&tensors, dim, &format!("{dtype:?} along {dim}: {sizes:?}"))?;
                }
            }
        }
        // Views: not contiguous, and not from the first element on.
        let x = small(1, &[6, 8], DType::F32, &device)?;
        check(&[x.t()?.i(1..4)?, x.t()?.i(4..)?], 0, "transposed")?;
        check(
            &[x.i(1..3)?, x.i(2..5)?, x.clone()],
            0,
            "from other elements",
        )?;
        check(
            &[x.narrow(1, 1, 2)?, x.narrow(1, 3, 5)?],
            1,
            "parts of rows",
        )?;
        check(&[x.i(0..0)?, x.i(0..0)?], 0, "nothing")?;
        check(&[x], 1, "one")?;
    }
    Ok(())
}

/// More than a launch is told of, and more than a workgroup has.
#[test]
fn many_and_long_tensors_are_joined() -> Result<()> {
    let [device, _] = devices();
    let tensor = |i: usize| small(i as u64, &[3, i % 4 + 1], DType::F16, &device);
    let tensors = (0..400).map(tensor).collect::<Result<Vec<_>>>()?;
    check(&tensors, 1, "400 of 3 rows")?;
    let tensors = [5_000, 3, 4_097].map(|size| small(2, &[2, size], DType::U8, &device));
    check(
        &tensors.into_iter().collect::<Result<Vec<_>>>()?,
        1,
        "long rows",
    )
}

/// The gradient is cut into what was joined, of as many tensors as no node of the graph has.
#[test]
fn gradients_are_cut() -> Result<()> {
    for device in devices() {
        for count in [2, 3, 4, 11] {
            for dim in 0..2 {
                let vars = (0..count).map(|i| {
                    let mut dims = [2, 3];
                    dims[dim] = i % 3 + 1;
                    Var::from_tensor(&small(i as u64, &dims, DType::F32, &device)?)
                });
                let vars: Vec<Var> = vars.collect::<Result<_>>()?;
                let tensors: Vec<&Tensor> = vars.iter().map(Var::as_tensor).collect();
                let joined = ops::cat(&tensors, dim)?;
                let weights = small(99, joined.dims(), DType::F32, &device)?;
                let gradients = (joined * &weights)?.sum_all()?.backward()?;
                let mut begin = 0;
                for (i, var) in vars.iter().enumerate() {
                    let size = var.dims()[dim];
                    let found = numbers(gradients.get(var).expect("a gradient"))?;
                    let expected = numbers(&weights.narrow(dim, begin, size)?)?;
                    assert_eq!(found, expected, "{i} of {count} along {dim}");
                    begin += size;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn bad_tensors_are_named() -> Result<()> {
    for device in devices() {
        let x = Tensor::zeros((2, 3), DType::F32, &device)?;
        let said =
            |tensors: &[&Tensor], dim: usize| ops::cat(tensors, dim).unwrap_err().to_string();
        let error = said(&[], 0);
        assert!(error.contains("cat: there is no tensor"), "{error}");
        let error = said(&[&x, &x.to_dtype(DType::F64)?], 0);
        assert!(error.contains("cat: tensor 1 is F64"), "{error}");
        let error = said(&[&x, &x.t()?], 0);
        assert!(error.contains("cat: tensor 1 has shape [3, 2]"), "{error}");
        assert!(said(&[&x], 2).contains("cat"));
    }
    Ok(())
}
