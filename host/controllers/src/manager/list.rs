//! How `--controllers` selects from the list of all controllers.

use std::collections::BTreeSet;

use skydock_controller_base::controller::descriptor::Controller;

use crate::{CONSTRUCTORS, manager::constructor::Constructor};

/// Returns all controllers, in the order in which they are started.
pub fn controllers() -> impl Iterator<Item = Controller> {
    CONSTRUCTORS.iter().map(|it| it.controller)
}

/// Returns the controllers that run only if `--controllers` names them.
pub fn controllers_off_by_default() -> impl Iterator<Item = Controller> {
    CONSTRUCTORS
        .iter()
        .filter(|it| !it.by_default)
        .map(|it| it.controller)
}

/// A name in `--controllers` that is not the name of a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {name:?}; expected one of {}", known())]
pub struct UnknownController {
    /// The given name.
    pub name: String,
}

fn known() -> String {
    let names =
        controllers().map(|controller| format!("{} ({})", controller.name, controller.alias));
    names.collect::<Vec<_>>().join(", ")
}

/// Parses a `--controllers` list: `NAME` enables a controller, `-NAME` disables it, and `*` enables
/// all that are not named, except those that are off by default. The first matching entry wins; an
/// empty list disables all.
///
/// # Errors
///
/// Returns an error if a name is unknown.
pub fn parse_controllers<S: AsRef<str>>(
    list: &[S],
) -> Result<BTreeSet<Controller>, UnknownController> {
    let mut named = Vec::new();
    let mut all = false;

    for entry in list
        .iter()
        .map(|entry| entry.as_ref().trim())
        .filter(|entry| !entry.is_empty())
    {
        if entry == "*" {
            all = true;
            continue;
        }

        let (on, name) = entry
            .strip_prefix('-')
            .map_or((true, entry), |name| (false, name));
        let controller =
            controllers().find(|controller| name == controller.name || name == controller.alias);
        let controller = controller.ok_or_else(|| UnknownController {
            name: name.to_owned(),
        })?;

        named.push((controller, on));
    }

    let enabled = |constructor: &&Constructor| {
        named
            .iter()
            .find(|(named, _)| *named == constructor.controller)
            .map_or(all && constructor.by_default, |&(_, on)| on)
    };

    Ok(CONSTRUCTORS
        .iter()
        .filter(enabled)
        .map(|it| it.controller)
        .collect())
}

#[cfg(test)]
mod tests {
    use skydock_service_controller as service;

    use super::*;
    use crate::{certificates, ipam, lifecycle, maintenance, node, route, volumes};

    fn parse(list: &[&str]) -> BTreeSet<Controller> {
        parse_controllers(list).unwrap()
    }

    // Holds: C-01, C-02, C-03
    #[test]
    fn controller_client_and_event_names_match_upstream() {
        let table: &[(Controller, _, _, _, _)] = &[
            (
                &node::CONTROLLER,
                "cloud-node-controller",
                "cloud-node",
                "node-controller",
                "cloud-node-controller",
            ),
            (
                &lifecycle::CONTROLLER,
                "cloud-node-lifecycle-controller",
                "cloud-node-lifecycle",
                "node-controller",
                "cloud-node-lifecycle-controller",
            ),
            (
                &service::CONTROLLER,
                "service-lb-controller",
                "service",
                "service-controller",
                "service-controller",
            ),
            (
                &route::CONTROLLER,
                "node-route-controller",
                "route",
                "route-controller",
                "route_controller",
            ),
            (
                &ipam::CONTROLLER,
                "node-ipam-controller",
                "nodeipam",
                "node-controller",
                "cidrAllocator",
            ),
            (
                &maintenance::CONTROLLER,
                "cloud-maintenance-controller",
                "maintenance",
                "node-controller",
                "cloud-maintenance-controller",
            ),
            (
                &certificates::CONTROLLER,
                "certificatesigningrequest-approving-controller",
                "node-csr-approval",
                "node-controller",
                "certificatesigningrequest-approving-controller",
            ),
            (
                &volumes::attach::CONTROLLER,
                "volume-attach-controller",
                "volume-attach",
                "node-controller",
                "volume-attach-controller",
            ),
            (
                &volumes::provision::CONTROLLER,
                "volume-provision-controller",
                "volume-provision",
                "node-controller",
                "volume-provision-controller",
            ),
            (
                &volumes::resize::CONTROLLER,
                "volume-resize-controller",
                "volume-resize",
                "node-controller",
                "volume-resize-controller",
            ),
            (
                &volumes::resize::modify::CONTROLLER,
                "volume-modify-controller",
                "volume-modify",
                "node-controller",
                "volume-modify-controller",
            ),
            (
                &volumes::snapshot::CONTROLLER,
                "volume-snapshot-controller",
                "volume-snapshot",
                "node-controller",
                "volume-snapshot-controller",
            ),
        ];
        for &(controller, name, alias, client, source) in table {
            assert_eq!((controller.name, controller.alias), (name, alias));
            assert_eq!(
                (controller.client.as_str(), controller.event_source),
                (client, source),
                "{name}"
            );
        }
    }

    // Holds: C-01
    #[test]
    fn each_controller_is_selected_by_its_name_or_alias() {
        for controller in controllers() {
            for text in [controller.name, controller.alias] {
                assert_eq!(parse(&[text]), BTreeSet::from([controller]), "{text}");
            }
        }
    }

    // Holds: C-01
    #[test]
    fn a_star_enables_all_and_a_minus_disables_one() {
        let mut all: BTreeSet<_> = controllers().collect();
        for controller in controllers_off_by_default() {
            assert!(all.remove(controller));
        }
        assert!(all.contains(&service::CONTROLLER));
        assert_eq!(parse(&["*"]), all);
        for off in ["-service", "-service-lb-controller"] {
            let enabled = parse(&["*", off]);
            assert!(
                !enabled.contains(&service::CONTROLLER) && enabled.len() == all.len() - 1,
                "{off}"
            );
        }
    }

    #[test]
    fn a_controller_that_is_off_by_default_must_be_named() {
        let off: Vec<_> = controllers_off_by_default().collect();
        assert!(off.contains(&&certificates::CONTROLLER));
        for controller in off {
            let mut expected = parse(&["*"]);
            assert!(expected.insert(controller), "{controller}");
            for named in [controller.alias, controller.name] {
                assert_eq!(parse(&["*", named]), expected, "{named}");
            }
            let disabled = format!("-{}", controller.alias);
            assert!(!parse(&["*", disabled.as_str()]).contains(controller));
        }
    }

    // Holds: C-01
    #[test]
    fn without_a_star_only_named_controllers_are_enabled() {
        assert_eq!(
            parse(&["cloud-node", "node-route-controller"]),
            BTreeSet::from([&node::CONTROLLER, &route::CONTROLLER])
        );
        assert!(parse(&[]).is_empty());
    }

    // Holds: C-01
    #[test]
    fn the_first_entry_that_matches_wins() {
        assert!(parse(&["route", "-route"]).contains(&route::CONTROLLER));
        assert!(!parse(&["*", "-route", "route"]).contains(&route::CONTROLLER));
    }

    // Holds: P-02
    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let error = parse_controllers(&["*", "-servise"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("unknown controller \"servise\""), "{error}");
        assert!(error.contains("service-lb-controller (service)"), "{error}");
    }
}
