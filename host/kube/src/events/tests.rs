use super::*;
use crate::testing::{FakeApi, Request, Services, service};

fn recorder() -> (Recorder, EventWriter) {
    Recorder::new(str::to_owned, Counter::default())
}

// Holds: C-03, C-07
#[tokio::test(start_paused = true)]
async fn an_event_is_created_then_patched_and_flushed_at_shutdown() {
    let api = FakeApi::default();
    let (recorder, writer) = recorder();
    let entry = Entry::<Services>::new(service("web"));
    for _ in 0..3 {
        recorder.on(
            "service-controller",
            &entry,
            EventType::Warning,
            "SyncLoadBalancerFailed",
            "Error: boom",
        );
    }
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    writer.run(api.client(), shutdown).await;

    let requests = api.requests();
    let [created, second, third] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(
        (created.method.as_str(), created.path.as_str()),
        ("POST", "/api/v1/namespaces/ns/events")
    );
    assert_eq!(created.body["type"], "Warning");
    assert_eq!(created.body["source"]["component"], "service-controller");
    assert_eq!(created.body["involvedObject"]["apiVersion"], "v1");
    assert_eq!(created.body["involvedObject"]["kind"], "Service");
    assert_eq!(created.body["involvedObject"]["uid"], "uid-web");
    let name = created.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(second.path, format!("/api/v1/namespaces/ns/events/{name}"));
    assert_eq!(
        (&second.method, &second.body["count"], &third.body["count"]),
        (&"PATCH".to_owned(), &2.into(), &3.into())
    );
}

#[test]
fn warnings_are_kept_and_normal_events_are_not() {
    let (recorder, _writer) = recorder();
    let entry = Entry::<Services>::new(service("web"));
    let last = || recorder.last_warning("Service", "ns", "web");
    recorder.on("test", &entry, EventType::Normal, "Good", "fine");
    assert_eq!(last(), None);
    recorder
        .of_provider()
        .on("test", &entry, EventType::Warning, "Bad", "boom");
    recorder.on("test", &entry, EventType::Normal, "Good", "fine");
    let warning = last().unwrap();
    assert_eq!((&*warning.reason, &*warning.message), ("Bad", "boom"));
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_created_again() {
    let api = FakeApi::default();
    let (recorder, writer) = recorder();
    let notice = |message: &str| Notice {
        source: "cloud-controller-manager",
        object: ObjectReference {
            name: Some("lease".into()),
            namespace: Some("kube-system".into()),
            ..Default::default()
        },
        event_type: EventType::Normal,
        reason: "LeaderElection".into(),
        message: message.into(),
    };
    recorder.publish(notice("a became leader"));
    let running = tokio::spawn(writer.run(api.client(), CancellationToken::new()));
    sleep(Duration::from_secs(1)).await;
    let name = api.requests()[0].body["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    api.fail(
        "PATCH",
        &format!("/api/v1/namespaces/kube-system/events/{name}"),
        404,
        "NotFound",
    );
    recorder.publish(notice("a became leader"));
    drop(recorder);
    running.await.unwrap();
    let last = api.requests().pop().unwrap();

    assert_eq!(
        (last.method.as_str(), &last.body["count"]),
        ("POST", &2.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_events_and_never_waits() {
    let (recorder, _writer) = recorder();
    let entry = Entry::<Services>::new(service("web"));
    for _ in 0..16_384 + 3 {
        recorder.on(
            "service-controller",
            &entry,
            EventType::Normal,
            "EnsuringLoadBalancer",
            "Ensuring load balancer",
        );
    }
    assert_eq!(recorder.dropped.get(), 3);
    for _ in 0..16_384 + 2 {
        recorder.on(
            "service-controller",
            &entry,
            EventType::Warning,
            "SyncLoadBalancerFailed",
            "Error: boom",
        );
    }
    assert_eq!(recorder.dropped.get(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_does_not_block_the_shutdown() {
    let api = FakeApi::default();
    api.hang("POST", "/api/v1/namespaces/ns/events");
    let (recorder, writer) = recorder();
    recorder.on(
        "service-controller",
        &Entry::<Services>::new(service("web")),
        EventType::Normal,
        "Reason",
        "Message",
    );
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(writer.run(api.client(), shutdown.clone()));
    sleep(Duration::from_secs(1)).await;
    shutdown.cancel();
    let ended = tokio::time::timeout(FLUSH + Duration::from_secs(1), running).await;
    assert!(ended.is_ok(), "the writer still waits for an answer");
}

// Holds: SEC-62
#[tokio::test(start_paused = true)]
async fn a_provider_that_publishes_without_end_does_not_displace_other_events() {
    let api = FakeApi::default();
    let (recorder, writer) = recorder();
    let provider = recorder.of_provider();
    let tell = |recorder: &Recorder, source, name: &str, event_type| {
        let entry = Entry::<Services>::new(service(name));
        recorder.on(source, &entry, event_type, "Reason", "Message");
    };
    for number in 0..100_000 {
        let name = format!("s{number}");
        tell(&provider, "cloud-provider", &name, EventType::Warning);
    }
    assert_eq!(recorder.dropped.get(), 100_000 - OF_PROVIDER as u64);

    let running = tokio::spawn(writer.run(api.client(), CancellationToken::new()));
    sleep(Duration::from_secs(2)).await;
    let written = api.requests().len();
    assert!((115..=125).contains(&written), "{written} events");
    for event_type in [EventType::Warning, EventType::Normal] {
        tell(&recorder, "service-controller", "web", event_type);
    }
    sleep(Duration::from_millis(5)).await;
    let requests = api.requests();
    let own = requests
        .iter()
        .filter(|it| it.body["source"]["component"] == "service-controller");
    assert_eq!(own.count(), 2, "they do not wait");
    running.abort();
}

// Holds: C-07
#[tokio::test(start_paused = true)]
async fn normal_events_are_rate_limited_during_work_and_warnings_go_first() {
    let api = FakeApi::default();
    let (recorder, writer) = recorder();
    let ensured = |n: u32| {
        let entry = Entry::<Services>::new(service(&format!("s{n}")));
        recorder.on(
            "service-controller",
            &entry,
            EventType::Normal,
            "EnsuredLoadBalancer",
            "Ensured load balancer",
        );
    };
    for n in 0..1_000 {
        ensured(n);
    }
    let running = tokio::spawn(writer.run(api.client(), CancellationToken::new()));
    for n in 1_000..1_004 {
        sleep(Duration::from_millis(500)).await;
        ensured(n);
    }
    let written = api.requests().len();
    assert!(
        (115..=125).contains(&written),
        "100 at once and 10 a second: {written}"
    );

    let entry = Entry::<Services>::new(service("broken"));
    // Wait for the next normal event, which is written a tenth of a second later.
    while api.requests().len() == written {
        sleep(Duration::from_millis(1)).await;
    }
    recorder.on(
        "service-controller",
        &entry,
        EventType::Warning,
        "SyncLoadBalancerFailed",
        "Error: boom",
    );
    let object = ObjectReference {
        kind: Some("Lease".to_owned()),
        ..entry.reference()
    };
    let (reason, message) = (
        "PluginSwapped".to_owned(),
        "Plugin static: in service".to_owned(),
    );
    recorder.publish(Notice {
        source: "skydock",
        object,
        event_type: EventType::Normal,
        reason,
        message,
    });
    sleep(Duration::from_millis(2)).await;
    let requests = api.requests();
    assert!(
        requests
            .iter()
            .any(|request| request.body["type"] == "Warning"),
        "the warning does not wait"
    );

    let is_swap = |request: &&Request| request.body["reason"] == "PluginSwapped";
    assert_eq!(
        requests.iter().filter(is_swap).count(),
        1,
        "an event about this process does not wait"
    );

    sleep(QUIET + Duration::from_millis(100)).await;
    assert_eq!(
        api.requests().len(),
        1_006,
        "the rest follows when the work is done"
    );
    running.abort();
}
