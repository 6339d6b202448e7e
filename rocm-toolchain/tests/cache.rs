//! The cache of compiled kernels: what is made once, what is made again, what goes, and where it is.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use rocm_toolchain::cache::{self, Cache, Entry};
use rocm_toolchain::workers::Outcome;
use rocm_toolchain::{Error, Notice, Result};

const NO_LIMIT: u64 = u64::MAX;

fn done(outcome: Result<Outcome<Entry>>) -> Entry {
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
    assert!(cache.notices().is_empty(), "{:?}", cache.notices());
}

#[test]
fn a_failure_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into(), NO_LIMIT);
    let refused = || Err(Error::Ptxas("no".to_owned()));
    let failed = cache.get_or_make("fill", false, refused);
    assert!(matches!(failed, Err(Error::Ptxas(said)) if said == "no"));
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
        assert_eq!(
            cache.notices().into_iter().collect::<Vec<_>>(),
            [Notice::CacheDamaged(file.clone())]
        );
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
        let make = || -> Result<Vec<u8>> { panic!("the other build makes it") };
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
    assert_eq!(cache.shrink().unwrap(), 3 * size);
    let left = ["a.hsaco.zst", "d.hsaco.zst", "e.hsaco.zst", "y.aside"].map(str::to_string);
    assert_eq!(names(folder.path()), BTreeSet::from(left));
    // What a build uses stays, whatever the limit.
    let cache = Cache::new(folder.path().into(), 0);
    assert!(!take(&cache, "e", b"").made);
    assert_eq!(cache.shrink().unwrap(), size);
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
    assert_eq!(chosen.unwrap(), (usual.clone(), None));
    let (chosen, note) = cache::folder(None, Some(file.join("kernels")), &out).unwrap();
    assert_eq!(chosen, place.path().join("target/candle-rocm-kernels"));
    assert!(note.unwrap().to_string().contains("file/kernels"));
    let (_, note) = cache::folder(None, None, &out).unwrap();
    assert!(note.unwrap().to_string().contains("no home"));

    let named = place.path().join("named");
    let chosen = cache::folder(Some(named.clone().into()), Some(usual.clone()), &out);
    assert_eq!(chosen.unwrap(), (named, None));
    let refused = cache::folder(Some(file.join("x").into()), Some(usual), &out).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.starts_with("CANDLE_ROCM_KERNEL_CACHE="),
        "{refused}"
    );

    // One that goes away during the build costs its contents alone.
    let gone = Cache::new(file.join("kernels"), NO_LIMIT);
    assert!(take(&gone, "fill", b"code").made);
    assert!(!gone.notices().is_empty());
}

#[test]
fn sizes_are_read() {
    assert_eq!(cache::limit("").unwrap(), 2 << 30);
    assert_eq!(cache::limit("500MiB").unwrap(), 500 << 20);
    assert_eq!(cache::limit(" 1 GB ").unwrap(), 1_000_000_000);
    assert_eq!(cache::limit("4096").unwrap(), 4096);
    let refused = cache::limit("large").unwrap_err().to_string();
    assert!(
        refused.starts_with("CANDLE_ROCM_KERNEL_CACHE_SIZE=large"),
        "{refused}"
    );
}
