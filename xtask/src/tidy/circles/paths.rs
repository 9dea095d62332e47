//! What one module declares, imports and names.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, Field, ImplItemFn, Item, ItemMod, ItemUse, Local, MetaList, TraitItemFn,
    UseTree, Variant,
};

use super::condition::is_test;

/// A path as it is written.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

/// What a module contains, without its tests. Imports of functions count as its own.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The items that it defines, without modules.
    pub(super) items: BTreeSet<String>,
    /// Paths that have another name here.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Paths of which everything is imported.
    pub(super) globs: Vec<Vec<String>>,
    /// All paths of more than one name, also those that are imported.
    pub(super) named: Vec<Named>,
}

/// Reads the items of a module. Returns its child modules too.
pub(super) fn read(items: &[Item]) -> (Content, Vec<&ItemMod>) {
    let mut reader = Reader {
        content: Content::default(),
        modules: Vec::new(),
    };
    for item in items {
        reader.content.items.extend(head(item).1.map(text));
        reader.visit_item(item);
    }
    (reader.content, reader.modules)
}

struct Reader<'a> {
    content: Content,
    modules: Vec<&'a ItemMod>,
}

impl Reader<'_> {
    /// Adds what a part of a `use` imports.
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>) {
        match tree {
            UseTree::Path(prefix) => {
                path.push(text(&prefix.ident));
                self.import(&prefix.tree, path);
            }
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.import(tree, path.clone())),
            UseTree::Glob(glob) => {
                self.name(glob.star_token.spans[0].start().line, path.clone());
                self.content.globs.push(path);
            }
            UseTree::Name(name) => self.import_as(&name.ident, &name.ident, path),
            UseTree::Rename(name) => self.import_as(&name.ident, &name.rename, path),
        }
    }

    fn import_as(&mut self, name: &Ident, alias: &Ident, mut path: Vec<String>) {
        if name != "self" || path.is_empty() {
            path.push(text(name));
        }
        let alias = if alias == "self" {
            path.last().cloned()
        } else {
            Some(text(alias))
        };
        self.name(name.span().start().line, path.clone());
        self.content
            .imports
            .extend(alias.map(|alias| (alias, path)));
    }

    /// Adds a path, unless it is one name, which an import brought.
    fn name(&mut self, line: usize, path: Vec<String>) {
        if path.len() > 1 {
            self.content.named.push(Named { line, path });
        }
    }

    /// Adds the paths in tokens. With `strings`, a string literal may be a path too.
    fn scan(&mut self, tokens: TokenStream, strings: bool) {
        let mut path: Vec<Ident> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                // What follows another `::` is no path of its own.
                TokenTree::Ident(ident) if colons == 2 => {
                    if !path.is_empty() {
                        path.push(ident);
                    }
                }
                token => {
                    self.name_path(&std::mem::take(&mut path));
                    match token {
                        TokenTree::Ident(ident) => path.push(ident),
                        TokenTree::Group(group) => self.scan(group.stream(), strings),
                        TokenTree::Literal(literal) if strings => {
                            let path = literal
                                .to_string()
                                .trim_matches('"')
                                .split("::")
                                .map(str::to_owned)
                                .collect();
                            self.name(literal.span().start().line, path);
                        }
                        TokenTree::Literal(_) | TokenTree::Punct(_) => {}
                    }
                }
            }
            colons = 0;
        }
        self.name_path(&path);
    }

    fn name_path(&mut self, path: &[Ident]) {
        if let Some(first) = path.first() {
            self.name(first.span().start().line, path.iter().map(text).collect());
        }
    }
}

/// Defines methods that visit what is not for tests only.
macro_rules! unless_test {
    ($($visit:ident: $part:ty,)*) => {
        $(fn $visit(&mut self, part: &'a $part) {
            if !is_test(&part.attrs) {
                visit::$visit(self, part);
            }
        })*
    };
}

impl<'a> Visit<'a> for Reader<'a> {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(head(item).0) {
            visit::visit_item(self, item);
        }
    }

    unless_test! {
        visit_impl_item_fn: ImplItemFn,
        visit_trait_item_fn: TraitItemFn,
        visit_variant: Variant,
        visit_arm: Arm,
        visit_field: Field,
        visit_local: Local,
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        self.modules.push(module);
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let names: Vec<_> = path
                .segments
                .iter()
                .map(|segment| segment.ident.clone())
                .collect();
            self.name_path(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_meta_list(&mut self, list: &'a MetaList) {
        self.scan(list.tokens.clone(), true);
    }

    fn visit_token_stream(&mut self, tokens: &'a TokenStream) {
        self.scan(tokens.clone(), false);
    }
}

/// A name, without `r#`.
pub(super) fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// Returns the attributes of an item, and the name that it defines, except that of a module.
fn head(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::ExternCrate(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}
