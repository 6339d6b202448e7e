//! What is kept between builds and runs: where it is, how large, and whether it can be written.

use std::fs::{self, File};
use std::path::Path;

use candle_rocm_runtime::variables::{GEMM_TUNE_FILE, KERNEL_CACHE};

use super::place::Place;
use super::report::Finding;

/// The folder of compiled kernels, which builds use.
pub(super) fn kernels(place: &Place<'_>, findings: &mut Vec<Finding>) {
    const SUBJECT: &str = "cache";
    findings.push(match &place.kernel_cache {
        None => Finding::note(
            SUBJECT,
            "no folder for compiled kernels: this user has no home",
            format!("{} names one", KERNEL_CACHE.name),
        ),
        Some(folder) => {
            let shown = folder.display();
            match (size_of(folder), writable_folder(folder)) {
                (Some((files, bytes)), true) => Finding::good(
                    SUBJECT,
                    format!(
                        "compiled kernels: {shown}, {files} files, {:.1} MiB",
                        bytes as f64 / (1 << 20) as f64
                    ),
                ),
                (None, true) => {
                    Finding::good(SUBJECT, format!("compiled kernels: {shown}, not there yet"))
                }
                (_, false) => Finding::note(
                    SUBJECT,
                    format!("compiled kernels: {shown} cannot be written"),
                    format!(
                        "each target folder keeps its own; {} names another folder",
                        KERNEL_CACHE.name
                    ),
                ),
            }
        }
    });
}

/// The file of timed products.
pub(super) fn timings(place: &Place<'_>, findings: &mut Vec<Finding>) {
    const SUBJECT: &str = "timings";
    findings.push(match &place.timings {
        None => Finding::note(
            SUBJECT,
            "no file for timed products: this user has no home",
            format!("{} names one", GEMM_TUNE_FILE.name),
        ),
        Some(file) => {
            let shown = file.display();
            let bytes = fs::metadata(file).map(|metadata| metadata.len());
            let writable = match bytes {
                Ok(_) => File::options().append(true).open(file).is_ok(),
                Err(_) => file.parent().is_some_and(writable_folder),
            };
            match (bytes, writable) {
                (Ok(bytes), true) => {
                    Finding::good(SUBJECT, format!("of products: {shown}, {bytes} bytes"))
                }
                (Err(_), true) => {
                    Finding::good(SUBJECT, format!("of products: {shown}, not there yet"))
                }
                (_, false) => Finding::note(
                    SUBJECT,
                    format!("of products: {shown} cannot be written"),
                    format!(
                        "timings are not kept; {} names another file",
                        GEMM_TUNE_FILE.name
                    ),
                ),
            }
        }
    });
}

/// Files in a folder and their bytes; none if it is not there.
fn size_of(folder: &Path) -> Option<(usize, u64)> {
    let files = fs::read_dir(folder).ok()?.flatten();
    let sizes = files
        .filter_map(|entry| entry.metadata().ok())
        .filter(|m| m.is_file());
    Some(sizes.fold((0, 0), |(files, bytes), file| {
        (files + 1, bytes + file.len())
    }))
}

/// Whether files can be made in a folder or, where it is not there yet, in the nearest above it.
fn writable_folder(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists());
    there.is_some_and(|folder| {
        let probe = folder.join(format!(".candle-rocm-{}", std::process::id()));
        let made = File::create_new(&probe).is_ok();
        // One that stays behind is empty, and hidden.
        let _ = fs::remove_file(&probe);
        made
    })
}
