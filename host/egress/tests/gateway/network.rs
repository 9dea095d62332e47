//! The gateway and the network: names, connections, proxies, hosts that do not answer.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::join_all;
use http::Response;
use http_body_util::Full;
use skydock_egress::{Call, Cause, ClusterAddresses, Code, Options};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use crate::support::{Names, Plugin, Server, get, post, rule, settings};

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_dns_failure_has_its_own_code() {
    let server = Server::plain().await;
    let all = "[{name: api, to: 'http://*.example.com:PORT', addresses: [127.0.0.1/32], limits: {connect: 200ms}}]";
    let names = Names::default().with("empty.example.com", &[&[]]);
    let plugin = Plugin::with(
        &settings(all, server.port(), None),
        names,
        ClusterAddresses::default(),
    );
    for (host, code) in [
        ("none", Code::DnsError),
        ("empty", Code::DnsError),
        ("never", Code::DnsTimeout),
    ] {
        let uri = format!("http://{host}.example.com:{}/", server.port());
        let error = plugin
            .send(http::Request::get(uri).body("").unwrap())
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.cause()),
            (code, Cause::Dns),
            "{host}: {error}"
        );
    }
}

#[tokio::test]
async fn requests_to_a_host_that_does_not_answer_are_paused() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let plugin = Plugin::new(&settings(&rule(""), closed, None));
    let request = || {
        http::Request::get(format!("http://api.example.com:{closed}/"))
            .body("")
            .unwrap()
    };
    for _ in 0..5 {
        let error = plugin.send(request()).await.unwrap_err();
        assert_eq!(
            (error.code(), error.cause()),
            (Code::ConnectionRefused, Cause::Connect),
            "{error}"
        );
    }
    let asked = plugin.names.asked();
    let error = plugin.send(request()).await.unwrap_err();
    assert_eq!(
        (error.code(), error.cause()),
        (Code::ConnectionRefused, Cause::Breaker),
        "{error}"
    );
    assert_eq!(plugin.names.asked(), asked);
    assert_eq!(plugin.metric("circuit_breakers_open{plugin=\"test\"}"), 1);
    assert_eq!(plugin.denials("api", "breaker"), 1);
}

#[tokio::test]
async fn requests_resume_when_a_host_answers_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let plugin = Plugin::new(&settings(&rule(""), port, None));
    let request = || {
        http::Request::get(format!("http://api.example.com:{port}/"))
            .body("")
            .unwrap()
    };
    for _ in 0..5 {
        plugin.send(request()).await.unwrap_err();
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    });
    assert_eq!(
        plugin.send(request()).await.unwrap_err().cause(),
        Cause::Breaker
    );
    let start = Instant::now();
    while plugin.send(request()).await.is_err() {
        assert!(start.elapsed() < MS * 7000);
        tokio::time::sleep(MS * 100).await;
    }
    assert!(start.elapsed() > MS * 4000, "{:?}", start.elapsed());
    assert_eq!(plugin.metric("circuit_breakers_open{plugin=\"test\"}"), 0);
}

/// Starts a proxy that connects to any requested address, and reports the requests.
async fn proxy(answer: &'static str) -> (Server, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (asked, log) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::raw(move |mut stream| {
        let asked = asked.clone();
        async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let line = String::from_utf8(head)
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .to_owned();
            asked.send(line.clone()).unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answer.contains("200") {
                let to = line.split(' ').nth(1).unwrap().to_owned();
                let mut far = TcpStream::connect(to).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut far).await;
            }
        }
    })
    .await;
    (server, log)
}

#[tokio::test]
async fn a_proxy_connects_to_the_checked_address() {
    let server = Server::plain().await;
    let (proxy, mut log) = proxy("HTTP/1.1 200 Connection established\r\n\r\n").await;
    let plugin = Plugin::to(
        &server,
        &format!("proxy: 'http://127.0.0.1:{}'", proxy.port()),
    );
    assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 200);
    assert_eq!(
        log.recv().await.unwrap(),
        format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port())
    );
}

#[tokio::test]
async fn a_denied_address_is_not_requested_from_a_proxy() {
    let server = Server::plain().await;
    let (proxy, _log) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
    let rule = rule(&format!("proxy: 'http://127.0.0.1:{}'", proxy.port()))
        .replace("127.0.0.1/32", "10.0.0.0/8");
    let plugin = Plugin::new(&settings(&rule, server.port(), None));
    assert_eq!(
        plugin.send(get(&server, "/")).await.unwrap_err().code(),
        Code::DestinationIpProhibited
    );
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_denial_by_a_proxy_is_connection_refused() {
    let server = Server::plain().await;
    let (proxy, _log) = proxy("HTTP/1.1 403 Forbidden\r\n\r\n").await;
    let plugin = Plugin::to(
        &server,
        &format!("proxy: 'http://127.0.0.1:{}'", proxy.port()),
    );
    let error = plugin.send(get(&server, "/")).await.unwrap_err();
    assert_eq!(error.code(), Code::ConnectionRefused);
    assert!(error.sentence().contains("it answered 403"), "{error}");
    let about = error.about().unwrap();
    assert_eq!(
        (about.rule.as_deref(), about.method.as_str()),
        (Some("api"), "GET")
    );
    assert_eq!(about.target.as_ref().unwrap().port, server.port());
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn only_reads_are_retried_after_a_closed_connection() {
    // The server answers one request per connection without announcing that it will close it, and
    // closes it when the next request arrives.
    let server = Server::raw(|mut stream| async move {
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
        let _ = stream.read(&mut buffer).await;
    })
    .await;
    let plugin = Plugin::to(&server, "");
    for expected in 1..4 {
        assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 200);
        assert_eq!(server.connections(), expected);
    }
    for request in [
        post(&server, "/", "x"),
        get(&server, "/client/api?command=deployVirtualMachine"),
    ] {
        let error = plugin.fetch(request).await.unwrap_err();
        assert_eq!(
            error.code(),
            Code::HttpResponseIncomplete,
            "nobody knows whether it was done: {error}"
        );
        assert_eq!(plugin.fetch(get(&server, "/")).await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn short_timeouts_of_a_guest_do_not_open_the_breaker() {
    let server = Server::script(&[], false).await;
    let plugin = Plugin::to(&server, "limits: {rate: 1000, burst: 100}");
    let options = Options {
        first_byte: Some(MS),
        ..Options::default()
    };
    for _ in 0..10 {
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
    }
}

#[tokio::test]
async fn a_slow_path_does_not_open_the_breaker() {
    let server = Server::http(|request| async move {
        if request.uri().path() == "/slow" {
            tokio::time::sleep(MS * 60_000).await;
        }
        Response::new(Full::<Bytes>::default())
    })
    .await;
    let plugin = Plugin::to(&server, "limits: {firstByte: 600ms}");
    let slow = join_all((0..7).map(|_| plugin.send(get(&server, "/slow"))));
    let (slow, between) = tokio::join!(slow, async {
        tokio::time::sleep(MS * 200).await;
        plugin.fetch(get(&server, "/nodes")).await
    });
    assert_eq!(between.unwrap().0, 200);
    assert!(
        slow.into_iter()
            .all(|late| late.unwrap_err().code() == Code::ConnectionReadTimeout)
    );
    assert_eq!(plugin.fetch(get(&server, "/nodes")).await.unwrap().0, 200);
    assert_eq!(plugin.metric("circuit_breakers_open{plugin=\"test\"}"), 0);
}
