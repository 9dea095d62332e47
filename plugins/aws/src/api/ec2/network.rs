//! Subnets, route tables and security groups.

use serde::Deserialize;

use super::{Tag, permission::Permission, tags};
use crate::{
    api::{answer::Items, call::Call, failure::Failure, pages, wire::Wire},
    endpoint::Api,
    tags::{Cluster, LEGACY_CLUSTER, Tags},
};

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Subnet {
    pub(crate) subnet_id: String,
    pub(crate) vpc_id: String,
    pub(crate) availability_zone: String,
    pub(crate) cidr_block: String,
    /// The number of free IPv4 addresses.
    pub(crate) available_ip_address_count: Option<u32>,
    ipv6_cidr_block_association_set: Items<Ipv6Association>,
    tag_set: Items<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Ipv6Association {
    ipv6_cidr_block: String,
    ipv6_cidr_block_state: Ipv6State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Ipv6State {
    state: String,
}

impl Subnet {
    pub(crate) fn tags(&self) -> Tags {
        tags(&self.tag_set)
    }

    /// Returns the IPv6 range.
    pub(crate) fn ipv6(&self) -> Option<&str> {
        // The states `associating` and `associated`.
        let live = |one: &&Ipv6Association| one.ipv6_cidr_block_state.state.starts_with("associat");
        self.ipv6_cidr_block_association_set
            .items
            .iter()
            .find(live)
            .map(|one| one.ipv6_cidr_block.as_str())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SubnetsPage {
    subnet_set: Items<Subnet>,
    next_token: Option<String>,
}

/// Sends `DescribeSubnets` with filters.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn subnets<'a>(
    wire: &dyn Wire,
    filters: impl IntoIterator<Item = (&'a str, Vec<String>)>,
) -> Result<Vec<Subnet>, Failure> {
    let mut call = Call::new(Api::Ec2, "DescribeSubnets");
    for (name, values) in filters {
        call = call.filter(name, values);
    }
    let pages = pages(wire, &call, |page: &SubnetsPage| page.next_token.clone())?;
    Ok(pages
        .into_iter()
        .flat_map(|page| page.subnet_set.items)
        .collect())
}

/// A route table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RouteTable {
    pub(crate) route_table_id: String,
    pub(crate) vpc_id: String,
    pub(crate) route_set: Items<Route>,
    pub(crate) association_set: Items<Association>,
    tag_set: Items<Tag>,
}

impl RouteTable {
    pub(crate) fn tags(&self) -> Tags {
        tags(&self.tag_set)
    }
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Route {
    pub(crate) destination_cidr_block: String,
    pub(crate) destination_ipv6_cidr_block: String,
    pub(crate) instance_id: String,
    pub(crate) network_interface_id: String,
    pub(crate) gateway_id: String,
    pub(crate) nat_gateway_id: String,
    pub(crate) transit_gateway_id: String,
    pub(crate) vpc_peering_connection_id: String,
    pub(crate) egress_only_internet_gateway_id: String,
    pub(crate) local_gateway_id: String,
    pub(crate) carrier_gateway_id: String,
    pub(crate) core_network_arn: String,
    /// `active` or `blackhole`.
    pub(crate) state: String,
}

/// The association of a route table with a subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Association {
    pub(crate) subnet_id: String,
    pub(crate) main: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RouteTablesPage {
    route_table_set: Items<RouteTable>,
    next_token: Option<String>,
}

/// Sends `DescribeRouteTables` with a filter.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn route_tables(
    wire: &dyn Wire,
    name: &str,
    values: &[String],
) -> Result<Vec<RouteTable>, Failure> {
    let call = Call::new(Api::Ec2, "DescribeRouteTables").filter(name, values);
    let pages = pages(wire, &call, |page: &RouteTablesPage| {
        page.next_token.clone()
    })?;
    Ok(pages
        .into_iter()
        .flat_map(|page| page.route_table_set.items)
        .collect())
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SecurityGroup {
    pub(crate) group_id: String,
    pub(crate) group_name: String,
    pub(crate) vpc_id: String,
    pub(crate) ip_permissions: Items<Permission>,
    tag_set: Items<Tag>,
}

impl SecurityGroup {
    pub(crate) fn tags(&self) -> Tags {
        tags(&self.tag_set)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupsPage {
    security_group_info: Items<SecurityGroup>,
    next_token: Option<String>,
}

/// Creates a `DescribeSecurityGroups` request with filters.
pub(crate) fn groups_by<'a>(filters: impl IntoIterator<Item = (&'a str, Vec<String>)>) -> Call {
    let call = Call::new(Api::Ec2, "DescribeSecurityGroups");
    filters
        .into_iter()
        .fold(call, |call, (name, values)| call.filter(name, values))
}

/// Returns a filter for resources with a cluster tag in either form. The tags of the results must
/// be checked again.
pub(crate) fn of_cluster(cluster: &Cluster) -> (&'static str, Vec<String>) {
    ("tag-key", vec![cluster.key(), LEGACY_CLUSTER.to_owned()])
}

/// Sends a `DescribeSecurityGroups` request.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn groups(wire: &dyn Wire, call: &Call) -> Result<Vec<SecurityGroup>, Failure> {
    let pages = pages(wire, call, |page: &GroupsPage| page.next_token.clone())?;
    Ok(pages
        .into_iter()
        .flat_map(|page| page.security_group_info.items)
        .collect())
}

/// Creates a `CreateSecurityGroup` request with tags.
pub(crate) fn create_group(name: &str, description: &str, vpc: &str, tags: &Tags) -> Call {
    Call::new(Api::Ec2, "CreateSecurityGroup")
        .with("GroupName", name)
        .with("GroupDescription", description)
        .with("VpcId", vpc)
        .with("TagSpecification.1.ResourceType", "security-group")
        .tags("TagSpecification.1.Tag", tags)
}

/// The answer to `CreateSecurityGroup`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CreatedGroup {
    pub(crate) group_id: String,
}

pub(crate) fn delete_group(id: &str) -> Call {
    Call::new(Api::Ec2, "DeleteSecurityGroup").with("GroupId", id)
}

pub(crate) fn create_tags(resource: &str, tags: &Tags) -> Call {
    Call::new(Api::Ec2, "CreateTags")
        .list("ResourceId", [resource])
        .tags("Tag", tags)
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NetworkInterface {
    pub(crate) network_interface_id: String,
    pub(crate) description: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InterfacesPage {
    network_interface_set: Items<NetworkInterface>,
}

/// Returns some network interfaces with this security group.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn interfaces_with(
    wire: &dyn Wire,
    group: &str,
) -> Result<Vec<NetworkInterface>, Failure> {
    let call = Call::new(Api::Ec2, "DescribeNetworkInterfaces").filter("group-id", [group]);
    let page: InterfacesPage = crate::api::ask(wire, &call)?;
    Ok(page.network_interface_set.items)
}
