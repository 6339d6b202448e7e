//! Types under cuDNN's own names.
#![allow(missing_docs, non_camel_case_types, clippy::upper_case_acronyms)]

/// Declares enumerations of C by their names and numbers.
macro_rules! enumerations {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($variant = $number,)*
        }
    )*};
}

enumerations! {
    /// Element types.
    cudnnDataType_t {
        CUDNN_DATA_FLOAT = 0,
        CUDNN_DATA_DOUBLE = 1,
        CUDNN_DATA_HALF = 2,
        CUDNN_DATA_INT8 = 3,
        CUDNN_DATA_INT32 = 4,
        CUDNN_DATA_UINT8 = 6,
        CUDNN_DATA_BFLOAT16 = 9,
        CUDNN_DATA_INT64 = 10,
        CUDNN_DATA_BOOLEAN = 11,
    }
    /// Orders of memory.
    cudnnTensorFormat_t {
        CUDNN_TENSOR_NCHW = 0,
        CUDNN_TENSOR_NHWC = 1,
        CUDNN_TENSOR_NCHW_VECT_C = 2,
    }
    /// Whether taps are turned round.
    cudnnConvolutionMode_t {
        CUDNN_CONVOLUTION = 0,
        CUDNN_CROSS_CORRELATION = 1,
    }
    /// How products are computed; here always by f32 or wider sums.
    cudnnMathType_t {
        CUDNN_DEFAULT_MATH = 0,
        CUDNN_TENSOR_OP_MATH = 1,
        CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
        CUDNN_FMA_MATH = 3,
    }
    /// Algorithms of convolutions.
    cudnnConvolutionFwdAlgo_t {
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
        CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
        CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
        CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
        CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
        CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8,
    }
    /// Algorithms of gradients of the data.
    cudnnConvolutionBwdDataAlgo_t {
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6,
    }
    /// Algorithms of gradients of the weights.
    cudnnConvolutionBwdFilterAlgo_t {
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7,
    }
    /// Functions of elements.
    cudnnActivationMode_t {
        CUDNN_ACTIVATION_SIGMOID = 0,
        CUDNN_ACTIVATION_RELU = 1,
        CUDNN_ACTIVATION_TANH = 2,
        CUDNN_ACTIVATION_CLIPPED_RELU = 3,
        CUDNN_ACTIVATION_ELU = 4,
        CUDNN_ACTIVATION_IDENTITY = 5,
        CUDNN_ACTIVATION_SWISH = 6,
    }
    /// What becomes of NaN.
    cudnnNanPropagation_t {
        CUDNN_NOT_PROPAGATE_NAN = 0,
        CUDNN_PROPAGATE_NAN = 1,
    }
    /// What is made of a window.
    cudnnPoolingMode_t {
        CUDNN_POOLING_MAX = 0,
        CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
        CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
        CUDNN_POOLING_MAX_DETERMINISTIC = 3,
    }
    /// What elements are reduced to.
    cudnnReduceTensorOp_t {
        CUDNN_REDUCE_TENSOR_ADD = 0,
        CUDNN_REDUCE_TENSOR_MUL = 1,
        CUDNN_REDUCE_TENSOR_MIN = 2,
        CUDNN_REDUCE_TENSOR_MAX = 3,
        CUDNN_REDUCE_TENSOR_AMAX = 4,
        CUDNN_REDUCE_TENSOR_AVG = 5,
        CUDNN_REDUCE_TENSOR_NORM1 = 6,
        CUDNN_REDUCE_TENSOR_NORM2 = 7,
        CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS = 8,
    }
    /// Whether a reduction says where extrema are.
    cudnnReduceTensorIndices_t {
        CUDNN_REDUCE_TENSOR_NO_INDICES = 0,
        CUDNN_REDUCE_TENSOR_FLATTENED_INDICES = 1,
    }
    /// The type of those places; here always of 32 bits.
    cudnnIndicesType_t {
        CUDNN_32BIT_INDICES = 0,
        CUDNN_64BIT_INDICES = 1,
        CUDNN_16BIT_INDICES = 2,
        CUDNN_8BIT_INDICES = 3,
    }
    /// How softmax is computed: here always with the largest subtracted.
    cudnnSoftmaxAlgorithm_t {
        CUDNN_SOFTMAX_FAST = 0,
        CUDNN_SOFTMAX_ACCURATE = 1,
        CUDNN_SOFTMAX_LOG = 2,
    }
    /// What softmax goes over: all of an image, or the channels of each place.
    cudnnSoftmaxMode_t {
        CUDNN_SOFTMAX_MODE_INSTANCE = 0,
        CUDNN_SOFTMAX_MODE_CHANNEL = 1,
    }
}
