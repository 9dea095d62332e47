//! A VPC for a cluster, and instances in it.

use super::{Aws, xml};
use crate::Error;

/// The parameters of a [`Network`].
#[derive(Debug, Clone)]
pub struct NewNetwork {
    /// The name of the cluster. All resources get the tag `kubernetes.io/cluster/NAME: owned`.
    pub cluster: String,
    /// The zones, for example `us-east-1a`, each with one subnet.
    pub zones: Vec<String>,
}

impl NewNetwork {
    /// Returns the parameters for a cluster with this name, with subnets in `us-east-1a` and
    /// `us-east-1b`.
    #[must_use]
    pub fn of_cluster(name: &str) -> Self {
        Self {
            cluster: name.to_owned(),
            zones: vec!["us-east-1a".to_owned(), "us-east-1b".to_owned()],
        }
    }
}

/// A subnet in an availability zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The name, for example `us-east-1a`.
    pub name: String,
    /// `subnet-…`
    pub subnet_id: String,
}

/// A VPC `10.9.0.0/16` with subnets for public and internal load balancers, a route table, an
/// internet gateway, and a security group for the nodes.
#[derive(Debug, Clone)]
pub struct Network {
    /// `vpc-…`
    pub vpc_id: String,
    /// The zones, each with one subnet.
    pub zones: Vec<Zone>,
    /// `rtb-…`, for all subnets.
    pub route_table_id: String,
    /// `sg-…`, for the nodes.
    pub security_group_id: String,
    cluster: String,
}

impl Aws {
    /// Creates a network.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn network(&self, new: &NewNetwork) -> Result<Network, Error> {
        let mut tags = Tags(vec![(
            format!("kubernetes.io/cluster/{}", new.cluster),
            "owned".to_owned(),
        )]);
        let vpc_id = self
            .made(
                "CreateVpc",
                "vpcId",
                &[("CidrBlock", "10.9.0.0/16")],
                &tags.of("vpc"),
            )
            .await?;
        for attribute in ["EnableDnsHostnames.Value", "EnableDnsSupport.Value"] {
            self.call(
                "ec2",
                "ModifyVpcAttribute",
                &[("VpcId", &vpc_id), (attribute, "true")],
            )
            .await?;
        }
        let gateway = self
            .made(
                "CreateInternetGateway",
                "internetGatewayId",
                &[],
                &tags.of("internet-gateway"),
            )
            .await?;
        let both = [
            ("InternetGatewayId", gateway.as_str()),
            ("VpcId", vpc_id.as_str()),
        ];
        self.call("ec2", "AttachInternetGateway", &both).await?;
        let in_vpc = [("VpcId", vpc_id.as_str())];
        let route_table_id = self
            .made(
                "CreateRouteTable",
                "routeTableId",
                &in_vpc,
                &tags.of("route-table"),
            )
            .await?;
        let route = [
            ("RouteTableId", route_table_id.as_str()),
            ("DestinationCidrBlock", "0.0.0.0/0"),
            ("GatewayId", gateway.as_str()),
        ];
        self.call("ec2", "CreateRoute", &route).await?;
        let group = [
            ("GroupName", new.cluster.as_str()),
            ("GroupDescription", "nodes"),
            in_vpc[0],
        ];
        let security_group_id = self
            .made(
                "CreateSecurityGroup",
                "groupId",
                &group,
                &tags.of("security-group"),
            )
            .await?;
        for role in ["elb", "internal-elb"] {
            tags.0
                .push((format!("kubernetes.io/role/{role}"), "1".to_owned()));
        }
        let mut zones = Vec::new();
        for (number, zone) in new.zones.iter().enumerate() {
            let cidr = format!("10.9.{number}.0/24");
            let subnet = [
                in_vpc[0],
                ("CidrBlock", cidr.as_str()),
                ("AvailabilityZone", zone.as_str()),
            ];
            let subnet_id = self
                .made("CreateSubnet", "subnetId", &subnet, &tags.of("subnet"))
                .await?;
            let both = [
                ("RouteTableId", route_table_id.as_str()),
                ("SubnetId", subnet_id.as_str()),
            ];
            self.call("ec2", "AssociateRouteTable", &both).await?;
            zones.push(Zone {
                name: zone.clone(),
                subnet_id,
            });
        }
        Ok(Network {
            vpc_id,
            zones,
            route_table_id,
            security_group_id,
            cluster: new.cluster.clone(),
        })
    }

    /// Launches running instances in a zone of the network, one for each name (tag `Name`), with
    /// the tag of the cluster. Returns their IDs.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn run_instances<N: AsRef<str>>(
        &self,
        network: &Network,
        zone: usize,
        names: &[N],
    ) -> Result<Vec<String>, Error> {
        let subnet = network.zones.get(zone).map(|zone| zone.subnet_id.as_str());
        let subnet = subnet
            .ok_or_else(|| Error::setup("run instances")(format!("there is no zone {zone}")))?;
        let mut made = Vec::new();
        for name in names {
            let tags = Tags(vec![
                ("Name".to_owned(), name.as_ref().to_owned()),
                (
                    format!("kubernetes.io/cluster/{}", network.cluster),
                    "owned".to_owned(),
                ),
            ]);
            let parameters = [
                ("ImageId", "ami-00000000000000000"),
                ("InstanceType", "m5.large"),
                ("MinCount", "1"),
                ("MaxCount", "1"),
                ("SubnetId", subnet),
                ("SecurityGroupId.1", network.security_group_id.as_str()),
            ];
            made.push(
                self.made(
                    "RunInstances",
                    "instanceId",
                    &parameters,
                    &tags.of("instance"),
                )
                .await?,
            );
        }
        Ok(made)
    }

    /// Calls `StopInstances`, `StartInstances` or `TerminateInstances`. moto executes them at once.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn change_instances(&self, action: &str, ids: &[String]) -> Result<(), Error> {
        let keys: Vec<String> = (1..=ids.len())
            .map(|number| format!("InstanceId.{number}"))
            .collect();
        let parameters: Vec<_> = keys
            .iter()
            .map(String::as_str)
            .zip(ids.iter().map(String::as_str))
            .collect();
        self.call("ec2", action, &parameters).await.map(|_| ())
    }

    /// Calls an action of EC2 and returns the ID in this field of the answer.
    async fn made(
        &self,
        action: &str,
        field: &str,
        fields: &[(&str, &str)],
        tags: &[(String, String)],
    ) -> Result<String, Error> {
        let tags = tags
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let parameters: Vec<_> = fields.iter().copied().chain(tags).collect();
        let answer = self.call("ec2", action, &parameters).await?;
        xml::first(&answer, field)
            .map(str::to_owned)
            .ok_or_else(|| Error::Unexpected {
                request: format!("ec2:{action}"),
                field: field.to_owned(),
                body: crate::error::beginning(answer.as_bytes()),
            })
    }
}

struct Tags(Vec<(String, String)>);

impl Tags {
    /// Returns the tags as parameters of the action that creates a resource of this type.
    fn of(&self, kind: &str) -> Vec<(String, String)> {
        let mut parameters = vec![(
            "TagSpecification.1.ResourceType".to_owned(),
            kind.to_owned(),
        )];
        for (number, (key, value)) in self.0.iter().enumerate() {
            let tag = format!("TagSpecification.1.Tag.{}", number + 1);
            parameters.push((format!("{tag}.Key"), key.clone()));
            parameters.push((format!("{tag}.Value"), value.clone()));
        }
        parameters
    }
}
