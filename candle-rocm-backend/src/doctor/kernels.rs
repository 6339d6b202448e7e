//! Which of the program's code objects each GPU runs.

use candle_rocm_runtime::RuntimeKind;

use super::place::{Embedded, Place, Started};
use super::report::Finding;

/// A line for each GPU.
pub(super) fn fit(place: &Place<'_>, started: &Started, findings: &mut Vec<Finding>) {
    let Embedded { targets, reason } = &place.embedded;
    if targets.is_empty() {
        findings.push(Finding::wrong(
            "kernels",
            "this program has none: it was built with CANDLE_ROCM_SKIP_KERNELS=1",
            "build it without that variable",
        ));
        return;
    }
    let all = targets.join(", ");
    for (number, gpu) in started.gpus.iter().enumerate() {
        // The device's line says what is wrong with it.
        let Ok(gpu) = gpu else { continue };
        let arch = gpu.arch.as_str();
        findings.push(if targets.contains(&arch) {
            Finding::good(
                "kernels",
                format!("device {number} runs those for {arch}, of {all} ({reason})"),
            )
        } else if let Some(generic) = candle_rocm_kernels::generic_target(arch, targets) {
            Finding::good(
                "kernels",
                format!("device {number} ({arch}) runs those for {generic}, of {all} ({reason})"),
            )
        } else {
            let architecture = match started.kind {
                RuntimeKind::Nvidia => "the GPU's, such as sm_90",
                _ => arch,
            };
            Finding::wrong(
                "kernels",
                format!("none for device {number} ({arch}), only for {all} ({reason})"),
                format!("build again with CANDLE_ROCM_ARCHS={architecture}"),
            )
        });
    }
}
