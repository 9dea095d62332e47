//! Addresses of an instance, in the order of the official provider.

use std::net::{Ipv4Addr, Ipv6Addr};

use skydock_sdk::{
    Result,
    types::{AddressKind, CloudError, NodeAddress},
};

use crate::{client::api::ec2::Instance, config::Family};

/// Maximum number of node addresses that the host accepts. An instance whose interfaces have
/// additional addresses for Pods has more. The first ones, which are its own, are kept.
const MOST: usize = 64;

/// Returns the addresses of an instance, family by family.
///
/// # Errors
/// Fails if EC2 returns an invalid address.
pub(crate) fn of(instance: &Instance, families: &[Family]) -> Result<Vec<NodeAddress>> {
    let mut addresses = Vec::new();
    for family in families {
        match family {
            Family::V4 => ipv4(instance, &mut addresses)?,
            Family::V6 => ipv6(instance, &mut addresses)?,
        }
    }

    // The last internal ones, because the first are the instance's own.
    while addresses.len() > MOST {
        let Some(last) = addresses.iter().rposition(is_internal_v4) else {
            break;
        };
        addresses.remove(last);
    }

    addresses.truncate(MOST);
    Ok(addresses)
}

fn is_internal_v4(address: &NodeAddress) -> bool {
    address.kind == AddressKind::InternalIp && !address.address.contains(':')
}

/// Adds the private addresses of all interfaces, the primary interface first, then the public
/// address, then the names.
fn ipv4(instance: &Instance, addresses: &mut Vec<NodeAddress>) -> Result<()> {
    let interfaces = instance.interfaces().into_iter();
    for private in interfaces.flat_map(|interface| &interface.private_ip_addresses_set.items) {
        push_v4(
            instance,
            AddressKind::InternalIp,
            &private.private_ip_address,
            addresses,
        )?;
    }

    push_v4(
        instance,
        AddressKind::ExternalIp,
        &instance.ip_address,
        addresses,
    )?;

    for (kind, name) in [
        (AddressKind::InternalDns, &instance.private_dns_name),
        (AddressKind::Hostname, &instance.private_dns_name),
        (AddressKind::ExternalDns, &instance.dns_name),
    ] {
        if !name.is_empty() {
            addresses.push(NodeAddress {
                kind,
                address: name.clone(),
            });
        }
    }
    Ok(())
}

/// Adds the first IPv6 address of each interface, the primary interface first. They are internal
/// addresses even if they are reachable from the internet.
fn ipv6(instance: &Instance, addresses: &mut Vec<NodeAddress>) -> Result<()> {
    let interfaces = instance.interfaces().into_iter();
    for first in interfaces.filter_map(|interface| interface.ipv6_addresses_set.items.first()) {
        let ip: Ipv6Addr = first
            .ipv6_address
            .parse()
            .map_err(|_| invalid_address(instance, &first.ipv6_address))?;
        addresses.push(NodeAddress {
            kind: AddressKind::InternalIp,
            address: ip.to_string(),
        });
    }
    Ok(())
}

fn push_v4(
    instance: &Instance,
    kind: AddressKind,
    text: &str,
    addresses: &mut Vec<NodeAddress>,
) -> Result<()> {
    if !text.is_empty() {
        let ip: Ipv4Addr = text.parse().map_err(|_| invalid_address(instance, text))?;
        addresses.push(NodeAddress {
            kind,
            address: ip.to_string(),
        });
    }
    Ok(())
}

fn invalid_address(instance: &Instance, text: &str) -> CloudError {
    CloudError::internal(format!(
        "EC2 returned an invalid address {text} for instance {}",
        instance.instance_id
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTANCE: &str = "<item><instanceId>i-1</instanceId><privateDnsName>ip-10-0-0-1.internal</privateDnsName>\
        <dnsName>ec2-1.example</dnsName><ipAddress>203.0.113.1</ipAddress><networkInterfaceSet>\
        <item><status>in-use</status><attachment><deviceIndex>1</deviceIndex></attachment><privateIpAddressesSet>\
        <item><privateIpAddress>10.0.1.1</privateIpAddress></item></privateIpAddressesSet>\
        <ipv6AddressesSet><item><ipv6Address>2001:db8::2</ipv6Address></item></ipv6AddressesSet></item>\
        <item><status>in-use</status><privateIpAddressesSet><item><privateIpAddress>10.0.9.9</privateIpAddress></item>\
        </privateIpAddressesSet></item>\
        <item><status>available</status><attachment><deviceIndex>0</deviceIndex></attachment><privateIpAddressesSet>\
        <item><privateIpAddress>10.9.9.9</privateIpAddress></item></privateIpAddressesSet></item>\
        <item><status>in-use</status><attachment><deviceIndex>0</deviceIndex></attachment><privateIpAddressesSet>\
        <item><privateIpAddress>10.0.0.1</privateIpAddress></item><item><privateIpAddress>10.0.0.2</privateIpAddress></item>\
        </privateIpAddressesSet><ipv6AddressesSet><item><ipv6Address>2001:0db8::1</ipv6Address></item>\
        <item><ipv6Address>2001:db8::f</ipv6Address></item></ipv6AddressesSet></item></networkInterfaceSet></item>";

    fn shown(instance: &Instance, families: &[Family]) -> String {
        let shown = |one: &NodeAddress| {
            format!("{:?} {}", one.kind, one.address).replace("AddressKind::", "")
        };
        of(instance, families)
            .unwrap()
            .iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[test]
    fn addresses_start_with_the_primary_interface() {
        let instance: Instance = quick_xml::de::from_str(INSTANCE).unwrap();
        let v4 = "InternalIp 10.0.0.1, InternalIp 10.0.0.2, InternalIp 10.0.1.1, InternalIp 10.0.9.9, \
                  ExternalIp 203.0.113.1, InternalDns ip-10-0-0-1.internal, \
                  Hostname ip-10-0-0-1.internal, ExternalDns ec2-1.example";
        let v6 = "InternalIp 2001:db8::1, InternalIp 2001:db8::2";

        assert_eq!(shown(&instance, &[Family::V4]), v4);
        assert_eq!(shown(&instance, &[Family::V6]), v6);
        assert_eq!(
            shown(&instance, &[Family::V6, Family::V4]),
            format!("{v6}, {v4}")
        );
    }

    #[test]
    fn excess_addresses_are_dropped_but_not_the_primary_ones() {
        let mut instance: Instance = quick_xml::de::from_str(INSTANCE).unwrap();
        let lent = instance
            .network_interface_set
            .items
            .iter_mut()
            .find(|one| one.status == "in-use")
            .unwrap();
        for number in 0..200 {
            let address = format!("10.2.0.{number}");
            lent.private_ip_addresses_set
                .items
                .push(crate::client::api::ec2::PrivateAddress {
                    private_ip_address: address,
                });
        }
        let kept = of(&instance, &[Family::V4]).unwrap();

        assert_eq!(kept.len(), MOST);
        assert_eq!(
            kept.first().map(|one| one.address.as_str()),
            Some("10.0.0.1")
        );
        assert!(kept.iter().any(|one| one.kind == AddressKind::ExternalDns));
    }

    #[test]
    fn an_invalid_address_is_an_error() {
        let instance: Instance =
            quick_xml::de::from_str(&INSTANCE.replace("203.0.113.1", "n/a")).unwrap();
        assert!(matches!(
            of(&instance, &[Family::V4]),
            Err(CloudError::Internal(_))
        ));
    }
}
