//! Dry run: changes are logged and not made. Questions to the cloud are passed on, changes of the
//! cloud are not; the API server validates writes without storing them (see
//! [`skydock_kube::dry_run`]).
//!
//! The text about a call that changes the cloud is in its case of `Cloud::instead`, or of
//! `Cloud::instead_for_volumes`.

use std::sync::Arc;

use async_trait::async_trait;
use skydock_cloud::{
    Answer, Answers, Call, CloudError, CloudProvider, Function, Node, ProviderInfo, Service,
    units::bytes,
};
use skydock_controller_base::controller::clients::Clients;
use skydock_kube::dry_run::{self, DryRunLog};

/// Returns a provider and API clients that change nothing. What they would change is reported in
/// `log`.
pub(crate) fn dry_run_clients(
    provider: Arc<dyn CloudProvider>,
    clients: &Clients,
    log: &Arc<DryRunLog>,
) -> (Arc<dyn CloudProvider>, Clients) {
    let clients = Clients {
        informers: dry_run::client(&clients.informers, log),
        node: dry_run::client(&clients.node, log),
        service: dry_run::client(&clients.service, log),
        route: dry_run::client(&clients.route, log),
    };

    (
        Arc::new(Cloud {
            provider,
            log: Arc::clone(log),
        }),
        clients,
    )
}

/// Returns a provider that changes nothing in the cloud. What it would change is logged.
#[must_use]
pub fn dry_run_provider(provider: Arc<dyn CloudProvider>) -> Arc<dyn CloudProvider> {
    let log = Arc::default();
    Arc::new(Cloud { provider, log })
}

/// Forwards queries. Calls that would change the cloud are reported instead.
struct Cloud {
    provider: Arc<dyn CloudProvider>,
    log: Arc<DryRunLog>,
}

impl Cloud {
    fn not_made<T, E: From<CloudError>>(&self, what: &str) -> Result<T, E> {
        self.log.once(what);
        Err(CloudError::ImplementedElsewhere.into())
    }

    /// Reports what would be done for each element of a call.
    fn none_made<Q, T, E: From<CloudError>>(
        &self,
        questions: &[Q],
        what: impl Fn(&Q) -> String,
    ) -> Answers<T, E> {
        let answers = questions.iter().map(|it| self.not_made(&what(it)));
        answers.collect()
    }

    /// Reports a call that would change the cloud, and returns an answer instead of making it.
    /// Calls about load balancers succeed, so that what would follow is reported, too; others fail
    /// with [`CloudError::ImplementedElsewhere`], after which nothing is changed or retried.
    fn instead(&self, call: Call<'_>) -> Result<Answer, CloudError> {
        match call {
            Call::Ensure { service, nodes } => {
                let name = name(service);
                let nodes = names(nodes);
                self.log.once(&format!(
                    "ensure the load balancer of Service {name} with {nodes}"
                ));
                // The Service has this status already, so that none is written.
                Ok(Answer::Ensure(service.status.clone()))
            }
            Call::UpdateNodes { service, nodes } => {
                let name = name(service);
                let nodes = names(nodes);
                self.log.once(&format!(
                    "update the load balancer of Service {name} to {nodes}"
                ));
                Ok(Answer::UpdateNodes(()))
            }
            Call::EnsureDeleted { service } => {
                let name = name(service);
                self.log
                    .once(&format!("delete the load balancer of Service {name}"));
                Ok(Answer::EnsureDeleted(()))
            }
            Call::CreateRoutes { routes } => {
                Ok(Answer::CreateRoutes(self.none_made(routes, |route| {
                    format!(
                        "create a route to {} via node {}",
                        route.destination_cidr, route.target_node
                    )
                })))
            }
            Call::DeleteRoutes { routes } => {
                Ok(Answer::DeleteRoutes(self.none_made(routes, |route| {
                    format!("delete route {} to {}", route.name, route.destination_cidr)
                })))
            }
            Call::Maintain {} => self.not_made("run the provider's periodic maintenance"),
            other => self.instead_for_volumes(other),
        }
    }

    /// Does the same for calls about volumes and snapshots.
    fn instead_for_volumes(&self, call: Call<'_>) -> Result<Answer, CloudError> {
        match call {
            Call::CreateVolumes { volumes } => {
                Ok(Answer::CreateVolumes(self.none_made(volumes, |volume| {
                    format!("create volume {}", volume.name)
                })))
            }
            Call::DeleteVolumes { ids } => Ok(Answer::DeleteVolumes(
                self.none_made(ids, |id| format!("delete volume {}", id.0)),
            )),
            Call::AttachVolumes { attachments } => {
                Ok(Answer::AttachVolumes(self.none_made(attachments, |it| {
                    format!("attach volume {} to {}", it.volume.0, it.node)
                })))
            }
            Call::DetachVolumes { attachments } => {
                Ok(Answer::DetachVolumes(self.none_made(attachments, |it| {
                    let node = it.node.as_deref().unwrap_or("all nodes");
                    format!("detach volume {} from {node}", it.volume.0)
                })))
            }
            Call::ExpandVolumes { expansions } => {
                Ok(Answer::ExpandVolumes(self.none_made(expansions, |it| {
                    format!("expand volume {} to {}", it.volume.0, bytes(it.size.bytes))
                })))
            }
            Call::ModifyVolumes { modifications } => {
                Ok(Answer::ModifyVolumes(self.none_made(modifications, |it| {
                    format!("change the attributes of volume {}", it.volume.0)
                })))
            }
            Call::CreateSnapshots { snapshots } => {
                Ok(Answer::CreateSnapshots(self.none_made(snapshots, |it| {
                    format!("create snapshot {} of volume {}", it.name, it.volume.0)
                })))
            }
            Call::DeleteSnapshots { ids } => Ok(Answer::DeleteSnapshots(
                self.none_made(ids, |id| format!("delete snapshot {}", id.0)),
            )),
            other => self.not_made(&format!("call {} of the provider", other.function())),
        }
    }
}

fn name(service: &Service) -> String {
    format!("{}/{}", service.namespace, service.name)
}

fn names(nodes: &[Arc<Node>]) -> String {
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    if names.is_empty() {
        "no nodes".to_owned()
    } else {
        format!("nodes {}", names.join(", "))
    }
}

/// Makes a call that only reads, and the answer to one that writes.
macro_rules! answer {
    (reads $cloud:ident $function:ident $method:ident($($argument:ident),*)) => {
        $cloud.provider.$method($($argument),*).await
    };
    (writes $cloud:ident $function:ident $method:ident($($argument:ident),*)) => {
        match $cloud.instead(Call::$function { $($argument),* })? {
            Answer::$function(answer) => Ok(answer),
            other => Err(CloudError::Internal(format!(
                "the dry run answered {} with {other:?}",
                Function::$function
            ))),
        }
    };
}

/// Implements [`CloudProvider`] for [`Cloud`].
macro_rules! dry_run {
    ($(
        $(#[$doc:meta])*
        $function:ident $effect:ident $capability:ident $name:literal:
            $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;
    )*) => {
        #[async_trait]
        impl CloudProvider for Cloud {
            fn info(&self) -> Arc<ProviderInfo> {
                self.provider.info()
            }

            fn max_routes(&self) -> Option<usize> {
                self.provider.max_routes()
            }

            $(
                async fn $method(&self, $($argument: &$type),*) -> Result<$answer, CloudError> {
                    answer!($effect self $function $method($($argument),*))
                }
            )*
        }
    };
}

skydock_cloud::functions!(dry_run);

#[cfg(test)]
mod tests;
