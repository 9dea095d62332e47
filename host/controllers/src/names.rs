//! Names of the controllers on the command line, in API clients, in events and in metrics.

use std::{collections::BTreeSet, fmt};

use skydock_cloud::Capability;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Initializes nodes and keeps their addresses up to date.
    Node,
    /// Deletes nodes whose instance does not exist, and taints those whose instance is stopped.
    NodeLifecycle,
    /// Manages load balancers of Services.
    Service,
    /// Manages routes to Pods.
    Route,
    /// Allocates Pod CIDRs for nodes.
    NodeIpam,
    /// Runs the periodic work of a provider.
    Maintenance,
}

impl Controller {
    /// All controllers, in the order in which they are started.
    pub const ALL: [Self; 6] =
        [Self::Node, Self::NodeLifecycle, Self::Service, Self::Route, Self::NodeIpam, Self::Maintenance];

    /// Returns the canonical name, as in `--controllers`.
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

    /// Returns the shorter name, which `--controllers` accepts too and metrics use.
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

    /// Returns the name of its API client: the suffix of the user agent, and the service account under
    /// `--use-service-account-credentials`. The maintenance controller has no client of its own, because it only calls the
    /// cloud.
    #[must_use]
    pub fn client_name(self) -> &'static str {
        match self {
            Self::Node | Self::NodeLifecycle | Self::NodeIpam | Self::Maintenance => "node-controller",
            Self::Service => "service-controller",
            Self::Route => "route-controller",
        }
    }

    /// Returns `source.component` of its events.
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

    /// Returns the capability that a provider must have for this controller; `None` if it needs none.
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

/// A name in `--controllers` that is not the name of a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {name:?}; expected one of {}", known())]
pub struct UnknownController {
    /// The given name.
    pub name: String,
}

fn known() -> String {
    Controller::ALL.map(|controller| format!("{} ({})", controller.name(), controller.alias())).join(", ")
}

/// Parses a `--controllers` list: `NAME` enables a controller, `-NAME` disables it, and `*` enables all that are not named. The
/// first matching entry wins; an empty list disables all.
///
/// # Errors
///
/// Returns an error if a name is unknown.
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

    // Holds: C-01, C-02, C-03
    #[test]
    fn controller_client_and_event_names_match_upstream() {
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

    // Holds: C-01
    #[test]
    fn a_star_enables_all_and_a_minus_disables_one() {
        assert_eq!(parse(&["*"]).len(), 6);
        for off in ["-service", "-service-lb-controller"] {
            let enabled = parse(&["*", off]);
            assert!(!enabled.contains(&Controller::Service) && enabled.len() == 5, "{off}");
        }
    }

    // Holds: C-01
    #[test]
    fn without_a_star_only_named_controllers_are_enabled() {
        assert_eq!(
            parse(&["cloud-node", "node-route-controller"]),
            BTreeSet::from([Controller::Node, Controller::Route])
        );
        assert!(parse(&[]).is_empty());
    }

    // Holds: C-01
    #[test]
    fn the_first_entry_that_matches_wins() {
        assert!(parse(&["route", "-route"]).contains(&Controller::Route));
        assert!(!parse(&["*", "-route", "route"]).contains(&Controller::Route));
    }

    // Holds: P-02
    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let error = parse_controllers(&["*", "-servise"]).unwrap_err().to_string();
        assert!(error.contains("unknown controller \"servise\""), "{error}");
        assert!(error.contains("service-lb-controller (service)"), "{error}");
    }
}
