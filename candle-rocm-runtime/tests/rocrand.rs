//! AMD's rocRAND on the same device and stream as ours, through the runtime in use (`cargo xtask rocm --libraries`): what
//! its generators write is what its own host generators write, and what the published algorithms say.

#[path = "common/amds_library.rs"]
mod amds_library;
mod common;
#[path = "common/philox.rs"]
mod philox;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use amds_library::AmdsLibrary;
use candle_rocm_runtime::{DevicePtrMut, DeviceRepr, Stream};
use common::on_each_device;
use philox::philox4x32_10;

/// Names rocRAND's library.
const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_TEST_ROCRAND";
const SEED: u64 = 0x0123_4567_89ab_cdef;
/// A few blocks of each generator, and not a multiple of any.
const COUNT: usize = 3001;

/// What a generator makes.
#[derive(Clone, Copy, PartialEq)]
enum Words {
    U32,
    U64,
}

/// rocRAND's generators by name and number (`rocrand_rng_type`); quasi-random ones have no seed. All but mt19937, whose
/// 8,192 engines are brought apart by jumps that take an emulated GPU minutes.
const GENERATORS: [(&str, c_int, Words, bool); 14] = [
    ("xorwow", 401, Words::U32, true),
    ("mrg32k3a", 402, Words::U32, true),
    ("mtgp32", 403, Words::U32, true),
    ("philox4x32-10", PHILOX, Words::U32, true),
    ("mrg31k3p", 405, Words::U32, true),
    ("lfsr113", 406, Words::U32, true),
    ("threefry2x32-20", 408, Words::U32, true),
    ("threefry2x64-20", 409, Words::U64, true),
    ("threefry4x32-20", 410, Words::U32, true),
    ("threefry4x64-20", 411, Words::U64, true),
    ("sobol32", SOBOL32, Words::U32, false),
    ("scrambled sobol32", 502, Words::U32, false),
    ("sobol64", 504, Words::U64, false),
    ("scrambled sobol64", 505, Words::U64, false),
];
const PHILOX: c_int = 404;
const SOBOL32: c_int = 501;

type Generator = *mut c_void;
type Create = unsafe extern "C" fn(*mut Generator, c_int) -> c_int;
type Fill = unsafe extern "C" fn(Generator, *mut c_void, usize) -> c_int;
type FillNormal<T> = unsafe extern "C" fn(Generator, *mut c_void, usize, T, T) -> c_int;

/// rocRAND.
struct Rocrand(AmdsLibrary);

/// Where a generator computes and writes.
#[derive(Clone, Copy)]
enum Side<'a> {
    Device(&'a Arc<Stream>),
    Host,
}

impl Rocrand {
    /// The library that the variable names.
    fn load() -> Self {
        Self(AmdsLibrary::named_by(LIBRARY_VARIABLE))
    }

    /// Numbers of a generator on one side; `fill` gives the generator and the memory to a function of the library.
    fn numbers<T: DeviceRepr + Copy + Default>(
        &self,
        side: Side,
        kind: c_int,
        seeded: bool,
        fill: impl FnOnce(Generator, *mut c_void),
    ) -> Vec<T> {
        let mut generator: Generator = std::ptr::null_mut();
        let create = match side {
            Side::Device(_) => "rocrand_create_generator",
            Side::Host => "rocrand_create_generator_host_blocking",
        };
        // SAFETY: the place of a handle, and a number of the header's.
        self.0
            .call::<Create>(create, |create| unsafe { create(&mut generator, kind) });
        if seeded {
            type Seed = unsafe extern "C" fn(Generator, u64) -> c_int;
            // SAFETY: the generator lives.
            self.0
                .call::<Seed>("rocrand_set_seed", |set| unsafe { set(generator, SEED) });
        }
        let numbers = match side {
            Side::Device(stream) => {
                type SetStream = unsafe extern "C" fn(Generator, *mut c_void) -> c_int;
                let raw = stream.raw().cast();
                // SAFETY: the generator lives, and the stream outlives it.
                self.0
                    .call::<SetStream>("rocrand_set_stream", |set| unsafe { set(generator, raw) });
                let mut memory = stream.clone_htod(&[T::default(); COUNT]).unwrap();
                fill(generator, memory.device_ptr_mut(stream).0 as *mut c_void);
                stream.clone_dtoh(&memory).unwrap()
            }
            Side::Host => {
                let mut memory = vec![T::default(); COUNT];
                fill(generator, memory.as_mut_ptr().cast());
                memory
            }
        };
        type Destroy = unsafe extern "C" fn(Generator) -> c_int;
        // SAFETY: nobody uses it after this.
        self.0
            .call::<Destroy>("rocrand_destroy_generator", |destroy| unsafe {
                destroy(generator)
            });
        numbers
    }

    /// Numbers by a function that takes memory and a count.
    fn plain<T: DeviceRepr + Copy + Default>(
        &self,
        side: Side,
        kind: c_int,
        seeded: bool,
        name: &str,
    ) -> Vec<T> {
        let fill = |generator, to| {
            self.0.call::<Fill>(name, |fill| {
                // SAFETY: memory for as many.
                unsafe { fill(generator, to, COUNT) }
            })
        };
        self.numbers(side, kind, seeded, fill)
    }

    /// Numbers of a normal distribution, which are made in pairs.
    fn normal<T: DeviceRepr + Copy + Default>(
        &self,
        side: Side,
        kind: c_int,
        name: &str,
        one: T,
    ) -> Vec<T> {
        let count = COUNT & !1;
        let fill = |generator, to| {
            let fill = |fill: FillNormal<T>| {
                // SAFETY: memory for one more than as many.
                unsafe { fill(generator, to, count, T::default(), one) }
            };
            self.0.call(name, fill);
        };
        self.numbers(side, kind, true, fill)
    }
}

/// Philox's block `index` of a key.
fn block(key: u64, index: u64) -> [u32; 4] {
    philox4x32_10(
        [index as u32, (index >> 32) as u32, 0, 0],
        [key as u32, (key >> 32) as u32],
    )
}

#[test]
#[ignore = "needs AMD's rocRAND: cargo xtask rocm --libraries"]
fn generators_write_what_their_host_forms_and_papers_say() {
    let test = "generators_write_what_their_host_forms_and_papers_say";
    on_each_device(test, |context| {
        let (rocrand, stream) = (Rocrand::load(), context.default_stream());
        let sides = [Side::Device(&stream), Side::Host];
        for (name, kind, words, seeded) in GENERATORS {
            match words {
                Words::U32 => {
                    let [device, host] = sides
                        .map(|side| rocrand.plain::<u32>(side, kind, seeded, "rocrand_generate"));
                    assert!(
                        device == host,
                        "{name}: {:x?} by the device, {:x?} by the host",
                        &device[..8],
                        &host[..8]
                    );
                }
                Words::U64 => {
                    let [device, host] = sides.map(|side| {
                        rocrand.plain::<u64>(side, kind, seeded, "rocrand_generate_long_long")
                    });
                    assert!(
                        device == host,
                        "{name}: {:x?} by the device, {:x?} by the host",
                        &device[..8],
                        &host[..8]
                    );
                }
            }
            println!("{name}: {COUNT} words are the host's");
        }
        // One sequence after the other is the counter's order.
        let words = rocrand.plain::<u32>(sides[0], PHILOX, true, "rocrand_generate");
        let expected: Vec<u32> = (0..COUNT as u64)
            .flat_map(|index| block(SEED, index))
            .take(COUNT)
            .collect();
        assert!(
            words == expected,
            "philox: {:x?}, not {:x?}",
            &words[..8],
            &expected[..8]
        );
        // The first dimension of Sobol's sequence is van der Corput's in the order of Gray's code.
        let words = rocrand.plain::<u32>(sides[0], SOBOL32, false, "rocrand_generate");
        let expected: Vec<u32> = (0..COUNT as u32)
            .map(|index| (index ^ index >> 1).reverse_bits())
            .collect();
        assert!(
            words == expected,
            "sobol32: {:x?}, not {:x?}",
            &words[..8],
            &expected[..8]
        );
    });
}

/// Uniform numbers are exact multiples; normal ones by logarithm, root, sine and cosine, which the device rounds as its
/// instructions do: 1e-5 of a deviation covers them, and any other sequence differs by whole ones.
#[test]
#[ignore = "needs AMD's rocRAND: cargo xtask rocm --libraries"]
fn distributions_are_the_hosts() {
    on_each_device("distributions_are_the_hosts", |context| {
        let (rocrand, stream) = (Rocrand::load(), context.default_stream());
        let sides = [Side::Device(&stream), Side::Host];
        // One generator of each kind: the others' numbers become distributions by the same functions.
        for (name, kind, _, _) in GENERATORS {
            if !["mrg32k3a", "philox4x32-10", "threefry4x64-20"].contains(&name) {
                continue;
            }
            let [device, host] = sides
                .map(|side| rocrand.plain::<f32>(side, kind, true, "rocrand_generate_uniform"));
            assert!(
                device == host,
                "{name}: uniform {:?}, not {:?}",
                &device[..4],
                &host[..4]
            );
            let [device, host] =
                sides.map(|side| rocrand.normal(side, kind, "rocrand_generate_normal", 1f32));
            let worst = device
                .iter()
                .zip(&host)
                .map(|(x, y)| (x - y).abs())
                .fold(0.0, f32::max);
            assert!(worst < 1e-5, "{name}: normal numbers differ by {worst}");
            let [device, host] = sides
                .map(|side| rocrand.normal(side, kind, "rocrand_generate_normal_double", 1f64));
            let worst64 = device
                .iter()
                .zip(&host)
                .map(|(x, y)| (x - y).abs())
                .fold(0.0, f64::max);
            assert!(
                worst64 < 1e-12,
                "{name}: normal numbers in f64 differ by {worst64}"
            );
            println!("{name}: uniform as the host's, normal within {worst:e} and {worst64:e}");
        }
    });
}
