//! Calls functions by their names, with arguments and answers as JSON: the form in which recordings
//! have them, which is that of serde for the generated types of [`bindings`](super::v0_1).

use serde_json::{Map, Value, json};
use wasmtime::{
    Store, bail,
    component::{Func, Instance, ResourceAny, Type, Val},
    format_err,
};

use crate::imports::State;

/// Finds a function, for example `list-routes` of `skydock:provider/routes@0.1.0`.
pub(super) fn find(
    store: &mut Store<State>,
    instance: &Instance,
    interface: &str,
    name: &str,
) -> wasmtime::Result<Func> {
    let function = instance
        .get_export_index(&mut *store, None, interface)
        .and_then(|index| instance.get_export_index(&mut *store, Some(&index), name))
        .and_then(|index| instance.get_func(&mut *store, index));
    function.ok_or_else(|| format_err!("the plugin does not export {name} of {interface}"))
}

/// Calls a function with an array of arguments. An argument that is a handle is not in the array:
/// the function borrows `lent`.
pub(super) async fn call(
    store: &mut Store<State>,
    function: Func,
    arguments: Value,
    lent: ResourceAny,
) -> wasmtime::Result<Value> {
    let ty = function.ty(&*store);
    let params = params(ty.params().map(|(_, ty)| ty), arguments, lent).ok_or_else(|| {
        format_err!("the recorded arguments are not those of this version of the contract")
    })?;

    // Replaced by the results.
    let mut results = vec![Val::Bool(false); ty.results().len()];
    function
        .call_async(&mut *store, &params, &mut results)
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
) -> Option<Vec<Val>> {
    let mut arguments = match arguments {
        Value::Array(arguments) => arguments.into_iter(),
        // serde's form of no arguments.
        Value::Null => Vec::new().into_iter(),
        _ => return None,
    };

    let params = types
        .map(|ty| match ty {
            Type::Borrow(_) => Some(Val::Resource(lent)),
            ty => from_json(&ty, arguments.next()?),
        })
        .collect();
    arguments.next().is_none().then_some(params).flatten()
}

/// Returns the value of this type, unless the JSON is that of another one.
fn from_json(ty: &Type, json: Value) -> Option<Val> {
    Some(match (ty, json) {
        (Type::Bool, Value::Bool(it)) => Val::Bool(it),
        (Type::U8, it) => Val::U8(it.as_u64()?.try_into().ok()?),
        (Type::U16, it) => Val::U16(it.as_u64()?.try_into().ok()?),
        (Type::U32, it) => Val::U32(it.as_u64()?.try_into().ok()?),
        (Type::U64, it) => Val::U64(it.as_u64()?),
        (Type::S32, it) => Val::S32(it.as_i64()?.try_into().ok()?),
        (Type::S64, it) => Val::S64(it.as_i64()?),
        (Type::String, Value::String(it)) => Val::String(it),
        (Type::List(list), Value::Array(all)) => {
            let ty = list.ty();
            let all = all.into_iter().map(|it| from_json(&ty, it));
            Val::List(all.collect::<Option<_>>()?)
        }
        (Type::Tuple(tuple), Value::Array(all)) if tuple.types().len() == all.len() => {
            let all = tuple.types().zip(all).map(|(ty, it)| from_json(&ty, it));
            Val::Tuple(all.collect::<Option<_>>()?)
        }
        (Type::Record(record), Value::Object(mut all)) => {
            let fields = record.fields().map(|field| {
                // serde leaves out no field but reads a missing one as an absent option.
                let it = all.remove(&rust_field(field.name)).unwrap_or_default();
                Some((field.name.to_owned(), from_json(&field.ty, it)?))
            });
            Val::Record(fields.collect::<Option<_>>()?)
        }
        (Type::Enum(cases), Value::String(it)) => {
            Val::Enum(cases.names().find(|name| rust_case(name) == it)?.to_owned())
        }
        (Type::Variant(variant), it) => {
            let (name, payload) = case(it)?;
            let case = variant.cases().find(|case| rust_case(case.name) == name)?;
            let payload = optional(case.ty.as_ref(), payload)?;
            Val::Variant(case.name.to_owned(), payload)
        }
        (Type::Option(_), Value::Null) => Val::Option(None),
        (Type::Option(option), it) => Val::Option(Some(Box::new(from_json(&option.ty(), it)?))),
        (Type::Result(result), it) => match case(it)? {
            (name, payload) if name == "Ok" => {
                Val::Result(Ok(optional(result.ok().as_ref(), payload)?))
            }
            (name, payload) if name == "Err" => {
                Val::Result(Err(optional(result.err().as_ref(), payload)?))
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the name and the value of a case of an enum in Rust.
fn case(json: Value) -> Option<(String, Value)> {
    match json {
        Value::String(name) => Some((name, Value::Null)),
        Value::Object(cases) => cases.into_iter().next(),
        _ => None,
    }
}

/// Returns the value of a case that may have none.
fn optional(ty: Option<&Type>, json: Value) -> Option<Option<Box<Val>>> {
    match ty {
        None => Some(None),
        Some(ty) => Some(Some(Box::new(from_json(ty, json)?))),
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

/// Returns the name of a field in Rust.
fn rust_field(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the name of a case in Rust.
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
}
