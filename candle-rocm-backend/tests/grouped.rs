//! Grouped products of bf16, and their gradients, beside sums in f64.

mod common;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_rocm_backend::grouped::{self, RowGroups};
use common::{device, normal, numbers, Random};

fn drawn(random: &mut Random, dims: &[usize], device: &Device) -> Result<Tensor> {
    let x = normal(random, dims.iter().product());
    Tensor::from_vec(x, dims, device)?.to_dtype(DType::BF16)
}

/// A sum of products in f64, and the sum of their magnitudes.
fn sum(products: impl Iterator<Item = f64>) -> (f64, f64) {
    products.fold((0., 0.), |(sum, all), x| (sum + x, all + x.abs()))
}

/// f32's sums of `count` products in any order, and one rounding to bf16 (f32 where that is the result).
fn assert_near(found: f64, (sum, magnitudes): (f64, f64), count: usize, dtype: DType, what: &str) {
    let last = if dtype == DType::F32 {
        2f64.powi(-23)
    } else {
        2f64.powi(-7)
    };
    let bound = (count + 4) as f64 * 2f64.powi(-24) * magnitudes + last * sum.abs() + 1e-37;
    assert!(
        (found - sum).abs() <= bound,
        "{what}: {found} for {sum}, {bound} allowed"
    );
}

#[test]
fn rows_are_multiplied_with_their_groups_matrix() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(1);
    for (sizes, n, k) in [
        (vec![130, 0, 1, 128], 130, 100),
        (vec![3, 300], 7, 264),
        (vec![0, 0], 8, 8),
        (vec![60], 64, 33),
    ] {
        let groups = RowGroups::from_sizes(&sizes, &device)?;
        let rows = groups.rows();
        let (a, b) = (
            drawn(&mut random, &[rows, k], &device)?,
            drawn(&mut random, &[sizes.len(), n, k], &device)?,
        );
        let turned = b.transpose(1, 2)?.contiguous()?.transpose(1, 2)?;
        let (of_a, of_b) = (numbers(&a)?, numbers(&b)?);
        for b in [&b, &turned] {
            let found = grouped::m_grouped_gemm_nt_contiguous(&a, b, &groups)?;
            assert_eq!((found.dims(), found.dtype()), (&[rows, n][..], DType::BF16));
            let found = numbers(&found)?;
            let starts = groups.starts().to_dtype(DType::I64)?.to_vec1::<i64>()?;
            for group in 0..sizes.len() {
                for row in starts[group] as usize..starts[group] as usize + sizes[group] {
                    for column in 0..n {
                        let (a, b) = (
                            &of_a[row * k..][..k],
                            &of_b[(group * n + column) * k..][..k],
                        );
                        let expected = sum(a.iter().zip(b).map(|(a, b)| a * b));
                        assert_near(
                            found[row * n + column],
                            expected,
                            k,
                            DType::BF16,
                            &format!("{sizes:?}, row {row}, column {column}"),
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_are_those_of_each_groups_product() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(2);
    let (sizes, n, k) = (vec![70, 0, 130], 40, 72);
    let groups = RowGroups::from_sizes(&sizes, &device)?;
    let rows = groups.rows();
    let a = Var::from_tensor(&drawn(&mut random, &[rows, k], &device)?)?;
    let b = Var::from_tensor(&drawn(&mut random, &[3, n, k], &device)?)?;
    let weights = drawn(&mut random, &[rows, n], &device)?;
    let result = grouped::m_grouped_gemm_nt_contiguous(a.as_tensor(), b.as_tensor(), &groups)?;
    let gradients = (result * &weights)?.sum_all()?.backward()?;
    let of = |x: &Var| numbers(gradients.get(x.as_tensor()).expect("a gradient"));
    let (found_a, found_b) = (of(&a)?, of(&b)?);
    let (a, b, w) = (
        numbers(a.as_tensor())?,
        numbers(b.as_tensor())?,
        numbers(&weights)?,
    );
    let starts = groups.starts().to_dtype(DType::I64)?.to_vec1::<i64>()?;
    for group in 0..3 {
        let of_group = starts[group] as usize..starts[group + 1] as usize;
        for row in of_group.clone().take(sizes[group]) {
            for column in 0..k {
                let expected =
                    sum((0..n).map(|n_at| w[row * n + n_at] * b[(group * n + n_at) * k + column]));
                assert_near(
                    found_a[row * k + column],
                    expected,
                    n,
                    DType::BF16,
                    &format!("a, row {row}, column {column}"),
                );
            }
        }
        for n_at in 0..n {
            for column in 0..k {
                let expected = sum(of_group
                    .clone()
                    .map(|row| w[row * n + n_at] * a[row * k + column]));
                assert_near(
                    found_b[(group * n + n_at) * k + column],
                    expected,
                    of_group.len(),
                    DType::BF16,
                    &format!("b, group {group}, {n_at}, {column}"),
                );
            }
        }
    }
    Ok(())
}

#[test]
fn rows_in_use_and_groups_along_k() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(3);
    let (groups, rows, n, k) = (3, 50, 20, 136);
    let used = [0u32, 50, 17];
    let (a, b) = (
        drawn(&mut random, &[groups, rows, k], &device)?,
        drawn(&mut random, &[groups, n, k], &device)?,
    );
    let in_use = Tensor::new(&used, &device)?;
    // The kernel for few rows, and a tile's.
    let found =
        [1, 50].map(|expected| grouped::m_grouped_gemm_nt_masked(&a, &b, &in_use, expected));
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    for found in &found {
        let (of_a, of_b) = (numbers(&a)?, numbers(&b)?);
        for (group, &used) in used.iter().enumerate() {
            let found = numbers(&found.get(group)?.narrow(0, 0, used as usize)?)?;
            for row in 0..used as usize {
                for column in 0..n {
                    let (a, b) = (
                        &of_a[(group * rows + row) * k..][..k],
                        &of_b[(group * n + column) * k..][..k],
                    );
                    assert_near(
                        found[row * n + column],
                        sum(a.iter().zip(b).map(|(a, b)| a * b)),
                        k,
                        DType::BF16,
                        "rows in use",
                    );
                }
            }
        }
    }
    let sizes = [128, 0, 256];
    let (a, b) = (
        drawn(&mut random, &[30, 384], &device)?,
        drawn(&mut random, &[20, 384], &device)?,
    );
    for dtype in [DType::F32, DType::BF16] {
        let found = numbers(&grouped::k_grouped_gemm(&a, &b, &sizes, None, dtype)?)?;
        let (of_a, of_b) = (numbers(&a)?, numbers(&b)?);
        let mut first = 0;
        for (group, &size) in sizes.iter().enumerate() {
            for row in 0..30 {
                for column in 0..20 {
                    let (a, b) = (
                        &of_a[row * 384 + first..][..size],
                        &of_b[column * 384 + first..][..size],
                    );
                    let found = found[(group * 30 + row) * 20 + column];
                    assert_near(
                        found,
                        sum(a.iter().zip(b).map(|(a, b)| a * b)),
                        size,
                        dtype,
                        "along k",
                    );
                }
            }
            first += size;
        }
    }
    Ok(())
}

#[test]
fn the_cpu_composes_the_same() -> Result<()> {
    let gpu = device()?;
    let mut random = Random::new(4);
    let (a, b) = (
        drawn(&mut random, &[256, 24], &Device::Cpu)?,
        drawn(&mut random, &[2, 9, 24], &Device::Cpu)?,
    );
    let mut results = Vec::new();
    for device in [Device::Cpu, gpu] {
        let groups = RowGroups::from_sizes(&[100, 128], &device)?;
        let (a, b) = (a.to_device(&device)?, b.to_device(&device)?);
        results.push(numbers(&grouped::m_grouped_gemm_nt_contiguous(
            &a, &b, &groups,
        )?)?);
    }
    for (cpu, gpu) in results[0].iter().zip(&results[1]) {
        // Two sums of 24 in f32, each rounded to bf16.
        assert!(
            (cpu - gpu).abs() <= 2f64.powi(-7) * cpu.abs() + 1e-5,
            "{cpu} and {gpu}"
        );
    }
    Ok(())
}
