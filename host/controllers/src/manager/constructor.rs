//! How controllers are built. [`CONSTRUCTORS`](crate::CONSTRUCTORS) has a [`Constructor`] for each.

use std::sync::Arc;

use kube::Client;
use skydock_cloud::{Capability, ProviderInfo};
use skydock_controller_base::{
    controller::{
        annotations::AnnotationWriter,
        context::{ControllerContext, Runner},
        descriptor::{Controller, NeedsServices},
    },
    objects::{address_holders::AddressHolders, kinds::ServiceKind, read_objects::ReadObjects},
};
use skydock_csi::Controller as CsiController;
use skydock_kube::{dry_run::DryRunLog, informer::Informer};
use skydock_service_controller::RecordStore;
use skydock_volume_controllers::{Parts, VolumeObjects};

use crate::{
    cidrs::ClusterCidrsError,
    manager::{metrics::Metrics, options::Options},
};

/// How a controller is built.
pub(crate) struct Constructor {
    pub(crate) controller: Controller,
    /// Whether `*` in `--controllers` enables it.
    pub(crate) by_default: bool,
    /// Returns the flag that disables it.
    pub(crate) disabled_by: fn(&Options) -> Option<&'static str>,
    pub(crate) build: fn(Setup<'_>) -> Result<Arc<dyn Runner>, Obstacle>,
}

/// What a controller is built from.
pub(crate) struct Setup<'a> {
    /// What it shares with the others.
    pub(crate) context: ControllerContext,
    /// Metrics, among them its own.
    pub(crate) metrics: &'a Metrics,
    /// The API client with its name.
    pub(crate) client: Client,
    pub(crate) options: &'a Options,
    /// The Services of the cluster; complete if the descriptor says that it needs them.
    pub(crate) services: &'a Arc<Informer<ServiceKind>>,
    /// The controller part of the provider's CSI driver.
    pub(crate) volumes: &'a Arc<CsiController>,
    /// What the controllers of volumes read.
    pub(crate) volume_objects: &'a Arc<VolumeObjects>,
    /// Annotations that the provider wants.
    pub(crate) annotation_writer: &'a AnnotationWriter,
    /// Objects that the provider reads.
    pub(crate) read_objects: &'a Arc<ReadObjects>,
    /// What has which addresses.
    pub(crate) address_holders: &'a Arc<AddressHolders>,
    /// Where a process leaves what it knows about load balancers to the next one.
    pub(crate) records: Option<RecordStore>,
    /// Set in a dry run.
    pub(crate) dry_run_log: Option<&'a Arc<DryRunLog>>,
    /// True if requests of the previous leader may still arrive.
    pub(crate) unreleased: bool,
}

impl Setup<'_> {
    /// Returns what a controller of volumes is built from.
    pub(crate) fn volume_parts(self) -> Parts {
        Parts {
            context: self.context,
            client: self.client,
            driver: Arc::clone(self.volumes),
            objects: Arc::clone(self.volume_objects),
        }
    }
}

/// Which Services are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Some: they are being listed.
    Partial,
    /// None: they are not watched, or must not be listed.
    Denied,
    /// All.
    Complete,
}

/// Why an enabled controller is not running.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Obstacle {
    /// A flag disables it.
    #[error("it is disabled by {0}=false")]
    TurnedOff(&'static str),
    /// The provider cannot do what it needs.
    #[error("provider {provider} does not support {capability}")]
    Unsupported {
        provider: String,
        capability: Capability,
    },
    /// The objects that it needs are not known yet.
    #[error(
        "cannot read {0} from the API server yet; the controller starts after they have been read"
    )]
    NotListed(&'static str),
    /// At startup, this is checked earlier; here, the capability was added by a later generation.
    #[error("{0}")]
    ClusterCidrs(#[from] ClusterCidrsError),
}

impl Obstacle {
    /// Returns true if somebody has to change the configuration.
    pub(crate) fn is_mistake(&self) -> bool {
        matches!(self, Self::ClusterCidrs(_))
    }
}

impl Constructor {
    /// Checks what can be checked without building it.
    pub(crate) fn check(
        &self,
        options: &Options,
        provider: &ProviderInfo,
        services: Listing,
    ) -> Result<(), Obstacle> {
        if let Some(flag) = (self.disabled_by)(options) {
            return Err(Obstacle::TurnedOff(flag));
        }

        if let Some(capability) = self
            .controller
            .needs
            .filter(|capability| !provider.can(*capability))
        {
            return Err(Obstacle::Unsupported {
                provider: provider.name.clone(),
                capability,
            });
        }

        // Nodes are served even if Services must not be listed.
        match (self.controller.needs_services, services) {
            (NeedsServices::No, _)
            | (_, Listing::Complete)
            | (NeedsServices::IfAllowed, Listing::Denied) => Ok(()),
            _ => Err(Obstacle::NotListed("Services")),
        }
    }
}
