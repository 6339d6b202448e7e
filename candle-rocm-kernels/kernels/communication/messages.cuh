// Messages between ranks: waiting for flags, slots, and the end of a message.
#pragma once
#include "communication/problem.cuh"
#include "communication/system_memory.cuh"
#include "portable/workspace.cuh"

// The number of the last message that this rank ended.
__device__ __forceinline__ uint32_t last_message(const CommunicationProblem &p) {
    return (uint32_t)device_atomic::read(p.state);
}

// Waits until each flag has reached a message, or is behind it by what the step allows. False if the step is to give
// up: a rank is gone, or has not come in time.
__device__ __forceinline__ bool wait_for(const CommunicationProblem &p, uint32_t message) {
    __shared__ uint32_t gives_up;
    if (p.waits == 0) return true;
    if (threadIdx.x == 0) gives_up = 0;
    __syncthreads();
    uint32_t wanted = message - p.lag;
    if (p.wanted != nullptr && global_thread() == 0) system_memory::write(p.wanted, wanted);
    if (threadIdx.x < p.waits) {
        const uint32_t *flag = p.flags + (size_t)threadIdx.x * p.flag_stride;
        while ((int32_t)(system_memory::read(flag) - wanted) < 0) {
            if (system_memory::read(p.abort) != 0) {
                gives_up = 1;
                break;
            }
            system_memory::rest();
        }
    }
    __syncthreads();
    system_memory::observe();
    return gives_up == 0;
}

// A sender's slot of a message.
__device__ __forceinline__ char *slot_of(const CommunicationProblem &p, uint32_t sender, uint32_t message) {
    return system_memory::at<char>(p.slots[sender] + (message & 1) * p.slot_bytes);
}

// The last workgroup that gets here ends the message: the flag says that all of it is there, or read. What others
// wrote is there for the device before they are counted, and for all once the last one publishes.
__device__ __forceinline__ void end_message(const CommunicationProblem &p, uint32_t message) {
    __shared__ int32_t ended;
    if (!ends_last(p.state + 1, gridDim.x, ended) || threadIdx.x != 0) return;
    device_atomic::write(p.state, (int32_t)message);
    system_memory::publish();
    system_memory::write(p.own_flag, message);
}

// Copies bytes by all work-items of the grid, as many at once as both addresses allow.
template <class V> __device__ __forceinline__ void copy_by(char *to, const char *from, uint64_t bytes) {
    uint64_t whole = bytes / sizeof(V);
    for (uint64_t i = global_thread(); i < whole; i += global_threads())
        store_vec((V *)to + i, load_vec<V>((const V *)from + i));
    for (uint64_t i = whole * sizeof(V) + global_thread(); i < bytes; i += global_threads()) to[i] = from[i];
}
__device__ __forceinline__ void copy_bytes(char *to, const char *from, uint64_t bytes) {
    uintptr_t places = (uintptr_t)to | (uintptr_t)from;
    if ((places & 15) == 0) copy_by<vec<uint32_t, 4>>(to, from, bytes);
    else if ((places & 3) == 0) copy_by<uint32_t>(to, from, bytes);
    else copy_by<char>(to, from, bytes);
}

// Bytes of a row, of which the last ones may lack some.
__device__ __forceinline__ uint64_t bytes_of_row(const CommunicationProblem &p, uint64_t begin) {
    return begin >= p.total ? 0 : min_of(p.bytes, p.total - begin);
}
