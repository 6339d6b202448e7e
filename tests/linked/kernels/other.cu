// A second file, with a kernel of the same name, and no header.
static __global__ void add(float *x, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) x[i] += 100.0f;
}

extern "C" int launch_add_hundred(float *x, int count, cudaStream_t stream) {
    void *arguments[] = {&x, &count};
    return cudaLaunchKernel(add, dim3(1), dim3(33), arguments, 0, stream);
}
