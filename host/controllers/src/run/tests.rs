use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::Capability;
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

use super::*;
use crate::testing::{FakeApi, FakeCloud, node, service, with};

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    generations: watch::Sender<u64>,
    cluster: oneshot::Receiver<Arc<dyn Cluster>>,
    shutdown: CancellationToken,
    registry: Registry,
    running: JoinHandle<Result<(), RunError>>,
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": items})
}

fn start(capabilities: &[Capability]) -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let plain = with(&node("n1"), &json!({"spec": {"taints": null, "providerID": "fake://n1"}}));
    api.answer("GET", "/api/v1/nodes", 200, list("NodeList", &[serde_json::to_value(plain).unwrap()]));
    api.answer("GET", "/api/v1/services", 200, list("ServiceList", &[serde_json::to_value(service("web")).unwrap()]));
    *cloud.capabilities.lock().unwrap() = Some(capabilities.iter().copied().collect());
    let (sender, receiver) = watch::channel(1);
    let (ready, cluster) = oneshot::channel();
    let shutdown = CancellationToken::new();
    let mut registry = Registry::default();
    let client = api.client();
    let running = tokio::spawn(run(Context {
        clients: Clients { informers: client.clone(), node: client.clone(), service: client.clone(), route: client },
        provider: cloud.clone(),
        generations: receiver,
        options: Options::default(),
        enabled: Controller::ALL.into(),
        metrics: Metrics::register(&mut registry),
        on_cluster: Box::new(move |view| drop(ready.send(view))),
        shutdown: shutdown.clone(),
    }));
    Bench { api, cloud, generations: sender, cluster, shutdown, registry, running }
}

impl Bench {
    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    fn runs(&self, name: &str) -> bool {
        let line = format!("running_managed_controllers{{name=\"{name}\",manager=\"cloud-controller-manager\"}} 1");
        self.metrics().contains(&line)
    }
}

#[tokio::test(start_paused = true)]
async fn c05_n01_n05_l01_a_controller_starts_when_its_capability_comes_with_a_later_generation() {
    let mut bench = start(&[Capability::Instances]);
    sleep(Duration::from_secs(1)).await;
    let cluster = bench.cluster.try_recv().unwrap();
    assert_eq!((cluster.nodes().len(), cluster.services().len()), (1, 1));
    assert!(bench.runs("cloud-node") && bench.runs("cloud-node-lifecycle") && !bench.runs("service"));
    assert!(!bench.cloud.calls().iter().any(|call| call.starts_with("ensure")));

    *bench.cloud.capabilities.lock().unwrap() = Some([Capability::Instances, Capability::LoadBalancers].into());
    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(bench.runs("service"));
    assert!(bench.cloud.calls().contains(&"ensure web n1".to_owned()));

    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
    assert!(text.contains("running_managed_controllers{name=\"service\",manager=\"cloud-controller-manager\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_has_all_services_ensured_again() {
    let bench = start(&[Capability::LoadBalancers]);
    sleep(Duration::from_secs(1)).await;
    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.cloud.calls(), ["ensure web n1", "ensure web n1"]);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_a_running_call_may_end_and_what_follows_is_written() {
    let bench = start(&[Capability::LoadBalancers]);
    bench.cloud.ensure_takes(Duration::from_secs(5));
    sleep(Duration::from_secs(1)).await;
    bench.shutdown.cancel();
    sleep(Duration::from_secs(3)).await;
    assert!(!bench.running.is_finished());
    bench.running.await.unwrap().unwrap();
    let requests = bench.api.requests();
    let posted = requests.iter().filter(|request| request.method == "POST");
    let reasons: Vec<_> = posted.map(|request| request.body["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
    assert_eq!(bench.api.calls().iter().filter(|call| call.starts_with("PATCH")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_is_dropped_after_the_grace() {
    let bench = start(&[Capability::LoadBalancers]);
    bench.cloud.ensure_takes(Duration::from_secs(3600));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.cloud.calls(), ["ensure web n1"]);
    bench.shutdown.cancel();
    sleep(Duration::from_secs(9)).await;
    assert!(!bench.running.is_finished());
    sleep(Duration::from_secs(2)).await;
    assert!(bench.running.is_finished());
    bench.running.await.unwrap().unwrap();
}
