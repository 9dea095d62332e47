//! The operator's configuration: the official provider's file, and the plugin's options.
//!
//! An option is a name in `options.rs`, where it is also read, a field of [`Config`], and a row of
//! the table of options in `README.md`.

use problem::Problem;

use crate::client::endpoint::{Endpoint, Endpoints, Override, Url, partition_suffix};

mod options;
mod problem;

/// The IP family of node addresses (`NodeIPFamilies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// `ipv4`, the default.
    V4,
    /// `ipv6`.
    V6,
}

/// The health check shared by all Services without `externalTrafficPolicy: Local`
/// (`ClusterServiceLoadBalancerHealthProbeMode = Shared`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedProbe {
    /// The port of kube-proxy's health server on every node.
    pub(crate) port: u16,
    pub(crate) path: String,
}

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// The region that is managed.
    pub(crate) region: String,
    /// `VPC`: the VPC of the cluster. If unset, the VPC of its nodes.
    pub(crate) vpc: Option<String>,
    /// `SubnetID`: the subnet of load balancers if no subnet of the VPC is suitable.
    pub(crate) subnet: Option<String>,
    /// `RouteTableID`: the route table of Pod routes. If unset, the one with the cluster's tag.
    pub(crate) route_table: Option<String>,
    /// `KubernetesClusterID` or `KubernetesClusterTag`. If unset, the cluster is identified by the
    /// tags of the nodes' instances.
    pub(crate) cluster_id: Option<String>,
    /// True if resources also get the tag `KubernetesCluster` (`KubernetesClusterTag` is set).
    pub(crate) legacy_tags: bool,
    /// `DisableSecurityGroupIngress`: the nodes' security groups are not changed.
    pub(crate) keep_node_groups: bool,
    /// `ElbSecurityGroup`: a security group shared by all classic load balancers.
    pub(crate) elb_security_group: Option<String>,
    /// `NodeIPFamilies`, in order of preference. Never empty.
    pub(crate) families: Vec<Family>,
    /// Set if the health probe mode is `Shared`.
    pub(crate) shared_probe: Option<SharedProbe>,
    /// `SupportedTopologyInstanceTypePattern`: instance types that must have network topology
    /// labels.
    pub(crate) topology_pattern: String,
    /// True if `NLBSecurityGroupMode = Managed`.
    pub(crate) nlb_groups_managed: bool,
    /// Option `volumes`: this is the controller part of the driver for volumes.
    pub(crate) volumes: bool,
    pub(crate) endpoints: Endpoints,
    /// `--cluster-name`, which the names of security groups depend on.
    pub(crate) cluster_name: String,
    /// `--cluster-cidr`: routes to other ranges do not belong to this cluster. Empty if not set.
    pub(crate) cluster_cidrs: Vec<String>,
}

/// The official provider's pattern, from `pkg/providers/v1/topology.go`.
const TOPOLOGY_PATTERN: &str = r"^(hpc|trn|p)[0-9]+[a-z]*(-[a-z0-9]+)?(\.[0-9a-z]*)$";

impl Config {
    /// Checks a file and the plugin's options. Options take precedence over the file.
    ///
    /// # Errors
    /// Returns the first problem with its line.
    pub(crate) fn parse(text: &str, given: &[(String, String)]) -> Result<Self, Problem> {
        let raw = options::Raw::read(text, given)?;
        let region = raw.region()?;
        let suffix = partition_suffix(&region);
        let at = |service: &str| {
            let url = Url::parse(&format!("https://{service}.{region}.{suffix}"));
            Ok(Endpoint {
                url: url.ok_or_else(|| Problem::at(None, "the region is not valid"))?,
                signing_region: region.clone(),
                signing_name: service.to_owned(),
            })
        };

        let mut endpoints = Endpoints {
            ec2: at("ec2")?,
            elb: at("elasticloadbalancing")?,
            elbv2: at("elasticloadbalancing")?,
        };
        for Override {
            service,
            region: of,
            endpoint,
        } in raw.overrides()?
        {
            if of == region {
                endpoints.replace(&service, &endpoint);
            }
        }

        let shared_probe = raw.shared_probe()?;
        Ok(Self {
            vpc: raw.text("vpc"),
            subnet: raw.text("subnetid"),
            route_table: raw.text("routetableid"),
            cluster_id: raw.cluster_id()?,
            legacy_tags: raw.text("kubernetesclustertag").is_some(),
            keep_node_groups: raw.flag("disablesecuritygroupingress")?,
            elb_security_group: raw.text("elbsecuritygroup"),
            families: raw.families()?,
            shared_probe,
            topology_pattern: raw.pattern(TOPOLOGY_PATTERN)?,
            nlb_groups_managed: raw.nlb_groups_managed()?,
            volumes: raw.flag("volumes")?,
            endpoints,
            region,
            cluster_name: String::new(),
            cluster_cidrs: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
