// Fourier transforms in LDS, by passes of small radices; long ones in two steps, others as convolutions with a chirp.
#pragma once
#include "fft/twiddle.cuh"
#include "rows/rows.cuh"

// A step: transforms of n elements, of which a workgroup has `together`. Each sequence has `units` of them: element i
// of transform j is element i * in_step + j * in_transform of the source, and i * out_step + j * out_transform of the
// result. The host (candle_rocm_backend::ops) knows the same fields.
struct FftProblem {
    const void *source;
    // What elements are multiplied by as they are read.
    const void *filter;
    void *result;
    uint64_t transforms;
    // Of the passes, in order, four bits each.
    uint64_t radices;
    uint32_t n, together, units, in_step, in_transform, out_step, out_transform;
    // Elements in LDS from one transform to the next.
    uint32_t pitch;
    // Elements of a whole sequence whose steps are two, for what is between them; 0 where there is one step.
    uint32_t total;
    // Elements of a sequence in the source, those beyond are 0, and in the result, those beyond are not stored.
    uint32_t there, kept;
    // Elements of the transform that was asked for.
    uint32_t length;
    uint32_t flags, unused;
    double scale;
};

// What is done to elements as they are read and stored, in this order; beside filter, chirp and scale.
enum FftFlags : uint32_t {
    FFT_SOURCE_REAL = 1,
    FFT_RESULT_REAL = 2,
    // Each element that another one mirrors counts twice.
    FFT_LOAD_DOUBLED = 4,
    FFT_STORE_DOUBLED = 8,
    FFT_LOAD_CHIRP = 16,
    FFT_STORE_CHIRP = 32,
    // Real and imaginary parts change places, before what is done and after it: the inverse transform.
    FFT_LOAD_SWAPPED = 64,
    FFT_LOAD_SWAPPED_LAST = 128,
    FFT_STORE_SWAPPED = 256,
    FFT_STORE_SWAPPED_LAST = 512,
    // The source is the chirp's conjugate, of both signs.
    FFT_MAKE_FILTER = 1024,
};

constexpr uint32_t FFT_THREADS = 256;
// Elements of a workgroup; in LDS there is room for one more of each 32.
template <class T> constexpr uint32_t FFT_ELEMENTS = sizeof(T) == 4 ? 2048 : 1024;

template <class T> struct FftLds {
    static constexpr uint32_t SIZE = FFT_ELEMENTS<T> + FFT_ELEMENTS<T> / 32;
    T re[SIZE], im[SIZE];

    __device__ __forceinline__ Complex<T> read(uint32_t at) const { return {re[at], im[at]}; }
    __device__ __forceinline__ void write(uint32_t at, Complex<T> value) {
        re[at] = value.re;
        im[at] = value.im;
    }
};

// cos(2 pi i / radix) and sin(2 pi i / radix) of odd radices, for i up to half of it.
constexpr double odd_cosine(int radix, int i) {
    if (radix == 3) return -0.5;
    if (radix == 5) return i == 1 ? 0.30901699437494742410 : -0.80901699437494742410;
    return i == 1 ? 0.62348980185873353053 : i == 2 ? -0.22252093395631440429 : -0.90096886790241912624;
}
constexpr double odd_sine(int radix, int i) {
    if (radix == 3) return 0.86602540378443864676;
    if (radix == 5) return i == 1 ? 0.95105651629515357212 : 0.58778525229247312917;
    return i == 1 ? 0.78183148246802980871 : i == 2 ? 0.97492791218182360702 : 0.43388373911755812048;
}

// The transform of RADIX numbers.
template <int RADIX, class T> __device__ __forceinline__ void small_transform(Complex<T> (&x)[RADIX]) {
    if constexpr (RADIX == 2) {
        Complex<T> sum = x[0] + x[1];
        x[1] = x[0] - x[1];
        x[0] = sum;
    } else if constexpr (RADIX == 4) {
        Complex<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = x[1] - x[3];
        x[0] = a + c;
        x[1] = {b.re + d.im, b.im - d.re};
        x[2] = a - c;
        x[3] = {b.re - d.im, b.im + d.re};
    } else {
        constexpr int HALF = RADIX / 2;
        Complex<T> sums[HALF], differences[HALF], first = x[0];
#pragma unroll
        for (int q = 0; q < HALF; q++) {
            sums[q] = x[q + 1] + x[RADIX - 1 - q];
            differences[q] = x[q + 1] - x[RADIX - 1 - q];
            x[0] = x[0] + sums[q];
        }
#pragma unroll
        for (int p = 1; p <= HALF; p++) {
            Complex<T> even = first, odd = {0, 0};
#pragma unroll
            for (int q = 1; q <= HALF; q++) {
                int i = p * q % RADIX;
                T sine = (T)(i > HALF ? -odd_sine(RADIX, RADIX - i) : odd_sine(RADIX, i));
                T cosine = (T)odd_cosine(RADIX, i > HALF ? RADIX - i : i);
                even.re = math::fma(cosine, sums[q - 1].re, even.re);
                even.im = math::fma(cosine, sums[q - 1].im, even.im);
                odd.re = math::fma(sine, differences[q - 1].im, odd.re);
                odd.im = math::fma(-sine, differences[q - 1].re, odd.im);
            }
            x[p] = even + odd;
            x[RADIX - p] = even - odd;
        }
    }
}

// Multiplies all but the first by the powers of `factor`.
template <int RADIX, class T>
__device__ __forceinline__ void multiply_by_powers(Complex<T> (&x)[RADIX], Complex<T> factor) {
    Complex<T> power = factor;
#pragma unroll
    for (int q = 1; q < RADIX; q++) {
        x[q] = x[q] * power;
        if (q + 1 < RADIX) power = power * factor;
    }
}

// One pass over all of a workgroup's transforms, of which earlier passes have made transforms of `done` elements.
template <int RADIX, class T>
__device__ __forceinline__ void fft_pass(FftLds<T> &lds, uint32_t n, uint32_t together, uint32_t pitch, uint32_t done) {
    constexpr int EACH = ceil_div((int)FFT_ELEMENTS<T>, (int)FFT_THREADS * RADIX);
    // Without a value to begin with, those of the pass before would be kept.
    Complex<T> x[EACH][RADIX] = {};
    uint32_t of_transform = n / RADIX, count = together * of_transform, thread = threadIdx.x, to[EACH] = {};
#pragma unroll
    for (int b = 0; b < EACH; b++) {
        // One after the other: places and factors of all would take the registers of another wavefront.
        opt_barrier_memory(thread);
        // Threads without numbers of their own make the last ones once more.
        if (b * FFT_THREADS >= count) continue;
        uint32_t g = min_of(thread + b * FFT_THREADS, count - 1), number = g / of_transform;
        uint32_t j = g - number * of_transform;
        uint32_t block = j / done, k = j - block * done, from = number * pitch + j;
        to[b] = number * pitch + block * done * RADIX + k;
#pragma unroll
        for (int q = 0; q < RADIX; q++) x[b][q] = lds.read(from + q * of_transform);
        if (done > 1) multiply_by_powers<RADIX, T>(x[b], twiddle<T>(k, done * RADIX));
        small_transform<RADIX, T>(x[b]);
    }
    __syncthreads();
#pragma unroll
    for (int b = 0; b < EACH; b++) {
        if (threadIdx.x + b * FFT_THREADS >= count) continue;
#pragma unroll
        for (int q = 0; q < RADIX; q++) lds.write(to[b] + q * done, x[b][q]);
    }
    __syncthreads();
}

// e^(-pi i * number^2 / length), of numbers below 2^16.
template <class T> __device__ __forceinline__ Complex<T> chirp(uint32_t number, uint32_t length) {
    return twiddle<T>(number * number % (2 * length), 2 * length);
}

// Whether an element of a real sequence's transform has another one that mirrors it.
__device__ __forceinline__ bool is_mirrored(uint32_t index, uint32_t length) {
    return index != 0 && 2 * index != length;
}

// Element `index` of a sequence.
template <class T>
__device__ __forceinline__ Complex<T> fft_source(const FftProblem &problem, uint64_t sequence, uint32_t index) {
    uint32_t flags = problem.flags, length = problem.length;
    if (flags & FFT_MAKE_FILTER) {
        uint32_t all = problem.n * problem.units, number = min_of(index, all - index);
        return number < length ? chirp<T>(number, length).conjugate() : Complex<T>{0, 0};
    }
    if (index >= problem.there) return {0, 0};
    uint64_t at = sequence * problem.there + index;
    Complex<T> value;
    if (flags & FFT_SOURCE_REAL) {
        value = {((const T *)problem.source)[at], 0};
    } else {
        vec<T, 2> both = read_global<vec<T, 2>>((const T *)problem.source + 2 * at);
        value = {both[0], both[1]};
    }
    value = value.swapped_if(flags & FFT_LOAD_SWAPPED);
    if ((flags & FFT_LOAD_DOUBLED) && is_mirrored(index, length)) value = value + value;
    if (flags & FFT_LOAD_CHIRP) value = value * chirp<T>(index, length);
    if (problem.filter != nullptr) {
        vec<T, 2> factor = read_global<vec<T, 2>>((const T *)problem.filter + 2 * (uint64_t)index);
        value = value * Complex<T>{factor[0], factor[1]};
    }
    return value.swapped_if(flags & FFT_LOAD_SWAPPED_LAST);
}

template <class T>
__device__ __forceinline__ void fft_store(const FftProblem &problem, uint64_t sequence, uint32_t index,
                                          Complex<T> value) {
    uint32_t flags = problem.flags, length = problem.length;
    if (index >= problem.kept) return;
    value = value.swapped_if(flags & FFT_STORE_SWAPPED);
    if (flags & FFT_STORE_CHIRP) value = value * chirp<T>(index, length);
    if ((flags & FFT_STORE_DOUBLED) && is_mirrored(index, length)) value = value + value;
    value = value.swapped_if(flags & FFT_STORE_SWAPPED_LAST);
    T scale = (T)problem.scale;
    uint64_t at = sequence * problem.kept + index;
    if (flags & FFT_RESULT_REAL) ((T *)problem.result)[at] = value.re * scale;
    else store_vec((T *)problem.result + 2 * at, vec<T, 2>{value.re * scale, value.im * scale});
}

// Calls f(place in LDS, element, unit, sequence) for all elements of a workgroup's transforms; threads side by side
// have those of a transform, or, where those are `step` apart in memory, those of several.
template <class F> __device__ __forceinline__ void each_element(const FftProblem &problem, uint32_t step, F f) {
    uint64_t first = (uint64_t)blockIdx.x * problem.together;
    uint32_t together = (uint32_t)min_of(problem.transforms - first, (uint64_t)problem.together);
    for (uint32_t e = threadIdx.x; e < together * problem.n; e += FFT_THREADS) {
        uint32_t by = step == 1 ? problem.n : together, high = e / by, low = e - high * by;
        uint32_t number = step == 1 ? high : low, i = step == 1 ? low : high;
        bool is_small = problem.transforms >> 32 == 0;
        uint64_t sequence = divide(first + number, problem.units, is_small);
        uint32_t unit = (uint32_t)(first + number - sequence * problem.units);
        f(number * problem.pitch + i, i, unit, sequence);
    }
}

template <class T> __device__ __forceinline__ void fft_step(const FftProblem &problem) {
    __shared__ FftLds<T> lds;
    uint32_t n = problem.n, together = problem.together, pitch = problem.pitch;
    each_element(problem, problem.in_step, [&](uint32_t place, uint32_t i, uint32_t unit, uint64_t sequence) INLINED {
        uint32_t index = i * problem.in_step + unit * problem.in_transform;
        lds.write(place, fft_source<T>(problem, sequence, index));
    });
    __syncthreads();
    uint32_t done = 1;
    for (uint64_t radices = problem.radices; radices != 0; radices >>= 4) {
        uint32_t radix = radices & 15;
        // Places in LDS are not worth keeping for all radices.
        opt_barrier_uniform(n);
        if (radix == 4) fft_pass<4>(lds, n, together, pitch, done);
        else if (radix == 2) fft_pass<2>(lds, n, together, pitch, done);
        else if (radix == 3) fft_pass<3>(lds, n, together, pitch, done);
        else if (radix == 5) fft_pass<5>(lds, n, together, pitch, done);
        else fft_pass<7>(lds, n, together, pitch, done);
        done *= radix;
    }
    each_element(problem, problem.out_step, [&](uint32_t place, uint32_t i, uint32_t unit, uint64_t sequence) INLINED {
        Complex<T> value = lds.read(place);
        if (problem.total != 0) value = value * twiddle<T>(i * unit, problem.total);
        fft_store(problem, sequence, i * problem.out_step + unit * problem.out_transform, value);
    });
}
