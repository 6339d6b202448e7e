// Kernels for the runtime's own tests: arguments of every kind, and a few with known results.
#define KERNEL extern "C" __attribute__((global))

static __attribute__((device)) unsigned global_id() {
    return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}

struct Pair {
    int first;
    double second;
};

// Writes each argument's bytes, widened to 8, so that the host can compare them.
KERNEL void every_type(unsigned long long *out, bool a, signed char b, unsigned char c, short d, unsigned short e, int f,
                       unsigned g, long long h, unsigned long long i, float j, double k, _Float16 l, Pair m,
                       unsigned long long null) {
    if (global_id() != 0) return;
    out[0] = a;
    out[1] = (unsigned long long)(long long)b;
    out[2] = c;
    out[3] = (unsigned long long)(long long)d;
    out[4] = e;
    out[5] = (unsigned long long)(long long)f;
    out[6] = g;
    out[7] = (unsigned long long)h;
    out[8] = i;
    out[9] = __builtin_bit_cast(unsigned, j);
    out[10] = __builtin_bit_cast(unsigned long long, k);
    out[11] = __builtin_bit_cast(unsigned short, l);
    out[12] = (unsigned long long)(long long)m.first;
    out[13] = __builtin_bit_cast(unsigned long long, m.second);
    out[14] = null;
}

// y[i] = a * x[i] + y[i]
KERNEL void saxpy(unsigned n, float a, const float *x, float *y) {
    unsigned i = global_id();
    if (i < n) y[i] = a * x[i] + y[i];
}

// x[i] += 1, for n elements
KERNEL void increment(unsigned n, unsigned *x) {
    unsigned i = global_id();
    if (i < n) x[i] += 1;
}

// As increment, with an off-by-one error: element n is touched as well.
KERNEL void increment_too_many(unsigned n, unsigned *x) {
    unsigned i = global_id();
    if (i <= n) x[i] += 1;
}

// Compiled for workgroups of at most 64.
KERNEL __attribute__((amdgpu_flat_work_group_size(1, 64))) void small_groups(unsigned *x) { x[global_id()] = 1; }

__attribute__((device, used)) int answer = 42;
KERNEL void read_answer(int *out) { *out = answer; }

// What the hardware stops.
KERNEL void trap() { __builtin_trap(); }
