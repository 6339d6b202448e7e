//! The build's own parts: the cache of compiled kernels, their names, the choice of architectures, work side by side.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

#[path = "../build/architectures.rs"]
#[allow(dead_code)]
mod architectures;
#[path = "../build/cache.rs"]
#[allow(dead_code)]
mod cache;
#[path = "../build/key.rs"]
#[allow(dead_code)]
mod key;
#[path = "../build/workers.rs"]
#[allow(dead_code)]
mod workers;
use candle_rocm_kernels::{topology, user_cache};

use cache::{Cache, Entry};
use workers::Outcome;

const NO_LIMIT: u64 = u64::MAX;

fn done(outcome: Result<Outcome<Entry>, String>) -> Entry {
    match outcome.unwrap() {
        Outcome::Done(entry) => entry,
        Outcome::Busy => panic!("nobody else is at it"),
    }
}

/// Takes an entry whose content is `content` if it has to be made.
fn take(cache: &Cache, name: &str, content: &[u8]) -> Entry {
    done(cache.get_or_make(name, false, || Ok(content.to_vec())))
}

fn unpacked(entry: &Entry) -> Vec<u8> {
    zstd::decode_all(entry.frame.as_slice()).unwrap()
}

/// The entries' names in a cache's folder.
fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "locks")
        .collect()
}

#[test]
fn an_entry_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into(), NO_LIMIT);
    let first = take(&cache, "fill-gfx1100-0", b"code");
    assert!(first.made);
    assert_eq!((first.raw, unpacked(&first)), (4, b"code".to_vec()));
    // Another build.
    let cache = Cache::new(folder.path().into(), NO_LIMIT);
    let again = take(&cache, "fill-gfx1100-0", b"other");
    assert!(!again.made);
    assert_eq!((again.raw, unpacked(&again)), (4, b"code".to_vec()));
    assert!(take(&cache, "fill-gfx1100-1", b"other").made);
    assert_eq!(cache.troubles(), Vec::<String>::new());
}

#[test]
fn a_failure_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into(), NO_LIMIT);
    let failed = cache.get_or_make("fill", false, || Err("clang failed".into()));
    assert_eq!(failed.err().as_deref(), Some("clang failed"));
    assert!(take(&cache, "fill", b"code").made);
}

#[test]
fn a_damaged_entry_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fill.hsaco.zst");
    let whole = take(
        &Cache::new(folder.path().into(), NO_LIMIT),
        "fill",
        &[7; 4096],
    )
    .frame;
    let mut turned = whole.clone();
    *turned.last_mut().unwrap() ^= 1;
    for damaged in [vec![], whole[..whole.len() / 2].to_vec(), turned] {
        fs::write(&file, damaged).unwrap();
        let cache = Cache::new(folder.path().into(), NO_LIMIT);
        assert!(take(&cache, "fill", &[7; 4096]).made);
        assert!(cache.troubles().iter().all(|line| line.contains("damaged")));
        assert!(!cache.troubles().is_empty());
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn builds_side_by_side_make_an_entry_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = AtomicUsize::new(0);
    let (started, has_started) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let first = Cache::new(folder.path().into(), NO_LIMIT);
        let made = &made;
        scope.spawn(move || {
            done(first.get_or_make("fill", false, || {
                made.fetch_add(1, Ordering::Relaxed);
                started.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(b"code".to_vec())
            }))
        });
        has_started.recv().unwrap();
        let second = Cache::new(folder.path().into(), NO_LIMIT);
        let make = || -> Result<Vec<u8>, String> { panic!("the other build makes it") };
        assert!(matches!(
            second.get_or_make("fill", false, make),
            Ok(Outcome::Busy)
        ));
        let waiting = scope.spawn(move || done(second.get_or_make("fill", true, make)));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        go_on.send(()).unwrap();
        let entry = waiting.join().unwrap();
        assert!(!entry.made);
        assert_eq!(unpacked(&entry), b"code");
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn entries_unused_for_longest_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0u32..4000)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let old = Cache::new(folder.path().into(), NO_LIMIT);
    let size = ["a", "b", "c", "d"].map(|name| take(&old, name, &noise).frame.len() as u64)[0];
    let now = SystemTime::now();
    for (name, hours) in [("a", 40), ("b", 30), ("c", 20), ("d", 10)] {
        let file = File::options()
            .write(true)
            .open(folder.path().join(format!("{name}.hsaco.zst")));
        file.unwrap()
            .set_modified(now - Duration::from_secs(hours * 3600))
            .unwrap();
    }
    // Left by a build that was killed, and by one that is running.
    for (name, hours) in [("x.aside", 48), ("y.aside", 1)] {
        let file = File::create(folder.path().join(name)).unwrap();
        file.set_modified(now - Duration::from_secs(hours * 3600))
            .unwrap();
    }
    // A build that uses the oldest, and one of its own.
    let cache = Cache::new(folder.path().into(), 3 * size);
    assert!(!take(&cache, "a", b"").made);
    assert!(take(&cache, "e", &noise).made);
    assert_eq!(cache.shrink(), Ok(3 * size));
    let left = ["a.hsaco.zst", "d.hsaco.zst", "e.hsaco.zst", "y.aside"].map(str::to_string);
    assert_eq!(names(folder.path()), BTreeSet::from(left));
    // What a build uses stays, whatever the limit.
    let cache = Cache::new(folder.path().into(), 0);
    assert!(!take(&cache, "e", b"").made);
    assert_eq!(cache.shrink(), Ok(size));
    assert!(folder.path().join("e.hsaco.zst").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_left_for_the_target_folder() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let out = place
        .path()
        .join("target/release/build/candle-rocm-kernels-0/out");
    let usual = place.path().join("home/candle-rocm/kernels");

    let chosen = cache::folder(None, Some(usual.clone()), &out);
    assert_eq!(chosen, Ok((usual.clone(), None)));
    let (chosen, note) = cache::folder(None, Some(file.join("kernels")), &out).unwrap();
    assert_eq!(chosen, place.path().join("target/candle-rocm-kernels"));
    assert!(note.unwrap().contains("file/kernels"));
    let (_, note) = cache::folder(None, None, &out).unwrap();
    assert!(note.unwrap().contains("no home"));

    let named = place.path().join("named");
    let chosen = cache::folder(Some(named.clone().into()), Some(usual.clone()), &out);
    assert_eq!(chosen, Ok((named, None)));
    let refused = cache::folder(Some(file.join("x").into()), Some(usual), &out).unwrap_err();
    assert!(
        refused.starts_with("CANDLE_ROCM_KERNEL_CACHE="),
        "{refused}"
    );

    // One that goes away during the build costs its contents alone.
    let gone = Cache::new(file.join("kernels"), NO_LIMIT);
    assert!(take(&gone, "fill", b"code").made);
    assert!(!gone.troubles().is_empty());
}

#[test]
fn sizes_are_read() {
    assert_eq!(cache::limit(""), Ok(2 << 30));
    assert_eq!(cache::limit("500MiB"), Ok(500 << 20));
    assert_eq!(cache::limit(" 1 GB "), Ok(1_000_000_000));
    assert_eq!(cache::limit("4096"), Ok(4096));
    let refused = cache::limit("large").unwrap_err();
    assert!(
        refused.starts_with("CANDLE_ROCM_KERNEL_CACHE_SIZE=large"),
        "{refused}"
    );
}

/// A folder of kernels and one of bitcode in `root`.
fn lay_out_sources(root: &Path) -> (PathBuf, PathBuf) {
    let kernels = root.join("kernels");
    fs::create_dir_all(kernels.join("rows")).unwrap();
    fs::create_dir_all(kernels.join("portable")).unwrap();
    let main = "#include \"portable/a.cuh\"\n# include \"portable/b.cuh\"\n";
    fs::write(kernels.join("rows/reduce.cu"), main).unwrap();
    fs::write(
        kernels.join("portable/a.cuh"),
        "#include \"portable/b.cuh\"\n",
    )
    .unwrap();
    fs::write(kernels.join("portable/b.cuh"), "int x;\n").unwrap();
    let bitcode = root.join("ocml.bc");
    fs::write(&bitcode, [0xff, 0xfe, 1]).unwrap();
    (kernels, bitcode)
}

fn key_of(kernels: &Path, bitcode: &Path, flags: &[&str]) -> Result<String, String> {
    let contents = key::Contents::new(vec![kernels.to_path_buf()]);
    contents.key(
        &kernels.join("rows/reduce.cu"),
        &[bitcode.to_path_buf()],
        flags,
    )
}

#[test]
fn a_name_depends_on_contents_and_not_on_places() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (kernels, bitcode) = lay_out_sources(one.path());
    let first = key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap();
    let (elsewhere, same_bitcode) = lay_out_sources(two.path());
    assert_eq!(
        key_of(&elsewhere, &same_bitcode, &["gfx1100", "-O3"]),
        Ok(first.clone())
    );

    let mut keys = BTreeSet::from([first.clone()]);
    keys.insert(key_of(&kernels, &bitcode, &["gfx1101", "-O3"]).unwrap());
    keys.insert(key_of(&kernels, &bitcode, &["gfx1100", "-O2"]).unwrap());
    // As long as before, at the same place.
    fs::write(&bitcode, [0xff, 0xfe, 2]).unwrap();
    keys.insert(key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap());
    fs::write(kernels.join("portable/b.cuh"), "int y;\n").unwrap();
    keys.insert(key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap());
    assert_eq!(keys.len(), 5);

    fs::remove_file(kernels.join("portable/b.cuh")).unwrap();
    let missing = key_of(&kernels, &bitcode, &[]).unwrap_err();
    assert!(missing.contains("portable/b.cuh"), "{missing}");
}

#[test]
fn parts_run_once_each_and_busy_ones_last() {
    for threads in [1, 4] {
        run_twenty_parts(threads);
    }
    assert_eq!(workers::run(4, 0, |_, _| Ok(Outcome::Done(()))), Ok(vec![]));
}

fn run_twenty_parts(threads: usize) {
    let calls = AtomicUsize::new(0);
    let results = workers::run(threads, 20, |part, wait| {
        calls.fetch_add(1, Ordering::Relaxed);
        match part % 3 == 0 && !wait {
            true => Ok(Outcome::Busy),
            false => Ok(Outcome::Done(part * part)),
        }
    });
    assert_eq!(results, Ok((0..20).map(|part| part * part).collect()));
    assert_eq!(calls.into_inner(), 20 + 7);
}

#[test]
fn the_first_failure_ends_the_work() {
    let calls = AtomicUsize::new(0);
    let results = workers::run(1, 1000, |part, _| {
        calls.fetch_add(1, Ordering::Relaxed);
        match part {
            3 => Err(format!("part {part} failed")),
            _ => Ok(Outcome::Done(part)),
        }
    });
    assert_eq!(results, Err("part 3 failed".to_string()));
    assert_eq!(calls.into_inner(), 4);
}

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

#[test]
fn architectures_are_those_of_the_machine_or_all() {
    let known = [
        "gfx900",
        "gfx90a",
        "gfx942",
        "gfx1030",
        "gfx1100",
        "gfx10-3-generic",
        "gfx11-generic",
        "gfx12-generic",
    ];
    let known = known.map(str::to_string).to_vec();
    let choose = |choice: &str, found: &[&str]| {
        let found = match found {
            [] => Err("the driver lists no GPU".to_string()),
            found => Ok(found.iter().map(|name| name.to_string()).collect()),
        };
        architectures::chosen(choice, &known, found)
    };
    let found = choose("", &["gfx1100", "gfx1036", "gfx1100"]).unwrap();
    assert_eq!(found.archs, ["gfx10-3-generic", "gfx11-generic"]);
    assert!(
        found.by_itself && found.reason.contains("the GPUs of this machine"),
        "{found:?}"
    );
    // A GPU that no kernel serves does not stop the build for the one beside it.
    assert_eq!(choose("", &["gfx900", "gfx942"]).unwrap().archs, ["gfx942"]);
    let all = choose("", &["gfx900"]).unwrap();
    assert_eq!(
        all.archs,
        [
            "gfx10-3-generic",
            "gfx11-generic",
            "gfx12-generic",
            "gfx90a",
            "gfx942"
        ]
    );
    assert!(
        all.by_itself
            && all
                .reason
                .contains("no kernel serves this machine's gfx900"),
        "{all:?}"
    );
    let none = choose("", &[]).unwrap();
    assert_eq!(none.archs, all.archs);
    assert!(none.reason.contains("lists no GPU"), "{none:?}");
    let asked = choose("default", &["gfx1100"]).unwrap();
    assert_eq!((&asked.archs, asked.by_itself), (&none.archs, false));

    let named = choose(" gfx942, gfx1100,gfx942", &["gfx1030"]).unwrap();
    assert_eq!(
        (named.archs.join(" "), named.by_itself),
        ("gfx1100 gfx942".to_string(), false)
    );
    // What the compiler does not know, a generic target may cover.
    assert_eq!(choose("gfx1201", &[]).unwrap().archs, ["gfx12-generic"]);
    let native = choose("native", &["gfx1030"]).unwrap();
    assert_eq!(
        (native.archs.join(" "), native.by_itself),
        ("gfx1030".to_string(), false)
    );
    assert!(choose("native", &[]).unwrap_err().contains("lists no GPU"));
    assert!(choose("gfx1234", &[])
        .unwrap_err()
        .contains("does not know the architecture gfx1234"));
    assert!(choose(",", &[])
        .unwrap_err()
        .contains("names no architecture"));
    assert_eq!(
        architectures::serving("gfx1151", &known).as_deref(),
        Some("gfx11-generic")
    );
    assert_eq!(
        architectures::serving("gfx942", &known).as_deref(),
        Some("gfx942")
    );
    assert_eq!(architectures::serving("gfx803", &known), None);
}
