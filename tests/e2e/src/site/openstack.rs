//! A project in an OpenStack.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::{Value, json};
use skydock_clouds::{OpenStack, Project, Proxy, Service};

use super::{Balancer, Configuration, Machine, Plugin, Site, View};

/// A project with a proxy in front of its cloud.
pub struct OpenStackSite {
    project: Project,
    proxy: Proxy,
    made: usize,
    /// The IDs of instances by address.
    machines: BTreeMap<String, String>,
    plugin: Plugin,
}

impl OpenStackSite {
    /// Creates a project.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, for example because the project exists.
    pub async fn new(cloud: &OpenStack, name: &str, seed: u64) -> Result<Self> {
        let proxy = Proxy::before_openstack(cloud, seed).await?;
        let project = cloud.project(name).await?;
        Ok(Self {
            project,
            proxy,
            made: 0,
            machines: BTreeMap::new(),
            plugin: Plugin::default(),
        })
    }

    /// Chooses the plugin.
    #[must_use]
    pub fn served_by(self, plugin: Plugin) -> Self {
        Self { plugin, ..self }
    }

    /// Returns the project.
    #[must_use]
    pub fn project(&self) -> &Project {
        &self.project
    }

    async fn list(&self, service: Service, path: &str, kind: &str) -> Result<Vec<Value>> {
        Ok(self.project.session.list(service, path, kind).await?)
    }

    async fn balancer(&self, balancer: &Value) -> Result<Balancer> {
        let id = text(balancer, "id")?;
        let mut ports = BTreeMap::new();
        let path = format!("/v2/lbaas/listeners?loadbalancer_id={id}");
        for listener in self.list(Service::LoadBalancer, &path, "listeners").await? {
            let port = listener
                .get("protocol_port")
                .and_then(Value::as_u64)
                .context("a port")?;
            let mut behind = BTreeSet::new();
            if let Some(pool) = listener.get("default_pool_id").and_then(Value::as_str) {
                let path = format!("/v2/lbaas/pools/{pool}/members");
                for member in self.list(Service::LoadBalancer, &path, "members").await? {
                    let address = text(&member, "address")?;
                    behind.insert(
                        self.machines
                            .get(address)
                            .map_or(address, String::as_str)
                            .to_owned(),
                    );
                }
            }
            ports.insert(format!("{}/{port}", text(&listener, "protocol")?), behind);
        }
        let vip = text(balancer, "vip_port_id")?;
        let floating = self
            .list(
                Service::Network,
                &format!("/v2.0/floatingips?port_id={vip}"),
                "floatingips",
            )
            .await?;
        let floating = floating
            .iter()
            .map(|one| text(one, "floating_ip_address").map(str::to_owned));
        let mut addresses = floating.collect::<Result<BTreeSet<_>>>()?;
        if addresses.is_empty() {
            addresses.insert(text(balancer, "vip_address")?.to_owned());
        }
        let works = text(balancer, "provisioning_status")? == "ACTIVE";
        Ok(Balancer {
            name: text(balancer, "name")?.to_owned(),
            addresses,
            works,
            ports,
        })
    }
}

#[async_trait]
impl Site for OpenStackSite {
    fn provider(&self) -> &'static str {
        "openstack"
    }

    fn plugin(&self) -> Plugin {
        self.plugin
    }

    fn labels(&self) -> [(&'static str, &'static str); 3] {
        [
            ("topology.kubernetes.io/zone", "nova"),
            ("topology.kubernetes.io/region", "RegionOne"),
            ("node.kubernetes.io/instance-type", "m1.tiny"),
        ]
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.project.password.clone()]
    }

    fn configure(&self, dir: &Path, _: &str) -> Result<Configuration> {
        let conf = skydock_peers::openstack::cloud_conf(&self.project, &self.proxy.auth_url());
        let file = dir.join("cloud.conf");
        fs::write(&file, conf)?;
        Ok(Configuration {
            options: json!({}),
            // The provider in Go must log in.
            credential: Some(json!({
                "type": "session", "masked": self.plugin == Plugin::Go, "login": {"keystone": {"cloudConf": file}},
            })),
            rule: json!({}),
            permissions: json!({}),
        })
    }

    async fn add(&mut self, count: usize) -> Result<Vec<Machine>> {
        let names: Vec<String> = (self.made + 1..=self.made + count)
            .map(|number| format!("node-{number}"))
            .collect();
        self.made += count;
        let mut machines = Vec::new();
        for server in self.project.create_servers(&names).await? {
            let address = server.addresses.first().context("an address")?.clone();
            self.machines.insert(address.clone(), server.id.clone());
            let provider_id = format!("openstack:///{}", server.id);
            machines.push(Machine {
                id: server.id,
                node: server.name,
                provider_id,
                address,
                others: None,
            });
        }
        Ok(machines)
    }

    async fn stop(&self, machine: &Machine) -> Result<()> {
        Ok(self.project.stop_server(&machine.id).await?)
    }

    async fn start(&self, machine: &Machine) -> Result<()> {
        Ok(self.project.start_server(&machine.id).await?)
    }

    async fn delete(&self, machine: &Machine) -> Result<()> {
        Ok(self.project.delete_server(&machine.id).await?)
    }

    async fn view(&self) -> Result<View> {
        let mut view = View::default();
        for balancer in self
            .list(
                Service::LoadBalancer,
                "/v2/lbaas/loadbalancers",
                "loadbalancers",
            )
            .await?
        {
            if text(&balancer, "project_id")? == self.project.id {
                view.balancers.push(self.balancer(&balancer).await?);
            }
        }
        let path = format!("/v2.0/routers/{}", self.project.router_id);
        let router = self.project.session.get(Service::Network, &path).await?;
        for route in router
            .pointer("/router/routes")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let hop = text(route, "nexthop")?;
            let machine = self.machines.get(hop).map_or(hop, String::as_str);
            view.routes
                .insert(text(route, "destination")?.to_owned(), machine.to_owned());
        }
        Ok(view)
    }

    async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>> {
        Ok(self.project.holdings().await?)
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value
        .get(field)
        .and_then(Value::as_str)
        .with_context(|| format!("no {field} in {value}"))
}
