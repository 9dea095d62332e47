//! Requests to EC2 and their answers, with only the fields that are used.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{answer::Items, call::Call, failure::Failure, pages, wire::Wire};
use crate::{client::endpoint::Api, tags::Tags};

pub(crate) mod network;
pub(crate) mod permission;
pub(crate) mod volumes;

/// A tag in an EC2 answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Tag {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

/// Converts tags to a map.
pub(crate) fn tags(set: &Items<Tag>) -> Tags {
    set.items
        .iter()
        .map(|tag| (tag.key.clone(), tag.value.clone()))
        .collect()
}

/// An EC2 instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Instance {
    pub(crate) instance_id: String,
    pub(crate) instance_type: String,
    pub(crate) instance_state: State,
    pub(crate) placement: Placement,
    pub(crate) private_dns_name: String,
    /// The public DNS name.
    pub(crate) dns_name: String,
    /// The public IPv4 address.
    pub(crate) ip_address: String,
    pub(crate) vpc_id: String,
    pub(crate) source_dest_check: Option<bool>,
    pub(crate) block_device_mapping: Items<BlockDevice>,
    pub(crate) group_set: Items<Group>,
    pub(crate) network_interface_set: Items<Interface>,
    tag_set: Items<Tag>,
}

impl Instance {
    pub(crate) fn tags(&self) -> Tags {
        tags(&self.tag_set)
    }

    /// Returns the IDs of the security groups.
    pub(crate) fn groups(&self) -> BTreeSet<String> {
        self.group_set
            .items
            .iter()
            .map(|group| group.group_id.clone())
            .collect()
    }

    /// Returns the interfaces that are in use, the primary interface first. The order of EC2 is
    /// arbitrary.
    pub(crate) fn interfaces(&self) -> Vec<&Interface> {
        let interfaces = self.network_interface_set.items.iter();
        let mut interfaces: Vec<&Interface> = interfaces
            .filter(|interface| interface.status == "in-use")
            .collect();
        interfaces.sort_by_key(|interface| {
            interface
                .attachment
                .as_ref()
                .map_or(u32::MAX, |one| one.device_index)
        });
        interfaces
    }
}

/// The element `instanceState`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping` or `stopped`.
    pub(crate) name: String,
}

/// The element `placement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Placement {
    pub(crate) availability_zone: String,
}

/// A device of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BlockDevice {
    pub(crate) device_name: String,
    pub(crate) ebs: Option<Ebs>,
}

/// The volume behind a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Ebs {
    pub(crate) volume_id: String,
}

/// A security group of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) group_id: String,
}

/// A network interface of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Interface {
    pub(crate) network_interface_id: String,
    pub(crate) status: String,
    pub(crate) source_dest_check: Option<bool>,
    pub(crate) attachment: Option<Attachment>,
    pub(crate) private_ip_addresses_set: Items<PrivateAddress>,
    pub(crate) ipv6_addresses_set: Items<Ipv6Address>,
}

impl Interface {
    /// Returns true if the interface has this private or IPv6 address.
    pub(crate) fn has(&self, address: &str) -> bool {
        let mut private = self.private_ip_addresses_set.items.iter();
        let mut ipv6 = self.ipv6_addresses_set.items.iter();
        private.any(|one| one.private_ip_address == address)
            || ipv6.any(|one| one.ipv6_address == address)
    }
}

/// The attachment of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Attachment {
    pub(crate) device_index: u32,
}

/// A private IPv4 address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PrivateAddress {
    pub(crate) private_ip_address: String,
}

/// An IPv6 address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Ipv6Address {
    pub(crate) ipv6_address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InstancesPage {
    reservation_set: Items<Reservation>,
    next_token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reservation {
    instances_set: Items<Instance>,
}

/// Creates a `DescribeInstances` request by ID. AWS accepts at most 1,000 IDs and does not page the
/// answer.
pub(crate) fn instances_by_id<'a>(ids: impl IntoIterator<Item = &'a str>) -> Call {
    Call::new(Api::Ec2, "DescribeInstances").list("InstanceId", ids)
}

/// Creates a `DescribeInstances` request with a filter of at most 200 values, in pages of 1,000.
pub(crate) fn instances_by_filter<'a>(
    name: &str,
    values: impl IntoIterator<Item = &'a str>,
) -> Call {
    Call::new(Api::Ec2, "DescribeInstances")
        .filter(name, values)
        .with("MaxResults", 1000)
}

/// Sends a `DescribeInstances` request and reads all pages.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn instances(wire: &dyn Wire, call: &Call) -> Result<Vec<Instance>, Failure> {
    let pages = pages(wire, call, |page: &InstancesPage| page.next_token.clone())?;
    let reservations = pages
        .into_iter()
        .flat_map(|page| page.reservation_set.items);
    Ok(reservations
        .flat_map(|reservation| reservation.instances_set.items)
        .collect())
}

/// An availability zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Zone {
    pub(crate) zone_name: String,
    pub(crate) zone_id: String,
    /// `availability-zone`, `local-zone` or `wavelength-zone`.
    pub(crate) zone_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ZonesAnswer {
    pub(crate) availability_zone_info: Items<Zone>,
}

/// Creates a `DescribeAvailabilityZones` request.
pub(crate) fn zones() -> Call {
    Call::new(Api::Ec2, "DescribeAvailabilityZones")
}

/// The position of an instance in the AWS network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Topology {
    pub(crate) instance_id: String,
    pub(crate) network_node_set: Items<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TopologyPage {
    instance_set: Items<Topology>,
    next_token: Option<String>,
}

/// Sends `DescribeInstanceTopology` for at most 100 instances.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn topology<'a>(
    wire: &dyn Wire,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Topology>, Failure> {
    let call = Call::new(Api::Ec2, "DescribeInstanceTopology").list("InstanceId", ids);
    let pages = pages(wire, &call, |page: &TopologyPage| page.next_token.clone())?;
    Ok(pages
        .into_iter()
        .flat_map(|page| page.instance_set.items)
        .collect())
}

/// Parses the only page of an answer to `DescribeInstances`.
///
/// # Errors
/// Fails if the answer does not have the expected structure.
pub(crate) fn read_instances(call: &Call, body: &str) -> Result<Vec<Instance>, Failure> {
    let page: InstancesPage = super::read(call, body)?;
    Ok(page
        .reservation_set
        .items
        .into_iter()
        .flat_map(|reservation| reservation.instances_set.items)
        .collect())
}
