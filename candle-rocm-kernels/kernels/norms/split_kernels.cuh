// Kernels of rows that two others replace where rows are few and long, so that several workgroups share each row: the
// build makes the table of this list that candle_rocm_kernels::split_rows reads.
//
//   ROW(module, kernel, pointers, numbers, first, its arguments, second, its arguments)
//   FOLD(module, kernel, numbers, first, its arguments, second, its arguments)
//
// <kernel>_<type> is replaced by <first>_<type> and <second>_<type>: ROW's are in module fused_operators and read their
// rows twice, FOLD's (long_fold.cuh) in reduce and read them once. What a split of a row leaves for the second kernel
// is so many numbers; of a FOLD, for each output that a workgroup makes. `pointers` are those arguments of the replaced
// kernel that the pair reads or writes in vectors, if all are at multiples of 16 bytes.
//
// An argument of the pair is one of the replaced kernel's, by its number, or one of these; no commas are between them.
//
//   partial   a pointer to what splits leave
//   splits    the number of a row's splits, u32
//   wide      u32, 1 where rows and pointers allow vectors of 16 bytes, else 0: both kernels must cut rows alike
//   one       a factor of logits that changes nothing, f64
//   null      a null pointer
//
// Masked kernels see by themselves, both alike, whether the mask can be read in vectors.
#pragma once

#define FOR_SPLIT_KERNELS(ROW, FOLD)                                                                                  \
    FOLD(reduce, fast_sum, 1, long_sum_splits, 1 2 3 4 partial, long_sum_finish, 1 2 3 4 5 partial)                   \
    FOLD(reduce, fast_min, 2, long_min_splits, 1 2 3 4 partial, long_min_finish, 1 2 3 4 5 partial)                   \
    FOLD(reduce, fast_max, 2, long_max_splits, 1 2 3 4 partial, long_max_finish, 1 2 3 4 5 partial)                   \
    FOLD(reduce, fast_argmin, 2, long_min_splits, 1 2 3 4 partial, long_argmin_finish, 1 2 3 4 5 partial)             \
    FOLD(reduce, fast_argmax, 2, long_max_splits, 1 2 3 4 partial, long_argmax_finish, 1 2 3 4 5 partial)             \
    ROW(reduce, softmax, 0 1, 2, long_softmax_splits, 0 partial 2 splits one wide, long_softmax_finish,               \
        0 partial 1 2 splits one wide)                                                                                \
    ROW(reduce, rmsnorm, 0 1 2, 2, long_rmsnorm_splits, 0 partial 3 splits wide, long_rmsnorm_finish,                 \
        0 partial 1 2 null 3 splits 5 wide)                                                                           \
    ROW(reduce, layernorm, 0 1 2 3, 2, long_layernorm_splits, 0 partial 4 splits wide, long_layernorm_finish,         \
        0 partial 1 2 3 4 splits 6 wide)                                                                              \
    ROW(fused_operators, log_softmax, 0 1, 2, long_softmax_splits, 0 partial 2 splits one wide,                       \
        long_log_softmax_finish, 0 partial 1 2 splits one wide)                                                       \
    ROW(fused_operators, scaled_softmax, 0 1, 2, long_softmax_splits, 0 partial 2 splits 3 wide, long_softmax_finish, \
        0 partial 1 2 splits 3 wide)                                                                                  \
    ROW(fused_operators, masked_softmax, 0 1, 2, long_masked_softmax_splits, 0 partial 2 splits 3 wide 4 5 6 7 8 9,   \
        long_masked_softmax_finish, 0 partial 1 2 splits 3 wide 4 5 6 7 8 9)                                          \
    ROW(fused_operators, flagged_softmax, 0 1, 2, long_flagged_softmax_splits, 0 partial 2 splits 3 wide 4 5 6 7 8 9, \
        long_flagged_softmax_finish, 0 partial 1 2 splits 3 wide 4 5 6 7 8 9)                                         \
    ROW(fused_operators, add_rmsnorm, 0 1 2 3 4, 2, long_add_rmsnorm_splits, 0 1 2 partial 5 splits wide,             \
        long_rmsnorm_finish, 2 partial 3 4 null 5 splits 6 wide)                                                      \
    ROW(fused_operators, add_layernorm, 0 1 2 3 4 5, 2, long_add_layernorm_splits, 0 1 2 partial 6 splits wide,       \
        long_layernorm_finish, 2 partial 3 4 5 6 splits 7 wide)                                                       \
    ROW(fused_operators, backward_softmax, 0 1 2, 1, long_backward_softmax_splits, 0 1 partial 3 splits wide,         \
        long_backward_softmax_finish, 0 1 partial 2 3 splits 4 wide)                                                  \
    ROW(fused_operators, backward_log_softmax, 0 1 2, 1, long_backward_log_softmax_splits, 0 1 partial 3 splits wide, \
        long_backward_log_softmax_finish, 0 1 partial 2 3 splits one wide)                                            \
    ROW(fused_operators, backward_rmsnorm, 0 1 2 3, 4, long_backward_rmsnorm_splits, 0 1 2 partial 5 splits wide,     \
        long_backward_rmsnorm_finish, 0 1 2 partial 3 4 5 splits 6 wide)                                              \
    ROW(fused_operators, backward_layernorm, 0 1 2 3, 4, long_backward_layernorm_splits, 0 1 2 partial 5 splits wide, \
        long_backward_layernorm_finish, 0 1 2 partial 3 4 5 splits 6 wide)
