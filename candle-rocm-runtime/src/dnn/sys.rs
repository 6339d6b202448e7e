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
}
