//! A page with kernels: its steps, and the tables of figures in it.

use std::collections::HashMap;
use std::path::PathBuf;

use candle_rocm_testing::sources;

/// What stands before a kernel that is launched.
const LAUNCH: &str = "// launch ";

/// A kernel's launch as its page says it: `// launch NAME: grid X x Y x Z, N work-items; ARGUMENTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The kernel.
    pub name: String,
    /// Workgroups along x, y and z: products and quotients of names and numbers, from left to right.
    pub grid: [String; 3],
    /// Work-items of a workgroup, or wavefronts where `of_wavefronts`.
    pub items: u32,
    /// See `items`.
    pub of_wavefronts: bool,
    /// Names of buffers and sizes, in order.
    pub arguments: Vec<String>,
}

impl Launch {
    /// From a line of C++; `None` where it is none.
    fn of(line: &str) -> Option<Launch> {
        let rest = line.strip_prefix(LAUNCH)?;
        let parts = rest.split_once(": grid ").and_then(|(name, rest)| {
            let (grid, rest) = rest.split_once(", ")?;
            let (items, arguments) = rest.split_once("; ")?;
            let (items, unit) = items.split_once(' ')?;
            Some((name, grid, items.parse().ok()?, unit, arguments))
        });
        let (name, grid, items, unit, arguments) =
            parts.unwrap_or_else(|| panic!("{line:?} says no launch"));
        assert!(["work-items", "wavefronts"].contains(&unit), "{line}");
        let mut sizes = grid.split(" x ").map(str::to_owned);
        Some(Launch {
            name: name.to_owned(),
            grid: [(); 3].map(|()| sizes.next().unwrap_or_else(|| "1".to_owned())),
            items,
            of_wavefronts: unit == "wavefronts",
            arguments: arguments.split(' ').map(str::to_owned).collect(),
        })
    }
}

/// The value of `m*n/1024` and the like.
///
/// # Panics
/// A name is unknown, or a quotient has a remainder.
pub fn value(expression: &str, names: &HashMap<&str, u32>) -> u32 {
    let mut value = 1;
    let mut divides = false;
    for word in expression.split_inclusive(['*', '/']) {
        let name = word.trim_end_matches(['*', '/']);
        let number = name.parse().ok().or_else(|| names.get(name).copied());
        let number = number.unwrap_or_else(|| panic!("{expression}: what is {name}?"));
        if divides {
            assert_eq!(value % number, 0, "{expression} has a remainder");
            value /= number;
        } else {
            value *= number;
        }
        divides = word.ends_with('/');
    }
    value
}

/// One step of a ladder.
pub struct Step {
    /// Its heading, number included.
    pub title: String,
    /// What is compiled: all blocks before it that launch nothing, and its own.
    pub source: String,
    /// Its kernels, in the order in which they run.
    pub launches: Vec<Launch>,
    /// What it says beside its blocks.
    pub prose: String,
}

/// A page of the book.
pub struct Page {
    path: PathBuf,
    /// As it is.
    pub text: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// The lines that begin and end a table.
fn marks(name: &str) -> [String; 2] {
    [
        format!("<!-- figures: {name} -->\n"),
        "<!-- end of figures -->\n".to_owned(),
    ]
}

impl Page {
    /// Reads `docs/kernels/NAME.md`.
    pub fn read(name: &str) -> Page {
        let path = sources::root().join(format!("docs/kernels/{name}.md"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let steps = steps(&text);
        Page { path, text, steps }
    }

    /// The page with other figures of this name.
    ///
    /// # Panics
    /// It has no place for them.
    pub fn set(&mut self, name: &str, figures: &str) {
        let [begin, end] = marks(name);
        let place = self.text.split_once(&begin).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(&end)?;
            Some((before, after))
        });
        let (before, after) =
            place.unwrap_or_else(|| panic!("{}: no {begin}", self.path.display()));
        self.text = format!("{before}{begin}\n{figures}\n{end}{after}");
    }

    /// Writes it.
    pub fn write(&self) {
        std::fs::write(&self.path, &self.text).expect("the page can be written");
    }
}

/// The cells of each row of a table, its heads left out.
pub fn table_rows(text: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .map(str::to_owned)
            .collect()
    };
    lines.skip(1).map(cells)
}

/// The steps of a page: sections whose headings begin with a number.
fn steps(text: &str) -> Vec<Step> {
    let mut shared = String::new();
    let mut steps = Vec::new();
    for section in text.split("\n## ") {
        let title = section.lines().next().unwrap_or_default();
        let mut own = String::new();
        let mut blocks = section.split("\n```cpp\n");
        let mut prose = blocks.next().unwrap_or_default().to_owned();
        for block in blocks {
            let (block, after) = block.split_once("\n```").expect("a block ends");
            prose.push_str(after);
            let to = if block.contains(LAUNCH) {
                &mut own
            } else {
                &mut shared
            };
            to.push_str(block);
            to.push('\n');
        }
        if title.starts_with(|c: char| c.is_ascii_digit()) {
            let launches: Vec<Launch> = own.lines().filter_map(Launch::of).collect();
            assert!(!launches.is_empty(), "{title}: nothing is launched");
            steps.push(Step {
                title: title.to_owned(),
                source: format!("{shared}{own}"),
                launches,
                prose,
            });
        }
    }
    steps
}

#[test]
fn launches_and_sizes_are_read() {
    let launch = Launch::of("// launch f: grid m*n/64 x 2, 4 wavefronts; a c n").expect("a launch");
    assert_eq!(launch.grid, ["m*n/64", "2", "1"]);
    assert_eq!(
        (launch.items, launch.of_wavefronts, launch.arguments.len()),
        (4, true, 3)
    );
    assert_eq!(Launch::of("KERNEL f() {"), None);
    let names = HashMap::from([("m", 128), ("n", 32)]);
    assert_eq!(value("m*n/64", &names), 64);
    assert_eq!(value("m/2/n", &names), 2);
}

#[test]
fn blocks_that_launch_nothing_are_there_for_later_steps() {
    let text =
        "# A\n\n## All\n\n```cpp\nint x;\n```\n\n## 1. One\n\n```cpp\nint y;\n```\n\nThen\n\n```cpp\n\
                // launch f: grid 1, 64 work-items; a\n```\n\n## 2. Two\n\n```cpp\n\
                // launch g: grid 1, 64 work-items; a\n```\n";
    let steps = steps(text);
    assert_eq!(steps.len(), 2);
    let words: Vec<&str> = steps[0].prose.split_whitespace().collect();
    assert_eq!(words, ["1.", "One", "Then"]);
    assert_eq!(
        steps[1].source,
        "int x;\nint y;\n// launch g: grid 1, 64 work-items; a\n"
    );
}

#[test]
fn cells_of_tables_are_read() {
    let text = "\n| step | a |\n|---|---:|\n| 1. One | 1,024 |\n\nAfter.\n";
    let rows: Vec<Vec<String>> = table_rows(text).collect();
    assert_eq!(rows, [["1. One", "1,024"]]);
}
