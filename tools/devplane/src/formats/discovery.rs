//! Discovery documents: `/api`, `/apis`, their versions, and the aggregated form that current
//! clients request.

use serde_json::{Value, json};

use crate::resources::resource::{self, Resource, Subresource};

/// The Kubernetes version that this server reports: that of the API it follows.
pub(crate) const VERSION: (&str, &str) = ("1", "33");

/// Returns the document of `/version`.
pub(crate) fn version() -> Value {
    let (major, minor) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+devplane"), "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Returns the document of `/api`.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// Returns the document of `/apis`.
pub(crate) fn groups() -> Value {
    let groups: Vec<_> = group_versions()
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(group)
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document of `/apis/GROUP`.
pub(crate) fn named_group(name: &str) -> Option<Value> {
    let found = group_versions()
        .into_iter()
        .find(|(group, _)| !group.is_empty() && *group == name)?;
    let mut value = group(found);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".into(), "APIGroup".into());
        fields.insert("apiVersion".into(), "v1".into());
    }
    Some(value)
}

fn group((name, version): (&str, &str)) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

/// Returns all groups with their versions. Each group has one version.
pub(crate) fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = resource::ALL
        .iter()
        .map(|resource| (resource.group, resource.version))
        .collect();
    // Resources of a group are next to each other in the list.
    all.dedup();
    all
}

/// Returns the document of `/api/v1` or `/apis/GROUP/VERSION`.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };

    let mut list = Vec::new();
    for resource in of_group(group, version) {
        list.push(json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced, "kind": resource.kind,
            "verbs": resource.verbs(), "shortNames": resource.short_names, "categories": categories(resource),
        }));
        for subresource in resource.subresources {
            let (kind, group, version, verbs) = describe(resource, *subresource);
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name()), "singularName": "", "kind": kind,
                "namespaced": resource.namespaced, "verbs": verbs,
            });
            // Without these, clients take group and version of the list.
            if group != resource.group
                && let Some(fields) = entry.as_object_mut()
            {
                fields.insert("group".into(), group.into());
                fields.insert("version".into(), version.into());
            }
            list.push(entry);
        }
    }

    (!list.is_empty())
        .then(|| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": list}))
}

/// Returns `/api` or `/apis` as `APIGroupDiscoveryList`, which contains everything in one response.
pub(crate) fn aggregated(core: bool) -> Value {
    let items: Vec<_> = group_versions()
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, version)| {
            let resources: Vec<_> = of_group(group, version).map(aggregated_resource).collect();
            json!({
                "metadata": {"name": group, "creationTimestamp": null},
                "versions": [{"version": version, "freshness": "Current", "resources": resources}],
            })
        })
        .collect();

    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let subresources: Vec<_> = resource
        .subresources
        .iter()
        .map(|subresource| {
            let (kind, group, version, verbs) = describe(resource, *subresource);
            let kind = json!({"group": group, "version": version, "kind": kind});
            json!({"subresource": subresource.name(), "responseKind": kind, "verbs": verbs})
        })
        .collect();

    json!({
        "resource": resource.plural, "singularResource": resource.singular, "scope": scope(resource.namespaced),
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "verbs": resource.verbs(), "shortNames": resource.short_names, "categories": categories(resource),
        "subresources": subresources,
    })
}

fn describe(
    resource: &Resource,
    subresource: Subresource,
) -> (&str, &str, &str, &'static [&'static str]) {
    match subresource {
        Subresource::Status => (
            resource.kind,
            resource.group,
            resource.version,
            &["get", "patch", "update"],
        ),
        Subresource::Token => ("TokenRequest", "authentication.k8s.io", "v1", &["create"]),
    }
}

fn of_group(group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
    resource::ALL
        .into_iter()
        .filter(move |resource| resource.group == group && resource.version == version)
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}

/// Returns the categories of a resource, for `kubectl get all`.
fn categories(resource: &Resource) -> &'static [&'static str] {
    if matches!(resource.plural, "services" | "pods") {
        &["all"]
    } else {
        &[]
    }
}
