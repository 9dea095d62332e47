//! Limits on the number and the rate of requests.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{future::join_all, stream};
use http::Response;
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use skydock_cloud::Capability;
use skydock_egress::{Call, ClusterAddresses, Code, InstanceRequests};

use crate::support::{Names, Plugin, Server, get, post, read, settings};

const MS: Duration = Duration::from_millis(1);

/// Starts a server that counts concurrent requests, and returns the counter of the maximum. It
/// answers this long after there were as many as expected, however busy the machine is.
async fn busy(took: Duration, expected: usize) -> (Server, Arc<AtomicUsize>) {
    let (now, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let peak = most.clone();
    let server = Server::http(move |_| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            while most.load(Ordering::SeqCst) < expected {
                tokio::time::sleep(MS).await;
            }
            tokio::time::sleep(took).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Response::new(Full::default())
        }
    })
    .await;
    (server, peak)
}

#[tokio::test]
async fn concurrent_requests_per_instance_and_host_are_limited() {
    for (instances, limit, expected) in [
        (1, "", 8),
        (4, "concurrency: 3, ", 3),
        (4, "", 32),
        (6, "", 36),
    ] {
        let (server, peak) = busy(MS * 30, expected).await;
        let plugin = Plugin::to(
            &server,
            &format!("limits: {{{limit}rate: 10000, burst: 10000}}"),
        );
        let instances: Vec<_> = (0..instances)
            .map(|_| InstanceRequests::default())
            .collect();
        let all = (0..60).map(|number| {
            let call = Call {
                instance: &instances[number % instances.len()],
                ..plugin.call()
            };
            let (plugin, server) = (&plugin, &server);
            async move { read(plugin.send_in(&call, get(server, "/")).await?).await }
        });
        for answer in join_all(all).await {
            assert_eq!(answer.unwrap().0, 200);
        }
        assert_eq!(
            peak.load(Ordering::SeqCst),
            expected,
            "{} instances, {limit}",
            instances.len()
        );
    }
}

#[tokio::test]
async fn idle_connections_make_room_for_other_hosts() {
    let server = Server::plain().await;
    let hosts: Vec<_> = (0..300)
        .map(|number| format!("h{number}.many.example"))
        .collect();
    let names = hosts.iter().fold(Names::default(), |names, host| {
        names.with(host, &[&["127.0.0.1"]])
    });
    let rule = "[{name: api, to: 'http://*.many.example:PORT', addresses: [127.0.0.1/32], limits: {rate: 10000, burst: 10000}}]";
    let plugin = Plugin::with(
        &settings(rule, server.port(), None),
        names,
        ClusterAddresses::default(),
    );
    for host in hosts {
        let uri = format!("http://{host}:{}/", server.port());
        let request = http::Request::get(uri).body("").unwrap();
        assert_eq!(plugin.fetch(request).await.unwrap().0, 200, "{host}");
    }
}

#[tokio::test]
async fn waiting_for_a_free_connection_ends_with_the_call() {
    let (server, _) = busy(MS * 2000, 1).await;
    let plugin = Plugin::to(&server, "limits: {concurrency: 1}");
    let call = Call {
        left: MS * 200,
        ..plugin.call()
    };
    let (first, second) = tokio::join!(
        tokio::time::timeout(MS * 500, plugin.send(get(&server, "/"))),
        async {
            tokio::time::sleep(MS * 50).await;
            plugin.send_in(&call, get(&server, "/")).await
        }
    );
    assert!(first.is_err());
    assert_eq!(second.unwrap_err().code(), Code::HttpResponseTimeout);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn requests_are_limited_to_the_rate() {
    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "limits: {rate: 10, burst: 5}");
    let start = Instant::now();
    let answers = join_all((0..10).map(|_| plugin.fetch(get(&server, "/")))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().0 == 200));
    let took = start.elapsed();
    assert!(took >= MS * 490, "{took:?}");
    assert!(plugin.metric("throttled_total{plugin=\"test\",rule=\"api\"}") > 0);
}

/// Starts a server that asks for a pause of as many seconds as the last segment of the path, if it
/// is a number.
async fn weary() -> Server {
    Server::http(|request| async move {
        let after = request
            .uri()
            .path()
            .rsplit('/')
            .next()
            .and_then(|last| last.parse::<u32>().ok());
        let mut response = Response::new(Full::<Bytes>::default());
        if let Some(after) = after {
            *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert("retry-after", after.into());
        }
        response
    })
    .await
}

#[tokio::test]
async fn retry_after_pauses_only_its_own_rule() {
    let server = weary().await;
    let rules = "
- { name: a, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], paths: [/a], limits: {pause: 2m} }
- { name: b, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32] }
";
    let plugin = Plugin::new(&settings(rules, server.port(), None));
    let retry_after = async |path| {
        plugin.send(get(&server, path)).await.unwrap().headers()["retry-after"].clone()
    };
    assert_eq!(retry_after("/a/3600").await, "3600");
    assert_eq!(
        retry_after("/a").await,
        "120",
        "the rule says how long at most"
    );
    assert_eq!(plugin.fetch(get(&server, "/b")).await.unwrap().0, 200);
    assert_eq!(retry_after("/b/3600").await, "3600");
    assert_eq!(retry_after("/b").await, "60", "a minute, if it does not");
}

#[tokio::test]
async fn retry_after_pauses_all_instances() {
    let server = weary().await;
    let plugin = Plugin::to(&server, "");
    let other = InstanceRequests::default();
    let call = Call {
        instance: &other,
        ..plugin.call()
    };
    assert_eq!(plugin.fetch(get(&server, "/1")).await.unwrap().0, 429);
    let start = Instant::now();
    assert_eq!(
        plugin
            .send_in(&call, get(&server, "/"))
            .await
            .unwrap()
            .status(),
        200
    );
    assert!(
        start.elapsed() > MS * 900,
        "a short pause is waited for: {:?}",
        start.elapsed()
    );
    assert_eq!(plugin.fetch(get(&server, "/60")).await.unwrap().0, 429);
    let start = Instant::now();
    let answer = plugin.send_in(&call, get(&server, "/")).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["retry-after"]),
        (429, &"60".parse().unwrap())
    );
    assert!(answer.headers().contains_key("x-skydock-paused"));
    assert!(start.elapsed() < MS * 500, "a long one is told at once");
}

#[tokio::test]
async fn a_path_that_hangs_does_not_delay_others() {
    let server = Server::http(|request| async move {
        if request.uri().path() == "/balancers" {
            tokio::time::sleep(MS * 60_000).await;
        }
        Response::new(Full::<Bytes>::default())
    })
    .await;
    // All limits have their defaults: 20 hanging requests, as many as concurrent Services, leave
    // capacity for nodes.
    let plugin = Plugin::to(&server, "");
    let balancers: Vec<_> = (0..20).map(|_| InstanceRequests::default()).collect();
    let nodes = InstanceRequests::default();
    let hanging = balancers.iter().map(|instance| {
        let call = Call {
            instance,
            ..plugin.call()
        };
        let (plugin, server) = (&plugin, &server);
        async move { plugin.send_in(&call, get(server, "/balancers")).await }
    });
    let asked = async {
        tokio::time::sleep(MS * 300).await;
        let call = Call {
            instance: &nodes,
            left: MS * 5000,
            ..plugin.call()
        };
        plugin.send_in(&call, get(&server, "/nodes")).await
    };
    tokio::select! {
        _ = join_all(hanging) => panic!("they hang"),
        answer = asked => assert_eq!(answer.unwrap().status(), 200),
    }
}

/// Starts a server that never answers below /balancers.
async fn hangs() -> Server {
    Server::http(|request| async move {
        if request.uri().path().starts_with("/balancers") {
            std::future::pending::<()>().await;
        }
        Response::new(Full::<Bytes>::default())
    })
    .await
}

// Holds: SEC-30
#[tokio::test]
async fn bodies_that_do_not_end_leave_nodes_their_share() {
    let server = hangs().await;
    // Forms are held, because they can have a parameter that replaces the method.
    let plugin = Plugin::to(&server, "methods: [GET, POST]");
    plugin.gateway.serves(&Capability::ALL.into());
    let form = |path: &str| {
        let mut request = post(&server, path, "a=b");
        let form = "application/x-www-form-urlencoded".parse().unwrap();
        request.headers_mut().insert("content-type", form);
        request
    };
    let balancers: Vec<_> = (0..8).map(|_| InstanceRequests::default()).collect();
    let hanging = (0..8 * 8).map(|number| {
        let call = Call {
            instance: &balancers[number % balancers.len()],
            capability: Capability::LoadBalancers,
            ..plugin.call()
        };
        let (head, _) = form("/balancers").into_parts();
        let plugin = &plugin;
        let endless = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        async move { plugin.send_body(&call, head, endless).await.map(drop) }
    });
    let asked = async {
        tokio::time::sleep(MS * 300).await;
        let call = Call {
            left: MS * 5000,
            ..plugin.call()
        };
        plugin.send_in(&call, form("/nodes")).await
    };
    tokio::select! {
        _ = join_all(hanging) => panic!("they hang"),
        answer = asked => assert_eq!(answer.unwrap().status(), 200),
    }
}

// Holds: SEC-30
#[tokio::test]
async fn hanging_load_balancers_leave_nodes_their_share() {
    let servers = [hangs().await, hangs().await, hangs().await];
    let rules: Vec<_> = servers
        .iter()
        .map(|server| {
            let port = server.port();
            format!("{{name: r{port}, to: 'http://api.example.com:{port}', addresses: [127.0.0.1/32], limits: {{concurrency: 64}}}}")
        })
        .collect();
    let plugin = Plugin::new(&settings(&format!("[{}]", rules.join(", ")), 0, None));
    plugin.gateway.serves(&Capability::ALL.into());

    // More requests than a plugin may have, to two hosts.
    let balancers: Vec<_> = (0..8).map(|_| InstanceRequests::default()).collect();
    let hanging = (0..8 * 128).map(|number| {
        let call = Call {
            instance: &balancers[number % balancers.len()],
            capability: Capability::LoadBalancers,
            ..plugin.call()
        };
        let (plugin, server) = (&plugin, &servers[number % 2]);
        // Those beyond the limit are denied at once.
        async move {
            if plugin
                .send_in(&call, get(server, "/balancers"))
                .await
                .is_err()
            {
                std::future::pending::<()>().await;
            }
        }
    });
    let asked = async {
        tokio::time::sleep(MS * 300).await;
        // A host of its own, and one that hangs for load balancers.
        for server in [&servers[2], &servers[0]] {
            for capability in [Capability::Instances, Capability::Zones, Capability::Routes] {
                let instance = InstanceRequests::default();
                let call = Call {
                    instance: &instance,
                    capability,
                    left: MS * 5000,
                    ..plugin.call()
                };
                let answers =
                    join_all((0..8).map(|_| plugin.send_in(&call, get(server, "/nodes")))).await;
                for answer in answers {
                    assert_eq!(answer.unwrap().status(), 200, "{capability}");
                }
            }
        }
    };
    tokio::select! {
        _ = join_all(hanging) => panic!("they hang"),
        () = asked => {}
    }
}

#[tokio::test]
async fn an_api_that_hangs_does_not_open_the_breaker_of_others() {
    let server = hangs().await;
    let plugin = Plugin::to(&server, "limits: {firstByte: 50ms}");
    plugin.gateway.serves(&Capability::ALL.into());
    let balancers = || Call {
        capability: Capability::LoadBalancers,
        ..plugin.call()
    };
    for _ in 0..5 {
        let error = plugin
            .send_in(&balancers(), get(&server, "/balancers"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::ConnectionReadTimeout);
    }
    let error = plugin
        .send_in(&balancers(), get(&server, "/balancers"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::ConnectionRefused, "its breaker is open");
    assert_eq!(plugin.metric("circuit_breakers_open{plugin=\"test\"}"), 1);
    assert_eq!(plugin.fetch(get(&server, "/nodes")).await.unwrap().0, 200);
}
