//! The project's pages: every Markdown file, with its headings, links and lines.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

pub use candle_rocm_testing::sources::root;

use candle_rocm_testing::sources;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders that hold no pages of the project.
const NOT_OURS: [&str; 2] = ["target", ".git"];

/// The book's folder.
pub const BOOK: &str = "docs/";

/// Pages that programs write, by name, and the test that holds each or the command that writes it.
pub const GENERATED: [(&str, &str); 3] = [
    (
        "docs/user/environment.md",
        "candle-rocm-variables/tests/page.rs",
    ),
    ("docs/user/gpus.md", "rocm-gpus/tests/page.rs"),
    (
        "docs/evidence/kernel-report.md",
        "xtask/src/kernel_report.rs",
    ),
];

/// One page.
pub struct Page {
    /// From the repository's root, with `/`.
    pub path: String,
    /// As it is.
    pub text: String,
}

/// A heading with the text below it, up to the next heading of its level or above.
pub struct Section {
    /// The name by which links reach it.
    pub anchor: String,
    pub text: String,
}

/// The text of a file of the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of these kinds below a folder of the repository, sorted, from its root.
pub fn files(folder: &str, extensions: &[&str]) -> Vec<String> {
    let found = sources::below(&root().join(folder), extensions, |path, name| {
        !NOT_OURS.contains(&name) && !sources::is_of_builds(path)
    });
    let short = |path: PathBuf| {
        path.strip_prefix(root())
            .map(|path| path.display().to_string())
    };
    let found = found.into_iter().map(short);
    found.collect::<Result<_, _>>().expect("below the root")
}

/// Every page, by path.
pub fn all() -> Vec<Page> {
    let read = |path: String| Page {
        text: read(&path),
        path,
    };
    files("", &["md"]).into_iter().map(read).collect()
}

/// The README and the pages for users, but for those that programs write.
pub fn for_users() -> Vec<Page> {
    let is_generated = |path: &str| GENERATED.iter().any(|(page, _)| *page == path);
    let is_users = |page: &Page| page.path == "README.md" || page.path.starts_with("docs/user/");
    let pages = all().into_iter();
    pages
        .filter(|page| is_users(page) && !is_generated(&page.path))
        .collect()
}

/// GitHub's name of a heading: small letters, digits, `-` and `_` of it, `-` for each space.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

impl Page {
    fn events(&self) -> impl Iterator<Item = (Event<'_>, std::ops::Range<usize>)> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter()
    }

    /// What links point to, in order, images included.
    pub fn links(&self) -> Vec<String> {
        let target = |event: Event<'_>| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.to_string())
            }
            _ => None,
        };
        self.events()
            .filter_map(|(event, _)| target(event))
            .collect()
    }

    /// Its headings, each with its text. Of equal names the second has `-1` behind it, and so on.
    pub fn sections(&self) -> Vec<Section> {
        let mut starts: Vec<(u32, String, usize)> = Vec::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut heading: Option<(u32, String, usize)> = None;
        for (event, range) in self.events() {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    heading = Some((level as u32, String::new(), range.start));
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some((_, words, _)) = &mut heading {
                        words.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let (level, words, start) = heading.take().expect("a heading that began");
                    let name = slug(&words);
                    let count = seen.entry(name.clone()).or_default();
                    let anchor = match *count {
                        0 => name,
                        number => format!("{name}-{number}"),
                    };
                    *count += 1;
                    starts.push((level, anchor, start));
                }
                _ => {}
            }
        }
        let end = |number: usize| {
            let level = starts[number].0;
            let next = starts[number + 1..]
                .iter()
                .find(|(other, ..)| *other <= level);
            next.map_or(self.text.len(), |(.., start)| *start)
        };
        let section = |number: usize| Section {
            anchor: starts[number].1.clone(),
            text: self.text[starts[number].2..end(number)].to_owned(),
        };
        (0..starts.len()).map(section).collect()
    }

    /// Its lines outside of blocks of code, each with its number.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let mut fenced = false;
        let mut lines = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced && !line.starts_with("    ") {
                lines.push((number + 1, line));
            }
        }
        lines
    }

    /// The blocks of code of a language.
    pub fn blocks(&self, language: &str) -> Vec<&str> {
        let begin = format!("```{language}\n");
        let parts = self.text.split(&begin).skip(1);
        parts
            .filter_map(|part| Some(part.split_once("\n```")?.0))
            .collect()
    }
}

#[test]
fn headings_have_githubs_names() {
    for (heading, name) in [
        ("How do I compile my own .cu?", "how-do-i-compile-my-own-cu"),
        (
            "\"no kernel image\", \"holds no code for\"",
            "no-kernel-image-holds-no-code-for",
        ),
        ("HSA_OVERRIDE_GFX_VERSION", "hsa_override_gfx_version"),
        ("split-K", "split-k"),
    ] {
        assert_eq!(slug(heading), name);
    }
}

#[test]
fn sections_end_where_the_next_of_their_level_begins() {
    let text =
        "# A\n\none\n\n## B\n\ntwo\n\n```sh\n# no heading\n```\n\n## B\n\nthree\n".to_owned();
    let page = Page {
        path: "a.md".to_owned(),
        text,
    };
    let sections = page.sections();
    let names: Vec<&str> = sections
        .iter()
        .map(|section| section.anchor.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "b-1"]);
    assert!(sections[0].text.contains("three") && !sections[1].text.contains("three"));
    assert_eq!(page.blocks("sh"), ["# no heading"]);
}
