//! Buffers and views: bounds, copies in every direction, page-locked memory, empty buffers.

mod common;

use candle_rocm_runtime::{DevicePtr, ErrorKind, HostSlice};
use common::context;
use half::{bf16, f16};

#[test]
fn round_trips_keep_every_element_type() {
    let stream = context().default_stream();
    macro_rules! check {
        ($($values:expr),* $(,)?) => {
            $(
                let values = $values;
                let buffer = stream.clone_htod(&values).unwrap();
                assert_eq!(buffer.len(), values.len());
                assert_eq!(buffer.num_bytes(), std::mem::size_of_val(&values));
                assert_eq!(stream.clone_dtoh(&buffer).unwrap(), values);
            )*
        };
    }
    check!(
        [true, false, true],
        [i8::MIN, -1, 0, i8::MAX],
        [u8::MAX],
        [i16::MIN, 7],
        [u16::MAX, 7, 9],
        [i32::MIN, i32::MAX],
        [u32::MAX; 257],
        [i64::MIN, i64::MAX],
        [u64::MAX, 1],
        [usize::MAX, 1],
        [f32::MIN_POSITIVE, -0.0, f32::INFINITY],
        [f64::MAX, f64::EPSILON],
        [f16::MAX, f16::NEG_INFINITY],
        [bf16::MIN, bf16::EPSILON],
        [
            float8::F8E4M3::from_f32(1.5),
            float8::F8E4M3::from_f32(-448.0)
        ],
    );
}

#[test]
fn zeros_are_zero_and_only_the_viewed_part_is_set() {
    let stream = context().default_stream();
    let zeros = stream.alloc_zeros::<f32>(1001).unwrap();
    assert_eq!(stream.clone_dtoh(&zeros).unwrap(), vec![0.0; 1001]);
    let mut buffer = stream.clone_htod(&[7u32; 10]).unwrap();
    stream.memset_zeros(&mut buffer.slice_mut(3..6)).unwrap();
    assert_eq!(
        stream.clone_dtoh(&buffer).unwrap(),
        [7, 7, 7, 0, 0, 0, 7, 7, 7, 7]
    );
}

#[test]
fn views_name_the_elements_they_say() {
    let stream = context().default_stream();
    let host: Vec<u32> = (0..100).collect();
    let mut buffer = stream.clone_htod(&host).unwrap();
    let read = |view: &candle_rocm_runtime::View<'_, u32>| stream.clone_dtoh(view).unwrap();
    assert_eq!(read(&buffer.slice(..)), host);
    assert_eq!(read(&buffer.slice(10..20)), host[10..20]);
    assert_eq!(read(&buffer.slice(10..=20)), host[10..=20]);
    assert_eq!(read(&buffer.slice(90..).slice(5..)), host[95..]);
    assert_eq!(read(&buffer.slice(100..)), [0u32; 0]);
    let (left, right) = buffer.split_at(33);
    assert_eq!(
        (read(&left), read(&right)),
        (host[..33].to_vec(), host[33..].to_vec())
    );
    let chunks: Vec<_> = buffer
        .as_view()
        .chunks_exact(25)
        .map(|chunk| read(&chunk))
        .collect();
    assert_eq!(chunks, host.chunks_exact(25).collect::<Vec<_>>());
    // SAFETY: any four bytes are four bytes.
    let bytes = unsafe { buffer.slice(1..2).transmute::<u8>(4) }.unwrap();
    assert_eq!(stream.clone_dtoh(&bytes).unwrap(), [1, 0, 0, 0]);

    let (mut left, mut right) = buffer.split_at_mut(50);
    stream
        .memcpy_htod(&[1000u32], &mut left.slice_mut(49..))
        .unwrap();
    stream
        .memcpy_htod(&[2000u32], &mut right.slice_mut(0..1))
        .unwrap();
    for mut chunk in buffer.as_view_mut().chunks_exact_mut(50) {
        stream.memcpy_htod(&[3000u32], &mut chunk).unwrap();
    }
    let result = stream.clone_dtoh(&buffer).unwrap();
    assert_eq!(
        (result[0], result[49], result[50], result[51]),
        (3000, 1000, 3000, 51)
    );
}

#[test]
fn ranges_outside_are_refused() {
    let stream = context().default_stream();
    let mut buffer = stream.alloc_zeros::<u16>(8).unwrap();
    assert!(buffer.try_slice(0..9).is_none());
    assert!(buffer.try_slice(9..).is_none());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 5..4;
    assert!(buffer.try_slice(reversed).is_none());
    assert!(buffer.try_slice(..=usize::MAX).is_none());
    assert!(buffer.try_slice_mut(3..9).is_none());
    assert!(buffer.try_split_at(9).is_none());
    assert!(buffer.try_split_at_mut(9).is_none());
    // SAFETY: never used; there are not so many bytes.
    assert!(unsafe { buffer.transmute::<u32>(5) }.is_none());
    // SAFETY: as above; the product of the sizes overflows.
    assert!(unsafe { buffer.transmute::<u32>(usize::MAX / 2) }.is_none());
    let panic = std::panic::catch_unwind(|| buffer.slice(4..12).len()).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("12") && text.contains('8'), "{text}");
}

#[test]
fn copies_that_do_not_fit_are_errors() {
    let stream = context().default_stream();
    let mut small = stream.alloc_zeros::<f32>(2).unwrap();
    let large = stream.alloc_zeros::<f32>(3).unwrap();
    for error in [
        stream.memcpy_htod(&[1f32; 3], &mut small).unwrap_err(),
        stream.memcpy_dtod(&large, &mut small).unwrap_err(),
        stream.memcpy_dtoh(&large, &mut [0f32; 2]).unwrap_err(),
    ] {
        assert_eq!(*error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.to_string().contains("3 elements do not fit into 2"),
            "{error}"
        );
    }
    // SAFETY: the size is refused.
    let error = unsafe { stream.alloc::<u64>(usize::MAX / 4) }.unwrap_err();
    assert!(error.to_string().contains("address space"), "{error}");
}

#[test]
fn a_larger_destination_keeps_its_rest() {
    let stream = context().default_stream();
    let mut dst = stream.clone_htod(&[9u8; 5]).unwrap();
    stream.memcpy_htod(&[1u8, 2], &mut dst).unwrap();
    let src = stream.clone_htod(&[3u8]).unwrap();
    stream.memcpy_dtod(&src, &mut dst.slice_mut(4..)).unwrap();
    let mut host = [0u8; 7];
    stream.memcpy_dtoh(&dst, &mut host).unwrap();
    assert_eq!(host, [1, 2, 9, 9, 3, 0, 0]);
}

#[test]
fn empty_buffers_need_no_memory() {
    let stream = context().default_stream();
    let mut empty = stream.alloc_zeros::<f64>(0).unwrap();
    assert!(empty.is_empty());
    assert_eq!(empty.device_ptr(&stream).0, 0);
    let nothing: [f64; 0] = [];
    stream.memcpy_htod(&nothing, &mut empty).unwrap();
    assert_eq!(stream.clone_dtoh(&empty).unwrap(), nothing);
    assert_eq!(empty.try_clone().unwrap().len(), 0);
    assert_eq!(stream.null::<u8>().unwrap().len(), 0);
    // SAFETY: no elements.
    let pinned = unsafe { stream.context().alloc_pinned::<u32>(0) }.unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [0u32; 0]);
}

#[test]
fn clones_are_independent() {
    let stream = context().default_stream();
    let mut first = stream.clone_htod(&[1i64, 2, 3]).unwrap();
    let second = first.clone();
    stream.memset_zeros(&mut first).unwrap();
    assert_eq!(Vec::try_from(second).unwrap(), [1, 2, 3]);
}

#[test]
fn pinned_memory_copies_both_ways() {
    let context = context();
    let stream = context.new_stream().unwrap();
    // SAFETY: filled before it is read.
    let mut source = unsafe { context.alloc_pinned::<f32>(1000) }.unwrap();
    // SAFETY: filled by the copy below before it is read.
    let mut target = unsafe { context.alloc_pinned_with_flags::<f32>(1000, 0) }.unwrap();
    assert!(source.is_pinned());
    for (i, x) in source.as_mut_slice().unwrap().iter_mut().enumerate() {
        *x = i as f32;
    }
    let buffer = stream.clone_htod(&source).unwrap();
    stream.memcpy_dtoh(&buffer, &mut target).unwrap();
    assert_eq!(target.as_slice().unwrap(), source.as_slice().unwrap());
}

#[test]
fn leaked_memory_can_be_taken_back() {
    let stream = context().default_stream();
    let buffer = stream.clone_htod(&[5u8; 77]).unwrap();
    let address = buffer.leak();
    // SAFETY: leaked just now, with these elements.
    let back = unsafe { stream.upgrade_device_ptr::<u8>(address, 77) };
    assert_eq!(stream.clone_dtoh(&back).unwrap(), [5; 77]);
}

#[test]
fn memory_goes_from_gpu_to_gpu() {
    common::in_process(
        "memory_goes_from_gpu_to_gpu",
        &[("ROCM_EMU_ARCH", "gfx1100,gfx942")],
        || {
            let (first, second) = (context(), candle_rocm_runtime::Context::new(1).unwrap());
            assert_eq!(
                (first.info().wavefront_size, second.info().wavefront_size),
                (32, 64)
            );
            let (from, to) = (first.new_stream().unwrap(), second.new_stream().unwrap());
            let buffer = from.clone_htod(&[1u32, 2, 3]).unwrap();
            let copy = to.clone_dtod(&buffer).unwrap();
            assert_eq!(copy.ordinal(), 1);
            assert_eq!(to.clone_dtoh(&copy).unwrap(), [1, 2, 3]);
            assert!(first != second);
        },
    );
}
