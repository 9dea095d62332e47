//! Tracks changes that the cloud was asked for and has not answered yet. They may outlast the round
//! that started them.

use std::{collections::HashMap, iter::successors};

use ipnet::IpNet;
use skydock_cloud::{NewRoute, Route};

use super::changes::Change;

/// Changes in progress, by key.
#[derive(Default)]
pub(super) struct InFlight {
    creates: HashMap<String, String>,
    deletes: HashMap<String, Route>,
    /// For each CIDR, the number of routes being created whose destination is equal to it or inside
    /// it.
    inside: HashMap<IpNet, usize>,
    /// For each CIDR, the number of routes being created whose destination is equal to it.
    exact: HashMap<IpNet, usize>,
}

/// Returns a CIDR and all CIDRs that contain it.
fn around(net: IpNet) -> impl Iterator<Item = IpNet> {
    successors(Some(net.trunc()), IpNet::supernet)
}

fn count(counts: &mut HashMap<IpNet, usize>, net: IpNet, up: bool) {
    let count = counts.entry(net).or_default();
    *count = if up {
        count.saturating_add(1)
    } else {
        count.saturating_sub(1)
    };
    if *count == 0 {
        counts.remove(&net);
    }
}

impl InFlight {
    pub(super) fn creates(&self, route: &NewRoute) -> bool {
        self.creates.contains_key(&route.key())
    }

    pub(super) fn deletes(&self, route: &Route) -> bool {
        self.deletes.contains_key(&route.key())
    }

    /// Returns the routes to this node that are being deleted.
    pub(super) fn deletes_of(&self, node: &str) -> impl Iterator<Item = &Route> {
        self.deletes
            .values()
            .filter(move |route| route.target_node.as_deref() == Some(node))
    }

    /// Returns true if a route that overlaps with this one is being created: a cloud has one route
    /// for each destination.
    pub(super) fn is_in_the_place_of(&self, route: &NewRoute) -> bool {
        let Ok(net) = route.destination_cidr.parse::<IpNet>() else {
            return false;
        };
        self.inside.contains_key(&net.trunc())
            || around(net).any(|outer| self.exact.contains_key(&outer))
    }

    pub(super) fn begin_create(&mut self, route: &NewRoute) {
        self.creates
            .insert(route.key(), route.destination_cidr.clone());
        self.count(&route.destination_cidr, true);
    }

    pub(super) fn end_create(&mut self, route: &NewRoute) {
        if let Some(cidr) = self.creates.remove(&route.key()) {
            self.count(&cidr, false);
        }
    }

    pub(super) fn begin_delete(&mut self, route: &Route) {
        self.deletes.insert(route.key(), route.clone());
    }

    pub(super) fn end_delete(&mut self, route: &Route) {
        self.deletes.remove(&route.key());
    }

    fn count(&mut self, cidr: &str, up: bool) {
        if let Ok(net) = cidr.parse::<IpNet>() {
            count(&mut self.exact, net.trunc(), up);
            around(net).for_each(|outer| count(&mut self.inside, outer, up));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(node: &str, cidr: &str) -> NewRoute {
        NewRoute {
            name_hint: String::new(),
            target_node: node.into(),
            target_provider_id: None,
            target_addresses: Vec::new(),
            destination_cidr: cidr.into(),
        }
    }

    #[test]
    fn a_route_waits_for_an_overlapping_one_being_created() {
        let mut in_flight = InFlight::default();
        in_flight.begin_create(&new("a", "10.0.4.0/24"));
        for (cidr, waits) in [
            ("10.0.4.0/24", true),
            ("10.0.4.128/25", true),
            ("10.0.0.0/16", true),
            ("10.0.5.0/24", false),
            ("10.0.5.0/25", false),
            ("fd00::/64", false),
            ("pods", false),
        ] {
            assert_eq!(
                in_flight.is_in_the_place_of(&new("b", cidr)),
                waits,
                "{cidr}"
            );
        }
        in_flight.begin_create(&new("c", "10.0.5.0/24"));

        in_flight.end_create(&new("a", "10.0.4.0/24"));
        assert!(!in_flight.is_in_the_place_of(&new("b", "10.0.4.0/24")));
        assert!(in_flight.is_in_the_place_of(&new("b", "10.0.0.0/16")));

        in_flight.end_create(&new("c", "10.0.5.0/24"));
        assert!(in_flight.exact.is_empty() && in_flight.inside.is_empty());
    }
}
