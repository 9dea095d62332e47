//! What is written about allowed requests, and rules in report-only mode.

use std::{sync::Arc, time::Duration};

use skydock_egress::{
    Audit, AuditConfig, Cause, EgressMetrics, Gateway, GatewayDependencies, Settings,
};

use crate::support::{Names, Plugin, Server, get, post, read, request, settings};

const RULES: &str = "
- { name: next, mode: report-only, to: 'http://api.example.com:PORT', methods: [GET], paths: [/v1] }
- { name: api, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], methods: [GET, POST] }
";

/// Returns the lines of the file when there are so many.
async fn lines(file: &std::path::Path, number: usize) -> Vec<serde_json::Value> {
    for _ in 0..500 {
        let text = std::fs::read_to_string(file).unwrap();
        if text.lines().count() >= number {
            return text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("fewer than {number} lines");
}

// Holds: SEC-38
#[tokio::test]
async fn each_allowed_request_leaves_a_line_without_secrets() {
    let server = Server::plain().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let config: AuditConfig =
        serde_saphyr::from_str(&format!("{{file: {}}}", file.display())).unwrap();
    let metrics = EgressMetrics::default();
    let dependencies = GatewayDependencies {
        resolver: Arc::new(Names::default().with("api.example.com", &[&["127.0.0.1"]])),
        audit: Arc::new(Some(Arc::new(Audit::start(&config, metrics.clone()).unwrap())).into()),
        metrics,
        ..GatewayDependencies::default()
    };
    let rules = Settings {
        digest: "sha256:12".to_owned(),
        ..settings(RULES, server.port(), None)
    };
    let plugin = Plugin::new(&rules);
    let gateway = Gateway::new("test", &rules, dependencies).unwrap();
    let sent = [
        get(&server, "/v1/x?marker=hidden"),
        post(&server, "/v2", "a secret in a body"),
        request("DELETE", &server, "/v1"),
    ];
    for request in sent {
        let (head, body) = request.into_parts();
        let Ok(admitted) = gateway.admit(&head, &plugin.call()) else {
            continue;
        };
        let body = http_body_util::Full::new(bytes::Bytes::from_static(body.as_bytes()));
        read(admitted.send(head, body).await.unwrap())
            .await
            .unwrap();
    }
    let found = lines(&file, 2).await;
    assert_eq!(found.len(), 2, "those that are denied leave none");
    let of = |number: usize, name: &str| found[number][name].clone();
    for (name, expected) in [
        ("plugin", "test"),
        ("digest", "sha256:12"),
        ("capability", "instances"),
        ("rule", "api"),
        ("method", "GET"),
        ("path", "/v1/x?marker"),
    ] {
        assert_eq!(of(0, name), expected);
    }
    assert_eq!(
        (of(0, "status"), of(0, "wouldDeny")),
        (200.into(), ().into())
    );
    assert_eq!(of(1, "wouldDeny")["rule"], "next");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        !text.contains("hidden") && !text.contains("secret"),
        "{text}"
    );
}

#[tokio::test]
async fn a_rule_in_report_only_mode_decides_nothing() {
    let server = Server::plain().await;
    let plugin = Plugin::new(&settings(RULES, server.port(), None));
    let reported = |reason: &str| {
        plugin.metric(&format!(
            "report_only_denials_total{{plugin=\"test\",rule=\"next\",reason=\"{reason}\"}}"
        ))
    };
    assert_eq!(plugin.fetch(get(&server, "/v1")).await.unwrap().0, 200);
    assert_eq!((reported("path"), reported("rule_method")), (0, 0));
    assert_eq!(plugin.fetch(get(&server, "/v2")).await.unwrap().0, 200);
    assert_eq!(plugin.fetch(post(&server, "/v1", "")).await.unwrap().0, 200);
    assert_eq!((reported("path"), reported("rule_method")), (1, 1));
    // It opens nothing, whatever it allows.
    let error = plugin
        .send(request("DELETE", &server, "/v1"))
        .await
        .unwrap_err();
    assert_eq!(error.cause(), Cause::RuleMethod);
    let only = RULES.lines().take(2).collect::<Vec<_>>().join("\n");
    let alone = Plugin::new(&settings(&only, server.port(), None));
    let error = alone.send(get(&server, "/v1")).await.unwrap_err();
    assert_eq!(error.cause(), Cause::NoRule);
}

#[tokio::test]
async fn a_rule_in_report_only_mode_considers_authentication_and_sizes() {
    let server = Server::plain().await;
    let rules = "
- { name: next, mode: report-only, to: 'http://api.example.com:PORT', limits: {requestBody: 10} }
- { name: api, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], guestAuth: allowed, queryParameters: [token] }
";
    let plugin = Plugin::new(&settings(rules, server.port(), None));
    let with = |path: &str, name: &'static str, value: &'static str| {
        let (mut head, _) = post(&server, path, "").into_parts();
        let body = if value == "11" {
            "0123456789a"
        } else {
            "0123456789"
        };
        head.headers.insert(name, value.parse().unwrap());
        http::Request::from_parts(head, body)
    };
    let reported = |reason: &str| {
        plugin.metric(&format!(
            "report_only_denials_total{{plugin=\"test\",rule=\"next\",reason=\"{reason}\"}}"
        ))
    };
    for (request, expected) in [
        (with("/", "accept", "*/*"), (0, 0)),
        (with("/", "authorization", "Bearer x"), (1, 0)),
        (with("/?token=x", "accept", "*/*"), (2, 0)),
        (with("/", "content-length", "10"), (2, 0)),
        (with("/", "content-length", "11"), (2, 1)),
    ] {
        let answer = plugin.fetch(request).await;
        let found = (reported("guest_auth"), reported("request_body"));
        assert_eq!(found, expected, "{answer:?}");
    }
}
