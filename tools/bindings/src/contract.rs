//! The contract, as far as the SDKs distinguish its types.

#![expect(clippy::indexing_slicing, reason = "an id is from the same arena")]

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use wit_parser::{
    Field, Function, FunctionKind, Handle, Interface, InterfaceId, Resolve, Type, TypeDefKind,
    TypeId, TypeOwner, WorldItem,
};

use crate::table::{BASE, BY_HAND, STORAGE_ERROR};

/// The world that exports all capabilities.
const WORLD: &str = "provider";

/// A version of the contract.
pub(crate) struct Contract {
    resolve: Resolve,
    /// For example `0.1.0`.
    pub(crate) version: String,
    /// In the order of the world: first those that plugins import.
    interfaces: Vec<(InterfaceId, bool)>,
    /// Types that the host passes to plugins.
    received: BTreeSet<TypeId>,
    /// Types that plugins pass to the host.
    sent: BTreeSet<TypeId>,
}

/// An interface, and whether plugins export it.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) interface: &'a Interface,
    pub(crate) name: &'a str,
    pub(crate) is_exported: bool,
}

/// A type that an interface defines.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    id: TypeId,
    pub(crate) interface: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: &'a TypeDefKind,
    /// Whether the host passes it to plugins.
    pub(crate) is_received: bool,
    /// Whether plugins pass it to the host.
    pub(crate) is_sent: bool,
}

/// A type, without its aliases.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    Bool,
    /// An unsigned number with this many bits.
    Number(u8),
    Text,
    Bytes,
    /// A list of keys with their values.
    Pairs,
    List(&'a Type),
    Option(&'a Type),
    /// What a function that can fail returns, and its error.
    Result(Option<&'a Type>, &'a Type),
    Record(Name<'a>, &'a [Field]),
    Enum(Name<'a>),
    Variant(Name<'a>),
    /// A handle that is valid until the call ends.
    Lent(Name<'a>),
    /// What the SDKs do not have.
    Other,
}

/// How a function answers.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// Without an error.
    Value,
    /// With a value or an error.
    Whole,
    /// With a value or an error for each element of a list, or an error for all of them.
    Elements,
    /// Like that, but an error for all of them is one of each.
    OnlyElements,
}

impl Contract {
    /// Reads the contract in a folder, with the capabilities that an SDK `has`.
    ///
    /// # Errors
    /// If it is not valid, or has a type that the SDKs do not know.
    pub(crate) fn read(folder: &Path, has: impl Fn(&str) -> bool) -> Result<Self> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(folder)?;
        let world = resolve.select_world(&[package], Some(WORLD))?;
        let version = resolve.packages[package].name.version.as_ref();
        let version = version.context("without a version")?.to_string();

        let world = &resolve.worlds[world];
        let imports = world.imports.values().map(|item| (item, false));
        let exports = world.exports.values().map(|item| (item, true));
        let items = imports.chain(exports);
        let interfaces = items.filter_map(|(item, is_exported)| match item {
            WorldItem::Interface { id, .. } => Some((*id, is_exported)),
            _ => None,
        });
        let is_for_sdk = |(id, is_exported): &(InterfaceId, bool)| {
            let interface = &resolve.interfaces[*id];
            let name = interface.name.as_deref().unwrap_or_default();
            interface.package == Some(package) && (!is_exported || name == BASE || has(name))
        };
        let interfaces: Vec<_> = interfaces.filter(is_for_sdk).collect();

        // Types that only other capabilities share have no use.
        let exported = interfaces.iter().filter(|(_, is_exported)| *is_exported);
        let used: BTreeSet<_> = exported.flat_map(|(id, _)| uses(&resolve, *id)).collect();
        let has_functions = |id: InterfaceId| !resolve.interfaces[id].functions.is_empty();
        let is_used = |(id, is_exported): &(InterfaceId, bool)| {
            *is_exported || has_functions(*id) || used.contains(id)
        };
        let interfaces = interfaces.into_iter().filter(is_used).collect();

        let mut contract = Self {
            resolve,
            version,
            interfaces,
            received: BTreeSet::new(),
            sent: BTreeSet::new(),
        };
        contract.follow()?;
        Ok(contract)
    }

    pub(crate) fn sides(&self) -> impl Iterator<Item = Side<'_>> {
        self.interfaces.iter().map(|(id, is_exported)| {
            let interface = &self.resolve.interfaces[*id];
            Side {
                interface,
                name: interface.name.as_deref().unwrap_or_default(),
                is_exported: *is_exported,
            }
        })
    }

    /// Returns the types that an interface defines, without aliases.
    pub(crate) fn types<'a>(&'a self, side: Side<'a>) -> impl Iterator<Item = Name<'a>> {
        let types = side.interface.types.values().map(|id| self.name(*id));
        types.filter(move |it| {
            let is_alias = matches!(it.kind, TypeDefKind::Tuple(_) | TypeDefKind::List(_));
            it.interface == side.name && !is_alias
        })
    }

    /// Returns the methods of a resource.
    pub(crate) fn methods<'a>(&self, side: Side<'a>) -> impl Iterator<Item = &'a Function> {
        let functions = side.interface.functions.values();
        functions.filter(|it| matches!(it.kind, FunctionKind::Method(_)))
    }

    /// Returns what a type is.
    pub(crate) fn kind<'a>(&'a self, ty: &'a Type) -> Kind<'a> {
        let id = match ty {
            Type::Bool => return Kind::Bool,
            Type::U8 => return Kind::Number(8),
            Type::U16 => return Kind::Number(16),
            Type::U32 => return Kind::Number(32),
            Type::U64 => return Kind::Number(64),
            Type::String => return Kind::Text,
            Type::Id(id) => *id,
            _ => return Kind::Other,
        };

        let name = self.name(id);
        match name.kind {
            TypeDefKind::Type(original) => self.kind(original),
            TypeDefKind::Option(some) => Kind::Option(some),
            TypeDefKind::List(Type::U8) => Kind::Bytes,
            TypeDefKind::List(Type::Id(one)) if self.is_pair(*one) => Kind::Pairs,
            TypeDefKind::List(one) => Kind::List(one),
            TypeDefKind::Result(result) => match &result.err {
                Some(error) => Kind::Result(result.ok.as_ref(), error),
                None => Kind::Other,
            },
            TypeDefKind::Handle(Handle::Borrow(id)) => Kind::Lent(self.name(*id)),
            TypeDefKind::Record(record) => Kind::Record(name, &record.fields),
            TypeDefKind::Enum(_) => Kind::Enum(name),
            TypeDefKind::Variant(_) => Kind::Variant(name),
            _ => Kind::Other,
        }
    }

    /// Returns how a function answers, and with what; with nothing if there is only success.
    pub(crate) fn answer<'a>(&'a self, function: &'a Function) -> (Answer, Option<&'a Type>) {
        let Some(result) = &function.result else {
            return (Answer::Whole, None);
        };
        let (value, fails) = match self.kind(result) {
            Kind::Result(ok, _) => (ok, true),
            _ => (Some(result), false),
        };
        if let Some(list) = value
            && let Kind::List(one) = self.kind(list)
            && let Kind::Result(ok, _) = self.kind(one)
        {
            let only = Answer::OnlyElements;
            return (if fails { Answer::Elements } else { only }, ok);
        }
        (if fails { Answer::Whole } else { Answer::Value }, value)
    }

    /// Whether the elements of an answer fail with the errors of volumes and snapshots.
    pub(crate) fn has_storage_errors(&self, function: &Function) -> bool {
        let answer = function.result.as_ref().map(|ty| self.kind(ty));
        let Some(Kind::Result(Some(list), _)) = answer else {
            return false;
        };
        let Kind::List(one) = self.kind(list) else {
            return false;
        };
        let error = match self.kind(one) {
            Kind::Result(_, error) => self.kind(error),
            _ => return false,
        };
        matches!(error, Kind::Variant(name) if name.name == STORAGE_ERROR)
    }

    /// Returns the name of the parameter whose elements an answer is about.
    pub(crate) fn list<'a>(&self, function: &'a Function) -> Option<&'a str> {
        let mut params = function.params.iter();
        let list = params.find(|param| matches!(self.kind(&param.ty), Kind::List(_)));
        list.map(|param| &*param.name)
    }

    /// Returns the parameter that is lent, with the resource.
    pub(crate) fn lent<'a>(&'a self, function: &'a Function) -> Option<(&'a str, Name<'a>)> {
        let mut params = function.params.iter();
        params.find_map(|param| match self.kind(&param.ty) {
            Kind::Lent(resource) => Some((&*param.name, resource)),
            _ => None,
        })
    }

    /// Notes for each type which way it goes.
    fn follow(&mut self) -> Result<()> {
        let (mut received, mut sent) = (BTreeSet::new(), BTreeSet::new());
        for side in self.sides() {
            for function in side.interface.functions.values() {
                // What plugins pass to imports is converted by hand.
                if side.is_exported {
                    for param in &function.params {
                        self.reach(&param.ty, &mut received)?;
                    }
                }
                let is_sent = side.is_exported;
                let results = if is_sent { &mut sent } else { &mut received };
                let is_by_hand = BY_HAND.contains(&&*function.name);
                if let Some(result) = function.result.as_ref().filter(|_| !is_by_hand) {
                    self.reach(result, results)?;
                }
            }
        }
        (self.received, self.sent) = (received, sent);
        Ok(())
    }

    /// Adds the types in a type, and in what it consists of.
    fn reach(&self, ty: &Type, reached: &mut BTreeSet<TypeId>) -> Result<()> {
        match self.kind(ty) {
            Kind::List(inner) | Kind::Option(inner) => self.reach(inner, reached),
            Kind::Result(Some(ok), _) => self.reach(ok, reached),
            Kind::Record(name, fields) if reached.insert(name.id) => fields
                .iter()
                .try_for_each(|field| self.reach(&field.ty, reached)),
            Kind::Variant(_) | Kind::Other => bail!("the SDKs have no form for {ty:?}"),
            Kind::Enum(name) => {
                reached.insert(name.id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn is_pair(&self, id: TypeId) -> bool {
        let tuple = self.name(id).kind;
        matches!(tuple, TypeDefKind::Tuple(it) if it.types == [Type::String, Type::String])
    }

    /// Returns the type that an alias stands for.
    fn original(&self, id: TypeId) -> TypeId {
        match self.resolve.types[id].kind {
            TypeDefKind::Type(Type::Id(original)) => self.original(original),
            _ => id,
        }
    }

    fn name(&self, id: TypeId) -> Name<'_> {
        let id = self.original(id);
        let definition = &self.resolve.types[id];
        let interface = match definition.owner {
            TypeOwner::Interface(id) => self.resolve.interfaces[id].name.as_deref(),
            _ => None,
        };
        Name {
            id,
            interface: interface.unwrap_or_default(),
            name: definition.name.as_deref().unwrap_or_default(),
            kind: &definition.kind,
            is_received: self.received.contains(&id),
            is_sent: self.sent.contains(&id),
        }
    }
}

/// Returns the interfaces whose types an interface uses.
fn uses(resolve: &Resolve, interface: InterfaceId) -> impl Iterator<Item = InterfaceId> {
    let types = resolve.interfaces[interface].types.values();
    types.filter_map(|id| match resolve.types[*id].kind {
        TypeDefKind::Type(Type::Id(original)) => match resolve.types[original].owner {
            TypeOwner::Interface(owner) => Some(owner),
            _ => None,
        },
        _ => None,
    })
}
