//! Sorts, the largest elements and sums along a dimension, on the GPU against plain Rust and on the CPU; gradients against
//! central differences, and against what they must be.

use std::cmp::Ordering;

use candle_core::{DType, Device, IndexOp as _, Result, Tensor, Var, D};
use candle_rocm_backend::ops;

mod common;

use common::{numbers, Random, DTYPES};

/// Those of which a device has tensors: Candle's CUDA backend converts nothing to i16 and i32. The kernels' own tests have
/// these.
fn dtypes(device: &Device) -> impl Iterator<Item = DType> + '_ {
    let made = |dtype: &DType| !device.is_cuda() || !matches!(dtype, DType::I16 | DType::I32);
    DTYPES.into_iter().filter(made)
}

fn device() -> Device {
    common::device().expect("a GPU")
}

/// Small whole numbers, which every dtype has, with many ties.
fn small(seed: u64, dims: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let mut random = Random::new(seed);
    let count = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.below(13) as f32).collect();
    Tensor::from_vec(values, dims, device)?.to_dtype(dtype)
}

/// A NaN is the largest; equal elements stay in order.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The elements and columns of each row in order, the first `kept`.
fn sorted(x: &[f64], columns: usize, kept: usize, ascending: bool) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut places) = (Vec::new(), Vec::new());
    for row in x.chunks(columns) {
        let mut of_row: Vec<usize> = (0..columns).collect();
        of_row.sort_by(|&a, &b| match ascending {
            true => order(row[a], row[b]),
            false => order(row[b], row[a]),
        });
        for &column in &of_row[..kept] {
            values.push(row[column]);
            places.push(column as f64);
        }
    }
    (values, places)
}

fn check_sort(x: &Tensor, k: usize) -> Result<()> {
    let columns = x.dim(D::Minus1)?;
    let all = numbers(x)?;
    for ascending in [true, false] {
        let what = format!("{:?} of {:?}, ascending {ascending}", x.shape(), x.dtype());
        let (values, places) = sorted(&all, columns, columns, ascending);
        let (found, index) = ops::sort(x, ascending)?;
        assert_eq!(
            (found.dtype(), index.dtype()),
            (x.dtype(), DType::U32),
            "{what}"
        );
        assert_eq!((found.dims(), index.dims()), (x.dims(), x.dims()), "{what}");
        assert!(numbers(&found)? == values, "{what}: values");
        assert!(numbers(&index)? == places, "{what}: columns");
        assert!(
            numbers(&ops::argsort(x, ascending)?)? == places,
            "{what}: argsort"
        );
        let (values, places) = sorted(&all, columns, k, ascending);
        let (found, index) = ops::topk(x, k, !ascending)?;
        assert_eq!(found.dim(D::Minus1)?, k, "{what}");
        assert!(numbers(&found)? == values, "{what}: {k} first values");
        assert!(numbers(&index)? == places, "{what}: {k} first columns");
    }
    Ok(())
}

#[test]
fn every_dtype_is_sorted_on_both_devices() -> Result<()> {
    for device in [device(), Device::Cpu] {
        for dtype in dtypes(&device) {
            check_sort(&small(1, &[3, 2, 33], dtype, &device)?, 4)?;
        }
        check_sort(&small(2, &[1], DType::F32, &device)?, 1)?;
        // Neither contiguous nor from the first element on.
        let wide = small(3, &[40, 9], DType::F32, &device)?;
        check_sort(&wide.t()?.i(2..7)?, 40)?;
    }
    Ok(())
}

/// Rows that fit no workgroup, and keep all or few.
#[test]
fn long_rows_are_sorted() -> Result<()> {
    let device = device();
    for dtype in [DType::U8, DType::BF16, DType::F32, DType::I64] {
        check_sort(&small(4, &[2, 8195], dtype, &device)?, 50)?;
    }
    Ok(())
}

/// Zeros keep their signs, and NaNs stay what they are.
#[test]
fn values_are_given_back_as_they_were() -> Result<()> {
    let device = device();
    for columns in [7, 4099] {
        let special = [
            f32::NAN,
            -0.0,
            1.0,
            f32::INFINITY,
            0.0,
            -f32::NAN,
            f32::NEG_INFINITY,
        ];
        let row: Vec<f32> = (0..columns).map(|i| special[i % special.len()]).collect();
        let x = Tensor::from_slice(&row, columns, &device)?;
        for ascending in [true, false] {
            let (values, index) = ops::sort(&x, ascending)?;
            let (values, index) = (values.to_vec1::<f32>()?, index.to_vec1::<u32>()?);
            let mut wanted: Vec<usize> = (0..columns).collect();
            wanted.sort_by(|&a, &b| match ascending {
                true => order(row[a].into(), row[b].into()),
                false => order(row[b].into(), row[a].into()),
            });
            for (place, &column) in wanted.iter().enumerate() {
                assert_eq!(index[place] as usize, column, "{columns}: {place}");
                assert_eq!(
                    values[place].to_bits(),
                    row[column].to_bits(),
                    "{columns}: {place}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_is_sorted_or_summed() -> Result<()> {
    for device in [device(), Device::Cpu] {
        for dims in [[0, 4], [3, 0]] {
            let x = Tensor::zeros(&dims[..], DType::F16, &device)?;
            let (values, index) = ops::sort(&x, true)?;
            assert_eq!((values.dims(), index.dims()), (&dims[..], &dims[..]));
            assert_eq!(ops::argsort(&x, true)?.dims(), dims);
            assert_eq!(ops::cumsum(&x, 1)?.dims(), dims);
        }
        let x = Tensor::zeros((2, 5), DType::F32, &device)?;
        let (values, index) = ops::topk(&x, 0, true)?;
        assert_eq!((values.dims(), index.dims()), (&[2, 0][..], &[2, 0][..]));
    }
    Ok(())
}

#[test]
fn errors_name_the_operator_and_the_shape() -> Result<()> {
    let x = Tensor::zeros((2, 5), DType::F32, &device())?;
    let error = ops::topk(&x, 6, true).unwrap_err().to_string();
    assert!(
        error.contains("topk") && error.contains("[2, 5]"),
        "{error}"
    );
    let scalar = Tensor::zeros((), DType::F32, &device())?;
    let error = ops::sort(&scalar, true).unwrap_err().to_string();
    assert!(error.contains("sort: x is a scalar"), "{error}");
    let error = ops::cumsum(&x, 2).unwrap_err().to_string();
    assert!(error.contains("cumsum"), "{error}");
    Ok(())
}

/// The gradient of the values is the result's, where each came from.
#[test]
fn gradients_of_sorts_go_back() -> Result<()> {
    for device in [device(), Device::Cpu] {
        let x = Var::new(&[[3f32, 1., 2.], [5., 7., 6.]], &device)?;
        let weights = Tensor::new(&[[1f32, 2.], [3., 4.]], &device)?;
        let (values, _) = ops::topk(x.as_tensor(), 2, true)?;
        let gradients = (values * weights)?.sum_all()?.backward()?;
        let found = gradients.get(&x).expect("a gradient").to_vec2::<f32>()?;
        assert_eq!(found, [[1., 0., 2.], [0., 3., 4.]]);
    }
    Ok(())
}

/// The sums of small whole numbers, which are exact before they are rounded.
fn summed(x: &[f64], dims: &[usize], dim: usize) -> Vec<f64> {
    let (count, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
    let mut sums = x.to_vec();
    for i in 0..sums.len() {
        if i / inner % count > 0 {
            sums[i] += sums[i - inner];
        }
    }
    sums
}

#[test]
fn every_dimension_is_summed_on_both_devices() -> Result<()> {
    for device in [device(), Device::Cpu] {
        for dtype in dtypes(&device) {
            let dims = [3, 5, 37];
            let x = small(5, &dims, dtype, &device)?;
            for dim in 0..3 {
                let found = ops::cumsum(&x, dim)?;
                assert_eq!((found.dtype(), found.dims()), (dtype, &dims[..]));
                let expected = summed(&numbers(&x)?, &dims, dim);
                let wide = if dtype.is_int() {
                    DType::I64
                } else {
                    DType::F64
                };
                // Rounded or wrapped around as Candle converts.
                let expected = Tensor::from_vec(expected, &dims[..], &Device::Cpu)?;
                let expected = expected.to_dtype(wide)?.to_dtype(dtype)?;
                assert_eq!(
                    numbers(&found)?,
                    numbers(&expected)?,
                    "{dtype:?}, dimension {dim}"
                );
            }
        }
        let x = small(6, &[7, 3, 40], DType::F32, &device)?;
        let strided = x.permute((2, 0, 1))?.narrow(0, 3, 30)?;
        for dim in 0..3 {
            let expected = summed(&numbers(&strided)?, strided.dims(), dim);
            assert_eq!(
                numbers(&ops::cumsum(&strided, dim)?)?,
                expected,
                "strided, {dim}"
            );
        }
    }
    Ok(())
}

/// Fractions: no sum is further off than the additions that made it round.
#[test]
fn long_sums_are_as_exact_as_a_tree_of_them() -> Result<()> {
    let device = device();
    let mut random = Random::new(7);
    let values: Vec<f32> = (0..40_000).map(|_| random.normal() as f32).collect();
    for (dims, dim) in [([1, 40_000], 1), ([200, 200], 0)] {
        let x = Tensor::from_slice(&values, &dims[..], &device)?;
        let exact = summed(&numbers(&x)?, &dims, dim);
        let sizes = numbers(&x.abs()?)?;
        let sizes = summed(&sizes, &dims, dim);
        for (dtype, own) in [(DType::F32, 0.0), (DType::BF16, 2f64.powi(-8))] {
            let rounded = x.to_dtype(dtype)?;
            let exact = match dtype {
                DType::F32 => exact.clone(),
                _ => summed(&numbers(&rounded)?, &dims, dim),
            };
            let found = numbers(&ops::cumsum(&rounded, dim)?)?;
            for (i, (found, exact)) in found.iter().zip(&exact).enumerate() {
                // At most 40 additions of f32 one after another: of a lane, a wavefront, a workgroup, tiles; and one
                // rounding to the dtype.
                let bound = sizes[i] * 1.01 * 40.0 * 2f64.powi(-24) + exact.abs() * own;
                assert!(
                    (found - exact).abs() <= bound,
                    "{dims:?} {dtype:?} {i}: {found}, {exact}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_of_sums_are_sums_from_the_end() -> Result<()> {
    for device in [device(), Device::Cpu] {
        for (dims, dim) in [([3, 70], 1), ([70, 64], 0), ([70, 3], 0)] {
            let x = Var::from_tensor(&small(8, &dims, DType::F32, &device)?)?;
            let weights = small(9, &dims, DType::F32, &device)?;
            let loss = (ops::cumsum(x.as_tensor(), dim)? * &weights)?.sum_all()?;
            let gradients = loss.backward()?;
            let found = numbers(gradients.get(&x).expect("a gradient"))?;
            // Central differences of a linear function are exact: weights of all sums that an element is in.
            let (count, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
            let mut expected = numbers(&weights)?;
            for i in (0..expected.len()).rev() {
                if i / inner % count + 1 < count {
                    expected[i] += expected[i + inner];
                }
            }
            assert_eq!(found, expected, "{dims:?} along {dim}");
        }
    }
    Ok(())
}
