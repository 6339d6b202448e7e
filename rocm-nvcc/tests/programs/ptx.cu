// Inline PTX.
#include "program.cuh"

PROGRAM(ptx_arithmetic) {
    asm("add.u32 %0, %1, %2;" : "=r"(out[0]) : "r"(in[0]), "r"(in[1]));
    asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(out[1]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(out[2]) : "r"(in[0]), "r"(in[1]));
    unsigned long long wide;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(wide) : "r"(in[0]), "r"(in[1]));
    out[3] = (uint32_t)(wide >> 32);
}
PROGRAM(ptx_floats) {
    float a = __uint_as_float(in[0]), b = __uint_as_float(in[1]), c = __uint_as_float(in[2]), r;
    asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
    out[0] = word(r);
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    out[1] = word(r);
    asm("add.rn.ftz.f32 %0, %1, 0f3F800000;" : "=f"(r) : "f"((float)(in[3] % 100)));
    out[2] = word(r);
    asm("neg.f32 %0, %1;" : "=f"(r) : "f"(a));
    out[3] = word(r);
}
PROGRAM(ptx_approximate) {
    float x = (float)(in[0] % 4096) / 512.0f + 0.125f, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(-x));
    out[0] = __float_as_uint(r);
    asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    out[1] = __float_as_uint(r);
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    out[2] = __float_as_uint(r);
    asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    out[3] = __float_as_uint(r);
}
PROGRAM(ptx_half_pairs) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out[0]) : "r"(0x40003c00u), "r"(0x42004000u), "r"(in[0] & 0x3bff3bffu));
    asm("{mul.bf16x2 %0,%1,%2;}\n" : "=r"(out[1]) : "r"(0x40003f80u), "r"(in[1] & 0x3fff3fffu));
    asm("{ .reg .f16 low, high;\n mov.b32 {low, high}, %1;\n add.f16 low, low, high;\n mov.b32 %0, {low, high}; }"
        : "=r"(out[2])
        : "r"(in[2] & 0x3bff3bffu));
}
PROGRAM(ptx_bits) {
    asm("lop3.b32 %0, %1, %2, %3, 0xe2;" : "=r"(out[0]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out[1]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(out[2]) : "r"(in[0]), "r"(in[1] % 40), "r"(in[2] % 40));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(out[3]) : "r"(in[0]), "r"(in[3]), "r"(in[1] % 40), "r"(in[2] % 40));
}
PROGRAM(ptx_signed_fields) {
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(out[0]) : "r"(in[0]), "r"(in[1] % 40), "r"(in[2] % 40));
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(out[1]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
    asm("shr.s32 %0, %1, %2;" : "=r"(out[2]) : "r"(in[0]), "r"(in[1] % 40));
    asm("bfind.u32 %0, %1;" : "=r"(out[3]) : "r"(in[3] >> 8));
}
PROGRAM(ptx_loads) {
    const uint32_t *from = memory + in[0] % 4 * 4;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(out[0]) : "l"(from));
    uint32_t a, b, c, d;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "l"(from));
    out[1] = a ^ b << 1 ^ c << 2 ^ d << 3;
    asm volatile("ld.global.u32 %0, [%1+4];" : "=r"(out[2]) : "l"(from));
    unsigned short half;
    asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(half) : "l"(from) : "memory");
    out[3] = half;
}
PROGRAM(ptx_stores) {
    unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("st.global.u32 [%0], %1;" ::"l"(memory + at % 64), "r"(at % 64 * 3) : "memory");
}
PROGRAM(ptx_shared) {
    __shared__ uint4 shared[96];
    uint32_t address = (uint32_t)__cvta_generic_to_shared(&shared[threadIdx.x]);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(in[0]), "r"(in[1]), "r"(in[2]),
                 "r"(in[3]));
    asm volatile("bar.sync 0;");
    asm volatile("ld.shared.b32 %0, [%1 + 8];"
                 : "=r"(out[0])
                 : "r"((uint32_t)__cvta_generic_to_shared(&shared[threadIdx.x ^ 1])));
    uint64_t wide;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(&shared[threadIdx.x]));
    asm("cvta.shared.u64 %0, %1;" : "=l"(wide) : "l"((uint64_t)address));
    out[1] = ((const uint4 *)wide)->y;
}
PROGRAM(ptx_async_copy) {
    __shared__ uint4 shared[96];
    uint32_t address = (uint32_t)__cvta_generic_to_shared(&shared[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(address), "l"(memory + in[0] % 4 * 4), "n"(16));
    asm volatile("cp.async.commit_group;\n" ::);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(0));
    out[0] = shared[threadIdx.x].x, out[1] = shared[threadIdx.x].w;
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8, %2;" ::"r"(address), "l"(memory + 4),
                 "r"(in[1] & 4));
    asm volatile("cp.async.wait_all;");
    out[2] = shared[threadIdx.x].x, out[3] = shared[threadIdx.x].y;
}
PROGRAM(ptx_predicates) {
    asm("{\n\t.reg .pred p;\n\tsetp.lt.s32 p, %1, %2;\n\tselp.b32 %0, %1, %2, p;\n\t}"
        : "=r"(out[0])
        : "r"(in[0]), "r"(in[1]));
    out[1] = 5;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p|q, %1, 0; @p mov.u32 %0, 7; @!p mov.u32 %0, 9; }"
                 : "+r"(out[1])
                 : "r"(in[2] & 1));
    asm("{ .reg .pred p; setp.gtu.f32 p, %1, %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(out[2])
        : "f"(__uint_as_float(in[0])), "f"(__uint_as_float(in[1])));
}
PROGRAM(ptx_conversions) {
    float x = __uint_as_float(in[0]);
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    out[0] = (half & 0x7fff) > 0x7c00 ? 0x7fff : half;
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(out[1]) : "f"(x));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out[2]) : "f"(1.5f), "f"((float)(in[1] % 2048)));
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(out[3]) : "r"((int)in[2] >> 20));
}
PROGRAM(ptx_special) {
    asm("mov.u32 %0, %%tid.x;" : "=r"(out[0]));
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(out[1]));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(out[2]));
    asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(out[3]));
    asm volatile("membar.gl;" ::: "memory");
    asm volatile("" ::: "memory");
}
PROGRAM(ptx_shuffles) {
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(out[0]) : "r"(in[0]));
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, 2, 0, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(out[1]), "=r"(out[2])
                 : "r"(in[1]));
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x181f, 0xffffffff;" : "=r"(out[3]) : "r"(in[2]), "r"(in[3] % 4));
}
PROGRAM(ptx_votes) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(out[0])
                 : "r"(in[0] & 1));
    asm volatile("activemask.b32 %0;" : "=r"(out[1]));
    asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(out[2]) : "r"(in[2]));
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(out[3]) : "r"(in[3] % 3));
}
PROGRAM(ptx_atomics) {
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(memory), "r"(in[0]) : "memory");
    uint32_t old;
    asm volatile("atom.global.max.s32 %0, [%1+4], %2;" : "=r"(old) : "l"(memory), "r"(in[1]) : "memory");
    asm volatile("atom.add.release.gpu.global.f32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(memory + 2), "f"((float)(in[2] % 16)));
}
PROGRAM(ptx_dot) {
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out[0]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out[1]) : "r"(in[0]), "r"(in[1]), "r"(in[2]));
}
