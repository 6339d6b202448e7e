//! A rank: its GPU's memory and kernels, and its part of what the ranks share.

use std::sync::{Arc, OnceLock};

use candle_rocm_kernels::numbers::communication::{
    ALL_REDUCE_THREADS, ALL_REDUCE_WORKGROUPS, COMMUNICATION_THREADS,
};
use candle_rocm_kernels::COMMUNICATION;
use parking_lot::Mutex;

use super::arguments::{AllReduceArguments, CommunicationArguments};
use super::boxes::Boxes;
use super::layout::{ChannelWord, Layout, Word, FLAG_STRIDE, MOST_RANKS};
use super::segment::Segment;
use super::steps::{Channel, Exchange, Kernel, Place, Step};
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

/// Workgroups of a launch by slots at most, and bytes that are worth one: each waits, and ends a message.
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

/// Those of models' states, whose all-reduces may be followed by a norm.
const NORMED_DTYPES: [(ncclDataType_t, &str); 3] = [
    (ncclDataType_t::ncclFloat16, "f16"),
    (ncclDataType_t::ncclBfloat16, "bf16"),
    (ncclDataType_t::ncclFloat32, "f32"),
];

/// A rank of a communicator of ours.
pub(in crate::communication) struct OwnRank {
    pub(super) watched: Arc<Watched>,
    context: Arc<Context>,
    pub(super) kernels: Kernels,
    memory: OnceLock<RankMemory>,
    /// The stream of the last call: a call on another waits for it.
    last: Mutex<Option<Arc<Stream>>>,
}

pub(super) struct Kernels {
    publish: ReadyLaunch,
    gather: ReadyLaunch,
    reduce: Vec<(ncclDataType_t, ReadyLaunch)>,
    packets: Vec<(ncclDataType_t, ReadyLaunch)>,
    pieces: Vec<(ncclDataType_t, ReadyLaunch)>,
    add_norm: Vec<(ncclDataType_t, ReadyLaunch)>,
}

/// What the rank has in its GPU's memory, once all ranks have come.
pub(super) struct RankMemory {
    /// Address of numbers of messages and counters of workgroups: of collectives, of what is sent to each rank, and received.
    counters: u64,
    /// Address of addresses of slots: each rank's, those of what is sent to each rank, and received.
    slots: u64,
    /// Where the GPU reaches what ranks share.
    shared: u64,
    /// How boxes are divided.
    pub(super) boxes: Boxes,
    /// Address of numbers of pieces: of each workgroup's packets, and then of its other pieces.
    exchanged: u64,
    /// Address of addresses of boxes: those by which each rank is written to, and those from which each is read.
    boxes_at: u64,
    /// What the addresses are of. Only this rank's stream uses it.
    _buffers: (DeviceBuffer<i32>, DeviceBuffer<u64>),
}

impl Kernels {
    fn of(context: &Arc<Context>) -> Result<Self> {
        let kernel = |name: &str, workgroups, threads| {
            let config = LaunchConfig {
                grid_dim: (workgroups, 1, 1),
                block_dim: (threads, 1, 1),
                shared_mem_bytes: 0,
            };
            ReadyLaunch::of(context, &COMMUNICATION, name, config)
        };
        let by_slots = |name: &str| kernel(name, MOST_WORKGROUPS, COMMUNICATION_THREADS);
        let by_boxes = |name: &str| kernel(name, ALL_REDUCE_WORKGROUPS, ALL_REDUCE_THREADS);
        let of = |dtypes: &[(ncclDataType_t, &str)], what: &str, kernel: &dyn Fn(&str) -> _| {
            let of_dtype = |(dtype, name): &(ncclDataType_t, &str)| {
                Ok((*dtype, kernel(&format!("communication_{what}_{name}"))?))
            };
            dtypes.iter().map(of_dtype).collect::<Result<Vec<_>>>()
        };
        let of_all = |what: &str, kernel: &dyn Fn(&str) -> _| of(&DTYPES, what, kernel);
        Ok(Self {
            publish: by_slots("communication_publish")?,
            gather: by_slots("communication_gather")?,
            reduce: of_all("reduce", &by_slots)?,
            packets: of_all("packets", &by_boxes)?,
            pieces: of_all("pieces", &by_boxes)?,
            add_norm: of(&NORMED_DTYPES, "add_norm", &by_boxes)?,
        })
    }

    /// The kernel of an all-reduce with a norm, if there is one for elements of this type.
    pub fn add_norm_of(&self, dtype: ncclDataType_t) -> Option<&ReadyLaunch> {
        let found = self.add_norm.iter().find(|(of, _)| *of == dtype);
        found.map(|(_, kernel)| kernel)
    }

    /// The kernel of a step.
    fn of_step(&self, step: &Step) -> Result<&ReadyLaunch> {
        let (of_dtypes, dtype) = match step.kernel {
            Kernel::Publish => return Ok(&self.publish),
            Kernel::Gather => return Ok(&self.gather),
            Kernel::Reduce(dtype) => (&self.reduce, dtype),
            Kernel::AllReduce(exchange) if exchange.is_packets => (&self.packets, exchange.dtype),
            Kernel::AllReduce(exchange) => (&self.pieces, exchange.dtype),
        };
        let found = of_dtypes.iter().find(|(of, _)| *of == dtype);
        let found = found.ok_or_else(|| Error::unsupported("a reduction of this type"))?;
        Ok(&found.1)
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

    /// # Errors
    /// The ranks have not come.
    pub(super) fn memory(&self) -> Result<&RankMemory> {
        self.memory.get().ok_or_else(|| {
            Error::invalid("a call before all ranks have come: end the group of their making first")
        })
    }

    /// What its calls are planned by; `is_alone` if no other rank is of the same thread.
    ///
    /// # Errors
    /// The ranks have not come.
    pub(super) fn place(&self, is_alone: bool) -> Result<Place> {
        Ok(Place {
            rank: self.rank(),
            layout: self.layout(),
            boxes: self.memory()?.boxes,
            is_alone,
        })
    }

    /// All ranks have come, and said where their slots are: from now on calls are possible.
    ///
    /// # Errors
    /// The GPU has no memory, or does not reach what the ranks share.
    pub(super) fn begin(&self) -> Result<()> {
        let (layout, rank, world) = (self.layout(), self.rank(), self.world());
        let shared = self.watched.segment.address(self.context.device())?;
        let of_ranks = self.slots_in_memory_of_gpus();
        let multiprocessors = self.watched.least_multiprocessors();
        let boxes = match &of_ranks {
            Some(_) => Boxes::near(&layout, multiprocessors),
            None => Boxes::far(&layout, multiprocessors),
        };
        // Where one rank writes for another.
        let box_of = |from: usize, to: usize| match &of_ranks {
            // Nobody writes for itself.
            _ if from == to => 0,
            Some(of_ranks) => {
                let first = of_ranks[to] + 2 * layout.slot_bytes() as u64;
                first + boxes.between(to, from) as u64
            }
            None => shared + layout.boxes(from) as u64,
        };
        let slots = of_ranks.clone().unwrap_or_else(|| {
            (0..world)
                .map(|rank| shared + layout.slots(rank) as u64)
                .collect()
        });
        let channel = |from, to| shared + layout.channel_slots(from, to) as u64;
        let to = (0..world).map(|peer| channel(rank, peer));
        let from = (0..world).map(|peer| channel(peer, rank));
        let box_to = (0..world).map(|peer| box_of(rank, peer));
        let box_from = (0..world).map(|peer| box_of(peer, rank));
        let addresses = slots.into_iter().chain(to).chain(from);
        let addresses: Vec<u64> = addresses.chain(box_to).chain(box_from).collect();
        let stream = self.context.default_stream();
        let messages = 2 * (1 + 2 * world);
        let counters = stream.alloc_zeros::<i32>(messages + 2 * boxes.workgroups as usize)?;
        let addresses = stream.clone_htod(&addresses)?;
        stream.synchronize()?;
        let counters_at = counters.device_ptr(&stream).0;
        let addresses_at = addresses.device_ptr(&stream).0;
        let memory = RankMemory {
            counters: counters_at,
            slots: addresses_at,
            shared,
            boxes,
            exchanged: counters_at + 4 * messages as u64,
            boxes_at: addresses_at + 8 * 3 * world as u64,
            _buffers: (counters, addresses),
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
        let kernel = self.kernels.of_step(step)?;
        if let Kernel::AllReduce(exchange) = step.kernel {
            let workgroups = step.bytes.div_ceil(exchange.piece.into());
            let workgroups = workgroups.min(self.memory()?.boxes.workgroups.into());
            let arguments = self.all_reduce_arguments(step, exchange)?;
            // SAFETY: the kernel's argument, and the caller's promise.
            return unsafe {
                kernel.launch_smaller(stream, workgroups, &mut addresses_of![arguments])
            };
        }
        let arguments = self.arguments(step)?;
        let bytes = step.bytes * u64::from(step.rows);
        let workgroups = bytes.div_ceil(WORKGROUP_BYTES).max(1);
        // SAFETY: the kernel's argument, and the caller's promise.
        unsafe { kernel.launch_smaller(stream, workgroups, &mut addresses_of![arguments]) }
    }

    pub(super) fn all_reduce_arguments(
        &self,
        step: &Step,
        exchange: Exchange,
    ) -> Result<AllReduceArguments> {
        let memory = self.memory()?;
        let (layout, rank, boxes) = (self.layout(), self.rank(), memory.boxes);
        let word = |at: usize| memory.shared + at as u64;
        let (areas, area) = match exchange.is_packets {
            true => boxes.packets(),
            false => boxes.pieces(),
        };
        let kind = u64::from(!exchange.is_packets);
        let others = self.world() as u32 - 1;
        Ok(AllReduceArguments {
            from: step.from,
            to: step.to,
            boxes: memory.boxes_at,
            exchanged: memory.exchanged + 4 * kind * u64::from(boxes.workgroups),
            awaits: word(layout.awaits(rank, 0)),
            doubt: word(layout.word(rank, Word::Doubt)),
            gave_up: word(layout.word(rank, Word::GaveUp)),
            bytes: step.bytes,
            piece: exchange.piece,
            areas,
            area,
            rank: rank as u32,
            world: self.world() as u32,
            op: step.op,
            // In the host's memory all read the same.
            copies: if boxes.is_near { others } else { others.min(1) },
            does: exchange.does,
        })
    }

    fn arguments(&self, step: &Step) -> Result<CommunicationArguments> {
        let memory = self.memory()?;
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
