//! Python: `sdk/python/skydock/_guest/generated/INTERFACE.py`.
//!
//! The bindings and the public classes have the same names and fields. `sdk_NAME` takes what the
//! host passes, and `wit_NAME` what the provider returns, which may be of any type.

use wit_parser::{Field, Function, Param, Type, TypeDefKind};

use crate::contract::{Answer, Contract, Kind, Name, Side};
use crate::table::{BASE, Place, pascal, singular, snake};
use crate::{BY, Files, joined, uses};

const FOLDER: &str = "sdk/python/skydock/_guest/generated";

/// Names that a module imports if it uses them.
const IMPORTS: [(&str, &str); 4] = [
    ("..._plugin", "registered"),
    ("..._wire", "millis number optional pairs text"),
    ("..", "convert lent volume_errors"),
    ("..call", "answer answer_elements at_once"),
];

pub(crate) fn write(contract: &Contract, files: &mut Files) {
    let package = format!("# {BY}\n\"\"\"What a component exports, and its conversions.\"\"\"\n");
    files.insert(format!("{FOLDER}/__init__.py").into(), package);

    for side in contract.sides() {
        let body = Module { contract, side }.body();
        if !body.is_empty() {
            let file = format!("{FOLDER}/{}.py", snake(side.name));
            files.insert(file.into(), Module { contract, side }.head(&body) + &body);
        }
    }
}

/// The module of an interface.
struct Module<'a> {
    contract: &'a Contract,
    side: Side<'a>,
}

impl Module<'_> {
    /// Returns the first lines, with the imports that the others need.
    fn head(&self, body: &str) -> String {
        let import = |module: &str, names: &str| {
            let used: Vec<_> = names
                .split_whitespace()
                .filter(|name| uses(body, name))
                .collect();
            let line = format!("from {module} import {}\n", used.join(", "));
            if used.is_empty() { String::new() } else { line }
        };
        let name = self.side.name;
        let mut head = format!("# {BY}\n\"\"\"The interface `{name}`.\"\"\"\n\n");
        head += "from __future__ import annotations\n\n";
        if self.side.is_exported {
            head += "from typing import cast\n\n";
        }

        head += &import("componentize_py_types", "Result");
        let version = self.contract.version.replace('.', "_");
        let mut others = Vec::new();
        for side in self.contract.sides() {
            let (name, alias) = (snake(side.name), format!("wit_{}", snake(side.name)));
            if uses(body, &alias) {
                let is_export = side.is_exported;
                let package = if is_export { "exports" } else { "imports" };
                let module = format!("skydock_provider_{name}_{version}");
                head += &format!("from wit_world.{package} import {module} as {alias}\n");
            }
            if body.contains(&format!("{name}.sdk_")) || body.contains(&format!(" {name}.wit_")) {
                others.push(name);
            }
        }

        head = head.trim_end().to_owned() + "\n\nimport skydock as sdk\n\n";
        head.extend(IMPORTS.map(|(module, names)| import(module, names)));
        head + &import(".", &others.join(" "))
    }

    fn body(&self) -> String {
        let mut body = String::new();
        for name in self.contract.types(self.side) {
            let directions = [(name.is_received, true), (name.is_sent, false)];
            let used = directions.into_iter().filter(|(is_used, _)| *is_used);
            body.extend(used.map(|(_, is_received)| self.conversion(name, is_received)));
        }
        if self.side.is_exported {
            body += &self.class();
        }
        body
    }

    /// Returns the function that converts a type.
    fn conversion(&self, name: Name<'_>, is_received: bool) -> String {
        let (wit, sdk) = (wit(name), format!("sdk.{}", pascal(name.name)));
        let (prefix, from, to) = if is_received {
            ("sdk", wit, sdk)
        } else {
            ("wit", sdk, wit)
        };
        let field = |field: &Field| {
            let key = snake(&field.name);
            let it = format!("it.{key}");
            let value = if is_received {
                self.received(&field.ty, &it)
            } else {
                self.sent(&field.ty, &it, Place::new(name.name, &field.name))
            };
            format!("        {key}={value},\n")
        };
        let body = match name.kind {
            TypeDefKind::Record(record) => {
                format!("{to}(\n{}    )", joined(&record.fields, "", field))
            }
            _ if is_received => format!("{to}[it.name]"),
            _ => format!("{to}[{from}(it).name]"),
        };
        let name = snake(name.name);
        format!("\n\ndef {prefix}_{name}(it: {from}) -> {to}:\n    return {body}\n")
    }

    /// Returns an expression of the SDK's type for one of the bindings'.
    fn received(&self, ty: &Type, it: &str) -> String {
        let inner = |ty: &Type, it: &str| Some(self.received(ty, it)).filter(|inner| inner != it);
        match self.contract.kind(ty) {
            Kind::Pairs => format!("dict({it})"),
            Kind::List(one) => match inner(one, "one") {
                Some(inner) => format!("[{inner} for one in {it}]"),
                None => it.to_owned(),
            },
            Kind::Option(some) => match inner(some, it) {
                Some(inner) => format!("None if {it} is None else {inner}"),
                None => it.to_owned(),
            },
            Kind::Record(name, _) | Kind::Enum(name) => {
                format!("{}({it})", self.function("sdk", name))
            }
            Kind::Lent(_) => format!("lent_{it}"),
            _ => it.to_owned(),
        }
    }

    /// Returns an expression of the bindings' type for one of the SDK's.
    fn sent(&self, ty: &Type, it: &str, place: Place<'_>) -> String {
        let what = place.words();
        let is_text = |ty: &Type| matches!(self.contract.kind(ty), Kind::Text);
        match self.contract.kind(ty) {
            Kind::Bool => format!("bool({it})"),
            Kind::Number(_) if place.is_milliseconds() => format!("millis({it})"),
            Kind::Number(bits) => format!("number({it}, \"{what}\", 2**{bits} - 1)"),
            Kind::Text => format!("text({it}, \"{what}\")"),
            Kind::Pairs => format!("pairs({it}, \"{}\")", place.elements().words()),
            Kind::List(one) => format!(
                "[{} for one in {it}]",
                self.sent(one, "one", place.elements())
            ),
            Kind::Option(some) if is_text(some) => format!("optional({it}, \"{what}\")"),
            Kind::Option(some) => {
                format!("None if {it} is None else {}", self.sent(some, it, place))
            }
            Kind::Record(name, _) | Kind::Enum(name) => {
                format!("{}({it})", self.function("wit", name))
            }
            _ => it.to_owned(),
        }
    }

    /// Returns a function that converts what the provider returns.
    fn result(&self, ty: Option<&Type>, function: &Function) -> String {
        let place = self.place(function);
        let sent = ty.map_or("None".to_owned(), |ty| self.sent(ty, "found", place));
        let called = sent.strip_suffix("(found)");
        let called = called.filter(|name| !name.contains(' '));
        called.map_or_else(|| format!("lambda found: {sent}"), str::to_owned)
    }

    /// Returns the class that the component exports.
    fn class(&self) -> String {
        let version = self.contract.version.replace('.', "");
        let name = pascal(self.side.name);
        let class = format!("SkydockProvider{name}{version}");
        let functions = self.side.interface.functions.values();
        let methods: String = functions.map(|function| self.method(function)).collect();
        format!(
            "\n\n__all__ = [\"{class}\"]\n\n\nclass {class}:\n    \"\"\"The exported functions.\"\"\"\n{methods}\n\n\
             def _provider() -> sdk.{name}:\n    return cast(sdk.{name}, registered())\n"
        )
    }

    fn method(&self, function: &Function) -> String {
        let param = |it: &Param| format!(", {}: {}", snake(&it.name), self.annotation(&it.ty));
        let params = joined(&function.params, "", param);
        let result = function.result.as_ref();
        let result = result.map(|ty| match self.contract.kind(ty) {
            Kind::Result(ok, _) => ok.map_or("None".to_owned(), |ok| self.annotation(ok)),
            _ => self.annotation(ty),
        });
        let result = result.unwrap_or("None".to_owned());
        let name = snake(&function.name);

        let mut statement = self.statement(function);
        if let Some((name, resource)) = self.contract.lent(function) {
            let (name, class) = (snake(name), pascal(resource.name));
            let inner = statement.replace('\n', "\n    ");
            statement = format!("with lent.{class}({name}) as lent_{name}:\n    {inner}");
        }
        let statement = statement.replace('\n', "\n        ");
        format!("\n    def {name}(self{params}) -> {result}:\n        {statement}\n")
    }

    /// Returns the statement that calls the provider.
    fn statement(&self, function: &Function) -> String {
        let argument = |it: &Param| self.received(&it.ty, &snake(&it.name));
        let arguments = joined(&function.params, ", ", argument);
        let work = format!("_provider().{}({arguments})", snake(&function.name));
        // Functions of the base do not wait.
        let run = if self.side.name == BASE {
            "at_once"
        } else {
            "answer"
        };
        let list = self.contract.list(function).unwrap_or_default();
        let elements = |ty: Option<&Type>| {
            let into = match ty {
                None => format!("convert.nothing(\"{}\")", singular(list).replace('-', " ")),
                Some(_) => self.result(ty, function),
            };
            let has_storage_errors = self.contract.has_storage_errors(function);
            let module = if has_storage_errors {
                "volume_errors"
            } else {
                "convert"
            };
            format!("lambda found: {module}.wit_results(found, {into})")
        };

        let (answer, ty) = self.contract.answer(function);
        let (first, into) = match (answer, ty) {
            (Answer::Value, Some(ty)) => {
                let value = self.sent(ty, &work, self.place(function));
                return format!("return {value}");
            }
            (Answer::Value | Answer::Whole, None) => {
                return format!("{run}(lambda: {work}, lambda _: None)");
            }
            (Answer::Whole, Some(_)) => (format!("{run}("), self.result(ty, function)),
            (Answer::Elements, _) => (format!("{run}("), elements(ty)),
            (Answer::OnlyElements, _) => {
                let count = format!("answer_elements(\n    len({}),", snake(list));
                (count, elements(ty))
            }
        };
        format!("return {first}\n    lambda: {work},\n    {into},\n)")
    }

    fn place<'a>(&'a self, function: &'a Function) -> Place<'a> {
        Place::new(self.side.name, &function.name)
    }

    /// Returns the annotation for a type of the bindings.
    fn annotation(&self, ty: &Type) -> String {
        match self.contract.kind(ty) {
            Kind::Bool => "bool".to_owned(),
            Kind::Number(_) => "int".to_owned(),
            Kind::Text => "str".to_owned(),
            Kind::Bytes => "bytes".to_owned(),
            Kind::Pairs => "list[tuple[str, str]]".to_owned(),
            Kind::List(one) => format!("list[{}]", self.annotation(one)),
            Kind::Option(some) => format!("{} | None", self.annotation(some)),
            Kind::Result(ok, error) => {
                let ok = ok.map_or("None".to_owned(), |ok| self.annotation(ok));
                format!("Result[{ok}, {}]", self.annotation(error))
            }
            Kind::Record(name, _) | Kind::Enum(name) => wit(name),
            Kind::Variant(name) | Kind::Lent(name) => wit(name),
            Kind::Other => "object".to_owned(),
        }
    }

    /// Returns the function that converts a record or an enum.
    fn function(&self, prefix: &str, name: Name<'_>) -> String {
        let function = format!("{prefix}_{}", snake(name.name));
        let is_own = name.interface == self.side.name;
        let other = || format!("{}.{function}", snake(name.interface));
        if is_own { function.clone() } else { other() }
    }
}

/// Returns the class of the bindings.
fn wit(name: Name<'_>) -> String {
    format!("wit_{}.{}", snake(name.interface), pascal(name.name))
}
