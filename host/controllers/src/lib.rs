//! Kubernetes' cloud controllers, for any provider. What they have in common is in
//! [`skydock_controller_base`], the service controller in [`service`], and those in place of CSI
//! sidecars in [`volumes`].
//!
//! The way of an event is straight: watch ([`skydock_kube::informer`]) → cache →
//! [`skydock_kube::queue`] → plan (a pure function of object and cloud answer) → apply (patches and
//! events). Clouds are behind [`skydock_cloud::CloudProvider`]; rules are in the `plan` modules,
//! where tests hold them against upstream's, statement by statement.
//!
//! [`run()`] starts all controllers.
//!
//! A controller is a module here, or a crate, with its `CONTROLLER` (a [`Descriptor`]), a type that
//! is a [`Runner`](skydock_controller_base::controller::context::Runner), and an entry in
//! `CONSTRUCTORS`. If it needs them, it has a `plan` and `metrics`, options in `manager/options.rs`,
//! whose flags begin in `host/manager/src/cli.rs`, and permissions in the roles in `deploy/`.
//! `maintenance.rs` is the smallest one.

#![forbid(unsafe_code)]

mod batches;
mod certificates;
mod cidrs;
pub mod ipam;
pub mod lifecycle;
mod maintenance;
mod manager;
pub mod node;
mod pause;
pub mod route;
mod volume_labels;

pub use cidrs::{ClusterCidrs, ClusterCidrsError};
pub use manager::dry_run::dry_run_provider;
pub use manager::list::{
    UnknownController, controllers, controllers_off_by_default, parse_controllers,
};
pub use manager::metrics::Metrics;
pub use manager::options::Options;
pub use manager::run::{Context, RunError, run};
pub use skydock_controller_base::controller::clients::{ClientName, Clients};
pub use skydock_controller_base::controller::descriptor::{Controller, Descriptor};
pub use skydock_controller_base::controller::recorder::recorder;
pub use skydock_controller_base::objects::{
    address_holders::is_of_one_node, constants, convert::node as node_for_provider,
};
pub use skydock_csi::Controller as CsiController;
pub use skydock_service_controller as service;
pub use skydock_volume_controllers as volumes;

use std::{sync::Arc, time::Duration};

use skydock_service_controller::ServiceController;
use skydock_volume_controllers::{
    attach::AttachController,
    provision::ProvisionController,
    resize::{ResizeController, modify::ModifyController},
    snapshot::SnapshotController,
};

use crate::{
    certificates::CertificateController, ipam::IpamController, lifecycle::LifecycleController,
    maintenance::MaintenanceController, manager::constructor::Constructor, node::NodeController,
    route::RouteController, volume_labels::VolumeLabelController,
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
            let options = setup.options.routes.clone();
            let process = setup.options.process.clone();
            let metrics = setup.metrics.route.clone();
            Ok(Arc::new(RouteController::new(
                setup.context,
                metrics,
                setup.client,
                options,
                process,
            )?))
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
    Constructor {
        controller: &volumes::attach::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| Ok(Arc::new(AttachController::new(setup.volume_parts()))),
    },
    Constructor {
        controller: &volumes::provision::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| Ok(Arc::new(ProvisionController::new(setup.volume_parts()))),
    },
    Constructor {
        controller: &volumes::resize::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| Ok(Arc::new(ResizeController::new(setup.volume_parts()))),
    },
    Constructor {
        controller: &volumes::resize::modify::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| Ok(Arc::new(ModifyController::new(setup.volume_parts()))),
    },
    Constructor {
        controller: &volumes::snapshot::CONTROLLER,
        by_default: false,
        disabled_by: |_| None,
        build: |setup| Ok(Arc::new(SnapshotController::new(setup.volume_parts()))),
    },
];
