// Fourier transforms, real and complex, of any length: steps in LDS.
//
// Factors are computed from exact fractions of the circle. The host (candle_rocm_backend::ops) plans the steps.
#include "fft/fft.cuh"

ENTRY __launch_bounds__(FFT_THREADS) fft_step_f32(FftProblem problem) { fft_step<float>(problem); }
ENTRY __launch_bounds__(FFT_THREADS) fft_step_f64(FftProblem problem) { fft_step<double>(problem); }
