// __half, __nv_bfloat16, their pairs, 8-bit floats, functions.
#include "program.cuh"
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math_constants.h>
#ifdef __CUDACC_RTC__
// NVIDIA leaves these out where NVRTC compiles.
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)
#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#endif

__device__ __half half_of(uint32_t bits) { return __ushort_as_half((unsigned short)bits); }
__device__ __nv_bfloat16 bfloat_of(uint32_t bits) { return __ushort_as_bfloat16((unsigned short)bits); }
__device__ uint32_t word(__half x) { return __hisnan(x) ? 0x7fff : __half_as_ushort(x); }
__device__ uint32_t word(__nv_bfloat16 x) { return __hisnan(x) ? 0x7fff : __bfloat16_as_ushort(x); }
__device__ uint32_t word(__half2 x) { return word(x.x) | word(x.y) << 16; }
__device__ uint32_t word(__nv_bfloat162 x) { return word(x.x) | word(x.y) << 16; }

template <class T> __device__ void arithmetic(T a, T b, uint32_t (&out)[4]) {
    out[0] = word(a + b), out[1] = word(a - b), out[2] = word(__hmul(a, b)), out[3] = word(a / b);
}
PROGRAM(half_arithmetic) { arithmetic(half_of(in[0]), half_of(in[1]), out); }
PROGRAM(bfloat_arithmetic) { arithmetic(bfloat_of(in[0]), bfloat_of(in[1]), out); }
template <class T> __device__ void extremes(T a, T b, uint32_t (&out)[4]) {
    out[0] = word(__hmax(a, b)), out[1] = word(__hmin_nan(a, b)), out[2] = word(__habs(a)), out[3] = word(-b);
}
PROGRAM(half_extremes) { extremes(half_of(in[0]), half_of(in[1]), out); }
PROGRAM(bfloat_extremes) { extremes(bfloat_of(in[0]), bfloat_of(in[1]), out); }
template <class T> __device__ void comparisons(T a, T b, uint32_t (&out)[4]) {
    out[0] = __heq(a, b) | (a != b) << 1 | (a < b) << 2 | (a <= b) << 3 | (a > b) << 4 | (a >= b) << 5;
    out[1] = __hequ(a, b) | __hneu(a, b) << 1 | __hltu(a, b) << 2 | __hleu(a, b) << 3 | __hgtu(a, b) << 4 |
             __hgeu(a, b) << 5;
    out[2] = __hisnan(a) | (__hisinf(a) != 0) << 1 | __hne(a, b) << 2;
}
PROGRAM(half_comparisons) { comparisons(half_of(in[0]), half_of(in[1]), out); }
PROGRAM(bfloat_comparisons) { comparisons(bfloat_of(in[0]), bfloat_of(in[1]), out); }
PROGRAM(half_fma) { out[0] = word(__hfma(half_of(in[0]), half_of(in[1]), half_of(in[2]))); }
PROGRAM(half_conversions) {
    float x = __uint_as_float(in[0]);
    out[0] = word(__float2half(x)), out[1] = word(__float2half_rz(x)), out[2] = word(__half2float(half_of(in[1])));
    out[3] = word(__double2half(__hiloint2double((int)in[2], (int)in[3])));
}
PROGRAM(half_integers) {
    out[0] = word(__int2half_rn((int)in[0] >> 12)), out[1] = (uint32_t)__half2int_rn(half_of(in[1]));
    out[2] = (uint32_t)(unsigned char)half_of(in[2]), out[3] = word((__half)(long long)((int)in[3] >> 20));
}
PROGRAM(bfloat_conversions) {
    float x = __uint_as_float(in[0]);
    out[0] = word(__float2bfloat16(x)), out[1] = word(__float2bfloat16_rz(x)),
    out[2] = word(__bfloat162float(bfloat_of(in[1])));
    out[3] = word(__int2bfloat16_rn((int)in[2]));
}
PROGRAM(half_pairs) {
    __half2 a = __halves2half2(half_of(in[0]), half_of(in[0] >> 16)),
            b = __halves2half2(half_of(in[1]), half_of(in[1] >> 16));
    out[0] = word(__hadd2(a, b)), out[1] = word(__hmul2(a, b)), out[2] = word(__lowhigh2highlow(a));
    out[3] = word(__low2float(a)) ^ word(__half22float2(b).y);
}
PROGRAM(bfloat_pairs) {
    __nv_bfloat162 a = __halves2bfloat162(bfloat_of(in[0]), bfloat_of(in[0] >> 16));
    __nv_bfloat162 b = __halves2bfloat162(bfloat_of(in[1]), bfloat_of(in[1] >> 16));
    out[0] = word(__hsub2(a, b)), out[1] = word(a * b), out[2] = __hbeq2(a, a), out[3] = word(__high2bfloat16(b));
}
PROGRAM(half_functions) {
    // Within the functions' domains; within two units of f16's last place, as the test says.
    __half x = __float2half((float)(in[0] % 4096) / 512.0f + 0.125f);
    out[0] = __float_as_uint((float)hexp(__float2half(-(float)x))), out[1] = __float_as_uint((float)hlog(x));
    out[2] = __float_as_uint((float)hsqrt(x)), out[3] = __float_as_uint((float)hrcp(x));
}
PROGRAM(bfloat_functions) {
    __nv_bfloat16 x = __float2bfloat16((float)(in[0] % 4096) / 512.0f + 0.125f);
    out[0] = __float_as_uint((float)hcos(x)), out[1] = __float_as_uint((float)hlog2(x));
    out[2] = __float_as_uint((float)hrsqrt(x)), out[3] = __float_as_uint((float)hfloor(x));
}
PROGRAM(float_functions) {
    float x = (float)(in[0] % 4096) / 512.0f + 0.125f;
    out[0] = __float_as_uint(__expf(-x)), out[1] = __float_as_uint(tanhf(x)), out[2] = __float_as_uint(erff(x));
    out[3] = __float_as_uint(rsqrtf(x));
}
PROGRAM(complex_numbers) {
    // Their parts are small whole numbers, so that sums and products are exact.
    cuFloatComplex a = make_cuFloatComplex((float)(in[0] % 64), -(float)(in[1] % 64));
    cuDoubleComplex b = make_cuDoubleComplex((double)(in[2] % 64) + 1, (double)(in[3] % 64));
    cuFloatComplex narrow = cuComplexDoubleToFloat(b);
    cuFloatComplex sum = cuCfmaf(a, narrow, cuConjf(cuCsubf(cuCaddf(a, a), narrow)));
    cuDoubleComplex quotient = cuCdiv(cuCmul(cuComplexFloatToDouble(a), b), b);
    out[0] = __float_as_uint(cuCrealf(sum)), out[1] = __float_as_uint(cuCimagf(sum));
    out[2] = __float_as_uint((float)(cuCreal(quotient) - 2 * cuCimag(quotient)));
    out[3] = __float_as_uint(cuCabsf(a));
}
PROGRAM(fp8_e4m3) {
    __nv_fp8_e4m3 x(__uint_as_float(in[0]));
    out[0] = x.__x, out[1] = word((float)x);
    __nv_fp8_e4m3 y;
    y.__x = (unsigned char)in[1];
    out[2] = word(__half2float(__nv_cvt_fp8_to_halfraw(y.__x, __NV_E4M3)));
    out[3] = __nv_fp8_e4m3((double)(int)in[2] / 1048576.0).__x;
}
PROGRAM(fp8_e5m2) {
    out[0] = __nv_cvt_float_to_fp8(__uint_as_float(in[0]), __NV_SATFINITE, __NV_E5M2);
    out[1] = word(__half2float(__nv_cvt_fp8_to_halfraw((unsigned char)in[1], __NV_E5M2)));
    out[2] = __nv_cvt_float_to_fp8(__uint_as_float(in[2]), __NV_NOSAT, __NV_E5M2);
}
PROGRAM(constants) {
    out[0] = __float_as_uint(CUDART_INF_F), out[1] = __float_as_uint(CUDART_PI_F);
    out[2] = (uint32_t)__double2hiint(CUDART_INF), out[3] = word(CUDART_ONE_FP16) | word(CUDART_INF_BF16) << 16;
}
