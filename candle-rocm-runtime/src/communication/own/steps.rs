//! A call as steps: launches of one rank, in the order of its stream.
//!
//! The steps of one call are as many at every rank, and so are those of a collective: step by step over the ranks of a thread,
//! no step waits for one that comes later. What is longer than a slot goes in parts.

use candle_rocm_kernels::numbers::communication::{
    EXCHANGE_GATHERS, EXCHANGE_REDUCES, EXCHANGE_SENDS,
};

use super::boxes::{Boxes, ROW};
use super::layout::Layout;
use crate::communication::call::{bytes_of, Call, Kind};
use crate::communication::error::CommunicationError;
use crate::communication::sys::ncclDataType_t;

/// Slots are read and written by so many bytes at once.
const VECTOR: u64 = 16;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Memory to a slot.
    Publish,
    /// Slots to memory.
    Gather,
    /// Slots, reduced, to memory.
    Reduce(ncclDataType_t),
    /// An all-reduce by boxes, or a step of it.
    AllReduce(Exchange),
}

/// An all-reduce by boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// Its elements.
    pub dtype: ncclDataType_t,
    /// By packets, or by pieces with flags.
    pub is_packets: bool,
    /// Bytes of a workgroup's piece.
    pub piece: u32,
    /// Steps of it, together: numbers of `ExchangeStep`.
    pub does: u32,
}

/// Whose flags and slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// All ranks'.
    All,
    /// Those of what goes to this rank.
    To(usize),
    /// Those of what comes from this rank.
    From(usize),
}

/// A launch of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Which kernel.
    pub kernel: Kernel,
    /// Whose flags and slots.
    pub channel: Channel,
    /// Address of what is sent.
    pub from: u64,
    /// Address of results.
    pub to: u64,
    /// Rows.
    pub rows: u32,
    /// Bytes of a row.
    pub bytes: u64,
    /// Bytes from one row to the next in memory.
    pub memory_stride: u64,
    /// The same in a slot.
    pub slot_stride: u64,
    /// Bytes of all rows in memory.
    pub total: u64,
    /// Where in a slot reading begins.
    pub offset: u64,
    /// The sender that is read first, or whose slot is written.
    pub sender: usize,
    /// How elements are reduced.
    pub op: u32,
    /// Whether it ends a message.
    pub ends_message: bool,
}

/// The steps of a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Those of a collective, one after the other.
    pub collective: Vec<Step>,
    /// Those of a message, a part after the other: other messages go beside it, part by part.
    pub message: Vec<Step>,
}

/// A rank and its communicator's slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The rank.
    pub rank: usize,
    /// Where what lies.
    pub layout: Layout,
    /// How boxes are divided.
    pub boxes: Boxes,
    /// Whether no other rank is of the same thread. What one launch of a rank waits for is otherwise given to streams before.
    pub is_alone: bool,
}

/// One part of a call: where it begins, and its bytes.
#[derive(Clone, Copy)]
struct Part {
    begin: u64,
    bytes: u64,
}

/// Parts of at most so many bytes.
fn parts(bytes: u64, most: u64) -> impl Iterator<Item = Part> {
    (0..bytes.div_ceil(most)).map(move |number| {
        let begin = number * most;
        Part {
            begin,
            bytes: most.min(bytes - begin),
        }
    })
}

impl Step {
    /// A step of a part that is one row.
    pub fn of(kernel: Kernel, channel: Channel, bytes: u64) -> Self {
        Self {
            kernel,
            channel,
            from: 0,
            to: 0,
            rows: 1,
            bytes,
            memory_stride: bytes,
            slot_stride: bytes,
            total: u64::MAX,
            offset: 0,
            sender: 0,
            op: 0,
            ends_message: false,
        }
    }
}

impl Place {
    /// The steps of a call, which makes sense.
    ///
    /// # Errors
    /// A type of elements that no kernel knows.
    pub fn steps(&self, call: &Call) -> Result<Steps, CommunicationError> {
        let element = bytes_of(call.dtype)?;
        let bytes = call.count as u64 * element;
        let mut steps = Steps::default();
        let slot = self.layout.slot_bytes() as u64;
        let channel_slot = self.layout.channel_slot_bytes() as u64;
        let out = &mut steps.collective;
        match call.kind {
            Kind::AllReduce => self.all_reduce(call, bytes, out),
            Kind::AllGather => parts(bytes, slot).for_each(|part| {
                out.push(self.publish(call.send + part.begin, part.bytes));
                out.push(Step {
                    to: call.recv + part.begin,
                    rows: self.layout.world as u32,
                    memory_stride: bytes,
                    ..Step::of(Kernel::Gather, Channel::All, part.bytes)
                });
            }),
            Kind::ReduceScatter => {
                let most = slot / self.layout.world as u64 / VECTOR * VECTOR;
                parts(bytes, most).for_each(|part| self.reduce_scatter(call, part, bytes, out));
            }
            Kind::Broadcast(root) => {
                parts(bytes, slot).for_each(|part| self.broadcast(call, root, part, out));
            }
            Kind::Reduce(root) => parts(bytes, slot).for_each(|part| {
                out.push(self.publish(call.send + part.begin, part.bytes));
                out.push(match self.rank == root {
                    true => self.reduce(call, part.begin, part.bytes),
                    false => self.wait(),
                });
            }),
            Kind::Send(peer) => steps
                .message
                .extend(parts(bytes, channel_slot).map(|part| Step {
                    from: call.send + part.begin,
                    ends_message: true,
                    ..Step::of(Kernel::Publish, Channel::To(peer), part.bytes)
                })),
            Kind::Recv(peer) => steps
                .message
                .extend(parts(bytes, channel_slot).map(|part| Step {
                    to: call.recv + part.begin,
                    ends_message: true,
                    ..Step::of(Kernel::Gather, Channel::From(peer), part.bytes)
                })),
        }
        Ok(steps)
    }

    /// Memory to this rank's slot, for all.
    fn publish(&self, from: u64, bytes: u64) -> Step {
        Step {
            from,
            sender: self.rank,
            ends_message: true,
            ..Step::of(Kernel::Publish, Channel::All, bytes)
        }
    }

    /// Waits for all ranks: no rank may be two messages ahead of another.
    fn wait(&self) -> Step {
        Step {
            rows: 0,
            ..Step::of(Kernel::Gather, Channel::All, 0)
        }
    }

    /// What all ranks published, reduced, to the result.
    fn reduce(&self, call: &Call, begin: u64, bytes: u64) -> Step {
        Step {
            to: call.recv + begin,
            op: call.op as u32,
            ..Step::of(Kernel::Reduce(call.dtype), Channel::All, bytes)
        }
    }

    fn all_reduce(&self, call: &Call, bytes: u64, out: &mut Vec<Step>) {
        let workgroups = u64::from(self.boxes.workgroups);
        let is_packets = bytes <= self.boxes.packets_bytes;
        let row = u64::from(ROW);
        let piece = match is_packets {
            true => row,
            // All at once, if they fit.
            false => {
                (bytes.div_ceil(workgroups).next_multiple_of(row)).min(self.boxes.piece.into())
            }
        };
        let all = [EXCHANGE_SENDS, EXCHANGE_REDUCES, EXCHANGE_GATHERS];
        let steps = &all[..if is_packets { 2 } else { 3 }];
        let step = |part: Part, does| {
            let exchange = Exchange {
                dtype: call.dtype,
                is_packets,
                piece: piece as u32,
                does,
            };
            Step {
                from: call.send + part.begin,
                to: call.recv + part.begin,
                op: call.op as u32,
                ..Step::of(Kernel::AllReduce(exchange), Channel::All, part.bytes)
            }
        };
        if self.is_alone {
            let whole = Part { begin: 0, bytes };
            out.extend((bytes > 0).then(|| step(whole, steps.iter().sum())));
            return;
        }
        for part in parts(bytes, workgroups * piece) {
            out.extend(steps.iter().map(|does| step(part, *does)));
        }
    }

    fn reduce_scatter(&self, call: &Call, part: Part, stride: u64, out: &mut Vec<Step>) {
        let slot_stride = part.bytes.next_multiple_of(VECTOR);
        out.push(Step {
            rows: self.layout.world as u32,
            memory_stride: stride,
            slot_stride,
            ..self.publish(call.send + part.begin, part.bytes)
        });
        out.push(Step {
            offset: self.rank as u64 * slot_stride,
            ..self.reduce(call, part.begin, part.bytes)
        });
    }

    fn broadcast(&self, call: &Call, root: usize, part: Part, out: &mut Vec<Step>) {
        let is_root = self.rank == root;
        out.push(Step {
            rows: is_root.into(),
            ..self.publish(call.send + part.begin, part.bytes)
        });
        let is_in_place = is_root && call.send == call.recv;
        out.push(match is_in_place {
            true => self.wait(),
            false => Step {
                to: call.recv + part.begin,
                sender: root,
                ..Step::of(Kernel::Gather, Channel::All, part.bytes)
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::sys::ncclRedOp_t;

    fn call(kind: Kind, count: usize) -> Call {
        Call {
            kind,
            send: 1 << 20,
            recv: 1 << 30,
            count,
            dtype: ncclDataType_t::ncclFloat32,
            op: ncclRedOp_t::ncclSum,
        }
    }

    fn at(rank: usize, world: usize) -> Place {
        let layout = Layout { world };
        Place {
            rank,
            layout,
            boxes: Boxes::far(&layout, 60),
            is_alone: false,
        }
    }

    #[test]
    fn ranks_have_as_many_steps_of_a_collective() {
        let kinds = [
            Kind::AllReduce,
            Kind::AllGather,
            Kind::ReduceScatter,
            Kind::Broadcast(1),
            Kind::Reduce(1),
        ];
        for kind in kinds {
            for count in [0, 1, 77, 65_537, 1 << 20] {
                let counts: Vec<_> = (0..4)
                    .map(|rank| at(rank, 4).steps(&call(kind, count)).unwrap())
                    .map(|steps| (steps.collective.len(), steps.message.len()))
                    .collect();
                assert!(counts.iter().all(|it| *it == counts[0]), "{kind:?} {count}");
                assert_eq!(counts[0].0 == 0, count == 0);
            }
        }
    }

    #[test]
    fn an_all_reduce_is_one_launch_of_a_rank_alone() {
        for count in [1usize, 16_385, 3_000_001] {
            let together = at(1, 3).steps(&call(Kind::AllReduce, count)).unwrap();
            let place = Place {
                is_alone: true,
                ..at(1, 3)
            };
            let alone = place.steps(&call(Kind::AllReduce, count)).unwrap();
            let [one] = alone.collective[..] else {
                panic!("{alone:?}");
            };
            let Kernel::AllReduce(whole) = one.kernel else {
                panic!("{one:?}");
            };
            // The same pieces by the same workgroups: the other ranks may be alone.
            let round = u64::from(place.boxes.workgroups * whole.piece);
            let steps = whole.does.count_ones() as usize;
            assert_eq!(steps, if whole.is_packets { 2 } else { 3 });
            for (number, of_part) in together.collective.chunks(steps).enumerate() {
                let does = |step: &Step| match step.kernel {
                    Kernel::AllReduce(it) => {
                        assert_eq!((it.piece, it.is_packets), (whole.piece, whole.is_packets));
                        it.does
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(of_part.iter().map(does).sum::<u32>(), whole.does);
                for step in of_part {
                    assert_eq!(step.from, one.from + number as u64 * round);
                    assert_eq!(step.to, one.to + number as u64 * round);
                    assert!(step.bytes <= round);
                }
            }
            let bytes = together.collective.iter().map(|step| step.bytes);
            assert_eq!(bytes.sum::<u64>(), one.bytes * steps as u64);
        }
    }

    #[test]
    fn what_is_longer_than_a_slot_goes_in_parts() {
        let place = at(0, 2);
        let slot = place.layout.channel_slot_bytes();
        let sends = place.steps(&call(Kind::Send(1), slot / 4 + 1)).unwrap();
        let bytes: Vec<u64> = sends.message.iter().map(|step| step.bytes).collect();
        assert_eq!(bytes, [slot as u64, 4]);
    }
}
