//! What a client sees of a cloud that behaves like real ones.
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skydock_simcloud::{Options, Simcloud};

use crate::client::{call, get, send, tagged, web};

fn start(servers: u32) -> Simcloud {
    Simcloud::start(Options {
        servers,
        ..Options::default()
    })
    .unwrap()
}

fn hook(cloud: &Simcloud, method: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = cloud.request(method, path, body);
    assert!(
        (200..300).contains(&status),
        "{method} {path}: {status} {answer}"
    );
    answer
}

fn names(page: &Value) -> Vec<&str> {
    page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_client_needs_the_token() {
    let cloud = start(0);
    let status = |headers: &[(&str, &str)]| {
        let response = send(&cloud.url(), "GET", "/v1/servers", headers, &Value::Null).unwrap();
        (
            response.status,
            response.body["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    assert_eq!(status(&[]), (401, "unauthorized".to_owned()));
    assert_eq!(
        status(&[("authorization", "Basic simcloud")]),
        (401, "unauthorized".to_owned())
    );
    assert_eq!(
        status(&[("authorization", "Bearer other")]),
        (403, "forbidden".to_owned())
    );
    assert_eq!(status(&[("authorization", "Bearer simcloud")]).0, 200);
    let log = hook(&cloud, "GET", "/_sim/calls", &Value::Null).to_string();
    assert!(!log.contains("other"), "{log}");
}

#[test]
fn a_list_is_complete_while_servers_come_and_go() {
    let cloud = start(5);
    let first = get(&cloud, "/v1/servers?limit=2").body;
    assert_eq!(names(&first), ["node-1", "node-2"]);
    hook(&cloud, "DELETE", "/_sim/servers/srv-2", &Value::Null);
    hook(&cloud, "POST", "/_sim/servers", &json!({"name": "late"}));
    let next = |page: &Value| {
        get(
            &cloud,
            &format!(
                "/v1/servers?limit=2&page_token={}",
                page["next"].as_str().unwrap()
            ),
        )
        .body
    };
    let second = next(&first);
    let third = next(&second);
    assert_eq!(names(&second), ["node-3", "node-4"]);
    assert_eq!(
        (names(&third), &third["next"]),
        (vec!["node-5", "late"], &Value::Null)
    );
}

#[test]
fn an_unchanged_object_is_not_sent_again() {
    let cloud = start(1);
    for path in ["/v1/servers", "/v1/servers/srv-1", "/v1/zones"] {
        let etag = get(&cloud, path).etag.unwrap();
        let again = tagged(
            &cloud,
            "GET",
            path,
            Some(("if-none-match", &etag)),
            &Value::Null,
        );
        assert_eq!(
            (again.status, again.body, again.etag),
            (304, Value::Null, Some(etag)),
            "{path}"
        );
    }
    let etag = get(&cloud, "/v1/servers").etag.unwrap();
    hook(
        &cloud,
        "PATCH",
        "/_sim/servers/srv-1",
        &json!({"state": "stopped"}),
    );
    let changed = tagged(
        &cloud,
        "GET",
        "/v1/servers",
        Some(("if-none-match", &etag)),
        &Value::Null,
    );
    assert_eq!(
        (changed.status, &changed.body["items"][0]["state"]),
        (200, &json!("stopped"))
    );
}

#[test]
fn a_write_with_an_old_tag_changes_nothing() {
    let cloud = start(1);
    let old = call(&cloud, "POST", "/v1/load-balancers", &web())
        .etag
        .unwrap();
    let (path, change) = ("/v1/load-balancers/lb-1", json!({"targets": []}));
    let changed = tagged(&cloud, "PATCH", path, Some(("if-match", &old)), &change);
    assert_eq!(changed.status, 200);
    for (method, body) in [
        ("PATCH", &json!({"targets": ["srv-1"]})),
        ("DELETE", &Value::Null),
    ] {
        let rejected = tagged(&cloud, method, path, Some(("if-match", &old)), body);
        assert_eq!(
            (rejected.status, &rejected.body["code"]),
            (412, &json!("precondition_failed")),
            "{method}"
        );
    }
    assert_eq!(get(&cloud, path).body, changed.body);
    let current = changed.etag.unwrap();
    assert_eq!(
        tagged(
            &cloud,
            "DELETE",
            path,
            Some(("if-match", &current)),
            &Value::Null
        )
        .status,
        204
    );
}

#[test]
fn a_list_lags_and_a_read_does_not() {
    let cloud = start(1);
    hook(
        &cloud,
        "PATCH",
        "/_sim/settings",
        &json!({"lag_ms": 60_000}),
    );
    hook(&cloud, "POST", "/_sim/advance", &json!({"ms": 100_000}));
    call(&cloud, "POST", "/v1/load-balancers", &web());
    let listed =
        |query: &str| names(&get(&cloud, &format!("/v1/load-balancers{query}")).body).len();
    assert_eq!((listed(""), listed("?name=web")), (0, 1));
    assert_eq!(get(&cloud, "/v1/load-balancers/lb-1").status, 200);
    hook(&cloud, "POST", "/_sim/advance", &json!({"ms": 60_000}));
    assert_eq!(
        call(&cloud, "DELETE", "/v1/load-balancers/lb-1", &Value::Null).status,
        204
    );
    assert_eq!((listed(""), listed("?name=web")), (1, 0));
    hook(&cloud, "POST", "/_sim/advance", &json!({"ms": 60_000}));
    assert_eq!(listed(""), 0);
}

#[test]
fn too_many_requests_are_told_when_to_return() {
    let cloud = start(0);
    hook(
        &cloud,
        "PATCH",
        "/_sim/settings",
        &json!({"rate_limit": {"per_second": 1, "burst": 3}}),
    );
    let answers: Vec<_> = (0..10).map(|_| get(&cloud, "/v1/zones")).collect();
    assert!(answers.iter().take(3).all(|answer| answer.status == 200));
    let last = answers.last().unwrap();
    assert_eq!((last.status, last.retry_after.as_deref()), (429, Some("1")));
    hook(&cloud, "POST", "/_sim/advance", &json!({"ms": 1000}));
    assert_eq!(get(&cloud, "/v1/zones").status, 200);
    hook(
        &cloud,
        "PATCH",
        "/_sim/settings",
        &json!({"rate_limit": null}),
    );
    assert!((0..10).all(|_| get(&cloud, "/v1/zones").status == 200));
}

#[test]
fn a_lost_answer_is_found_by_its_name() {
    let cloud = start(1);
    let token = format!("Bearer {}", cloud.token());
    let create = || {
        send(
            &cloud.url(),
            "POST",
            "/v1/load-balancers",
            &[("authorization", &token)],
            &web(),
        )
    };
    hook(
        &cloud,
        "POST",
        "/_sim/failures",
        &json!({"operation": "load-balancers.create"}),
    );
    hook(
        &cloud,
        "POST",
        "/_sim/failures",
        &json!({"operation": "load-balancers.create", "after": true}),
    );
    assert!(create().is_err(), "the request is lost");
    assert_eq!(
        get(&cloud, "/v1/load-balancers?name=web").body["items"],
        json!([])
    );
    assert!(create().is_err(), "the answer is lost");
    let again = create().unwrap();
    assert_eq!(
        (again.status, &again.body["code"], &again.body["id"]),
        (409, &json!("exists"), &json!("lb-1"))
    );
    let log = hook(&cloud, "GET", "/_sim/calls", &Value::Null);
    let shown: Vec<_> = log["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["status"], &it["injected"]))
        .collect();
    let (lost, yes, no) = (json!(null), json!(true), json!(false));
    assert_eq!(
        shown,
        [
            (&lost, &yes),
            (&json!(200), &no),
            (&lost, &yes),
            (&json!(409), &no)
        ]
    );
}

#[test]
fn an_injected_status_has_a_retry_after() {
    let cloud = start(0);
    let failure =
        json!({"operation": "zones.list", "status": 503, "retry_after": 7, "skip": 1, "count": 2});
    hook(&cloud, "POST", "/_sim/failures", &failure);
    let answers: Vec<_> = (0..4).map(|_| get(&cloud, "/v1/zones")).collect();
    let shown: Vec<_> = answers
        .iter()
        .map(|it| (it.status, it.retry_after.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [(200, None), (503, Some("7")), (503, Some("7")), (200, None)]
    );
}

#[test]
fn latency_delays_the_answer() {
    let cloud = start(0);
    hook(
        &cloud,
        "PATCH",
        "/_sim/settings",
        &json!({"latency_ms": 60}),
    );
    let started = Instant::now();
    get(&cloud, "/v1/zones");
    assert!(started.elapsed() >= Duration::from_millis(60));
}

#[test]
fn a_stopped_cloud_frees_its_port() {
    let cloud = start(0);
    let url = cloud.url();
    let listen = url.strip_prefix("http://").unwrap().parse().unwrap();
    drop(cloud);
    assert!(send(&url, "GET", "/v1/zones", &[], &Value::Null).is_err());
    Simcloud::start(Options {
        listen,
        ..Options::default()
    })
    .unwrap();
}
