//! Tests of the elector on the embedded control plane.
#![allow(clippy::unwrap_used)] // helpers are not test functions for clippy

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, Client, Config, ResourceExt, api::PostParams};
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::json;
use skydock_devplane::{DevPlane, Fault, Options, Rule, Verb};
use skydock_kube::election::{
    Connect, ElectionConfig, ElectionMetrics, Elector, Failure, Leadership, LeaseAccess,
    LeaseAnnotation, Timings, TimingsError, lease_annotation,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// An annotation of the Lease.
const ANNOTATION: &str = "example.com/annotation";

fn short() -> Result<Timings, TimingsError> {
    Timings::new(
        Duration::from_secs(2),
        Duration::from_millis(1500),
        Duration::from_millis(500),
    )
}

struct Candidate {
    state: watch::Receiver<Leadership>,
    release: CancellationToken,
    task: JoinHandle<()>,
    unreleased: Arc<AtomicBool>,
    access: watch::Receiver<LeaseAccess>,
    annotation: LeaseAnnotation,
}

impl Candidate {
    fn stand(client: &Client, identity: &str) -> Self {
        let client = client.clone();
        Self::stand_with(Box::new(move || Ok(client.clone())), short(), identity)
    }

    fn stand_with(
        connect: Connect,
        timings: Result<Timings, TimingsError>,
        identity: &str,
    ) -> Self {
        let config = ElectionConfig {
            namespace: "kube-system".to_owned(),
            name: "cloud-controller-manager".to_owned(),
            timings: timings.unwrap(),
        };
        let (annotation, writer) = lease_annotation(ANNOTATION);
        let identity = identity.to_owned();
        let elector = Elector::new(
            connect,
            config,
            identity,
            ElectionMetrics::default(),
            writer,
        );
        let unreleased = elector.unreleased();
        let (sender, state) = watch::channel(Leadership::Standby);
        let release = CancellationToken::new();
        let token = release.clone();
        let (lease, access) = watch::channel(LeaseAccess::Unknown);
        let task = tokio::spawn(async move { elector.run(&sender, &lease, &token).await });
        Self {
            state,
            release,
            task,
            unreleased,
            access,
            annotation,
        }
    }

    async fn leads(&mut self) -> Duration {
        let start = Instant::now();
        let leading = self
            .state
            .wait_for(|state| matches!(state, Leadership::Leading(_)));
        let won = tokio::time::timeout(Duration::from_secs(10), leading)
            .await
            .is_ok_and(|state| state.is_ok());
        assert!(won, "it does not lead after 10 s");
        start.elapsed()
    }
}

async fn plane() -> (DevPlane, Client, Api<Lease>) {
    let plane = DevPlane::start(Options::default()).await.unwrap();
    let client = Client::try_from(Config::new(plane.url().parse().unwrap())).unwrap();
    let leases = Api::namespaced(client.clone(), "kube-system");
    (plane, client, leases)
}

#[tokio::test]
async fn a_released_lease_is_acquired_immediately() {
    let (_plane, client, leases) = plane().await;
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    let mut second = Candidate::stand(&client, "second");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(*second.state.borrow(), Leadership::Standby);
    assert_eq!(*second.access.borrow(), LeaseAccess::Granted);

    first.release.cancel();
    let took = second.leads().await;
    assert!(!second.unreleased.load(Ordering::SeqCst));
    assert!(
        took < Duration::from_millis(500),
        "the standby needed {took:?}: it did not act on the release"
    );
    first.task.await.unwrap();
    assert_eq!(*first.state.borrow(), Leadership::Released);
    let spec = leases
        .get("cloud-controller-manager")
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("second"), Some(1))
    );
}

#[tokio::test]
async fn an_annotation_is_confirmed_at_once_and_found_by_the_next_holder() {
    let (plane, client, leases) = plane().await;
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    assert_eq!(first.annotation.held().unwrap().text, None);

    let start = Instant::now();
    for text in ["a", "b"] {
        first.annotation.set(Some(text.to_owned())).await;
        let lease = leases.get("cloud-controller-manager").await.unwrap();
        assert_eq!(lease.annotations()[ANNOTATION], text);
    }
    let took = start.elapsed();
    assert!(took < Duration::from_millis(400), "{took:?}");

    // Others write their annotations; and an answer is lost.
    let mut lease = leases.get("cloud-controller-manager").await.unwrap();
    lease.annotations_mut().insert("other".into(), "x".into());
    leases
        .replace("cloud-controller-manager", &PostParams::default(), &lease)
        .await
        .unwrap();
    let lost = Rule::new(Fault::AnswerLost)
        .verbs(&[Verb::Update])
        .resource("leases")
        .times(1);
    plane.faults().set(lost, StdRng::seed_from_u64(0));
    first.annotation.set(Some("c".to_owned())).await;
    assert_eq!(plane.faults().met()["answer lost"], 1);
    let lease = leases.get("cloud-controller-manager").await.unwrap();
    let annotations = lease.annotations();
    assert_eq!(
        (&*annotations[ANNOTATION], &*annotations["other"]),
        ("c", "x")
    );

    first.release.cancel();
    let mut second = Candidate::stand(&client, "second");
    second.leads().await;
    let (before, held) = (lease, second.annotation.held().unwrap());
    assert_eq!(held.text.as_deref(), Some("c"));
    assert_eq!(Some(held.uid), before.metadata.uid);
    assert_eq!(
        (before.spec.unwrap().lease_transitions, held.transitions),
        (Some(0), 1)
    );

    // Whoever has lost the Lease waits forever.
    let late = first.annotation.set(None);
    let late = tokio::time::timeout(Duration::from_millis(500), late).await;
    assert!(late.is_err());
    assert_eq!(second.annotation.held().unwrap().text.as_deref(), Some("c"));
}

#[tokio::test]
async fn a_silent_leader_is_replaced_when_its_lease_expires() {
    let (_plane, client, _leases) = plane().await;
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    let mut second = Candidate::stand(&client, "second");
    tokio::time::sleep(Duration::from_millis(700)).await;
    first.task.abort();
    let took = second.leads().await;
    assert!(
        second.unreleased.load(Ordering::SeqCst),
        "what the first has sent may arrive yet"
    );
    assert!(
        !first.unreleased.load(Ordering::SeqCst),
        "there was none before it"
    );
    assert!(
        took > Duration::from_millis(1000) && took < Duration::from_millis(2600),
        "{took:?}"
    );
}

#[tokio::test]
async fn an_unreleased_lease_is_reported_even_after_a_lost_answer() {
    let (plane, client, _leases) = plane().await;
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    let mut second = Candidate::stand(&client, "second");
    tokio::time::sleep(Duration::from_millis(700)).await;
    first.task.abort();
    // Its requests have arrived by then.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let lost = Rule::new(Fault::AnswerLost)
        .verbs(&[Verb::Update])
        .resource("leases")
        .times(1);
    plane.faults().set(lost, StdRng::seed_from_u64(0));
    second.leads().await;
    assert_eq!(plane.faults().met()["answer lost"], 1);
    assert!(second.unreleased.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_lease_acquired_by_a_lost_answer_is_released() {
    let (plane, client, leases) = plane().await;
    plane.faults().set(
        Rule::new(Fault::AnswerLost)
            .resource("leases")
            .verbs(&Verb::WRITES),
        StdRng::seed_from_u64(0),
    );
    let first = Candidate::stand(&client, "first");
    let holder = async || {
        leases
            .get_opt("cloud-controller-manager")
            .await
            .unwrap()?
            .spec?
            .holder_identity
    };
    let begin = Instant::now();
    while holder().await.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    plane.faults().clear();
    first.release.cancel();
    first.task.await.unwrap();
    assert_eq!(
        holder().await.unwrap_or_default(),
        "",
        "nobody need wait for it"
    );
}

#[tokio::test]
async fn a_leader_that_loses_its_lease_to_another_stops() {
    let (_plane, client, leases) = plane().await;
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    let mut lease = leases.get("cloud-controller-manager").await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("thief".to_owned());
    leases
        .replace("cloud-controller-manager", &PostParams::default(), &lease)
        .await
        .unwrap();
    let lost = first
        .state
        .wait_for(|state| matches!(state, Leadership::Lost(_)));
    let lost = tokio::time::timeout(Duration::from_secs(3), lost)
        .await
        .expect("it notices")
        .unwrap()
        .clone();
    assert!(
        matches!(&lost, Leadership::Lost(why) if why.contains("another replica")),
        "{lost:?}"
    );
}

#[tokio::test]
async fn reads_a_lease_written_by_client_go() {
    let (_plane, client, leases) = plane().await;
    let written: Lease = serde_json::from_value(json!({
        "metadata": {"name": "cloud-controller-manager"},
        "spec": {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 7,
        },
    }))
    .unwrap();
    leases
        .create(&PostParams::default(), &written)
        .await
        .unwrap();
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    let spec = leases
        .get("cloud-controller-manager")
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        (spec.lease_transitions, spec.lease_duration_seconds),
        (Some(8), Some(2))
    );
    assert!(spec.acquire_time > written.spec.unwrap().acquire_time);
}

/// Each renewal has a time hours before or after the previous one.
#[tokio::test]
async fn clock_jumps_do_not_shorten_or_extend_a_lease() {
    let (_plane, client, leases) = plane().await;
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "cloud-controller-manager"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 2},
    }))
    .unwrap();
    let mut lease = leases.create(&PostParams::default(), &lease).await.unwrap();
    let mut first = Candidate::stand(&client, "first");
    for hours in [5, -5, 48, 0, -1, 2] {
        lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(
            Timestamp::now() + SignedDuration::from_hours(hours),
        ));
        lease = leases
            .replace("cloud-controller-manager", &PostParams::default(), &lease)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(*first.state.borrow(), Leadership::Standby, "{hours} hours");
    }
    let took = first.leads().await;
    assert!(
        took > Duration::from_secs(1) && took < Duration::from_millis(2600),
        "{took:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_paused_longer_than_its_lease_stops_leading() {
    const STILL: Duration = Duration::from_secs(4);
    let (plane, client, leases) = plane().await;
    // The first elector runs on a separate thread, which can be blocked with everything that runs
    // on it.
    let (url, (send, first)) = (plane.url(), tokio::sync::oneshot::channel());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
            let first = Candidate::stand(&client, "first");
            drop(send.send(first.state.clone()));
            tokio::task::yield_now().await;
            while stopped.recv_timeout(Duration::ZERO)
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            std::thread::sleep(STILL);
            tokio::time::sleep(Duration::from_secs(2)).await;
            first.state.borrow().clone()
        })
    });
    let mut first = first.await.unwrap();
    first
        .wait_for(|state| matches!(state, Leadership::Leading(_)))
        .await
        .unwrap();
    let mut second = Candidate::stand(&client, "second");
    stop.send(()).unwrap();
    let start = Instant::now();
    second.leads().await;
    assert!(start.elapsed() < STILL, "{:?}", start.elapsed());
    let lost = first.wait_for(|state| matches!(state, Leadership::Lost(_)));
    tokio::time::timeout(Duration::from_secs(6), lost)
        .await
        .expect("it notices")
        .unwrap();
    let took = start.elapsed();
    assert!(
        took > STILL && took < STILL + Duration::from_millis(500),
        "it noticed after {took:?}"
    );
    assert!(matches!(thread.join().unwrap(), Leadership::Lost(_)));
    let spec = leases
        .get("cloud-controller-manager")
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("second"), Some(1))
    );
    assert!(matches!(*second.state.borrow(), Leadership::Leading(_)));
}

/// Forwards connections. On notification, existing connections fall silent: they stay open, but no
/// data comes back.
async fn balancer(to: String) -> (String, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, silence) = (listener.local_addr().unwrap(), Arc::new(Notify::new()));
    let silent = Arc::clone(&silence);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (to, silent) = (to.clone(), Arc::clone(&silent));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    () = silent.notified() => std::future::pending().await,
                }
            });
        }
    });
    (format!("http://{address}"), silence)
}

// Holds: P-20
#[tokio::test]
async fn a_leader_survives_a_silent_connection() {
    let (plane, _client, _leases) = plane().await;
    let (url, silence) = balancer(
        plane
            .url()
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned(),
    )
    .await;
    let connect = move || Ok(Client::try_from(Config::new(url.parse().unwrap())).unwrap());
    let seconds = Duration::from_secs;
    let timings = Timings::new(seconds(8), seconds(5), Duration::from_millis(500));
    let mut first = Candidate::stand_with(Box::new(connect), timings, "first");
    first.leads().await;
    tokio::time::sleep(seconds(1)).await;
    silence.notify_waiters();
    let silent = Instant::now();
    let renewed = |state: &Leadership| match state {
        Leadership::Leading(at) => *at > silent + Duration::from_secs(1),
        _ => true,
    };
    let state = tokio::time::timeout(seconds(20), first.state.wait_for(renewed))
        .await
        .expect("it renews")
        .unwrap()
        .clone();
    assert!(matches!(state, Leadership::Leading(_)), "{state:?}");
}

#[tokio::test]
async fn a_standby_takes_over_despite_a_silent_connection() {
    let (plane, client, _leases) = plane().await;
    let mut first = Candidate::stand(&client, "first");
    first.leads().await;
    let (url, silence) = balancer(
        plane
            .url()
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned(),
    )
    .await;
    let connect = move || Ok(Client::try_from(Config::new(url.parse().unwrap())).unwrap());
    let mut second = Candidate::stand_with(Box::new(connect), short(), "second");
    tokio::time::sleep(Duration::from_millis(700)).await;
    silence.notify_waiters();
    first.task.abort();
    second.leads().await;
}

#[test]
fn a_failure_is_displayed_with_its_cause() {
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] std::num::ParseIntError);
    let failure = Failure::Api(kube::Error::Service(Box::new(Outer(
        "x".parse::<u8>().unwrap_err(),
    ))));
    assert_eq!(
        failure.to_string(),
        "ServiceError: client error (Connect): invalid digit found in string"
    );
}
