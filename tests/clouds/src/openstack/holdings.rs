//! The resources of a project, for tests that check that nothing is left at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::session::text;
use super::{Project, Service};
use crate::Error;

/// The kinds of resources that a cloud controller can leave behind: the name in lists, the service,
/// the path.
const KINDS: [(&str, Service, &str); 12] = [
    ("servers", Service::Compute, "/v2.1/servers"),
    (
        "loadbalancers",
        Service::LoadBalancer,
        "/v2/lbaas/loadbalancers",
    ),
    ("listeners", Service::LoadBalancer, "/v2/lbaas/listeners"),
    ("pools", Service::LoadBalancer, "/v2/lbaas/pools"),
    (
        "healthmonitors",
        Service::LoadBalancer,
        "/v2/lbaas/healthmonitors",
    ),
    ("floatingips", Service::Network, "/v2.0/floatingips"),
    ("ports", Service::Network, "/v2.0/ports"),
    ("security_groups", Service::Network, "/v2.0/security-groups"),
    ("networks", Service::Network, "/v2.0/networks"),
    ("routers", Service::Network, "/v2.0/routers"),
    ("volumes", Service::BlockStorage, "/v3/volumes"),
    ("snapshots", Service::BlockStorage, "/v3/snapshots"),
];

impl Project {
    /// Returns the resources of the project by kind, each as a short text. The default security
    /// group and networks of others are excluded. The extra routes of routers are a separate kind
    /// `routes`, and so are the `allowed_address_pairs` of ports. If two calls return the same,
    /// nothing was left and nothing was lost.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>, Error> {
        let mut all = BTreeMap::new();
        for (kind, service, path) in KINDS {
            let mut texts = Vec::new();
            for thing in self.session.list(service, path, kind).await? {
                if !self.is_mine(&thing)
                    || (kind == "security_groups"
                        && thing.get("name").is_some_and(|name| name == "default"))
                {
                    continue;
                }
                for (field, of_kind) in [
                    ("routes", "routes"),
                    ("allowed_address_pairs", "allowed_address_pairs"),
                ] {
                    let values = thing
                        .get(field)
                        .and_then(Value::as_array)
                        .into_iter()
                        .flatten();
                    all.entry(of_kind)
                        .or_insert_with(Vec::new)
                        .extend(values.map(Value::to_string));
                }
                texts.push(short(&thing)?);
            }
            texts.sort();
            all.insert(kind, texts);
        }
        for texts in all.values_mut() {
            texts.sort();
        }
        Ok(all)
    }

    /// Returns whether a resource belongs to the project. Lists also contain resources that others
    /// share.
    fn is_mine(&self, thing: &Value) -> bool {
        let owner = thing
            .get("project_id")
            .or_else(|| thing.get("tenant_id"))
            .and_then(Value::as_str);
        owner.is_none_or(|owner| owner == self.id)
    }

    /// Waits until a load balancer is not `PENDING`, and returns its fields. It can be in `ERROR`.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, or if it takes too long.
    pub async fn settled_load_balancer(&self, id: &str) -> Result<Value, Error> {
        let path = format!("/v2/lbaas/loadbalancers/{id}");
        let status =
            |answer: &Value| text(answer, "/loadbalancer/provisioning_status").unwrap_or_default();
        let settled = |answer: &Value| !status(answer).starts_with("PENDING");
        let mut answer = self
            .session
            .wait(
                Service::LoadBalancer,
                &path,
                Duration::from_secs(60),
                settled,
            )
            .await?;
        Ok(answer
            .get_mut("loadbalancer")
            .map(Value::take)
            .unwrap_or_default())
    }
}

/// Returns the name, the address or the owner, whichever is available, followed by the ID, so that
/// the text is unique.
fn short(thing: &Value) -> Result<String, Error> {
    let fields = ["name", "floating_ip_address", "device_owner"];
    let known = fields
        .iter()
        .filter_map(|field| thing.get(field).and_then(Value::as_str))
        .find(|text| !text.is_empty());
    Ok(format!("{} {}", known.unwrap_or("-"), text(thing, "/id")?))
}
