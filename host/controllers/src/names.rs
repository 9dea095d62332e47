//! What the controllers are called: on the command line, towards the API server, in events and in metrics.

use std::{collections::BTreeSet, fmt};

use skydock_cloud::Capability;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Initialises nodes and keeps their addresses.
    Node,
    /// Deletes nodes whose machine is gone, taints those whose machine is stopped.
    NodeLifecycle,
    /// Load balancers for services.
    Service,
    /// Routes to Pods.
    Route,
    /// Pod address ranges for nodes.
    NodeIpam,
    /// What a provider has to do now and then.
    Maintenance,
}

impl Controller {
    /// All there are, in the order in which they are started.
    pub const ALL: [Self; 6] =
        [Self::Node, Self::NodeLifecycle, Self::Service, Self::Route, Self::NodeIpam, Self::Maintenance];

    /// Canonical name, as in `--controllers`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "cloud-node-controller",
            Self::NodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Service => "service-lb-controller",
            Self::Route => "node-route-controller",
            Self::NodeIpam => "node-ipam-controller",
            Self::Maintenance => "cloud-maintenance-controller",
        }
    }

    /// The shorter name that `--controllers` takes too, and that metrics use.
    #[must_use]
    pub fn alias(self) -> &'static str {
        match self {
            Self::Node => "cloud-node",
            Self::NodeLifecycle => "cloud-node-lifecycle",
            Self::Service => "service",
            Self::Route => "route",
            Self::NodeIpam => "nodeipam",
            Self::Maintenance => "maintenance",
        }
    }

    /// Name of its API client: suffix of the user agent, and the service account under
    /// `--use-service-account-credentials`. Maintenance has none of its own: it speaks to the cloud alone.
    #[must_use]
    pub fn client_name(self) -> &'static str {
        match self {
            Self::Node | Self::NodeLifecycle | Self::NodeIpam | Self::Maintenance => "node-controller",
            Self::Service => "service-controller",
            Self::Route => "route-controller",
        }
    }

    /// `source.component` of its events.
    #[must_use]
    pub fn event_source(self) -> &'static str {
        match self {
            Self::Node => "cloud-node-controller",
            Self::NodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Service => "service-controller",
            Self::Route => "route_controller",
            Self::NodeIpam => "cidrAllocator",
            Self::Maintenance => "cloud-maintenance-controller",
        }
    }

    /// What a provider must be able to do for it; `None` if nothing.
    #[must_use]
    pub fn needs(self) -> Option<Capability> {
        match self {
            Self::Node | Self::NodeLifecycle => Some(Capability::Instances),
            Self::Service => Some(Capability::LoadBalancers),
            Self::Route => Some(Capability::Routes),
            Self::NodeIpam => None,
            Self::Maintenance => Some(Capability::Maintenance),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| text == controller.name() || text == controller.alias())
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name in `--controllers` that is no controller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not in the list of known controllers: {}", known())]
pub struct UnknownController {
    /// The name, as given.
    pub name: String,
}

fn known() -> String {
    Controller::ALL.map(|controller| format!("{} ({})", controller.name(), controller.alias())).join(", ")
}

/// Reads a `--controllers` list: `NAME` turns a controller on, `-NAME` off, `*` on all that are not named. The first entry
/// that matches wins; an empty list turns all off.
///
/// # Errors
///
/// If a name is unknown.
pub fn parse_controllers<S: AsRef<str>>(list: &[S]) -> Result<BTreeSet<Controller>, UnknownController> {
    let mut named = Vec::new();
    let mut all = false;
    for entry in list.iter().map(|entry| entry.as_ref().trim()).filter(|entry| !entry.is_empty()) {
        if entry == "*" {
            all = true;
            continue;
        }
        let (on, name) = entry.strip_prefix('-').map_or((true, entry), |name| (false, name));
        let controller = Controller::parse(name).ok_or_else(|| UnknownController { name: name.to_owned() })?;
        named.push((controller, on));
    }
    let enabled =
        |controller: &Controller| named.iter().find(|(named, _)| named == controller).map_or(all, |&(_, on)| on);
    Ok(Controller::ALL.into_iter().filter(enabled).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &[&str]) -> BTreeSet<Controller> {
        parse_controllers(list).unwrap()
    }

    #[test]
    fn c01_c02_c03_every_controller_has_upstreams_names_for_flags_clients_and_events() {
        for (controller, name, alias, client, source) in [
            (Controller::Node, "cloud-node-controller", "cloud-node", "node-controller", "cloud-node-controller"),
            (
                Controller::NodeLifecycle,
                "cloud-node-lifecycle-controller",
                "cloud-node-lifecycle",
                "node-controller",
                "cloud-node-lifecycle-controller",
            ),
            (Controller::Service, "service-lb-controller", "service", "service-controller", "service-controller"),
            (Controller::Route, "node-route-controller", "route", "route-controller", "route_controller"),
            (Controller::NodeIpam, "node-ipam-controller", "nodeipam", "node-controller", "cidrAllocator"),
            (
                Controller::Maintenance,
                "cloud-maintenance-controller",
                "maintenance",
                "node-controller",
                "cloud-maintenance-controller",
            ),
        ] {
            assert_eq!((controller.name(), controller.alias()), (name, alias));
            assert_eq!((controller.client_name(), controller.event_source()), (client, source), "{name}");
            for text in [name, alias] {
                assert_eq!(parse(&[text]), BTreeSet::from([controller]), "{text}");
            }
        }
    }

    #[test]
    fn c01_a_star_turns_all_on_and_a_minus_takes_one_away_by_name_or_alias() {
        assert_eq!(parse(&["*"]).len(), 6);
        for off in ["-service", "-service-lb-controller"] {
            let enabled = parse(&["*", off]);
            assert!(!enabled.contains(&Controller::Service) && enabled.len() == 5, "{off}");
        }
    }

    #[test]
    fn c01_without_a_star_only_the_named_ones_are_on() {
        assert_eq!(
            parse(&["cloud-node", "node-route-controller"]),
            BTreeSet::from([Controller::Node, Controller::Route])
        );
        assert!(parse(&[]).is_empty());
    }

    #[test]
    fn c01_the_first_entry_that_matches_wins() {
        assert!(parse(&["route", "-route"]).contains(&Controller::Route));
        assert!(!parse(&["*", "-route", "route"]).contains(&Controller::Route));
    }

    #[test]
    fn p02_an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let error = parse_controllers(&["*", "-servise"]).unwrap_err().to_string();
        assert!(error.contains("\"servise\" is not in the list of known controllers"), "{error}");
        assert!(error.contains("service-lb-controller (service)"), "{error}");
    }
}
