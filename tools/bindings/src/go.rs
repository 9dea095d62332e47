//! Go: `sdk/go`.
//!
//! A capability has a package, which makes the component export it, and one in `internal/guest`
//! with the functions that the bindings call. In `internal/guest/convert_wasip1.go`, functions
//! convert what the host passes, and methods of `Sent` what the plugin returns.

use std::collections::BTreeMap;

use wit_parser::{Field, Function, Param, Type, TypeDefKind};

use crate::contract::{Answer, Contract, Kind, Name, Side};
use crate::table::{
    BASE, CLASSES, FIELDS, KUBERNETES, Place, camel, kubernetes, pascal, snake, spaced,
};
use crate::{Files, joined, uses};

const FOLDER: &str = "sdk/go";
const MODULE: &str = "github.com/skydock/skydock/sdk/go";

/// As tools for Go expect it.
const BY: &str = "// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.";

/// Texts with a type of their own.
const TEXTS: [(&str, &str); 1] = [("plugin-info.unused", "Capability")];
/// Optional values that are pointers, because the zero value is one of them.
const POINTERS: &[&str] = &["volume-capability.file-system"];
/// End of the names of records whose fields a function returns one by one.
const PAGE: &str = "-page";
/// The type without values.
const UNIT: &str = "wit.Unit";

pub(crate) fn write(contract: &Contract, files: &mut Files) {
    let mut put = |file: String, code: String| {
        let code = format!("{BY}\n\n{code}");
        files.insert(format!("{FOLDER}/{file}").into(), code);
    };
    let mut writer = Writer {
        contract,
        prefix: "",
    };
    let types = contract.sides().flat_map(|side| contract.types(side));
    let code: String = types.map(|name| writer.conversions(name)).collect();
    let code = format!("package guest\n\n{}{code}", writer.imports("", &code));
    put("internal/guest/convert_wasip1.go".to_owned(), code);

    writer.prefix = "guest.";
    let is_capability = |side: &Side<'_>| side.is_exported && side.name != BASE;
    for side in contract.sides().filter(is_capability) {
        let package = side.name.replace('-', "");
        put(format!("{package}/serve.go"), serve(side));
        put(format!("{package}/export_wasip1.go"), export(side));

        let (name, code) = (snake(side.name), writer.functions(side));
        let package = format!("package serve_{name}\n\n");
        let imports = writer.imports("\t\"context\"\n\n", &code);
        let file = format!("internal/guest/serve_{name}/serve_wasip1.go");
        put(file, package + &imports + &code);
    }
}

/// Returns the package with which plugins serve a capability.
fn serve(side: Side<'_>) -> String {
    let (name, package, class) = (side.name, side.name.replace('-', ""), pascal(side.name));
    format!(
        "// Package {package} exports the interface {name} of the contract. A plugin that imports it exports the interface.
package {package}

import (
	skydock \"{MODULE}\"
	\"{MODULE}/internal/registry\"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.{class}) {{
	registry.Served[\"{name}\"] = implementation
}}
"
    )
}

/// Returns the imports with which the component exports a capability, and what every plugin does.
fn export(side: Side<'_>) -> String {
    let mut exported = [snake(side.name), BASE.to_owned()];
    exported.sort();
    let path = |name: &String| format!("\t_ \"{MODULE}/internal/bindings/exports_{name}\"\n");
    let exported = joined(&exported, "", path);
    let package = side.name.replace('-', "");
    format!("package {package}\n\nimport (\n{exported})\n")
}

struct Writer<'a> {
    contract: &'a Contract,
    /// Before the names of functions that convert.
    prefix: &'a str,
}

impl Writer<'_> {
    /// Returns the imports of code, sorted.
    fn imports(&self, first: &str, code: &str) -> String {
        let own = [
            ("guest", "guest"),
            ("registry", "registry"),
            ("wit/types", "wit"),
        ];
        let own = own.map(|(path, name)| (path.to_owned(), name.to_owned()));
        let bindings = self.contract.sides().map(|side| {
            let path = format!("bindings/skydock_provider_{}", snake(side.name));
            (path, format!("wit{}", pascal(side.name)))
        });
        let packages: BTreeMap<_, _> = bindings.chain(own).collect();
        let used = packages.iter().filter(|(_, name)| uses(code, name));
        let used = used.map(|(path, name)| format!("\t{name} \"{MODULE}/internal/{path}\"\n"));
        let used: String = used.collect();
        format!("import (\n{first}\tskydock \"{MODULE}\"\n{used})\n")
    }

    /// Returns what converts a type.
    fn conversions(&self, name: Name<'_>) -> String {
        let ways = [(name.is_received, true), (name.is_sent, false)];
        let used = ways.into_iter().filter(|(is_used, _)| *is_used);
        let conversions = used.map(|(_, is_received)| self.conversion(name, is_received));
        conversions.collect()
    }

    /// Returns the function that converts a type.
    fn conversion(&self, name: Name<'_>, is_received: bool) -> String {
        let class = kubernetes(name.name);
        let own = CLASSES.into_iter().find(|(wit, _)| *wit == name.name);
        let sdk = format!("skydock.{}", own.map_or(&*class, |(_, sdk)| sdk));
        let body = match name.kind {
            TypeDefKind::Record(_) if name.name.ends_with(PAGE) => return String::new(),
            TypeDefKind::Record(record) => {
                let field = |it: &Field| self.field(name, it, is_received);
                joined(&record.fields, "", field) + "\treturn\n"
            }
            TypeDefKind::Enum(it) => {
                let cases: Vec<_> = it.cases.iter().enumerate().collect();
                let values = joined(&cases, ", ", |(number, case)| match name.interface {
                    KUBERNETES => format!("\"{}\"", kubernetes(&case.name)),
                    _ => number.to_string(),
                });
                let values = format!("[]{sdk}{{{values}}}");
                if is_received {
                    format!("\treturn {values}[in]\n")
                } else {
                    let what = spaced(name.name);
                    format!("\treturn index(s, \"{what}\", {values}, in)\n")
                }
            }
            _ => return String::new(),
        };
        let wit = wit(name);
        if is_received {
            format!("\nfunc {class}(in {wit}) (out {sdk}) {{\n{body}}}\n")
        } else {
            format!("\nfunc (s *Sent) {class}(in {sdk}) (out {wit}) {{\n{body}}}\n")
        }
    }

    /// Returns the line of a field in a conversion.
    fn field(&self, record: Name<'_>, field: &Field, is_received: bool) -> String {
        let place = Place::new(record.name, &field.name);
        let name = field.name.strip_suffix("-seconds").unwrap_or(&field.name);
        let (wit, sdk) = (pascal(&field.name), place.lookup(&FIELDS));
        let sdk = sdk.map_or_else(|| kubernetes(name), pascal);
        let (from, to) = if is_received { (wit, sdk) } else { (sdk, wit) };
        let value = self.converted(&field.ty, &format!("in.{from}"), place, is_received);
        format!("\tout.{to} = {value}\n")
    }

    /// Returns the function that converts a type, unless both sides have the same.
    fn convert(&self, ty: &Type, place: Place<'_>, is_received: bool) -> Option<String> {
        let pick = |received, sent| if is_received { received } else { sent };
        let inner = |helper: &str, ty: &Type| {
            let function = self.convert(ty, place, is_received)?;
            Some(format!("{}{helper}({function})", self.prefix))
        };
        let option = pick("Option", "Optional");
        let name = match self.contract.kind(ty) {
            _ if place.is_date() => pick("Time", "Timestamp").to_owned(),
            Kind::Option(_) if place.is_seconds() => "Seconds".to_owned(),
            Kind::Number(_) if place.is_milliseconds() => "Milliseconds".to_owned(),
            Kind::Text => pick("Clone", place.lookup(&TEXTS).unwrap_or("Valid")).to_owned(),
            Kind::Pairs => pick("Map", "Pairs").to_owned(),
            Kind::List(one) => return inner("List", one),
            Kind::Option(some) => match self.contract.kind(some) {
                _ if place.is_in(POINTERS) => return inner(&format!("{option}Record"), some),
                Kind::Number(_) => format!("{option}({})", self.same(some)),
                Kind::List(one) => return inner(&format!("{option}List"), one),
                Kind::Record(..) => return inner(&format!("{option}Record"), some),
                _ => return inner(option, some),
            },
            Kind::Record(name, _) | Kind::Enum(name) if !is_received => {
                return Some(format!("s.{}", kubernetes(name.name)));
            }
            Kind::Record(name, _) | Kind::Enum(name) => kubernetes(name.name),
            Kind::Lent(name) => format!("Lent{}", kubernetes(name.name)),
            _ => return None,
        };
        Some(format!("{}{name}", self.prefix))
    }

    /// Returns the function for a type that both sides have.
    fn same(&self, ty: &Type) -> String {
        format!("{}Same[{}]", self.prefix, self.declared(ty))
    }

    /// Returns the functions of an interface.
    fn functions(&self, side: Side<'_>) -> String {
        let (name, class) = (side.name, format!("skydock.{}", pascal(side.name)));
        let served = format!("registry.Served[\"{name}\"].({class})");
        let functions = side.interface.functions.values();
        let functions: String = functions.map(|it| self.function(side, it)).collect();
        format!("\nfunc served() {class} {{\n\treturn {served}\n}}\n{functions}")
    }

    fn function(&self, side: Side<'_>, function: &Function) -> String {
        let place = Place::new(side.name, &function.name);
        let argument = |it: &Param| {
            let value = self.converted(&it.ty, &camel(&it.name), place, true);
            match self.contract.kind(&it.ty) {
                Kind::Record(..) => format!(", new({value})"),
                _ => format!(", {value}"),
            }
        };
        let param = |it: &Param| format!("{} {}", camel(&it.name), self.declared(&it.ty));
        let name = pascal(&function.name);
        let arguments = joined(&function.params, "", argument);
        let params = joined(&function.params, ", ", param);

        let result = function.result.as_ref();
        let answered = match result.map(|ty| self.contract.kind(ty)) {
            Some(Kind::Result(ok, _)) => ok,
            _ => result,
        };
        let answered = answered.map_or(UNIT.to_owned(), |ty| self.declared(ty));
        let result = result.map(|ty| format!(" {}", self.declared(ty)));

        let (answer, ty) = self.contract.answer(function);
        if let (Answer::Value, Some(ty), Some(result)) = (answer, ty, &result) {
            let arguments = arguments.trim_start_matches(", ");
            let call = format!("served().{name}({arguments})");
            let value = self.converted(ty, &call, place, false);
            return format!(
                "\nfunc {name}({params}){result} {{\n\ts := new(guest.Sent)\n\treturn {value}\n}}\n"
            );
        }

        let list = self.contract.list(function).unwrap_or_default();
        let length = format!("len({})", camel(list));
        let elements = |ty| {
            let has_storage_errors = self.contract.has_storage_errors(function);
            let prefix = if has_storage_errors { "Storage" } else { "" };
            self.elements(ty, prefix, &length, place)
        };
        let (found, converted) = match answer {
            Answer::Value | Answer::Whole => self.whole(ty, place),
            Answer::Elements => ("found, err".to_owned(), elements(ty)),
            Answer::OnlyElements => ("found".to_owned(), elements(ty)),
        };
        let (run, error) = match answer {
            Answer::OnlyElements => (format!("AnswerEach({length}, "), "nil"),
            _ => ("Answer(".to_owned(), "err"),
        };
        let lent = self.contract.lent(function);
        let drop = lent.map(|(name, _)| format!("\tdefer {}.Drop()\n", camel(name)));
        let (result, drop) = (result.unwrap_or_default(), drop.unwrap_or_default());
        format!(
            "
func {name}({params}){result} {{
{drop}	return guest.{run}func(ctx context.Context, s *guest.Sent) ({answered}, error) {{
		{found} := served().{name}(ctx{arguments})
		return {converted}, {error}
	}})
}}
"
        )
    }

    /// Returns the variables with what the plugin returns, and the value for the host.
    fn whole(&self, ty: Option<&Type>, place: Place<'_>) -> (String, String) {
        let found = "found, err".to_owned();
        match ty.map(|ty| (ty, self.contract.kind(ty))) {
            None => ("err".to_owned(), format!("{UNIT}{{}}")),
            Some((_, Kind::Record(name, fields))) if name.name.ends_with(PAGE) => {
                let names = joined(fields, "", |it| camel(&it.name) + ", ");
                let values = joined(fields, ", ", |it| {
                    let value = self.converted(&it.ty, &camel(&it.name), place, false);
                    format!("{}: {value}", pascal(&it.name))
                });
                (names + "err", format!("{}{{{values}}}", wit(name)))
            }
            Some((_, Kind::Record(name, _))) => {
                let convert = format!("s.{}", kubernetes(name.name));
                (found, format!("guest.Required(s, {convert})(found)"))
            }
            Some((ty, _)) => (found, self.converted(ty, "found", place, false)),
        }
    }

    /// Returns the values for the host of elements. `prefix` is that of the functions for their
    /// errors.
    fn elements(&self, ty: Option<&Type>, prefix: &str, length: &str, place: Place<'_>) -> String {
        let Some(ty) = ty else {
            return format!("guest.{prefix}Errors(ctx, s, {length}, found)");
        };
        let convert = self.convert(ty, place, false);
        let convert = convert.unwrap_or_else(|| self.same(ty));
        format!("guest.{prefix}Elements(ctx, s, {length}, found, {convert})")
    }

    /// Returns an expression of the other side's type.
    fn converted(&self, ty: &Type, it: &str, place: Place<'_>, is_received: bool) -> String {
        let convert = self.convert(ty, place, is_received);
        convert.map_or_else(|| it.to_owned(), |convert| format!("{convert}({it})"))
    }

    /// Returns a type of the bindings.
    fn declared(&self, ty: &Type) -> String {
        match self.contract.kind(ty) {
            Kind::Bool => "bool".to_owned(),
            Kind::Number(bits) => format!("uint{bits}"),
            Kind::Text => "string".to_owned(),
            Kind::Bytes => "[]byte".to_owned(),
            Kind::Pairs => "[]wit.Tuple2[string, string]".to_owned(),
            Kind::List(one) => format!("[]{}", self.declared(one)),
            Kind::Option(some) => format!("wit.Option[{}]", self.declared(some)),
            Kind::Result(ok, error) => {
                let ok = ok.map_or(UNIT.to_owned(), |ok| self.declared(ok));
                format!("wit.Result[{ok}, {}]", self.declared(error))
            }
            Kind::Record(name, _) | Kind::Enum(name) | Kind::Variant(name) => wit(name),
            Kind::Lent(name) => format!("*{}", wit(name)),
            Kind::Other => "any".to_owned(),
        }
    }
}

/// Returns the type of the bindings.
fn wit(name: Name<'_>) -> String {
    format!("wit{}.{}", pascal(name.interface), pascal(name.name))
}
