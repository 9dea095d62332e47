//! Effects of servers on plugins, and of plugins on servers.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use skydock_egress::{Call, Code, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{LONG, Plugin, Server, get, post, read, request};

const MS: Duration = Duration::from_millis(1);
const NOW: u64 = 0;

#[tokio::test]
async fn requests_and_answers_are_passed_on_completely() {
    let server = Server::http(|request| async move {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let host = head.headers["host"].to_str().unwrap();
        let names: Vec<_> = head
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .filter(|it| *it != "host")
            .collect();
        let text = format!(
            "{} {} {} {names:?} {}",
            head.method,
            head.uri,
            host.split(':').next().unwrap(),
            body.len()
        );
        let mut response = Response::new(Full::from(text));
        response
            .headers_mut()
            .insert("x-kept", "1".parse().unwrap());
        response
            .headers_mut()
            .insert("connection", "x-dropped".parse().unwrap());
        response
            .headers_mut()
            .insert("x-dropped", "1".parse().unwrap());
        response
    })
    .await;
    let plugin = Plugin::to(&server, "");
    let mut sent = post(&server, "/v1/x?a=b&c", "hello");
    for (name, value) in [
        ("te", "trailers"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("accept", "text/plain"),
    ] {
        sent.headers_mut().insert(name, value.parse().unwrap());
    }
    let response = plugin.send(sent).await.unwrap();
    assert!(
        response.headers().contains_key("x-kept") && !response.headers().contains_key("x-dropped")
    );
    let (status, body) = read(response).await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "POST /v1/x?a=b&c api.example.com [\"accept\", \"content-length\"] 5"
    );
    let counted = "requests_total{plugin=\"test\",rule=\"api\",method=\"POST\",code=\"2xx\"}";
    assert_eq!(plugin.metric(counted), 1);
    assert_eq!(
        plugin.metric("sent_bytes_total{plugin=\"test\",rule=\"api\"}"),
        5
    );
    assert_eq!(
        plugin.metric("received_bytes_total{plugin=\"test\",rule=\"api\"}"),
        body.len() as u64
    );
    assert_eq!(
        plugin.metric("request_duration_seconds_count{plugin=\"test\",rule=\"api\",action=\"\",method=\"POST\",code=\"2xx\"}"),
        1
    );
}

#[tokio::test]
async fn durations_are_measured_by_action() {
    let server = Server::plain().await;
    // Actions are known whether or not they decide.
    for fields in ["actions: [Describe*]", ""] {
        let plugin = Plugin::to(&server, fields);
        let request = get(&server, "/?Action=DescribeThings");
        plugin.fetch(request).await.unwrap();
        let counted = "request_duration_seconds_count{plugin=\"test\",rule=\"api\",action=\"DescribeThings\",method=\"GET\",code=\"2xx\"}";
        assert_eq!(plugin.metric(counted), 1, "{fields}");
    }
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::plain().await;
    let plugin = Plugin::to(&server, "");
    for _ in 0..10 {
        plugin.fetch(get(&server, "/")).await.unwrap();
    }
    assert_eq!((server.connections(), plugin.names.asked()), (1, 1));
}

// Holds: SEC-17
#[tokio::test]
async fn redirects_are_not_followed() {
    let silent = Server::plain().await;
    let port = silent.port();
    let server = Server::http(move |_| async move {
        let location = format!("http://127.0.0.1:{port}/latest/meta-data/");
        Response::builder()
            .status(302)
            .header("location", location)
            .body(Full::default())
            .unwrap()
    })
    .await;
    let plugin = Plugin::to(&server, "");
    assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 302);
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn a_misbehaving_server_causes_a_timely_error_code() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    type Pieces = &'static [(u64, &'static str)];
    let table: [(&str, Pieces, bool, Code); 10] = [
        ("says nothing", &[], false, Code::ConnectionReadTimeout),
        (
            "begins a head",
            &[(NOW, "HTTP/1.1 200 OK\r\nx: ")],
            false,
            Code::ConnectionReadTimeout,
        ),
        (
            "drips a head",
            &[
                (150, "HTTP/1.1 200 OK\r\n"),
                (150, "a: b\r\n"),
                (150, "c: d\r\n\r\n"),
            ],
            false,
            Code::ConnectionReadTimeout,
        ),
        (
            "begins a body",
            &[(NOW, HEAD), (NOW, "x")],
            false,
            Code::ConnectionReadTimeout,
        ),
        (
            "ends in a body",
            &[(NOW, HEAD), (NOW, "x")],
            true,
            Code::HttpResponseIncomplete,
        ),
        ("closes", &[], true, Code::HttpResponseIncomplete),
        (
            "speaks no HTTP",
            &[(NOW, "SSH-2.0-OpenSSH\r\n\r\n")],
            true,
            Code::HttpProtocolError,
        ),
        (
            "switches",
            &[(
                NOW,
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            )],
            false,
            Code::HttpProtocolError,
        ),
        (
            "says too much",
            &[
                (NOW, "HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n"),
                (NOW, BIG),
            ],
            false,
            Code::HttpResponseBodySize,
        ),
        (
            "says too much in chunks",
            &[
                (
                    NOW,
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n",
                ),
                (NOW, BIG),
            ],
            false,
            Code::HttpResponseBodySize,
        ),
    ];
    for (what, pieces, close, code) in table {
        let server = Server::script(pieces, close).await;
        let plugin = Plugin::to(
            &server,
            "limits: {firstByte: 300ms, betweenBytes: 300ms, responseBody: 1KiB}",
        );
        let start = Instant::now();
        let error = plugin.fetch(get(&server, "/")).await.expect_err(what);
        assert_eq!(error.code(), code, "{what}: {error}");
        assert!(
            start.elapsed() < MS * 2000,
            "{what} took {:?}",
            start.elapsed()
        );
        let failed = plugin
            .metric("requests_total{plugin=\"test\",rule=\"api\",method=\"GET\",code=\"failed\"}");
        assert_eq!(failed, 1, "{what}");
        assert_eq!(plugin.instance.in_flight(), 0, "{what}");
    }
}

/// 2000 bytes.
const BIG: &str = {
    const BYTES: [u8; 2000] = [b'x'; 2000];
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => panic!(),
    }
};

#[tokio::test]
async fn too_many_or_too_long_response_headers_are_an_error() {
    for (count, length) in [(200, 10), (20, 8000)] {
        let server = Server::raw(move |mut stream| async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
            for number in 0..count {
                let line = format!("x-{number}: {}\r\n", "x".repeat(length));
                let _ = stream.write_all(line.as_bytes()).await;
            }
            let _ = stream.write_all(b"\r\n").await;
        })
        .await;
        let error = Plugin::to(&server, "")
            .send(get(&server, "/"))
            .await
            .unwrap_err();
        assert_eq!(
            error.code(),
            Code::HttpResponseHeaderSectionSize,
            "{count} of {length}: {error}"
        );
    }
}

#[tokio::test]
async fn an_endless_answer_ends_with_its_call() {
    let server = Server::raw(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        while stream.write_all(b"1\r\nx\r\n").await.is_ok() {
            tokio::time::sleep(MS * 20).await;
        }
    })
    .await;
    let plugin = Plugin::to(&server, "");
    let call = Call {
        left: MS * 400,
        ..plugin.call()
    };
    let start = Instant::now();
    let error = read(plugin.send_in(&call, get(&server, "/")).await.unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::HttpResponseTimeout, "{error}");
    assert!(start.elapsed() < MS * 1500);
}

#[tokio::test]
async fn an_answer_left_unread_is_ended_by_the_total_limit() {
    let server = Server::script(
        &[(NOW, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")],
        false,
    )
    .await;
    let plugin = Plugin::to(&server, "limits: {total: 400ms}");
    let response = plugin.send(get(&server, "/")).await.unwrap();
    assert_eq!(plugin.instance.in_flight(), 1);
    tokio::time::sleep(MS * 700).await;
    assert_eq!(
        plugin.instance.in_flight(),
        0,
        "the permits are free though the guest holds the answer"
    );
    assert_eq!(
        read(response).await.unwrap_err().code(),
        Code::HttpResponseTimeout
    );
}

#[tokio::test]
async fn dropped_requests_and_answers_release_their_permits() {
    let server = Server::script(
        &[(NOW, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")],
        false,
    )
    .await;
    let silent = Server::script(&[], false).await;
    let (plugin, waiting) = (Plugin::to(&server, ""), Plugin::to(&silent, ""));
    drop(plugin.send(get(&server, "/")).await.unwrap());
    tokio::time::sleep(MS * 50).await;
    assert_eq!(plugin.instance.in_flight(), 0);
    assert!(
        tokio::time::timeout(MS * 100, waiting.send(get(&silent, "/")))
            .await
            .is_err()
    );
    tokio::time::sleep(MS * 50).await;
    assert_eq!(waiting.instance.in_flight(), 0);
    assert_eq!(waiting.metric("in_flight{plugin=\"test\",rule=\"api\"}"), 0);
}

#[tokio::test]
async fn a_guest_can_shorten_a_timeout_but_not_extend_it() {
    let server = Server::script(&[], false).await;
    let plugin = Plugin::to(&server, "limits: {firstByte: 400ms}");
    for (wish, at_most) in [(MS * 50, MS * 350), (LONG, MS * 900)] {
        let options = Options {
            first_byte: Some(wish),
            ..Options::default()
        };
        let start = Instant::now();
        let error = plugin
            .send_in(
                &Call {
                    options,
                    ..plugin.call()
                },
                get(&server, "/"),
            )
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::ConnectionReadTimeout);
        assert!(start.elapsed() < at_most, "{:?}", start.elapsed());
    }
}

/// The body of a plugin's request: chunks with pauses, followed by an end, an error, or neither.
struct Guest {
    chunks: Vec<Bytes>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
    between: Duration,
    end: End,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Well,
    Error,
    Never,
}

impl Guest {
    fn new(count: usize, size: usize, between: Duration, end: End) -> Self {
        Self {
            chunks: vec![Bytes::from(vec![b'x'; size]); count],
            pause: None,
            between,
            end,
        }
    }
}

impl Body for Guest {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let between = self.between;
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(between)));
        if pause.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.pause = None;
        match (self.chunks.pop(), self.end) {
            (Some(chunk), _) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            (None, End::Well) => Poll::Ready(None),
            (None, End::Error) => Poll::Ready(Some(Err(std::io::Error::other("gone")))),
            (None, End::Never) => {
                self.pause = Some(Box::pin(tokio::time::sleep(LONG)));
                Poll::Pending
            }
        }
    }
}

#[tokio::test]
async fn a_request_body_is_streamed_within_its_limits() {
    let server = Server::http(|request| async move {
        let body = request
            .into_body()
            .collect()
            .await
            .map(|it| it.to_bytes().len());
        Response::new(Full::from(format!("{body:?}")))
    })
    .await;
    let plugin = Plugin::to(
        &server,
        "limits: {betweenBytes: 300ms, firstByte: 300ms, requestBody: 1MiB}",
    );
    let table = [
        (
            "slow but steady",
            Guest::new(5, 10, MS * 100, End::Well),
            Ok("Ok(50)"),
        ),
        (
            "too long",
            Guest::new(3, 500 << 10, Duration::ZERO, End::Well),
            Err(Code::HttpRequestBodySize),
        ),
        (
            "without end",
            Guest::new(2, 10, Duration::ZERO, End::Never),
            Err(Code::ConnectionWriteTimeout),
        ),
        (
            "broken off",
            Guest::new(2, 10, Duration::ZERO, End::Error),
            Err(Code::ConnectionTerminated),
        ),
    ];
    for (what, body, expected) in table {
        let (head, _) = request("POST", &server, "/").into_parts();
        let found = match plugin.send_body(&plugin.call(), head, body).await {
            Ok(response) => Ok(read(response).await.unwrap().1),
            Err(error) => Err(error.code()),
        };
        assert_eq!(found, expected.map(Bytes::from), "{what}");
        tokio::time::sleep(MS * 20).await;
        assert_eq!(plugin.instance.in_flight(), 0, "{what}");
    }
    assert_eq!(plugin.denials("api", "request_body"), 1);
}

#[tokio::test]
async fn a_body_declared_too_long_is_rejected_before_connecting() {
    let silent = Server::plain().await;
    let plugin = Plugin::to(&silent, "limits: {requestBody: 1KiB}");
    let mut request = post(&silent, "/", "");
    request
        .headers_mut()
        .insert("content-length", "1025".parse().unwrap());
    assert_eq!(
        plugin.send(request).await.unwrap_err().code(),
        Code::HttpRequestBodySize
    );
    assert_eq!(
        plugin
            .send(get(&silent, "/").map(|_| "x"))
            .await
            .unwrap_err()
            .code(),
        Code::HttpRequestDenied
    );
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn an_upload_ends_with_its_call_even_after_the_answer() {
    // The server answers immediately, but never stops reading.
    let server = Server::raw(|mut stream| async move {
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await;
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    })
    .await;
    let plugin = Plugin::to(&server, "");
    let (head, _) = request("POST", &server, "/").into_parts();
    let call = Call {
        left: MS * 400,
        ..plugin.call()
    };
    let response = plugin
        .send_body(&call, head, Guest::new(1000, 10, MS * 20, End::Never))
        .await
        .unwrap();
    assert_eq!(read(response).await.unwrap().1, "ok");
    assert_eq!(
        plugin.instance.in_flight(),
        1,
        "the upload is still on its way"
    );
    tokio::time::sleep(MS * 800).await;
    assert_eq!(plugin.instance.in_flight(), 0);
}

#[tokio::test]
async fn a_body_that_differs_from_its_content_length_fails() {
    let server = Server::http(|request| async move {
        let whole = request.into_body().collect().await.is_ok();
        Response::builder()
            .status(if whole { 200 } else { 400 })
            .body(Full::default())
            .unwrap()
    })
    .await;
    for length in ["100", "5"] {
        let plugin = Plugin::to(&server, "limits: {betweenBytes: 300ms, firstByte: 300ms}");
        let (mut head, _) = request("POST", &server, "/").into_parts();
        head.headers
            .insert("content-length", length.parse().unwrap());
        let body = Guest::new(1, 10, Duration::ZERO, End::Well);
        let sent = plugin.send_body(&plugin.call(), head, body).await;
        assert!(!sent.is_ok_and(|answer| answer.status() == 200), "{length}");
        tokio::time::sleep(MS * 20).await;
        assert_eq!(plugin.instance.in_flight(), 0, "{length}");
    }
}

#[tokio::test]
async fn an_empty_body_is_sent_without_transfer_encoding() {
    let server = Server::http(|request| async move {
        Response::new(Full::from(format!(
            "{:?}",
            request.headers().get("transfer-encoding")
        )))
    })
    .await;
    let plugin = Plugin::to(&server, "");
    let (head, _) = request("DELETE", &server, "/").into_parts();
    let empty = http_body_util::Empty::<Bytes>::new().map_err(|never: Infallible| match never {});
    let response = plugin.send_body(&plugin.call(), head, empty).await;
    assert_eq!(read(response.unwrap()).await.unwrap().1, "None");
}

// Holds: SEC-33
#[tokio::test]
async fn endless_informational_answers_end_the_request() {
    const EARLY: &str = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let server = Server::raw(|mut stream| async move {
        let mut head = vec![0; 16 * 1024];
        let length = stream.read(&mut head).await.unwrap_or_default();
        let endless = head[..length].starts_with(b"GET /endless");
        let pieces = if endless { usize::MAX } else { 20 };
        for _ in 0..pieces {
            if stream.write_all(EARLY.as_bytes()).await.is_err() {
                return;
            }
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let _ = stream.write_all(answer).await;
    })
    .await;
    let plugin = Plugin::to(&server, "");
    assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().1, "ok");
    let error = plugin.send(get(&server, "/endless")).await.unwrap_err();
    assert_eq!(error.code(), Code::HttpResponseHeaderSectionSize);
    assert!(error.sentence().contains("1xx"), "{error}");
}

#[tokio::test]
async fn a_large_answer_on_a_used_connection_is_read() {
    let server = Server::http(|_| async { Response::new(Full::from(vec![b'x'; 1 << 20])) }).await;
    let plugin = Plugin::to(&server, "");
    for _ in 0..3 {
        assert_eq!(
            plugin.fetch(get(&server, "/")).await.unwrap().1.len(),
            1 << 20
        );
    }
    assert_eq!(server.connections(), 1);
}
