//! Reports what happens to routes: logs, metrics and events.

use std::time::Duration;

use skydock_cloud::{CloudError, NewRoute, Route, reason};
use skydock_controller_base::calls::{progress::minutes, retry};
use skydock_kube::events::{EventType, Notice};

use super::{
    NodeEntry, RouteController,
    changes::{Change, Done},
};

pub(super) enum Report {
    /// The routes could not be listed.
    ListFailed(CloudError),
    /// The number of routes is close to the limit.
    NearLimit { routes: usize, limit: usize },
    /// No route is created to these Pod CIDRs of a node: they are outside of the cluster's.
    Outside(NodeEntry, Vec<String>),
    /// A route was created, or could not be created; with its node, if that exists.
    Created(Done<NewRoute>, Option<NodeEntry>),
    /// Creating a route to a node has been in progress for a long time.
    CreatingForLong {
        entry: NodeEntry,
        key: String,
        lasted: Duration,
        error: CloudError,
    },
    /// A route was deleted.
    Deleted(Route),
    /// A route could not be deleted.
    NotDeleted { key: String, error: CloudError },
    /// Deleting a route has been in progress for a long time.
    DeletingForLong {
        key: String,
        lasted: Duration,
        error: CloudError,
    },
}

impl RouteController {
    /// Logs, counts and publishes a report.
    pub(super) fn report(&self, report: &Report) {
        let context = &self.context;
        match report {
            Report::ListFailed(error) => {
                context.cloud_error("routes", error);
                if retry::warns(error) {
                    self.warn(
                        reason::FAILED_TO_LIST_ROUTES,
                        format!("No route is created or deleted: {error}"),
                    );
                }
            }
            Report::NearLimit { routes, limit } => {
                let message = format!(
                    "There are {routes} routes; with more than {limit}, no route is created or deleted. Raise the limit, for \
                     example --plugin-limit routes={}",
                    limit.saturating_mul(2)
                );
                tracing::warn!("{message}");
                self.warn(reason::ROUTES_NEAR_LIMIT, message);
            }
            Report::Outside(entry, cidrs) => {
                let cidrs = cidrs.join(", ");
                let message = format!(
                    "No route is created to Pod CIDR {cidrs} of the node: it is outside --cluster-cidr. If it is correct, \
                     extend --cluster-cidr; otherwise delete the node, and let it register again"
                );
                tracing::warn!(node = entry.name(), "{message}");
                context
                    .metrics
                    .error(context.controller, "pod-cidr-out-of-range");
                context.warning(entry, reason::POD_CIDR_OUT_OF_RANGE, message);
            }
            Report::Created(done, entry) => self.report_created(done, entry.as_ref()),
            Report::CreatingForLong {
                entry,
                key,
                lasted,
                error,
            } => {
                let lasted = minutes(*lasted);
                let message =
                    format!("An operation on route {key} has not finished after {lasted}: {error}");
                context.warning(entry, reason::STILL_IN_PROGRESS, message);
            }
            Report::Deleted(route) => {
                tracing::info!(
                    route = route.name,
                    cidr = route.destination_cidr,
                    "deleted a route"
                );
            }
            Report::NotDeleted { key, error } => context.cloud_error(key, error),
            Report::DeletingForLong { key, lasted, error } => {
                let lasted = minutes(*lasted);
                tracing::warn!(
                    route = key,
                    "route deletion has not finished after {lasted}: {error}"
                );
            }
        }
    }

    fn report_created(&self, done: &Done<NewRoute>, entry: Option<&NodeEntry>) {
        let Done {
            change,
            result,
            took,
            ..
        } = done;
        let node = change.target_node.as_str();
        let cidr = &change.destination_cidr;

        let Err(error) = result else {
            tracing::info!(node, cidr, "created a route");
            return;
        };

        self.context.cloud_error(&change.key(), error);
        if let Some(entry) = entry.filter(|_| retry::warns(error)) {
            let hint = &change.name_hint;
            let message = format!(
                "Could not create route {hint} {cidr} for node {node} after {took:?}: {error}"
            );
            self.context
                .warning(entry, reason::FAILED_TO_CREATE_ROUTE, message);
        }
    }

    /// Publishes a warning that is not about a single object of the cluster, on the object that
    /// represents this process.
    fn warn(&self, reason: &str, message: String) {
        self.context.recorder.publish(Notice {
            source: self.context.controller.event_source,
            object: self.process.clone(),
            event_type: EventType::Warning,
            reason: reason.to_owned(),
            message,
        });
    }
}
