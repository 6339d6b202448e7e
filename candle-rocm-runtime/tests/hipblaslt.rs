//! AMD's hipBLASLt on the runtime's device and stream (`cargo xtask rocm --libraries`): drawn products with each transpose
//! and epilogue are what the host computes in f64, on the GPUs that it has kernels for.

#[path = "common/amds_library.rs"]
mod amds_library;
mod common;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use amds_library::AmdsLibrary;
use candle_rocm_runtime::{DevicePtr, DevicePtrMut, DeviceRepr, Stream};
use candle_rocm_testing::activations::gelu;
use candle_rocm_testing::random::Random;
use common::on_each_device;
use half::{bf16, f16};

/// Names hipBLASLt's library.
const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_TEST_HIPBLASLT";
/// `hipblasOperation_t`: as it is, and transposed.
const OPERATIONS: [c_int; 2] = [111, 112];
const TRANSPOSED: c_int = OPERATIONS[1];
/// `HIPBLAS_COMPUTE_32F`, and `HIP_R_32F`, the type of factors.
const COMPUTE_F32: c_int = 2;
const F32: c_int = 0;
/// `hipblasLtMatmulDescAttributes_t`.
const TRANSPOSE_A: c_int = 0;
const TRANSPOSE_B: c_int = 1;
const EPILOGUE: c_int = 2;
const BIAS: c_int = 3;
const BIAS_TYPE: c_int = 4;
/// `HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MOST_WORKSPACE: c_int = 1;
const WORKSPACE: usize = 4 << 20;
/// The emulated GPUs that Debian's package of the library has no kernels for.
const WITHOUT_KERNELS: [&str; 2] = ["gfx942", "gfx1030"];
/// Products of each type, transpose and epilogue.
const DRAWN: usize = 2;

/// What is done to a product: its number in `hipblasLtEpilogue_t`, whether a bias is added, and what follows.
struct Epilogue {
    name: &'static str,
    number: u32,
    has_bias: bool,
    then: fn(f64) -> f64,
}

const EPILOGUES: [Epilogue; 6] = [
    Epilogue {
        name: "nothing",
        number: 1,
        has_bias: false,
        then: |x| x,
    },
    Epilogue {
        name: "relu",
        number: 2,
        has_bias: false,
        then: |x| x.max(0.0),
    },
    Epilogue {
        name: "bias",
        number: 4,
        has_bias: true,
        then: |x| x,
    },
    Epilogue {
        name: "bias and relu",
        number: 6,
        has_bias: true,
        then: |x| x.max(0.0),
    },
    Epilogue {
        name: "gelu",
        number: 32,
        has_bias: false,
        then: gelu,
    },
    Epilogue {
        name: "bias and gelu",
        number: 36,
        has_bias: true,
        then: gelu,
    },
];

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type SetAttribute = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int;

/// `hipblasLtMatmulHeuristicResult_t`: a kernel that the library chose.
#[derive(Clone, Copy)]
#[repr(C)]
struct Choice {
    kernel: Kernel,
    workspace: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// `hipblasLtMatmulAlgo_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    data: [u8; 16],
    most_workspace: usize,
}

/// An element's type: its name, its number in `hipDataType`, and half a unit of its last place.
trait Element: DeviceRepr + Copy {
    const NAME: &'static str;
    const NUMBER: c_int;
    const ROUNDING: f64;
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
}

impl Element for f32 {
    const NAME: &'static str = "f32";
    const NUMBER: c_int = F32;
    const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Element for f16 {
    const NAME: &'static str = "f16";
    const NUMBER: c_int = 2;
    const ROUNDING: f64 = 1.0 / 2048.0;
    fn of(x: f64) -> f16 {
        f16::from_f64(x)
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Element for bf16 {
    const NAME: &'static str = "bf16";
    const NUMBER: c_int = 14;
    const ROUNDING: f64 = 1.0 / 256.0;
    fn of(x: f64) -> bf16 {
        bf16::from_f64(x)
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

/// A matrix by columns, in its own memory: what lies between columns belongs to nobody.
struct Matrix<T> {
    rows: usize,
    columns: usize,
    stride: usize,
    values: Vec<T>,
}

impl<T: Element> Matrix<T> {
    fn drawn(random: &mut Random, rows: usize, columns: usize) -> Self {
        let stride = rows + random.below(2) * random.below(9);
        let values = (0..stride * columns).map(|_| T::of(random.signed()));
        Matrix {
            rows,
            columns,
            stride,
            values: values.collect(),
        }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row + column * self.stride].wide()
    }
}

/// hipBLASLt, with a handle for the GPU of a stream.
struct HipblasLt<'a> {
    library: AmdsLibrary,
    handle: Handle,
    stream: &'a Arc<Stream>,
}

impl<'a> HipblasLt<'a> {
    fn on(stream: &'a Arc<Stream>) -> Self {
        let library = AmdsLibrary::named_by(LIBRARY_VARIABLE);
        let mut handle: Handle = std::ptr::null_mut();
        library.call::<Create>("hipblasLtCreate", |create| {
            // SAFETY: the place of a handle.
            unsafe { create(&mut handle) }
        });
        HipblasLt {
            library,
            handle,
            stream,
        }
    }

    fn destroy(&self, name: &str, what: Handle) {
        // SAFETY: nobody uses it after this.
        self.library
            .call::<Destroy>(name, |destroy| unsafe { destroy(what) });
    }

    /// Sets one of a description's attributes.
    fn set<V>(&self, name: &str, what: Handle, attribute: c_int, value: V) {
        self.library.call::<SetAttribute>(name, |set| {
            let (place, size) = (std::ptr::from_ref(&value).cast(), size_of::<V>());
            // SAFETY: the description lives, and the value is of the size that is said.
            unsafe { set(what, attribute, place, size) }
        });
    }

    fn layout<T: Element>(&self, matrix: &Matrix<T>) -> Handle {
        type CreateLayout = unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> c_int;
        let mut layout: Handle = std::ptr::null_mut();
        let [rows, columns, stride] =
            [matrix.rows, matrix.columns, matrix.stride].map(|size| size as u64);
        self.library
            .call::<CreateLayout>("hipblasLtMatrixLayoutCreate", |create| {
                // SAFETY: the place of a handle.
                unsafe { create(&mut layout, T::NUMBER, rows, columns, stride as i64) }
            });
        layout
    }

    /// `alpha * a * b + beta * c` and an epilogue, and the largest share of what it may be from f64. Nothing where the
    /// library has no kernel for it.
    fn multiply<T: Element>(
        &self,
        random: &mut Random,
        operations: [c_int; 2],
        epilogue: &Epilogue,
    ) -> Option<f64> {
        type CreateProduct = unsafe extern "C" fn(*mut Handle, c_int, c_int) -> c_int;
        type Choose = unsafe extern "C" fn(
            Handle,
            Handle,
            Handle,
            Handle,
            Handle,
            Handle,
            Handle,
            c_int,
            *mut Choice,
            *mut c_int,
        ) -> c_int;
        type Multiply = unsafe extern "C" fn(
            Handle,
            Handle,
            *const f32,
            u64,
            Handle,
            u64,
            Handle,
            *const f32,
            u64,
            Handle,
            u64,
            Handle,
            *const Kernel,
            u64,
            usize,
            *mut c_void,
        ) -> c_int;
        let [rows, columns, inner] = [200, 150, 130].map(|most| 1 + random.below(most));
        let (alpha, beta) = random.choose(&[(1f32, 0f32), (0.5, 0.0), (-1.5, 0.75)]);
        let [a_transposed, b_transposed] = operations.map(|operation| operation == TRANSPOSED);
        let mut drawn = |is_transposed, rows, columns| match is_transposed {
            true => Matrix::<T>::drawn(random, columns, rows),
            false => Matrix::<T>::drawn(random, rows, columns),
        };
        let a = drawn(a_transposed, rows, inner);
        let b = drawn(b_transposed, inner, columns);
        let c = drawn(false, rows, columns);
        let bias: Vec<T> = (0..rows).map(|_| T::of(random.signed())).collect();

        let mut product: Handle = std::ptr::null_mut();
        self.library
            .call::<CreateProduct>("hipblasLtMatmulDescCreate", |create| {
                // SAFETY: the place of a handle.
                unsafe { create(&mut product, COMPUTE_F32, F32) }
            });
        let attribute = "hipblasLtMatmulDescSetAttribute";
        self.set(attribute, product, TRANSPOSE_A, operations[0]);
        self.set(attribute, product, TRANSPOSE_B, operations[1]);
        self.set(attribute, product, EPILOGUE, epilogue.number);
        let [a_device, b_device] = [&a, &b].map(|m| self.stream.clone_htod(&m.values).unwrap());
        let mut d_device = self.stream.clone_htod(&c.values).unwrap();
        let bias_device = self.stream.clone_htod(&bias).unwrap();
        let (bias_place, _bias) = bias_device.device_ptr(self.stream);
        if epilogue.has_bias {
            self.set(attribute, product, BIAS_TYPE, T::NUMBER);
            self.set(attribute, product, BIAS, bias_place);
        }
        let mut preference: Handle = std::ptr::null_mut();
        self.library
            .call::<Create>("hipblasLtMatmulPreferenceCreate", |create| {
                // SAFETY: the place of a handle.
                unsafe { create(&mut preference) }
            });
        let attribute = "hipblasLtMatmulPreferenceSetAttribute";
        self.set(attribute, preference, MOST_WORKSPACE, WORKSPACE as u64);

        let layouts = [&a, &b, &c].map(|matrix| self.layout(matrix));
        let [a_layout, b_layout, c_layout] = layouts;
        let mut choice = std::mem::MaybeUninit::<Choice>::zeroed();
        let mut count = 0;
        let status = self
            .library
            .ask::<Choose, _>("hipblasLtMatmulAlgoGetHeuristic", |choose| {
                // SAFETY: handles that live, and room for the one choice that is asked for.
                unsafe {
                    choose(
                        self.handle,
                        product,
                        a_layout,
                        b_layout,
                        c_layout,
                        c_layout,
                        preference,
                        1,
                        choice.as_mut_ptr(),
                        &mut count,
                    )
                }
            });
        let has_kernel = status == 0 && count == 1;
        if has_kernel {
            // SAFETY: all zeros are one, and the library wrote it.
            let choice = unsafe { choice.assume_init() };
            assert!(choice.status == 0 && choice.workspace <= WORKSPACE);
            let mut workspace = self.stream.alloc_zeros::<u8>(WORKSPACE).unwrap();
            let (a, _a) = a_device.device_ptr(self.stream);
            let (b, _b) = b_device.device_ptr(self.stream);
            let (d, _d) = d_device.device_ptr_mut(self.stream);
            let (workspace, _workspace) = workspace.device_ptr_mut(self.stream);
            self.library
                .call::<Multiply>("hipblasLtMatmul", |multiply| {
                    // SAFETY: handles that live, matrices of the layouts' sizes, factors of the host's, and the stream.
                    unsafe {
                        multiply(
                            self.handle,
                            product,
                            &alpha,
                            a,
                            a_layout,
                            b,
                            b_layout,
                            &beta,
                            d,
                            c_layout,
                            d,
                            c_layout,
                            &choice.kernel,
                            workspace,
                            WORKSPACE,
                            self.stream.raw().cast(),
                        )
                    }
                });
        }
        let found = self.stream.clone_dtoh(&d_device).unwrap();
        for layout in layouts {
            self.destroy("hipblasLtMatrixLayoutDestroy", layout);
        }
        self.destroy("hipblasLtMatmulPreferenceDestroy", preference);
        self.destroy("hipblasLtMatmulDescDestroy", product);
        if !has_kernel {
            return None;
        }

        let found = Matrix { values: found, ..c };
        let mut worst = 0f64;
        for column in 0..columns {
            for row in 0..rows {
                let (mut sum, mut size) = (0.0, 0.0);
                for at in 0..inner {
                    let left = if a_transposed {
                        a.at(at, row)
                    } else {
                        a.at(row, at)
                    };
                    let right = if b_transposed {
                        b.at(column, at)
                    } else {
                        b.at(at, column)
                    };
                    (sum, size) = (sum + left * right, size + (left * right).abs());
                }
                let added = f64::from(beta) * c.values[row + column * c.stride].wide();
                let bias = if epilogue.has_bias {
                    bias[row].wide()
                } else {
                    0.0
                };
                let alpha = f64::from(alpha);
                let expected = (epilogue.then)(alpha * sum + added + bias);
                let size = alpha.abs() * size + added.abs() + bias.abs();
                // Sums are of f32, gelu is by an approximate exponential, and the result is rounded once.
                let limit = (inner + 16) as f64 * f32::ROUNDING * size
                    + T::ROUNDING * expected.abs()
                    + 1e-6;
                let far = (found.at(row, column) - expected).abs();
                assert!(
                    far <= limit,
                    "{} {rows}x{columns}x{inner}, transposed {a_transposed} {b_transposed}, {alpha} {beta}, {}: element \
                     {row}, {column} is {}, not {expected} within {limit:e}",
                    T::NAME,
                    epilogue.name,
                    found.at(row, column),
                );
                worst = worst.max(far / limit);
            }
            // Between columns nothing is written.
            let between = column * c.stride + rows..(column + 1) * c.stride;
            for at in between {
                assert!(found.values[at].wide() == c.values[at].wide(), "{at}");
            }
        }
        Some(worst)
    }

    /// Drawn products of a type: all of them, or where the package has no kernels none.
    fn check<T: Element>(&self, arch: &str) {
        let mut random = Random::new(14);
        let (mut products, mut worst, mut without) = (0, 0f64, 0);
        for a in OPERATIONS {
            for b in OPERATIONS {
                for epilogue in &EPILOGUES {
                    for _ in 0..DRAWN {
                        match self.multiply::<T>(&mut random, [a, b], epilogue) {
                            Some(share) => (products, worst) = (products + 1, worst.max(share)),
                            None => without += 1,
                        }
                    }
                }
            }
        }
        let name = T::NAME;
        if WITHOUT_KERNELS.contains(&arch) {
            assert_eq!(products, 0, "{name}: there are kernels for {arch} now");
            println!("{name}: hipBLASLt's package has no kernels for {arch}");
            return;
        }
        assert_eq!(without, 0, "{name}: products without a kernel on {arch}");
        println!("{name}: {products} products, at most {worst:.2} of the limit from f64");
    }
}

impl Drop for HipblasLt<'_> {
    fn drop(&mut self) {
        self.destroy("hipblasLtDestroy", self.handle);
    }
}

#[test]
#[ignore = "needs AMD's hipBLASLt: cargo xtask rocm --libraries"]
fn products_are_the_hosts() {
    on_each_device("products_are_the_hosts", |context| {
        let (stream, arch) = (context.default_stream(), &context.info().arch);
        let library = HipblasLt::on(&stream);
        library.check::<f32>(arch);
        library.check::<f16>(arch);
        library.check::<bf16>(arch);
    });
}
