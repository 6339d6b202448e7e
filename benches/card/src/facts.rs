//! The card and the machine, as they are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use candle_core::Device;
use candle_rocm_backend::doctor::{self, State as Health};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_card_record::{Item, State};
use rocm_toolchain::topology;

use crate::gpu::gib;
use crate::job::Job;

/// What is looked at; of a GPU where there is one.
pub fn jobs(device: Option<&Device>) -> Vec<Job<'_>> {
    let root = Path::new("/");
    let mut jobs = vec![Job::new("card", move || card(device))];
    jobs.push(Job::new("doctor", || Ok(examined())));
    jobs.push(Job::new("machine", move || Ok(machine(root))));
    let folder = device.and_then(|device| folder(root, device));
    if let Some(folder) = folder {
        for (name, files) in FILES {
            let folder = folder.clone();
            jobs.push(Job::new(*name, move || Ok(files_of(&folder, name, files))));
        }
    }
    jobs
}

fn card(device: Option<&Device>) -> Result<Item> {
    let Some(device) = device else {
        return Ok(Item::new(
            "card",
            State::Wrong,
            "no GPU could be opened; doctor says why",
        ));
    };
    let gpu = device.as_rocm_device()?;
    let info = gpu.info();
    let stream = gpu.cuda_stream();
    let runtime = stream.context().device().runtime();
    let (free, total) = gpu.memory()?;
    let release = runtime.release();
    let release = release
        .map(|release| format!(" {release}"))
        .unwrap_or_default();
    let line = format!(
        "{} ({}), {} compute units, wavefronts of {}, {:.1} of {:.1} GiB free; {}{release} at {}",
        info.name,
        info.arch_full,
        info.compute_units,
        info.wavefront_size,
        gib(free),
        gib(total),
        runtime.kind(),
        runtime.library()
    );
    Ok(Item::new("card", State::Ok, line)
        .with("name", info.name)
        .with("arch", info.arch)
        .with("arch_full", info.arch_full)
        .with("compute_units", info.compute_units)
        .with("wavefront", info.wavefront_size)
        .with("memory", total as u64)
        .with("free", free as u64)
        .with("runtime", runtime.kind().to_string())
        .with("library", runtime.library())
        .with("release", release.trim()))
}

/// What `cargo xtask doctor` says of the running program.
fn examined() -> Item {
    let report = doctor::examine();
    let worst = report.findings.iter().map(|finding| finding.state).max();
    let state = match worst {
        Some(Health::Wrong) => State::Wrong,
        Some(Health::Note) => State::Note,
        Some(Health::Good) | None => State::Ok,
    };
    let told: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| Some(finding.state) == worst && state != State::Ok)
        .map(|finding| format!("{}: {}", finding.subject, finding.found))
        .collect();
    let line = match state {
        State::Ok => format!("{} things looked at, all well", report.findings.len()),
        _ => told.join("; "),
    };
    let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    Item::new("doctor", state, line).with("findings", lines)
}

/// Kernel, processor, container.
fn machine(root: &Path) -> Item {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let kernel = read("proc/sys/kernel/osrelease").trim().to_owned();
    let release = read("etc/os-release");
    let system = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or("?", |name| name.trim_matches('"'));
    let cpu = read("proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let cpu = cpu.map_or("?", |name| name.trim_start_matches(['\t', ' ', ':']));
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    let container = container(root);
    let line = format!(
        "Linux {kernel}, {system}, {}, {cpu}, {threads} threads",
        container.as_deref().unwrap_or("no container")
    );
    Item::new("machine", State::Ok, line)
        .with("kernel", kernel)
        .with("system", system)
        .with("cpu", cpu)
        .with("container", container)
}

/// The container that this runs in, by what is known to give it away.
fn container(root: &Path) -> Option<String> {
    let is_there = |file: &str| root.join(file).exists();
    if is_there(".dockerenv") {
        return Some("in Docker".to_owned());
    }
    if is_there("run/.containerenv") {
        return Some("in Podman".to_owned());
    }
    let groups = fs::read_to_string(root.join("proc/1/cgroup")).unwrap_or_default();
    let words = ["docker", "kubepods", "lxc", "containerd"];
    let word = words.into_iter().find(|word| groups.contains(word));
    word.map(|word| format!("in a container ({word})"))
}

/// Items of files below the card's folder in /sys: a name that ends in `*` stands for all that begin so.
const FILES: &[(&str, &[&str])] = &[
    ("firmware", &["vbios_version", "fw_version/*"]),
    (
        "clocks",
        &[
            "pp_dpm_sclk",
            "pp_dpm_mclk",
            "power_dpm_force_performance_level",
            "current_compute_partition",
        ],
    ),
    (
        "power",
        &[
            "hwmon/*/power1_cap",
            "hwmon/*/power1_cap_max",
            "hwmon/*/power1_average",
            "hwmon/*/temp1_input",
        ],
    ),
    (
        "link",
        &[
            "current_link_speed",
            "current_link_width",
            "max_link_speed",
            "max_link_width",
            "mem_info_vram_total",
            "mem_info_gtt_total",
        ],
    ),
];

/// The folder in which amdgpu keeps what it tells of a card.
fn folder(root: &Path, device: &Device) -> Option<PathBuf> {
    let gpu = device.as_rocm_device().ok()?;
    let stream = gpu.cuda_stream();
    let address = stream.context().device().pci_address()?;
    let nodes = topology::gpus(root).ok()?;
    let node = nodes
        .iter()
        .find(|node| node.pci_address == Some(address))?;
    let folder = root.join(format!("sys/class/drm/renderD{}/device", node.render_minor));
    folder.is_dir().then_some(folder)
}

/// The files that a pattern stands for.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for part in pattern.split('/') {
        found = match part {
            "*" => found.iter().flat_map(|folder| entries(folder)).collect(),
            name => found.iter().map(|folder| folder.join(name)).collect(),
        };
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// What is in the files, a line for all: of several lines the one that is marked as current.
fn files_of(folder: &Path, name: &str, patterns: &[&str]) -> Item {
    let mut item = Item::new(name, State::Ok, "");
    let mut told = Vec::new();
    for pattern in patterns {
        for path in matching(folder, pattern) {
            let (Ok(text), Some(file)) = (fs::read_to_string(&path), path.file_name()) else {
                continue;
            };
            let file = file.to_string_lossy().into_owned();
            let text = text.trim();
            let current = text.lines().find(|line| line.ends_with('*'));
            let last = text.lines().last().unwrap_or_default();
            told.push(match current {
                Some(current) => format!("{file} {current} of {last}"),
                None => format!("{file} {text}"),
            });
            item = item.with(&file, text);
        }
    }
    if told.is_empty() {
        return Item::new(
            name,
            State::Note,
            format!("nothing below {}", folder.display()),
        );
    }
    item.line = told.join(", ");
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_told_in_a_line() {
        let root = laid_out(&[
            ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian 12\"\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: AMD EPYC 9654\n",
            ),
            ("proc/1/cgroup", "0::/kubepods/pod1\n"),
        ]);
        let item = machine(root.path());
        assert!(
            item.line.starts_with(
                "Linux 6.1.0-13-amd64, Debian 12, in a container (kubepods), AMD EPYC 9654, "
            ),
            "{}",
            item.line
        );
        assert_eq!(container(laid_out(&[("a", "")]).path()), None);
        assert_eq!(
            container(laid_out(&[(".dockerenv", "")]).path()).as_deref(),
            Some("in Docker")
        );
    }

    #[test]
    fn files_of_the_card_are_read() {
        let root = laid_out(&[
            ("vbios_version", "113-D7020100-102\n"),
            ("fw_version/smc_fw_version", "0x004e7400\n"),
            ("pp_dpm_sclk", "0: 500Mhz *\n1: 2500Mhz\n"),
            ("hwmon/hwmon3/power1_cap", "303000000\n"),
        ]);
        let line = |at: usize| files_of(root.path(), FILES[at].0, FILES[at].1);
        assert_eq!(
            line(0).line,
            "vbios_version 113-D7020100-102, smc_fw_version 0x004e7400"
        );
        assert_eq!(line(1).line, "pp_dpm_sclk 0: 500Mhz * of 1: 2500Mhz");
        assert_eq!(line(2).line, "power1_cap 303000000");
        assert_eq!(line(3).state, State::Note);
    }
}
