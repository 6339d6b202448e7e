//! Latencies and bandwidths agree with the table of GPUs.

use rocm_gpus::{Architecture, Family, Gpu};

#[test]
fn each_level_is_slower_than_the_one_before_and_no_faster_than_its_peak() {
    let mut timed = 0;
    for gpu in Gpu::all() {
        let Some(timing) = gpu.timing() else { continue };
        timed += 1;
        let product = &gpu.facts().product;
        let levels = [Some(timing.l2), timing.infinity, Some(timing.memory)];
        let levels: Vec<_> = levels.into_iter().flatten().collect();
        assert!(timing.l1_latency < timing.l2.latency, "{gpu}");
        for pair in levels.windows(2) {
            assert!(pair[0].latency < pair[1].latency, "{gpu}");
            assert!(
                pair[0].gigabytes_per_second > pair[1].gigabytes_per_second,
                "{gpu}"
            );
        }
        assert_eq!(
            timing.infinity.is_some(),
            product.infinity_cache_mib > 0,
            "{gpu}"
        );
        let peak = product.memory.megabytes_per_second() / 1000;
        let read = u64::from(timing.memory.gigabytes_per_second);
        assert!((peak / 2..peak).contains(&read), "{gpu}: {read} of {peak}");
        // 128 bytes a cycle from each channel of each second-level cache; a compute unit's share on RDNA 3 and later.
        let channels = match gpu.architecture() {
            Architecture::Cdna3 | Architecture::Rdna2 => 16,
            Architecture::Cdna2 => 32,
            _ => product.compute_units / 4,
        };
        let peak = channels * 128 * product.xcds * product.clock_mhz / 1000;
        assert!(
            timing.l2.gigabytes_per_second.abs_diff(peak) <= 1,
            "{gpu}: {peak}"
        );
        assert_eq!(timing.l2_store_bytes, channels * 64, "{gpu}");
    }
    assert_eq!(timed, 6);
}

#[test]
fn shader_arrays_share_out_the_compute_units() {
    for gpu in Gpu::all() {
        let Some(timing) = gpu.timing() else { continue };
        let Some(array) = timing.array else { continue };
        let units = gpu.facts().product.compute_units;
        assert_eq!(units % array.compute_units, 0, "{gpu}");
        assert!(
            timing.l1_latency < array.latency && array.latency < timing.l2.latency,
            "{gpu}"
        );
        assert!(array.kib > gpu.unit().vector_cache_kib, "{gpu}");
    }
}

#[test]
fn vector_units_take_as_long_as_their_peaks_say() {
    for gpu in Gpu::all().filter(|gpu| gpu.family() != Family::Cdna) {
        let Some(timing) = gpu.timing() else { continue };
        let rates = gpu.unit().vector;
        assert_eq!(timing.double.occupies, rates.f32 / rates.f64, "{gpu}");
        assert_eq!(timing.transcendental.occupies, 4, "{gpu}");
        let launch = timing.launch.expect("published");
        assert!(launch.graph_ns <= launch.stream_ns, "{gpu}");
    }
}
