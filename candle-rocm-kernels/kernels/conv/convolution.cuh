// Convolutions of one and two dimensions, direct and transposed, and their unfolding for GEMM.
//
// Axes are those of Candle's CPU backend: src (batch, c_in, height, width), kernel (c_out, c_in, ...)
// or, transposed, (c_in, c_out, ...). In one dimension the height is 1. `info` holds src's
// dimensions and strides, then the kernel's. One thread makes one output element and adds up in a
// fixed order.
#pragma once
#include "elementwise/elementwise.cuh"

// A strided tensor of RANK dimensions, read from `info`.
template <int RANK> struct Layout {
    size_t dims[RANK], strides[RANK];
    __device__ __forceinline__ explicit Layout(const size_t *info) {
#pragma unroll
        for (int d = 0; d < RANK; d++) {
            dims[d] = info[d];
            strides[d] = info[RANK + d];
        }
    }
};

// One-dimensional layouts as two-dimensional ones of height 1.
__device__ __forceinline__ Layout<4> with_height(const size_t *info) {
    const size_t four[8] = {info[0], info[1], 1, info[2], info[3], info[4], 0, info[5]};
    return Layout<4>(four);
}

// Takes the last axis off a linear index: returns the place on it, leaves the rest in `index`.
__device__ __forceinline__ size_t pop_axis(size_t &index, size_t size, bool fits_32) {
    size_t rest = divide(index, size, fits_32), at = index - rest * size;
    index = rest;
    return at;
}

// What all convolutions share.
struct Window {
    size_t stride, padding, dilation;
    // Padding along the height: none where that was only added.
    size_t padding_y;
};

template <class T>
__device__ __forceinline__ void convolve(size_t out_h, size_t out_w, Window window, Layout<4> s, Layout<4> k,
                                         const T *__restrict__ src, const T *__restrict__ kernel, T *__restrict__ dst) {
    size_t c_out = k.dims[0], numel = s.dims[0] * c_out * out_h * out_w;
    bool fits_32 = numel <= 0xffffffffu;
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t rest = i;
        size_t x = pop_axis(rest, out_w, fits_32), y = pop_axis(rest, out_h, fits_32);
        size_t co = pop_axis(rest, c_out, fits_32), batch = rest;
        compute_t<T> sum = 0;
        for (size_t ky = 0; ky < k.dims[2]; ky++) {
            // Unsigned: a place before the start is past the end.
            size_t sy = y * window.stride + ky * window.dilation - window.padding_y;
            if (sy >= s.dims[2]) continue;
            for (size_t kx = 0; kx < k.dims[3]; kx++) {
                size_t sx = x * window.stride + kx * window.dilation - window.padding;
                if (sx >= s.dims[3]) continue;
                const T *from = src + batch * s.strides[0] + sy * s.strides[2] + sx * s.strides[3];
                const T *by = kernel + co * k.strides[0] + ky * k.strides[2] + kx * k.strides[3];
                for (size_t ci = 0; ci < k.dims[1]; ci++)
                    sum += upcast(from[ci * s.strides[1]]) * upcast(by[ci * k.strides[1]]);
            }
        }
        dst[i] = round_to<T>(sum);
    }
}

template <class T>
__device__ __forceinline__ void convolve_transposed(size_t out_h, size_t out_w, Window window, Layout<4> s, Layout<4> k,
                                                    const T *__restrict__ src, const T *__restrict__ kernel,
                                                    T *__restrict__ dst) {
    size_t c_out = k.dims[1], numel = s.dims[0] * c_out * out_h * out_w;
    bool fits_32 = numel <= 0xffffffffu;
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t rest = i;
        size_t x = pop_axis(rest, out_w, fits_32), y = pop_axis(rest, out_h, fits_32);
        size_t co = pop_axis(rest, c_out, fits_32), batch = rest;
        compute_t<T> sum = 0;
        for (size_t ky = 0; ky < k.dims[2]; ky++) {
            // out + padding = in * stride + k * dilation
            size_t ny = y + window.padding_y, oy = ky * window.dilation;
            if (ny < oy || (ny - oy) % window.stride != 0) continue;
            size_t sy = (ny - oy) / window.stride;
            if (sy >= s.dims[2]) continue;
            for (size_t kx = 0; kx < k.dims[3]; kx++) {
                size_t nx = x + window.padding, ox = kx * window.dilation;
                if (nx < ox || (nx - ox) % window.stride != 0) continue;
                size_t sx = (nx - ox) / window.stride;
                if (sx >= s.dims[3]) continue;
                const T *from = src + batch * s.strides[0] + sy * s.strides[2] + sx * s.strides[3];
                const T *by = kernel + co * k.strides[1] + ky * k.strides[2] + kx * k.strides[3];
                for (size_t ci = 0; ci < k.dims[0]; ci++)
                    sum += upcast(from[ci * s.strides[1]]) * upcast(by[ci * k.strides[0]]);
            }
        }
        dst[i] = round_to<T>(sum);
    }
}

// dst (batch, l_out, c_in, l_k): for each output place the inputs under the window, zero in the padding, where Candle's
// grid has a thread for each of `windows`: (batch, l_out, c_in).
template <class U>
__device__ __forceinline__ void unfold_1d_by_windows(size_t windows, size_t l_out, size_t l_k, Window window,
                                                     const size_t *__restrict__ info, const U *__restrict__ src,
                                                     U *__restrict__ dst) {
    size_t c_in = info[1], l_in = info[2], batch_stride = info[3], channel_stride = info[4], stride = info[5];
    bool fits_32 = windows <= 0xffffffffu;
    for (size_t i = global_thread(); i < windows; i += global_threads()) {
        size_t batch = i;
        size_t ci = pop_axis(batch, c_in, fits_32), x = pop_axis(batch, l_out, fits_32);
        const U *from = src + batch * batch_stride + ci * channel_stride;
        size_t at = x * window.stride - window.padding;
        for (size_t k = 0; k < l_k; k++, at += window.dilation) dst[i * l_k + k] = at < l_in ? from[at * stride] : U();
    }
}

// What unfolding by tiles goes over. A line of outputs is those of an image at one height; its rows are the lines of
// the image that it meets, a channel and a tap of the kernel's height each. In one dimension both heights are 1.
struct Unfolded {
    uint32_t lines, rows, out_h, h_k, l_out, l_k;
    size_t h_in, l_in, batch_stride, channel_stride, row_stride;
};

// Unfolds by tiles of 32 rows and 32 places, whose `reach` inputs of each row are neighbours in memory; so are a
// place's outputs. LDS turns the one order into the other.
constexpr uint32_t UNFOLD_TILE = 32, UNFOLD_REACH = 67;
template <class U>
__device__ __forceinline__ void unfold_by_tiles(const Unfolded &of, uint32_t reach, const Window &window,
                                                const U *__restrict__ src, U *__restrict__ dst) {
    __shared__ U lds[UNFOLD_TILE * UNFOLD_REACH];
    constexpr uint32_t STRIP = 8;
    uint32_t l_k = of.l_k, stride = (uint32_t)window.stride, dilation = (uint32_t)window.dilation;
    uint32_t thread = threadIdx.x, threads = blockDim.x, lane = thread % UNFOLD_TILE, group = thread / UNFOLD_TILE,
             groups = threads / UNFOLD_TILE;
    uint32_t across = ceil_div(of.rows, UNFOLD_TILE), along = ceil_div(of.l_out, UNFOLD_TILE),
             tiles = of.lines * across * along;
    // A lane's outputs of a place are 32 apart: so many rows, and so much of a window.
    uint32_t first_row = lane / l_k, first_k = lane - first_row * l_k;
    uint32_t row_step = UNFOLD_TILE / l_k, k_step = UNFOLD_TILE - row_step * l_k;
    for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        uint32_t rest = tile / across, row0 = (tile - rest * across) * UNFOLD_TILE, line = rest / along;
        uint32_t x = (rest - line * along) * UNFOLD_TILE, batch = of.out_h == 1 ? line : line / of.out_h;
        uint32_t rows = min_of(of.rows - row0, UNFOLD_TILE), places = min_of(of.l_out - x, UNFOLD_TILE);
        const U *from = src + batch * of.batch_stride;
        // Unsigned: a place before the start is past the end.
        size_t begin = x * window.stride - window.padding,
               top = (line - batch * of.out_h) * window.stride - window.padding_y;
        uint32_t inputs = rows * reach, in_row = thread / reach, p = thread - in_row * reach;
        for (uint32_t i = thread; i < inputs; i += STRIP * threads) {
            U value[STRIP] = {};
            uint32_t place[STRIP];
#pragma unroll
            for (uint32_t s = 0; s < STRIP; s++) {
                place[s] = in_row * UNFOLD_REACH + p;
                uint32_t row = row0 + in_row, channel = of.h_k == 1 ? row : row / of.h_k;
                size_t y = top + (row - channel * of.h_k) * window.dilation;
                if (i + s * threads < inputs && begin + p < of.l_in && y < of.h_in)
                    value[s] = read_global<U>(from + channel * of.channel_stride + y * of.row_stride + (begin + p));
                in_row += threads / reach;
                p += threads % reach;
                if (p >= reach) {
                    p -= reach;
                    in_row++;
                }
            }
#pragma unroll
            for (uint32_t s = 0; s < STRIP; s++)
                if (i + s * threads < inputs) lds[place[s]] = value[s];
        }
        __syncthreads();
        U *to = dst + (((size_t)line * of.l_out + x) * of.rows + row0) * l_k;
        for (uint32_t y = group; y < places; y += groups) {
            uint32_t row = first_row, k = first_k;
            for (uint32_t j = lane; j < rows * l_k; j += UNFOLD_TILE) {
                to[(size_t)y * of.rows * l_k + j] = lds[row * UNFOLD_REACH + y * stride + k * dilation];
                row += row_step;
                k += k_step;
                if (k >= l_k) {
                    k -= l_k;
                    row++;
                }
            }
        }
        __syncthreads();
    }
}

// The inputs of a row that a tile of places reaches; 0 where tiles gain nothing: by few rows, or by inputs that are no
// neighbours in memory, `apart` elements from one another.
__device__ __forceinline__ uint32_t unfold_reach(size_t numel, size_t rows, size_t l_out, size_t l_k, size_t apart,
                                                 const Window &window) {
    bool tiles = numel <= 0xffffffffu && rows >= UNFOLD_TILE / 2 && apart == 1 && blockDim.x % UNFOLD_TILE == 0 &&
                 window.stride < UNFOLD_REACH && l_k <= UNFOLD_REACH && window.dilation < UNFOLD_REACH;
    if (!tiles || l_out == 0 || l_k == 0) return 0;
    size_t reach = (min_of(l_out, (size_t)UNFOLD_TILE) - 1) * window.stride + (l_k - 1) * window.dilation + 1;
    return reach <= UNFOLD_REACH ? (uint32_t)reach : 0;
}

template <class U>
__device__ __forceinline__ void unfold_1d(size_t windows, size_t l_out, size_t l_k, Window window,
                                          const size_t *__restrict__ info, const U *__restrict__ src,
                                          U *__restrict__ dst) {
    uint32_t reach = unfold_reach(windows, info[1], l_out, l_k, info[5], window);
    if (reach == 0) return unfold_1d_by_windows(windows, l_out, l_k, window, info, src, dst);
    uint32_t c_in = (uint32_t)info[1], lines = (uint32_t)windows / c_in / (uint32_t)l_out;
    Unfolded of = {lines, c_in, 1, 1, (uint32_t)l_out, (uint32_t)l_k, 1, info[2], info[3], info[4], 0};
    unfold_by_tiles(of, reach, window, src, dst);
}

template <class U>
__device__ __forceinline__ void unfold_by_elements(size_t out_h, size_t out_w, size_t h_k, size_t w_k, Window window,
                                                   Layout<4> s, const U *__restrict__ src, U *__restrict__ dst) {
    size_t numel = s.dims[0] * out_h * out_w * s.dims[1] * h_k * w_k;
    bool fits_32 = numel <= 0xffffffffu;
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t rest = i;
        size_t kx = pop_axis(rest, w_k, fits_32), ky = h_k == 1 ? 0 : pop_axis(rest, h_k, fits_32);
        size_t ci = pop_axis(rest, s.dims[1], fits_32);
        size_t x = pop_axis(rest, out_w, fits_32), y = out_h == 1 ? 0 : pop_axis(rest, out_h, fits_32);
        size_t sy = y * window.stride + ky * window.dilation - window.padding_y;
        size_t sx = x * window.stride + kx * window.dilation - window.padding;
        U value = {};
        if (sy < s.dims[2] && sx < s.dims[3])
            value = src[rest * s.strides[0] + ci * s.strides[1] + sy * s.strides[2] + sx * s.strides[3]];
        dst[i] = value;
    }
}

// dst (batch, out_h, out_w, c_in, h_k, w_k): for each output place the inputs under the window, zero in the padding.
// Moves bits.
template <class U>
__device__ __forceinline__ void unfold(size_t out_h, size_t out_w, size_t h_k, size_t w_k, Window window, Layout<4> s,
                                       const U *__restrict__ src, U *__restrict__ dst) {
    size_t rows = s.dims[1] * h_k, lines = s.dims[0] * out_h;
    uint32_t reach = unfold_reach(lines * out_w * rows * w_k, rows, out_w, w_k, s.strides[3], window);
    if (reach == 0) return unfold_by_elements(out_h, out_w, h_k, w_k, window, s, src, dst);
    Unfolded of = {(uint32_t)lines, (uint32_t)rows, (uint32_t)out_h, (uint32_t)h_k, (uint32_t)out_w, (uint32_t)w_k,
                   s.dims[2],       s.dims[3],      s.strides[0],    s.strides[1],  s.strides[2]};
    unfold_by_tiles(of, reach, window, src, dst);
}

// src (batch, l_in, c_out, k_size), contiguous, to dst (batch, c_out, l_out): each output adds up the
// products that fall on it.
template <class T>
__device__ __forceinline__ void fold_1d(size_t numel, size_t l_out, size_t l_in, size_t c_out, size_t k_size,
                                        size_t stride, const T *__restrict__ src, T *__restrict__ dst) {
    bool fits_32 = numel <= 0xffffffffu;
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t rest = i;
        size_t at = pop_axis(rest, l_out, fits_32), c = pop_axis(rest, c_out, fits_32), batch = rest;
        // The inputs l with l * stride <= at < l * stride + k_size.
        size_t first = at < k_size ? 0 : divide(at - k_size, stride, fits_32) + 1;
        size_t last = min_of(divide(at, stride, fits_32), l_in - 1);
        compute_t<T> sum = 0;
        for (size_t l = first; l <= last; l++)
            sum += upcast(src[((batch * l_in + l) * c_out + c) * k_size + (at - l * stride)]);
        dst[i] = round_to<T>(sum);
    }
}
