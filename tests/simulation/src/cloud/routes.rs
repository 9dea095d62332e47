//! The route table of the cloud's network, which also contains routes that must not be changed.

use skydock_cloud::{CloudError, NewRoute, Route};

use super::{Cloud, State};

/// The address ranges of Pods, one per IP family.
pub(crate) const CLUSTER_CIDRS: [&str; 2] = ["10.244.0.0/22", "fd00:10:244::/62"];

/// A route and its owner.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    route: Route,
    owner: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    /// The host created it for the node with this UID.
    Node(String),
    /// Somebody else created it in the cluster's ranges.
    Stray,
    /// It existed before the cluster and must not be changed.
    Other,
}

/// Returns routes outside of the cluster's ranges, around them, and to an instance that is also a
/// node.
pub(super) fn others() -> Vec<Entry> {
    let route = |name: &str, cidr: &str, node: Option<&str>, blackhole| Route {
        name: name.to_owned(),
        target_node: node.map(str::to_owned),
        target_addresses: None,
        destination_cidr: cidr.to_owned(),
        blackhole,
    };
    let routes = [
        route("internet", "0.0.0.0/0", None, false),
        route("office", "10.0.0.0/8", None, false),
        route("next-cluster", "10.244.4.0/22", None, true),
        route("storage", "192.168.7.0/24", Some("n0"), false),
        route("internet-6", "::/0", None, false),
    ];
    routes
        .into_iter()
        .map(|route| Entry {
            route,
            owner: Owner::Other,
        })
        .collect()
}

impl Cloud {
    /// Returns all routes except those that existed before the cluster.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        let state = self.lock();
        let ours = state
            .routes
            .iter()
            .filter(|entry| entry.owner != Owner::Other);
        ours.map(|entry| entry.route.clone()).collect()
    }

    /// Deletes the routes to a node, like another client.
    pub fn lose_routes(&self, node: &str) {
        self.lock().routes.retain(|entry| !entry.leads_to(node));
    }

    /// Turns the routes to a node into blackholes.
    pub fn blackhole(&self, node: &str) {
        self.lock()
            .routes
            .iter_mut()
            .filter(|entry| entry.leads_to(node))
            .for_each(|entry| entry.route.blackhole = true);
    }

    /// Creates a route like another client, unless a route to the same destination exists.
    pub fn stray_route(&self, cidr: &str, node: Option<&str>) {
        let mut state = self.lock();
        state.made += 1;
        let name = format!("stray-{}", state.made);
        if !state
            .routes
            .iter()
            .any(|entry| entry.route.destination_cidr == cidr)
        {
            let route = Route {
                name,
                target_node: node.map(str::to_owned),
                target_addresses: None,
                destination_cidr: cidr.to_owned(),
                blackhole: false,
            };
            state.routes.push(Entry {
                route,
                owner: Owner::Stray,
            });
        }
    }
}

impl Entry {
    fn leads_to(&self, node: &str) -> bool {
        self.owner != Owner::Other && self.route.target_node.as_deref() == Some(node)
    }
}

impl State {
    pub(super) fn list_routes(&self) -> Vec<Route> {
        self.routes
            .iter()
            .map(|entry| entry.route.clone())
            .collect()
    }

    /// Creates a route. There can be one route per destination: an identical one is a success, and
    /// a different one must be deleted first.
    pub(super) fn create_route(&mut self, new: NewRoute) -> Result<(), CloudError> {
        let route = Route {
            name: format!("{}-{}", new.name_hint, new.destination_cidr),
            target_node: Some(new.target_node),
            target_addresses: Some(new.target_addresses),
            destination_cidr: new.destination_cidr,
            blackhole: false,
        };
        match self
            .routes
            .iter()
            .find(|entry| entry.route.destination_cidr == route.destination_cidr)
        {
            Some(there)
                if Route {
                    name: route.name.clone(),
                    ..there.route.clone()
                } == route =>
            {
                Ok(())
            }
            Some(there) => {
                let taken = format!(
                    "{} leads elsewhere: {:?}",
                    route.destination_cidr, there.route
                );
                *self.met.entry("destination taken").or_default() += 1;
                Err(CloudError::Conflict(taken))
            }
            None => {
                self.routes.push(Entry {
                    route,
                    owner: Owner::Node(new.name_hint),
                });
                Ok(())
            }
        }
    }

    pub(super) fn delete_route(&mut self, gone: &Route) -> Result<(), CloudError> {
        let at = self
            .routes
            .iter()
            .position(|entry| entry.route.name == gone.name);
        let at =
            at.ok_or_else(|| CloudError::NotFound(format!("there is no route {}", gone.name)))?;
        let Entry { route, owner } = self.routes.remove(at);
        let wrong = match owner {
            Owner::Node(uid) => !route.blackhole && !self.released.contains(&uid),
            Owner::Stray => false,
            Owner::Other => true,
        };
        if wrong {
            self.wrongs.push(format!(
                "a route was deleted that was to stay all along: {route:?}"
            ));
        }
        Ok(())
    }
}
