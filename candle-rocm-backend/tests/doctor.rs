//! The report on a machine: each kind of trouble, on laid-out folders that stand for `/`, and this machine's own.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{chown, symlink, PermissionsExt as _};
use std::path::{Path, PathBuf};

use candle_rocm_backend::doctor::{self, Embedded, Finding, Gpu, Place, Report, Started, State};
use candle_rocm_backend::RuntimeKind;

/// A machine with one Radeon RX 7900 XTX, on which all is well.
struct Machine {
    root: tempfile::TempDir,
    variables: RefCell<Vec<(&'static str, &'static str)>>,
    started: Result<Started, String>,
    targets: Vec<&'static str>,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            root: tempfile::tempdir().unwrap(),
            variables: RefCell::default(),
            started: Ok(Started {
                kind: RuntimeKind::Amd,
                library: "/opt/rocm/lib/libamdhip64.so.6".into(),
                version: 60_443_483,
                gpus: vec![Ok(Gpu {
                    name: "AMD Radeon RX 7900 XTX".into(),
                    arch: "gfx1100".into(),
                    memory: 24 << 30,
                    pci_address: None,
                    library: Ok("rocBLAS 4.4.0 (/opt/rocm/lib/librocblas.so.4)".into()),
                    graphs: None,
                })],
                nodes: Vec::new(),
            }),
            targets: vec!["gfx11-generic", "gfx942"],
        };
        machine.write("sys/module/amdgpu/version", "6.12.12\n");
        machine.write(
            "sys/class/kfd/kfd/topology/nodes/0/properties",
            "gfx_target_version 0\n",
        );
        let properties =
            "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\ndrm_render_minor 128\n";
        machine.write("sys/class/kfd/kfd/topology/nodes/1/properties", properties);
        machine.write("sys/class/kfd/kfd/topology/nodes/1/name", "navi31\n");
        machine.write("dev/kfd", "");
        machine.write("dev/dri/renderD128", "");
        machine.write("etc/group", "root:x:0:\nrender:x:105:user\n");
        machine.write(
            "proc/self/status",
            "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n",
        );
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, name: &str) {
        let path = self.path(name);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }

    fn set(&self, name: &'static str, value: &'static str) {
        self.variables.borrow_mut().push((name, value));
    }

    fn gpu(&mut self) -> &mut Gpu {
        self.started.as_mut().unwrap().gpus[0].as_mut().unwrap()
    }

    fn report(&self) -> Report {
        let variable = |name: &str| {
            let variables = self.variables.borrow();
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        };
        doctor::examine_at(&Place {
            root: self.root.path(),
            variable: &variable,
            start: &|| self.started.clone(),
            embedded: Embedded {
                targets: self.targets.clone(),
                reason: "for the tests",
            },
            kernel_cache: Some(self.path("home/candle-rocm/kernels")),
            timings: Some(self.path("home/candle-rocm/gemm.tsv")),
        })
    }

    /// The one finding that is wrong.
    fn trouble(&self) -> Finding {
        let report = self.report();
        assert!(!report.is_healthy(), "{report}");
        let mut wrong = report
            .findings
            .iter()
            .filter(|finding| finding.state == State::Wrong);
        let first = wrong.next().unwrap().clone();
        assert_eq!(wrong.next(), None, "{report}");
        first
    }

    #[track_caller]
    fn assert_trouble(&self, subject: &str, found: &str, advice: &str) {
        let trouble = self.trouble();
        assert_eq!(trouble.subject, subject, "{trouble}");
        assert!(trouble.found.contains(found), "{trouble}");
        assert!(trouble.advice.contains(advice), "{trouble}");
    }
}

fn finding<'a>(report: &'a Report, subject: &str) -> &'a Finding {
    let found = report
        .findings
        .iter()
        .find(|finding| finding.subject == subject);
    found.unwrap_or_else(|| panic!("no line on {subject}:\n{report}"))
}

#[test]
fn a_healthy_machine_has_a_line_for_each_thing() {
    let report = Machine::new().report();
    assert!(report.is_healthy(), "{report}");
    assert_eq!(report.runtime, Some(RuntimeKind::Amd));
    for (subject, text) in [
        ("driver", "amdgpu 6.12.12"),
        ("GPU", "node 1: gfx1100 navi31, 96 compute units"),
        ("permission", "/dev/kfd can be opened"),
        ("runtime", "amd 6.4.43483, /opt/rocm/lib/libamdhip64.so.6"),
        ("device", "0: AMD Radeon RX 7900 XTX (gfx1100), 24.0 GiB"),
        ("products", "rocBLAS 4.4.0"),
        ("kernels", "device 0 (gfx1100) runs those for gfx11-generic"),
        ("cache", "not there yet"),
        ("timings", "not there yet"),
    ] {
        let line = finding(&report, subject);
        assert!(
            line.state == State::Good && line.found.contains(text),
            "{line}"
        );
    }
    let text = report.to_string();
    assert!(text.contains("/dev/dri/renderD128 can be opened"), "{text}");
    assert_eq!(text.lines().count(), report.findings.len());
    assert!(
        text.lines().all(|line| line.starts_with("ok    ")),
        "{text}"
    );
}

#[test]
fn no_driver() {
    let mut machine = Machine::new();
    machine.remove("sys");
    machine.remove("dev");
    machine.assert_trouble("driver", "not loaded", "modprobe amdgpu");
    machine.started = Err("AMD's HIP library was not found.\nTried:\n  a: b".into());
    let report = machine.report();
    let line = finding(&report, "runtime");
    assert_eq!(line.state, State::Wrong);
    assert!(
        line.to_string()
            .ends_with("amd: AMD's HIP library was not found.; Tried:; a: b"),
        "{line}"
    );
}

#[test]
fn a_container_without_devices() {
    let machine = Machine::new();
    machine.remove("dev");
    let report = machine.report();
    let driver = finding(&report, "driver");
    assert!(driver.advice.contains("--device=/dev/kfd"), "{driver}");
    let node = finding(&report, "permission");
    assert!(node.found.starts_with("/dev/dri/renderD128"), "{node}");
    assert_eq!([driver.state, node.state], [State::Wrong; 2]);
}

#[test]
fn a_driver_without_gpus() {
    let machine = Machine::new();
    machine.remove("sys/class/kfd/kfd/topology/nodes/1");
    machine.assert_trouble("GPUs", "lists none", "dmesg");
    machine.remove("sys/class");
    machine.assert_trouble("GPUs", "topology/nodes", "/sys");
}

#[test]
fn a_user_outside_the_group() {
    let machine = Machine::new();
    let kfd = machine.path("dev/kfd");
    fs::set_permissions(&kfd, fs::Permissions::from_mode(0o660)).unwrap();
    let gid = fs::metadata(&kfd)
        .map(|file| std::os::unix::fs::MetadataExt::gid(&file))
        .unwrap();
    let status = |uid: u32, group: u32| {
        format!("Uid:\t0\t{uid}\t0\t0\nGid:\t7\t{uid}\t7\t7\nGroups:\t4 {group} 24 \n")
    };
    machine.write("etc/group", &format!("root:x:1:\nrender:x:{gid}:user\n"));
    let other = gid + 1;
    machine.write("proc/self/status", &status(4242, other));
    fs::set_permissions(
        machine.path("dev/dri/renderD128"),
        fs::Permissions::from_mode(0o666),
    )
    .unwrap();
    machine.assert_trouble(
        "permission",
        "/dev/kfd may not be opened by this user, who is not in its group render",
        "usermod -a -G render,video",
    );
    assert!(machine
        .trouble()
        .advice
        .contains(&format!("--group-add {gid}")));
    // A group without a name, as in containers.
    machine.write("etc/group", "");
    machine.assert_trouble("permission", &format!("its group {gid}"), "usermod");
    // The group, and root, may.
    for status in [status(4242, gid), status(0, other)] {
        machine.write("proc/self/status", &status);
        assert!(machine.report().is_healthy(), "{}", machine.report());
    }
}

#[test]
fn a_device_that_its_mode_allows_and_the_system_does_not() {
    let machine = Machine::new();
    // Opening a folder for writing fails for root too.
    machine.remove("dev/kfd");
    fs::create_dir(machine.path("dev/kfd")).unwrap();
    machine.assert_trouble(
        "permission",
        "though its mode allows it",
        "--device=/dev/kfd",
    );
}

#[test]
fn a_gpu_without_kernels() {
    let mut machine = Machine::new();
    machine.targets = vec!["gfx942"];
    machine.assert_trouble(
        "kernels",
        "none for device 0 (gfx1100), only for gfx942 (for the tests)",
        "CANDLE_ROCM_ARCHS=gfx1100",
    );
    machine.targets = vec![];
    machine.assert_trouble("kernels", "CANDLE_ROCM_SKIP_KERNELS=1", "build it without");
    machine.targets = vec!["gfx1100", "gfx11-generic"];
    let report = machine.report();
    let line = finding(&report, "kernels");
    assert!(
        line.found.contains("device 0 runs those for gfx1100,"),
        "{line}"
    );
}

/// A processor's graphics before the card, on another node.
fn with_graphics_first() -> Machine {
    let mut machine = Machine::new();
    let node = |processor: u32, minor: u32, location: u32| {
        format!(
            "simd_count 4\nsimd_per_cu 2\ngfx_target_version {processor}\ndrm_render_minor {minor}\n\
             location_id {location}\n"
        )
    };
    const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
    machine.write(
        &format!("{NODES}/1/properties"),
        &node(110_000, 128, 3 << 8),
    );
    machine.write(
        &format!("{NODES}/2/properties"),
        &node(100_306, 129, 14 << 8),
    );
    machine.write("dev/dri/renderD129", "");
    let started = machine.started.as_mut().unwrap();
    let mut graphics = started.gpus[0].clone().unwrap();
    graphics.name = "AMD Radeon Graphics".into();
    graphics.arch = "gfx1036".into();
    graphics.memory = 512 << 20;
    graphics.pci_address = Some(rocm_toolchain::topology::pci_address(0, 14, 0));
    started.gpus.insert(0, Ok(graphics));
    let card = started.gpus[1].as_mut().unwrap();
    card.pci_address = Some(rocm_toolchain::topology::pci_address(0, 3, 0));
    machine
}

#[test]
fn a_machine_is_as_good_as_its_best_gpu() {
    let machine = with_graphics_first();
    let report = machine.report();
    assert!(report.is_healthy(), "{report}");
    let text = report.to_string();
    let advice = "none for device 0 (gfx1036), only for gfx11-generic, gfx942 (for the tests) -- use GPU 1, AMD \
                  Radeon RX 7900 XTX (gfx1100): HIP_VISIBLE_DEVICES=1 makes it GPU 0";
    assert!(text.contains(advice), "{text}");
    assert!(text.contains("512 MiB") && text.contains("GTT"), "{text}");
    // What the graphics lacks does not matter; what the card lacks does.
    machine.remove("dev/dri/renderD129");
    assert!(machine.report().is_healthy(), "{}", machine.report());
    machine.remove("dev/dri/renderD128");
    machine.assert_trouble("permission", "renderD128", "--device=/dev/dri");
}

#[test]
fn hidden_gpus_and_variables_are_named() {
    let mut machine = with_graphics_first();
    machine.started.as_mut().unwrap().gpus.pop();
    machine.set("HIP_VISIBLE_DEVICES", "0");
    machine.assert_trouble(
        "kernels",
        "none for device 0 (gfx1036)",
        "unset HIP_VISIBLE_DEVICES: it hides gfx1100 (the driver's node 1)",
    );
    let text = machine.report().to_string();
    assert!(text.contains("node 1 (gfx1100) is hidden"), "{text}");
    assert_eq!(
        finding(&machine.report(), "variables").found,
        "HIP_VISIBLE_DEVICES=0"
    );
}

#[test]
fn an_overridden_gpu_has_both_names() {
    let mut machine = Machine::new();
    machine.gpu().arch = "gfx900".into();
    machine.set("HSA_OVERRIDE_GFX_VERSION", "9.0.0");
    machine.assert_trouble(
        "kernels",
        "none for device 0 (gfx900)",
        "unset HSA_OVERRIDE_GFX_VERSION",
    );
    let report = machine.report();
    let device = finding(&report, "device");
    assert!(
        device
            .found
            .contains("(gfx1100, which passes for gfx900 by HSA_OVERRIDE_GFX_VERSION=9.0.0)"),
        "{device}"
    );
}

#[test]
fn no_library_of_products() {
    let mut machine = Machine::new();
    machine.gpu().library = Err("rocBLAS was not found".into());
    let report = machine.report();
    assert!(report.is_healthy(), "{report}");
    assert_eq!(finding(&report, "products").state, State::Note);
    machine.set("CANDLE_ROCM_GEMM", "library");
    machine.assert_trouble("products", "rocBLAS was not found", "CANDLE_ROCM_GEMM=own");
}

#[test]
fn a_device_that_cannot_be_described() {
    let mut machine = Machine::new();
    machine.started.as_mut().unwrap().gpus[0] = Err("hipErrorOutOfMemory".into());
    machine.assert_trouble("device", "0: hipErrorOutOfMemory", "");
}

#[test]
fn caches_that_cannot_be_written() {
    let machine = Machine::new();
    machine.write("home", "a file where a folder should be");
    let report = machine.report();
    assert!(report.is_healthy(), "{report}");
    for subject in ["cache", "timings"] {
        let line = finding(&report, subject);
        assert!(
            line.state == State::Note && line.found.contains("cannot be written"),
            "{line}"
        );
    }
    machine.remove("home");
    machine.write("home/candle-rocm/kernels/fill.hsaco.zst", "12345");
    machine.write("home/candle-rocm/gemm.tsv", "123");
    let report = machine.report();
    assert!(
        finding(&report, "cache").found.contains("1 files, 0.0 MiB"),
        "{report}"
    );
    assert!(
        finding(&report, "timings").found.contains("3 bytes"),
        "{report}"
    );
    // Looking leaves nothing behind.
    assert_eq!(
        fs::read_dir(machine.path("home/candle-rocm/kernels"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn a_release_that_is_too_old_for_the_card() {
    let mut machine = Machine::new();
    machine.targets = vec!["gfx12-generic", "gfx11-generic"];
    machine.write(
        "sys/class/kfd/kfd/topology/nodes/1/properties",
        "simd_count 128\nsimd_per_cu 2\ngfx_target_version 120001\ndrm_render_minor 128\n",
    );
    machine.gpu().arch = "gfx1201".into();
    machine.started.as_mut().unwrap().version = 60_342_131;
    machine.assert_trouble("release", "0: gfx1201 needs ROCm 6.4 or later", "");
    let text = machine.trouble().found;
    assert!(text.contains("this is HIP 6.3.42131"), "{text}");
    for version in [60_443_483, 71_700_000, 0] {
        machine.started.as_mut().unwrap().version = version;
        assert!(machine.report().is_healthy(), "{version}");
    }
}

#[test]
fn graphs_that_were_tried_have_a_line() {
    let mut machine = Machine::new();
    assert!(!machine.report().to_string().contains("graphs"));
    machine.gpu().graphs = Some(Ok(()));
    let line = finding(&machine.report(), "graphs").clone();
    assert_eq!(line.state, State::Good);
    machine.gpu().graphs = Some(Err("graphs are off on GPU 0".into()));
    let line = finding(&machine.report(), "graphs").clone();
    assert_eq!(
        (line.state, &*line.found),
        (State::Note, "graphs are off on GPU 0")
    );
    assert!(machine.report().is_healthy());
}

#[test]
fn the_report_is_json_for_programs() {
    let mut machine = Machine::new();
    machine.targets = vec!["gfx942"];
    let report: serde_json::Value = serde_json::from_str(&machine.report().to_json()).unwrap();
    assert_eq!(report["runtime"], "amd");
    assert_eq!(report["healthy"], false);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), machine.report().findings.len());
    let wrong = findings
        .iter()
        .find(|finding| finding["state"] == "wrong")
        .unwrap();
    assert_eq!(wrong["subject"], "kernels");
    for (key, text) in [
        ("found", "only for gfx942"),
        ("advice", "CANDLE_ROCM_ARCHS=gfx1100"),
    ] {
        assert!(wrong[key].as_str().unwrap().contains(text), "{wrong}");
    }
}

#[test]
fn other_runtimes_need_other_things() {
    let mut machine = Machine::new();
    machine.remove("sys");
    machine.remove("dev");
    machine.started = Err("NVIDIA's driver was not found".into());
    machine.set("CANDLE_ROCM_RUNTIME", "nvidia");
    let report = machine.report();
    assert_eq!(report.runtime, Some(RuntimeKind::Nvidia));
    let driver = finding(&report, "driver");
    assert!(
        driver.state == State::Wrong && driver.advice.contains("nvidia-smi"),
        "{driver}"
    );
    assert!(!report.to_string().contains("amdgpu"), "{report}");

    machine.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08\nGCC\n",
    );
    let report = machine.report();
    assert!(
        finding(&report, "driver").advice.contains("--gpus all"),
        "{report}"
    );
    machine.write("dev/nvidiactl", "");
    let report = machine.report();
    assert_eq!(
        finding(&report, "driver").found,
        "NVIDIA UNIX x86_64 Kernel Module  575.57.08"
    );

    machine.variables.borrow_mut().clear();
    machine.set("CANDLE_ROCM_RUNTIME", "metal");
    assert_eq!(machine.report().runtime, None);
    machine.assert_trouble("runtime", "the runtimes are amd, emulator and nvidia", "");
}

#[test]
fn the_emulator_needs_no_machine() {
    let mut machine = Machine::new();
    machine.remove("sys");
    machine.remove("dev");
    let started = machine.started.as_mut().unwrap();
    (started.kind, started.library) = (RuntimeKind::Emulator, "rocm-emulator".into());
    machine.gpu().library = Err("the emulated GPU has none".into());
    let report = machine.report();
    assert!(report.is_healthy(), "{report}");
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.state == State::Good),
        "{report}"
    );
}

#[test]
fn dangling_links_and_foreign_files_are_no_panic() {
    let machine = Machine::new();
    machine.write(
        "sys/class/kfd/kfd/topology/nodes/1/properties",
        "\u{0}\u{1} nonsense\n\n",
    );
    machine.remove("dev/kfd");
    symlink("nowhere", machine.path("dev/kfd")).unwrap();
    assert!(!machine.report().is_healthy());
    // Nobody but root may give files away; where that is not us there is nothing to try.
    let _ = chown(machine.path("dev/dri/renderD128"), Some(1), Some(1));
    assert!(!machine.report().is_healthy());
}

/// This machine, whatever it has: the emulator runs everywhere.
#[test]
fn this_machine_with_the_emulator() {
    if std::env::var("CANDLE_ROCM_RUNTIME").as_deref() != Ok("emulator") {
        // SAFETY: Rust's own functions read the environment, behind a lock; no test of this program calls C's.
        unsafe { std::env::set_var("CANDLE_ROCM_RUNTIME", "emulator") };
    }
    let place = Place::here();
    assert_eq!(place.root, Path::new("/"));
    let report = doctor::examine_at(&place);
    assert_eq!(report.runtime, Some(RuntimeKind::Emulator));
    assert!(
        finding(&report, "runtime").found.contains("rocm-emulator"),
        "{report}"
    );
    let kernels = finding(&report, "kernels");
    assert_eq!(
        kernels.state == State::Wrong,
        candle_rocm_kernels::architectures().is_empty(),
        "{report}"
    );
}
