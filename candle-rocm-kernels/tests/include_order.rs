//! The kernels' files in order: none includes itself by way of others, each folder includes only those that stand
//! before it, and an include names the file from the folder of kernels on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each may include itself and those before it.
const FOLDERS: [&str; 23] = [
    "portable",
    "elementwise",
    "rows",
    "norms",
    "reduce",
    "scan",
    "sort",
    "indexing",
    "conv",
    "fp8",
    "experts",
    "matmul",
    "convolution",
    "dnn",
    "quantized",
    "attention",
    "losses",
    "random",
    "optimizers",
    "communication",
    "sparse",
    "linalg",
    "fft",
];

/// The folders whose names in C++ stand in a namespace of the folder's name, but for the lists that the build reads.
const NAMESPACES: [&str; 4] = ["norms", "experts", "quantized", "attention"];

/// What each file includes, by paths from `folder` on.
fn includes(root: &Path) -> BTreeMap<String, Vec<String>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder of kernels") {
            let path = entry.expect("its entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a kernel file");
            let named = text.lines().filter_map(|line| {
                let rest = line.trim_start().strip_prefix("#include \"")?;
                rest.split('"').next().map(str::to_string)
            });
            let name = path.strip_prefix(root).expect("it lies there");
            found.insert(name.to_str().expect("a name").to_string(), named.collect());
        }
    }
    found
}

/// The place of a file's folder.
fn folder_of(file: &str) -> Option<usize> {
    let (folder, _) = file.split_once('/')?;
    FOLDERS.iter().position(|name| *name == folder)
}

/// The files of a circle through `file`, if there is one.
fn circle(
    file: &str,
    files: &BTreeMap<String, Vec<String>>,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = path.iter().position(|on_path| on_path == file) {
        return Some(path[at..].to_vec());
    }
    if done.contains(file) {
        return None;
    }
    path.push(file.to_string());
    let below = files.get(file).into_iter().flatten();
    let found = below
        .map(|next| circle(next, files, path, done))
        .find(Option::is_some);
    path.pop();
    done.insert(file.to_string());
    found.flatten()
}

/// What is out of order.
fn faults(files: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, included) in files {
        let Some(own) = folder_of(file) else {
            faults.push(format!("{file} lies in no folder of the order"));
            continue;
        };
        for other in included {
            if !files.contains_key(other) {
                faults.push(format!("{file} includes {other}, which does not exist"));
            } else if folder_of(other).is_none_or(|place| place > own) {
                faults.push(format!("{file} includes {other}, of a folder above"));
            }
        }
        if let Some(files) = circle(file, files, &mut Vec::new(), &mut BTreeSet::new()) {
            faults.push(format!("a circle: {}", files.join(" -> ")));
        }
    }
    faults
}

#[test]
fn folders_are_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let files = includes(&root);
    assert!(files.len() > 40, "only {} files found", files.len());
    let faults = faults(&files);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn disorder_is_found() {
    let files = |list: &[(&str, &str)]| {
        let entry = |(file, other): &(&str, &str)| (file.to_string(), vec![other.to_string()]);
        list.iter().map(entry).collect::<BTreeMap<_, _>>()
    };
    let upwards = files(&[
        ("portable/a.cuh", "rows/b.cuh"),
        ("rows/b.cuh", "rows/b.cuh"),
    ]);
    let found = faults(&upwards);
    assert!(found
        .iter()
        .any(|fault| fault.contains("of a folder above")));
    assert!(found
        .iter()
        .any(|fault| fault.contains("a circle: rows/b.cuh")));
    let missing = files(&[("rows/b.cuh", "fold.cuh")]);
    assert!(faults(&missing)[0].contains("does not exist"));
}

#[test]
fn rooms_are_namespaces() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let files = includes(&root);
    for file in files.keys() {
        let Some(room) = NAMESPACES
            .iter()
            .find(|room| file.starts_with(&format!("{room}/")))
        else {
            continue;
        };
        let text = std::fs::read_to_string(root.join(file)).expect("a kernel file");
        let opens = text.matches(&format!("\nnamespace {room} {{\n")).count();
        // A list of kernels may have nothing but macros.
        let fits = opens == 1 || opens == 0 && file.ends_with("_kernels.cuh");
        assert!(fits, "{file} opens the namespace {room} {opens} times");
    }
}
