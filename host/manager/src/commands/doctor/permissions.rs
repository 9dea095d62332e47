//! The permissions of Skydock, as in `deploy/base/rbac.yaml`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    ccm::{Ccm, LEASE_NAME, LEASE_NAMESPACE},
    snapshot::Account,
};
use crate::config::LeaseName;

/// What an account may do with objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permission {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    /// With its subresource.
    pub(super) resource: &'static str,
    /// The only object that it is about.
    pub(super) name: Option<String>,
    /// If it is needed only there.
    pub(super) namespace: Option<String>,
}

impl Permission {
    /// Returns the account of the controller that needs it, if each has its own.
    fn controller(&self) -> Option<&'static str> {
        match (self.resource, self.verb) {
            ("nodes" | "nodes/status", "delete" | "patch") => Some("node-controller"),
            ("services/status", "patch") => Some("service-controller"),
            _ => None,
        }
    }
}

/// What only cloud-controller-managers may do, and other components of the cluster.
pub(super) const CHANGES_NODES: Permission = Permission {
    verb: "patch",
    group: "",
    resource: "nodes",
    name: None,
    namespace: None,
};

/// Returns the permission to act as the account that changes nodes, if each controller has one.
pub(super) fn acts_as_node_controller() -> Permission {
    Permission {
        verb: "create",
        resource: "serviceaccounts/token",
        name: Some("node-controller".to_owned()),
        namespace: Some(LEASE_NAMESPACE.to_owned()),
        ..CHANGES_NODES
    }
}

/// Returns the permissions that Skydock needs, and the account of each: with one for each controller,
/// its own must not have those to change nodes and Services.
pub(super) fn needed_by(ccm: &Ccm) -> Vec<(Account, Permission)> {
    let own = ccm.account();
    let account = |permission: &Permission| match permission.controller() {
        Some(name) if ccm.has_accounts() => Account {
            namespace: LEASE_NAMESPACE.to_owned(),
            name: name.to_owned(),
        },
        _ => own.clone(),
    };
    let all = needed(ccm.lease()).into_iter();
    all.map(|permission| (account(&permission), permission))
        .collect()
}

/// Returns the permissions that Skydock needs with a Lease.
pub(super) fn needed(lease: Option<LeaseName>) -> Vec<Permission> {
    let lease = lease.unwrap_or_else(|| LeaseName {
        namespace: LEASE_NAMESPACE.to_owned(),
        name: LEASE_NAME.to_owned(),
    });
    let everywhere = |group, resource, verb| Permission {
        verb,
        group,
        resource,
        name: None,
        namespace: None,
    };
    let local = |group, resource, verb, name: Option<&str>| Permission {
        name: name.map(str::to_owned),
        namespace: Some(lease.namespace.clone()),
        ..everywhere(group, resource, verb)
    };

    let leases = ("coordination.k8s.io", "leases");
    let its_lease = Some(lease.name.as_str());
    let record = format!("{}-load-balancer-nodes", lease.name);
    let its_record = Some(record.as_str());
    vec![
        everywhere("", "nodes", "list"),
        everywhere("", "nodes", "watch"),
        everywhere("", "services", "list"),
        everywhere("", "services", "watch"),
        Permission {
            name: Some("kube-system".to_owned()),
            ..everywhere("", "namespaces", "get")
        },
        everywhere("", "events", "create"),
        everywhere("", "events", "patch"),
        everywhere("", "nodes", "patch"),
        everywhere("", "nodes", "delete"),
        everywhere("", "nodes/status", "patch"),
        everywhere("", "services/status", "patch"),
        local(leases.0, leases.1, "create", None),
        local(leases.0, leases.1, "get", its_lease),
        local(leases.0, leases.1, "list", its_lease),
        local(leases.0, leases.1, "watch", its_lease),
        local(leases.0, leases.1, "update", its_lease),
        local("", "configmaps", "create", None),
        local("", "configmaps", "get", its_record),
        local("", "configmaps", "update", its_record),
    ]
}

/// Returns roles with permissions, and their bindings to an account. All of its permissions belong in
/// them: they replace roles that were made before.
pub(super) fn roles(account: &Account, permissions: &[Permission]) -> Value {
    let mut places: BTreeMap<Option<&str>, Vec<&Permission>> = BTreeMap::new();
    for permission in permissions {
        let place = permission.namespace.as_deref();
        places.entry(place).or_default().push(permission);
    }

    let name = format!("skydock:{}:{}", account.namespace, account.name);
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let mut items = Vec::new();
    for (place, permissions) in places {
        let (kind, metadata) = match place {
            Some(place) => ("Role", json!({"name": name, "namespace": place})),
            None => ("ClusterRole", json!({"name": name})),
        };
        let rules: Vec<_> = permissions.into_iter().map(rule).collect();
        items.push(
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
        );
        items.push(json!({
            "apiVersion": version,
            "kind": format!("{kind}Binding"),
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
        }));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn rule(permission: &Permission) -> Value {
    let mut rule = json!({
        "apiGroups": [permission.group],
        "resources": [permission.resource],
        "verbs": [permission.verb],
    });
    if let (Some(name), Some(fields)) = (&permission.name, rule.as_object_mut()) {
        fields.insert("resourceNames".to_owned(), json!([name]));
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::snapshot::{Origin, Workload};

    const RBAC: &str = include_str!("../../../../../deploy/base/rbac.yaml");

    /// Returns what roles allow: verb, group, resource, names of objects, and whether this is so in
    /// one namespace only.
    fn allowed(objects: &[Value]) -> Vec<(String, String, String, Vec<String>, bool)> {
        let mut allowed = Vec::new();
        for object in objects {
            for rule in object["rules"].as_array().into_iter().flatten() {
                let texts = |field: &str| -> Vec<String> {
                    let list = rule[field].as_array().into_iter().flatten();
                    list.map(|it| it.as_str().unwrap().to_owned()).collect()
                };
                let local = object["kind"] == "Role";
                for verb in texts("verbs") {
                    for resource in texts("resources") {
                        let group = texts("apiGroups")[0].clone();
                        let names = texts("resourceNames");
                        allowed.push((verb.clone(), group, resource, names, local));
                    }
                }
            }
        }
        allowed.sort();
        allowed
    }

    #[test]
    fn roles_allow_what_the_manifest_allows_and_nothing_else() {
        let account = |namespace: &str| Account {
            namespace: namespace.to_owned(),
            name: "skydock".to_owned(),
        };
        let roles_of = |account: &Account| roles(account, &needed(None));
        let list = roles_of(&account("kube-system"));
        let manifest = crate::commands::migrate::parse(RBAC).unwrap();
        assert_eq!(
            allowed(list["items"].as_array().unwrap()),
            allowed(&manifest)
        );

        // Roles of two accounts do not replace each other.
        let names = |list: &Value| list["items"][0]["metadata"]["name"].clone();
        assert_ne!(names(&list), names(&roles_of(&account("other"))));
    }

    #[test]
    fn accounts_of_controllers_have_the_permissions_to_change_objects() {
        for (arg, nodes, services) in [
            ("--v=2", "own", "own"),
            ("--use-service-account-credentials=false", "own", "own"),
            (
                "--use-service-account-credentials",
                "node-controller",
                "service-controller",
            ),
        ] {
            let object = json!({
                "metadata": {"name": "a", "namespace": "kube-system"},
                "spec": {"template": {"spec": {
                    "serviceAccountName": "own",
                    "containers": [{"name": "a", "image": "x/skydock", "args": [arg]}],
                }}},
            });
            let workload = Workload::read("Deployment", &object, Origin::Cluster).unwrap();
            let needed = needed_by(&Ccm::new(&workload).unwrap());
            let of = |verb: &str, resource: &str| {
                let mut all = needed.iter();
                let is_one =
                    |(_, it): &&(Account, Permission)| it.verb == verb && it.resource == resource;
                let (account, _) = all.find(is_one).unwrap();
                account.name.as_str()
            };
            assert_eq!(of("list", "nodes"), "own", "{arg}");
            for (verb, resource) in [
                ("patch", "nodes"),
                ("delete", "nodes"),
                ("patch", "nodes/status"),
            ] {
                assert_eq!(of(verb, resource), nodes, "{arg}");
            }
            assert_eq!(of("patch", "services/status"), services, "{arg}");
        }
    }

    #[test]
    fn the_lease_and_what_belongs_to_it_are_named() {
        let lease = LeaseName {
            namespace: "ccm".to_owned(),
            name: "mine".to_owned(),
        };
        let needed = needed(Some(lease));
        let local = needed.iter().filter(|it| it.namespace.is_some());
        let names: Vec<_> = local.filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(names[..4], ["mine"; 4]);
        assert_eq!(names[4..], ["mine-load-balancer-nodes"; 2]);
    }
}
