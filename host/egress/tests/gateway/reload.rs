//! Changes of rules while requests are in progress.

use std::time::Duration;

use skydock_egress::{Cause, Code};

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
    let refusal = plugin.send(get(&server, "/")).await.unwrap_err();
    assert_eq!(refusal.code(), Code::DestinationIpProhibited, "{refusal}");
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
