//! The gateway with a credential: what is removed, added, sent again and masked.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Response, request, response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use skydock_credentials::{
    Credential, CredentialError, CredentialErrorKind, Prepared, RequestKind, Secret,
};
use skydock_egress::{Call, Cause, Code, InstanceRequests};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Semaphore,
};

use crate::support::{Plugin, Server, get, post, read, request, rule, settings};

/// A secret of the credential.
const QUOTED: &str = "a-session-token-that-is-long-enough";

/// Another one, which only requests with `token-0` have.
const FIRST: &str = "the-session-token-of-the-first-attempt";

/// A credential that sets `authorization` to `token-N`; a renewal increments N.
#[derive(Debug, Default)]
struct Tokens {
    number: AtomicU64,
    renewals: AtomicUsize,
    /// The reported numbers: accepted, or rejected with the kind of the request.
    told: Mutex<Vec<(u64, Option<RequestKind>)>>,
    /// The file of the credential changes while a request is in progress.
    changes: bool,
    bodies: Mutex<Vec<Option<Bytes>>>,
    needs_body: bool,
    fails: Option<CredentialErrorKind>,
    leads_astray: bool,
}

#[async_trait]
impl Credential for Tokens {
    fn name(&self) -> &str {
        "tokens"
    }

    fn needs_body(&self, _: &request::Parts) -> bool {
        self.needs_body
    }

    async fn prepare(
        &self,
        head: &mut request::Parts,
        body: Option<&Bytes>,
    ) -> Result<Prepared, CredentialError> {
        if let Some(kind) = self.fails {
            return Err(CredentialError::new("tokens", kind, "its file is gone"));
        }
        // A copy, since the gateway counts buffered bytes until the last reference is dropped.
        self.bodies
            .lock()
            .unwrap()
            .push(body.map(|body| Bytes::copy_from_slice(body)));
        if head.uri.path() == "/login" {
            return Ok(Prepared::Answer(Response::new(Bytes::from_static(
                b"masked",
            ))));
        }
        let version = self.number.load(Ordering::SeqCst);
        head.headers
            .insert("authorization", format!("token-{version}").parse().unwrap());
        head.headers.insert("x-session", QUOTED.parse().unwrap());
        if version == 0 {
            head.headers.insert("x-first", FIRST.parse().unwrap());
        }
        if self.leads_astray {
            head.uri = "http://evil.example/x?y".parse().unwrap();
            head.headers.insert("host", "evil.example".parse().unwrap());
        }
        Ok(Prepared::Send { version })
    }

    fn accepted(&self, version: u64, _: RequestKind) {
        self.told.lock().unwrap().push((version, None));
    }

    async fn rejected(&self, version: u64, kind: RequestKind) -> bool {
        self.told.lock().unwrap().push((version, Some(kind)));
        self.renewals.fetch_add(1, Ordering::SeqCst);
        self.number
            .compare_exchange(version, version + 1, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    async fn changed(&self, version: u64) -> bool {
        self.changes
            && self
                .number
                .compare_exchange(version, version + 1, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    fn mask(&self, head: &mut response::Parts) {
        head.headers.remove("set-cookie");
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![Secret::from(QUOTED), Secret::from(FIRST)]
    }
}

/// A server that accepts only `token-1` and returns what it received.
async fn strict() -> Server {
    Server::http(|request| async move {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = |name| {
            head.headers
                .get(name)
                .map_or("-", |it| it.to_str().unwrap())
        };
        let status = if text("authorization") == "token-1" {
            200
        } else {
            401
        };
        let said = format!(
            "{} {} {} {}",
            text("authorization"),
            text("cookie"),
            head.uri,
            body.len()
        );
        Response::builder()
            .status(status)
            .header("set-cookie", "secret")
            .body(Full::from(said))
            .unwrap()
    })
    .await
}

fn plugin(server: &Server, tokens: Tokens, fields: &str) -> (Plugin, Arc<Tokens>) {
    let tokens = Arc::new(tokens);
    let rule = rule(&format!("credential: tokens, {fields}"));
    (
        Plugin::new(&settings(&rule, server.port(), Some(tokens.clone()))),
        tokens,
    )
}

#[tokio::test]
async fn a_rejected_request_is_retried_with_a_new_credential() {
    let server = strict().await;
    for method in ["GET", "POST", "DELETE"] {
        let (plugin, tokens) = plugin(&server, Tokens::default(), "");
        let body = if method == "POST" { "hello" } else { "" };
        let answer = plugin
            .send(request(method, &server, "/x").map(|_| body))
            .await
            .unwrap();
        assert!(!answer.headers().contains_key("set-cookie"));
        let (status, said) = read(answer).await.unwrap();
        assert_eq!(
            (status, said),
            (200, Bytes::from(format!("token-1 - /x {}", body.len()))),
            "{method}"
        );
        assert_eq!(tokens.renewals.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_forbidden_request_is_retried_only_if_a_file_has_changed() {
    let server = Server::http(|request| async move {
        let new = request.headers()["authorization"] == "token-1";
        Response::builder()
            .status(if new { 200 } else { 403 })
            .body(Full::from(""))
            .unwrap()
    })
    .await;
    for (changes, status) in [(true, 200), (false, 403)] {
        let (plugin, tokens) = plugin(
            &server,
            Tokens {
                changes,
                ..Tokens::default()
            },
            "",
        );
        assert_eq!(
            plugin.fetch(post(&server, "/", "hello")).await.unwrap().0,
            status,
            "{changes}"
        );
        assert_eq!(
            tokens.renewals.load(Ordering::SeqCst),
            0,
            "a policy may forbid it: nobody logs in for that"
        );
    }
}

#[tokio::test]
async fn a_third_rejection_is_passed_to_the_guest() {
    let server = strict().await;
    let (plugin, tokens) = plugin(
        &server,
        Tokens {
            number: AtomicU64::new(5),
            ..Tokens::default()
        },
        "",
    );
    assert_eq!(
        plugin.fetch(post(&server, "/", "hello")).await.unwrap().0,
        401
    );
    assert_eq!(tokens.renewals.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_credential_learns_which_kind_of_request_was_rejected() {
    let server = strict().await;
    let (plugin, tokens) = plugin(
        &server,
        Tokens {
            number: AtomicU64::new(1),
            ..Tokens::default()
        },
        "",
    );
    assert_eq!(plugin.fetch(get(&server, "/a")).await.unwrap().0, 200);
    assert_eq!(
        std::mem::take(&mut *tokens.told.lock().unwrap()),
        [(1, None)]
    );
    tokens.number.store(5, Ordering::SeqCst);
    let others = [
        get(&server, "/a?x=2"),
        get(&server, "/b?x=1"),
        request("DELETE", &server, "/a?x=1"),
    ];
    for asked in [get(&server, "/a?x=1"), get(&server, "/a?x=1")]
        .into_iter()
        .chain(others)
    {
        assert_eq!(plugin.fetch(asked).await.unwrap().0, 401);
    }
    let told = std::mem::take(&mut *tokens.told.lock().unwrap());
    assert!(told.iter().all(|(_, kind)| kind.is_some()), "{told:?}");
    let kinds: Vec<_> = told.iter().step_by(2).map(|(_, kind)| *kind).collect();
    assert_eq!(
        told.iter().map(|(version, _)| *version).collect::<Vec<_>>(),
        (5..15).collect::<Vec<_>>()
    );
    assert_eq!(kinds[0], kinds[1]);
    let different: std::collections::HashSet<_> = kinds.iter().collect();
    assert_eq!(different.len(), 4, "{kinds:?}");
}

#[tokio::test]
async fn a_request_with_a_long_body_is_not_retried() {
    let server = strict().await;
    for (chunks, status) in [(10, 200), (30, 401)] {
        let (plugin, _) = plugin(&server, Tokens::default(), "");
        let chunk = Bytes::from(vec![b'x'; 64 << 10]);
        let frames = (0..chunks)
            .map(move |_| Ok::<_, std::io::Error>(http_body::Frame::data(chunk.clone())));
        let (head, _) = request("POST", &server, "/").into_parts();
        let body = StreamBody::new(futures::stream::iter(frames));
        let answer = plugin.send_body(&plugin.call(), head, body).await.unwrap();
        assert_eq!(answer.status(), status, "{chunks}");
        if status == 200 {
            assert!(read(answer).await.unwrap().1.ends_with(b" 655360"));
        }
    }
}

// Holds: SEC-18
#[tokio::test]
async fn authentication_of_the_guest_is_replaced_or_denied() {
    let server = strict().await;
    let guest = |server| {
        let mut request = get(server, "/x");
        request
            .headers_mut()
            .insert("authorization", "guest".parse().unwrap());
        request
            .headers_mut()
            .insert("cookie", "guest".parse().unwrap());
        request
    };
    let tokens = || Tokens {
        number: AtomicU64::new(1),
        ..Tokens::default()
    };
    let (denied, _) = plugin(&server, tokens(), "");
    assert_eq!(
        denied.fetch(guest(&server)).await.unwrap().1,
        "token-1 - /x 0"
    );
    let (allowed, _) = plugin(&server, tokens(), "guestAuth: allowed");
    assert_eq!(
        allowed.fetch(guest(&server)).await.unwrap().1,
        "token-1 guest /x 0"
    );
    let error = denied
        .fetch(get(&server, "/x?X-Amz-Signature=guest"))
        .await
        .unwrap_err();
    assert_eq!(error.cause(), Cause::GuestAuth);
    let alone = Plugin::to(&server, "guestAuth: allowed");
    assert_eq!(
        alone.fetch(guest(&server)).await.unwrap().1,
        "guest guest /x 0"
    );
}

// Holds: SEC-18
#[tokio::test]
async fn a_secret_quoted_by_a_server_is_hidden_from_the_guest() {
    let server = Server::raw(|mut stream| async move {
        let mut request = [0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
        assert!(
            request.contains("accept-encoding: identity\r\n"),
            "nothing could be hidden in it: {request}"
        );
        assert!(
            !request.contains("range"),
            "a part of a secret is not found: {request}"
        );
        let (start, end) = QUOTED.split_at(7);
        let body = [
            format!("{{\"sent\": \"{start}"),
            format!("{end}\", \"by\": \"a-session"),
            "\"}".to_owned(),
        ];
        let length: usize = body.iter().map(String::len).sum();
        let head = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {length}\r\n\r\n");
        for piece in [head].iter().chain(&body) {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let (plugin, _) = plugin(&server, Tokens::default(), "");
    let mut request = get(&server, "/");
    for (name, value) in [
        ("accept-encoding", "gzip"),
        ("range", "bytes=5-9"),
        ("if-range", "\"etag\""),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let (status, body) = plugin.fetch(request).await.unwrap();
    let expected = format!(
        "{{\"sent\": \"{}\", \"by\": \"a-session\"}}",
        "*".repeat(QUOTED.len())
    );
    assert_eq!((status, body), (403, Bytes::from(expected)));
}

// Holds: SEC-18, SEC-40
#[tokio::test]
async fn a_secret_of_an_earlier_attempt_of_the_request_is_hidden() {
    let server = Server::http(|request| async move {
        let is_new = request.headers()["authorization"] == "token-1";
        let status = if is_new { 200 } else { 401 };
        let body = Full::from(format!("was '{FIRST}', is '{QUOTED}'"));
        Response::builder().status(status).body(body).unwrap()
    })
    .await;
    let (plugin, _) = plugin(&server, Tokens::default(), "");
    let is = "*".repeat(QUOTED.len());
    for was in [
        "*".repeat(FIRST.len()),
        // The next request does not have it, so this may be a guess.
        FIRST.to_owned(),
    ] {
        let answer = plugin.fetch(get(&server, "/")).await.unwrap();
        assert_eq!(
            answer,
            (200, Bytes::from(format!("was '{was}', is '{is}'")))
        );
    }
}

#[tokio::test]
async fn a_compressed_answer_to_a_signed_request_is_rejected() {
    let server = Server::http(|request| async move {
        let coding = request.uri().path().trim_start_matches('/').to_owned();
        Response::builder()
            .header("content-encoding", coding)
            .body(Full::from("body"))
            .unwrap()
    })
    .await;
    let (with, _) = plugin(&server, Tokens::default(), "");
    let without = Plugin::to(&server, "");
    for (coding, is_rejected) in [
        ("gzip", true),
        ("br", true),
        ("identity", false),
        ("Identity", false),
    ] {
        let ask = || get(&server, &format!("/{coding}"));
        assert_eq!(without.fetch(ask()).await.unwrap().0, 200, "{coding}");
        let code = with.fetch(ask()).await.err().map(|error| error.code());
        assert_eq!(
            code,
            is_rejected.then_some(Code::HttpResponseContentCoding),
            "{coding}"
        );
    }
}

#[tokio::test]
async fn a_credential_that_needs_the_body_gets_it() {
    let server = strict().await;
    let tokens = Tokens {
        needs_body: true,
        number: AtomicU64::new(1),
        ..Tokens::default()
    };
    let (plugin, tokens) = plugin(&server, tokens, "");
    assert_eq!(
        plugin.fetch(post(&server, "/", "hello")).await.unwrap().1,
        "token-1 - / 5"
    );
    assert_eq!(*tokens.bodies.lock().unwrap(), [Some(Bytes::from("hello"))]);
    let (head, _) = request("POST", &server, "/").into_parts();
    let big = Full::new(Bytes::from(vec![0; (1 << 20) + 1]));
    let error = plugin
        .send_body(&plugin.call(), head, big)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::HttpRequestBodySize);
}

#[tokio::test]
async fn a_credential_can_answer_a_request_itself() {
    let silent = Server::plain().await;
    let (plugin, _) = plugin(&silent, Tokens::default(), "");
    assert_eq!(
        plugin.fetch(post(&silent, "/login", "user")).await.unwrap(),
        (200, Bytes::from("masked"))
    );
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn nothing_is_sent_if_the_credential_fails() {
    let silent = Server::plain().await;
    for (kind, code, cause) in [
        (
            CredentialErrorKind::Unavailable,
            Code::DestinationUnavailable,
            Cause::Credential,
        ),
        (
            CredentialErrorKind::Denied,
            Code::HttpRequestDenied,
            Cause::Credential,
        ),
        (
            CredentialErrorKind::SecretRequest,
            Code::HttpRequestDenied,
            Cause::SecretRequest,
        ),
        (
            CredentialErrorKind::Malformed,
            Code::HttpRequestDenied,
            Cause::Credential,
        ),
    ] {
        let (plugin, _) = plugin(
            &silent,
            Tokens {
                fails: Some(kind),
                ..Tokens::default()
            },
            "",
        );
        let error = plugin.fetch(get(&silent, "/")).await.unwrap_err();
        assert_eq!((error.code(), error.cause()), (code, cause), "{kind:?}");
        assert_eq!(error.sentence(), "credential `tokens`: its file is gone");
        assert_eq!(plugin.denials("api", cause.as_str()), 1);
    }
    assert_eq!(silent.connections(), 0);
}

#[tokio::test]
async fn a_credential_cannot_redirect_a_request() {
    let server = strict().await;
    let tokens = Tokens {
        leads_astray: true,
        number: AtomicU64::new(1),
        ..Tokens::default()
    };
    let (plugin, _) = plugin(&server, tokens, "");
    assert_eq!(
        plugin.fetch(get(&server, "/")).await.unwrap().1,
        "token-1 - /x?y 0"
    );
}

#[tokio::test]
async fn a_credential_is_only_used_for_requests_of_its_rule() {
    let server = strict().await;
    let tokens = Arc::new(Tokens {
        number: AtomicU64::new(1),
        ..Tokens::default()
    });
    let rules = "
- { name: a, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], credential: tokens, paths: [/a] }
- { name: b, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32] }
";
    let plugin = Plugin::new(&settings(rules, server.port(), Some(tokens)));
    let said = |request: Request<&'static str>| async { plugin.fetch(request).await.unwrap().1 };
    assert_eq!(said(get(&server, "/a/x")).await, "token-1 - /a/x 0");
    assert_eq!(said(get(&server, "/b/x")).await, "- - /b/x 0");
    assert_eq!(
        plugin.metric("requests_total{plugin=\"test\",rule=\"b\",method=\"GET\",code=\"4xx\"}"),
        1
    );
}

const MINUTE: Duration = Duration::from_secs(60);

/// Counts requests while a server holds them.
struct Holding {
    now: AtomicUsize,
    most: AtomicUsize,
    /// Permits to answer.
    open: Semaphore,
}

/// One held request, also if its connection ends.
struct Held<'a>(&'a Holding);

impl Holding {
    /// Holds a request until the server may answer.
    async fn hold(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        let _held = Held(self);
        self.most.fetch_max(now, Ordering::SeqCst);
        let _ = self.open.acquire().await;
    }

    /// Waits until the server holds this number of requests.
    async fn until(&self, number: usize) {
        let begin = Instant::now();
        while self.now.load(Ordering::SeqCst) < number {
            assert!(begin.elapsed() < MINUTE, "{number} requests are not held");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

// Holds: SEC-25
#[tokio::test]
async fn the_total_size_of_buffered_bodies_is_limited() {
    let holding = Arc::new(Holding {
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        open: Semaphore::new(0),
    });
    let held = Arc::clone(&holding);
    let server = Server::http(move |request| {
        let held = Arc::clone(&held);
        async move {
            request.into_body().collect().await.unwrap();
            held.hold().await;
            Response::new(Full::<Bytes>::default())
        }
    })
    .await;
    let (plugin, _) = plugin(
        &server,
        Tokens {
            needs_body: true,
            ..Tokens::default()
        },
        "limits: {concurrency: 64, rate: 1000, burst: 1000}",
    );
    let instances: Vec<_> = (0..6).map(|_| InstanceRequests::default()).collect();
    let upload = |number: usize, size: usize, left: Duration| {
        let call = Call {
            instance: &instances[number % instances.len()],
            left,
            ..plugin.call()
        };
        let (head, _) = request("POST", &server, "/").into_parts();
        let body = Full::new(Bytes::from(vec![0; size]));
        let (plugin, holding) = (&plugin, &holding);
        async move {
            // One after the other: reading the bodies of all would take longer than a connection
            // may take on a busy machine.
            holding.until(number.min(32)).await;
            read(plugin.send_body(&call, head, body).await?).await
        }
    };

    let large = join_all((0..40).map(|number| upload(number, 1 << 20, MINUTE)));
    let late = async {
        holding.until(32).await;
        let late = upload(41, 1 << 20, Duration::from_millis(100)).await;
        holding.open.add_permits(64);
        late
    };
    let (large, late) = tokio::join!(large, late);
    assert!(large.into_iter().all(|answer| answer.unwrap().0 == 200));
    assert_eq!(late.unwrap_err().code(), Code::HttpResponseTimeout);
    assert_eq!(holding.most.load(Ordering::SeqCst), 32, "MiB at a time");

    holding.open.forget_permits(64);
    let small = join_all((0..40).map(|number| upload(number, 1 << 10, MINUTE)));
    let all = async {
        holding.until(40).await;
        holding.open.add_permits(64);
    };
    // What is small takes no more than it is.
    let (small, ()) = tokio::join!(small, all);
    assert!(small.into_iter().all(|answer| answer.unwrap().0 == 200));
}

// Holds: SEC-31
#[tokio::test]
async fn a_waiting_request_does_not_use_a_removed_credential() {
    let server = strict().await;
    let with = |credential: Option<Arc<dyn Credential>>| {
        let named = if credential.is_some() {
            ", credential: tokens"
        } else {
            ""
        };
        let fields = format!("limits: {{rate: 2, burst: 1}}{named}");
        settings(&rule(&fields), server.port(), credential)
    };
    for other in [
        None,
        Some(Arc::new(Tokens::default()) as Arc<dyn Credential>),
    ] {
        let used = Arc::new(Tokens {
            number: AtomicU64::new(1),
            ..Tokens::default()
        });
        let plugin = Plugin::new(&with(Some(used.clone())));
        plugin.send(get(&server, "/")).await.unwrap();
        let (answer, ()) = tokio::join!(plugin.send(get(&server, "/")), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            plugin.gateway.update(&with(other)).unwrap();
        });
        let error = answer.unwrap_err();
        assert_eq!(
            (error.code(), error.cause()),
            (Code::DestinationUnavailable, Cause::RuleChanged)
        );
        assert_eq!(used.bodies.lock().unwrap().len(), 1, "it is not even asked");
    }
}
