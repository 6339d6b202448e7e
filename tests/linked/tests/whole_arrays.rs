//! cub's algorithms on arrays that take many blocks, beside plain Rust.

use std::ffi::{c_int, c_void};

use candle_core::cuda_backend::cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceRepr};
use candle_core::Device;
use candle_rocm_backend::runtime;
use candle_rocm_linked::*;
use half::f16;

/// One, a warp's end, a block's, a part's, and several parts that are not whole.
const COUNTS: [usize; 6] = [1, 31, 256, 1025, 5000, 20_011];

fn stream() -> std::sync::Arc<CudaStream> {
    runtime::select(RUNTIME).expect("the runtime starts");
    let device = Device::new_cuda(0).expect("it has a GPU");
    device.as_cuda_device().unwrap().cuda_stream()
}

/// Numbers without an order.
fn drawn(count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Sorts on the GPU: keys, and where each was.
fn sorted<K>(kind: c_int, keys: &[K], bits: (c_int, c_int), descending: bool) -> (Vec<K>, Vec<u32>)
where
    K: DeviceRepr + Copy + Default + candle_core::cuda_backend::cudarc::driver::ValidAsZeroBits,
{
    let stream = stream();
    let places: Vec<u32> = (0..keys.len() as u32).collect();
    let (of_keys, of_places) = (
        stream.clone_htod(keys).unwrap(),
        stream.clone_htod(&places).unwrap(),
    );
    let mut keys_out = stream.alloc_zeros::<K>(keys.len()).unwrap();
    let mut places_out = stream.alloc_zeros::<u32>(keys.len()).unwrap();
    {
        let (k, _k) = of_keys.device_ptr(&stream);
        let (v, _v) = of_places.device_ptr(&stream);
        let (to, _to) = keys_out.device_ptr_mut(&stream);
        let (values_to, _values_to) = places_out.device_ptr_mut(&stream);
        // SAFETY: as many keys and values as are said, and the stream that they are of.
        let error = unsafe {
            sort_by_keys(
                kind,
                k as *mut c_void,
                to as *mut c_void,
                v as *mut c_void,
                values_to as *mut c_void,
                keys.len() as c_int,
                bits.0,
                bits.1,
                descending.into(),
                stream.cu_stream().cast(),
            )
        };
        assert_eq!(error, 0);
    }
    (
        stream.clone_dtoh(&keys_out).unwrap(),
        stream.clone_dtoh(&places_out).unwrap(),
    )
}

/// Sorts both ways, both ways; equal keys keep their order.
fn check<K, O: Ord>(kind: c_int, keys: &[K], bits: (c_int, c_int), order: impl Fn(&K) -> O)
where
    K: DeviceRepr + Copy + Default + PartialEq + std::fmt::Debug,
    K: DeviceRepr + Copy + Default + candle_core::cuda_backend::cudarc::driver::ValidAsZeroBits,
{
    for descending in [false, true] {
        let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
        let of = |place: &u32| order(&keys[*place as usize]);
        match descending {
            false => expected.sort_by_key(of),
            true => expected.sort_by_key(|b| std::cmp::Reverse(of(b))),
        }
        let (found, places) = sorted(kind, keys, bits, descending);
        assert!(
            places == expected,
            "{} keys, descending {descending}",
            keys.len()
        );
        let expected: Vec<K> = expected.iter().map(|place| keys[*place as usize]).collect();
        assert!(
            found == expected,
            "{} keys, descending {descending}",
            keys.len()
        );
    }
}

/// A float's place among floats, as a whole number.
fn total(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

#[test]
fn sorts_are_stable_and_right_for_each_type() {
    for count in COUNTS {
        let raw = drawn(count, count as u64);
        // Few different ones, so that many are equal.
        let small: Vec<u32> = raw.iter().map(|x| (x % 37) as u32 * 0x0101_0101).collect();
        check(0, &small, (0, 32), |x| *x);
        let floats: Vec<f32> = raw.iter().map(|x| (*x as i32 as f32) / 1000.0).collect();
        check(1, &floats, (0, 32), |x| total(*x));
        let bytes: Vec<u8> = raw.iter().map(|x| *x as u8).collect();
        check(4, &bytes, (0, 8), |x| *x);
    }
    let raw = drawn(3000, 3);
    let signed: Vec<i64> = raw.iter().map(|x| *x as i64).collect();
    check(2, &signed, (0, 64), |x| *x);
    let halves: Vec<f16> = raw
        .iter()
        .map(|x| f16::from_f32((*x as i16).into()))
        .collect();
    check(3, &halves, (0, 16), |x| total(x.to_f32()));
    let words: Vec<u32> = raw.iter().map(|x| *x as u32).collect();
    // Bits of the middle, no multiple of a digit; and none at all.
    check(0, &words, (5, 18), |x| x >> 5 & 0x1fff);
    check(0, &words, (8, 8), |_| 0);
}

#[test]
fn two_buffers_take_turns() {
    let stream = stream();
    let mut expected: Vec<f32> = drawn(4099, 9).iter().map(|x| *x as i32 as f32).collect();
    let mut keys = stream.clone_htod(&expected).unwrap();
    let mut others = stream.alloc_zeros::<f32>(expected.len()).unwrap();
    let mut selector = -1;
    {
        let (k, _k) = keys.device_ptr_mut(&stream);
        let (o, _o) = others.device_ptr_mut(&stream);
        let count = expected.len() as c_int;
        let raw = stream.cu_stream().cast();
        // SAFETY: two buffers of so many floats, and the stream that they are of.
        let error = unsafe {
            sort_in_buffers(
                k as *mut c_void,
                o as *mut c_void,
                count,
                &mut selector,
                raw,
            )
        };
        assert_eq!(error, 0);
    }
    expected.sort_by(f32::total_cmp);
    let sorted = if selector == 0 { &keys } else { &others };
    assert!(stream.clone_dtoh(sorted).unwrap() == expected, "{selector}");
}

#[test]
fn scans_and_reductions_go_over_all_parts() {
    let stream = stream();
    for count in COUNTS.into_iter().chain([600_000]) {
        let x: Vec<u32> = drawn(count, 5).iter().map(|x| *x as u32).collect();
        let on_gpu = stream.clone_htod(&x).unwrap();
        let mut places: Vec<_> = (0..3)
            .map(|_| stream.alloc_zeros::<u32>(count).unwrap())
            .collect();
        let mut all = stream.alloc_zeros::<u32>(3).unwrap();
        {
            let (x, _x) = on_gpu.device_ptr(&stream);
            let [a, b, c] = places.as_mut_slice() else {
                unreachable!("three were made")
            };
            let (a, _a) = a.device_ptr_mut(&stream);
            let (b, _b) = b.device_ptr_mut(&stream);
            let (c, _c) = c.device_ptr_mut(&stream);
            let (all, _all) = all.device_ptr_mut(&stream);
            let [x, a, b, c, all] = [x, a, b, c, all].map(|address| address as *mut c_void);
            let raw = stream.cu_stream().cast();
            // SAFETY: buffers of so many words, three in the last, and the stream that they are of.
            let error = unsafe { scan_and_reduce(x, a, b, c, all, count as c_int, raw) };
            assert_eq!(error, 0);
        }
        let (mut sum, mut greatest) = (0u32, 7);
        let mut expected = [const { Vec::<u32>::new() }; 3];
        for x in &x {
            expected[0].push(sum);
            sum = sum.wrapping_add(*x);
            expected[1].push(sum);
            expected[2].push(greatest);
            greatest = greatest.max(*x);
        }
        for (which, (found, expected)) in places.iter().zip(&expected).enumerate() {
            assert!(
                stream.clone_dtoh(found).unwrap() == *expected,
                "{which} of {count}"
            );
        }
        let ends = [sum, *x.iter().min().unwrap(), *x.iter().max().unwrap()];
        assert_eq!(stream.clone_dtoh(&all).unwrap(), ends, "{count}");
    }
}
