//! Attempts of a plugin to reach what it is not allowed to reach.

use std::time::Duration;

use http::Request;
use skydock_egress::{Call, Cause, ClusterAddresses, Code, PluginPhase, RequestError};

use crate::support::{LONG, Names, Plugin, Server, get, post, request, rule, settings};

/// Rules for all names and addresses in the table, so that each request is denied only for the
/// reason under test.
const WIDE: &str = "
- { name: api, to: 'http://api.example.com:PORT', addresses: [10.0.0.0/8], paths: [/v3/] }
- { name: any, to: 'http://*.example.com:PORT', addresses: [0.0.0.0/0, '::/0', 169.254.0.0/16] }
- { name: v4, to: 'http://127.0.0.1:PORT' }
- { name: near, to: 'http://10.0.0.1:PORT' }
- { name: v6, to: 'http://[::1]:PORT' }
- { name: mapped, to: 'http://[::ffff:127.0.0.1]:PORT' }
- { name: nat64, to: 'http://[64:ff9b::7f00:1]:PORT' }
- { name: idn, to: 'http://xn--bcher-kva.example:PORT', addresses: [10.0.0.0/8] }
- { name: local, to: 'http://localhost:PORT' }
";

fn names() -> Names {
    let metadata: &[&str] = &["169.254.169.254"];
    Names::default()
        .with("api.example.com", &[&["127.0.0.1"]])
        .with(
            "loopback.example.com",
            &[&["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]],
        )
        .with("metadata.example.com", &[metadata])
        .with("mapped.example.com", &[&["::ffff:169.254.169.254"]])
        .with("nat64.example.com", &[&["64:ff9b::a9fe:a9fe"]])
        .with("cluster.example.com", &[&["10.96.0.10"]])
        // Outside of the cluster's networks: the address of the API server itself is closed.
        .with("kube.example.com", &[&["10.20.0.1"]])
        .with("xn--bcher-kva.example", &[&["127.0.0.1"]])
        .with("localhost", &[&["127.0.0.1", "::1"]])
}

fn closed() -> ClusterAddresses {
    ClusterAddresses {
        api_server: vec!["10.20.0.1:443".parse().unwrap()],
        cluster: vec!["10.96.0.0/12".parse().unwrap()],
        own: vec!["127.0.0.1".parse().unwrap()],
        ..ClusterAddresses::default()
    }
}

// Holds: SEC-32
#[tokio::test]
async fn an_ambiguous_path_does_not_reach_a_later_rule() {
    let server = Server::plain().await;
    let rules = "
- { name: narrow, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], paths: [/v3/allowed, /Subscriptions/x], methods: [GET] }
- { name: wide, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32] }
";
    let plugin = Plugin::new(&settings(rules, server.port(), None));
    for path in [
        "/v3/%61llowed/x",
        "/v3/allowed;a=b/x",
        "/V3/allowed/x",
        "/v3/allowed%3b/x",
        "/v3/ALLOWED",
        "/v3/allowed%20",
        "/v3//allowed",
        "/v3/x/../allowed",
        "/v3%2fallowed",
        "/v3\\allowed",
        "/subscriptions/X/resourceGroups/g",
    ] {
        let error = plugin.send(get(&server, path)).await.unwrap_err();
        assert_eq!(error.cause(), Cause::Path, "{path}: {error}");
        assert_eq!(
            error.about().unwrap().rule.as_deref(),
            Some("narrow"),
            "{path}"
        );
    }
    assert_eq!(server.connections(), 0);
    // The first rule would not allow these, however they are spelled.
    for (method, path) in [
        ("GET", "/v3/allowed/X;y"),
        ("GET", "/v3/allowedly"),
        ("GET", "/v3/%61"),
        ("POST", "/V3/allowed"),
        (
            "GET",
            "/Subscriptions/x/resourceGroups/g/providers/Microsoft.Network/LoadBalancers/l",
        ),
        ("GET", "/compute/v1/projects/p/zones/z/instances/i"),
    ] {
        let answer = plugin.fetch(request(method, &server, path)).await;
        assert_eq!(answer.unwrap().0, 200, "{method} {path}");
    }
}

// Holds: SEC-17
#[tokio::test]
async fn disguised_targets_are_denied_without_a_connection() {
    let silent = Server::plain().await;
    let plugin = Plugin::with(&settings(WIDE, silent.port(), None), names(), closed());
    let ip = |cause| (Code::DestinationIpProhibited, cause);
    let uri = (Code::HttpRequestUriInvalid, Cause::Uri);
    let denied = |cause| (Code::HttpRequestDenied, cause);
    // `PORT` is the port of the silent listener.
    let table = [
        ("GET", "http://127.0.0.1:PORT/", "v4", ip(Cause::Address)),
        ("GET", "http://10.0.0.1:PORT/", "near", ip(Cause::Address)),
        ("GET", "http://[::1]:PORT/", "v6", ip(Cause::Address)),
        (
            "GET",
            "http://[::ffff:127.0.0.1]:PORT/",
            "mapped",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://[64:ff9b::7f00:1]:PORT/",
            "nat64",
            ip(Cause::Address),
        ),
        ("GET", "http://localhost:PORT/", "local", ip(Cause::Address)),
        (
            "GET",
            "http://xn--bcher-kva.example:PORT/",
            "idn",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://api.example.com:PORT/v3/",
            "api",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://API.EXAMPLE.COM:PORT/v3/",
            "api",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://api.example.com.:PORT/v3/",
            "api",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://loopback.example.com:PORT/",
            "any",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://metadata.example.com:PORT/",
            "any",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://mapped.example.com:PORT/",
            "any",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://nat64.example.com:PORT/",
            "any",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://cluster.example.com:PORT/",
            "any",
            ip(Cause::Address),
        ),
        (
            "GET",
            "http://kube.example.com:PORT/",
            "any",
            ip(Cause::Address),
        ),
        ("GET", "http://2130706433:PORT/", "", uri),
        ("GET", "http://0177.0.0.1:PORT/", "", uri),
        ("GET", "http://0x7f.0.0.1:PORT/", "", uri),
        ("GET", "http://0x7f000001:PORT/", "", uri),
        ("GET", "http://127.1:PORT/", "", uri),
        ("GET", "http://guest:word@api.example.com:PORT/v3/", "", uri),
        ("GET", "http://api.example.com@127.0.0.1:PORT/", "", uri),
        ("GET", "http://api.example.com:0/v3/", "", uri),
        ("GET", "http://api.example.com:99999/v3/", "", uri),
        ("GET", "http://api.example.com:/v3/", "", uri),
        ("GET", "/v3/", "", uri),
        ("GET", "ftp://api.example.com:PORT/v3/", "", uri),
        (
            "GET",
            "http://metadata.google.internal:PORT/",
            "",
            denied(Cause::Metadata),
        ),
        ("GET", "http://METADATA:PORT/", "", denied(Cause::Metadata)),
        (
            "GET",
            "http://169.254.169.254/latest/meta-data/",
            "",
            denied(Cause::NoRule),
        ),
        (
            "GET",
            "https://api.example.com:PORT/v3/",
            "",
            denied(Cause::NoRule),
        ),
        (
            "GET",
            "http://api.example.com/v3/",
            "",
            denied(Cause::NoRule),
        ),
        (
            "GET",
            "http://api.example.com.evil.example:PORT/v3/",
            "",
            denied(Cause::NoRule),
        ),
        (
            "GET",
            "http://api.example.com:PORT/v3/../admin",
            "api",
            denied(Cause::Path),
        ),
        (
            "GET",
            "http://api.example.com:PORT/v3/%2e%2e/admin",
            "api",
            denied(Cause::Path),
        ),
        (
            "GET",
            "http://api.example.com:PORT/v3//admin",
            "api",
            denied(Cause::Path),
        ),
        (
            "GET",
            "http://api.example.com:PORT/v3/..%2fadmin",
            "api",
            denied(Cause::Path),
        ),
        (
            "CONNECT",
            "api.example.com:PORT",
            "",
            (Code::HttpRequestMethodInvalid, Cause::Method),
        ),
        (
            "TRACE",
            "http://api.example.com:PORT/v3/",
            "",
            (Code::HttpRequestMethodInvalid, Cause::Method),
        ),
        (
            "PROPFIND",
            "http://api.example.com:PORT/v3/",
            "",
            (Code::HttpRequestMethodInvalid, Cause::Method),
        ),
    ];
    for (method, uri, rule, (code, cause)) in table {
        let uri = uri.replace("PORT", &silent.port().to_string());
        let before = plugin.denials(rule, cause.as_str());
        let Ok(request) = Request::builder().method(method).uri(&uri).body("") else {
            continue;
        };
        let error = plugin.send(request).await.expect_err(&uri);
        assert_eq!(
            (error.code(), error.cause()),
            (code, cause),
            "{uri}: {error}"
        );
        assert_eq!(
            plugin.denials(rule, cause.as_str()),
            before + 1,
            "{uri} is counted"
        );
    }
    assert_eq!(silent.connections(), 0);
}

// Holds: SEC-17
#[tokio::test]
async fn every_resolved_address_is_checked() {
    let silent = Server::plain().await;
    let names = Names::default().with(
        "api.example.com",
        &[&["192.0.2.1", "203.0.113.9"], &["127.0.0.1"]],
    );
    let plain = rule("limits: {connect: 300ms}").replace("addresses: [127.0.0.1/32], ", "");
    let plugin = Plugin::with(
        &settings(&plain, silent.port(), None),
        names,
        ClusterAddresses::default(),
    );
    for _ in 0..2 {
        let error = plugin.send(get(&silent, "/")).await.unwrap_err();
        assert_eq!(error.code(), Code::DestinationIpProhibited, "{error}");
    }
    assert_eq!(plugin.names.asked(), 2, "once for each connection");
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn only_allowed_addresses_of_a_name_are_tried() {
    let server = Server::plain().await;
    let names = Names::default().with(
        "api.example.com",
        &[&["169.254.169.254", "10.0.0.1", "127.0.0.1"]],
    );
    let plugin = Plugin::with(
        &settings(&rule(""), server.port(), None),
        names,
        ClusterAddresses::default(),
    );
    assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 200);
}

#[tokio::test]
async fn no_request_is_sent_before_a_plugin_is_in_service() {
    let silent = Server::plain().await;
    let plugin = Plugin::to(&silent, "");
    let call = Call {
        phase: PluginPhase::Loading,
        ..plugin.call()
    };
    let error = plugin.send_in(&call, get(&silent, "/")).await.unwrap_err();
    assert_eq!(
        (error.code(), error.cause()),
        (Code::InternalError, Cause::Loading)
    );
    assert_eq!(plugin.denials("", "loading"), 1);
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn headers_and_queries_that_mislead_servers_are_denied() {
    let silent = Server::plain().await;
    let plugin = Plugin::to(&silent, "");
    let table = [
        (("host", "169.254.169.254"), "header"),
        (("host", "api.example.com"), "header"),
        (("x-forwarded-host", "evil.example"), "header"),
        (("x-http-method-override", "DELETE"), "header"),
        (("content-length", "1, 2"), "header"),
        (("authorization", "Bearer x"), "guest_auth"),
        (("proxy-authorization", "Basic x"), "guest_auth"),
        (("cookie", "session=x"), "guest_auth"),
        (("x-auth-token", "x"), "guest_auth"),
        (("x-amz-security-token", "x"), "guest_auth"),
        (("x-api-key", "x"), "guest_auth"),
    ];
    for ((name, value), reason) in table {
        let mut request = get(&silent, "/");
        request.headers_mut().insert(name, value.parse().unwrap());
        let rule = if reason == "header" { "" } else { "api" };
        let before = plugin.denials(rule, reason);
        let error = plugin.send(request).await.unwrap_err();
        assert_eq!(error.code(), Code::HttpRequestDenied, "{name}");
        assert_eq!(plugin.denials(rule, reason), before + 1, "{name}");
        assert!(
            !error.sentence().contains("Bearer") && !error.sentence().contains("session="),
            "{error}"
        );
    }
    for query in [
        "?X-Amz-Signature=a",
        "?x%2Damz%2Dsecurity%2Dtoken=a",
        "?a=b&apiKey=c",
    ] {
        let error = plugin
            .send(get(&silent, &format!("/{query}")))
            .await
            .unwrap_err();
        assert_eq!(error.cause(), Cause::GuestAuth, "{query}");
    }
    for query in [
        "_method=DELETE",
        "a=b&%5Fmethod=DELETE",
        "a=b;_METHOD=DELETE",
        "_method",
    ] {
        let error = plugin
            .send(get(&silent, &format!("/?{query}")))
            .await
            .unwrap_err();
        assert!(
            error.sentence().contains("change the method"),
            "{query}: {error}"
        );
    }
    let mut flood = get(&silent, "/");
    for _ in 0..101 {
        flood.headers_mut().append("x-a", "b".parse().unwrap());
    }
    assert_eq!(
        plugin.send(flood).await.unwrap_err().code(),
        Code::HttpRequestHeaderSectionSize
    );
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn a_denial_names_the_rule_for_the_path() {
    let silent = Server::plain().await;
    let to = "to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], methods: [GET]";
    let rules = format!(
        "[{{name: identity, {to}, paths: [/identity]}}, {{name: compute, {to}, paths: [/compute], actions: [A]}}]"
    );
    let plugin = Plugin::new(&settings(&rules, silent.port(), None));
    for (method, path, rule) in [
        ("POST", "/identity/x", "identity"),
        ("POST", "/compute/x", "compute"),
        ("GET", "/compute/x", "compute"),
        ("GET", "/volume", "identity"),
        ("POST", "/volume", "identity"),
    ] {
        let error = plugin
            .send(request(method, &silent, path))
            .await
            .unwrap_err();
        assert!(
            error
                .sentence()
                .starts_with(&format!("rule `{rule}` allows")),
            "{method} {path}: {error}"
        );
    }
}

// Holds: SEC-03
#[tokio::test]
async fn requests_outside_the_rules_are_denied_with_the_reason() {
    let silent = Server::plain().await;
    let plugin = Plugin::to(
        &silent,
        "methods: [GET, POST], paths: [/v3], actions: [Describe*]",
    );
    let table = [
        (
            request("DELETE", &silent, "/v3/x"),
            Cause::RuleMethod,
            "method DELETE: add it to `methods`",
        ),
        (
            get(&silent, "/v30?Action=DescribeTags"),
            Cause::Path,
            "path /v30: add a prefix of it to `paths`",
        ),
        (
            get(&silent, "/v3?Action=Terminate"),
            Cause::Action,
            "the action Terminate: add it",
        ),
        (get(&silent, "/v3"), Cause::Action, "names no action"),
        (
            get(&silent, "/v3?Action=DescribeTags&Action=Terminate"),
            Cause::Action,
            "the action Terminate: add it",
        ),
        (
            post(&silent, "/v3", "Action=Terminate"),
            Cause::Action,
            "body",
        ),
        (
            post(&silent, "/v3?Action=DescribeTags", "Action=Terminate"),
            Cause::Action,
            "body",
        ),
        (post(&silent, "/v3", "Version=1"), Cause::Action, "body"),
        (
            post(&silent, "/v3", "Action=DescribeTags;Action=Terminate"),
            Cause::Action,
            "cannot determine",
        ),
    ];
    for (request, cause, what) in table {
        let shown = format!("{} {}", request.method(), request.uri());
        let error = plugin.send(request).await.expect_err(&shown);
        assert_eq!(
            (error.code(), error.cause()),
            (Code::HttpRequestDenied, cause),
            "{shown}: {error}"
        );
        assert!(error.sentence().contains(what), "{shown}: {error}");
        let about = error.about().unwrap();
        assert_eq!(
            (about.rule.as_deref(), Some(about.method.as_str())),
            (Some("api"), shown.split(' ').next())
        );
        assert_eq!(about.target.as_ref().unwrap().port, silent.port());
    }
    let long = format!("/v4/{}?secret=x", "a".repeat(1000));
    let error = plugin.send(get(&silent, &long)).await.unwrap_err();
    assert!(
        error.sentence().len() < 250 && !error.sentence().contains("secret"),
        "{error}"
    );
    let error = plugin
        .send(Request::put("http://other.example").body("").unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        error.sentence(),
        "no rule allows http://other.example:80: add one that allows PUT"
    );
    assert_eq!(error.about().unwrap().rule, None);
    for (request, end) in [
        (
            get(&silent, "/"),
            "not path /: adding it to `paths` would allow all paths",
        ),
        (
            get(&silent, "/v30"),
            "not path /v30: add a prefix of it to `paths`",
        ),
        (
            Request::get("http://169.254.169.254/").body("").unwrap(),
            "a metadata service, which is always denied",
        ),
        (
            Request::get("http://[::ffff:a9fe:a9fe]/").body("").unwrap(),
            "a metadata service, which is always denied",
        ),
    ] {
        let error = plugin.send(request).await.unwrap_err();
        assert!(error.sentence().ends_with(end), "{error}");
    }
    assert_eq!(silent.connections(), 0);
    let server = &silent;
    for request in [
        get(server, "/v3?Action=DescribeTags"),
        post(server, "/v3", "Version=1&Action=DescribeTags"),
    ] {
        assert_eq!(plugin.fetch(request).await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn a_dry_run_only_allows_reads() {
    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "reads: [Describe*]");
    let call = Call {
        dry_run: true,
        ..plugin.call()
    };
    let denied = [
        request("DELETE", &server, "/x"),
        request("PUT", &server, "/x"),
        request("DELETE", &server, "/x?Action=DescribeTags").map(|_| "Action=DescribeTags"),
        post(&server, "/", "{}"),
        post(&server, "/", "Action=Terminate"),
        post(&server, "/?Action=DescribeTags", "Action=Terminate"),
        get(&server, "/?Action=Terminate"),
        get(&server, "/?httpMethod=DELETE"),
        post(&server, "/", "Action=DescribeTags&httpMethod=DELETE"),
    ];
    for request in denied {
        let shown = format!("{} {} {}", request.method(), request.uri(), request.body());
        let error = plugin.send_in(&call, request).await.expect_err(&shown);
        assert_eq!(error.cause(), Cause::DryRun, "{shown}: {error}");
    }
    assert_eq!(server.connections(), 0);
    let permitted = [
        get(&server, "/x"),
        request("HEAD", &server, "/x"),
        post(&server, "/", "Action=DescribeTags"),
        get(&server, "/?Action=DescribeTags"),
    ];
    for request in permitted {
        let shown = format!("{} {} {}", request.method(), request.uri(), request.body());
        assert_eq!(
            plugin.send_in(&call, request).await.expect(&shown).status(),
            200,
            "{shown}"
        );
    }
}

// Holds: SEC-34
#[tokio::test]
async fn a_parameter_names_only_methods_that_the_rule_allows() {
    const DELETE: &str =
        "--x\r\nContent-Disposition: form-data; name=\"httpMethod\"\r\n\r\nDELETE\r\n--x--";
    const GET: &str =
        "--x\r\nContent-Disposition: form-data; name=\"httpMethod\"\r\n\r\nGET\r\n--x--";

    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "methods: [GET, POST]");
    let form = "application/x-www-form-urlencoded";
    let multipart = "multipart/form-data; boundary=x";

    for (path, kind, body, allowed) in [
        ("/?httpMethod=DELETE", form, "", false),
        ("/?httpMethod=GET", form, "", true),
        ("/", form, "httpMethod=POST&httpMethod=DELETE", false),
        ("/", form, "httpMethod=POST", true),
        ("/", multipart, DELETE, false),
        ("/", multipart, GET, true),
    ] {
        let mut request = post(&server, path, body);
        let kind = kind.parse().unwrap();
        request.headers_mut().insert("content-type", kind);

        let answer = plugin.send(request).await;
        let cause = answer.as_ref().err().map(RequestError::cause);
        let expected = (!allowed).then_some(Cause::RuleMethod);
        assert_eq!(cause, expected, "{path} {body}: {:?}", answer.err());
    }

    // A rule that allows all methods has nothing to protect.
    let free = Plugin::to(&server, "");
    let answer = free.send(get(&server, "/?httpMethod=DELETE")).await;
    assert_eq!(answer.unwrap().status(), 200);
}

#[tokio::test]
async fn ten_thousand_concurrent_requests_are_limited() {
    let server = Server::raw(|stream| async move {
        tokio::time::sleep(LONG).await;
        drop(stream);
    })
    .await;
    let plugin = Plugin::to(&server, "");
    let (mut held, mut denied) = (Vec::new(), 0);
    for _ in 0..10_000 {
        let (head, _) = get(&server, "/").into_parts();
        match plugin.gateway.admit(&head, &plugin.call()) {
            Ok(admitted) => held.push(tokio::spawn(
                admitted.send(head, http_body_util::Empty::<bytes::Bytes>::new()),
            )),
            Err(error) => {
                assert_eq!(error.code(), Code::ConnectionLimitReached);
                denied += 1;
            }
        }
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((held.len(), denied), (128, 10_000 - 128));
    assert_eq!(server.connections(), 8, "on their way at a time");
    assert_eq!(plugin.instance.in_flight(), 128);
    assert_eq!(plugin.denials("api", "limit"), denied);
    for task in held {
        task.abort();
        let _ = task.await;
    }
    assert_eq!(plugin.instance.in_flight(), 0);
    assert_eq!(plugin.metric("in_flight{plugin=\"test\",rule=\"api\"}"), 0);
}

#[tokio::test]
async fn disguised_actions_are_denied_in_a_dry_run() {
    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "reads: [Describe*]");
    let call = Call {
        dry_run: true,
        ..plugin.call()
    };
    let with = |mut request: Request<&'static str>, headers: &[(&'static str, &'static str)]| {
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        request
    };
    let wide: String = "<Envelope><Body><Terminate/></Body></Envelope>"
        .chars()
        .flat_map(|it| [it, '\0'])
        .collect();
    let wide: &'static str = wide.leak();
    let soap: &[_] = &[
        ("content-type", "text/xml"),
        ("soapaction", "urn:x#DescribeTags"),
    ];
    let json: &[_] = &[
        ("content-type", "application/json"),
        ("x-amz-target", "X.DescribeTags"),
        ("connection", "content-type, x-amz-target"),
    ];
    let all = [
        ("semicolon", get(&server, "/?Version=1;Action=Terminate")),
        (
            "semicolon in a form",
            post(
                &server,
                "/",
                "Version=1;Action=Terminate&Action=DescribeTags",
            ),
        ),
        ("operation", get(&server, "/?Operation=Terminate")),
        (
            "tencent",
            with(get(&server, "/"), &[("x-tc-action", "TerminateInstances")]),
        ),
        (
            "alibaba",
            with(get(&server, "/"), &[("x-acs-action", "DeleteInstance")]),
        ),
        (
            "underscore target",
            with(
                post(&server, "/", "Action=DescribeTags"),
                &[("x_amz_target", "X.Terminate")],
            ),
        ),
        (
            "underscore method",
            with(get(&server, "/x"), &[("x_http_method_override", "DELETE")]),
        ),
        ("utf-16", with(post(&server, "/", wide), soap)),
        (
            "connection",
            with(post(&server, "/", "Action=Terminate"), json),
        ),
    ];
    let mut passed = Vec::new();
    for (name, request) in all {
        if plugin.send_in(&call, request).await.is_ok() {
            passed.push(name);
        }
    }
    assert!(passed.is_empty(), "{passed:?}");
}

#[tokio::test]
async fn header_names_with_signs_that_are_like_dashes_are_denied() {
    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "methods: [GET]");
    let mut passed = Vec::new();
    for name in [
        "x_auth_token",
        "x_api_key",
        "x_amz_security_token",
        "x_http_method_override",
        "x_original_url",
        "x_rewrite_url",
        "x_forwarded_host",
        "x.auth.token",
        "x.forwarded.for",
        "x+rewrite+url",
        "x~original~url",
    ] {
        let mut request = get(&server, "/");
        request.headers_mut().insert(name, "x".parse().unwrap());
        if plugin.send(request).await.is_ok() {
            passed.push(name);
        }
    }
    assert!(passed.is_empty(), "{passed:?}");
}

// Holds: SEC-34
#[tokio::test]
async fn another_method_in_the_request_is_denied() {
    let server = Server::plain().await;
    let limited = Plugin::to(&server, "methods: [GET, POST]");
    let form = "application/x-www-form-urlencoded";
    for (path, kind, body) in [
        ("/?_HttpMethod=DELETE", form, ""),
        ("/?$httpMethod=DELETE", form, ""),
        ("/", form, "a=b&_method=DELETE"),
        ("/", "application/json", r#"{"_method": "DELETE"}"#),
        ("/", "text/plain", r#"{"_method": "DELETE"}"#),
        (
            "/",
            "application/x-www-form-urlencoded; a=json",
            "\"&_method=DELETE&\"",
        ),
        (
            "/",
            "multipart/form-data; boundary=x",
            "--x\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--x--\r\n",
        ),
    ] {
        let mut request = post(&server, path, body);
        let kind = kind.parse().unwrap();
        request.headers_mut().insert("content-type", kind);
        let error = limited.send(request).await.unwrap_err();
        assert_eq!(error.code(), Code::HttpRequestDenied, "{path} {body}");
        assert!(
            error.sentence().contains("could change the method"),
            "{error}"
        );
    }
    let mut request = get(&server, "/");
    request
        .headers_mut()
        .insert("x-method", "DELETE".parse().unwrap());
    assert_eq!(
        limited.send(request).await.unwrap_err().cause(),
        Cause::Header
    );
    assert_eq!(server.connections(), 0);
    // Without a limit, there is nothing to get around, so the body is not read first.
    let free = Plugin::to(&server, "");
    let mut request = post(&server, "/", "_method=DELETE");
    request
        .headers_mut()
        .insert("content-type", form.parse().unwrap());
    assert_eq!(free.fetch(request).await.unwrap().0, 200);
}
