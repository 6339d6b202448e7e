//! The modules of a crate: their files, what each defines and what it hands on from elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use syn::{Attribute, Item, Meta};

/// A module's path from the crate's root, which is empty for the root itself.
pub type ModulePath = Vec<String>;

/// One module.
#[derive(Default)]
pub struct Module {
    /// Its file, below the source folder.
    pub file: PathBuf,
    /// What it imports by name: the name here, and the path as written.
    pub names: HashMap<String, Vec<String>>,
    /// Paths whose whole content it imports.
    pub globs: Vec<Vec<String>>,
    /// What it defines itself.
    pub defined: HashSet<String>,
}

/// All modules of a crate.
pub struct Tree {
    modules: BTreeMap<ModulePath, Module>,
    sources: Vec<(ModulePath, PathBuf, syn::File)>,
}

impl Tree {
    /// Reads `root` and every file that its modules name.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Tree {
            modules: BTreeMap::new(),
            sources: Vec::new(),
        };
        let folder = root.parent().unwrap_or(Path::new(""));
        tree.read_file(folder, root, Vec::new(), folder)?;
        Ok(tree)
    }

    /// The file of each module that has one of its own.
    pub fn files(&self) -> impl Iterator<Item = (&ModulePath, &Path)> {
        self.sources
            .iter()
            .map(|(module, file, _)| (module, file.as_path()))
    }

    /// Each file with its module and its syntax.
    pub fn sources(&self) -> &[(ModulePath, PathBuf, syn::File)] {
        &self.sources
    }

    /// The module of this path.
    pub fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.get(path)
    }

    /// `children` is the folder of the files of modules that this file declares.
    fn read_file(
        &mut self,
        source: &Path,
        file: &Path,
        module: ModulePath,
        children: &Path,
    ) -> Result<()> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let syntax =
            syn::parse_file(&text).with_context(|| format!("parsing {}", file.display()))?;
        let short = file.strip_prefix(source).unwrap_or(file).to_path_buf();
        let folders = Folders {
            children,
            given: file.parent().unwrap_or(Path::new("")),
        };
        self.read_items(source, &short, &syntax.items, &module, folders)?;
        self.sources.push((module, short, syntax));
        Ok(())
    }

    fn read_items(
        &mut self,
        source: &Path,
        file: &Path,
        items: &[Item],
        path: &ModulePath,
        folders: Folders<'_>,
    ) -> Result<()> {
        let mut module = Module {
            file: file.to_path_buf(),
            ..Module::default()
        };
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Use(item) => flatten(&item.tree, &mut Vec::new(), &mut |import| match import
                    .last()
                {
                    None => {}
                    Some(Leaf::Glob) => module.globs.push(segments(import)),
                    Some(Leaf::As(_, name)) if name == "_" => {}
                    Some(Leaf::Name(name) | Leaf::As(_, name)) => {
                        module.names.insert(name.clone(), segments(import));
                    }
                }),
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let inner = [path.as_slice(), std::slice::from_ref(&name)].concat();
                    let below = folders.children.join(&name);
                    match &item.content {
                        Some((_, items)) => {
                            let folders = Folders {
                                children: &below,
                                given: &below,
                            };
                            self.read_items(source, file, items, &inner, folders)?
                        }
                        None => {
                            let (found, below) = file_of(folders, &name, &item.attrs)?;
                            self.read_file(source, &found, inner, &below)?;
                        }
                    }
                }
                Item::Macro(item) => {
                    if let Some(name) = &item.ident {
                        let exported = item.attrs.iter().any(|a| a.path().is_ident("macro_export"));
                        if exported {
                            // Such a macro is a name of the crate's root.
                            let from = [&["crate".to_owned()][..], path, &[name.to_string()]];
                            let root = self.modules.entry(Vec::new()).or_default();
                            root.names.insert(name.to_string(), from.concat());
                        }
                        module.defined.insert(name.to_string());
                    }
                }
                item => module.defined.extend(name_of(item)),
            }
        }
        let slot = self.modules.entry(path.clone()).or_default();
        module.names.extend(std::mem::take(&mut slot.names));
        *slot = module;
        Ok(())
    }
}

/// Where the files of a module's `mod name;` lie.
#[derive(Clone, Copy)]
struct Folders<'a> {
    /// Those named after the module.
    children: &'a Path,
    /// Those that `#[path]` names.
    given: &'a Path,
}

/// The file of `mod name;`, and the folder of the files of its own modules.
fn file_of(
    folders: Folders<'_>,
    name: &str,
    attributes: &[Attribute],
) -> Result<(PathBuf, PathBuf)> {
    let given = attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let syn::Expr::Lit(value) = &pair.value else {
            return None;
        };
        match &value.lit {
            syn::Lit::Str(text) if pair.path.is_ident("path") => Some(text.value()),
            _ => None,
        }
    });
    let below = folders.children.join(name);
    let candidates = match given {
        Some(path) => {
            let file = folders.given.join(path);
            let beside = file.parent().unwrap_or(Path::new("")).to_path_buf();
            vec![(file, beside)]
        }
        None => vec![
            (folders.children.join(format!("{name}.rs")), below.clone()),
            (below.join("mod.rs"), below),
        ],
    };
    match candidates.iter().find(|(file, _)| file.is_file()) {
        Some(found) => Ok(found.clone()),
        None => {
            let candidates: Vec<_> = candidates.iter().map(|(file, _)| file).collect();
            bail!("the file of module `{name}` is none of {candidates:?}")
        }
    }
}

/// The end of a branch of a `use` tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A segment, or the name at the end.
    Name(String),
    /// `name as other`.
    As(String, String),
    /// `*`.
    Glob,
}

/// Calls `found` for each branch of a `use` tree, with all its segments.
pub fn flatten(tree: &syn::UseTree, before: &mut Vec<Leaf>, found: &mut dyn FnMut(&[Leaf])) {
    let depth = before.len();
    match tree {
        syn::UseTree::Path(path) => {
            before.push(Leaf::Name(path.ident.to_string()));
            flatten(&path.tree, before, found);
        }
        // `a::{self}` is `a`.
        syn::UseTree::Name(name) if name.ident == "self" => found(before),
        syn::UseTree::Rename(name) if name.ident == "self" => {
            let mut renamed = before.clone();
            if let Some(Leaf::Name(last)) = renamed.pop() {
                renamed.push(Leaf::As(last, name.rename.to_string()));
                found(&renamed);
            }
        }
        syn::UseTree::Name(name) => {
            before.push(Leaf::Name(name.ident.to_string()));
            found(before);
        }
        syn::UseTree::Rename(name) => {
            before.push(Leaf::As(name.ident.to_string(), name.rename.to_string()));
            found(before);
        }
        syn::UseTree::Glob(_) => {
            before.push(Leaf::Glob);
            found(before);
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, found);
            }
        }
    }
    before.truncate(depth);
}

/// A branch's segments as written, without a glob's star.
pub fn segments(import: &[Leaf]) -> Vec<String> {
    import
        .iter()
        .filter_map(|leaf| match leaf {
            Leaf::Name(name) | Leaf::As(name, _) => Some(name.clone()),
            Leaf::Glob => None,
        })
        .collect()
}

/// Whether the item is compiled for tests alone.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || match &attribute.meta {
                Meta::List(list) => {
                    list.path.is_ident("cfg") && list.tokens.to_string().trim() == "test"
                }
                _ => false,
            }
    })
}

/// An item's attributes.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// What an item is called in its module, if it has a name there.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
