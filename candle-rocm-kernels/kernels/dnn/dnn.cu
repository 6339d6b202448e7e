// cuDNN's layers that no other module has: functions of elements, pooling, reductions and softmax of tensors of any
// strides, with alpha and beta.
#include "dnn/elements.cuh"
#include "dnn/rows.cuh"

#define LAYERS(NAME, T)                                                                                \
    ENTRY __launch_bounds__(DNN_THREADS) dnn_activation_##NAME(DnnProblem p) { dnn_activation<T>(p); } \
    ENTRY __launch_bounds__(DNN_THREADS) dnn_pooling_##NAME(DnnPooling p) { dnn_pooling<T>(p); }       \
    ENTRY __launch_bounds__(DNN_THREADS) dnn_reduction_##NAME(DnnProblem p) { dnn_reduction<T>(p); }   \
    ENTRY __launch_bounds__(DNN_THREADS) dnn_softmax_##NAME(DnnProblem p) { dnn_softmax<T>(p); }
FOR_WIDE_FLOATS(LAYERS)
