//! Tells about Services whose load balancer nobody deletes, because the provider serves none with
//! its configuration.

use std::sync::Arc;

use skydock_cloud::{Capability, CloudProvider, reason};
use skydock_controller_base::objects::{constants::FINALIZER, kinds::ServiceKind};
use skydock_kube::{
    events::{EventType, Recorder},
    informer::{Change, Informer},
};

use super::{CONTROLLER, Classes, plan};

/// Publishes an event on each such Service, whenever it changes.
pub fn follow(
    services: &Informer<ServiceKind>,
    classes: Classes,
    provider: Arc<dyn CloudProvider>,
    recorder: Recorder,
) {
    services.subscribe(move |change| {
        let (Change::Added(entry) | Change::Updated(_, entry)) = change else {
            return;
        };

        let info = provider.info();
        if info.can(Capability::LoadBalancers) || !plan::needs_cleanup(&entry.object, &classes) {
            return;
        }

        let message = format!(
            "Error deleting load balancer: provider {} does not serve load balancers with its configuration: enable them until it is deleted, \
             or, if there is none, remove the finalizer {FINALIZER}",
            info.name
        );

        let source = CONTROLLER.event_source;
        recorder.on(source, entry, EventType::Warning, reason::SYNC_LB_FAILED, message);
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use serde_json::json;
    use skydock_controller_base::{
        controller::context::metrics::SharedMetrics,
        testing::{FakeApi, FakeCloud, context, service, with},
    };
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_load_balancer_that_nobody_deletes_is_reported() {
        let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
        let metrics = SharedMetrics::register(&mut Registry::default());
        let recorder = context(&CONTROLLER, &api, cloud.clone(), &metrics).recorder;
        let services = Informer::default();
        follow(&services, Classes::default(), cloud.clone(), recorder);

        let leaving =
            json!({"finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        services.apply(with(&service("served"), &json!({"metadata": leaving})));
        *cloud.capabilities.lock().unwrap() = Some([Capability::Instances].into());
        for (name, metadata) in [
            ("used", json!({"finalizers": [FINALIZER]})),
            ("leaving", leaving.clone()),
            (
                "others",
                json!({"finalizers": ["x/y"], "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            ),
        ] {
            services.apply(with(&service(name), &json!({"metadata": metadata})));
        }
        sleep(Duration::from_millis(250)).await;

        let events = api.events();
        let names: Vec<_> = events
            .iter()
            .map(|event| event["involvedObject"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["leaving"], "{events:?}");
    }
}
