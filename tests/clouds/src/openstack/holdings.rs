//! What a project holds, for tests whose end is that nothing is left.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::session::text;
use super::{Project, Service};
use crate::Error;

/// Every kind of thing that a cloud controller can leave behind: its name in lists, its service, its path.
const KINDS: [(&str, Service, &str); 10] = [
    ("servers", Service::Compute, "/v2.1/servers"),
    ("loadbalancers", Service::LoadBalancer, "/v2/lbaas/loadbalancers"),
    ("listeners", Service::LoadBalancer, "/v2/lbaas/listeners"),
    ("pools", Service::LoadBalancer, "/v2/lbaas/pools"),
    ("healthmonitors", Service::LoadBalancer, "/v2/lbaas/healthmonitors"),
    ("floatingips", Service::Network, "/v2.0/floatingips"),
    ("ports", Service::Network, "/v2.0/ports"),
    ("security_groups", Service::Network, "/v2.0/security-groups"),
    ("networks", Service::Network, "/v2.0/networks"),
    ("routers", Service::Network, "/v2.0/routers"),
];

impl Project {
    /// What the project holds, by kind, each thing as a short text. The default security group and networks of others are left out; a
    /// router's extra routes are of a kind of their own, `routes`, and so are ports' `allowed_address_pairs`. Two
    /// calls that answer the same mean that nothing was left and nothing lost.
    ///
    /// # Errors
    /// When the cloud refuses to tell.
    pub async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>, Error> {
        let mut all = BTreeMap::new();
        for (kind, service, path) in KINDS {
            let mut texts = Vec::new();
            for thing in self.session.list(service, path, kind).await? {
                if !self.is_mine(&thing)
                    || (kind == "security_groups" && thing.get("name").is_some_and(|name| name == "default"))
                {
                    continue;
                }
                for (field, of_kind) in [("routes", "routes"), ("allowed_address_pairs", "allowed_address_pairs")] {
                    let values = thing.get(field).and_then(Value::as_array).into_iter().flatten();
                    all.entry(of_kind).or_insert_with(Vec::new).extend(values.map(Value::to_string));
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

    /// Lists show what others share with us, too.
    fn is_mine(&self, thing: &Value) -> bool {
        let owner = thing.get("project_id").or_else(|| thing.get("tenant_id")).and_then(Value::as_str);
        owner.is_none_or(|owner| owner == self.id)
    }

    /// Waits until a load balancer is no longer PENDING; answers its fields, ERROR included.
    ///
    /// # Errors
    /// When the cloud refuses to tell, or it takes too long.
    pub async fn settled_load_balancer(&self, id: &str) -> Result<Value, Error> {
        let path = format!("/v2/lbaas/loadbalancers/{id}");
        let status = |answer: &Value| text(answer, "/loadbalancer/provisioning_status").unwrap_or_default();
        let settled = |answer: &Value| !status(answer).starts_with("PENDING");
        let mut answer = self.session.wait(Service::LoadBalancer, &path, Duration::from_secs(60), settled).await?;
        Ok(answer.get_mut("loadbalancer").map(Value::take).unwrap_or_default())
    }
}

/// A name where there is one, else an address, else an owner; and the ID, so that two are two.
fn short(thing: &Value) -> Result<String, Error> {
    let fields = ["name", "floating_ip_address", "device_owner"];
    let known =
        fields.iter().filter_map(|field| thing.get(field).and_then(Value::as_str)).find(|text| !text.is_empty());
    Ok(format!("{} {}", known.unwrap_or("-"), text(thing, "/id")?))
}
