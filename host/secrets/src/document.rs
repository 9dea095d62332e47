//! Secrets in a document whose format is known: YAML, which JSON is, too. What a text hides from
//! other ways, such as a name with escapes, is found here.

use serde_json::{Map, Value};

use crate::{
    name::{Holder, Member, Strength, holder, member, strength},
    value::{are_names, is_held, is_login, is_told_by, is_trivial, is_worth},
};

/// Names of the two fields of an object that is a name with its value.
const NAMED: [(&str, &str); 4] = [
    ("name", "value"),
    ("key", "value"),
    ("Name", "Value"),
    ("Key", "Value"),
];

/// Names of fields with the value of the field in which they are.
const CONTENTS: [&str; 6] = ["value", "data", "content", "text", "plain", "string"];

/// Returns the name of the first secret in a document, if it is one. `is_secret` decides about the
/// texts in it.
pub(crate) fn first(text: &str, is_secret: impl Fn(&str) -> bool) -> Option<String> {
    // Aliases can make a small document large. The depth stays the parser's, which fits on the stack
    // of any thread.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 200_000, max_events: 2_000_000 },
    };

    // What cannot be parsed was already searched as a text.
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).ok()?;
    documents
        .iter()
        .find_map(|document| within("", None, document, &is_secret))
}

/// Returns the name of the first secret in a value with this name. It may be below that of a secret.
fn within(
    name: &str,
    above: Option<(Holder, &str)>,
    value: &Value,
    is_secret: &impl Fn(&str) -> bool,
) -> Option<String> {
    let secret = || Some(name.to_owned());
    let held = |value: &str| {
        let (holder, above) = above?;
        is_held(holder, name, value).then(|| format!("{above}.{name}"))
    };

    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number)
            if strength(name) == Strength::Secret && !is_told_by(name, &number.to_string()) =>
        {
            secret()
        }
        Value::Number(number) => held(&number.to_string()),
        Value::String(text) => match strength(name) {
            _ if is_trivial(text) || is_told_by(name, text) => None,
            Strength::Secret => secret(),
            Strength::Maybe if is_worth(name, text) || is_login(text) => secret(),
            _ if is_secret(text) => secret(),
            _ => held(text),
        },
        Value::Array(all) => all
            .iter()
            .filter(|it| {
                // Lists of Secrets often have only their names: `secrets: [cloud-config, ca]`.
                let names = holder(name) == Some(Holder::Logins);
                !(names && it.as_str().is_some_and(are_names))
            })
            .find_map(|it| within(name, above, it, is_secret)),
        Value::Object(fields) => object(name, above, fields, is_secret),
    }
}

fn object(
    name: &str,
    above: Option<(Holder, &str)>,
    fields: &Map<String, Value>,
    is_secret: &impl Fn(&str) -> bool,
) -> Option<String> {
    // All data of a Secret of Kubernetes are secret.
    let is_manifest = fields.get("kind").and_then(Value::as_str) == Some("Secret");

    let named = NAMED.iter().find_map(|(key, content)| {
        let label = fields.get(*key)?.as_str()?;
        let value = fields.get(*content)?;
        within(label, None, value, is_secret)
    });

    let own = holder(name).map(|holder| (holder, name));
    let above = own.or(above.filter(|_| member(name) != Member::Reference));

    named.or_else(|| {
        fields.iter().find_map(|(key, value)| {
            let data = ["data", "stringData"].contains(&key.as_str()) && is_manifest;
            let is_content = CONTENTS.contains(&key.as_str()) && strength(name) == Strength::Secret;
            match value {
                Value::Object(all) if data && !all.is_empty() => Some(format!("{key} of a Secret")),
                value if is_content => within(name, None, value, is_secret),
                value => within(key, above, value, is_secret),
            }
        })
    })
}
