//! AMD's rocSPARSE on the runtime's device and stream (`cargo xtask rocm --libraries`): products of sparse matrices with
//! vectors are what the host computes in f64.

#[path = "common/amds_library.rs"]
mod amds_library;
mod common;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use amds_library::AmdsLibrary;
use candle_rocm_runtime::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceRepr, Stream};
use candle_rocm_testing::random::Random;
use common::on_each_device;

/// Names rocSPARSE's library.
const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_TEST_ROCSPARSE";
/// `rocsparse_operation`: as it is, and transposed.
const OPERATIONS: [c_int; 2] = [111, 112];
const TRANSPOSED: c_int = OPERATIONS[1];
/// `rocsparse_spmv_alg` for rows: the library's choice, adaptive, by rows, by lengths of rows, by elements.
const ALGORITHMS: [(&str, c_int); 5] = [
    ("chosen", 0),
    ("adaptive", 2),
    ("rows", 3),
    ("lengths", 7),
    ("elements", 8),
];
/// Those, and `csrmv` after its analysis, that several workgroups have a long row together by: the first adds
/// `beta - 1` times what stands there, which is NaN if that is, where AMD's other kernels do not read it for a `beta` of 0.
const SHARING: [c_int; 3] = [0, 2, 7];
/// Elements of a row that are many enough for that.
const LONG_ROW: usize = 2048;
/// The stages of `rocsparse_spmv`.
const SIZE: c_int = 1;
const PREPARE: c_int = 2;
const COMPUTE: c_int = 3;
/// Indices of 32 bits that count from 0.
const I32: c_int = 2;
const FROM_ZERO: c_int = 0;
/// Rows, columns, and how many elements a row has at most: odd ones, one row, one column, more than a block's share.
const SHAPES: [(usize, usize, usize); 7] = [
    (1, 1, 1),
    (1, 4099, 4099),
    (517, 1, 1),
    (37, 53, 7),
    (257, 129, 90),
    (1031, 769, 12),
    (65, 3001, 2900),
];
/// Factors of the product and of what stands in its place.
const FACTORS: [(f64, f64); 3] = [(1.0, 0.0), (-1.5, 0.75), (0.5, 1.0)];

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

/// An element's type: its number in `rocsparse_datatype`, its letter in names, and half a unit of its last place.
trait Element: DeviceRepr + Copy {
    const NUMBER: c_int;
    const LETTER: char;
    const ROUNDING: f64;
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
}

impl Element for f32 {
    const NUMBER: c_int = 151;
    const LETTER: char = 's';
    const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Element for f64 {
    const NUMBER: c_int = 152;
    const LETTER: char = 'd';
    const ROUNDING: f64 = f64::EPSILON / 2.0;
    fn of(x: f64) -> f64 {
        x
    }
    fn wide(self) -> f64 {
        self
    }
}

/// A matrix by rows.
struct Csr<T> {
    rows: usize,
    columns: usize,
    starts: Vec<i32>,
    indices: Vec<i32>,
    values: Vec<T>,
}

impl<T: Element> Csr<T> {
    /// A drawn one: a third of the rows is empty, the last among them, and one has as many elements as a row may.
    fn drawn(random: &mut Random, (rows, columns, most): (usize, usize, usize)) -> Self {
        let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..rows {
            let is_empty = rows > 1 && (random.below(3) == 0 || row + 1 == rows);
            let count = match row {
                _ if is_empty && row != rows / 2 => 0,
                _ if row == rows / 2 => most,
                _ => random.below(most.min(40) + 1),
            };
            let mut places: Vec<i32> = (0..columns as i32).collect();
            for at in 0..count {
                let other = at + random.below(columns - at);
                places.swap(at, other);
            }
            places.truncate(count);
            places.sort_unstable();
            values.extend(places.iter().map(|_| T::of(random.signed())));
            indices.extend(places);
            starts.push(indices.len() as i32);
        }
        Csr {
            rows,
            columns,
            starts,
            indices,
            values,
        }
    }

    /// The product with a vector in f64: each element, and how far another order of its sum may be from it.
    fn times(
        &self,
        operation: c_int,
        x: &[T],
        y: &[T],
        (alpha, beta): (f64, f64),
    ) -> Vec<(f64, f64)> {
        let mut sums = vec![(0.0, 0.0, 0usize); y.len()];
        for row in 0..self.rows {
            for at in self.starts[row] as usize..self.starts[row + 1] as usize {
                let column = self.indices[at] as usize;
                let (to, from) = match operation {
                    TRANSPOSED => (column, row),
                    _ => (row, column),
                };
                let term = self.values[at].wide() * x[from].wide();
                let (sum, size, terms) = &mut sums[to];
                (*sum, *size, *terms) = (*sum + term, *size + term.abs(), *terms + 1);
            }
        }
        let with = |((sum, size, terms), y): ((f64, f64, usize), &T)| {
            let y = if beta == 0.0 { 0.0 } else { beta * y.wide() };
            let rounded = (terms + 4) as f64 * T::ROUNDING;
            (alpha * sum + y, rounded * (alpha.abs() * size + y.abs()))
        };
        sums.into_iter().zip(y).map(with).collect()
    }
}

/// A matrix in the device's memory.
struct Placed<T> {
    starts: DeviceBuffer<i32>,
    indices: DeviceBuffer<i32>,
    values: DeviceBuffer<T>,
}

/// rocSPARSE, with a handle for a stream.
struct Rocsparse<'a> {
    library: AmdsLibrary,
    handle: Handle,
    stream: &'a Arc<Stream>,
}

impl<'a> Rocsparse<'a> {
    fn on(stream: &'a Arc<Stream>) -> Self {
        let library = AmdsLibrary::named_by(LIBRARY_VARIABLE);
        let handle = made(&library, "rocsparse_create_handle");
        library.call::<SetStream>("rocsparse_set_stream", |set| {
            // SAFETY: the handle lives, and the stream outlives it.
            unsafe { set(handle, stream.raw().cast()) }
        });
        Rocsparse {
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

    /// By `rocsparse_?csrmv`, after its analysis or without.
    #[allow(clippy::too_many_arguments)]
    fn csrmv<T: Element>(
        &self,
        matrix: &Csr<T>,
        placed: &Placed<T>,
        operation: c_int,
        is_analysed: bool,
        x: &DeviceBuffer<T>,
        y: &mut DeviceBuffer<T>,
        (alpha, beta): (f64, f64),
    ) {
        type Analyse<T> = unsafe extern "C" fn(
            Handle,
            c_int,
            c_int,
            c_int,
            c_int,
            Handle,
            *const T,
            *const i32,
            *const i32,
            Handle,
        ) -> c_int;
        type Multiply<T> = unsafe extern "C" fn(
            Handle,
            c_int,
            c_int,
            c_int,
            c_int,
            *const T,
            Handle,
            *const T,
            *const i32,
            *const i32,
            Handle,
            *const T,
            *const T,
            *mut T,
        ) -> c_int;
        let description = made(&self.library, "rocsparse_create_mat_descr");
        let info = match is_analysed {
            true => made(&self.library, "rocsparse_create_mat_info"),
            false => std::ptr::null_mut(),
        };
        let [rows, columns, count] =
            [matrix.rows, matrix.columns, matrix.values.len()].map(|size| size as c_int);
        let (starts, _starts) = placed.starts.device_ptr(self.stream);
        let (indices, _indices) = placed.indices.device_ptr(self.stream);
        let (values, _values) = placed.values.device_ptr(self.stream);
        let [starts, indices] = [starts as *const i32, indices as *const i32];
        let values = values as *const T;
        if is_analysed {
            let name = format!("rocsparse_{}csrmv_analysis", T::LETTER);
            self.library.call::<Analyse<T>>(&name, |analyse| {
                // SAFETY: handles that live, and a matrix of these sizes in the device's memory.
                unsafe {
                    analyse(
                        self.handle,
                        operation,
                        rows,
                        columns,
                        count,
                        description,
                        values,
                        starts,
                        indices,
                        info,
                    )
                }
            });
        }
        let (alpha, beta) = (T::of(alpha), T::of(beta));
        let (from, _from) = x.device_ptr(self.stream);
        let (to, _to) = y.device_ptr_mut(self.stream);
        let name = format!("rocsparse_{}csrmv", T::LETTER);
        self.library.call::<Multiply<T>>(&name, |multiply| {
            // SAFETY: as above, and vectors as long as the matrix is wide and high; the factors are the host's.
            unsafe {
                multiply(
                    self.handle,
                    operation,
                    rows,
                    columns,
                    count,
                    &alpha,
                    description,
                    values,
                    starts,
                    indices,
                    info,
                    from as *const T,
                    &beta,
                    to as *mut T,
                )
            }
        });
        self.stream.synchronize().unwrap();
        if is_analysed {
            self.destroy("rocsparse_destroy_mat_info", info);
        }
        self.destroy("rocsparse_destroy_mat_descr", description);
    }

    /// By `rocsparse_spmv`.
    #[allow(clippy::too_many_arguments)]
    fn spmv<T: Element>(
        &self,
        matrix: &Csr<T>,
        placed: &Placed<T>,
        operation: c_int,
        algorithm: c_int,
        x: &DeviceBuffer<T>,
        y: &mut DeviceBuffer<T>,
        (alpha, beta): (f64, f64),
    ) {
        type CreateMatrix = unsafe extern "C" fn(
            *mut Handle,
            i64,
            i64,
            i64,
            u64,
            u64,
            u64,
            c_int,
            c_int,
            c_int,
            c_int,
        ) -> c_int;
        type CreateVector = unsafe extern "C" fn(*mut Handle, i64, u64, c_int) -> c_int;
        type Multiply<T> = unsafe extern "C" fn(
            Handle,
            c_int,
            *const T,
            Handle,
            Handle,
            *const T,
            Handle,
            c_int,
            c_int,
            c_int,
            *mut usize,
            u64,
        ) -> c_int;
        let (starts, _starts) = placed.starts.device_ptr(self.stream);
        let (indices, _indices) = placed.indices.device_ptr(self.stream);
        let (values, _values) = placed.values.device_ptr(self.stream);
        let mut sparse: Handle = std::ptr::null_mut();
        let [rows, columns, count] =
            [matrix.rows, matrix.columns, matrix.values.len()].map(|size| size as i64);
        self.library
            .call::<CreateMatrix>("rocsparse_create_csr_descr", |create| {
                // SAFETY: the place of a handle, and a matrix of these sizes in the device's memory.
                unsafe {
                    create(
                        &mut sparse,
                        rows,
                        columns,
                        count,
                        starts,
                        indices,
                        values,
                        I32,
                        I32,
                        FROM_ZERO,
                        T::NUMBER,
                    )
                }
            });
        let vector = |count: usize, place: u64| {
            let mut vector: Handle = std::ptr::null_mut();
            self.library
                .call::<CreateVector>("rocsparse_create_dnvec_descr", |create| {
                    // SAFETY: the place of a handle, and so many numbers in the device's memory.
                    unsafe { create(&mut vector, count as i64, place, T::NUMBER) }
                });
            vector
        };
        let (x_count, y_count) = (x.len(), y.len());
        let (from, _from) = x.device_ptr(self.stream);
        let (to, _to) = y.device_ptr_mut(self.stream);
        let [from, to] = [vector(x_count, from), vector(y_count, to)];
        let (alpha, beta) = (T::of(alpha), T::of(beta));
        let mut size = 0;
        let mut buffer = None;
        for stage in [SIZE, PREPARE, COMPUTE] {
            let place = match &mut buffer {
                Some(buffer) => DeviceBuffer::<u8>::device_ptr_mut(buffer, self.stream).0,
                None => 0,
            };
            self.library
                .call::<Multiply<T>>("rocsparse_spmv", |multiply| {
                    // SAFETY: handles that live, factors of the host's, and a buffer of the size that the library gave.
                    unsafe {
                        multiply(
                            self.handle,
                            operation,
                            &alpha,
                            sparse,
                            from,
                            &beta,
                            to,
                            T::NUMBER,
                            algorithm,
                            stage,
                            &mut size,
                            place,
                        )
                    }
                });
            if stage == SIZE {
                buffer = Some(self.stream.alloc_zeros::<u8>(size.max(1)).unwrap());
            }
        }
        self.stream.synchronize().unwrap();
        self.destroy("rocsparse_destroy_spmat_descr", sparse);
        self.destroy("rocsparse_destroy_dnvec_descr", from);
        self.destroy("rocsparse_destroy_dnvec_descr", to);
    }

    /// All ways of multiplying drawn matrices of a type.
    fn check<T: Element>(&self) {
        let mut random = Random::new(14);
        let (mut products, mut worst) = (0, 0f64);
        for shape in SHAPES {
            let matrix = Csr::<T>::drawn(&mut random, shape);
            let placed = Placed {
                starts: self.stream.clone_htod(&matrix.starts).unwrap(),
                indices: self.stream.clone_htod(&matrix.indices).unwrap(),
                values: self.stream.clone_htod(&matrix.values).unwrap(),
            };
            for operation in OPERATIONS {
                let (wide, high) = match operation {
                    TRANSPOSED => (matrix.rows, matrix.columns),
                    _ => (matrix.columns, matrix.rows),
                };
                let mut vector =
                    |count| -> Vec<T> { (0..count).map(|_| T::of(random.signed())).collect() };
                let (x, old) = (vector(wide), vector(high));
                let from = self.stream.clone_htod(&x).unwrap();
                for factors in FACTORS {
                    // Where nothing is added, what stood there must not be looked at.
                    let standing = |is_shared: bool| match factors.1 == 0.0 {
                        true if !(is_shared && shape.2 >= LONG_ROW) => {
                            vec![T::of(f64::NAN); high]
                        }
                        _ => old.clone(),
                    };
                    let expected = matrix.times(operation, &x, &old, factors);
                    let mut compare = |way: &str, to: &DeviceBuffer<T>| {
                        let found = self.stream.clone_dtoh(to).unwrap();
                        for (at, (found, (expected, limit))) in
                            found.iter().zip(&expected).enumerate()
                        {
                            let far = (found.wide() - expected).abs();
                            assert!(
                                far <= *limit,
                                "{}csr by {way}, {shape:?}, operation {operation}, {factors:?}: element {at} is {}, not \
                                 {expected} within {limit:e}",
                                T::LETTER,
                                found.wide(),
                            );
                            worst = worst.max(far / limit.max(f64::MIN_POSITIVE));
                        }
                        products += 1;
                    };
                    for is_analysed in [false, true] {
                        let mut to = self.stream.clone_htod(&standing(is_analysed)).unwrap();
                        self.csrmv(
                            &matrix,
                            &placed,
                            operation,
                            is_analysed,
                            &from,
                            &mut to,
                            factors,
                        );
                        let way = ["csrmv", "csrmv, analysed"][usize::from(is_analysed)];
                        compare(way, &to);
                    }
                    for (way, algorithm) in ALGORITHMS {
                        let is_shared = SHARING.contains(&algorithm);
                        let mut to = self.stream.clone_htod(&standing(is_shared)).unwrap();
                        self.spmv(
                            &matrix, &placed, operation, algorithm, &from, &mut to, factors,
                        );
                        compare(way, &to);
                    }
                }
            }
        }
        println!(
            "{}: {products} products, at most {worst:.2} of the limit from f64",
            std::any::type_name::<T>()
        );
    }
}

impl Drop for Rocsparse<'_> {
    fn drop(&mut self) {
        self.destroy("rocsparse_destroy_handle", self.handle);
    }
}

/// What a function of the library makes.
fn made(library: &AmdsLibrary, name: &str) -> Handle {
    let mut made: Handle = std::ptr::null_mut();
    // SAFETY: the place of a handle.
    library.call::<Create>(name, |create| unsafe { create(&mut made) });
    made
}

#[test]
#[ignore = "needs AMD's rocSPARSE: cargo xtask rocm --libraries"]
fn sparse_products_are_the_hosts() {
    on_each_device("sparse_products_are_the_hosts", |context| {
        let stream = context.default_stream();
        let rocsparse = Rocsparse::on(&stream);
        rocsparse.check::<f32>();
        rocsparse.check::<f64>();
    });
}
