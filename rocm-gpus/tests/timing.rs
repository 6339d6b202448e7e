//! Latencies and bandwidths agree with the table of GPUs.

use rocm_gpus::{Architecture, Gpu};

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
        // 128 bytes a cycle from each channel of each second-level cache.
        let channels = match gpu.architecture() {
            Architecture::Cdna3 => 16,
            _ => 32,
        };
        let peak = channels * 128 * product.xcds * product.clock_mhz / 1000;
        assert!(
            timing.l2.gigabytes_per_second.abs_diff(peak) <= 1,
            "{gpu}: {peak}"
        );
        assert_eq!(timing.l2_store_bytes, channels * 64, "{gpu}");
    }
    assert_eq!(timed, 2);
}
