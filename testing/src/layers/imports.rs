//! What each file imports: its paths, resolved to the files that define what they name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, Visibility};

use super::tree::{attributes, flatten, is_test, segments, ModulePath, Tree};

/// What one file takes from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that imports, below the source folder.
    pub from: PathBuf,
    /// The line of the first mention.
    pub line: usize,
    /// What it names, as the source has it.
    pub path: String,
    /// The file that defines it.
    pub to: PathBuf,
    /// Whether it is only handed on (`pub use`), which makes no circle.
    pub handed_on: bool,
}

/// Every import of the crate, the first mention of each (file, file).
pub fn of(tree: &Tree) -> BTreeSet<Import> {
    let mut found: BTreeMap<(PathBuf, PathBuf, bool), Import> = BTreeMap::new();
    for (module, file, syntax) in tree.sources() {
        let mut reader = Reader {
            module: module.clone(),
            mentions: Vec::new(),
        };
        reader.visit_file(syntax);
        for mention in reader.mentions {
            let Some(to) = resolve(tree, &mention.module, &mention.path, 0) else {
                continue;
            };
            if to == *file {
                continue;
            }
            let import = Import {
                from: file.clone(),
                line: mention.line,
                path: mention.path.join("::"),
                to: to.clone(),
                handed_on: mention.handed_on,
            };
            found
                .entry((file.clone(), to, mention.handed_on))
                .or_insert(import);
        }
    }
    found.into_values().collect()
}

/// A path in the source.
struct Mention {
    module: ModulePath,
    path: Vec<String>,
    line: usize,
    handed_on: bool,
}

/// Collects the paths of a file.
struct Reader {
    module: ModulePath,
    mentions: Vec<Mention>,
}

impl Reader {
    fn mention(&mut self, path: Vec<String>, line: usize, handed_on: bool) {
        self.mentions.push(Mention {
            module: self.module.clone(),
            path,
            line,
            handed_on,
        });
    }

    /// Macros' arguments are no syntax yet; paths in them are runs of names with `::` between.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match &token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.end_of_path(&mut path, line);
                        line = name.span().start().line;
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.end_of_path(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_of_path(&mut path, line);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.mention(path, line, false);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            Item::Use(item) => {
                let handed_on = !matches!(item.vis, Visibility::Inherited);
                let line = item.use_token.span.start().line;
                let mut paths = Vec::new();
                flatten(&item.tree, &mut Vec::new(), &mut |import| {
                    paths.push(segments(import))
                });
                for path in paths {
                    self.mention(path, line, handed_on);
                }
            }
            Item::Mod(inner) => {
                self.module.push(inner.ident.to_string());
                visit::visit_item(self, item);
                self.module.pop();
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.mention(
                names.collect(),
                path.segments[0].ident.span().start().line,
                false,
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// More re-exports than this in a row are a circle of their own.
const LONGEST_CHAIN: usize = 16;

/// The file that defines what `path` means in `module`; `None` if it leads out of the crate.
fn resolve(tree: &Tree, module: &[String], path: &[String], chain: usize) -> Option<PathBuf> {
    if chain > LONGEST_CHAIN {
        return None;
    }
    let (mut at, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (module.to_vec(), &path[1..]),
        "super" => (module.split_last()?.1.to_vec(), &path[1..]),
        first => {
            // A module or a name of this module; anything else is another crate's, or a type's.
            let here = tree.module(module)?;
            let child = [module, &[first.to_owned()]].concat();
            if tree.module(&child).is_none()
                && !here.names.contains_key(first)
                && !here.defined.contains(first)
            {
                return None;
            }
            (module.to_vec(), path)
        }
    };
    while let Some((name, after)) = rest.split_first() {
        if name == "super" {
            at.pop()?;
            rest = after;
            continue;
        }
        let child = [at.as_slice(), std::slice::from_ref(name)].concat();
        if tree.module(&child).is_some() {
            (at, rest) = (child, after);
            continue;
        }
        let here = tree.module(&at)?;
        if here.defined.contains(name) {
            return Some(here.file.clone());
        }
        if let Some(target) = here.names.get(name) {
            // `use name;` of a macro defined in the same file names itself.
            if target.len() == 1 && target[0] == *name {
                return Some(here.file.clone());
            }
            let whole = [target.as_slice(), after].concat();
            return resolve(tree, &at, &whole, chain + 1);
        }
        let by_glob = here.globs.iter().find_map(|glob| {
            let whole = [glob.as_slice(), rest].concat();
            let found = resolve(tree, &at, &whole, chain + 1)?;
            defines(tree, &found, name).then_some(found)
        });
        return Some(by_glob.unwrap_or_else(|| here.file.clone()));
    }
    tree.module(&at).map(|module| module.file.clone())
}

/// Whether a module of `file` defines `name`.
fn defines(tree: &Tree, file: &PathBuf, name: &str) -> bool {
    tree.files()
        .filter(|(_, path)| path == file)
        .filter_map(|(module, _)| tree.module(module))
        .any(|module| module.defined.contains(name))
}
