//! Pools that cache, on the emulator.

use std::sync::Arc;

use super::allocator::Pool;
use crate::runtime::{self, RuntimeKind};
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// A caching pool of its own, and streams.
fn pool_and_streams<const N: usize>() -> (Pool, [Arc<Stream>; N]) {
    runtime::select(RuntimeKind::Emulator).unwrap();
    let context = Context::new(0).unwrap();
    let streams = [(); N].map(|()| context.new_stream().unwrap());
    (Pool::new_caching(context.device()), streams)
}

#[test]
fn parameters_keep_their_block_until_the_cache_is_given_back() {
    let (pool, [stream]) = pool_and_streams();
    let words = [4, 4, 1, 4];
    assert!(pool.lend_parameters(&words, stream.key()).is_none());
    let ptr = pool.allocate(32, stream.key()).unwrap();
    let known = pool.know_parameters(&words, ptr, stream.key()).unwrap();
    assert!(pool.return_parameters(&known, stream.key()));
    assert_eq!(pool.statistics().in_use, 0);
    assert_ne!(pool.allocate(32, stream.key()).unwrap(), ptr);
    let (lent, known, holds) = pool.lend_parameters(&words, stream.key()).unwrap();
    assert!(holds);
    assert_eq!((lent, pool.statistics().in_use), (ptr, 1024));
    // A graph that is being captured may go on using what is freed meanwhile.
    pool.begin_capture(stream.handle());
    assert!(pool.lend_parameters(&[1], stream.key()).is_none());
    assert!(!pool.return_parameters(&known, stream.key()));
    pool.free(ptr, stream.key()).unwrap();
    assert_eq!(pool.statistics().held_by_graphs, 512);
    drop(pool.end_capture(stream.key()));
    assert!(pool.lend_parameters(&words, stream.key()).is_none());
}

#[test]
fn kept_parameters_are_given_back_with_the_cache() {
    let (pool, [stream]) = pool_and_streams();
    let ptr = pool.allocate(8, stream.key()).unwrap();
    let known = pool.know_parameters(&[7], ptr, stream.key()).unwrap();
    assert!(pool.return_parameters(&known, stream.key()));
    pool.flush().unwrap();
    assert_eq!(pool.statistics().reserved, 0);
    assert!(pool.lend_parameters(&[7], stream.key()).is_none());
}

#[test]
fn what_others_free_during_a_capture_is_not_the_graphs() {
    let (pool, [captured, other]) = pool_and_streams();
    let ptr = pool.allocate(1000, other.key()).unwrap();
    pool.begin_capture(captured.handle());
    pool.free(ptr, other.key()).unwrap();
    // The graph would write there before the other stream is done with it.
    assert_ne!(pool.allocate(1000, captured.key()).unwrap(), ptr);
    assert_eq!(pool.statistics().held_by_graphs, 1024);
    drop(pool.end_capture(captured.key()));
}

#[test]
fn what_a_captured_stream_freed_before_is_not_given_to_others() {
    let (pool, [captured, other]) = pool_and_streams();
    let ptr = pool.allocate(20_000_000, captured.key()).unwrap();
    pool.free(ptr, captured.key()).unwrap();
    pool.begin_capture(captured.handle());
    let meanwhile = pool.allocate(20_000_000, other.key()).unwrap();
    assert_ne!(meanwhile, ptr);
    // The captured stream itself may have it.
    assert_eq!(pool.allocate(20_000_000, captured.key()).unwrap(), ptr);
    pool.free(ptr, captured.key()).unwrap();
    assert_eq!(pool.statistics().held_by_graphs, 20 << 20);
}
