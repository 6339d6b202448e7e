//! Registers, spills, LDS and occupancy of every kernel in every object of the default build are those of the committed
//! tables `resources/<compiler>/<arch>.tsv`, which `CANDLE_ROCM_WRITE_RESOURCES=1 cargo test -p candle-rocm-kernels --test
//! resource_table` writes anew, for the compiler that made the kernels.
//!
//! Another compiler allocates other registers, so each has tables of its own. One that has none fails the test, unless
//! `CANDLE_ROCM_TESTS_WITHOUT=resource-tables` allows it.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use candle_rocm_kernels as kernels;
use candle_rocm_kernels::occupancy::{wavefronts_per_simd, Demand};
use candle_rocm_testing::needs::{self, Need};
use support::Kernel;

/// What there are tables of: the default that every supported compiler knows.
const TABLES: [&str; 5] = [
    "gfx90a",
    "gfx942",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx12-generic",
];

/// Wavefronts on a SIMD, in workgroups of the largest size; of a generic target's kernels, on the GPU with the fewest
/// registers.
fn occupancy(arch: &str, kernel: &Kernel) -> Option<u64> {
    let demand = Demand {
        vgprs: kernel.vgprs,
        lds_bytes: kernel.lds_bytes,
        workgroup: kernel.max_workgroup,
        wavefront: kernel.wavefront_size,
    };
    wavefronts_per_simd(arch, &demand)
}

/// The compiler's name and release, such as `clang 19.1.7`, from how it names itself: distributions' builds of a release
/// (`Debian clang version 19.1.7 (3~deb12u1)`) make the same code, AMD's fork (`AMD clang version 19.0.0git ...`) does not.
fn release(compiler: &str) -> String {
    let (vendor, version) = compiler
        .split_once("clang version ")
        .unwrap_or_else(|| panic!("\"{compiler}\" is no clang"));
    let version = version.split_whitespace().next().unwrap_or_default();
    let fork = if vendor.trim() == "AMD" { "AMD " } else { "" };
    format!("{fork}clang {version}")
}

/// Where a compiler's tables are.
fn folder(release: &str) -> PathBuf {
    let name = release.replace(' ', "-");
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("resources")
        .join(name)
}

/// The architectures that a folder has tables of; none if it is not there.
fn tabled(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.expect("the folder can be listed").file_name());
    let names = names.map(|name| name.into_string().expect("a name in ASCII"));
    let mut archs: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".tsv")?.to_owned()))
        .collect();
    archs.sort();
    archs
}

/// The table of an architecture; `None` for one that we know too little of.
fn table(arch: &str, release: &str) -> Option<String> {
    let mut rows = String::new();
    for module in kernels::MODULES {
        let code = module.code_object(arch).expect("an embedded architecture");
        let compiler = support::compiler(&code);
        assert_eq!(
            self::release(&compiler),
            release,
            "{arch} {}",
            module.name()
        );
        for kernel in support::kernels(&code).values() {
            let remark = |table, spilled: bool| {
                let why = support::reason(table, &kernel.name);
                why.filter(|_| spilled)
            };
            let scratch = kernel.scratch_bytes != 0 || kernel.vgpr_spills != 0;
            let why = remark(support::VECTOR_SPILLS, scratch)
                .or_else(|| remark(support::SCALAR_SPILLS, kernel.sgpr_spills != 0));
            writeln!(
                rows,
                "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                module.name(),
                kernel.name,
                kernel.vgprs,
                kernel.agprs,
                kernel.sgprs,
                kernel.scratch_bytes,
                kernel.vgpr_spills,
                kernel.sgpr_spills,
                kernel.lds_bytes,
                kernel.max_workgroup,
                occupancy(arch, kernel)?,
                why.unwrap_or("")
            )
            .expect("a string grows");
        }
    }
    Some(format!(
        "# {arch}, {release}\nmodule\tkernel\tVGPRs\tAGPRs\tSGPRs\tscratch bytes\tVGPR spills\tSGPR spills\t\
         LDS bytes\tlargest workgroup\twavefronts per SIMD\tremark\n{rows}"
    ))
}

/// The compiler of the embedded kernels.
fn embedded_release() -> String {
    let arch = kernels::architectures().first();
    let arch = arch.expect("built with CANDLE_ROCM_SKIP_KERNELS: nothing to test");
    let code = kernels::MODULES[0].code_object(arch);
    release(&support::compiler(&code.expect("an embedded architecture")))
}

/// Where a table differs from the committed one, and how to write that anew.
fn difference(path: &Path, made: &str, committed: &str) -> String {
    let lines: BTreeSet<&str> = committed.lines().collect();
    let changed: Vec<_> = made.lines().filter(|line| !lines.contains(line)).collect();
    format!(
        "{}: {} rows are not those committed ({} lines, now {}), such as\n{}\n",
        path.display(),
        changed.len(),
        committed.lines().count(),
        made.lines().count(),
        changed[..changed.len().min(10)].join("\n")
    )
}

const WRITE: &str = "CANDLE_ROCM_WRITE_RESOURCES";

#[test]
fn the_committed_tables_are_what_the_compiler_made() {
    let release = embedded_release();
    let folder = folder(&release);
    let write = std::env::var_os(WRITE).is_some();
    let mut wrong = Vec::new();
    for arch in kernels::architectures() {
        if !TABLES.contains(arch) {
            // One that the user asked for beside ours has no table.
            continue;
        }
        let path = folder.join(format!("{arch}.tsv"));
        let made =
            table(arch, &release).ok_or(format!("too little is known of {arch} for a table"));
        let Some(made) = needs::found(Need::ResourceTables, made) else {
            continue;
        };
        if write {
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            std::fs::write(&path, &made).expect("the table can be written");
            continue;
        }
        let committed = std::fs::read_to_string(&path);
        let committed = committed.map_err(|error| {
            format!(
                "no table of {arch} as {release} compiles it: {}: {error}",
                path.display()
            )
        });
        let Some(committed) = needs::found(Need::ResourceTables, committed) else {
            continue;
        };
        if made != committed {
            wrong.push(difference(&path, &made, &committed));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}If that is right, write the tables anew with {WRITE}=1",
        wrong.join("")
    );
}

/// A table that nothing is compared with says nothing.
#[test]
fn every_table_is_of_an_embedded_architecture() {
    for arch in tabled(&folder(&embedded_release())) {
        assert!(
            TABLES.contains(&arch.as_str()),
            "nothing makes the table of {arch} any more"
        );
    }
    for arch in TABLES {
        let there = kernels::architectures().contains(&arch);
        let otherwise = format!("the build embeds no object for {arch}, of which there is a table");
        needs::holds(Need::Architecture(arch), there, otherwise);
    }
}

#[test]
fn releases_are_told_apart_and_builds_of_one_are_not() {
    for (compiler, expected) in [
        ("Debian clang version 19.1.7 (3~deb12u1)", "clang 19.1.7"),
        (
            "Ubuntu clang version 19.1.1 (1ubuntu1~24.04.2)",
            "clang 19.1.1",
        ),
        ("clang version 20.1.0", "clang 20.1.0"),
        (
            "AMD clang version 19.0.0git (https://github.com/RadeonOpenCompute/llvm-project)",
            "AMD clang 19.0.0git",
        ),
    ] {
        assert_eq!(release(compiler), expected);
    }
}
