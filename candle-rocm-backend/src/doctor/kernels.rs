//! Which of the program's code objects each GPU runs.

use candle_rocm_runtime::runtime::machine::Machine;
use candle_rocm_runtime::variables::SKIP_KERNELS;

use super::place::{Embedded, Place, Started};
use super::report::Finding;

/// A line for each GPU. One that runs the kernels is enough; where none does, the last line says what to do.
pub(super) fn fit(
    place: &Place<'_>,
    started: &Started,
    machine: &Machine,
    findings: &mut Vec<Finding>,
) {
    const SUBJECT: &str = "kernels";
    let Embedded { targets, reason } = &place.embedded;
    if targets.is_empty() {
        findings.push(Finding::wrong(
            SUBJECT,
            format!(
                "this program has none: it was built with {}=1",
                SKIP_KERNELS.name
            ),
            "build it without that variable",
        ));
        return;
    }
    let all = targets.join(", ");
    let best = machine.best(targets);
    let mut without = Vec::new();
    for (number, gpu) in started.gpus.iter().enumerate() {
        // The device's line says what is wrong with it.
        let Ok(gpu) = gpu else { continue };
        let arch = gpu.arch.as_str();
        if !machine.works(number, targets) {
            without.push(format!("device {number} ({arch})"));
            continue;
        }
        let found = match candle_rocm_kernels::generic_target(arch, targets) {
            Some(generic) if !targets.contains(&arch) => {
                format!("device {number} ({arch}) runs those for {generic}, of {all} ({reason})")
            }
            _ => format!("device {number} runs those for {arch}, of {all} ({reason})"),
        };
        findings.push(Finding::good(SUBJECT, found));
    }
    if without.is_empty() {
        return;
    }
    let found = format!("none for {}, only for {all} ({reason})", without.join(", "));
    let advice = machine.advice(targets);
    findings.push(match best {
        Some(_) => Finding::note(SUBJECT, found, advice),
        None => Finding::wrong(SUBJECT, found, advice),
    });
}
