//! Server-side apply, without conflicts.
//!
//! What a manager applies is merged into the object as if it had said `force`: nobody's fields are defended. What it applied
//! before and leaves out now goes, unless another manager applied it too. Ownership is remembered for managers that apply,
//! not for those that update or patch, and is not shown in `metadata.managedFields`.

use serde_json::{Map, Value};

use crate::{
    object::Applied,
    schema::{Object, Type},
};

/// The object after `manager` applied `config`, and what everyone has applied now.
pub(crate) fn apply(
    mut live: Value,
    config: &Value,
    applied: &Applied,
    manager: &str,
    schema: &'static Object,
) -> (Value, Applied) {
    let mut applied = applied.clone();
    let before = applied.insert(manager.to_owned(), owned(config));
    if let Some(before) = before {
        let mut kept = Value::Object(Map::new());
        for config in applied.values() {
            merge(&mut kept, config, Type::Object(schema));
        }
        drop_unlisted(&mut live, &before, &kept, Type::Object(schema));
    }
    merge(&mut live, config, Type::Object(schema));
    (live, applied)
}

/// What a configuration owns: all but the object's identity.
fn owned(config: &Value) -> Value {
    let mut config = config.clone();
    if let Value::Object(config) = &mut config {
        config.remove("apiVersion");
        config.remove("kind");
        if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
            for field in ["name", "namespace", "uid", "resourceVersion"] {
                metadata.remove(field);
            }
        }
    }
    config
}

fn merge(live: &mut Value, config: &Value, ty: Type) {
    match (ty, live, config) {
        (Type::Object(object), Value::Object(live), Value::Object(config)) => {
            for (name, value) in config {
                merge_entry(live, name, value, object.field(name).unwrap_or(Type::Any));
            }
        }
        (Type::Map(item), Value::Object(live), Value::Object(config)) => {
            for (name, value) in config {
                merge_entry(live, name, value, *item);
            }
        }
        (Type::Set(_), Value::Array(live), Value::Array(config)) => {
            for element in config {
                if !live.contains(element) {
                    live.push(element.clone());
                }
            }
        }
        (Type::Keyed(object, _, keys), Value::Array(live), Value::Array(config)) => {
            for element in config {
                match live.iter_mut().find(|present| same(present, element, keys)) {
                    Some(present) => merge(present, element, Type::Object(object)),
                    None => live.push(element.clone()),
                }
            }
        }
        (_, live, config) => *live = config.clone(),
    }
}

fn merge_entry(live: &mut Map<String, Value>, name: &str, value: &Value, ty: Type) {
    match live.get_mut(name) {
        _ if value.is_null() => {
            live.remove(name);
        }
        Some(present) => merge(present, value, ty),
        None => {
            live.insert(name.to_owned(), value.clone());
        }
    }
}

/// Removes from `live` what is in `before` and not in `kept`. Answers whether nothing is left of it.
fn drop_unlisted(live: &mut Value, before: &Value, kept: &Value, ty: Type) -> bool {
    match (ty, live, before) {
        (Type::Object(_) | Type::Map(_), Value::Object(live), Value::Object(before)) => {
            for (name, before) in before {
                let ty = match ty {
                    Type::Object(object) => object.field(name).unwrap_or(Type::Any),
                    Type::Map(item) => *item,
                    _ => Type::Any,
                };
                let kept = kept.get(name).unwrap_or(&Value::Null);
                if live.get_mut(name).is_some_and(|live| drop_unlisted(live, before, kept, ty)) {
                    live.remove(name);
                }
            }
            kept.is_null() && live.is_empty()
        }
        (Type::Set(_), Value::Array(live), Value::Array(before)) => {
            let kept = kept.as_array().map_or(&[][..], Vec::as_slice);
            live.retain(|element| !before.contains(element) || kept.contains(element));
            live.is_empty()
        }
        (Type::Keyed(object, _, keys), Value::Array(live), Value::Array(before)) => {
            let kept = kept.as_array().map_or(&[][..], Vec::as_slice);
            live.retain_mut(|element| {
                let Some(before) = before.iter().find(|before| same(before, element, keys)) else { return true };
                match kept.iter().find(|kept| same(kept, element, keys)) {
                    Some(kept) => {
                        drop_unlisted(element, before, kept, Type::Object(object));
                        true
                    }
                    None => false,
                }
            });
            live.is_empty()
        }
        _ => kept.is_null(),
    }
}

/// Whether two elements of a list are the same one. A port without a protocol is a TCP port: the one default among keys.
fn same(one: &Value, other: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| {
        let default = Value::from("TCP");
        let or_default = |value: &Value| {
            let value = value.get(key);
            value.cloned().or_else(|| (*key == "protocol").then(|| default.clone()))
        };
        or_default(one) == or_default(other)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::core::SERVICE;

    fn steps(start: Value, steps: &[(&str, Value)]) -> Value {
        let apply_one =
            |(live, applied), (manager, config): &(&str, Value)| apply(live, config, &applied, manager, &SERVICE);
        steps.iter().fold((start, Applied::new()), apply_one).0
    }

    #[test]
    fn what_a_manager_no_longer_applies_goes_and_the_rest_stays() {
        let live = steps(
            json!({"metadata": {"labels": {"theirs": "1"}, "finalizers": ["theirs"]}}),
            &[
                ("me", json!({"metadata": {"labels": {"a": "1", "b": "1"}, "finalizers": ["mine"]}})),
                ("me", json!({"metadata": {"labels": {"b": "2"}}})),
            ],
        );
        assert_eq!(live, json!({"metadata": {"labels": {"theirs": "1", "b": "2"}, "finalizers": ["theirs"]}}));
    }

    #[test]
    fn what_another_manager_applied_too_stays() {
        let live = steps(
            json!({}),
            &[
                ("me", json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "x"}})),
                ("you", json!({"spec": {"type": "LoadBalancer"}})),
                ("me", json!({"spec": {}})),
            ],
        );
        assert_eq!(live, json!({"spec": {"type": "LoadBalancer"}}));
    }

    #[test]
    fn ports_merge_by_port_and_protocol() {
        let live = steps(
            json!({"spec": {"ports": [{"port": 53, "protocol": "TCP", "nodePort": 30000}, {"port": 53, "protocol": "UDP", "nodePort": 30001}]}}),
            &[
                ("me", json!({"spec": {"ports": [{"port": 53, "name": "tcp"}, {"port": 80}]}})),
                ("me", json!({"spec": {"ports": [{"port": 53, "protocol": "TCP", "name": "dns"}]}})),
            ],
        );
        assert_eq!(
            live,
            json!({"spec": {"ports": [
                {"port": 53, "protocol": "TCP", "nodePort": 30000, "name": "dns"},
                {"port": 53, "protocol": "UDP", "nodePort": 30001},
            ]}})
        );
    }

    #[test]
    fn atomic_parts_are_replaced_as_a_whole() {
        let live = steps(
            json!({"spec": {"selector": {"a": "1"}}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}),
            &[(
                "me",
                json!({"spec": {"selector": {"b": "1"}}, "status": {"loadBalancer": {"ingress": [{"hostname": "x"}]}}}),
            )],
        );
        assert_eq!(
            live,
            json!({"spec": {"selector": {"b": "1"}}, "status": {"loadBalancer": {"ingress": [{"hostname": "x"}]}}})
        );
    }
}
