//! Parses paths of the API.

use percent_encoding::percent_decode_str;

/// The meaning of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `/api` or `/apis`.
    Root {
        core: bool,
    },
    Group(String),
    Version {
        group: String,
        version: String,
    },
    OpenApi {
        group: String,
        version: String,
    },
    Api(ApiPath),
}

/// Objects of a resource: all, those of a namespace, or one. Fields that are not in the path are
/// empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ApiPath {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: String,
    pub(super) plural: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

/// Parses a path, which is decoded before it is split, as in Go. Returns none if it is not a path
/// of the API.
pub(super) fn parse(path: &str) -> Option<Place> {
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let path = path.strip_prefix('/')?;
    let parts: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    let open_api = |group: &str, version: &str| Place::OpenApi {
        group: group.into(),
        version: version.into(),
    };

    match parts.as_slice() {
        ["openapi", "v3", "api", version] => Some(open_api("", version)),
        ["openapi", "v3", "apis", group, version] => Some(open_api(group, version)),
        ["api"] => Some(Place::Root { core: true }),
        ["apis"] => Some(Place::Root { core: false }),
        ["apis", group] => Some(Place::Group((*group).to_owned())),
        ["api", version, rest @ ..] => versioned("", version, rest),
        ["apis", group, version, rest @ ..] => versioned(group, version, rest),
        _ => None,
    }
}

fn versioned(group: &str, version: &str, rest: &[&str]) -> Option<Place> {
    let (namespace, plural, name, subresource) = match *rest {
        [] => {
            return Some(Place::Version {
                group: group.to_owned(),
                version: version.to_owned(),
            });
        }
        // A namespace is an object, too.
        ["namespaces", name, subresource @ ("status" | "finalize")] => {
            ("", "namespaces", name, subresource)
        }
        ["namespaces", name] => ("", "namespaces", name, ""),
        ["namespaces", namespace, plural] => (namespace, plural, "", ""),
        ["namespaces", namespace, plural, name] => (namespace, plural, name, ""),
        ["namespaces", namespace, plural, name, subresource] => {
            (namespace, plural, name, subresource)
        }
        [plural] => ("", plural, "", ""),
        [plural, name] => ("", plural, name, ""),
        [plural, name, subresource] => ("", plural, name, subresource),
        _ => return None,
    };

    Some(Place::Api(ApiPath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        plural: plural.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_as_by_an_api_server() {
        let api = |path: &str| match parse(path) {
            Some(Place::Api(api)) => [
                api.group,
                api.version,
                api.namespace,
                api.plural,
                api.name,
                api.subresource,
            ]
            .join(" "),
            other => format!("{other:?}"),
        };
        assert_eq!(api("/api/v1/nodes"), " v1  nodes  ");
        assert_eq!(api("/api/v1/nodes/a/status"), " v1  nodes a status");
        assert_eq!(api("/api/v1/namespaces"), " v1  namespaces  ");
        assert_eq!(api("/api/v1/namespaces/a"), " v1  namespaces a ");
        assert_eq!(
            api("/api/v1/namespaces/a/finalize"),
            " v1  namespaces a finalize"
        );
        assert_eq!(
            api("/api/v1/namespaces/a/services/b/status"),
            " v1 a services b status"
        );
        assert_eq!(
            api("/apis/coordination.k8s.io/v1/namespaces/a/leases/"),
            "coordination.k8s.io v1 a leases  "
        );
        assert_eq!(api("/api/v1/nodes/%61%2fstatus"), " v1  nodes a status");
        assert_eq!(parse("/apis/x"), Some(Place::Group("x".into())));
        assert_eq!(parse("/api/"), Some(Place::Root { core: true }));
        for nowhere in [
            "/",
            "",
            "/x",
            "/api//nodes",
            "/api/v1/a/b/c/d",
            "/openapi/v2",
            "/api/v1/%ff",
        ] {
            assert_eq!(parse(nowhere), None, "{nowhere}");
        }
    }
}
