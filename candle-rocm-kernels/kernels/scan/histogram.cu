// Counts of elements by bin, of whole numbers or of floats in bins of equal width.
//
// Additions of integers have no order: atomics give the same counts in every run. What is in no bin is not counted.
#include "portable/convert.cuh"
#include "portable/lanes.cuh"

constexpr uint32_t HISTOGRAM_THREADS = 256;
extern __shared__ int32_t histogram_counts[];

// The bin of an element, `bins` or more if there is none.
template <class T> struct Bins {
    uint32_t bins;
    double least, width, most;

    __device__ __forceinline__ uint32_t of(T element) const {
        if constexpr (is_float<T>::value) {
            // As in the type in which the CPU's operators compute it.
            compute_t<T> x = upcast(element);
            if (!(x >= (compute_t<T>)least && x <= (compute_t<T>)most)) return bins;
            compute_t<T> place = (x - (compute_t<T>)least) / (compute_t<T>)width;
            return min_of((uint32_t)place, bins - 1);
        } else {
            int64_t value = (int64_t)element;
            return value < 0 || value >= (int64_t)bins ? bins : (uint32_t)value;
        }
    }
};

// Adds the numbers of elements of each bin to `counts`. `copies` sets of counters, a power of two, are in LDS; of none
// the counters are in memory.
template <class T>
__device__ __forceinline__ void count_bins(const T *__restrict__ source, uint32_t *__restrict__ counts, size_t count,
                                           uint32_t copies, const Bins<T> &bins) {
    LDS_MEMORY int32_t *lds = (LDS_MEMORY int32_t *)histogram_counts;
    for (uint32_t b = threadIdx.x; b < bins.bins * copies; b += HISTOGRAM_THREADS) lds[b] = 0;
    __syncthreads();
    // A bin's copies lie side by side, in banks of their own.
    LDS_MEMORY int32_t *own = lds + (threadIdx.x & (copies - 1));
    constexpr uint32_t TOGETHER = 8;
    for (size_t first = global_thread(); first < count; first += TOGETHER * global_threads()) {
        uint32_t found[TOGETHER];
#pragma unroll
        for (uint32_t i = 0; i < TOGETHER; i++) {
            size_t at = first + i * global_threads();
            found[i] = at < count ? bins.of(source[at]) : bins.bins;
        }
#pragma unroll
        for (uint32_t i = 0; i < TOGETHER; i++) {
            if (found[i] >= bins.bins) continue;
            if (copies == 0) device_atomic::add(counts + found[i], 1);
            else lds_add(own + found[i] * copies, 1);
        }
    }
    if (copies == 0) return;
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < bins.bins; b += HISTOGRAM_THREADS) {
        uint32_t sum = 0;
        for (uint32_t c = 0; c < copies; c++) sum += lds[b * copies + c];
        if (sum > 0) device_atomic::add(counts + b, sum);
    }
}

#define HISTOGRAM(NAME, T)                                                                                         \
    ENTRY __launch_bounds__(HISTOGRAM_THREADS)                                                                     \
        histogram_##NAME(const T *__restrict__ source, uint32_t *__restrict__ counts, size_t count, uint32_t bins, \
                         uint32_t copies, double least, double width, double most) {                               \
        count_bins<T>(source, counts, count, copies, Bins<T>{bins, least, width, most});                           \
    }
FOR_ALL(HISTOGRAM)
