//! TypeScript: `sdk/typescript/src/guest/generated`.
//!
//! `contract.d.ts` declares what the bindings import and pass. In `convert.ts`, `sdkNAME` takes what
//! the host passes, and `witNAME` what the plugin returns, which may be of any type. `exports.ts` has
//! the functions of all interfaces.

use wit_parser::{Field, Function, Param, Type, TypeDefKind};

use crate::contract::{Answer, Contract, Kind, Name, Side};
use crate::table::{BASE, CLASSES, FIELDS, KUBERNETES, Place, camel, kubernetes, pascal, short};
use crate::{BY, Files, joined, uses};

const FOLDER: &str = "sdk/typescript/src/guest/generated";

/// Fields that plugins may omit although they are not optional.
const DEFAULTS: [(&str, &str); 11] = [
    ("driver-info.topology-keys", "[]"),
    ("ingress.ports", "[]"),
    ("instance.addresses", "[]"),
    ("plugin-info.annotation-prefixes", "[]"),
    ("plugin-info.max-batch", "0"),
    ("plugin-info.overlap", "\"any\""),
    ("plugin-info.provider-id-prefixes", "[]"),
    ("plugin-info.unused", "[]"),
    ("plugin-info.wanted-hosts", "[]"),
    ("volume.nodes", "[]"),
    ("volume.topology", "[]"),
];
/// Fields that the host gets only if they have a value.
const OMITTED: &[&str] = &["port-status.error"];

/// The helpers, in the module beside the folder.
const HELPERS: &str = "labels milliseconds names number optional pairs text timestamp";

/// What `exports.ts` imports.
const EXPORTS: &str = "
import type { Plugin } from \"../../index.js\";
import { answer } from \"../call.js\";
import { lendNodeSet } from \"../lent.js\";
import { elements, onlyElements, served, storageElements, whole } from \"../serve.js\";
";

pub(crate) fn write(contract: &Contract, files: &mut Files) {
    let prefix = "";
    let mut writer = Writer { contract, prefix };
    let declared: String = contract.sides().map(|side| writer.module(side)).collect();
    let types = contract.sides().flat_map(|side| contract.types(side));
    let converted: String = types.map(|name| writer.conversions(name)).collect();
    writer.prefix = "convert.";
    let exported = writer.table();

    let helpers = |code: &str| {
        let used: Vec<_> = HELPERS.split(' ').filter(|name| uses(code, name)).collect();
        format!("import {{ {} }} from \"../convert.js\";\n", used.join(", "))
    };
    let sdk = "\nimport type * as sdk from \"../../index.js\";\n";
    let head = writer.imports(&converted, "") + sdk + &helpers(&converted);
    let own = "import * as convert from \"./convert.js\";\n";
    let exports = writer.imports(&exported, "") + EXPORTS + &helpers(&exported) + own;
    let mut put = |file: &str, code: String| {
        let file = format!("{FOLDER}/{file}");
        files.insert(file.into(), format!("// {BY}\n{code}"));
    };
    put("contract.d.ts", declared);
    put("convert.ts", head + &converted);
    put("exports.ts", exports + &exported);
}

struct Writer<'a> {
    contract: &'a Contract,
    /// Before the names of conversions.
    prefix: &'a str,
}

impl Writer<'_> {
    /// Returns the imports of the types of the bindings that code uses.
    fn imports(&self, code: &str, indent: &str) -> String {
        let import = |side: Side<'_>| {
            let (alias, id) = (format!("wit{}", pascal(side.name)), self.id(side.name));
            let line = format!("{indent}import type * as {alias} from \"{id}\";\n");
            if uses(code, &alias) {
                line
            } else {
                String::new()
            }
        };
        self.contract.sides().map(import).collect()
    }

    /// Returns the name of the module of an interface.
    fn id(&self, interface: &str) -> String {
        format!("skydock:provider/{interface}@{}", self.contract.version)
    }

    /// Declares the module of an interface.
    fn module(&self, side: Side<'_>) -> String {
        let types = self.contract.types(side);
        let mut body: String = types.map(|name| self.declaration(side, name)).collect();
        for function in side.interface.functions.values() {
            if !side.is_exported && !function.name.starts_with('[') {
                body += &format!("  export function {}\n", self.signature(function, 0));
            }
        }
        if body.is_empty() {
            return body;
        }
        let body = body.replace(&format!("wit{}.", pascal(side.name)), "");
        let (id, imports) = (self.id(side.name), self.imports(&body, "  "));
        format!("\ndeclare module \"{id}\" {{\n{imports}{body}}}\n")
    }

    fn declaration(&self, side: Side<'_>, name: Name<'_>) -> String {
        let class = pascal(name.name);
        let declaration = match name.kind {
            TypeDefKind::Record(record) => {
                let field = |it: &Field| format!("    {};\n", self.param(&it.name, &it.ty));
                format!(
                    "type {class} = {{\n{}  }};",
                    joined(&record.fields, "", field)
                )
            }
            TypeDefKind::Enum(it) => {
                let cases = joined(&it.cases, " | ", |case| format!("\"{}\"", case.name));
                format!("type {class} = {cases};")
            }
            TypeDefKind::Variant(it) => {
                let cases = joined(&it.cases, "", |case| {
                    let value = |ty| format!("; val: {}", self.declared(ty));
                    let value = case.ty.as_ref().map(value).unwrap_or_default();
                    format!("\n    | {{ tag: \"{}\"{value} }}", case.name)
                });
                format!("type {class} ={cases};")
            }
            _ => {
                let methods = self.contract.methods(side);
                let methods = methods.map(|it| format!("    {}\n", self.signature(it, 1)));
                let methods: String = methods.collect();
                format!("class {class} {{\n{methods}    [Symbol.dispose](): void;\n  }}")
            }
        };
        format!("  export {declaration}\n")
    }

    /// Declares a function, without its first parameters. What it fails with is thrown.
    fn signature(&self, function: &Function, skipped: usize) -> String {
        let params = function.params.get(skipped..).unwrap_or_default();
        let params = joined(params, ", ", |it| self.param(&it.name, &it.ty));
        let result = function.result.as_ref().map(|ty| self.contract.kind(ty));
        let result = match (result, &function.result) {
            (Some(Kind::Result(Some(ty), _)), _) => self.declared(ty),
            (None | Some(Kind::Result(None, _)), _) | (_, None) => "void".to_owned(),
            (_, Some(ty)) => self.declared(ty),
        };
        format!("{}({params}): {result};", camel(function.item_name()))
    }

    fn param(&self, name: &str, ty: &Type) -> String {
        match self.contract.kind(ty) {
            Kind::Option(some) => format!("{}?: {}", camel(name), self.declared(some)),
            _ => format!("{}: {}", camel(name), self.declared(ty)),
        }
    }

    /// Returns a type of the bindings.
    fn declared(&self, ty: &Type) -> String {
        match self.contract.kind(ty) {
            Kind::Bool => "boolean".to_owned(),
            Kind::Number(64) => "bigint".to_owned(),
            Kind::Number(_) => "number".to_owned(),
            Kind::Text => "string".to_owned(),
            Kind::Bytes => "Uint8Array".to_owned(),
            Kind::Pairs => "[string, string][]".to_owned(),
            Kind::List(one) if matches!(self.contract.kind(one), Kind::Number(32)) => {
                "Uint32Array".to_owned()
            }
            Kind::List(one) => format!("{}[]", self.declared(one)),
            Kind::Option(some) => format!("{} | undefined", self.declared(some)),
            Kind::Record(name, _) | Kind::Enum(name) => wit(name),
            Kind::Variant(name) | Kind::Lent(name) => wit(name),
            Kind::Result(..) | Kind::Other => "unknown".to_owned(),
        }
    }

    /// Returns what converts a type.
    fn conversions(&self, name: Name<'_>) -> String {
        let class = pascal(name.name);
        let own = CLASSES.into_iter().find(|(wit, _)| *wit == name.name);
        let sdk = format!("sdk.{}", own.map_or(&*class, |(_, sdk)| sdk));
        let wit = wit(name);
        match name.kind {
            TypeDefKind::Record(record) => {
                let mut out = String::new();
                let received = (name.is_received, "sdk", &wit, &sdk);
                for (is_used, prefix, from, to) in [received, (name.is_sent, "wit", &sdk, &wit)] {
                    if is_used {
                        let field = |it: &Field| self.field(name, it, prefix == "sdk");
                        let fields = joined(&record.fields, "", field);
                        let head = format!("function {prefix}{class}(it: {from}): {to}");
                        out += &format!("\nexport {head} {{\n  return {{\n{fields}  }};\n}}\n");
                    }
                }
                out
            }
            TypeDefKind::Enum(it) if name.is_received || name.is_sent => {
                let values = joined(&it.cases, "", |case| {
                    let value = match name.interface {
                        KUBERNETES => kubernetes(&case.name),
                        _ => case.name.clone(),
                    };
                    format!("  \"{}\": \"{value}\",\n", case.name)
                });
                let map = camel(name.name);
                format!("\nexport const {map} = names<{wit}, {sdk}>({{\n{values}}});\n")
            }
            _ => String::new(),
        }
    }

    /// Returns the line of a field in a conversion.
    fn field(&self, record: Name<'_>, field: &Field, is_received: bool) -> String {
        let place = Place::new(record.name, &field.name);
        let name = camel(&field.name);
        let sdk_name = place.lookup(&FIELDS).unwrap_or(&name);
        if is_received {
            let value = self.received(&field.ty, &format!("it.{name}"), place);
            return format!("    {sdk_name}: {value},\n");
        }
        let it = match place.lookup(&DEFAULTS) {
            Some(default) => format!("it.{sdk_name} ?? {default}"),
            None => format!("it.{sdk_name}"),
        };
        let value = self.sent(&field.ty, &it, place);
        if place.is_in(OMITTED) {
            return format!("    ...({it} == null ? {{}} : {{ {name}: {value} }}),\n");
        }
        format!("    {name}: {value},\n")
    }

    /// Returns an expression of the SDK's type for one of the bindings'.
    fn received(&self, ty: &Type, it: &str, place: Place<'_>) -> String {
        let inner = |ty: &Type, it: &str| self.received(ty, it, place);
        match self.contract.kind(ty) {
            Kind::Pairs => format!("labels({it})"),
            Kind::Number(64) if place.is_date() => format!("new Date(Number({it}) * 1000)"),
            Kind::Number(64) => format!("Number({it})"),
            Kind::List(one) => mapped(it, &inner(one, "one")),
            Kind::Option(some) => optional(it, &inner(some, it)),
            Kind::Record(name, _) => format!("{}sdk{}({it})", self.prefix, pascal(name.name)),
            Kind::Enum(name) => format!("{}{}.from({it})", self.prefix, camel(name.name)),
            _ => it.to_owned(),
        }
    }

    /// Returns an expression of the bindings' type for one of the SDK's.
    fn sent(&self, ty: &Type, it: &str, place: Place<'_>) -> String {
        let what = place.words();
        match self.contract.kind(ty) {
            Kind::Bool => format!("Boolean({it})"),
            Kind::Number(64) if place.is_milliseconds() => {
                format!("milliseconds(Math.trunc({it}))")
            }
            Kind::Number(64) if place.is_date() => format!("timestamp({it})"),
            Kind::Number(64) => {
                format!("BigInt(number({it}, \"{what}\", Number.MAX_SAFE_INTEGER))")
            }
            Kind::Number(bits) => format!("number({it}, \"{what}\", {})", (1_u64 << bits) - 1),
            Kind::Text => format!("text({it}, \"{what}\")"),
            Kind::Pairs => format!("pairs({it}, \"{}\")", place.elements().words()),
            Kind::List(one) => mapped(it, &self.sent(one, "one", place.elements())),
            Kind::Option(some) if matches!(self.contract.kind(some), Kind::Text) => {
                format!("optional({it}, \"{what}\")")
            }
            Kind::Option(some) => optional(it, &self.sent(some, it, place)),
            Kind::Record(name, _) => format!("{}wit{}({it})", self.prefix, pascal(name.name)),
            Kind::Enum(name) => format!("{}{}.to({it})", self.prefix, camel(name.name)),
            _ => it.to_owned(),
        }
    }

    /// Returns the function that has the functions of all exported interfaces.
    fn table(&self) -> String {
        let mut out = "\n/** Returns the functions of all interfaces. */\n".to_owned();
        out += "export function exports(plugin: Plugin) {\n  return {\n";
        for side in self.contract.sides().filter(|side| side.is_exported) {
            let functions = side.interface.functions.values();
            let methods: String = functions.map(|it| self.method(side, it)).collect();
            out += &format!("    {}: {{\n{methods}    }},\n", camel(side.name));
        }
        out + "  };\n}\n"
    }

    fn method(&self, side: Side<'_>, function: &Function) -> String {
        let params = joined(&function.params, ", ", |it| {
            match self.contract.kind(&it.ty) {
                Kind::Lent(name) => format!("lent: {}", wit(name)),
                _ => format!("{}: {}", camel(&it.name), self.declared(&it.ty)),
            }
        });
        let mut body = self.work(side, function);
        if let Some((name, resource)) = self.contract.lent(function) {
            let (class, name) = (pascal(resource.name), camel(name));
            let inner = body.replace('\n', "\n  ");
            body = format!("lend{class}(lent, ({name}) =>\n  {inner},\n)");
        }
        let (name, body) = (camel(&function.name), body.replace('\n', "\n        "));
        format!("      {name}: ({params}) =>\n        {body},\n")
    }

    /// Returns the expression that calls the plugin.
    fn work(&self, side: Side<'_>, function: &Function) -> String {
        let place = Place::new(side.name, &function.name);
        let provider = match side.name {
            BASE => BASE.to_owned(),
            name => format!("served(plugin.{})", camel(name)),
        };
        let argument = |it: &Param| self.received(&it.ty, &camel(&it.name), place);
        let arguments = joined(&function.params, "", |it| argument(it) + ", ");
        let name = camel(short(&function.name, side.name));
        let list = camel(self.contract.list(function).unwrap_or_default());
        let (answer, ty) = self.contract.answer(function);
        if let (Answer::Value, Some(ty)) = (answer, ty) {
            let call = format!("{provider}.{name}({})", arguments.trim_end_matches(", "));
            return self.sent(ty, &call, place);
        }
        let call = format!("(call) => {provider}.{name}({arguments}call)");
        let convert = ty.map_or("() => undefined".to_owned(), |ty| {
            lambda("found", &self.sent(ty, "found", place))
        });
        let first = match answer {
            Answer::Whole if ty.is_some() => "whole(".to_owned(),
            Answer::Whole | Answer::Value => return format!("answer({call})"),
            Answer::Elements if self.contract.has_storage_errors(function) => {
                format!("storageElements(\n  {list}.length,")
            }
            Answer::Elements => format!("elements(\n  {list}.length,"),
            Answer::OnlyElements => format!("onlyElements(\n  {list}.length,"),
        };
        format!("{first}\n  {call},\n  {convert},\n)")
    }
}

/// Returns the type of the bindings.
fn wit(name: Name<'_>) -> String {
    format!("wit{}.{}", pascal(name.interface), pascal(name.name))
}

/// Returns a function with this body, or the function that it calls.
fn lambda(it: &str, body: &str) -> String {
    let called = body.strip_suffix(&format!("({it})"));
    let called = called.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '.'));
    called.map_or_else(|| format!("({it}) => {body}"), str::to_owned)
}

fn mapped(it: &str, one: &str) -> String {
    match (one, it.contains(' ')) {
        ("one", _) => it.to_owned(),
        (_, true) => format!("({it}).map({})", lambda("one", one)),
        (_, false) => format!("{it}.map({})", lambda("one", one)),
    }
}

fn optional(it: &str, some: &str) -> String {
    let converted = format!("{it} == null ? undefined : {some}");
    if it == some { it.to_owned() } else { converted }
}
