//! Files of rocprofv3 as a page: samples written by hand to the columns that AMD documents, no card's.
//!
//! `mi300x` has the columns of ROCm 7, `older` those of 6.2, `radeon` those of `rocpd2csv` in another order, with one that
//! nobody knows, and counters that are 0 as they are on some cards.

use std::path::{Path, PathBuf};

use anyhow::Result;
use candle_rocm_kernel_report::measured::{files, Catalogue, Compiled, Embedded, Measured};
use candle_rocm_testing::needs;

/// What kernels are said to be, of whichever GPU.
struct Written;

impl Catalogue for Written {
    fn compiled(&mut self, _: &str, kernel: &str) -> Result<Option<Compiled>> {
        let kernel_of = |vgprs, agprs, lds, wavefront, vector_instructions| Compiled {
            vgprs,
            agprs,
            lds,
            scratch: 0,
            wavefront,
            registers: vgprs + agprs,
            vector_instructions,
        };
        Ok(match kernel {
            "usqr_f32" => Some(kernel_of(24, 0, 0, 64, 18)),
            "softmax_f16" => Some(kernel_of(48, 0, 1024, 32, 200)),
            "matmul_bf16_224x256_tn" => Some(kernel_of(128, 112, 65_536, 64, 2_500)),
            _ => None,
        })
    }

    fn lacks(&self, arch: &str) -> Option<String> {
        (arch == "gfx1036").then(|| "nobody wrote any".to_owned())
    }
}

fn folder(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/measured")
        .join(of)
}

fn page(of: &str, arch: Option<&str>, all: bool) -> Result<String> {
    Measured::read(&files(&[folder(of)])?)?.page(arch, &mut Written, all)
}

/// The rows of the table below a heading, their cells, without head and rule.
fn rows(page: &str, arch: &str, heading: &str) -> Vec<Vec<String>> {
    let section = page
        .split(&format!("\n## {arch}\n"))
        .nth(1)
        .expect("a section");
    let table = section
        .split(&format!("\n### {heading}\n"))
        .nth(1)
        .expect("a table");
    let lines = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    let inner = |row| str::strip_prefix(row, "| ").and_then(|row| row.strip_suffix(" |"));
    rows.map(|row| cells(inner(row).expect("a row"))).collect()
}

fn cells(row: &str) -> Vec<String> {
    row.split(" | ").map(str::to_owned).collect()
}

#[test]
fn times_stand_beside_code_objects() {
    let page = page("mi300x", None, false).expect("the sample is right");
    // 10, 14, 11 and 13 us: 48 of 800.4 us, with one code object by three names. 512 registers of a SIMD, of which a
    // wavefront takes 240, or 24 up to the most of 8.
    let expected = [
        "`matmul_bf16_224x256_tn` | 304, 256 | 1 | 0.400 | 50.0 | 400.00 | 400.00 | 400.00 | 128 + 112 / 128 + 112 \
         | 65,536 / 65,536 | 0 / 0 | 1 | the same",
        "`Cijk_Ailk_Bljk_BBS_BH_MT256x256x32_MI16x16x16x1` | 128, 256 | 1 | 0.300 | 37.5 | 300.00 | 300.00 | 300.00 \
         | 252 + 4 / - | 65,536 / - | 0 / - | 1 | not ours",
        "`usqr_f32` | 1,024, 256 | 4 | 0.048 | 6.0 | 12.00 | 12.00 | 10.00 | 24 / 24 | 0 / 0 | 0 / 0 | 8 | the same",
        "`usqr_f32` | 4,096 x 2, 256 | 1 | 0.030 | 3.7 | 30.00 | 30.00 | 30.00 | 24 / 24 | 0 / 0 | 0 / 0 | 8 | the same",
        "`softmax_f16` | 128, 256 | 1 | 0.020 | 2.5 | 20.00 | 20.00 | 20.00 | 64 / 48 | 512 / 1,024 | 16 / 0 | 8 \
         | differs: registers, scratch, LDS",
        "`void other::operator\\|<float>(float*, float const*)` | 1, 64 | 1 | 0.002 | 0.2 | 2.00 | 2.00 | 2.00 | 8 / - \
         | 0 / - | 0 / - | 8 | not ours",
        "others: 1 |  | 1 | 0.000 | 0.0 |  |  |  |  |  |  |  | ",
    ];
    assert_eq!(rows(&page, "gfx942", "Times"), expected.map(cells));
    assert!(page.contains("10 launches, 0.800 ms."));
}

#[test]
fn small_kernels_have_rows_where_all_are_asked_for() {
    let page = page("mi300x", None, true).expect("the sample is right");
    let rows = rows(&page, "gfx942", "Times");
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[6][0], "`__amd_rocclr_fillBufferAligned`");
    assert!(!page.contains("others"));
}

#[test]
fn counters_are_figures() {
    let page = page("mi300x", None, false).expect("the sample is right");
    let expected = [
        // 96 MiB in 400 us, of 5,324.8 GB/s; an eighth of 304 x 4 wavefronts is counted, and its value of VALUBusy is
        // no number.
        "`matmul_bf16_224x256_tn` | 77,824, 256 | 2 | 400.00 | 67.109 | 33.554 | 252 | 4.7 | 0.125 | not counted | 81.2 \
         | 4000.0 | 2,500 | 12.5",
        "`Cijk_Ailk_Bljk_BBS_BH_MT256x256x32_MI16x16x16x1` | 32,768, 256 | 1 | 300.00 | not counted | not counted \
         | not counted | not counted | not counted | not counted | not counted | not counted | - | -",
        // 2,048 KiB in the 12 us of the trace, and not in the 20 of the counted launches.
        "`usqr_f32` | 262,144, 256 | 3 | 12.00 | 1.049 | 1.049 | 175 | 3.3 | - | 12.5 | 0.0 | 20.0 | 18 | 100.0",
        // Not in the trace: 1,000 KiB in 4 us.
        "`copy2d_f32` | 65,536, 256 | 1 | 4.00 | 0.512 | 0.512 | 256 | 4.8 | not counted | not counted | not counted \
         | not counted | - | not counted",
    ];
    assert_eq!(rows(&page, "gfx942", "Counters"), expected.map(cells));
    assert!(page.contains("The memory's rate is 5,325 GB/s, that of an AMD Instinct MI300X."));
    assert!(page.contains("\nValues that are no numbers are left out: 1.\n"));
}

#[test]
fn counters_that_a_card_lacks_are_not_zero() {
    let page = page("radeon", None, false).expect("the sample is right");
    let [counters] = &rows(&page, "gfx1201", "Counters")[..] else {
        panic!("{page}");
    };
    assert_eq!(counters[2], "2", "launches");
    assert_eq!(counters[3], "7.00", "the median of 8 and 6 us");
    assert_eq!(
        counters[4..8],
        ["0 everywhere", "0.066", "0 everywhere", "0 everywhere"]
    );
    assert_eq!(counters[8], "not counted");
    assert_eq!(counters[11], "0 everywhere");
    // Two rows of one launch are summed: 512 of 64 groups of 4 wavefronts of 64 lanes each.
    assert_eq!(counters[13], "200.0");
    let times = rows(&page, "gfx1201", "Times");
    assert_eq!(times[0][..3], ["`usqr_f32`", "64, 256", "2"]);
    assert!(page.contains(
        "Launches that ended before they began, by the profiler's clock, are left out: 1."
    ));
    // 1,280 bytes of LDS, of which our code object has 1,024.
    assert_eq!(times[1][12], "differs: LDS, unless the launch adds 256");
}

#[test]
fn files_of_older_releases_are_read() {
    let error = page("older", None, false)
        .expect_err("which GPU?")
        .to_string();
    assert!(error.contains("no agent_info.csv"), "{error}");
    assert!(error.contains("--arch gfx1100"), "{error}");
    let page = page("older", Some("gfx90a"), false).expect("the sample is right");
    let times = rows(&page, "gfx90a", "Times");
    assert_eq!(times[0][8..], ["- / 24", "0 / 0", "0 / 0", "8", "the same"]);
    assert_eq!(times[1][9], "3,072 / 1,024");
    let counters = rows(&page, "gfx90a", "Counters");
    assert_eq!(counters[0][3], "8.00", "of the trace");
    // Neither the trace nor the counters tell how long it took.
    assert_eq!(counters[1][3..8], ["-", "2.097", "1.049", "-", "-"]);
}

/// Writes a file, reads it, and returns the error without the folder.
fn error_of(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it can be written");
    let error = match Measured::read(&[path]) {
        Ok(measured) => measured
            .page(None, &mut Written, false)
            .expect_err("an error"),
        Err(error) => error,
    };
    format!("{error:#}").replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn bad_files_name_line_and_column() {
    const TRACE: &str =
        "Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Workgroup_Size_X,Workgroup_Size_Y,\
                         Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z\n";
    let trace = |rows: &str| error_of("a_kernel_trace.csv", &format!("{TRACE}{rows}"));
    let error = trace("1,usqr_f32,10,20,256,1,1,256,1,1\n1,usqr_f32,10,soon,256,1,1,256,1,1\n");
    assert_eq!(
        error,
        "a_kernel_trace.csv, line 3, column End_Timestamp: a whole number that is not negative is expected, not \"soon\""
    );
    let error = trace("1,usqr_f32,10,20,256,1,1,256,1,1\n1,usqr_f32,10,2");
    assert!(error.contains("reading a_kernel_trace.csv"), "{error}");
    assert!(
        error.contains("line: 3") && error.contains("4 fields"),
        "{error}"
    );
    assert!(trace("").contains("no launch of a kernel is in a_kernel_trace.csv"));
    let error = error_of("a_kernel_trace.csv", &TRACE.replace("Grid_Size_Y,", ""));
    assert!(
        error.starts_with(
            "a_kernel_trace.csv, line 1: a column Grid_Size_Y is expected; there are Agent_Id,"
        ),
        "{error}"
    );
    let counters =
        "Dispatch_Id,Agent_Id,Grid_Size,Kernel_Name,Workgroup_Size,Counter_Name,Counter_Value\n";
    let error = error_of(
        "b.csv",
        &format!("{counters}1,1,256,usqr_f32,256,SQ_WAVES,many\n"),
    );
    assert_eq!(
        error,
        "b.csv, line 2, column Counter_Value: a number is expected, not \"many\""
    );
    let error = error_of("memory_copy_trace.csv", "Kind,Direction\nMEMORY_COPY,x\n");
    assert!(
        error.contains("a file of `rocprofv3 --output-format csv` is expected"),
        "{error}"
    );
    assert!(error.contains("its columns are Kind, Direction"), "{error}");
    assert!(error_of("empty.csv", "").contains("empty.csv, line 1"));
}

#[test]
fn what_is_not_there_is_an_error() {
    let error = files(&[folder("nowhere")]).expect_err("no such folder");
    assert!(format!("{error:#}").contains("nowhere"));
    let empty = tempfile::tempdir().expect("a folder");
    let error = files(&[empty.path().to_owned()])
        .expect_err("no file")
        .to_string();
    assert!(
        error.contains("kernel_trace.csv or counter_collection.csv or agent_info.csv"),
        "{error}"
    );
}

/// A GPU of several, by each way in which the profiler numbers them.
#[test]
fn an_agent_is_a_gpu() {
    let folder = folder("radeon");
    let agents = folder.join("out_agent_info.csv");
    let trace = std::fs::read_to_string(folder.join("out_kernel_trace.csv")).expect("the sample");
    let written = tempfile::tempdir().expect("a folder");
    let path = written.path().join("kernel_trace.csv");
    for (agent, arch) in [
        ("Agent 2", "gfx1036"),
        ("GPU 0", "gfx1201"),
        ("GPU 1", "gfx1036"),
        ("1", "gfx1201"),
    ] {
        std::fs::write(&path, trace.replace("Agent 1", agent)).expect("it can be written");
        let page = Measured::read(&[agents.clone(), path.clone()])
            .and_then(|of| of.page(None, &mut Written, false));
        let page = page.expect("the agent is known");
        assert!(page.contains(&format!("\n## {arch}\n")), "{agent}: {page}");
        assert_eq!(
            page.contains("Nothing of ours to compare with: nobody wrote any."),
            arch == "gfx1036"
        );
    }
}

/// What a profiler reads off the descriptors of our own code objects is the same as they are.
#[test]
fn our_code_objects_do_not_differ_from_themselves() {
    for arch in ["gfx942", "gfx90a", "gfx1100"] {
        if !needs::serves(arch, candle_rocm_kernels::serves) {
            continue;
        }
        let mut ours = Embedded::default();
        let kernel = "matmul_bf16_128x128_tn";
        let compiled = ours
            .compiled(arch, kernel)
            .expect("it decodes")
            .expect("it is ours");
        assert!(compiled.vector_instructions > 100, "{arch}");
        assert_eq!(ours.compiled(arch, "Cijk").expect("it decodes"), None);
        let written = tempfile::tempdir().expect("a folder");
        let path = written.path().join("kernel_trace.csv");
        for (more, said) in [(0, "the same"), (8, "differs: registers")] {
            let text = format!(
                "Kernel_Name,Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,\
                 Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z\n\
                 {kernel}.kd,10,20,{},{},{},{},256,1,1,2560,1,1\n",
                compiled.lds.next_multiple_of(512),
                compiled.scratch,
                compiled.vgprs + more,
                compiled.agprs,
            );
            std::fs::write(&path, text).expect("it can be written");
            let measured = Measured::read(std::slice::from_ref(&path)).expect("it is right");
            let page = measured.page(Some(arch), &mut ours, false).expect("a page");
            let rows = rows(&page, arch, "Times");
            assert_eq!(rows[0][12], said, "{arch}");
            assert!(rows[0][11].parse::<u64>().expect("waves") >= 1, "{arch}");
        }
    }
}
