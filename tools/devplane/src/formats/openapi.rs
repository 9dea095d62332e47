//! OpenAPI v3, generated from the schema: enough for `kubectl` to validate on the server, to merge,
//! and to explain.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    formats::discovery,
    resources::{
        resource::{self, Resource},
        schema::{Object, Type},
    },
};

/// Returns `/openapi/v3`: the paths of the documents of all groups.
pub(crate) fn index() -> Value {
    let paths: Map<_, _> = discovery::group_versions()
        .into_iter()
        .map(|(group, version)| {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            // Clients cache by the hash; the document only changes with the program.
            let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// Returns `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn document(group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = BTreeMap::new();
    for resource in resource::ALL {
        if (resource.group, resource.version) == (group, version) {
            add_paths(resource, &mut paths);
            add_schema(resource.schema, Some(resource), &mut schemas);
        }
    }
    (!paths.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": version},
            "paths": paths, "components": {"schemas": schemas},
        })
    })
}

/// Adds the paths of all objects of a resource, and of one.
fn add_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let selectors = ["labelSelector", "fieldSelector"];

    let mut all = Map::new();
    all.insert("get".into(), operation(resource, "list", &selectors, &[]));
    let mut one = Map::new();
    one.insert("get".into(), operation(resource, "get", &[], &[]));

    if resource.verbs().contains(&"patch") {
        let media = ["application/json"];
        let patches = [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        all.insert("post".into(), operation(resource, "post", &write, &media));
        one.insert("put".into(), operation(resource, "put", &write, &media));
        one.insert(
            "delete".into(),
            operation(resource, "delete", &["dryRun"], &[]),
        );
        one.insert(
            "patch".into(),
            operation(resource, "patch", &write, &patches),
        );
    }

    let root = root(resource);
    paths.insert(root.clone(), all.into());
    paths.insert(format!("{root}/{{name}}"), one.into());
}

/// Returns the path of all objects of a resource.
fn root(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let namespace = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };

    format!(
        "{prefix}/{}{namespace}/{}",
        resource.api_version(),
        resource.plural
    )
}

/// Returns an operation with these query parameters, whose body has one of these media types.
fn operation(resource: &Resource, action: &str, query: &[&str], media: &[&str]) -> Value {
    let parameters: Vec<_> = query
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}))
        .collect();
    let reference = json!({"$ref": format!("#/components/schemas/{}", resource.schema.name)});
    let answer = json!({"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}});

    let mut operation = json!({
        "operationId": format!("{action}{}", resource.kind), "parameters": parameters, "responses": answer,
        "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind_of(resource),
    });

    let content: Map<_, _> = media
        .iter()
        .map(|media| ((*media).to_owned(), json!({"schema": reference})))
        .collect();
    if !content.is_empty()
        && let Some(fields) = operation.as_object_mut()
    {
        fields.insert("requestBody".into(), json!({"content": content}));
    }
    operation
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn add_schema(
    object: &'static Object,
    resource: Option<&Resource>,
    schemas: &mut BTreeMap<&'static str, Value>,
) {
    if schemas.contains_key(object.name) {
        return;
    }

    // Placeholder, for types that refer to this one.
    schemas.insert(object.name, Value::Null);
    let properties: Map<_, _> = object
        .fields
        .iter()
        .map(|(_, name, ty)| ((*name).to_owned(), property(*ty, schemas)))
        .collect();

    let mut schema = json!({"type": "object", "properties": properties});
    if let (Some(resource), Some(fields)) = (resource, schema.as_object_mut()) {
        fields.insert(
            "x-kubernetes-group-version-kind".into(),
            json!([kind_of(resource)]),
        );
    }

    schemas.insert(object.name, schema);
}

fn property(ty: Type, schemas: &mut BTreeMap<&'static str, Value>) -> Value {
    match ty {
        Type::Str => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Type::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::Any => json!({"type": "object"}),
        Type::Object(object) => reference(object, schemas),
        Type::Map(item) => {
            json!({"type": "object", "additionalProperties": property(*item, schemas)})
        }
        Type::List(item) => with(
            array(*item, schemas),
            &[("x-kubernetes-list-type", "atomic".into())],
        ),
        Type::Set(item) => {
            let set = [
                ("x-kubernetes-list-type", "set".into()),
                ("x-kubernetes-patch-strategy", "merge".into()),
            ];
            with(array(*item, schemas), &set)
        }
        Type::Keyed(object, merge_key) => {
            let keyed = [
                ("x-kubernetes-patch-strategy", "merge".into()),
                ("x-kubernetes-patch-merge-key", merge_key.into()),
            ];
            with(array(Type::Object(object), schemas), &keyed)
        }
    }
}

fn array(item: Type, schemas: &mut BTreeMap<&'static str, Value>) -> Value {
    json!({"type": "array", "items": property(item, schemas)})
}

fn reference(object: &'static Object, schemas: &mut BTreeMap<&'static str, Value>) -> Value {
    add_schema(object, None, schemas);
    json!({"allOf": [{"$ref": format!("#/components/schemas/{}", object.name)}]})
}

fn with(mut schema: Value, extensions: &[(&str, Value)]) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.extend(
            extensions
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_reference_resolves() {
        for resource in resource::ALL {
            let document = document(resource.group, resource.version).unwrap();
            let text = document.to_string();
            let schemas = document["components"]["schemas"].as_object().unwrap();
            for part in text.split("#/components/schemas/").skip(1) {
                let name = part.split('"').next().unwrap();
                assert!(schemas[name].is_object(), "{name}");
            }
        }
        assert!(document("apps", "v1").is_none());
    }

    #[test]
    fn a_patch_operation_has_the_field_validation_parameter() {
        let document = document("", "v1").unwrap();
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/services/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Service");
        assert!(
            patch["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .any(|parameter| parameter["name"] == "fieldValidation")
        );
    }
}
