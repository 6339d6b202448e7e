//! The GPU's clock, which completion signals carry, and those of the host beside it.

/// Ticks of the GPU's clock in a second, as on AMD's GPUs.
pub const FREQUENCY: u64 = 100_000_000;
/// Nanoseconds in a second.
pub const NANOSECONDS: u64 = 1_000_000_000;

/// The GPU's clock now.
pub fn now() -> u64 {
    nanoseconds(libc::CLOCK_BOOTTIME) / (NANOSECONDS / FREQUENCY)
}

/// One of the host's clocks now.
pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is large enough. A clock that there is cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * NANOSECONDS + time.tv_nsec as u64
}
