//! Kernels compiled for the constants of a shape: they compute the same bits, are used for their shapes alone, and where none
//! can be compiled products are as they were. (That the products are right is the concern of `fp8.rs` and `grouped.rs`.)

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::fp8::{self, Fp8Matrix, ScaleFormat};
use candle_rocm_backend::grouped::{self, RowGroups};
use candle_rocm_backend::specialised;
use candle_rocm_testing::process::{alone, is_child};
use common::{device, normal, numbers, Random};

/// A product, by its name.
type Named<'a> = (String, Box<dyn Fn() -> Result<Tensor> + 'a>);

struct Operands {
    random: Random,
    device: Device,
}

impl Operands {
    fn new(seed: u64) -> Result<Self> {
        Ok(Self {
            random: Random::new(seed),
            device: device()?,
        })
    }

    fn tensor(&mut self, dims: &[usize]) -> Result<Tensor> {
        let x = normal(&mut self.random, dims.iter().product());
        Tensor::from_vec(x, dims, &self.device)
    }

    fn tokens(&mut self, dims: &[usize], format: ScaleFormat) -> Result<Fp8Matrix> {
        fp8::cast_per_token(&self.tensor(dims)?, format)
    }

    fn weights(&mut self, dims: &[usize]) -> Result<Fp8Matrix> {
        fp8::cast_per_block(&self.tensor(dims)?, ScaleFormat::F32)
    }

    fn bf16(&mut self, dims: &[usize]) -> Result<Tensor> {
        self.tensor(dims)?.to_dtype(DType::BF16)
    }
}

/// Products of every form and with each kind of plan, each of a shape of its own.
fn products() -> Result<Vec<Named<'static>>> {
    let mut o = Operands::new(18)?;
    let mut all: Vec<Named> = Vec::new();
    for (rows, format) in [
        (1, ScaleFormat::F32),
        (7, ScaleFormat::PackedPowersOfTwo),
        (40, ScaleFormat::F32),
        (150, ScaleFormat::PackedPowersOfTwo),
    ] {
        // Edges in all directions, so that what is assumed of a shape is not what is usual.
        let (a, b) = (o.tokens(&[rows, 392], format)?, o.weights(&[200, 392])?);
        let addend = o.tensor(&[rows, 200])?;
        all.push((
            format!("gemm_nt, {rows} rows"),
            Box::new(move || fp8::gemm_nt(&a, &b, Some(&addend), DType::F32)),
        ));
    }
    let (a, b) = (
        o.tokens(&[33, 256], ScaleFormat::F32)?,
        o.tensor(&[256, 130])?,
    );
    let b = fp8::cast_per_tensor(&b, ScaleFormat::F32)?;
    all.push((
        "gemm_nn".to_owned(),
        Box::new(move || fp8::gemm_nn(&a, &b, None, DType::F16)),
    ));
    let groups = RowGroups::from_sizes(&[130, 0, 3], &o.device)?;
    let (a, b) = (
        o.tokens(&[groups.rows(), 264], ScaleFormat::F32)?,
        o.weights(&[3, 136, 264])?,
    );
    let of_rows = groups.clone();
    all.push((
        "m_grouped_gemm_nt_contiguous".to_owned(),
        Box::new(move || fp8::m_grouped_gemm_nt_contiguous(&a, &b, &of_rows, DType::BF16)),
    ));
    let in_use = Tensor::new(&[12i32, 12], &o.device)?;
    let (a, b) = (
        o.tokens(&[2, 12, 264], ScaleFormat::F32)?,
        o.weights(&[2, 72, 264])?,
    );
    all.push((
        "m_grouped_gemm_nt_masked".to_owned(),
        Box::new(move || fp8::m_grouped_gemm_nt_masked(&a, &b, &in_use, 12, DType::BF16)),
    ));
    let (a, b) = (
        o.tokens(&[70, 256], ScaleFormat::F32)?,
        o.tokens(&[90, 256], ScaleFormat::F32)?,
    );
    all.push((
        "k_grouped_gemm".to_owned(),
        Box::new(move || fp8::k_grouped_gemm(&a, &b, &[128, 0, 128], None, DType::F32)),
    ));
    let (a, b) = (o.bf16(&[groups.rows(), 72])?, o.bf16(&[3, 136, 72])?);
    all.push((
        "m_grouped_gemm_nt_contiguous of bf16".to_owned(),
        Box::new(move || grouped::m_grouped_gemm_nt_contiguous(&a, &b, &groups)),
    ));
    Ok(all)
}

/// A folder of compiled kernels with nothing in it.
fn empty_cache() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_shapes_kernel_computes_the_same_bits() {
    let cache = empty_cache();
    let folder = cache.path().to_str().unwrap();
    let variables = [
        (specialised::VARIABLE, ""),
        ("CANDLE_ROCM_KERNEL_CACHE", folder),
    ];
    alone("a_shapes_kernel_computes_the_same_bits", &variables, || {
        let products = products().unwrap();
        for (name, product) in &products {
            let before = specialised::launches();
            let general = product().unwrap();
            assert_eq!(
                specialised::launches(),
                before,
                "{name}: before anybody asked"
            );
            let (_, made) = fp8::prewarm(product).unwrap();
            assert_eq!((made.kernels, made.compiled), (1, 1), "{name}");
            let before = specialised::launches();
            let special = product().unwrap();
            assert_eq!(specialised::launches(), before + 1, "{name}");
            let [general, special] = [general, special].map(|x| numbers(&x).unwrap());
            assert!(general == special, "{name}: other results");
        }
        // All are there already.
        let (_, again) = fp8::prewarm(|| {
            products
                .iter()
                .try_for_each(|(_, product)| product().map(|_| ()))
        })
        .unwrap();
        assert_eq!(again.kernels, products.len());
    });
    // In another process they are found.
    if !is_child() {
        alone("kernels_are_found_again", &variables, || {
            unreachable!("it is another test's")
        });
    }
}

#[test]
#[ignore = "part of another test"]
fn kernels_are_found_again() {
    let products = products().unwrap();
    let all = || {
        products
            .iter()
            .try_for_each(|(_, product)| product().map(|_| ()))
    };
    let (_, made) = fp8::prewarm(all).unwrap();
    assert_eq!((made.kernels, made.compiled), (products.len(), 0));
}

#[test]
fn other_shapes_are_not_concerned() {
    alone(
        "other_shapes_are_not_concerned",
        &[(specialised::VARIABLE, "")],
        || {
            let mut o = Operands::new(2).unwrap();
            let weights = o.weights(&[128, 256]).unwrap();
            let others = o.weights(&[128, 384]).unwrap();
            let [x, more] = [3, 4].map(|rows| o.tokens(&[rows, 256], ScaleFormat::F32).unwrap());
            let y = o.tokens(&[3, 384], ScaleFormat::F32).unwrap();
            let product = |a: &Fp8Matrix, b: &Fp8Matrix, dtype| fp8::gemm_nt(a, b, None, dtype);
            fp8::prewarm(|| product(&x, &weights, DType::BF16)).unwrap();
            let count = |a, b, dtype| {
                let before = specialised::launches();
                product(a, b, dtype).unwrap();
                specialised::launches() - before
            };
            assert_eq!(count(&x, &weights, DType::BF16), 1);
            // As many columns' kernel, in as many parts.
            assert_eq!(count(&more, &weights, DType::BF16), 1);
            assert_eq!(count(&x, &weights, DType::F32), 0, "another result");
            assert_eq!(count(&y, &others, DType::BF16), 0, "another k");
        },
    );
}

#[test]
fn with_the_variable_kernels_are_made_aside() {
    alone(
        "with_the_variable_kernels_are_made_aside",
        &[(specialised::VARIABLE, "1")],
        || {
            let mut o = Operands::new(3).unwrap();
            let (a, b) = (
                o.tokens(&[5, 256], ScaleFormat::F32).unwrap(),
                o.weights(&[96, 256]).unwrap(),
            );
            let product = || fp8::gemm_nt(&a, &b, None, DType::F32).unwrap();
            let first = numbers(&product()).unwrap();
            let before = specialised::launches();
            // Never waited for, and there some time.
            let until = std::time::Instant::now() + candle_rocm_testing::process::PATIENCE;
            while specialised::launches() == before {
                assert!(std::time::Instant::now() < until, "it was never ready");
                assert!(numbers(&product()).unwrap() == first);
            }
        },
    );
}

#[test]
fn with_zero_nothing_is_made() {
    let name = "with_zero_nothing_is_made";
    // Not even looked for.
    let variables = [
        (specialised::VARIABLE, "0"),
        ("CANDLE_ROCM_CLANG", "/no/compiler"),
    ];
    alone(name, &variables, || {
        let products = products().unwrap();
        let (_, made) = fp8::prewarm(&products[0].1).unwrap();
        assert_eq!((made.kernels, specialised::launches()), (0, 0));
    });
}

#[test]
fn without_a_compiler_products_are_as_they_were() {
    let name = "without_a_compiler_products_are_as_they_were";
    let cache = empty_cache();
    let variables = [
        (specialised::VARIABLE, ""),
        ("CANDLE_ROCM_CLANG", "/no/compiler"),
        ("CANDLE_ROCM_KERNEL_CACHE", cache.path().to_str().unwrap()),
    ];
    alone(name, &variables, || {
        let products = products().unwrap();
        let first = numbers(&products[0].1().unwrap()).unwrap();
        let error = fp8::prewarm(&products[0].1).unwrap_err().to_string();
        for part in ["grouped_skinny_f8e4m3", "/no/compiler", "CANDLE_ROCM_CLANG"] {
            assert!(error.contains(part), "{error}");
        }
        // Of what did not compile nobody hears again.
        assert!(numbers(&products[0].1().unwrap()).unwrap() == first);
        assert_eq!(specialised::launches(), 0);
        // What the closure says is passed on.
        let refused = fp8::prewarm(|| -> Result<()> { candle_core::bail!("the closure's") });
        assert!(refused.unwrap_err().to_string().contains("the closure's"));
    });
}

#[test]
fn a_variable_that_says_nothing_known_is_an_error() {
    let name = "a_variable_that_says_nothing_known_is_an_error";
    alone(name, &[(specialised::VARIABLE, "always")], || {
        let products = products().unwrap();
        let error = products[0].1().unwrap_err().to_string();
        assert!(
            error.contains(specialised::VARIABLE) && error.contains("always"),
            "{error}"
        );
    });
}
