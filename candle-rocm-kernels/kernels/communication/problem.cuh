// What the kernels of collectives are told: a step of one, at one rank.
//
// A channel is what ranks exchange data by: each sender has two slots, used in turns, and a flag, the number of the
// last message in its slots. A rank counts its messages in `state`, so that a captured launch goes on where the last
// one was.
#pragma once
#include "portable/portable.cuh"

struct CommunicationProblem {
    // What is sent, and where results go: this rank's memory.
    const void *from;
    void *to;
    // The address of each sender's first slot.
    const uint64_t *slots;
    // The senders' flags, `flag_stride` words apart, and the flag that this step sets, or null.
    uint32_t *flags;
    uint32_t *own_flag;
    // Where this step says which flag it waits for, or null; and a word that is not 0 once it is to give up.
    uint32_t *wanted;
    const uint32_t *abort;
    // This rank's number of messages, and how many workgroups have ended.
    int32_t *state;
    // Rows of so many bytes, and the bytes from one row to the next in memory and in a slot.
    uint64_t bytes;
    uint64_t memory_stride;
    uint64_t slot_stride;
    // Bytes of all rows in memory: the last ones may be shorter, or not there.
    uint64_t total;
    // Bytes of a slot, and where in a slot reading begins.
    uint64_t slot_bytes;
    uint64_t offset;
    uint32_t rows;
    uint32_t flag_stride;
    // How many flags are waited for, and by how many messages they may be behind.
    uint32_t waits;
    uint32_t lag;
    // The first sender that is read, or the one whose slot is written.
    uint32_t sender;
    // How many senders are reduced, and how: a number of `ReduceOp`.
    uint32_t world;
    uint32_t op;
    // Whether the step ends a message, which is the next one.
    uint32_t ends_message;
};

// An all-reduce in one launch, at one rank. Workgroups cut it into pieces in turns, and each exchanges its pieces with
// the workgroups of its number at the other ranks: it waits for no other. What it exchanges them by is its area of a
// box.
struct AllReduceProblem {
    // This rank's memory.
    const void *from;
    void *to;
    // The address of the box that each rank is written to by, and then of each that ranks are read from. In the host's
    // memory a rank's box is read by all the others; in GPUs' memory each has one of its own, where it is near.
    const uint64_t *boxes;
    // How many pieces each workgroup has exchanged, in all launches.
    int32_t *exchanged;
    // For each workgroup, what it has waited for long, or 0: a rank and 1, and the number of its piece from bit 8 on.
    uint32_t *awaits;
    // The rank that will not come, and 1, or DOUBT_ALL: so says the host. And the rank that was given up, and 1.
    const uint32_t *doubt;
    uint32_t *gave_up;
    uint64_t bytes;
    // Bytes of a piece, a multiple of 16.
    uint32_t piece;
    // Where in a box the areas begin, and the bytes of one.
    uint32_t areas;
    uint32_t area;
    uint32_t rank;
    uint32_t world;
    uint32_t op;
    // How many boxes are written so that all ranks can read: 1, or one for each other rank.
    uint32_t copies;
    // Which of ExchangeStep this launch does.
    uint32_t does;
};

// A launch does all, or, where one thread of the host has several ranks, each in a launch of its own, of one piece.
enum ExchangeStep : uint32_t { EXCHANGE_SENDS = 1, EXCHANGE_REDUCES = 2, EXCHANGE_GATHERS = 4 };

constexpr uint32_t DOUBT_ALL = 255;

enum ReduceOp : uint32_t { SUM = 0, PROD = 1, MAX = 2, MIN = 3, AVG = 4 };

constexpr uint32_t COMMUNICATION_THREADS = 256;

// Of all-reduces in one launch: work-items of a workgroup, and workgroups at most.
constexpr uint32_t ALL_REDUCE_THREADS = 512;
constexpr uint32_t ALL_REDUCE_WORKGROUPS = 128;
// Pieces of a workgroup that its area holds: of those with flags, and of packets.
constexpr uint32_t RING_PIECES = 4;
constexpr uint32_t RING_PACKETS = 2;
// Pieces of packets that a row with its norm has at most: a workgroup holds them in LDS.
constexpr uint32_t NORMED_PIECES = 4;
// Bytes before the pieces of an area: its flags.
constexpr uint32_t AREA_FLAGS = 256;
