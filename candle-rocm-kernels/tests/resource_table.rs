//! Registers, spills, LDS and occupancy of every kernel in every object of the default build are those of the committed
//! tables `resources/<arch>.tsv`, which `CANDLE_ROCM_WRITE_RESOURCES=1 cargo test -p candle-rocm-kernels --test
//! resource_table` writes anew.

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use candle_rocm_kernels as kernels;
use candle_rocm_kernels::occupancy::{wavefronts_per_simd, Demand};
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

fn path(arch: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("resources")
        .join(format!("{arch}.tsv"))
}

/// The table of an architecture, and the compiler that its first line names; `None` for an architecture that we know
/// too little of.
fn table(arch: &str) -> Option<(String, String)> {
    let mut compiler = String::new();
    let mut rows = String::new();
    for module in kernels::MODULES {
        let code = module.code_object(arch).expect("an embedded architecture");
        compiler = support::compiler(&code);
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
    let text = format!(
        "# {arch}, {compiler}\nmodule\tkernel\tVGPRs\tAGPRs\tSGPRs\tscratch bytes\tVGPR spills\tSGPR spills\t\
         LDS bytes\tlargest workgroup\twavefronts per SIMD\tremark\n{rows}"
    );
    Some((text, compiler))
}

/// Module and kernel of each row.
fn names(table: &str) -> Vec<(&str, &str)> {
    table
        .lines()
        .skip(2)
        .map(|line| {
            let mut fields = line.split('\t');
            (
                fields.next().unwrap_or_default(),
                fields.next().unwrap_or_default(),
            )
        })
        .collect()
}

#[test]
fn the_committed_tables_are_what_the_compiler_made() {
    assert!(
        !kernels::architectures().is_empty(),
        "built with CANDLE_ROCM_SKIP_KERNELS: nothing to test"
    );
    let write = std::env::var_os("CANDLE_ROCM_WRITE_RESOURCES").is_some();
    for arch in kernels::architectures() {
        let Some((made, compiler)) = table(arch).filter(|_| TABLES.contains(arch)) else {
            // A target that the user asked for beside ours has no table.
            eprintln!("no table for {arch}");
            continue;
        };
        let path = path(arch);
        if write {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            std::fs::write(&path, &made).expect("the table can be written");
            continue;
        }
        let committed = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if committed.starts_with(&format!("# {arch}, {compiler}\n")) {
            let changed: Vec<_> = made
                .lines()
                .filter(|line| !committed.lines().any(|other| other == *line))
                .collect();
            assert!(
                made == committed,
                "{}: {} rows are not those committed, such as\n{}\nIf that is right, write the tables anew \
                 with CANDLE_ROCM_WRITE_RESOURCES=1",
                path.display(),
                changed.len(),
                changed[..changed.len().min(10)].join("\n")
            );
        } else {
            // Another compiler allocates other registers; the kernels are the same.
            eprintln!("{arch}: compiled by {compiler}, which the table is not of");
            assert_eq!(names(&made), names(&committed), "{}", path.display());
        }
    }
}
