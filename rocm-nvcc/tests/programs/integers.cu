// Integer intrinsics, conversions, vectors.
#include "program.cuh"

PROGRAM(count_bits) {
    out[0] = (uint32_t)__clz((int)in[0]), out[1] = (uint32_t)__popc(in[1]), out[2] = (uint32_t)__ffs((int)in[2]);
    out[3] = __brev(in[3]);
}
PROGRAM(count_bits_64) {
    unsigned long long x = (unsigned long long)in[0] << 32 | in[1];
    out[0] = (uint32_t)__clzll((long long)x), out[1] = (uint32_t)__popcll(x), out[2] = (uint32_t)__ffsll((long long)x);
    out[3] = (uint32_t)(__brevll(x) >> 32);
}
PROGRAM(high_products) {
    out[0] = (uint32_t)__mulhi((int)in[0], (int)in[1]), out[1] = __umulhi(in[0], in[1]);
    unsigned long long a = (unsigned long long)in[0] << 32 | in[1], b = (unsigned long long)in[2] << 32 | in[3];
    out[2] = (uint32_t)(__umul64hi(a, b) >> 32), out[3] = (uint32_t)__mul64hi((long long)a, (long long)b);
}
PROGRAM(products_24) { out[0] = (uint32_t)__mul24((int)in[0], (int)in[1]), out[1] = __umul24(in[0], in[1]); }
PROGRAM(averages) {
    out[0] = (uint32_t)__hadd((int)in[0], (int)in[1]), out[1] = __uhadd(in[0], in[1]);
    out[2] = (uint32_t)__rhadd((int)in[0], (int)in[1]), out[3] = __usad(in[0], in[1], in[2]);
}
PROGRAM(funnel_shifts) {
    out[0] = __funnelshift_l(in[0], in[1], in[2]), out[1] = __funnelshift_r(in[0], in[1], in[2]);
    out[2] = __funnelshift_lc(in[0], in[1], in[2] % 40), out[3] = __funnelshift_rc(in[0], in[1], in[2] % 40);
}
PROGRAM(byte_permute) { out[0] = __byte_perm(in[0], in[1], in[2]), out[1] = __byte_perm(in[0], in[1], 0x5140); }
PROGRAM(dot_products) {
    out[0] = (uint32_t)__dp4a((int)in[0], (int)in[1], (int)in[2]), out[1] = __dp4a(in[0], in[1], in[2]);
    out[2] = (uint32_t)__dp2a_lo((int)in[0], (int)in[1], (int)in[2]), out[3] = __dp2a_hi(in[0], in[1], in[2]);
}
PROGRAM(four_bytes) {
    out[0] = __vadd4(in[0], in[1]), out[1] = __vsubss4(in[0], in[1]), out[2] = __vcmpne4(in[0], in[1]);
    out[3] = __vabsdiffu4(in[0], in[1]);
}
PROGRAM(four_bytes_more) {
    out[0] = __vmaxs4(in[0], in[1]), out[1] = __vcmpgtu4(in[0], in[1]), out[2] = __vavgu4(in[0], in[1]);
    out[3] = __vsub4(in[0], in[1]);
}
PROGRAM(two_shorts) {
    out[0] = __vadd2(in[0], in[1]), out[1] = __vaddss2(in[0], in[1]), out[2] = __vminu2(in[0], in[1]);
    out[3] = __vneg2(in[0]);
}
PROGRAM(float_to_integer) {
    float x = __uint_as_float(in[0]);
    out[0] = (uint32_t)__float2int_rn(x), out[1] = __float2uint_rz(x), out[2] = (uint32_t)__float2int_ru(x);
    out[3] = (uint32_t)(__float2ll_rd(x) >> 16);
}
PROGRAM(directed_rounding) {
    double x = __hiloint2double((int)in[0], (int)in[1]);
    out[0] = word(__double2float_rz(x)), out[1] = word(__double2float_ru(x)), out[2] = word(__double2float_rd(x));
    out[3] = word(__int2float_rn((int)in[2]));
}
PROGRAM(fused_and_not) {
    float a = __uint_as_float(in[0]), b = __uint_as_float(in[1]), c = __uint_as_float(in[2]);
    out[0] = word(__fmaf_rn(a, b, c)), out[1] = word(__fadd_rn(__fmul_rn(a, b), c)), out[2] = word(__fdiv_rn(a, b));
    out[3] = word(__fsqrt_rn(a));
}
PROGRAM(minima) {
    out[0] = min(in[0], in[1]), out[1] = (uint32_t)max((int)in[0], (int)in[1]), out[2] = max(in[0], (int)in[1] & 7);
    out[3] = (uint32_t)(min((long long)in[0], (long long)(int)in[1]));
}
PROGRAM(read_only_loads) {
    out[0] = __ldg(memory + in[0] % 4);
    uint4 four = __ldg((const uint4 *)memory);
    out[1] = four.y + four.w;
    float2 two = *(const float2 *)(memory + 2);
    out[2] = __float_as_uint(two.x), out[3] = __ldcs(memory + 5);
}
PROGRAM(vectors) {
    uint3 three = make_uint3(in[0], in[1], in[2]);
    static_assert(sizeof(uint3) == 12 && alignof(float4) == 16 && alignof(double2) == 16 && sizeof(uchar4) == 4,
                  "layout");
    char4 bytes = make_char4((signed char)in[0], (signed char)in[1], (signed char)in[2], (signed char)in[3]);
    out[0] = three.x ^ three.y ^ three.z, out[1] = *(const uint32_t *)&bytes;
    dim3 block = blockDim;
    out[2] = block.x * block.y * block.z, out[3] = gridDim.x;
}
PROGRAM(copies) {
    uint32_t local[4];
    memcpy(local, in, sizeof(local));
    memset(local, 0xab, 4);
    out[0] = local[0], out[1] = local[3];
    out[2] = sizeof(clock64()), out[3] = __isShared(memory);
}
