//! Small products of every type by our kernels against f64, on every embedded architecture that the emulator knows.

use candle_rocm_gpu_mm::{problems, products};
use candle_rocm_runtime::{runtime, Context, RuntimeKind};
use candle_rocm_testing::needs;

#[test]
fn small_products_are_right() {
    let archs = needs::architectures(candle_rocm_kernels::serves);
    std::env::set_var(rocm_emulator::hip::ARCH_VARIABLE, archs.join(","));
    runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    for (ordinal, arch) in archs.iter().enumerate() {
        let context = Context::new(ordinal).expect("a GPU for each architecture");
        assert_eq!(context.info().arch, *arch);
        let stream = context.default_stream();
        let mut types = 0;
        for problem in problems::small() {
            let measure = products::Measure {
                times: false,
                every_plan: false,
            };
            let measured = products::measure(&stream, &problem, Err("none is asked"), measure);
            let Some(outcome) = measured.unwrap_or_else(|e| panic!("{arch}: {problem:?}: {e:#}"))
            else {
                continue;
            };
            let most = products::tolerance(problem.dtype, problem.k);
            let name = format!("{arch}: {problem:?} by {}", outcome.kernel);
            assert!(
                outcome.own_error <= most,
                "{name}: {}, not {most}",
                outcome.own_error
            );
            assert!(outcome.own_us.is_none() && outcome.library_us.is_none());
            types += 1;
        }
        assert_eq!(
            types,
            problems::small().len(),
            "{arch} multiplies every type"
        );
    }
}
