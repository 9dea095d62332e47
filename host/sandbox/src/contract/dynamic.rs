//! Calls functions by their names, with arguments and answers as JSON: the form in which recordings
//! have them, which is that of serde for the generated types of [`bindings`](super::v0_1).

use serde_json::{Map, Value, json};
use wasmtime::{
    Store, bail,
    component::{
        Func, Instance, ResourceAny, Type, Val,
        types::{Record, Variant},
    },
};

use crate::imports::State;

/// Why a recorded call cannot be made: the plugin, or this version of the contract, does not have
/// its function or its arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub(crate) struct BadCall {
    /// The function, or the place of a value, for example `argument 1[0].name`.
    place: String,
    why: String,
}

impl BadCall {
    pub(super) fn new(place: &str, why: impl Into<String>) -> Self {
        Self {
            place: place.to_owned(),
            why: why.into(),
        }
    }

    /// Adds where the value is that has the place.
    fn inside(mut self, outer: &str) -> Self {
        self.place.insert_str(0, outer);
        self
    }
}

/// Finds a function, for example `list-routes` of `skydock:provider/routes@0.1.0`.
pub(super) fn find(
    store: &mut Store<State>,
    instance: &Instance,
    interface: &str,
    name: &str,
) -> Result<Func, BadCall> {
    let function = instance
        .get_export_index(&mut *store, None, interface)
        .and_then(|index| instance.get_export_index(&mut *store, Some(&index), name))
        .and_then(|index| instance.get_func(&mut *store, index));

    function.ok_or_else(|| {
        BadCall::new(
            name,
            format!("the plugin does not export this function of {interface}"),
        )
    })
}

/// Returns an array of arguments as those of a function. An argument that is a handle is not in the
/// array: the function borrows `lent`.
pub(super) fn arguments(
    store: &Store<State>,
    function: Func,
    arguments: Value,
    lent: ResourceAny,
) -> Result<Vec<Val>, BadCall> {
    let ty = function.ty(store);
    params(ty.params().map(|(_, ty)| ty), arguments, lent)
}

/// Calls a function.
pub(super) async fn call(
    store: &mut Store<State>,
    function: Func,
    params: &[Val],
) -> wasmtime::Result<Value> {
    // Replaced by the results.
    let mut results = vec![Val::Bool(false); function.ty(&*store).results().len()];
    function
        .call_async(&mut *store, params, &mut results)
        .await?;

    match results.pop() {
        None => Ok(Value::Null),
        Some(result) => to_json(result),
    }
}

fn params(
    types: impl Iterator<Item = Type>,
    arguments: Value,
    lent: ResourceAny,
) -> Result<Vec<Val>, BadCall> {
    let mut arguments = match arguments {
        Value::Array(arguments) => (1..).zip(arguments),
        // serde's form of no arguments.
        Value::Null => (1..).zip(Vec::new()),
        _ => return Err(BadCall::new("arguments", "expected a list")),
    };

    let params = types.map(|ty| match ty {
        Type::Borrow(_) => Ok(Val::Resource(lent)),
        ty => match arguments.next() {
            Some((number, it)) => {
                from_json(&ty, it).map_err(|error| error.inside(&format!("argument {number}")))
            }
            None => Err(BadCall::new("arguments", "one is missing")),
        },
    });
    let params = params.collect::<Result<_, _>>()?;

    match arguments.next() {
        None => Ok(params),
        Some((number, _)) => Err(BadCall::new(
            &format!("argument {number}"),
            "the function has fewer arguments",
        )),
    }
}

/// Returns the value of this type, unless the JSON is that of another one.
fn from_json(ty: &Type, json: Value) -> Result<Val, BadCall> {
    Ok(match (ty, json) {
        (Type::Bool, Value::Bool(it)) => Val::Bool(it),
        (Type::U8, it) => Val::U8(number(it.as_u64())?),
        (Type::U16, it) => Val::U16(number(it.as_u64())?),
        (Type::U32, it) => Val::U32(number(it.as_u64())?),
        (Type::U64, it) => Val::U64(number(it.as_u64())?),
        (Type::S32, it) => Val::S32(number(it.as_i64())?),
        (Type::S64, it) => Val::S64(number(it.as_i64())?),
        (Type::String, Value::String(it)) => Val::String(it),
        (Type::List(list), Value::Array(all)) => {
            let ty = list.ty();
            Val::List(elements(all.into_iter().map(|it| (ty.clone(), it)))?)
        }
        (Type::Tuple(tuple), Value::Array(all)) if tuple.types().len() == all.len() => {
            Val::Tuple(elements(tuple.types().zip(all))?)
        }
        (Type::Record(ty), Value::Object(fields)) => record(ty, fields)?,
        (Type::Enum(cases), Value::String(it)) => {
            let case = cases.names().find(|name| rust_case(name) == it);
            let case = case.ok_or_else(|| unknown("case", &it, cases.names().map(rust_case)))?;
            Val::Enum(case.to_owned())
        }
        (Type::Variant(ty), it) => variant(ty, it)?,
        (Type::Option(_), Value::Null) => Val::Option(None),
        (Type::Option(option), it) => Val::Option(Some(Box::new(from_json(&option.ty(), it)?))),
        (Type::Result(result), it) => match case(it)? {
            (name, payload) if name == "Ok" => {
                Val::Result(Ok(optional(result.ok().as_ref(), payload)?))
            }
            (name, payload) if name == "Err" => {
                Val::Result(Err(optional(result.err().as_ref(), payload)?))
            }
            (name, _) => return Err(unknown("case", &name, ["Ok", "Err"].map(str::to_owned))),
        },
        (_, other) => return Err(another_type(&other)),
    })
}

/// Returns the error for a value that has another type in this version of the contract.
fn another_type(value: &Value) -> BadCall {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    BadCall::new(
        "",
        format!("{found} does not have the type of the contract"),
    )
}

/// Returns the error for a name that is not one of those.
fn unknown(what: &str, name: &str, known: impl IntoIterator<Item = String>) -> BadCall {
    let known: Vec<_> = known.into_iter().map(|name| format!("`{name}`")).collect();
    BadCall::new(
        "",
        format!(
            "unknown {what} `{name}`; expected one of {}",
            known.join(", ")
        ),
    )
}

/// Returns the number in a smaller type.
fn number<N, T: TryFrom<N>>(number: Option<N>) -> Result<T, BadCall> {
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| BadCall::new("", "it is not a number of the contract's type"))
}

/// Returns values in a list.
fn elements(all: impl Iterator<Item = (Type, Value)>) -> Result<Vec<Val>, BadCall> {
    let element = |(index, (ty, it)): (usize, (Type, Value))| {
        from_json(&ty, it).map_err(|error| error.inside(&format!("[{index}]")))
    };
    all.enumerate().map(element).collect()
}

/// Returns a record. A field that it does not have is an error: the call would be another one
/// without it.
fn record(ty: &Record, mut json: Map<String, Value>) -> Result<Val, BadCall> {
    let names = || ty.fields().map(|field| rust_field(field.name));
    if let Some(other) = json.keys().find(|key| names().all(|name| name != **key)) {
        return Err(unknown("field", other, names()));
    }

    let fields = ty.fields().map(|field| {
        let name = rust_field(field.name);
        // serde leaves out no field but reads a missing one as an absent option.
        let it = json.remove(&name).unwrap_or_default();
        let val = from_json(&field.ty, it).map_err(|error| error.inside(&format!(".{name}")))?;
        Ok((field.name.to_owned(), val))
    });
    Ok(Val::Record(fields.collect::<Result<_, _>>()?))
}

/// Returns a variant, of which recordings have the name, or the name and the payload.
fn variant(ty: &Variant, json: Value) -> Result<Val, BadCall> {
    let (name, payload) = case(json)?;
    let mut cases = ty.cases();

    let Some(case) = cases.find(|case| rust_case(case.name) == name) else {
        let known = ty.cases().map(|case| rust_case(case.name));
        return Err(unknown("case", &name, known));
    };

    let payload =
        optional(case.ty.as_ref(), payload).map_err(|error| error.inside(&format!(".{name}")))?;
    Ok(Val::Variant(case.name.to_owned(), payload))
}

/// Returns the name and the value of a case of an enum in Rust.
fn case(json: Value) -> Result<(String, Value), BadCall> {
    match json {
        Value::String(name) => Ok((name, Value::Null)),
        Value::Object(cases) if cases.len() == 1 => {
            let mut cases = cases.into_iter();
            cases.next().ok_or_else(|| another_type(&Value::Null))
        }
        other => Err(another_type(&other)),
    }
}

/// Returns the value of a case that may have none.
fn optional(ty: Option<&Type>, json: Value) -> Result<Option<Box<Val>>, BadCall> {
    match (ty, json) {
        (None, Value::Null) => Ok(None),
        (None, other) => Err(another_type(&other)),
        (Some(ty), json) => Ok(Some(Box::new(from_json(ty, json)?))),
    }
}

fn to_json(val: Val) -> wasmtime::Result<Value> {
    let all = |vals: Vec<Val>| {
        let all = vals.into_iter().map(to_json);
        all.collect::<wasmtime::Result<Vec<_>>>()
    };
    let payload = |val: Option<Box<Val>>| val.map_or(Ok(Value::Null), |val| to_json(*val));

    Ok(match val {
        Val::Bool(it) => json!(it),
        Val::U8(it) => json!(it),
        Val::U16(it) => json!(it),
        Val::U32(it) => json!(it),
        Val::U64(it) => json!(it),
        Val::S32(it) => json!(it),
        Val::S64(it) => json!(it),
        Val::String(it) => json!(it),
        Val::List(vals) | Val::Tuple(vals) => Value::Array(all(vals)?),
        Val::Record(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, val)| Ok((rust_field(&name), to_json(val)?)));
            Value::Object(fields.collect::<wasmtime::Result<Map<_, _>>>()?)
        }
        Val::Enum(name) | Val::Variant(name, None) => json!(rust_case(&name)),
        Val::Variant(name, val) => json!({rust_case(&name): payload(val)?}),
        Val::Option(val) => payload(val)?,
        Val::Result(Ok(val)) => json!({"Ok": payload(val)?}),
        Val::Result(Err(val)) => json!({"Err": payload(val)?}),
        other => bail!("the contract has no such value: {other:?}"),
    })
}

fn rust_field(name: &str) -> String {
    name.replace('-', "_")
}

fn rust_case(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|it| it.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect()
}

#[cfg(test)]
mod tests {
    use wasmtime::component::types::ComponentItem;

    use super::*;

    #[test]
    fn names_are_those_of_the_generated_types() {
        assert_eq!(rust_field("provider-id"), "provider_id");
        assert_eq!(rust_case("external-ip"), "ExternalIp");
        assert_eq!(rust_case("v4"), "V4");
    }

    #[test]
    fn values_have_the_form_that_recordings_have() {
        let text = |it: &str| Val::String(it.to_owned());
        let some = |val| Some(Box::new(val));
        for (val, expected) in [
            (Val::Option(None), json!(null)),
            (Val::Enum("external-ip".into()), json!("ExternalIp")),
            (
                Val::Variant("implemented-elsewhere".into(), None),
                json!("ImplementedElsewhere"),
            ),
            (
                Val::Variant("not-found".into(), some(text("n1"))),
                json!({"NotFound": "n1"}),
            ),
            (
                Val::Result(Ok(some(Val::List(vec![Val::Result(Ok(None))])))),
                json!({"Ok": [{"Ok": null}]}),
            ),
            (
                Val::Record(vec![("after-ms".into(), Val::U64(7))]),
                json!({"after_ms": 7}),
            ),
            (Val::Tuple(vec![text("a"), text("b")]), json!(["a", "b"])),
        ] {
            assert_eq!(to_json(val).unwrap(), expected);
        }
        assert!(to_json(Val::Char('a')).is_err());
    }

    /// Returns the types of a function's arguments: a node and a presence.
    fn types() -> Vec<Type> {
        let engine = wasmtime::Engine::default();
        let text = r#"(component
            (type $node' (record
                (field "name" string) (field "provider-id" (option string)) (field "ports" (list u8))))
            (import "node" (type $node (eq $node')))
            (type $error' (variant (case "not-found" string) (case "implemented-elsewhere")))
            (import "error" (type $error (eq $error')))
            (import "f" (func (param "node" $node) (param "error" $error))))"#;
        let bytes = wat::parse_str(text).unwrap();
        let component = wasmtime::component::Component::new(&engine, bytes).unwrap();
        let ty = component.component_type();
        let Some(ComponentItem::ComponentFunc(ty)) = ty.get_import(&engine, "f").map(|it| it.ty)
        else {
            panic!()
        };
        ty.params().map(|(_, ty)| ty).collect()
    }

    #[test]
    fn arguments_that_do_not_fit_say_where_and_why() {
        let types = types();
        let with = |node: Value, error: Value| {
            let values = [node, error].into_iter();
            let all = types.iter().zip(values).zip(1..).map(|((ty, it), number)| {
                from_json(ty, it).map_err(|error| error.inside(&format!("argument {number}")))
            });
            all.collect::<Result<Vec<_>, _>>()
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let node = || json!({"name": "n", "provider_id": "x", "ports": [1]});
        let error = || json!("ImplementedElsewhere");

        for (node, error) in [
            (node(), error()),
            (json!({"name": "n", "ports": []}), json!({"NotFound": "n"})),
            (node(), json!({"ImplementedElsewhere": null})),
        ] {
            assert_eq!(with(node, error), Ok(()));
        }

        for (node, error, expected) in [
            (
                json!({"name": "n", "provder_id": "x", "ports": []}),
                error(),
                "argument 1: unknown field `provder_id`; expected one of `name`, `provider_id`, `ports`",
            ),
            (
                json!({"name": "n", "ports": [1, 256]}),
                error(),
                "argument 1.ports[1]: it is not a number of the contract's type",
            ),
            (
                json!({"ports": []}),
                error(),
                "argument 1.name: null does not have the type of the contract",
            ),
            (
                node(),
                json!("Gone"),
                "argument 2: unknown case `Gone`; expected one of `NotFound`, `ImplementedElsewhere`",
            ),
            (
                node(),
                json!({"NotFound": 1}),
                "argument 2.NotFound: a number does not have the type of the contract",
            ),
            (
                node(),
                json!({"NotFound": "n", "ImplementedElsewhere": null}),
                "argument 2: an object does not have the type of the contract",
            ),
            (
                node(),
                json!({"ImplementedElsewhere": "text"}),
                "argument 2.ImplementedElsewhere: a string does not have the type of the contract",
            ),
        ] {
            assert_eq!(with(node, error), Err(expected.to_owned()));
        }
    }
}
