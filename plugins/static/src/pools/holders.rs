//! The addresses that Services hold, according to their statuses.

use std::{collections::BTreeMap, net::IpAddr};

use skydock_sdk::types::Service;

use crate::desired_load_balancer;

/// A Service that has an address in its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// `metadata.uid`.
    pub uid: String,
    /// `NAMESPACE/NAME`.
    pub name: String,
}

/// All addresses in the statuses of Services of type LoadBalancer, including Services that are
/// being deleted. An address is free if it is in no status.
#[derive(Clone, Debug, Default)]
pub struct Holders(BTreeMap<IpAddr, Vec<Holder>>);

impl Holders {
    /// Reads the statuses of these Services.
    #[must_use]
    pub fn of(services: &[Service]) -> Self {
        let mut holders: BTreeMap<IpAddr, Vec<Holder>> = BTreeMap::new();
        for service in services {
            for address in desired_load_balancer::current(service) {
                let name = format!("{}/{}", service.namespace, service.name);
                holders.entry(address).or_default().push(Holder {
                    uid: service.uid.clone(),
                    name,
                });
            }
        }
        Self(holders)
    }

    /// Returns the Services that hold the address, except the one with this UID.
    pub fn others<'a>(&'a self, address: IpAddr, uid: &'a str) -> impl Iterator<Item = &'a Holder> {
        self.0
            .get(&address)
            .into_iter()
            .flatten()
            .filter(move |holder| holder.uid != uid)
    }
}
