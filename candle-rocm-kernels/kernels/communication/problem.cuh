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
    // Whether the step ends a message, which is the next one; a reduction then writes to its slot.
    uint32_t ends_message;
};

enum ReduceOp : uint32_t { SUM = 0, PROD = 1, MAX = 2, MIN = 3, AVG = 4 };

constexpr uint32_t COMMUNICATION_THREADS = 256;
