//! What the driver says of a machine's GPUs.

use std::fs;

use rocm_toolchain::topology;

/// A root folder in which amdgpu lists a CPU and these GPUs' versions.
fn machine(versions: &[u32]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (number, version) in [0].iter().chain(versions).enumerate() {
        let node = root.path().join(topology::NODES).join(number.to_string());
        fs::create_dir_all(&node).unwrap();
        let properties = format!(
            "cpu_cores_count 0\nsimd_count 192\nsimd_per_cu 2\ngfx_target_version {version}\ndrm_render_minor 128\n"
        );
        fs::write(node.join("properties"), properties).unwrap();
        fs::write(node.join("name"), "navi31\n").unwrap();
    }
    root
}

#[test]
fn the_driver_lists_gpus() {
    let gpus = topology::gpus(machine(&[110_000, 90_402]).path()).unwrap();
    assert_eq!(gpus.len(), 2);
    let navi31 = topology::Node {
        number: 1,
        processor: "gfx1100".into(),
        name: "navi31".into(),
        compute_units: 96,
        render_minor: 128,
        pci_address: None,
    };
    assert_eq!(gpus[0], navi31);
    assert_eq!(gpus[1].processor, "gfx942");
    let root = machine(&[110_000]);
    let file = root.path().join(topology::NODES).join("1/properties");
    let properties = fs::read_to_string(&file).unwrap() + "location_id 768\ndomain 1\n";
    fs::write(file, properties).unwrap();
    assert_eq!(
        topology::gpus(root.path()).unwrap()[0].pci_address,
        Some(topology::pci_address(1, 3, 0))
    );
    let missing = topology::gpus(tempfile::tempdir().unwrap().path()).unwrap_err();
    assert!(missing.to_string().contains("sys/class/kfd"), "{missing}");
}
