//! What the requests of all controllers have in common: time, Secrets, delays and reports of failures.

use std::time::Duration;

use k8s_openapi::api::core::v1::SecretReference;
use skydock_cloud::Pairs;
use skydock_controller_base::controller::context::ControllerContext;
use skydock_csi::{Code, Failure};
use skydock_kube::queue::Limiter;

/// Time for a request, after which it is repeated: the `--timeout` of the sidecars in `deploy/`.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Maximum number of objects of a controller for which requests are in progress. One that waits for the
/// cloud is only a future, and costs no call of its own.
pub(crate) const WORKERS: usize = 250;

/// Delays of what has failed, as in the sidecars (`--retry-interval-start`, `--retry-interval-max`).
pub(crate) const LIMITER: Limiter = Limiter {
    base: Duration::from_secs(1),
    max: Duration::from_mins(5),
    bucket: None,
};

/// Returns what to send in place of the content of a Secret: only its name, so that the request is rejected
/// as that of a sidecar. Secrets are never read.
pub(crate) fn secrets(reference: Option<&SecretReference>) -> Pairs {
    let name = |it: &SecretReference| it.name.clone().unwrap_or_default();
    reference
        .map(|it| (name(it), String::new()))
        .into_iter()
        .collect()
}

/// Counts and logs that a request has failed. What is still in progress is no failure.
pub(crate) fn failed(context: &ControllerContext, object: &str, failure: &Failure) {
    let controller = context.controller;
    if failure.code == Code::Aborted {
        tracing::debug!(controller = controller.name, object, "{failure}");
    } else {
        context.metrics.error(controller, failure.code.kind());
        tracing::warn!(controller = controller.name, object, "{failure}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_without_content() {
        assert!(secrets(None).is_empty());
        let reference = SecretReference {
            name: Some("cloud".to_owned()),
            namespace: Some("kube-system".to_owned()),
        };
        let sent = secrets(Some(&reference));
        assert_eq!(sent, [("cloud".to_owned(), String::new())].into());
    }
}
