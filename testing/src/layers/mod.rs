//! Holds a crate to its layers: each file imports only from its own layer and from those below, and no files import
//! each other in a circle.
//!
//! Imports are read from the source: `use` trees, and every path in code, in types and in macros' arguments that leads to
//! another file of the crate. A re-export is followed to the file that defines what is meant, so that an upper layer
//! cannot be reached by way of the crate's root. Code under `#[cfg(test)]` may import what it likes.
//!
//! What it cannot see: methods. An `impl` block of an upper layer adds methods to a type of a lower one, and a lower file
//! that calls such a method names no file. What a glob import brings is charged to the module that the glob names.

mod imports;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use tree::Tree;

pub use imports::Import;

/// A layer: its name, and the modules that stand on it (`"memory"`, `"hip::types"`). The longest name that fits a module
/// decides.
pub type Layer<'a> = (&'a str, &'a [&'a str]);

/// A fault in the order of a crate's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A file that no layer names.
    NoFloor(PathBuf),
    /// A layer's entry that fits no file.
    Empty(String),
    /// An import of something that stands above.
    Upward {
        /// The import.
        import: Import,
        /// The layer of the file that imports.
        from: String,
        /// The layer of what it imports; `None` if it stands on none, as the crate's root.
        to: Option<String>,
    },
    /// Files that import each other.
    Circle(Vec<Import>),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoFloor(file) => write!(f, "{}: stands on no floor", file.display()),
            Problem::Empty(name) => write!(f, "the floors name `{name}`, which is no module"),
            Problem::Upward { import, from, to } => {
                let Import {
                    from: file,
                    line,
                    path,
                    to: defining,
                    ..
                } = import;
                let above = to.as_deref().map_or("on no floor".to_owned(), |name| {
                    format!("on floor `{name}`, above it")
                });
                write!(
                    f,
                    "{}:{line}: floor `{from}` imports `{path}` of {}, which stands {above}",
                    file.display(),
                    defining.display()
                )
            }
            Problem::Circle(imports) => {
                write!(f, "a circle of files:")?;
                for import in imports {
                    let Import {
                        from,
                        line,
                        path,
                        to,
                        ..
                    } = import;
                    write!(
                        f,
                        "\n  {}:{line}: `{path}` of {}",
                        from.display(),
                        to.display()
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// The files of a crate and what they import of each other.
pub struct House {
    tree: Tree,
    imports: BTreeSet<Import>,
}

impl House {
    /// Reads the crate whose root module is `root`, such as `src/lib.rs`.
    ///
    /// # Errors
    /// A file cannot be read or is no Rust, or the file of a `mod` is not there.
    pub fn read(root: &Path) -> Result<Self> {
        let tree = Tree::read(root)?;
        let imports = imports::of(&tree);
        Ok(Self { tree, imports })
    }

    /// Every import of one file from another.
    pub fn imports(&self) -> impl Iterator<Item = &Import> {
        self.imports.iter()
    }

    /// What is wrong with the order of the files, with `layers` from the lowest up. The crate's root stands above all.
    pub fn problems(&self, layers: &[Layer<'_>]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut floor_of: BTreeMap<&Path, usize> = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (module, file) in self.tree.files() {
            match floor_of_module(&module.join("::"), layers) {
                Some((index, name)) => {
                    used.insert(name);
                    floor_of.insert(file, index);
                }
                None if module.is_empty() => {}
                None => problems.push(Problem::NoFloor(file.to_path_buf())),
            }
        }
        let named = layers.iter().flat_map(|(_, modules)| *modules);
        problems.extend(
            named
                .filter(|name| !used.contains(*name))
                .map(|name| Problem::Empty((*name).to_owned())),
        );
        for import in &self.imports {
            let Some(&from) = floor_of.get(import.from.as_path()) else {
                continue;
            };
            let to = floor_of.get(import.to.as_path()).copied();
            if to.is_none_or(|to| to > from) {
                problems.push(Problem::Upward {
                    import: import.clone(),
                    from: layers[from].0.to_owned(),
                    to: to.map(|to| layers[to].0.to_owned()),
                });
            }
        }
        problems.extend(self.circles());
        problems
    }

    /// The circles of files, each as the imports within it.
    pub fn circles(&self) -> Vec<Problem> {
        let mut graph: DiGraphMap<&Path, ()> = DiGraphMap::new();
        for import in self.imports.iter().filter(|import| !import.handed_on) {
            graph.add_edge(&import.from, &import.to, ());
        }
        let circles = tarjan_scc(&graph);
        circles
            .into_iter()
            .filter(|files| files.len() > 1)
            .map(|files| {
                let within = |file: &PathBuf| files.contains(&file.as_path());
                let imports = self.imports.iter().filter(|import| {
                    !import.handed_on && within(&import.from) && within(&import.to)
                });
                Problem::Circle(imports.cloned().collect())
            })
            .collect()
    }

    /// Panics with every problem, a line each.
    pub fn assert_layers(&self, layers: &[Layer<'_>]) {
        let problems = self.problems(layers);
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            problems.is_empty(),
            "{} faults in the order of the files:\n{}",
            problems.len(),
            lines.join("\n")
        );
    }
}

/// The layer of a module, and the entry that says so.
fn floor_of_module<'a>(module: &str, layers: &[Layer<'a>]) -> Option<(usize, &'a str)> {
    let entries = layers
        .iter()
        .enumerate()
        .flat_map(|(index, (_, names))| names.iter().map(move |name| (index, *name)));
    entries
        .filter(|(_, name)| {
            module
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
        .max_by_key(|(_, name)| name.len())
}
