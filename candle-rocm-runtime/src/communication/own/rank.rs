//! A rank: its GPU's memory and kernels, and its part of what the ranks share.

use std::sync::{Arc, OnceLock};

use candle_rocm_kernels::numbers::communication::COMMUNICATION_THREADS;
use candle_rocm_kernels::COMMUNICATION;
use parking_lot::Mutex;

use super::arguments::CommunicationArguments;
use super::layout::{ChannelWord, Layout, Word, FLAG_STRIDE, MOST_RANKS};
use super::segment::Segment;
use super::steps::{Channel, Kernel, Place, Step};
use super::watch;
use super::watched::Watched;
use crate::base::error::{Error, Result};
use crate::communication::id::Token;
use crate::communication::sys::ncclDataType_t;
use crate::kernels::ready::{addresses_of, ReadyLaunch};
use crate::kernels::submit::LaunchConfig;
use crate::memory::access::DevicePtr as _;
use crate::memory::buffer::DeviceBuffer;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// Workgroups of a launch at most, and bytes that are worth one. (Two H200: all-reduces of 2 MiB take 122 us so, and 249
/// by up to 256 workgroups of 4 KiB, each of which waits and ends a message.)
const MOST_WORKGROUPS: u32 = 32;
const WORKGROUP_BYTES: u64 = 16 << 10;

/// Element types, by what kernels are called.
const DTYPES: [(ncclDataType_t, &str); 10] = [
    (ncclDataType_t::ncclInt8, "i8"),
    (ncclDataType_t::ncclUint8, "u8"),
    (ncclDataType_t::ncclInt32, "i32"),
    (ncclDataType_t::ncclUint32, "u32"),
    (ncclDataType_t::ncclInt64, "i64"),
    (ncclDataType_t::ncclUint64, "u64"),
    (ncclDataType_t::ncclFloat16, "f16"),
    (ncclDataType_t::ncclFloat32, "f32"),
    (ncclDataType_t::ncclFloat64, "f64"),
    (ncclDataType_t::ncclBfloat16, "bf16"),
];

/// A rank of a communicator of ours.
pub(in crate::communication) struct OwnRank {
    pub(super) watched: Arc<Watched>,
    context: Arc<Context>,
    kernels: Kernels,
    memory: OnceLock<RankMemory>,
    /// The stream of the last call: a call on another waits for it.
    last: Mutex<Option<Arc<Stream>>>,
}

struct Kernels {
    publish: ReadyLaunch,
    gather: ReadyLaunch,
    reduce: Vec<(ncclDataType_t, ReadyLaunch)>,
}

/// What the rank has in its GPU's memory, once all ranks have come.
struct RankMemory {
    /// Address of numbers of messages and counters of workgroups: of collectives, of what is sent to each rank, and received.
    counters: u64,
    /// Address of addresses of slots: each rank's, those of what is sent to each rank, and received.
    slots: u64,
    /// Where the GPU reaches what ranks share.
    shared: u64,
    /// What the first two are the addresses of. Only this rank's stream uses it.
    _buffers: (DeviceBuffer<i32>, DeviceBuffer<u64>),
}

impl Kernels {
    fn of(context: &Arc<Context>) -> Result<Self> {
        let config = LaunchConfig {
            grid_dim: (MOST_WORKGROUPS, 1, 1),
            block_dim: (COMMUNICATION_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let kernel = |name: &str| ReadyLaunch::of(context, &COMMUNICATION, name, config);
        let reduce = |(dtype, name): (ncclDataType_t, &str)| {
            Ok((dtype, kernel(&format!("communication_reduce_{name}"))?))
        };
        Ok(Self {
            publish: kernel("communication_publish")?,
            gather: kernel("communication_gather")?,
            reduce: DTYPES.into_iter().map(reduce).collect::<Result<_>>()?,
        })
    }
}

impl OwnRank {
    /// A rank that has come; the others may not have. See [`super::join`].
    ///
    /// # Errors
    /// There is no such rank or it has come before; nothing can be shared; or the GPU has no kernels.
    pub fn open(
        context: &Arc<Context>,
        rank: usize,
        world: usize,
        token: Token,
    ) -> Result<Arc<Self>> {
        if rank >= world || world > MOST_RANKS {
            return Err(Error::invalid(format!(
                "rank {rank} of {world}: ranks count from 0, and there are {MOST_RANKS} at most"
            )));
        }
        let kernels = Kernels::of(context)?;
        let device = context.device();
        let segment = Segment::open(token, world, device)?;
        let watched = Watched::come(segment, rank, device.clone())?;
        Ok(Arc::new(Self {
            watched,
            context: context.clone(),
            kernels,
            memory: OnceLock::new(),
            last: Mutex::new(None),
        }))
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.watched.rank
    }

    /// How many ranks there are.
    pub fn world(&self) -> usize {
        self.layout().world
    }

    /// Its GPU.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// # Errors
    /// The communicator is of no use any more: a rank is gone.
    pub fn check(&self) -> Result<()> {
        self.watched.check()
    }

    /// By which memory the ranks exchange data, in words.
    pub fn way(&self) -> &'static str {
        match self.slots_in_memory_of_gpus() {
            Some(_) => "our kernels, through the GPUs' memory",
            None => "our kernels, through the host's memory",
        }
    }

    fn layout(&self) -> Layout {
        self.watched.segment.layout
    }

    /// What its calls are planned by.
    pub(super) fn place(&self) -> Place {
        Place {
            rank: self.rank(),
            layout: self.layout(),
        }
    }

    /// All ranks have come, and said where their slots are: from now on calls are possible.
    ///
    /// # Errors
    /// The GPU has no memory, or does not reach what the ranks share.
    pub(super) fn begin(&self) -> Result<()> {
        let (layout, rank, world) = (self.layout(), self.rank(), self.world());
        let shared = self.watched.segment.address(self.context.device())?;
        let of_ranks = self.slots_in_memory_of_gpus();
        let slots = of_ranks.unwrap_or_else(|| {
            (0..world)
                .map(|rank| shared + layout.slots(rank) as u64)
                .collect()
        });
        let channel = |from, to| shared + layout.channel_slots(from, to) as u64;
        let to = (0..world).map(|peer| channel(rank, peer));
        let from = (0..world).map(|peer| channel(peer, rank));
        let slots: Vec<u64> = slots.into_iter().chain(to).chain(from).collect();
        let stream = self.context.default_stream();
        let counters = stream.alloc_zeros::<i32>(2 * (1 + 2 * world))?;
        let slots = stream.clone_htod(&slots)?;
        stream.synchronize()?;
        let (counters_at, slots_at) = (counters.device_ptr(&stream).0, slots.device_ptr(&stream).0);
        let memory = RankMemory {
            counters: counters_at,
            slots: slots_at,
            shared,
            _buffers: (counters, slots),
        };
        // Once: `join` calls it for each rank.
        let _ = self.memory.set(memory);
        watch::begin(&self.watched)
    }

    /// The addresses of the ranks' slots, if all are in GPUs' memory.
    fn slots_in_memory_of_gpus(&self) -> Option<Vec<u64>> {
        let segment = &self.watched.segment;
        let address = |rank| {
            let address = segment.wide(rank, Word::Slots);
            address.load(std::sync::atomic::Ordering::Acquire)
        };
        let addresses: Vec<u64> = (0..self.world()).map(address).collect();
        addresses.iter().all(|it| *it != 0).then_some(addresses)
    }

    /// Orders the work of a call after that of the last one.
    ///
    /// # Errors
    /// An error is waiting, or HIP refuses.
    pub(super) fn follow(&self, stream: &Arc<Stream>) -> Result<()> {
        let mut last = self.last.lock();
        if let Some(other) = last.as_ref().filter(|last| **last != *stream) {
            if !stream.is_capturing()? && !other.is_capturing()? {
                stream.join(other)?;
            }
        }
        *last = Some(stream.clone());
        Ok(())
    }

    /// Gives a step to the stream.
    ///
    /// # Safety
    /// The step's memory is there, of the rank's GPU, and used in the stream's order.
    ///
    /// # Errors
    /// HIP refuses, an error is waiting, or the ranks have not come.
    pub(super) unsafe fn launch(&self, stream: &Stream, step: &Step) -> Result<()> {
        let arguments = self.arguments(step)?;
        let kernel = match step.kernel {
            Kernel::Publish => Some(&self.kernels.publish),
            Kernel::Gather => Some(&self.kernels.gather),
            Kernel::Reduce(dtype) => {
                let mut all = self.kernels.reduce.iter();
                all.find(|(of, _)| *of == dtype).map(|(_, kernel)| kernel)
            }
        };
        let kernel = kernel.ok_or_else(|| Error::unsupported("a reduction of this type"))?;
        let bytes = step.bytes * u64::from(step.rows);
        let workgroups = bytes.div_ceil(WORKGROUP_BYTES).max(1);
        // SAFETY: the kernel's argument, and the caller's promise.
        unsafe { kernel.launch_smaller(stream, workgroups, &mut addresses_of![arguments]) }
    }

    fn arguments(&self, step: &Step) -> Result<CommunicationArguments> {
        let memory = self.memory.get().ok_or_else(|| {
            Error::invalid("a call before all ranks have come: end the group of their making first")
        })?;
        let (layout, rank, world) = (self.layout(), self.rank(), self.world());
        let word = |at: usize| memory.shared + at as u64;
        let channel = |from, to, name| word(layout.channel(from, to, name));
        let flag = word(layout.word(rank, Word::Flag));
        let is_publish = step.kernel == Kernel::Publish;
        // Which counters and slots, whose flags, what is set and said; and how many flags are waited for.
        let (index, flags, own_flag, wanted, waits) = match step.channel {
            Channel::All if is_publish => (0, 0, flag, 0, 0),
            Channel::All => (0, word(layout.word(0, Word::Flag)), flag, 0, world as u32),
            Channel::To(peer) => (
                1 + peer,
                channel(rank, peer, ChannelWord::Read),
                channel(rank, peer, ChannelWord::Sent),
                channel(rank, peer, ChannelWord::SenderWants),
                1,
            ),
            Channel::From(peer) => (
                1 + world + peer,
                channel(peer, rank, ChannelWord::Sent),
                channel(peer, rank, ChannelWord::Read),
                channel(peer, rank, ChannelWord::ReceiverWants),
                1,
            ),
        };
        let first_slot = if index == 0 { 0 } else { world + index - 1 };
        let slot_bytes = match step.channel {
            Channel::All => layout.slot_bytes(),
            _ => layout.channel_slot_bytes(),
        };
        Ok(CommunicationArguments {
            from: step.from,
            to: step.to,
            slots: memory.slots + 8 * first_slot as u64,
            flags,
            own_flag,
            wanted,
            abort: word(layout.word(rank, Word::Abort)),
            state: memory.counters + 8 * index as u64,
            bytes: step.bytes,
            memory_stride: step.memory_stride,
            slot_stride: step.slot_stride,
            total: step.total,
            slot_bytes: slot_bytes as u64,
            offset: step.offset,
            rows: step.rows,
            flag_stride: FLAG_STRIDE,
            waits,
            // The other of a channel's slots holds the message before.
            lag: if is_publish { 2 } else { 0 },
            sender: step.sender as u32,
            world: world as u32,
            op: step.op,
            ends_message: step.ends_message.into(),
        })
    }
}

impl Drop for OwnRank {
    fn drop(&mut self) {
        // What the GPU was given may still wait for others, which wait for it.
        if let Some(stream) = self.last.get_mut().take() {
            self.context.record_err(stream.finish());
        }
    }
}

impl std::fmt::Debug for OwnRank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnRank({} of {})", self.rank(), self.world())
    }
}
