//! Changes of rules while requests are in progress.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Response;
use http_body_util::Full;
use skydock_egress::{Cause, Code, RequestError};

use crate::support::{Plugin, Server, get, rule, settings};

#[tokio::test]
async fn new_rules_apply_to_the_next_request() {
    let server = Server::plain().await;
    let with = |fields: &str| settings(&rule(fields), server.port(), None);
    let plugin = Plugin::new(&with(""));
    assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 200);
    plugin.gateway.update(&with("methods: [POST]")).unwrap();
    assert_eq!(
        plugin.send(get(&server, "/")).await.unwrap_err().cause(),
        Cause::RuleMethod
    );
    plugin.gateway.update(&settings("[]", 1, None)).unwrap();
    assert_eq!(
        plugin.send(get(&server, "/")).await.unwrap_err().cause(),
        Cause::NoRule
    );
}

#[tokio::test]
async fn invalid_rules_keep_the_previous_ones() {
    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "");
    let errors = plugin
        .gateway
        .update(&settings(&rule("paths: [x]"), server.port(), None))
        .unwrap_err();
    assert!(
        errors
            .to_string()
            .contains("egress rule `api`, field `paths`"),
        "{errors}"
    );
    assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_connection_is_dropped_if_rules_deny_its_address() {
    let server = Server::plain().await;
    let with = |fields: &str| settings(&rule(fields), server.port(), None);
    let plugin = Plugin::new(&with(""));
    plugin.fetch(get(&server, "/")).await.unwrap();
    // The change does not affect connections, so they are kept.
    plugin.gateway.update(&with("methods: [GET]")).unwrap();
    plugin.fetch(get(&server, "/")).await.unwrap();
    assert_eq!(server.connections(), 1);
    let closed = rule("").replace("127.0.0.1/32", "10.0.0.0/8");
    plugin
        .gateway
        .update(&settings(&closed, server.port(), None))
        .unwrap();
    let error = plugin.send(get(&server, "/")).await.unwrap_err();
    assert_eq!(error.code(), Code::DestinationIpProhibited, "{error}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_request_in_flight_keeps_its_rules() {
    let server = Server::script(
        &[(300, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")],
        false,
    )
    .await;
    let plugin = Plugin::to(&server, "");
    let (answer, ()) = tokio::join!(plugin.fetch(get(&server, "/")), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        plugin.gateway.update(&settings("[]", 1, None)).unwrap();
    });
    assert_eq!(answer.unwrap().1, "ok");
}

#[tokio::test]
async fn a_reload_does_not_reset_the_rate_limit() {
    let server = Server::plain().await;
    let with = |fields: &str| {
        settings(
            &rule(&format!("limits: {{rate: 5, burst: 2}}, {fields}")),
            server.port(),
            None,
        )
    };
    let plugin = Plugin::new(&with(""));
    let start = std::time::Instant::now();
    for number in 0..4 {
        plugin
            .gateway
            .update(&with(&format!("paths: [/{number}]")))
            .unwrap();
        plugin
            .fetch(get(&server, &format!("/{number}")))
            .await
            .unwrap();
    }
    assert!(
        start.elapsed() > Duration::from_millis(380),
        "{:?}",
        start.elapsed()
    );
}

/// Returns the result of a request that waits while the rules are replaced, and how many requests
/// the server has received.
async fn replaced_while_waiting(fields: &str, after: &str) -> (Result<u16, RequestError>, usize) {
    let received = Arc::<AtomicUsize>::default();
    let counted = received.clone();
    let server = Server::http(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Response::new(Full::default()) }
    })
    .await;
    let before = settings(&rule(fields), server.port(), None);
    let plugin = Plugin::new(&before);
    plugin.fetch(get(&server, "/")).await.unwrap();
    let (answer, ()) = tokio::join!(plugin.fetch(get(&server, "/")), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let after = after.replace("RULE", rule(fields).trim_matches(['[', ']']));
        plugin
            .gateway
            .update(&settings(&after, server.port(), None))
            .unwrap();
    });
    (
        answer.map(|(status, _)| status),
        received.load(Ordering::SeqCst),
    )
}

// Holds: SEC-31
#[tokio::test]
async fn a_waiting_request_is_decided_by_the_rules_in_force() {
    let slow = "limits: {rate: 2, burst: 1}";
    let other = "{name: b, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32]}";
    let allowed = [
        "[RULE]".to_owned(),
        format!("[{{name: c, to: 'https://c.example:443'}}, RULE, {other}]"),
    ];
    for after in allowed {
        let (answer, received) = replaced_while_waiting(slow, &after).await;
        assert_eq!((answer.unwrap(), received), (200, 2), "{after}");
    }
    let denied = [
        ("[]".to_owned(), Code::HttpRequestDenied),
        (rule("methods: [POST]"), Code::HttpRequestDenied),
        (rule("paths: [/other]"), Code::HttpRequestDenied),
        (format!("[{other}]"), Code::DestinationUnavailable),
        (rule("guestAuth: allowed"), Code::DestinationUnavailable),
    ];
    for (after, code) in denied {
        let (answer, received) = replaced_while_waiting(slow, &after).await;
        let error = answer.unwrap_err();
        assert_eq!(
            (error.code(), error.cause()),
            (code, Cause::RuleChanged),
            "{after}"
        );
        assert!(error.sentence().contains("`api`"), "{error}");
        assert_eq!(received, 1, "{after}");
    }
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_is_revoked() {
    let plugin = Plugin::new(&settings(
        "[{name: api, to: 'http://never.example.com:80', limits: {connect: 1m}}]",
        0,
        None,
    ));
    let request = http::Request::get("http://never.example.com/")
        .body("")
        .unwrap();
    let (answer, ()) = tokio::join!(plugin.fetch(request), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        plugin.gateway.update(&settings("[]", 1, None)).unwrap();
    });
    assert_eq!(answer.unwrap_err().cause(), Cause::RuleChanged);
}
