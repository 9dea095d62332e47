//! The modules of a crate, and which of them a path leads to.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow};
use syn::Item;

use super::condition::is_test;
use super::paths::{self, Content};

/// Number of imports that are followed from a name to where it is defined: names of other crates
/// may seem to import each other.
const FOLLOWED: usize = 8;

/// A module, in a file of its own or not.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) file: String,
    pub(super) content: Content,
}

/// All modules of a crate by their paths, without `crate`, and without those of tests.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<Vec<String>, Module>);

impl Modules {
    /// Reads the crate with this root file; `texts` has its files.
    ///
    /// # Errors
    /// Fails if a file is missing, or is not Rust.
    pub(super) fn read(root: &str, texts: &BTreeMap<String, String>) -> Result<Self> {
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut modules = Self::default();
        modules.add_file(Vec::new(), root, folder, texts)?;
        Ok(modules)
    }

    fn add_file(
        &mut self,
        path: Vec<String>,
        file: &str,
        folder: &str,
        texts: &BTreeMap<String, String>,
    ) -> Result<()> {
        let text = texts
            .get(file)
            .with_context(|| format!("{file} is missing"))?;
        let parsed = syn::parse_file(text).map_err(|error| {
            anyhow!(
                "{file}:{}: it is not Rust: {error}",
                error.span().start().line
            )
        })?;
        if is_test(&parsed.attrs) {
            return Ok(());
        }
        self.add(path, file, folder, &parsed.items, texts)
    }

    /// Adds a module and its descendants, whose files are in the folder.
    fn add(
        &mut self,
        path: Vec<String>,
        file: &str,
        folder: &str,
        items: &[Item],
        texts: &BTreeMap<String, String>,
    ) -> Result<()> {
        let (content, children) = paths::read(items);
        for child in children.into_iter().filter(|child| child.ident != "tests") {
            let name = paths::text(&child.ident);
            let path = joined(&path, &name);
            let inner = format!("{folder}/{name}");
            if let Some((_, items)) = &child.content {
                self.add(path, file, &inner, items, texts)?;
            } else {
                let own = [format!("{inner}.rs"), format!("{inner}/mod.rs")]
                    .into_iter()
                    .find(|own| texts.contains_key(own));
                let own = own.with_context(|| {
                    format!("{file}: the file of the module {name} is missing (`#[path]` is not supported)")
                })?;
                self.add_file(path, &own, &inner, texts)?;
            }
        }
        self.0.insert(
            path,
            Module {
                file: file.to_owned(),
                content,
            },
        );
        Ok(())
    }

    /// Returns all modules with their paths.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<String>, &Module)> {
        self.0.iter()
    }

    /// Returns the module that defines what a path means in a module, and what is left of the path
    /// there. What is not in the crate is as if it were defined by the module that imports it.
    pub(super) fn find(&self, module: &[String], path: &[String]) -> (Vec<String>, Vec<String>) {
        self.follow(module, path, FOLLOWED)
    }

    fn follow(
        &self,
        module: &[String],
        path: &[String],
        imports: usize,
    ) -> (Vec<String>, Vec<String>) {
        let mut at = module.to_vec();
        let mut rest = path;
        while let [name, after @ ..] = rest {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => _ = at.pop(),
                _ if self.0.contains_key(&joined(&at, name)) => at.push(name.clone()),
                _ => break,
            }
            rest = after;
        }
        self.imported(&at, rest, imports)
            .unwrap_or_else(|| (at, rest.to_vec()))
    }

    /// Returns where a path leads whose first name the module imports from another one.
    fn imported(
        &self,
        at: &[String],
        path: &[String],
        imports: usize,
    ) -> Option<(Vec<String>, Vec<String>)> {
        let (name, after) = path.split_first()?;
        let imports = imports.checked_sub(1)?;
        if self.defines(at, name) {
            return None;
        }
        let content = &self.0.get(at)?.content;
        if let Some(target) = content.imports.get(name) {
            let (module, rest) = self.follow(at, target, imports);
            return (module != at).then(|| self.follow(&module, &[&rest, after].concat(), imports));
        }
        content.globs.iter().find_map(|glob| {
            let (module, rest) = self.follow(at, glob, imports);
            let (found, left) =
                (rest.is_empty() && module != at).then(|| self.follow(&module, path, imports))?;
            let is_child = self.0.contains_key(&joined(&module, name));
            (is_child || left.first().is_none_or(|name| self.defines(&found, name)))
                .then_some((found, left))
        })
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        self.0
            .get(module)
            .is_some_and(|module| module.content.items.contains(name))
    }
}

fn joined(path: &[String], name: &str) -> Vec<String> {
    [path, &[name.to_owned()]].concat()
}
