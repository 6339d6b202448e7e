//! The driver and the GPUs that it lists.

use std::fs;

use rocm_toolchain::topology::{self, Node};

use super::place::Place;
use super::report::Finding;

/// amdgpu and its GPUs.
pub(super) fn amd(place: &Place<'_>, findings: &mut Vec<Finding>) -> Vec<Node> {
    let module = place.root.join("sys/module/amdgpu");
    let loaded = module.is_dir();
    let device = place.root.join("dev/kfd").exists();
    // The driver in the kernel's own tree has no version but the kernel's.
    let version = fs::read_to_string(module.join("version")).map_or_else(
        |_| "of the kernel's own".to_string(),
        |text| text.trim().to_string(),
    );
    findings.push(match (loaded, device) {
        (true, true) => Finding::good("driver", format!("amdgpu {version}, /dev/kfd")),
        (true, false) => Finding::wrong(
            "driver",
            format!("amdgpu {version} is loaded, and there is no /dev/kfd"),
            "in a container: start it with --device=/dev/kfd --device=/dev/dri; else the kernel was built without \
             HSA_AMD, or the GPU does not support it",
        ),
        (false, true) => Finding::note(
            "driver",
            "/dev/kfd, and no /sys/module/amdgpu",
            "as in containers without /sys; its version is not known",
        ),
        (false, false) => Finding::wrong(
            "driver",
            "amdgpu is not loaded: no /sys/module/amdgpu, no /dev/kfd",
            format!(
                "modprobe amdgpu, or install AMD's driver; without a GPU, {}=emulator",
                candle_rocm_runtime::variables::RUNTIME.name
            ),
        ),
    });
    let gpus = match topology::gpus(place.root) {
        Ok(gpus) => gpus,
        Err(error) => {
            findings.push(match loaded || device {
                true => Finding::wrong("GPUs", error.to_string(), "in a container: give it /sys"),
                // The line above says it all.
                false => Finding::note("GPUs", "none, without the driver", ""),
            });
            return vec![];
        }
    };
    if gpus.is_empty() {
        findings.push(Finding::wrong(
            "GPUs",
            format!("the driver lists none under /{}", topology::NODES),
            "dmesg | grep amdgpu tells why; in a container: give it /dev/dri",
        ));
    }
    for gpu in &gpus {
        findings.push(Finding::good(
            "GPU",
            format!(
                "node {}: {} {}, {} compute units",
                gpu.number, gpu.processor, gpu.name, gpu.compute_units
            ),
        ));
    }
    gpus
}

/// NVIDIA's driver.
pub(super) fn nvidia(place: &Place<'_>, findings: &mut Vec<Finding>) {
    let version = fs::read_to_string(place.root.join("proc/driver/nvidia/version"));
    let device = place.root.join("dev/nvidiactl").exists();
    findings.push(match (version, device) {
        (Ok(text), true) => {
            let line = text.lines().next().unwrap_or_default();
            Finding::good("driver", line.trim_start_matches("NVRM version:").trim())
        }
        (Ok(_), false) => Finding::wrong(
            "driver",
            "NVIDIA's driver is loaded, and there is no /dev/nvidiactl",
            "in a container: start it with --gpus all; else run nvidia-smi once as root",
        ),
        (Err(_), _) => Finding::wrong(
            "driver",
            "NVIDIA's driver is not loaded: no /proc/driver/nvidia/version",
            "install it, and see that nvidia-smi lists the GPU",
        ),
    });
}
