//! Figures of the README and of pages for users: each comes from a file of the repository, from code, or from a
//! public report that its line names. Counts of other pages are made anew here.

use std::collections::BTreeSet;
use std::fs;
use std::sync::OnceLock;

use crate::pages::{self, Page};

/// Where a figure comes from.
enum Source {
    /// A source of the workspace, whichever it is, that has this text.
    Code(&'static str),
    /// What is counted or computed here.
    Made(fn() -> String),
    /// A public report that the same line names.
    Report(&'static str),
}

/// Words that make a number before them a figure. Numbers without a unit are names, versions and examples.
const UNITS: [&str; 38] = [
    "%",
    "us",
    "ms",
    "s",
    "second",
    "seconds",
    "minute",
    "minutes",
    "hour",
    "hours",
    "KB",
    "MB",
    "GB",
    "TB",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "GB/s",
    "TB/s",
    "tokens/s",
    "TFLOP/s",
    "MHz",
    "times",
    "kernel",
    "kernels",
    "modules",
    "processors",
    "files",
    "tests",
    "cases",
    "nodes",
    "elements",
    "columns",
    "tokens",
    "vectors",
    "lanes",
    "launches",
];

/// Every figure: the page, the figure as it stands there, its source.
const FIGURES: [(&str, &str, Source); 20] = [
    (
        "README.md",
        "22 processors",
        Source::Made(|| format!("{} processors", gpus(""))),
    ),
    (
        "docs/user/candle-host-bugs.md",
        "100,000 elements",
        Source::Made(|| "100,000 elements".to_owned()),
    ),
    (
        "docs/user/candle-host-bugs.md",
        "40 GB",
        Source::Made(|| format!("{} GB", 100_000u64.pow(2) * 4 / 1_000_000_000)),
    ),
    (
        "docs/user/candle-host-bugs.md",
        "8,192 columns",
        Source::Report("candle#2361"),
    ),
    (
        "docs/user/candle-host-bugs.md",
        "65,535 tokens",
        Source::Code("at most 65,535 workgroups along the dimension of tokens"),
    ),
    (
        "docs/user/candle-host-bugs.md",
        "8 vectors",
        Source::Code("for vectors in 1..=8"),
    ),
    (
        "docs/user/communication.md",
        "32 MiB",
        Source::Code("const COLLECTIVE_BYTES: usize = 32 << 20;"),
    ),
    (
        "docs/user/communication.md",
        "16 MiB",
        Source::Code("const CHANNEL_BYTES: usize = 16 << 20;"),
    ),
    (
        "docs/user/communication.md",
        "128 KiB",
        Source::Code("const FAR_PACKETS: u64 = 128 << 10;"),
    ),
    (
        "docs/user/communication.md",
        "1 MiB",
        Source::Code("const NEAR_PACKETS: u64 = 1 << 20;"),
    ),
    (
        "docs/user/communication.md",
        "72 MiB",
        Source::Code("const NEAR_BYTES: usize = 72 << 20;"),
    ),
    (
        "docs/user/communication.md",
        "512 tokens",
        Source::Code("const CHUNK: usize = 512;"),
    ),
    (
        "docs/user/communication.md",
        "4 MiB",
        Source::Code("const BUCKET_BYTES: usize = 4 << 20;"),
    ),
    (
        "docs/user/cuda-kernels.md",
        "32 lanes",
        Source::Code("const WARP: c_int = 32;"),
    ),
    (
        "docs/user/graphs.md",
        "200 kernels",
        Source::Code("const KERNELS: usize = 200;"),
    ),
    (
        "docs/user/models.md",
        "5 kernels",
        Source::Code("let most = [5, 5, 5];"),
    ),
    (
        "docs/user/models.md",
        "46 files",
        Source::Made(|| format!("{} files", files_of_mistralrs())),
    ),
    (
        "docs/user/operators.md",
        "256 elements",
        Source::Code("heads of up to 256 elements"),
    ),
    (
        "docs/user/rocm-releases.md",
        "200 nodes",
        Source::Report("ROCm/hip 3887"),
    ),
    (
        "docs/user/troubleshooting.md",
        "512 elements",
        Source::Code("a cache's heads have 8 to 512 elements"),
    ),
];

/// What says how many cases of parity are recorded.
const RECORDED_PARITY: &str = "tests/parity/README.md";

/// A text of a page, with `{}` for each number, and how the numbers are counted.
type Claim = (&'static str, &'static str, fn() -> Vec<usize>);

/// Counts that pages state in words of their own.
const CLAIMS: [Claim; 6] = [
    ("README.md", "all tests on {} of the GPUs", || {
        vec![gpus("| all tests |")]
    }),
    ("docs/evidence/README.md", "of the {} run a story", || {
        vec![gpus("")]
    }),
    (
        "docs/evidence/README.md",
        "code objects in the binary, of {} modules",
        || vec![modules()],
    ),
    (
        "docs/evidence/README.md",
        "({} on CDNA, {} on RDNA2, {} on RDNA3 and 4)",
        || {
            assert_eq!(
                (kernels("gfx90a"), kernels("gfx12-generic")),
                (kernels("gfx942"), kernels("gfx11-generic"))
            );
            ["gfx942", "gfx10-3-generic", "gfx11-generic"]
                .map(kernels)
                .to_vec()
        },
    ),
    (
        "docs/kernels/modules.md",
        "There are {} modules. The first eleven are Candle's",
        || vec![modules()],
    ),
    (
        "candle-rocm-transformers/README.md",
        "A layer takes {} kernels while it decodes, of quantised weights, too",
        || vec![kernels_of_a_layer()],
    ),
];

/// Rows of the table of supported GPUs that have this text.
fn gpus(with: &str) -> usize {
    let page = pages::read("docs/user/gpus.md");
    page.lines()
        .filter(|line| line.contains("| gfx") && line.contains(with))
        .count()
}

/// Modules of kernels: each is a file of its own.
fn modules() -> usize {
    pages::files("candle-rocm-kernels/kernels", &["cu"]).len()
}

/// Kernels of a target, by the recorded table of its resources.
fn kernels(target: &str) -> usize {
    let tables = pages::files("candle-rocm-kernels/resources", &["tsv"]);
    let table = tables
        .iter()
        .find(|path| path.ends_with(&format!("/{target}.tsv")));
    let text = pages::read(table.unwrap_or_else(|| panic!("no table of {target}")));
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("module\t"))
        .count()
}

/// What a test of candle-rocm-transformers holds each layer to.
fn kernels_of_a_layer() -> usize {
    let bound = |file: &str, begin: &str| -> Option<usize> {
        let test = pages::read(&format!("candle-rocm-transformers/tests/{file}"));
        let line = test
            .lines()
            .find_map(|line| Some(line.trim().strip_prefix(begin)?.to_owned()));
        line?.split([',', ')']).next()?.trim().parse().ok()
    };
    let dense = bound("families.rs", "let most = [").expect("the test's bound");
    assert_eq!(
        bound("llama.rs", "([GgmlDType::Q4K; 3],"),
        Some(dense),
        "of quantised weights"
    );
    dense
}

/// mistral.rs' files of kernels, by the table of what was compiled.
fn files_of_mistralrs() -> usize {
    let page = pages::read("docs/evidence/cuda.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| mistralrs-"));
    rows.filter_map(|row| row.split('|').nth(1)?.trim().parse::<usize>().ok())
        .sum()
}

/// A number with commas, as pages have it.
fn shown(number: usize) -> String {
    let digits = number.to_string();
    let with_commas = digits.char_indices().flat_map(|(at, digit)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    });
    with_commas.collect()
}

/// The figures of a line: numbers with the unit behind them, outside of code and of links' targets.
fn figures(line: &str) -> Vec<String> {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = outside
        .split(|c: char| c.is_whitespace() || "|()[]".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let number = pair[0];
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number
                .chars()
                .all(|c| c.is_ascii_digit() || ",.".contains(c));
        let unit = pair[1].trim_end_matches(|c: char| ",.;:".contains(c));
        (is_number && !number.ends_with([',', '.']) && UNITS.contains(&unit))
            .then(|| format!("{number} {unit}"))
    });
    pairs.collect()
}

/// The workspace's sources, but for those of this test.
fn sources() -> &'static [String] {
    static SOURCES: OnceLock<Vec<String>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let files = pages::files("", &["rs"]).into_iter();
        let ours = files.filter(|path| !path.starts_with("xtask/tests/book/"));
        ours.map(|path| fs::read_to_string(pages::root().join(path)).unwrap_or_default())
            .collect()
    })
}

/// Whether a figure is what its source says.
fn is_traced(figure: &str, line: &str, source: &Source) -> bool {
    match source {
        Source::Code(text) => {
            let number = figure
                .split(' ')
                .next()
                .unwrap_or_default()
                .replace(',', "");
            sources().iter().any(|source| source.contains(text))
                && text.replace([',', '_'], "").contains(&number)
        }
        Source::Made(made) => made() == figure,
        Source::Report(name) => line.contains(name),
    }
}

#[test]
fn figures_have_sources() {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for page in pages::for_users() {
        for (number, line) in page.prose() {
            for figure in figures(line) {
                let row = FIGURES
                    .iter()
                    .position(|(path, known, _)| *path == page.path && *known == figure);
                let place = format!("{}:{number}: {figure}", page.path);
                match row {
                    None => faults.push(format!("{place}: no row in {}", file!())),
                    Some(row) if !is_traced(&figure, line, &FIGURES[row].2) => {
                        faults.push(format!("{place}: the source says otherwise"))
                    }
                    Some(row) => drop(used.insert(row)),
                }
            }
        }
    }
    let unused = (0..FIGURES.len()).filter(|row| !used.contains(row));
    faults.extend(unused.map(|row| format!("{}: {} is not there", FIGURES[row].0, FIGURES[row].1)));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn counts_of_pages_are_right() {
    for (path, text, count) in CLAIMS {
        let numbers = count();
        let claim = numbers.iter().fold(text.to_owned(), |text, number| {
            text.replacen("{}", &shown(*number), 1)
        });
        let page = pages::read(path)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(page.contains(&claim), "{path} does not say {claim:?}");
    }
}

/// The numbers of a text, without the commas of thousands.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && !",.".contains(c));
    let trimmed = words.map(|word| word.trim_matches([',', '.']).replace(',', ""));
    trimmed.filter(|word| !word.is_empty()).collect()
}

/// The table of what an NVIDIA H200 was timed at: each of its numbers is in a recorded page.
#[test]
fn times_of_the_evidence_are_recorded() {
    const PAGE: &str = "docs/evidence/README.md";
    const HEAD: &str = "| beside Candle's own CUDA backend | |\n|---|---|\n";
    let page = pages::read(PAGE);
    let (_, table) = page.split_once(HEAD).expect("the table of times");
    let (table, _) = table.split_once("\n\n").expect("the table's end");
    let recorded: Vec<String> = pages::files("benches/results", &["md"])
        .iter()
        .chain([&RECORDED_PARITY.to_owned()])
        .map(|path| pages::read(path))
        .collect();
    let known: BTreeSet<String> = recorded.iter().flat_map(|text| numbers(text)).collect();
    let found: Vec<String> = numbers(table);
    assert!(found.len() > 50, "only {} numbers", found.len());
    let unknown: Vec<&String> = found
        .iter()
        .filter(|number| !known.contains(*number))
        .collect();
    assert!(
        unknown.is_empty(),
        "{PAGE}: no recorded page has {unknown:?}"
    );
}

#[test]
fn figures_are_found() {
    let line = "takes 12.5 us, of 1,554 kernels (90 %) and `500 MiB`, by 2 GPUs, in 7.2.1 and";
    assert_eq!(figures(line), ["12.5 us", "1,554 kernels", "90 %"]);
    assert_eq!(shown(1_554), "1,554");
    let page = Page {
        path: String::new(),
        text: "```text\n5 us\n```\n6 us\n".to_owned(),
    };
    let found: Vec<String> = page
        .prose()
        .into_iter()
        .flat_map(|(_, line)| figures(line))
        .collect();
    assert_eq!(found, ["6 us"]);
}

/// What the README's picture shows of a model is the beginning of its recorded text.
#[test]
fn the_pictures_texts_are_recorded() {
    for (model, prompt, end) in [
        (
            "llama-stories",
            "Once upon a time, there was a little fox",
            "and said nothing.",
        ),
        ("gpt2-sums", "58+12=", "70"),
    ] {
        let truth = pages::read(&format!("models/{model}/truth.json"));
        let truth: serde_json::Value = serde_json::from_str(&truth).expect("JSON");
        let cases = truth["cases"].as_array().expect("cases");
        let case = cases.iter().find(|case| case["prompt"] == prompt);
        let text = case.expect("the prompt's case")["text"]
            .as_str()
            .expect("a text");
        let (begin, _) = text.split_once(end).expect("the picture's end");
        let shown = format!("{prompt}{begin}{end}");
        let readme = pages::read("README.md");
        let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            readme.contains(&shown),
            "the README does not show {shown:?}"
        );
    }
}
