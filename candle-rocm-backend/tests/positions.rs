//! Counts by bin and positions of elements, on the GPU and on the CPU against plain Rust.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_rocm_backend::ops;

mod common;

use common::{numbers, Random};

const INTEGERS: [DType; 5] = [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64];
const FLOATS: [DType; 5] = [
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

fn devices() -> [Device; 2] {
    [common::device().expect("a GPU"), Device::Cpu]
}

/// Whole numbers below `limit`, which every dtype has, and half of them 0.
fn small(seed: u64, dims: &[usize], limit: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let mut random = Random::new(seed);
    let mut next = || (random.below(limit) * random.below(2)) as f32;
    let values: Vec<f32> = (0..dims.iter().product()).map(|_| next()).collect();
    // On GPUs Candle casts to no i16 and i32.
    Tensor::from_vec(values, dims, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

#[test]
fn what_is_not_zero_is_found_in_order() -> Result<()> {
    for device in devices() {
        for dtype in INTEGERS.into_iter().chain(FLOATS) {
            let x = small(1, &[3, 5, 7], 9, dtype, &device)?;
            let found = ops::nonzero(&x)?;
            let all = numbers(&x)?;
            let nonzero = (0..all.len()).filter(|&i| all[i] != 0.0);
            let expected: Vec<Vec<u32>> = nonzero
                .map(|i| [i / 35, i / 7 % 5, i % 7].map(|at| at as u32).to_vec())
                .collect();
            assert_eq!(found.to_vec2::<u32>()?, expected, "{dtype:?}");
        }
        // Tiles, groups of them, and rows that are not contiguous.
        let x = small(2, &[70_001], 2, DType::U8, &device)?;
        let all = numbers(&x)?;
        let expected: Vec<u32> = (0..70_001).filter(|&i| all[i as usize] != 0.0).collect();
        assert_eq!(ops::nonzero(&x)?.flatten_all()?.to_vec1::<u32>()?, expected);
        let strided = small(3, &[4, 6], 3, DType::F32, &device)?.t()?;
        let expected: Vec<Vec<u32>> = (0..24)
            .filter(|i| numbers(&strided).is_ok_and(|all| all[*i as usize] != 0.0))
            .map(|i| vec![i / 4, i % 4])
            .collect();
        assert_eq!(ops::nonzero(&strided)?.to_vec2::<u32>()?, expected);
        for (dims, found) in [(vec![0, 3], [0, 2]), (vec![2, 3, 4], [0, 3])] {
            let zeros = Tensor::zeros(dims, DType::F32, &device)?;
            assert_eq!(ops::nonzero(&zeros)?.dims(), found);
        }
    }
    Ok(())
}

#[test]
fn what_a_mask_selects_has_a_gradient() -> Result<()> {
    for device in devices() {
        let x = Var::new(&[[3f32, 1., 2.], [7., 5., 6.]], &device)?;
        // One mask for both rows.
        let mask = Tensor::new(&[1u8, 0, 1], &device)?;
        let found = ops::masked_select(x.as_tensor(), &mask)?;
        assert_eq!(found.to_vec1::<f32>()?, [3., 2., 7., 6.]);
        let weights = Tensor::new(&[1f32, 2., 3., 4.], &device)?;
        let gradients = (found * weights)?.sum_all()?.backward()?;
        let found = gradients.get(&x).expect("a gradient").to_vec2::<f32>()?;
        assert_eq!(found, [[1., 0., 2.], [3., 0., 4.]]);
        let error = ops::masked_select(x.as_tensor(), &mask.to_dtype(DType::F32)?).unwrap_err();
        assert!(
            error.to_string().contains("masked_select: the mask is F32"),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn runs_of_equal_elements_are_counted() -> Result<()> {
    for device in devices() {
        for dtype in INTEGERS.into_iter().chain(FLOATS) {
            let x = small(4, &[9_001], 3, dtype, &device)?;
            let (values, counts) = ops::unique_consecutive(&x)?;
            let mut expected: Vec<(f64, f64)> = Vec::new();
            for value in numbers(&x)? {
                match expected.last_mut() {
                    Some((last, count)) if *last == value => *count += 1.0,
                    _ => expected.push((value, 1.0)),
                }
            }
            let (of, times): (Vec<f64>, Vec<f64>) = expected.into_iter().unzip();
            assert_eq!(numbers(&values)?, of, "{dtype:?}");
            assert_eq!(numbers(&counts)?, times, "{dtype:?}");
        }
        // NaN equals none, and -0 equals 0.
        let x = Tensor::new(&[f32::NAN, f32::NAN, -0.0, 0.0], &device)?;
        let (_, counts) = ops::unique_consecutive(&x)?;
        assert_eq!(counts.to_vec1::<u32>()?, [1, 1, 2]);
        let (values, counts) = ops::unique_consecutive(&Tensor::zeros(0, DType::F16, &device)?)?;
        assert_eq!((values.elem_count(), counts.elem_count()), (0, 0));
    }
    Ok(())
}

#[test]
fn whole_numbers_are_counted() -> Result<()> {
    for device in devices() {
        for dtype in INTEGERS {
            let x = small(5, &[3, 1_003], 100, dtype, &device)?;
            // More bins than there are numbers, fewer, and more than fit LDS.
            for bins in [130, 7, 5_000] {
                let mut expected = vec![0; bins];
                for value in numbers(&x)? {
                    if (value as usize) < bins {
                        expected[value as usize] += 1;
                    }
                }
                let counts = ops::bincount(&x, bins)?.to_vec1::<u32>()?;
                assert_eq!(counts, expected, "{dtype:?}, {bins} bins");
            }
        }
        let negative = Tensor::new(&[-1i64, 0, i64::MIN, 1, i64::MAX], &device)?;
        assert_eq!(ops::bincount(&negative, 3)?.to_vec1::<u32>()?, [1, 1, 0]);
        let nothing = Tensor::zeros((0, 2), DType::U8, &device)?;
        assert_eq!(ops::bincount(&nothing, 2)?.to_vec1::<u32>()?, [0, 0]);
        assert!(ops::bincount(&negative, 0).is_err());
    }
    Ok(())
}

#[test]
fn floats_are_counted_in_bins_of_equal_width() -> Result<()> {
    for device in devices() {
        for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
            let mut random = Random::new(6);
            let mut values: Vec<f64> = (0..3_000).map(|_| random.normal()).collect();
            // Both bounds, and what is in no bin.
            values.extend([-2.0, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.6]);
            let x = Tensor::new(values, &device)?.to_dtype(dtype)?;
            let (bins, least, most) = (13, -2.0, 1.5);
            let mut expected = vec![0; bins];
            let width = (most - least) / bins as f64;
            for x in numbers(&x)? {
                if (least..=most).contains(&x) {
                    // In the type in which it is computed.
                    let place = match dtype {
                        DType::F64 => (x - least) / width,
                        _ => f64::from((x as f32 - least as f32) / width as f32),
                    };
                    expected[(place as usize).min(bins - 1)] += 1;
                }
            }
            let counts = ops::histogram(&x, bins, least, most)?.to_vec1::<u32>()?;
            assert_eq!(counts, expected, "{dtype:?}");
        }
        let x = Tensor::zeros(3, DType::F32, &device)?;
        assert!(ops::histogram(&x, 4, 1.0, 1.0).is_err());
        assert!(ops::histogram(&x.to_dtype(DType::U8)?, 4, 0.0, 1.0).is_err());
    }
    Ok(())
}
