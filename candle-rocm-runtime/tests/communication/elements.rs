//! Element types, and their reductions in plain Rust.

use std::fmt::Debug;

use candle_rocm_runtime::communication::{NcclType, ReduceOp};
use candle_rocm_runtime::{DeviceRepr, ValidAsZeroBits};
use candle_rocm_testing::random::Random;
use half::{bf16, f16};

/// A type of elements.
pub trait Element:
    NcclType + DeviceRepr + ValidAsZeroBits + Copy + PartialEq + Debug + Send + Sync + 'static
{
    /// Whether it has a fraction.
    const IS_FLOAT: bool;

    /// One that looks random.
    fn draw(random: &mut Random) -> Self;

    /// Of one element of each rank.
    fn reduce(op: ReduceOp, of_ranks: &[Self]) -> Self;
}

/// Reduces in order of the ranks.
fn fold<C: Copy + PartialOrd>(
    op: ReduceOp,
    of_ranks: impl Iterator<Item = C>,
    [sum, product]: [fn(C, C) -> C; 2],
    average: impl FnOnce(C) -> C,
) -> C {
    let least = |a, b| if b < a { b } else { a };
    let most = |a, b| if b > a { b } else { a };
    let all = match op {
        ReduceOp::Sum => of_ranks.reduce(sum),
        ReduceOp::Prod => of_ranks.reduce(product),
        ReduceOp::Max => of_ranks.reduce(most),
        ReduceOp::Min => of_ranks.reduce(least),
        ReduceOp::Avg => of_ranks.reduce(sum).map(average),
    };
    all.expect("there is a rank")
}

macro_rules! integers {
    ($($type:ty as $wide:ty),*) => { $(
        impl Element for $type {
            const IS_FLOAT: bool = false;

            fn draw(random: &mut Random) -> Self {
                random.bits() as Self
            }

            fn reduce(op: ReduceOp, of_ranks: &[Self]) -> Self {
                let world = of_ranks.len() as $wide;
                let wide = of_ranks.iter().map(|it| <$wide>::from(*it));
                let ways = [<$wide>::wrapping_add, <$wide>::wrapping_mul];
                fold(op, wide, ways, |sum| sum / world) as Self
            }
        }
    )* };
}
integers!(i8 as i32, u8 as u32, i32 as i32, u32 as u32, i64 as i64, u64 as u64);

macro_rules! floats {
    ($($type:ty as $wide:ty, $from:path;)*) => { $(
        impl Element for $type {
            const IS_FLOAT: bool = true;

            fn draw(random: &mut Random) -> Self {
                $from((random.signed() * 2.0) as $wide)
            }

            fn reduce(op: ReduceOp, of_ranks: &[Self]) -> Self {
                let world = of_ranks.len() as $wide;
                let wide = of_ranks.iter().map(|it| <$wide>::from(*it));
                let ways: [fn($wide, $wide) -> $wide; 2] = [|a, b| a + b, |a, b| a * b];
                $from(fold(op, wide, ways, |sum| sum / world))
            }
        }
    )* };
}
floats! {
    f16 as f32, f16::from_f32;
    bf16 as f32, bf16::from_f32;
    f32 as f32, f32::from;
    f64 as f64, f64::from;
}

/// Calls a function for each type of elements.
macro_rules! for_each_element {
    ($function:ident($($argument:expr),*)) => {
        $function::<i8>($($argument),*);
        $function::<u8>($($argument),*);
        $function::<i32>($($argument),*);
        $function::<u32>($($argument),*);
        $function::<i64>($($argument),*);
        $function::<u64>($($argument),*);
        $function::<half::f16>($($argument),*);
        $function::<half::bf16>($($argument),*);
        $function::<f32>($($argument),*);
        $function::<f64>($($argument),*);
    };
}
pub(crate) use for_each_element;

/// The elements of a rank.
pub fn of_rank<T: Element>(rank: usize, count: usize) -> Vec<T> {
    let mut random = Random::new(1 + rank as u64 + 1000 * count as u64);
    (0..count).map(|_| T::draw(&mut random)).collect()
}

/// The elements of all ranks, reduced.
pub fn reduced<T: Element>(op: ReduceOp, world: usize, count: usize) -> Vec<T> {
    let of_ranks: Vec<Vec<T>> = (0..world).map(|rank| of_rank(rank, count)).collect();
    let at = |place: usize| of_ranks.iter().map(|all| all[place]).collect::<Vec<T>>();
    (0..count).map(|place| T::reduce(op, &at(place))).collect()
}
