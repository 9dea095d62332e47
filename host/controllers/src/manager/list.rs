//! The list of all controllers, how each is built, and how `--controllers` selects from it.
//!
//! A controller is a module or a crate with its `CONTROLLER` (a [`Descriptor`](crate::Descriptor)),
//! a type that is a [`Runner`](skydock_controller_base::controller::context::Runner), and an entry
//! here. If it needs them, it has a `plan` and `metrics`, options in `manager/options.rs`, whose
//! flags begin in `host/manager/src/cli.rs`, and permissions in the roles in `deploy/`.
//! `maintenance.rs` is the smallest one.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use skydock_controller_base::controller::descriptor::Controller;
use skydock_service_controller::{self as service, ServiceController};

use crate::{
    certificates::{self, CertificateController},
    ipam::{self, IpamController},
    lifecycle::{self, LifecycleController},
    maintenance::{self, MaintenanceController},
    manager::constructor::Constructor,
    node::{self, NodeController},
    route::{self, RouteController, RouteOptions},
    volume_labels::{self, VolumeLabelController},
};

/// All controllers with their constructors, in the order in which they are started.
pub(crate) const CONSTRUCTORS: &[Constructor] = &[
    Constructor {
        controller: &node::CONTROLLER,
        by_default: true,
        disabled_by: |_| None,
        build: |setup| {
            Ok(Arc::new(NodeController::new(
                setup.context,
                setup.metrics.node.clone(),
                setup.client,
                setup.options.node,
            )))
        },
    },
    Constructor {
        controller: &lifecycle::CONTROLLER,
        by_default: true,
        disabled_by: |_| None,
        build: |setup| {
            let options = setup.options.lifecycle;
            let dry_run_log = setup.dry_run_log.cloned();
            let metrics = setup.metrics.lifecycle.clone();
            Ok(Arc::new(LifecycleController::new(
                setup.context,
                metrics,
                setup.client,
                options,
                dry_run_log,
            )))
        },
    },
    Constructor {
        controller: &service::CONTROLLER,
        by_default: true,
        disabled_by: |_| None,
        build: |setup| {
            let services = Arc::clone(setup.services);
            let options = setup.options.services.clone();
            let dependencies = service::ServiceDependencies {
                written_annotations: setup.annotation_writer.written(),
                read_objects: setup.read_objects,
                address_holders: setup.address_holders,
                records: setup.records,
            };
            let metrics = setup.metrics.service.clone();
            Ok(Arc::new(ServiceController::new(
                setup.context,
                metrics,
                setup.client,
                services,
                options,
                dependencies,
            )))
        },
    },
    Constructor {
        controller: &route::CONTROLLER,
        by_default: true,
        disabled_by: |options| (!options.routes.configure).then_some("--configure-cloud-routes"),
        build: |setup| {
            let RouteOptions {
                cluster_cidrs,
                reconciliation,
                ..
            } = setup.options.routes.clone();
            let process = setup.options.process.clone();
            let metrics = setup.metrics.route.clone();
            Ok(Arc::new(RouteController::new(
                setup.context,
                metrics,
                setup.client,
                cluster_cidrs?,
                reconciliation,
                process,
            )))
        },
    },
    Constructor {
        controller: &ipam::CONTROLLER,
        by_default: true,
        disabled_by: |options| {
            options
                .ipam
                .ranges
                .is_empty()
                .then_some("--allocate-node-cidrs")
        },
        build: |setup| {
            let quiet = if setup.unreleased {
                ipam::LATE_WRITES
            } else {
                Duration::ZERO
            };
            let metrics = &setup.metrics.ipam;
            Ok(Arc::new(IpamController::new(
                setup.context,
                metrics,
                setup.client,
                &setup.options.ipam,
                quiet,
            )))
        },
    },
    Constructor {
        controller: &maintenance::CONTROLLER,
        by_default: true,
        disabled_by: |_| None,
        build: |setup| Ok(Arc::new(MaintenanceController::new(setup.context))),
    },
    Constructor {
        controller: &certificates::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| {
            let metrics = setup.metrics.certificates.clone();
            Ok(Arc::new(CertificateController::new(
                setup.context,
                metrics,
                setup.client,
            )))
        },
    },
    Constructor {
        controller: &volume_labels::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| {
            Ok(Arc::new(VolumeLabelController::new(
                setup.context,
                setup.client,
            )))
        },
    },
];

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
    use super::*;

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
                &volume_labels::CONTROLLER,
                "persistent-volume-label-controller",
                "pvlabel",
                "node-controller",
                "persistent-volume-label-controller",
            ),
        ];
        for &(controller, name, alias, client, source) in table {
            assert_eq!((controller.name, controller.alias), (name, alias));
            assert_eq!(
                (controller.client.as_str(), controller.event_source),
                (client, source),
                "{name}"
            );
            for text in [name, alias] {
                assert_eq!(parse(&[text]), BTreeSet::from([controller]), "{text}");
            }
        }
        let listed: BTreeSet<_> = table.iter().map(|row| row.0).collect();
        assert_eq!(listed, controllers().collect());
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
        assert_eq!(off, [&certificates::CONTROLLER, &volume_labels::CONTROLLER]);
        for (named, controller) in [
            ("node-csr-approval", &certificates::CONTROLLER),
            (
                "certificatesigningrequest-approving-controller",
                &certificates::CONTROLLER,
            ),
            ("pvlabel", &volume_labels::CONTROLLER),
            (
                "persistent-volume-label-controller",
                &volume_labels::CONTROLLER,
            ),
        ] {
            let mut expected = parse(&["*"]);
            assert!(expected.insert(controller), "{named}");
            assert_eq!(parse(&["*", named]), expected, "{named}");
        }
        let every = parse(&["*", "node-csr-approval", "pvlabel"]);
        assert_eq!(every, controllers().collect());
        assert!(!parse(&["*", "-node-csr-approval"]).contains(&certificates::CONTROLLER));
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
