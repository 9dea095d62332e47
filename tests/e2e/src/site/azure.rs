//! A resource group in a stub of Azure.

mod stub;

use std::{fs, path::Path};

use anyhow::Result;
use async_trait::async_trait;
use serde_json::json;
use skydock_clouds::Proxy;

use self::stub::{GROUP, SECRET, Stub, TOKEN};
use super::{Configuration, Machine, Plugin, Site, gate::Gate};

/// An Azure with a proxy in front of it, and TLS in front of that. The official provider serves it.
pub struct AzureSite {
    stub: Stub,
    gate: Gate,
    made: usize,
}

impl AzureSite {
    /// Starts an Azure.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub async fn new(seed: u64) -> Result<Self> {
        let stub = Stub::start().await?;
        let gate = Gate::before(stub.url(), seed).await?;
        Ok(Self {
            stub,
            gate,
            made: 0,
        })
    }
}

#[async_trait]
impl Site for AzureSite {
    fn provider(&self) -> &'static str {
        "azure"
    }

    fn plugin(&self) -> Plugin {
        Plugin::Go
    }

    fn labels(&self) -> [(&'static str, &'static str); 3] {
        [
            ("topology.kubernetes.io/zone", "westeurope-2"),
            ("topology.kubernetes.io/region", "westeurope"),
            ("node.kubernetes.io/instance-type", "Standard_D2s_v5"),
        ]
    }

    fn has_only_nodes(&self) -> bool {
        true
    }

    fn proxy(&self) -> &Proxy {
        self.gate.proxy()
    }

    fn secrets(&self) -> Vec<String> {
        vec![SECRET.to_owned(), TOKEN.to_owned()]
    }

    fn configure(&self, dir: &Path, _: &str) -> Result<Configuration> {
        let url = self.gate.url();
        let conf = json!({
            // The login of a directory with this name needs no other servers.
            "resourceManagerEndpoint": url, "tenantId": "adfs", "aadClientId": "client", "subscriptionId": "sub",
            "resourceGroup": "group", "location": "westeurope", "vmType": "standard", "vmCacheTTLInSeconds": 1,
        });
        let [file, secret] = ["cloud.conf", "secret"].map(|name| dir.join(name));
        fs::write(&file, serde_json::to_vec_pretty(&conf)?)?;
        fs::write(&secret, SECRET)?;
        let body = format!(
            "grant_type=client_credentials&client_id=client&scope={url}/.default&client_secret={{{{{}}}}}",
            secret.display()
        );
        let login = json!({
            "url": format!("{url}/adfs/oauth2/token"), "headers": {"Content-Type": "application/x-www-form-urlencoded"},
            "body": body, "escape": "form", "capture": {"json": "/access_token"}, "expires": "/expires_in",
            "attach": {"header": {"name": "Authorization", "prefix": "Bearer "}},
        });
        Ok(Configuration {
            options: json!({}),
            credential: Some(
                json!({"type": "session", "masked": true, "login": {"template": login}}),
            ),
            rule: self.gate.rule(dir)?,
            permissions: json!({}),
        })
    }

    async fn add(&mut self, count: usize) -> Result<Vec<Machine>> {
        let mut machines = Vec::new();
        for _ in 0..count {
            self.made += 1;
            let created = self.stub.create(self.made);
            machines.push(Machine {
                provider_id: format!(
                    "azure://{GROUP}/providers/Microsoft.Compute/virtualMachines/{}",
                    created.name
                ),
                id: created.name.clone(),
                others: Some(vec![("Hostname", created.name.clone())]),
                node: created.name,
                address: created.address,
            });
        }
        Ok(machines)
    }

    async fn stop(&self, machine: &Machine) -> Result<()> {
        self.stub.set_running(&machine.id, false)
    }

    async fn start(&self, machine: &Machine) -> Result<()> {
        self.stub.set_running(&machine.id, true)
    }

    async fn delete(&self, machine: &Machine) -> Result<()> {
        self.stub.delete(&machine.id)
    }
}
