//! Features of cudarc that nothing here stands for. Asked for, they fail with a sentence, not inside candle-core.

/// An error of the build for each feature that is on.
macro_rules! absent {
    ($($feature:literal => $library:literal,)*) => { $(
        #[cfg(feature = $feature)]
        compile_error!(concat!(
            "cudarc's feature `", $feature, "` stands for ", $library, ", which candle-rocm has nothing for on AMD GPUs: \
             turn off the feature that asks for it, such as `", $feature, "` of candle-core or of your own package"
        ));
    )* };
}

absent! {
    "cusparse" => "cuSPARSE",
    "cusolver" => "cuSOLVER",
    "cusolvermg" => "cuSOLVERMg",
    "cufile" => "cuFile",
    "cupti" => "CUPTI",
    "cufft" => "cuFFT",
    "cutensor" => "cuTENSOR",
    "f4" => "f4",
}
