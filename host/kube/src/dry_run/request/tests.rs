use super::*;

fn of(method: &Method, address: &str, body: &str) -> Result<Action, Unsupported> {
    action(method, &address.parse().unwrap(), body.as_bytes())
}

fn tried_at(address: &str) -> Action {
    Action::DryRunInQuery(address.parse().unwrap())
}

/// Covers all requests that Skydock sends to the API server.
#[test]
fn every_request_of_the_host_is_sent_as_a_dry_run() {
    for (method, address, expected) in [
        (
            Method::GET,
            "/api/v1/nodes?watch=true&resourceVersion=7",
            Action::Read,
        ),
        (Method::GET, "/api/v1/services?limit=100", Action::Read),
        (Method::GET, "/version", Action::Read),
        (
            Method::PATCH,
            "/api/v1/nodes/n1",
            tried_at("/api/v1/nodes/n1?dryRun=All"),
        ),
        (
            Method::PATCH,
            "/api/v1/nodes/n1/status",
            tried_at("/api/v1/nodes/n1/status?dryRun=All"),
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/ns/services/web?fieldManager=x",
            tried_at("/api/v1/namespaces/ns/services/web?fieldManager=x&dryRun=All"),
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/ns/services/web/status",
            tried_at("/api/v1/namespaces/ns/services/web/status?dryRun=All"),
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/ns",
            tried_at("/api/v1/namespaces/ns?dryRun=All"),
        ),
        (
            Method::GET,
            "/apis/certificates.k8s.io/v1/certificatesigningrequests?limit=100",
            Action::Read,
        ),
        (
            Method::PATCH,
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-1/approval",
            tried_at(
                "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-1/approval?dryRun=All",
            ),
        ),
        (
            Method::POST,
            "/api/v1/namespaces/default/events",
            Action::Event,
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/default/events/e1",
            Action::Event,
        ),
    ] {
        assert_eq!(
            of(&method, address, "{}"),
            Ok(expected),
            "{method} {address}"
        );
    }
}

#[test]
fn a_deletion_has_the_dry_run_option_in_its_body() {
    let dry = |body: &str| match of(&Method::DELETE, "/api/v1/nodes/n1?dryRun=All", body).unwrap() {
        Action::DryRunInBody(body) => serde_json::from_slice::<Value>(&body).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(dry(""), json!({"dryRun": ["All"]}));
    assert_eq!(dry("{}"), json!({"dryRun": ["All"]}));
    assert_eq!(dry(r#"{"dryRun":[]}"#), json!({"dryRun": ["All"]}));
    let preconditions =
        json!({"preconditions": {"uid": "1"}, "gracePeriodSeconds": 0, "dryRun": ["All"]});
    assert_eq!(
        dry(r#"{"preconditions":{"uid":"1"},"gracePeriodSeconds":0}"#),
        preconditions
    );
}

#[test]
fn requests_without_a_known_dry_run_form_are_rejected() {
    for (method, address, body) in [
        (Method::POST, "/api/v1/namespaces/ns/pods/p/eviction", "{}"),
        (Method::POST, "/api/v1/namespaces/ns/pods/p/binding", "{}"),
        (Method::POST, "/api/v1/namespaces/ns/bindings/p", "{}"),
        (
            Method::POST,
            "/api/v1/namespaces/kube-system/serviceaccounts/node-controller/token",
            "{}",
        ),
        (Method::POST, "/api/v1/nodes/n1/proxy/run/ns/p/c", "{}"),
        (Method::GET, "/api/v1/nodes/n1/proxy/exec/ns/p/c", ""),
        (Method::GET, "/api/v1/namespaces/ns/pods/p/exec", ""),
        (
            Method::PATCH,
            "/api/v1/namespaces/ns/services/web/proxy",
            "{}",
        ),
        (Method::PATCH, "/api/v1/nodes/n1/proxy/status", "{}"),
        (Method::PUT, "/api/v1/namespaces/ns/finalize", "{}"),
        (Method::PATCH, "/api/v1/nodes", "{}"),
        (Method::PUT, "/api/v1/nodes", "{}"),
        (Method::POST, "/logs/kube-apiserver.log", "{}"),
        (Method::DELETE, "/api/v1/nodes", "{}"),
        (Method::DELETE, "/api/v1/namespaces/ns/services", ""),
        (Method::DELETE, "/api/v1/nodes/n1/status", "{}"),
        (Method::DELETE, "/api/v1/nodes/n1", "k8s\0 protobuf"),
        (Method::DELETE, "/api/v1/nodes/n1", "[]"),
        (Method::CONNECT, "/api/v1/nodes/n1", ""),
        (Method::OPTIONS, "/api/v1/nodes/n1", ""),
    ] {
        let error = of(&method, address, body).unwrap_err().to_string();
        let start = format!("dry run: {method} {address} was not sent: ");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn an_object_with_events_in_its_path_is_not_an_event() {
    for path in [
        "/api/v1/nodes/events",
        "/api/v1/nodes/events-1/status",
        "/api/v1/namespaces/events/services/web",
        "/apis/example.com/v1/namespaces/ns/events/e",
        "/apis/coordination.k8s.io/v1/namespaces/events/leases/events",
    ] {
        assert_eq!(
            of(&Method::PATCH, path, "{}"),
            Ok(tried_at(&format!("{path}?dryRun=All")))
        );
    }
    assert_eq!(
        of(
            &Method::POST,
            "/apis/events.k8s.io/v1/namespaces/ns/events",
            "{}"
        ),
        Ok(Action::Event)
    );
    assert_eq!(
        of(&Method::POST, "/api/v1/namespaces/events/services", "{}"),
        Ok(tried_at("/api/v1/namespaces/events/services?dryRun=All"))
    );
    assert!(matches!(
        of(&Method::DELETE, "/api/v1/namespaces/ns/events/e", ""),
        Ok(Action::DryRunInBody(_))
    ));
}

#[test]
fn existing_dry_run_options_are_replaced() {
    for query in ["dryRun=", "dryRun=None&dryRun", "dryRun=All"] {
        let sent = of(
            &Method::PUT,
            &format!("/api/v1/nodes/n1?{query}&force=true"),
            "{}",
        );
        assert_eq!(
            sent,
            Ok(tried_at("/api/v1/nodes/n1?force=true&dryRun=All")),
            "{query}"
        );
    }
}
