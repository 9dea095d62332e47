//! A VPC in an AWS.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    slice,
};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::json;
use skydock_clouds::{Aws, AwsClient, Keys, Network, NewNetwork, Proxy, xml};

use super::{Balancer, Configuration, Machine, Plugin, Site, View};

/// A VPC with subnets in two zones, with a proxy in front of its cloud. All instances are in the
/// first zone.
pub struct AwsSite<'a> {
    cloud: &'a Aws,
    keys: Keys,
    network: Network,
    proxy: Proxy,
    /// A proxy like that of the host, but without faults.
    window: (Proxy, AwsClient),
    made: usize,
    plugin: Plugin,
    classic: bool,
}

impl<'a> AwsSite<'a> {
    /// Creates a VPC. The host signs requests with `keys`.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn new(cloud: &'a Aws, keys: Keys, name: &str, seed: u64) -> Result<Self> {
        let network = cloud.network(&NewNetwork::of_cluster(name)).await?;
        let window = Proxy::before_aws(cloud, 0).await?;
        let client = window.aws_client(keys.clone());
        Ok(Self {
            cloud,
            keys,
            network,
            proxy: Proxy::before_aws(cloud, seed).await?,
            window: (window, client),
            made: 0,
            plugin: Plugin::default(),
            classic: false,
        })
    }

    /// Chooses the plugin.
    #[must_use]
    pub fn served_by(self, plugin: Plugin) -> Self {
        Self { plugin, ..self }
    }

    /// Gives Services classic load balancers instead of network load balancers.
    #[must_use]
    pub fn with_classic_balancers(self, classic: bool) -> Self {
        Self { classic, ..self }
    }

    /// Returns the VPC.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    async fn balancer(&self, xml: &str) -> Result<Balancer> {
        let arn = field(xml, "LoadBalancerArn")?;
        let mut ports = BTreeMap::new();
        let answer = self
            .window
            .1
            .call("elbv2", "DescribeListeners", &[("LoadBalancerArn", arn)])
            .await?;
        for listener in xml::items(&answer, "Listeners") {
            let group = field(listener, "TargetGroupArn")?;
            let health = self
                .window
                .1
                .call(
                    "elbv2",
                    "DescribeTargetHealth",
                    &[("TargetGroupArn", group)],
                )
                .await?;
            let behind = xml::all(&health, "Id")
                .into_iter()
                .map(str::to_owned)
                .collect();
            ports.insert(
                format!(
                    "{}/{}",
                    field(listener, "Protocol")?,
                    field(listener, "Port")?
                ),
                behind,
            );
        }
        Ok(Balancer {
            name: field(xml, "LoadBalancerName")?.to_owned(),
            addresses: BTreeSet::from([field(xml, "DNSName")?.to_owned()]),
            works: field(xml, "Code")? == "active",
            ports,
        })
    }

    fn classic_balancer(xml: &str) -> Result<Balancer> {
        let behind: BTreeSet<String> = xml::all(xml, "InstanceId")
            .into_iter()
            .map(str::to_owned)
            .collect();
        let mut ports = BTreeMap::new();
        for listener in xml::all(xml, "Listener") {
            let port = format!(
                "{}/{}",
                field(listener, "Protocol")?,
                field(listener, "LoadBalancerPort")?
            );
            ports.insert(port, behind.clone());
        }
        Ok(Balancer {
            name: field(xml, "LoadBalancerName")?.to_owned(),
            addresses: BTreeSet::from([field(xml, "DNSName")?.to_owned()]),
            works: true,
            ports,
        })
    }

    async fn change(&self, action: &str, machine: &Machine) -> Result<()> {
        Ok(self
            .cloud
            .change_instances(action, slice::from_ref(&machine.id))
            .await?)
    }
}

#[async_trait]
impl Site for AwsSite<'_> {
    fn provider(&self) -> &'static str {
        "aws"
    }

    fn plugin(&self) -> Plugin {
        self.plugin
    }

    fn labels(&self) -> [(&'static str, &'static str); 3] {
        [
            ("topology.kubernetes.io/zone", "us-east-1a"),
            ("topology.kubernetes.io/region", "us-east-1"),
            ("node.kubernetes.io/instance-type", "m5.large"),
        ]
    }

    fn mixes_protocols(&self) -> bool {
        self.plugin == Plugin::Native && !self.classic
    }

    fn may_leave(&self) -> &'static [&'static str] {
        match self.plugin {
            Plugin::Native => &[],
            // Once the load balancer is deleted, the provider deletes nothing else of it.
            Plugin::Go => &["target groups", "rules"],
        }
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let kind = (
            "service.beta.kubernetes.io/aws-load-balancer-type".to_owned(),
            "nlb".to_owned(),
        );
        if self.classic {
            BTreeMap::new()
        } else {
            BTreeMap::from([kind])
        }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.keys.secret.clone(), self.keys.id.clone()]
    }

    fn configure(&self, dir: &Path, cluster: &str) -> Result<Configuration> {
        let (region, url) = (self.cloud.region(), self.proxy.url());
        let (conf, options) = match self.plugin {
            Plugin::Native => (
                format!("[Global]\nRegion = {region}\nKubernetesClusterID = {cluster}\n"),
                json!({"endpoint": url}),
            ),
            Plugin::Go => (
                skydock_peers::aws::cloud_conf(&self.network, cluster, url, region),
                json!({}),
            ),
        };
        fs::write(dir.join("cloud.conf"), conf)?;
        let (id, secret) = (dir.join("access-key-id"), dir.join("secret-access-key"));
        fs::write(&id, &self.keys.id)?;
        fs::write(&secret, &self.keys.secret)?;
        Ok(Configuration {
            options,
            credential: Some(json!({
                "type": "aws-sigv4", "services": ["ec2", "elasticloadbalancing"], "regions": [region],
                "source": {"files": {"accessKeyIdFile": id, "secretAccessKeyFile": secret}},
            })),
            rule: json!({"reads": ["Describe*"]}),
            permissions: json!({}),
        })
    }

    async fn add(&mut self, count: usize) -> Result<Vec<Machine>> {
        let names: Vec<String> = (self.made + 1..=self.made + count)
            .map(|number| format!("node-{number}"))
            .collect();
        self.made += count;
        let mut machines = Vec::new();
        for id in self.cloud.run_instances(&self.network, 0, &names).await? {
            let answer = self
                .cloud
                .call("ec2", "DescribeInstances", &[("InstanceId.1", &id)])
                .await?;
            machines.push(Machine {
                node: field(&answer, "privateDnsName")?.to_owned(),
                provider_id: format!("aws:///us-east-1a/{id}"),
                address: field(&answer, "privateIpAddress")?.to_owned(),
                others: None,
                id,
            });
        }
        Ok(machines)
    }

    async fn stop(&self, machine: &Machine) -> Result<()> {
        self.change("StopInstances", machine).await
    }

    async fn start(&self, machine: &Machine) -> Result<()> {
        self.change("StartInstances", machine).await
    }

    async fn delete(&self, machine: &Machine) -> Result<()> {
        self.change("TerminateInstances", machine).await
    }

    async fn view(&self) -> Result<View> {
        let mut view = View::default();
        let answer = self
            .window
            .1
            .call("elbv2", "DescribeLoadBalancers", &[])
            .await?;
        for xml in xml::items(&answer, "LoadBalancers") {
            if field(xml, "VpcId")? == self.network.vpc_id {
                view.balancers.push(self.balancer(xml).await?);
            }
        }
        let answer = self
            .window
            .1
            .call("elb", "DescribeLoadBalancers", &[])
            .await?;
        for xml in xml::items(&answer, "LoadBalancerDescriptions") {
            if field(xml, "VPCId")? == self.network.vpc_id {
                view.balancers.push(Self::classic_balancer(xml)?);
            }
        }
        let table = [("RouteTableId.1", self.network.route_table_id.as_str())];
        let answer = self
            .cloud
            .call("ec2", "DescribeRouteTables", &table)
            .await?;
        for route in xml::items(&answer, "routeSet") {
            if let (Some(cidr), Some(id)) = (
                xml::first(route, "destinationCidrBlock"),
                xml::first(route, "instanceId"),
            ) {
                view.routes.insert(cidr.to_owned(), id.to_owned());
            }
        }
        Ok(view)
    }

    async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>> {
        Ok(self.cloud.holdings().await?)
    }
}

fn field<'a>(answer: &'a str, name: &str) -> Result<&'a str> {
    xml::first(answer, name).with_context(|| format!("no {name} in {answer}"))
}
