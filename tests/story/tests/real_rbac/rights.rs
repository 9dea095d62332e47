//! Permissions of accounts according to roles, and their use according to the API server's audit
//! log.

use std::{collections::BTreeMap, fmt};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::Value;

use crate::NAMESPACE;

/// A verb on a resource with its group and subresource, for one object or for any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    verb: String,
    resource: String,
    name: Option<String>,
}

impl Right {
    pub(crate) fn new(verb: &str, group: &str, resource: &str, name: Option<&str>) -> Self {
        let resource = if group.is_empty() {
            resource.to_owned()
        } else {
            format!("{group}/{resource}")
        };
        Self {
            verb: verb.to_owned(),
            resource,
            name: name.map(str::to_owned),
        }
    }

    /// Returns whether this permission allows the request.
    pub(crate) fn covers(&self, used: &Self) -> bool {
        self.verb == used.verb
            && self.resource == used.resource
            && (self.name.is_none() || self.name == used.name)
    }

    fn of(rule: &PolicyRule) -> Vec<Self> {
        let names: Vec<_> = rule
            .resource_names
            .iter()
            .flatten()
            .map(|name| Some(name.as_str()))
            .collect();
        let names = if names.is_empty() { vec![None] } else { names };
        let mut rights = Vec::new();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    rights.extend(
                        names
                            .iter()
                            .map(|name| Self::new(verb, group, resource, *name)),
                    );
                }
            }
        }
        rights
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.verb,
            self.resource,
            self.name.as_deref().unwrap_or_default()
        )
    }
}

/// A request of an account.
pub(crate) struct Request {
    pub(crate) account: String,
    pub(crate) right: Right,
    pub(crate) allowed: bool,
}

impl Request {
    /// Reads an event of the audit log. Returns `None` for requests without an object, for example
    /// for the version of the API server, and for accounts in other namespaces.
    pub(crate) fn read(event: &Value) -> Option<Self> {
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str);
        let account = text("/user/username")?
            .strip_prefix("system:serviceaccount:kube-system:")?
            .to_owned();
        let resource = text("/objectRef/resource")?;
        let resource = text("/objectRef/subresource")
            .map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
        let group = text("/objectRef/apiGroup").unwrap_or_default();
        let right = Right::new(text("/verb")?, group, &resource, text("/objectRef/name"));
        let allowed = event
            .pointer("/annotations/authorization.k8s.io~1decision")?
            .as_str()?
            == "allow";
        Some(Self {
            account,
            right,
            allowed,
        })
    }
}

/// Returns the permissions in the objects of `deploy/` by account.
pub(crate) async fn granted(client: &Client) -> Result<BTreeMap<String, Vec<Right>>> {
    let ours = ListParams::default().labels("app.kubernetes.io/name=skydock");
    let cluster_roles = Api::<ClusterRole>::all(client.clone()).list(&ours).await?;
    let roles = Api::<Role>::namespaced(client.clone(), NAMESPACE)
        .list(&ours)
        .await?;
    let of_cluster_roles = cluster_roles
        .iter()
        .map(|role| (("ClusterRole", role.name_any()), role.rules.clone()));
    let of_roles = roles
        .iter()
        .map(|role| (("Role", role.name_any()), role.rules.clone()));
    let rules: BTreeMap<_, _> = of_cluster_roles.chain(of_roles).collect();

    let cluster_bindings = Api::<ClusterRoleBinding>::all(client.clone())
        .list(&ours)
        .await?;
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), NAMESPACE)
        .list(&ours)
        .await?;
    let of_cluster = cluster_bindings
        .into_iter()
        .map(|binding| (binding.role_ref, binding.subjects));
    let of_namespace = bindings
        .into_iter()
        .map(|binding| (binding.role_ref, binding.subjects));
    let mut granted = BTreeMap::<String, Vec<Right>>::new();
    for (RoleRef { kind, name, .. }, subjects) in of_cluster.chain(of_namespace) {
        let found = rules
            .iter()
            .find(|((of, role), _)| (*of, role) == (kind.as_str(), &name));
        let (_, rules) = found.with_context(|| format!("no {kind} {name}"))?;
        for Subject {
            kind,
            name,
            namespace,
            ..
        } in subjects.into_iter().flatten()
        {
            ensure!(
                (kind.as_str(), namespace.as_deref()) == ("ServiceAccount", Some(NAMESPACE)),
                "{kind} {name}"
            );
            granted
                .entry(name)
                .or_default()
                .extend(rules.iter().flatten().flat_map(Right::of));
        }
    }
    Ok(granted)
}
