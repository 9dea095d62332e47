//! Tests of `skydock_sdk::http` in a native build, against a local server.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::net::TcpListener;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use skydock_sdk::Result;
use skydock_sdk::http::{self, Method, Request, Response};
use skydock_sdk::types::CloudError;

use self::server::{Reply, Server};

mod intercept;
mod server;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the text of an `unavailable`.
fn unavailable<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Err(CloudError::Unavailable(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_arrives_as_specified() {
    let server = Server::start(|_| Reply::new(201, "X-One: 1\r\nx-TWO: a\r\nX-Two: b\r\n", "done"));
    let request = Request::post(format!("{}/v1/things?x=y", server.url))
        .query([("name", "a b&c")])
        .header("X-Mixed-Case", "Value")
        .text("text/xml", "<a/>");
    let response = http::send(request).unwrap();
    assert_eq!((response.status, response.text()), (201, Ok("done")));
    assert_eq!(
        (response.header("X-ONE"), response.header("x-two")),
        (Some("1"), Some("a"))
    );
    assert_eq!(
        response
            .headers
            .iter()
            .filter(|(name, _)| name == "x-two")
            .count(),
        2,
        "{response:?}"
    );
    let [received] = &server.received()[..] else {
        panic!("one request")
    };
    assert_eq!(received.line, "POST /v1/things?x=y&name=a%20b%26c");
    let header = |name: &str| received.headers.get(name).map(String::as_str);
    assert_eq!(
        (header("x-mixed-case"), header("content-type")),
        (Some("Value"), Some("text/xml"))
    );
    assert_eq!(
        (header("content-length"), received.body.as_slice()),
        (Some("4"), &b"<a/>"[..])
    );
    // A test does not see headers that a plugin's host would not send.
    for name in [
        "user-agent",
        "accept",
        "accept-encoding",
        "transfer-encoding",
    ] {
        assert_eq!(header(name), None, "{name}");
    }
}

#[test]
fn header_values_can_be_any_text() {
    let server = Server::start(|received| {
        Reply::new(
            200,
            &format!("X-Back: {}\r\n", received.headers["x-there"]),
            "",
        )
    });
    let response = http::send(Request::get(&server.url).header("X-There", "ünder \t $€")).unwrap();
    assert_eq!(response.header("x-back"), Some("ünder \t $€"));
}

#[test]
fn each_method_is_sent_with_and_without_a_body() {
    let server = Server::start(|_| Reply::ok(""));
    let methods = [
        (Method::Get, None),
        (Method::Head, None),
        (Method::Post, Some("0")),
        (Method::Put, Some("0")),
        (Method::Patch, Some("0")),
        (Method::Delete, None),
        (Method::Options, None),
    ];
    for (method, length) in methods {
        assert_eq!(
            http::send(Request::new(method, &server.url))
                .unwrap()
                .status,
            200,
            "{method}"
        );
        let received = server.received().pop().unwrap();
        assert_eq!(received.line, format!("{method} /"));
        assert_eq!(
            received.headers.get("content-length").map(String::as_str),
            length,
            "{method}"
        );
        if method != Method::Head {
            http::send(Request::new(method, &server.url).text("a/b", "body")).unwrap();
            assert_eq!(server.received().pop().unwrap().body, b"body", "{method}");
        }
    }
}

#[test]
fn values_round_trip_as_json() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Thing {
        name: String,
        size: Option<u8>,
    }
    let server = Server::start(|received| Reply::ok(std::str::from_utf8(&received.body).unwrap()));
    let thing = Thing {
        name: "ü\"\n".into(),
        size: None,
    };
    let response = http::send(Request::put(&server.url).json(&thing).unwrap()).unwrap();
    assert_eq!(response.json(), Ok(thing));
    assert_eq!(
        server.received()[0].headers["content-type"],
        "application/json"
    );
    let form =
        http::send(Request::post(&server.url).form([("Action", "Describe"), ("a", "é&")])).unwrap();
    assert_eq!(form.text(), Ok("Action=Describe&a=%C3%A9%26"));
}

#[test]
fn answers_are_in_the_order_of_the_requests() {
    // Earlier requests are answered later.
    let server = Server::start(|received| {
        let number: u64 = received.line.trim_start_matches("GET /").parse().unwrap();
        Reply::ok(&number.to_string()).after(ms(100 - 10 * number))
    });
    let requests = (0..10)
        .map(|number| Request::get(format!("{}/{number}", server.url)))
        .collect();
    let answers = http::send_all(requests, 10);
    let texts: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.unwrap().text().unwrap().to_owned())
        .collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn send_all_limits_concurrent_requests() {
    for (at_once, together) in [(3, 3), (1, 1), (0, 1)] {
        // No request is answered before this many have arrived.
        let all_there = Barrier::new(together);
        let server = Server::start(move |_| {
            all_there.wait();
            Reply::ok("").after(ms(30))
        });
        let requests = (0..12).map(|_| Request::get(&server.url)).collect();
        assert!(
            http::send_all(requests, at_once).iter().all(Result::is_ok),
            "{at_once} at once"
        );
        assert!(
            server.most() <= together,
            "{} at {at_once} at once",
            server.most()
        );
        assert_eq!(server.received().len(), 12);
    }
    assert_eq!(http::send_all(Vec::new(), 4), []);
}

#[test]
fn a_failed_request_does_not_affect_the_others() {
    let server = Server::start(|received| match received.line.as_str() {
        "GET /slow-down" => Reply::new(429, "Retry-After: 3\r\n", ""),
        "GET /cut" => Reply::raw(""),
        _ => Reply::ok("fine"),
    });
    let urls = ["/", "/slow-down", "/cut", "/", "nowhere"];
    let requests = urls.iter().map(|path| match *path {
        "nowhere" => Request::get("nowhere"),
        path => Request::get(format!("{}{path}", server.url)),
    });
    let answers: Vec<_> = http::send_all(requests.collect(), 1)
        .into_iter()
        .map(|answer| answer.and_then(Response::success))
        .collect();
    let throttled = CloudError::throttled(Duration::from_secs(3), "HTTP 429");
    let good = |answer: &Result<Response>| {
        answer
            .as_ref()
            .is_ok_and(|response| response.body == b"fine")
    };
    assert!(good(&answers[0]) && good(&answers[3]), "{answers:?}");
    assert_eq!(answers[1], Err(throttled));
    assert!(
        matches!(answers[2], Err(CloudError::Unavailable(_))),
        "{answers:?}"
    );
    assert!(
        matches!(answers[4], Err(CloudError::Internal(_))),
        "{answers:?}"
    );
}

#[test]
fn a_timeout_is_unavailable() {
    let slow_head = Server::start(|_| Reply::ok("").after(ms(2000)));
    let slow_body = Server::start(|_| {
        let reply = Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
        Reply {
            open: ms(2000),
            ..reply
        }
    });
    for server in [slow_head, slow_body] {
        let begin = Instant::now();
        let message = unavailable(http::send(
            Request::get(format!("{}/a?secret", server.url)).timeout(ms(200)),
        ));
        assert_eq!(
            message,
            format!("GET {}/a: no answer within 200ms", server.url)
        );
        assert!(
            begin.elapsed() >= ms(200) && begin.elapsed() < ms(1500),
            "{:?}",
            begin.elapsed()
        );
    }
    let server = Server::start(|_| Reply::ok(""));
    let message = unavailable(http::send(
        Request::get(&server.url).timeout(Duration::ZERO),
    ));
    assert!(
        message.contains("the deadline of the call has passed") && server.received().is_empty(),
        "{message}"
    );
}

#[test]
fn an_incomplete_or_invalid_answer_is_unavailable() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345";
    let cut_chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n";
    for bytes in [
        cut,
        cut_chunks,
        "",
        "HTTP/1.1 200",
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
    ] {
        let server = Server::start(move |_| Reply::raw(bytes));
        let message = unavailable(http::send(Request::get(&server.url)));
        assert!(
            message.starts_with(&format!("GET {}/: ", server.url)),
            "{bytes:?}: {message}"
        );
    }
}

#[test]
fn an_unreachable_cloud_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for url in [closed.as_str(), "http://no-such-host.invalid/"] {
        let message = unavailable(http::send(
            Request::get(url).timeout(Duration::from_secs(5)),
        ));
        assert!(message.starts_with(&format!("GET {url}: ")), "{message}");
    }
    let malformed = http::send(Request::get("http://[::1/"));
    assert!(
        matches!(malformed, Err(CloudError::Internal(_))),
        "{malformed:?}"
    );
    let message = unavailable(http::send(Request::get("https://cloud.example/")));
    assert!(message.contains("intercept"), "{message}");
}

#[test]
fn the_size_of_an_answer_is_limited() {
    let server = Server::start(|_| Reply::ok(&"x".repeat(1000)));
    let get = |bytes| http::send(Request::get(&server.url).at_most(bytes));
    assert_eq!(get(1000).map(|response| response.body.len()), Ok(1000));
    let rejection = format!(
        "GET {}/: the body of the answer exceeds the limit of 999 bytes",
        server.url
    );
    assert_eq!(get(999), Err(CloudError::internal(rejection)));
    let huge = Server::start(|_| Reply::ok(&"x".repeat((16 << 20) + 1)));
    assert!(matches!(
        http::send(Request::get(&huge.url)),
        Err(CloudError::Internal(_))
    ));
    let large = Server::start(|_| Reply::ok(&"x".repeat(16 << 20)));
    assert_eq!(
        http::send(Request::get(&large.url)).map(|response| response.body.len()),
        Ok(16 << 20)
    );
}

#[test]
fn a_large_body_is_sent_completely() {
    let server = Server::start(|received| Reply::ok(&received.body.len().to_string()));
    let body = "0123456789".repeat(300_000);
    let response = http::send(Request::post(&server.url).text("text/plain", body)).unwrap();
    assert_eq!(response.text(), Ok("3000000"));
}

#[test]
fn error_statuses_and_redirects_are_returned_as_answers() {
    let server = Server::start(|_| Reply::new(302, "Location: /elsewhere\r\n", ""));
    let response = http::send(Request::get(&server.url)).unwrap();
    assert_eq!(
        (response.status, response.header("location")),
        (302, Some("/elsewhere"))
    );
    assert!(matches!(response.success(), Err(CloudError::Internal(_))));
    assert_eq!(server.received().len(), 1);
    let server = Server::start(|_| Reply::new(404, "", r#"{"message": "no such server"}"#));
    let error = http::send(Request::get(&server.url)).and_then(Response::success);
    assert_eq!(
        error,
        Err(CloudError::not_found("HTTP 404: no such server"))
    );
}

#[test]
fn pages_are_read_until_the_last() {
    let server = Server::start(|received| match received.line.as_str() {
        "GET /things" => Reply::ok("a b|/things?page=2"),
        "GET /things?page=2" => Reply::ok("|/things?page=3"),
        "GET /things?page=3" => Reply::ok("c|"),
        "GET /loop" => Reply::ok("a|/loop"),
        "GET /round" => Reply::ok("a|/round?page=2"),
        "GET /round?page=2" => Reply::ok("b|/round"),
        "GET /broken" => Reply::ok("a|/gone"),
        _ => Reply::new(410, "", ""),
    });
    let list = |path: &str| {
        http::pages(Request::get(format!("{}{path}", server.url)), |response| {
            let (things, next) = response
                .text()?
                .split_once('|')
                .ok_or_else(|| CloudError::internal("no page"))?;
            let next = (!next.is_empty()).then(|| Request::get(format!("{}{next}", server.url)));
            Ok((
                things
                    .split_whitespace()
                    .map(ToOwned::to_owned)
                    .collect::<Vec<_>>(),
                next,
            ))
        })
    };
    assert_eq!(
        list("/things"),
        Ok(vec!["a".into(), "b".into(), "c".into()])
    );
    assert_eq!(server.received().len(), 3);
    assert_eq!(list("/broken"), Err(CloudError::not_found("HTTP 410")));
    for path in ["/loop", "/round"] {
        assert!(
            matches!(list(path), Err(CloudError::Internal(message)) if message.contains("leads to itself"))
        );
    }
}
