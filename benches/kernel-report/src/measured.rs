//! What AMD's profiler measured, beside what our code objects say: CSV files of rocprofv3 in, a page of Markdown out.

mod columns;
mod compiled;
mod groups;
mod page;
mod records;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Result};

pub use compiled::{Catalogue, Compiled, Embedded};
pub use records::{files, Agent, Count, Launch, Records, Resources};

use page::Section;

/// What files tell.
#[derive(Default)]
pub struct Measured {
    /// Each file, and what is in it.
    files: Vec<(PathBuf, String)>,
    launches: Vec<Launch>,
    counts: Vec<Count>,
    gpus: Vec<Agent>,
}

impl Measured {
    /// Reads files.
    ///
    /// # Errors
    /// A file is none of rocprofv3's, lacks a column, or has a cell that is not what its column has; or none of them tells
    /// of launches.
    pub fn read(files: &[PathBuf]) -> Result<Measured> {
        let mut measured = Measured::default();
        for path in files {
            let held = measured.add(path)?;
            measured.files.push((path.clone(), held));
        }
        if measured.launches.is_empty() && measured.counts.is_empty() {
            let names: Vec<_> = files
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            bail!(
                "no launch of a kernel is in {}: give a kernel_trace.csv or a counter_collection.csv of a program that \
                 launched kernels",
                names.join(", ")
            );
        }
        Ok(measured)
    }

    fn add(&mut self, path: &Path) -> Result<String> {
        Ok(match records::read(path)? {
            Records::Launches(launches) => {
                let count = launches.len();
                self.launches.extend(launches);
                format!("{count} launches")
            }
            Records::Counts(counts) => {
                let count = counts.len();
                self.counts.extend(counts);
                format!("{count} values of counters")
            }
            Records::Gpus(gpus) => {
                let count = gpus.len();
                self.gpus.extend(gpus);
                format!("{count} GPUs")
            }
        })
    }

    /// The page. `arch` is the GPU of all launches, by LLVM's name; without it, `agent_info.csv` must tell it. Kernels with
    /// little of the time have rows of their own where `all` are asked for.
    ///
    /// # Errors
    /// It is not known which GPU a launch ran on, or a code object is not what it should be.
    pub fn page(
        &self,
        arch: Option<&str>,
        catalogue: &mut dyn Catalogue,
        all: bool,
    ) -> Result<String> {
        let mut page = format!(
            "# What rocprofv3 measured\n\nWritten by `cargo xtask kernel-report --measured`, of:\n\n{}\n{}",
            self.files
                .iter()
                .map(|(path, held)| format!("- {}: {held}\n", path.display()))
                .collect::<String>(),
            page::FORMULAS
        );
        for (arch, section) in self.sections(arch)? {
            page += &page::section(&arch, &section, catalogue, all)?;
        }
        Ok(page)
    }

    fn sections(&self, given: Option<&str>) -> Result<BTreeMap<String, Section<'_>>> {
        let mut known: BTreeMap<&str, String> = BTreeMap::new();
        let agents = self.launches.iter().map(|launch| &launch.agent);
        for agent in agents.chain(self.counts.iter().map(|count| &count.agent)) {
            if !known.contains_key(agent.as_str()) {
                known.insert(agent, self.architecture(agent, given)?);
            }
        }
        let mut sections: BTreeMap<String, Section> = BTreeMap::new();
        for launch in &self.launches {
            let section = sections.entry(known[launch.agent.as_str()].clone());
            section.or_default().launches.push(launch);
        }
        for count in &self.counts {
            let section = sections.entry(known[count.agent.as_str()].clone());
            section.or_default().counts.push(count);
        }
        Ok(sections)
    }

    /// Which GPU the profiler calls so: `Agent 4`, `GPU 0` or `4`, by its `--agent-index`.
    fn architecture(&self, agent: &str, given: Option<&str>) -> Result<String> {
        if let Some(arch) = given {
            return Ok(arch.to_owned());
        }
        let digits = agent.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let index: Option<u64> = digits.parse().ok();
        let mut found: Vec<&str> = match index {
            Some(index) if agent.starts_with("GPU") => {
                let gpu = self.gpus.get(index as usize);
                gpu.into_iter().map(|gpu| gpu.name.as_str()).collect()
            }
            Some(index) => {
                let is_it = |gpu: &&Agent| gpu.node == index || gpu.logical == index;
                let gpus = self.gpus.iter().filter(is_it);
                gpus.map(|gpu| gpu.name.as_str()).collect()
            }
            None => self.gpus.iter().map(|gpu| gpu.name.as_str()).collect(),
        };
        found.sort_unstable();
        found.dedup();
        match found[..] {
            [one] => Ok(one.to_owned()),
            [] => Err(anyhow!(
                "no agent_info.csv among the files says which GPU {agent:?} is: give that file, too, which lies beside the \
                 others, or --arch, such as --arch gfx1100"
            )),
            _ => Err(anyhow!(
                "{agent:?} may be any of {}: give --arch, such as --arch {}",
                found.join(", "),
                found[0]
            )),
        }
    }
}
