//! Ordinary kernels, compiled by clang for every family, compared with the same computation in Rust.

use candle_rocm_testing::gpu::Arg::{F64, I16, I32, U32, U64, U8};
use candle_rocm_testing::gpu::{Gpu, TARGETS};
use candle_rocm_testing::random::Random;
use rocm_emulator::exec::{Class, Options};

const SOURCE: &str = include_str!("exec_support/programs.hip");

fn each_gpu(test: impl Fn(&Gpu)) {
    for target in TARGETS {
        test(&Gpu::new(target, SOURCE));
    }
}

/// Reproducible bits.
fn bits(seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::from_state(seed);
    std::iter::repeat_with(move || random.bits())
}

/// Numbers between -1000 and 1000.
fn reals(seed: u64, count: usize) -> Vec<f64> {
    let real = |x: u64| (x >> 11) as f64 / (1u64 << 53) as f64 * 2000.0 - 1000.0;
    bits(seed).take(count).map(real).collect()
}

fn singles(seed: u64, count: usize) -> Vec<f32> {
    reals(seed, count).into_iter().map(|x| x as f32).collect()
}

#[test]
fn add_with_a_partial_last_workgroup() {
    each_gpu(|gpu| {
        for n in [0usize, 1, 31, 64, 65, 1000, 4099] {
            let (a, b) = (singles(1, n), singles(2, n));
            let (from_a, from_b) = (gpu.upload(&a), gpu.upload(&b));
            let out = gpu.buffer(4 * n as u64);
            let args = [U64(from_a), U64(from_b), U64(out), U32(n as u32)];
            let groups = (n as u32).div_ceil(96);
            let counters = gpu.run("add", [groups, 1, 1], [96, 1, 1], &args);
            let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_eq!(gpu.download::<f32>(out, n), want, "{} n {n}", gpu.target);
            assert_eq!(counters.workgroups, u64::from(groups));
            assert_eq!(counters.bytes_loaded, 8 * n as u64);
            assert_eq!(counters.bytes_stored, 4 * n as u64);
            assert!(groups == 0 || counters.of(Class::Memory) >= 3);
        }
    });
}

#[test]
fn a_part_of_the_workgroups_is_executed() {
    each_gpu(|gpu| {
        let ones = gpu.upload(&[1f32; 5 * 64]);
        for (workgroups, executed) in [(0, 5), (1, 1), (2, 2), (5, 5), (9, 5)] {
            let out = gpu.upload(&[0f32; 5 * 64]);
            let args = [U64(ones), U64(ones), U64(out), U32(5 * 64)];
            let options = Options {
                workgroups,
                ..Options::default()
            };
            let counters = gpu.launch("add", [5, 1, 1], [64, 1, 1], 0, &args, &options);
            let counters = counters.unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(counters.workgroups, executed, "{}", gpu.target);
            let sums = gpu.download::<f32>(out, 5 * 64);
            // The first is, and of two the last.
            let last = if workgroups == 1 { 0.0 } else { 2.0 };
            assert!(sums[..64].iter().all(|sum| *sum == 2.0));
            assert!(sums[4 * 64..].iter().all(|sum| *sum == last));
        }
    });
}

#[test]
fn arguments_and_geometry() {
    each_gpu(|gpu| {
        let out = gpu.buffer(12 * 8);
        let args = [
            U8(200),
            I16(-3),
            I32(-70_000),
            F64(0.125),
            U8(9),
            U64(1 << 40),
            U64(out),
        ];
        gpu.run("arguments", [5, 3, 2], [7, 2, 4], &args);
        let want = [
            200.0,
            -3.0,
            -70_000.0,
            0.125,
            9.0,
            (1u64 << 40) as f64,
            7.0,
            2.0,
            4.0,
            35.0,
            6.0,
            8.0,
        ];
        assert_eq!(gpu.download::<f64>(out, 12), want, "{}", gpu.target);
    });
}

#[test]
fn reduction_over_barriers() {
    each_gpu(|gpu| {
        for n in [1usize, 255, 256, 3000] {
            let input: Vec<i32> = bits(3).take(n).map(|x| x as i32 >> 8).collect();
            let groups = n.div_ceil(256);
            let (from, out) = (gpu.upload(&input), gpu.buffer(4 * groups as u64));
            let args = [U64(from), U64(out), U32(n as u32)];
            gpu.run("reduce", [groups as u32, 1, 1], [256, 1, 1], &args);
            let want: Vec<i32> = input
                .chunks(256)
                .map(|part| part.iter().fold(0, |sum: i32, x| sum.wrapping_add(*x)))
                .collect();
            assert_eq!(gpu.download::<i32>(out, groups), want, "{}", gpu.target);
        }
    });
}

#[test]
fn dynamic_lds() {
    each_gpu(|gpu| {
        for block in [1u32, 50, 1024] {
            let input: Vec<i32> = (0..3 * block as i32).collect();
            let data = gpu.upload(&input);
            let done = gpu.launch(
                "reverse",
                [3, 1, 1],
                [block, 1, 1],
                4 * block,
                &[U64(data)],
                &Options::default(),
            );
            done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            let want: Vec<i32> = input
                .chunks(block as usize)
                .flat_map(|part| part.iter().rev().copied())
                .collect();
            assert_eq!(
                gpu.download::<i32>(data, want.len()),
                want,
                "{}",
                gpu.target
            );
        }
    });
}

#[test]
fn three_dimensional_grids_with_partial_wavefronts() {
    each_gpu(|gpu| {
        for (grid, block) in [
            ([3, 2, 4], [5, 3, 2]),
            ([2, 1, 1], [1, 1, 70]),
            ([1, 9, 1], [33, 2, 1]),
        ] {
            let size: [u32; 3] = std::array::from_fn(|axis| grid[axis] * block[axis]);
            let count = size.iter().product::<u32>() as usize;
            let out = gpu.buffer(4 * count as u64);
            gpu.run("grid3", grid, block, &[U64(out)]);
            let want: Vec<u32> = (0..count as u32)
                .map(|i| {
                    let (x, y, z) = (i % size[0], i / size[0] % size[1], i / size[0] / size[1]);
                    x | y << 8 | z << 16 | (x / block[0]) << 24
                })
                .collect();
            assert_eq!(gpu.download::<u32>(out, count), want, "{}", gpu.target);
        }
    });
}

#[test]
fn divergent_control_flow() {
    fn expected(start: u32, limit: u32) -> u32 {
        let (mut x, mut steps, mut odd) = (start, 0u32, 0);
        while x != 1 {
            if x & 1 != 0 {
                x = 3 * x + 1;
                odd += 1;
                if odd > limit {
                    break;
                }
            } else {
                x /= 2;
            }
            steps += 1;
        }
        match start % 5 {
            0 => steps + 1000,
            1 => (steps ^ 0x5555).wrapping_mul(3),
            2 => steps * 3,
            3 => (0..start % 7).fold(steps, |steps, i| steps + i * start),
            _ => !steps,
        }
    }
    each_gpu(|gpu| {
        let out = gpu.buffer(4 * 1000);
        gpu.run("diverge", [10, 1, 1], [100, 1, 1], &[U64(out), U32(25)]);
        let want: Vec<u32> = (1..=1000).map(|start| expected(start, 25)).collect();
        assert_eq!(gpu.download::<u32>(out, 1000), want, "{}", gpu.target);
    });
}

#[test]
fn transpose_through_lds() {
    each_gpu(|gpu| {
        for (rows, columns) in [(32usize, 64usize), (45, 70), (1, 33)] {
            let input = singles(4, rows * columns);
            let from = gpu.upload(&input);
            let out = gpu.buffer(4 * input.len() as u64);
            let args = [U64(from), U64(out), U32(rows as u32), U32(columns as u32)];
            let grid = [columns.div_ceil(32) as u32, rows.div_ceil(32) as u32, 1];
            gpu.run("transpose", grid, [32, 8, 1], &args);
            let want: Vec<f32> = (0..columns)
                .flat_map(|column| (0..rows).map(move |row| row * columns + column))
                .map(|at| input[at])
                .collect();
            assert_eq!(gpu.download::<f32>(out, want.len()), want, "{}", gpu.target);
        }
    });
}

#[test]
fn arrays_in_scratch() {
    each_gpu(|gpu| {
        let items = 150;
        let input: Vec<i32> = bits(5).take(items * 24).map(|x| x as i32 >> 16).collect();
        let from = gpu.upload(&input);
        let (out, bytes) = (
            gpu.buffer(4 * input.len() as u64),
            gpu.buffer(32 * items as u64),
        );
        let args = [U64(from), U64(out), U64(bytes)];
        gpu.run("sort_locally", [3, 1, 1], [50, 1, 1], &args);
        let mut sorted = input.clone();
        let mut seen = vec![0u8; 32 * items];
        for (i, part) in sorted.chunks_mut(24).enumerate() {
            part.sort();
            part.iter()
                .for_each(|x| seen[32 * i + (x & 31) as usize] += 1);
        }
        assert_eq!(
            gpu.download::<i32>(out, input.len()),
            sorted,
            "{}",
            gpu.target
        );
        assert_eq!(
            gpu.download::<u8>(bytes, seen.len()),
            seen,
            "{}",
            gpu.target
        );
    });
}

#[test]
fn double_precision_is_exact() {
    each_gpu(|gpu| {
        let n = 500;
        let (mut a, mut b) = (reals(6, n), reals(7, n));
        a[..6].copy_from_slice(&[0.0, -0.0, 1.0, 999.5, 1e-3, -1e-300]);
        b[..6].copy_from_slice(&[1.0, 3.0, 3.0, -0.0, 1e-310, 1e-300]);
        let (from_a, from_b) = (gpu.upload(&a), gpu.upload(&b));
        let out = gpu.buffer(5 * 8 * n as u64);
        let args = [U64(from_a), U64(from_b), U64(out), U32(n as u32)];
        gpu.run("doubles", [2, 1, 1], [256, 1, 1], &args);
        let got = gpu.download::<f64>(out, 5 * n);
        for i in 0..n {
            let (a, b) = (a[i], b[i]);
            let want = [
                a / b,
                a.mul_add(b, a - b),
                (a * a).sqrt(),
                a.floor() + a.max(b),
                (a as i64) as f64 + f64::from(b as f32) + f64::from(a as i32 as u32),
            ];
            for (k, want) in want.into_iter().enumerate() {
                let got = got[k * n + i];
                assert_eq!(got, want, "{}: result {k} of {a:e} and {b:e}", gpu.target);
            }
        }
    });
}

#[test]
fn single_precision_is_exact() {
    each_gpu(|gpu| {
        let n = 500;
        let (mut a, mut b) = (singles(8, n), singles(9, n));
        a[..5].copy_from_slice(&[0.0, -0.0, 1.0, 999.5, 1e-40]);
        b[..5].copy_from_slice(&[1.0, 3.0, 3.0, -0.0, 7.0]);
        let (from_a, from_b) = (gpu.upload(&a), gpu.upload(&b));
        let out = gpu.buffer(4 * 4 * n as u64);
        let args = [U64(from_a), U64(from_b), U64(out), U32(n as u32)];
        gpu.run("floats", [2, 1, 1], [256, 1, 1], &args);
        let got = gpu.download::<f32>(out, 4 * n);
        let half = |x: f32| half::f16::from_f32(x).to_f32();
        for i in 0..n {
            let (a, b) = (a[i], b[i]);
            let want = [
                a / b,
                (a * a).sqrt(),
                (a * 1e12) as i64 as f32,
                half(a) * half(b),
            ];
            for (k, want) in want.into_iter().enumerate() {
                let got = got[k * n + i];
                assert_eq!(got, want, "{}: result {k} of {a:e} and {b:e}", gpu.target);
            }
        }
    });
}

/// Operands that reach the corners of integer arithmetic, and ordinary ones.
fn integer_operands() -> (Vec<u64>, Vec<u64>) {
    let corners = [
        1u64,
        2,
        3,
        63,
        1 << 31,
        u32::MAX.into(),
        1 << 32,
        1 << 62,
        u64::MAX - 1,
    ];
    let mut a: Vec<u64> = Vec::new();
    let mut b = Vec::new();
    for x in corners {
        for y in corners {
            a.push(x);
            b.push(y);
        }
    }
    a.push(0);
    b.push(5);
    a.extend(bits(10).take(200));
    b.extend(
        bits(11)
            .enumerate()
            .map(|(i, y)| y >> (i % 64))
            .map(|y| y.max(1))
            .take(200),
    );
    (a, b)
}

fn population(x: u64) -> u64 {
    u64::from(x.count_ones())
        + 100 * u64::from(x.leading_zeros())
        + 10_000 * u64::from(x.trailing_zeros())
}

#[test]
fn vector_integers() {
    each_gpu(|gpu| {
        let (a, b) = integer_operands();
        let n = a.len();
        let (from_a, from_b) = (gpu.upload(&a), gpu.upload(&b));
        let out = gpu.buffer(8 * 8 * n as u64);
        let args = [U64(from_a), U64(from_b), U64(out), U32(n as u32)];
        gpu.run("integers", [3, 1, 1], [128, 1, 1], &args);
        let got = gpu.download::<u64>(out, 8 * n);
        for i in 0..n {
            let (x, y) = (a[i], b[i]);
            let small = (x as u32 / (y as u32 | 1)) as u64;
            let want = [
                x / y,
                x % y,
                (x as i64).wrapping_div(y as i64) as u64,
                ((u128::from(x) * u128::from(y)) >> 64) as u64,
                small.wrapping_add((x as i32).wrapping_rem(y as i32 | 1) as i64 as u64),
                x << (y & 63) ^ (x as i64 >> (y & 63)) as u64,
                population(x),
                x.reverse_bits() ^ y.swap_bytes(),
            ];
            for (k, want) in want.into_iter().enumerate() {
                assert_eq!(
                    got[k * n + i],
                    want,
                    "{}: result {k} of {x:#x} and {y:#x}",
                    gpu.target
                );
            }
        }
    });
}

#[test]
fn scalar_integers() {
    each_gpu(|gpu| {
        let (a, b) = integer_operands();
        let n = a.len();
        let (from_a, from_b) = (gpu.upload(&a), gpu.upload(&b));
        let out = gpu.buffer(6 * 8 * n as u64);
        let args = [U64(from_a), U64(from_b), U64(out), U32(n as u32)];
        gpu.run("uniform", [n as u32, 1, 1], [32, 1, 1], &args);
        let got = gpu.download::<u64>(out, 6 * n);
        for i in 0..n {
            let (x, y) = (a[i], b[i]);
            let least = (x as i32).min(y as i32) as u32;
            let greatest = (x as u32).max(y as u32);
            let flags =
                u64::from(x < y) + 2 * u64::from((x as i64) < y as i64) + 4 * u64::from(x == y);
            let product = i64::from(x as i16).wrapping_mul(i64::from(y as i8)) as u64;
            let want = [
                x.wrapping_mul(y)
                    .wrapping_add(x >> (y & 63))
                    .wrapping_sub((y as i64 >> (x & 31)) as u64),
                population(x),
                (x & !y) ^ (x | !y) ^ x.reverse_bits(),
                u64::from(least) << 32 | u64::from(greatest),
                product.wrapping_add(x >> 5 & 0x3ff),
                u64::from(((x >> 1) as i32 | 1).unsigned_abs()).wrapping_add(flags),
            ];
            for (k, want) in want.into_iter().enumerate() {
                assert_eq!(
                    got[k * n + i],
                    want,
                    "{}: result {k} of {x:#x} and {y:#x}",
                    gpu.target
                );
            }
        }
    });
}

#[test]
fn global_atomics_at_any_thread_count() {
    each_gpu(|gpu| {
        let items = 3000u64;
        let mut want = vec![0u32; 16];
        let mut wide = [0u64; 4];
        want[3] = u32::MAX;
        want[6] = u32::MAX;
        for i in 0..items as u32 {
            let spread = i * 7919 % 10007;
            want[0] = want[0].wrapping_add(i);
            want[1] = want[1].wrapping_sub(i);
            want[2] |= 1 << (i & 31);
            want[3] &= !(1 << (i & 15));
            want[4] ^= i.wrapping_mul(2_654_435_761);
            want[5] = want[5].max(spread);
            want[6] = want[6].min(spread + 5);
            want[7] = (want[7] as i32).max(spread as i32 - 20_000) as u32;
            want[8] = (want[8] as i32).min(spread as i32 - 5000) as u32;
            want[9] = if want[9] >= 99 { 0 } else { want[9] + 1 };
            want[10] = if want[10] == 0 || want[10] > 99 {
                99
            } else {
                want[10] - 1
            };
            want[11] += 1;
            want[12] += 3;
            let i = u64::from(i);
            wide[0] += i << 20;
            wide[1] = wide[1].max(i << 33 | i);
            wide[2] = (wide[2] as i64).min(-(i as i64)) as u64;
            wide[3] ^= i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        want[7] = (want[7] as i32).max(0) as u32;
        let sum: f32 = (0..items).map(|i| (i & 7) as f32).sum();
        let sum64: f64 = (0..items).map(|i| i as f64).sum();
        for threads in [1, 2, 5] {
            let mut start = vec![0u32; 16 + items as usize];
            start[3] = u32::MAX;
            start[6] = u32::MAX;
            let words = gpu.upload(&start);
            let (wides, float, double) = (
                gpu.upload(&[0u64; 4]),
                gpu.upload(&[0f32]),
                gpu.upload(&[0f64]),
            );
            let args = [
                U64(words),
                U64(wides),
                U64(float),
                U64(double),
                U32(items as u32),
            ];
            let options = Options {
                threads,
                ..Options::default()
            };
            gpu.launch("atomics", [24, 1, 1], [128, 1, 1], 0, &args, &options)
                .unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            let got = gpu.download::<u32>(words, start.len());
            assert_eq!(got[..16], want, "{} with {threads} threads", gpu.target);
            assert!(
                got[16..].iter().all(|&taken| taken == 1),
                "{}: a ticket was given twice",
                gpu.target
            );
            assert_eq!(gpu.download::<u64>(wides, 4), wide, "{}", gpu.target);
            assert_eq!(gpu.download::<f32>(float, 1), [sum], "{}", gpu.target);
            assert_eq!(gpu.download::<f64>(double, 1), [sum64], "{}", gpu.target);
        }
    });
}

#[test]
fn lds_atomics() {
    each_gpu(|gpu| {
        let block = 200u32;
        let mut want = [0u32; 14];
        for at in [3, 6, 8] {
            want[at] = u32::MAX >> 1;
        }
        let mut wide = [0u64; 2];
        for i in 0..block {
            let spread = i * 7919 % 10007;
            want[0] += i;
            want[1] = want[1].wrapping_sub(i);
            want[2] |= 1 << (i & 31);
            want[3] &= !(1 << (i & 15));
            want[4] ^= i.wrapping_mul(2_654_435_761);
            want[5] = want[5].max(spread);
            want[6] = want[6].min(spread + 5);
            want[7] = (want[7] as i32).max(i as i32 - 20) as u32;
            want[8] = (want[8] as i32).min(i as i32 - 20) as u32;
            want[9] = if want[9] >= 99 { 0 } else { want[9] + 1 };
            want[10] = if want[10] == 0 || want[10] > 99 {
                99
            } else {
                want[10] - 1
            };
            want[11] += 1;
            want[12] += 3;
            want[13] = 5;
            wide[0] += u64::from(i) << 33;
            wide[1] = wide[1].max(u64::from(i) << 33 | u64::from(i));
        }
        let sum: u32 = (0..block).map(|i| i & 7).sum();
        let (out, tickets) = (gpu.buffer(2 * 24 * 4), gpu.buffer(2 * 4 * u64::from(block)));
        gpu.run(
            "lds_atomics",
            [2, 1, 1],
            [block, 1, 1],
            &[U64(out), U64(tickets)],
        );
        for got in gpu.download::<u32>(out, 48).chunks(24) {
            assert_eq!(got[..14], want, "{}", gpu.target);
            let got_wide =
                [0, 1].map(|i| u64::from(got[16 + 2 * i]) | u64::from(got[17 + 2 * i]) << 32);
            assert_eq!((got_wide, got[20]), (wide, sum), "{}", gpu.target);
        }
        for group in gpu
            .download::<u32>(tickets, 2 * block as usize)
            .chunks(block as usize)
        {
            let mut group = group.to_vec();
            group.sort();
            assert!(group.into_iter().eq(0..block), "{}", gpu.target);
        }
    });
}

#[test]
fn exchange_between_lanes() {
    each_gpu(|gpu| {
        let lanes = gpu.target.wavefront_size() as usize;
        let n = 128usize;
        let input: Vec<u32> = bits(12).take(n).map(|x| x as u32).collect();
        let (from, out) = (gpu.upload(&input), gpu.buffer(9 * 4 * n as u64));
        let args = [U64(from), U64(out), U32(n as u32)];
        gpu.run("lanes", [1, 1, 1], [n as u32, 1, 1], &args);
        let got = gpu.download::<u32>(out, 9 * n);
        for i in 0..n {
            let (wave, lane) = (i / lanes * lanes, i % lanes);
            let quad = i & !3;
            let votes = input[wave..wave + lanes].iter().filter(|x| *x & 1 != 0);
            // Lanes that do not take part read as zero; past the last lane comes the first.
            let partner = (wave + (lane + 1) % lanes).is_multiple_of(3);
            let some = match (i % 3, partner) {
                (0, true) => 10,
                (0, false) => 1,
                _ => 0,
            };
            let want = [
                (wave + input[i] as usize % lanes) as u32,
                input[i ^ 3],
                input[i ^ 1],
                input[quad + [3, 2, 1, 0][i & 3]],
                input[wave],
                input[wave + 5],
                if lane % 16 == 0 { 77 } else { input[i - 1] },
                votes.count() as u32,
                some,
            ];
            for (k, want) in want.into_iter().enumerate() {
                assert_eq!(
                    got[k * n + i],
                    want,
                    "{}: exchange {k}, item {i}",
                    gpu.target
                );
            }
        }
    });
}

#[test]
fn pointers_into_any_address_space() {
    each_gpu(|gpu| {
        let n = 90usize;
        let input: Vec<i32> = (0..n as i32).map(|i| 7 * i).collect();
        let (global, out) = (gpu.upload(&input), gpu.buffer(4 * n as u64));
        gpu.run(
            "generic",
            [1, 1, 1],
            [n as u32, 1, 1],
            &[U64(global), U64(out)],
        );
        let want: Vec<i32> = (0..n as i32)
            .map(|i| {
                let start = match i % 3 {
                    0 => 7 * i,
                    1 => 10 * i,
                    _ => 1 + i % 4,
                };
                (start + 5) * 1000 + start + 6
            })
            .collect();
        assert_eq!(gpu.download::<i32>(out, n), want, "{}", gpu.target);
        let after = gpu.download::<i32>(global, n);
        for (i, (before, after)) in input.iter().zip(after).enumerate() {
            let change = if i % 3 == 0 { 6 } else { 0 };
            assert_eq!(after, before + change, "{}", gpu.target);
        }
    });
}

#[test]
fn calls_through_pointers_and_recursion() {
    const FIBONACCI: [i32; 9] = [0, 1, 1, 2, 3, 5, 8, 13, 21];
    each_gpu(|gpu| {
        let out = gpu.buffer(4 * 150);
        gpu.run("calls", [3, 1, 1], [50, 1, 1], &[U64(out)]);
        let want: Vec<i32> = (0..150)
            .map(|i| (if i % 2 == 0 { 2 * i } else { i * i }) + FIBONACCI[i as usize % 9])
            .collect();
        assert_eq!(gpu.download::<i32>(out, 150), want, "{}", gpu.target);
    });
}

#[test]
fn waiting_for_other_wavefronts_and_earlier_workgroups() {
    each_gpu(|gpu| {
        for threads in [1, 2, 4] {
            let (flags, out) = (gpu.buffer(4 * 8), gpu.buffer(4 * 8 * 128));
            let options = Options {
                threads,
                ..Options::default()
            };
            let args = [U64(flags), U64(out)];
            gpu.launch(
                "wait_for_others",
                [8, 1, 1],
                [128, 1, 1],
                0,
                &args,
                &options,
            )
            .unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            assert_eq!(gpu.download::<u32>(out, 1024), [1; 1024], "{}", gpu.target);
        }
    });
}

#[test]
fn accesses_of_every_width_and_alignment() {
    each_gpu(|gpu| {
        let input: Vec<u8> = bits(13).take(64 * 16).map(|x| x as u8).collect();
        let records: Vec<u8> = bits(14).take(64 * 15).map(|x| x as u8).collect();
        let (from, out, loose) = (gpu.upload(&input), gpu.buffer(1024), gpu.upload(&records));
        gpu.run(
            "widths",
            [1, 1, 1],
            [64, 1, 1],
            &[U64(from), U64(out), U64(loose)],
        );
        let short = |at: usize| i16::from_le_bytes([input[at], input[at + 1]]);
        let mut want = vec![0u8; 1024];
        let mut want_records = records.clone();
        for i in 0..64 {
            let j = i ^ 1;
            let sum = i32::from(short(16 * j + 2))
                + i32::from(input[16 * j + 5] as i8)
                + i32::from(input[16 * j + 6])
                + i32::from(short(16 * j + 10) as u16);
            let to = &mut want[16 * i..16 * i + 16];
            to[..4].copy_from_slice(&sum.to_le_bytes());
            to[4..6].copy_from_slice(&((sum >> 3) as i16).to_le_bytes());
            to[6..8].copy_from_slice(&short(16 * j + 14).to_le_bytes());
            to[8] = sum as u8;
            to[9] = input[16 * j + 9];
            to[10] = input[16 * i + 10].wrapping_add(input[16 * j + 11]);
            to[11] = (sum >> 16) as u8;
            to[12..].copy_from_slice(&input[16 * j + 12..16 * j + 16]);
            let other = &records[15 * j..15 * j + 15];
            let a = i32::from_le_bytes(other[1..5].try_into().unwrap()).wrapping_add(1);
            let b = i64::from_le_bytes(other[5..13].try_into().unwrap()).wrapping_sub(2);
            let c = i16::from_le_bytes(other[13..15].try_into().unwrap()).wrapping_neg();
            let to = &mut want_records[15 * i..15 * i + 15];
            to[0] = other[0];
            to[1..5].copy_from_slice(&a.to_le_bytes());
            to[5..13].copy_from_slice(&b.to_le_bytes());
            to[13..].copy_from_slice(&c.to_le_bytes());
        }
        assert_eq!(gpu.download::<u8>(out, 1024), want, "{}", gpu.target);
        assert_eq!(
            gpu.download::<u8>(loose, 960),
            want_records,
            "{}",
            gpu.target
        );
    });
}

#[test]
fn scattered_and_shared_addresses() {
    each_gpu(|gpu| {
        let input = singles(15, 1024);
        let from = gpu.upload(&input);
        for stride in [0u32, 1, 2, 37] {
            let out = gpu.buffer(4 * 256);
            gpu.run(
                "scatter",
                [2, 1, 1],
                [128, 1, 1],
                &[U64(from), U64(out), U32(stride)],
            );
            let mut want = vec![0f32; 256];
            for i in 0..256usize {
                let mut x = input[i * stride as usize % 1021] + input[5];
                if i % 8 == 3 {
                    x += input[i];
                }
                want[i ^ 21] = x;
            }
            assert_eq!(gpu.download::<f32>(out, 256), want, "{}", gpu.target);
        }
    });
}

#[test]
fn the_same_bits_at_any_thread_count() {
    each_gpu(|gpu| {
        let input = singles(16, 64 * 64);
        let from = gpu.upload(&input);
        let mut first: Option<(Vec<f32>, u64)> = None;
        for threads in (1..=8).chain([0; 12]) {
            let out = gpu.buffer(4 * 4096);
            let args = [U64(from), U64(out), U32(64), U32(64)];
            let options = Options {
                threads,
                ..Options::default()
            };
            let counters = gpu
                .launch("transpose", [2, 2, 1], [32, 8, 1], 0, &args, &options)
                .unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            let run = (
                gpu.download::<f32>(out, 4096),
                counters.total_instructions(),
            );
            gpu.memory.free(out).unwrap();
            assert_eq!(
                first.get_or_insert_with(|| run.clone()),
                &run,
                "{}",
                gpu.target
            );
        }
    });
}

#[test]
fn device_library_functions() {
    const SOURCE: &str = r#"
#include "hip_min.h"
extern "C" {
__device__ float __ocml_exp_f32(float); __device__ float __ocml_log_f32(float); __device__ float __ocml_sin_f32(float);
__device__ float __ocml_tanh_f32(float); __device__ float __ocml_pow_f32(float, float); __device__ float __ocml_erf_f32(float);
__device__ double __ocml_exp_f64(double); __device__ double __ocml_log_f64(double); __device__ double __ocml_sin_f64(double);
__device__ double __ocml_pow_f64(double, double); __device__ double __ocml_erf_f64(double); __device__ double __ocml_cbrt_f64(double);
}
extern "C" __global__ void singles(const float *in, float *out, unsigned n) {
    unsigned i = blockIdx_x * blockDim_x + threadIdx_x;
    if (i >= n) return;
    float x = in[i], a = __builtin_fabsf(x);
    out[i] = __ocml_exp_f32(x * 0.05f);
    out[n + i] = __ocml_log_f32(a);
    out[2 * n + i] = __ocml_sin_f32(x * 1e5f);
    out[3 * n + i] = __ocml_tanh_f32(x * 0.01f);
    out[4 * n + i] = __ocml_pow_f32(a, 1.7f);
}
extern "C" __global__ void doubles(const double *in, double *out, unsigned n) {
    unsigned i = blockIdx_x * blockDim_x + threadIdx_x;
    if (i >= n) return;
    double x = in[i], a = __builtin_fabs(x);
    out[i] = __ocml_exp_f64(x * 0.5);
    out[n + i] = __ocml_log_f64(a);
    out[2 * n + i] = __ocml_sin_f64(x * 1e10);
    out[3 * n + i] = __ocml_cbrt_f64(x);
    out[4 * n + i] = __ocml_pow_f64(a, 1.7);
}
"#;
    let n = 300;
    let (narrow, wide) = (singles(17, n), reals(18, n));
    for target in TARGETS {
        let gpu = Gpu::with_device_library(target, SOURCE);
        let (from, out) = (gpu.upload(&narrow), gpu.buffer(5 * 4 * n as u64));
        gpu.run(
            "singles",
            [2, 1, 1],
            [160, 1, 1],
            &[U64(from), U64(out), U32(n as u32)],
        );
        let got = gpu.download::<f32>(out, 5 * n);
        for (i, &x) in narrow.iter().enumerate() {
            // The products are rounded to f32 before the function, as in the kernel.
            let at = |scale: f32| f64::from(x * scale);
            let a = f64::from(x.abs());
            let want = [
                at(0.05).exp(),
                a.ln(),
                at(1e5).sin(),
                at(0.01).tanh(),
                a.powf(f64::from(1.7f32)),
            ];
            for (k, want) in want.into_iter().enumerate() {
                let got = f64::from(got[k * n + i]);
                // OpenCL's bounds, which the library keeps, are 16 ulp for pow and 4 or 5 for the others.
                let bound = want.abs() * 16.0 * f64::from(f32::EPSILON) + 1e-38;
                assert!(
                    (got - want).abs() <= bound,
                    "{target}: function {k} of {x}: {got} not {want}"
                );
            }
        }
        let (from, out) = (gpu.upload(&wide), gpu.buffer(5 * 8 * n as u64));
        gpu.run(
            "doubles",
            [2, 1, 1],
            [160, 1, 1],
            &[U64(from), U64(out), U32(n as u32)],
        );
        let got = gpu.download::<f64>(out, 5 * n);
        for (i, &x) in wide.iter().enumerate() {
            let want = [
                (x * 0.5).exp(),
                x.abs().ln(),
                (x * 1e10).sin(),
                x.cbrt(),
                x.abs().powf(1.7),
            ];
            for (k, want) in want.into_iter().enumerate() {
                let got = got[k * n + i];
                let bound = want.abs() * 16.0 * f64::EPSILON + f64::MIN_POSITIVE;
                assert!(
                    (got - want).abs() <= bound,
                    "{target}: function {k} of {x}: {got} not {want}"
                );
            }
        }
    }
}
