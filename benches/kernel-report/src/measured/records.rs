//! What a file of rocprofv3 tells: launches with their times, values of counters, or the machine's agents.
//!
//! Columns are those of `projects/rocprofiler-sdk/source/lib/output/generateCSV.cpp` of AMD's rocm-systems as of
//! November 2026, and of ROCm 6.2, which had other names for LDS and scratch in the trace, fewer registers, and no
//! times beside counters.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use super::columns::{Column, Csv};

/// What a kernel takes, as the profiler tells it; `None` where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources {
    /// Vector registers of a lane, in granules as its descriptor has them; where accumulation registers are a part of
    /// the same file, without them.
    pub vgprs: Option<u32>,
    /// Accumulation registers of a lane.
    pub agprs: Option<u32>,
    /// Bytes of LDS of a workgroup. Newer releases round up the kernel's own to 512 bytes, and leave out what a launch
    /// adds; older ones have both, as they are.
    pub lds: Option<u32>,
    /// Bytes of scratch of a work-item.
    pub scratch: Option<u32>,
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's name, without what a code object adds to it.
    pub kernel: String,
    /// The GPU, as the profiler numbers them; without the column "".
    pub agent: String,
    /// Workgroups along x, y and z.
    pub grid: [u64; 3],
    /// Work-items of a workgroup along x, y and z.
    pub workgroup: [u64; 3],
    /// What the kernel takes.
    pub resources: Resources,
    /// How long it ran; `None` if it ended before it began, as clocks that are set anew make of it.
    pub nanoseconds: Option<u64>,
}

/// One value of a counter.
#[derive(Clone, Debug)]
pub struct Count {
    /// File, process and number of the launch.
    pub launch: (PathBuf, String, u64),
    /// The kernel's name, without what a code object adds to it.
    pub kernel: String,
    /// The GPU, as the profiler numbers them; without the column "".
    pub agent: String,
    /// Work-items of the grid.
    pub items: u64,
    /// Work-items of a workgroup.
    pub workgroup: u64,
    /// What is counted.
    pub counter: String,
    /// How much of it; may be no number, as a quotient of counters that are 0.
    pub value: f64,
    /// How long the launch ran, where the file tells it.
    pub nanoseconds: Option<u64>,
}

/// A processor of the machine.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Number among all nodes of the machine.
    pub node: u64,
    /// Number among those that the program saw; that among all of them in releases that have no other.
    pub logical: u64,
    /// LLVM's name, such as `gfx942`.
    pub name: String,
}

/// What is in a file.
#[derive(Clone, Debug)]
pub enum Records {
    /// `--kernel-trace`.
    Launches(Vec<Launch>),
    /// `--pmc`.
    Counts(Vec<Count>),
    /// GPUs of `agent_info.csv`, which is written beside the others.
    Gpus(Vec<Agent>),
}

/// Reads a file.
///
/// # Errors
/// It is none of the three, lacks a column, or has a cell that is not what its column has.
pub fn read(path: &Path) -> Result<Records> {
    let file = Csv::open(path)?;
    let has = |name| file.find(&[name]).is_some();
    if has("Counter_Name") {
        counts(file, path).map(Records::Counts)
    } else if has("Agent_Type") {
        gpus(file).map(Records::Gpus)
    } else if has("Kernel_Name") {
        launches(file).map(Records::Launches)
    } else {
        bail!(
            "{}, line 1: a file of `rocprofv3 --output-format csv` is expected, with a column Kernel_Name \
             (kernel_trace), Counter_Name (counter_collection) or Agent_Type (agent_info); its columns are {}",
            path.display(),
            file.columns()
        )
    }
}

/// The name without `.kd`, by which a code object has a kernel's descriptor, and which demanglers take for a clone.
fn plain(name: &str) -> &str {
    let ends = [".kd", " [clone .kd]"];
    let stripped = ends.iter().find_map(|end| name.strip_suffix(end));
    stripped.unwrap_or(name).trim_end()
}

/// Columns of [`Resources`].
struct ResourceColumns([Option<Column>; 4]);

impl ResourceColumns {
    fn of(file: &Csv) -> ResourceColumns {
        ResourceColumns([
            file.find(&["VGPR_Count"]),
            file.find(&["Accum_VGPR_Count"]),
            file.find(&["LDS_Block_Size", "Group_Segment_Size"]),
            file.find(&["Scratch_Size", "Private_Segment_Size"]),
        ])
    }

    fn read(&self, file: &Csv) -> Result<Resources> {
        let [vgprs, agprs, lds, scratch] = self.0;
        Ok(Resources {
            vgprs: file.maybe(vgprs)?,
            agprs: file.maybe(agprs)?,
            lds: file.maybe(lds)?,
            scratch: file.maybe(scratch)?,
        })
    }
}

/// How long a launch ran.
fn between(start: u64, end: u64) -> Option<u64> {
    end.checked_sub(start)
}

fn launches(mut file: Csv) -> Result<Vec<Launch>> {
    let kernel = file.column("Kernel_Name")?;
    let times = [
        file.column("Start_Timestamp")?,
        file.column("End_Timestamp")?,
    ];
    let along = |of: &str, file: &Csv| -> Result<[Column; 3]> {
        let column = |axis| file.column(&format!("{of}_{axis}"));
        Ok([column("X")?, column("Y")?, column("Z")?])
    };
    let (grid, workgroup) = (along("Grid_Size", &file)?, along("Workgroup_Size", &file)?);
    let resources = ResourceColumns::of(&file);
    let agent = file.find(&["Agent_Id"]);
    let mut launches = Vec::new();
    while file.advance()? {
        let (mut groups, mut group) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            group[axis] = file.whole(workgroup[axis])?;
            groups[axis] = file.whole::<u64>(grid[axis])?.div_ceil(group[axis].max(1));
        }
        launches.push(Launch {
            kernel: plain(file.text(kernel)).to_owned(),
            agent: agent.map_or_else(String::new, |agent| file.text(agent).to_owned()),
            grid: groups,
            workgroup: group,
            resources: resources.read(&file)?,
            nanoseconds: between(file.whole(times[0])?, file.whole(times[1])?),
        });
    }
    Ok(launches)
}

fn counts(mut file: Csv, path: &Path) -> Result<Vec<Count>> {
    let [kernel, dispatch] = [file.column("Kernel_Name")?, file.column("Dispatch_Id")?];
    let [items, workgroup] = [file.column("Grid_Size")?, file.column("Workgroup_Size")?];
    let [counter, value] = [file.column("Counter_Name")?, file.column("Counter_Value")?];
    let times = (
        file.find(&["Start_Timestamp"]),
        file.find(&["End_Timestamp"]),
    );
    let agent = file.find(&["Agent_Id"]);
    let process = file.find(&["Process_Id", "Guid"]);
    let optional = |file: &Csv, column: Option<Column>| {
        column.map_or_else(String::new, |column| file.text(column).to_owned())
    };
    let mut counts = Vec::new();
    while file.advance()? {
        let times = file.maybe(times.0)?.zip(file.maybe(times.1)?);
        counts.push(Count {
            launch: (
                path.to_owned(),
                optional(&file, process),
                file.whole(dispatch)?,
            ),
            kernel: plain(file.text(kernel)).to_owned(),
            agent: optional(&file, agent),
            items: file.whole(items)?,
            workgroup: file.whole(workgroup)?,
            counter: file.text(counter).to_owned(),
            value: file.real(value)?,
            nanoseconds: times.and_then(|(start, end)| between(start, end)),
        });
    }
    Ok(counts)
}

fn gpus(mut file: Csv) -> Result<Vec<Agent>> {
    let [kind, name] = [file.column("Agent_Type")?, file.column("Name")?];
    let node = file.column("Node_Id")?;
    let logical = file.find(&["Logical_Node_Id"]).unwrap_or(node);
    let mut gpus = Vec::new();
    while file.advance()? {
        if file.text(kind) == "GPU" {
            gpus.push(Agent {
                node: file.whole(node)?,
                logical: file.whole(logical)?,
                name: file.text(name).to_owned(),
            });
        }
    }
    gpus.sort_by_key(|gpu| gpu.node);
    Ok(gpus)
}

/// The names of files in a folder that are read.
const FILES: [&str; 3] = [
    "kernel_trace.csv",
    "counter_collection.csv",
    "agent_info.csv",
];

/// The files that are meant: files themselves, and of folders those that the profiler names so, in folders below, too.
///
/// # Errors
/// There is no such file or folder, or no file of the profiler in it.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let kind =
            std::fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        if !kind.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        below(path, &mut found)?;
        if found.len() == before {
            bail!(
                "no file in {} ends with {}: rocprofv3 writes them with `--output-format csv`, and `-d {}` has it \
                 write there",
                path.display(),
                FILES.join(" or "),
                path.display()
            );
        }
    }
    Ok(found)
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let context = || format!("reading {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(context)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.with_context(context)?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            below(&path, found)?;
        } else if FILES.iter().any(|file| name.ends_with(file)) {
            found.push(path);
        }
    }
    Ok(())
}
