//! Tests each fault of the proxy with a client and a minimal service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use serde_json::{Value, json};
use skydock_clouds::{Fault, Proxy, Rule};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The number of created resources.
type Made = Arc<AtomicU32>;

#[derive(serde::Deserialize)]
struct Page {
    marker: Option<u32>,
}

/// Starts a service that lists the created resources after the marker, two per page, and creates
/// resources.
async fn service() -> Result<(String, Made)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let made = Made::default();
    let own = url.clone();
    let list = move |State(made): State<Made>, Query(page): Query<Page>| async move {
        let (first, all) = (page.marker.unwrap_or(0), made.load(Ordering::Relaxed));
        let things: Vec<u32> = (first..all.min(first + 2)).collect();
        let next = (first + 2 < all).then(|| format!("{own}/v1/things?marker={}", first + 2));
        axum::Json(json!({"things": things, "next": next})).into_response_with_type()
    };
    let make =
        |State(made): State<Made>| async move { made.fetch_add(1, Ordering::Relaxed).to_string() };
    let app = Router::new()
        .route("/v1/things", get(list).post(make))
        .with_state(Arc::clone(&made));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok((url, made))
}

trait IntoResponseWithType {
    fn into_response_with_type(self) -> axum::response::Response;
}

impl IntoResponseWithType for axum::Json<Value> {
    fn into_response_with_type(self) -> axum::response::Response {
        axum::response::IntoResponse::into_response(self)
    }
}

async fn proxy() -> Result<(Proxy, Made)> {
    let (url, made) = service().await?;
    Ok((Proxy::before_services(&[("shop", url)], 1).await?, made))
}

/// An answer as received, possibly incomplete.
#[derive(Debug, PartialEq)]
struct Answer {
    /// The status, or `None` if the connection was closed without an answer.
    status: Option<u16>,
    head: String,
    body: String,
    /// True if the body has the length announced in the header.
    whole: bool,
}

impl Answer {
    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("{self:?}"))
    }
}

async fn send(proxy: &Proxy, method: &str, path: &str) -> Result<Answer> {
    let host = proxy.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await; // a connection reset ends the answer too
    let text = String::from_utf8(bytes)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok());
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let whole = length.is_none_or(|length: usize| length == body.len());
    Ok(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
        whole,
    })
}

const LIST: &str = "/shop/v1/things";

async fn list(proxy: &Proxy) -> Result<Answer> {
    send(proxy, "GET", LIST).await
}

async fn make(proxy: &Proxy) -> Result<Answer> {
    send(proxy, "POST", LIST).await
}

#[tokio::test]
async fn without_rules_only_links_are_rewritten() -> Result<()> {
    let (proxy, _) = proxy().await?;
    for _ in 0..3 {
        ensure!(make(&proxy).await?.status == Some(200));
    }
    let answer = list(&proxy).await?;
    let next = format!("{}/shop/v1/things?marker=2", proxy.url());
    ensure!(
        answer.json()? == json!({"things": [0, 1], "next": next}),
        "{answer:?}"
    );
    ensure!(answer.whole && send(&proxy, "GET", "/other/v1").await?.status == Some(404));
    Ok(())
}

#[tokio::test]
async fn calls_are_logged_and_counted_by_operation() -> Result<()> {
    let (proxy, _) = proxy().await?;
    proxy.rule(Rule::new("POST *", Fault::Lost).times(1));
    make(&proxy).await?;
    make(&proxy).await?;
    send(&proxy, "GET", "/shop/v1/things?marker=1").await?;
    let calls = proxy.calls();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| (call.operation.as_str(), call.status, call.faults.as_slice()))
        .collect();
    let expected: [(&str, Option<u16>, &[&str]); 3] = [
        ("POST shop/things", None, &["lost"]),
        ("POST shop/things", Some(200), &[]),
        ("GET shop/things", Some(200), &[]),
    ];
    ensure!(seen == expected, "{seen:?}");
    ensure!(calls[2].path == "/v1/things?marker=1" && calls[2].at >= calls[0].at);
    ensure!(proxy.count("POST shop/*") == 2 && proxy.counts().len() == 2);
    proxy.forget();
    ensure!(proxy.calls().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_throttled_request_says_when_to_retry() -> Result<()> {
    let (proxy, made) = proxy().await?;
    proxy.rule(Rule::new("POST shop/things", Fault::Throttle(Some(7))).times(1));
    let answer = make(&proxy).await?;
    ensure!(
        answer.status == Some(429) && answer.head.contains("retry-after: 7"),
        "{answer:?}"
    );
    ensure!(made.load(Ordering::Relaxed) == 0 && make(&proxy).await?.status == Some(200));
    Ok(())
}

#[tokio::test]
async fn a_status_fault_answers_without_forwarding() -> Result<()> {
    let (proxy, made) = proxy().await?;
    proxy.rule(Rule::new("*", Fault::Status(503)));
    let answer = make(&proxy).await?;
    ensure!(
        answer.status == Some(503) && answer.json()?["error"]["code"] == 503,
        "{answer:?}"
    );
    proxy.clear_rules();
    ensure!(made.load(Ordering::Relaxed) == 0 && make(&proxy).await?.status == Some(200));
    Ok(())
}

#[tokio::test]
async fn a_proxy_before_another_server_keeps_its_paths() -> Result<()> {
    let (url, made) = service().await?;
    let proxy = Proxy::before_server(&url, 1).await?;
    ensure!(
        send(&proxy, "POST", "/v1/things").await?.status == Some(200)
            && made.load(Ordering::Relaxed) == 1
    );
    proxy.rule(Rule::new("POST /v1/things", Fault::Status(503)));
    let answer = send(&proxy, "POST", "/v1/things").await?;
    ensure!(
        answer.status == Some(503) && answer.json()?["error"]["code"] == "Service Unavailable",
        "{answer:?}"
    );
    ensure!(made.load(Ordering::Relaxed) == 1 && proxy.count("POST /v1/things") == 2);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_belongs_to_an_executed_request() -> Result<()> {
    let (proxy, made) = proxy().await?;
    proxy.rule(Rule::new("POST *", Fault::Lost));
    let answer = make(&proxy).await?;
    ensure!(
        answer.status.is_none() && made.load(Ordering::Relaxed) == 1,
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_dropped_request_is_not_executed() -> Result<()> {
    let (proxy, made) = proxy().await?;
    proxy.rule(Rule::new("POST *", Fault::Rejected));
    let answer = make(&proxy).await?;
    ensure!(
        answer.status.is_none() && made.load(Ordering::Relaxed) == 0,
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_cut_body_is_shorter_than_its_content_length() -> Result<()> {
    let (proxy, _) = proxy().await?;
    proxy.rule(Rule::new("GET *", Fault::Cut(5)));
    let answer = list(&proxy).await?;
    ensure!(
        answer.status == Some(200) && answer.body.len() == 5 && !answer.whole,
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_stale_read_does_not_see_the_last_write() -> Result<()> {
    let (proxy, _) = proxy().await?;
    make(&proxy).await?;
    let before = list(&proxy).await?.json()?;
    make(&proxy).await?;
    proxy.rule(Rule::new("GET shop/things", Fault::Stale(Duration::from_secs(5))).times(1));
    ensure!(list(&proxy).await?.json()? == before);
    ensure!(list(&proxy).await?.json()?["things"] == json!([0, 1]));
    Ok(())
}

#[tokio::test]
async fn a_wrong_page_repeats_the_first_page() -> Result<()> {
    let (proxy, _) = proxy().await?;
    for _ in 0..3 {
        make(&proxy).await?;
    }
    let first = list(&proxy).await?.json()?;
    proxy.rule(
        Rule::new("GET *", Fault::WrongPage)
            .containing("marker=2")
            .times(1),
    );
    let second = format!("{LIST}?marker=2");
    ensure!(send(&proxy, "GET", &second).await?.json()? == first);
    ensure!(send(&proxy, "GET", &second).await?.json()?["things"] == json!([2]));
    Ok(())
}

#[tokio::test]
async fn a_request_delivered_twice_is_executed_twice() -> Result<()> {
    let (proxy, made) = proxy().await?;
    proxy.rule(Rule::new("POST *", Fault::Twice));
    let answer = make(&proxy).await?;
    ensure!(
        answer.body == "1" && made.load(Ordering::Relaxed) == 2,
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn garbage_is_an_unreadable_success() -> Result<()> {
    let (proxy, _) = proxy().await?;
    proxy.rule(Rule::new("GET *", Fault::Garbage("<html>")));
    let answer = list(&proxy).await?;
    ensure!(
        answer.status == Some(200) && answer.body == "<html>" && answer.whole,
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_dripping_answer_arrives_byte_by_byte() -> Result<()> {
    let (proxy, _) = proxy().await?;
    proxy.rule(Rule::new("GET *", Fault::Drip(Duration::from_millis(2))).times(1));
    let began = Instant::now();
    let answer = list(&proxy).await?;
    let bytes = answer.head.len() + answer.body.len();
    ensure!(
        answer.whole && began.elapsed() >= Duration::from_millis(2) * u32::try_from(bytes)?,
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_delay_is_before_or_after_the_request() -> Result<()> {
    let (proxy, made) = proxy().await?;
    let long = Duration::from_millis(300);
    proxy.rule(Rule::new("POST *", Fault::Delay(long)).times(1));
    proxy.rule(Rule::new("POST *", Fault::SlowAnswer(long)).after(1));
    let watched = async |done: u32| {
        let began = Instant::now();
        let (answer, seen) = tokio::join!(make(&proxy), async {
            tokio::time::sleep(long / 2).await;
            made.load(Ordering::Relaxed)
        });
        ensure!(
            answer?.status == Some(200) && began.elapsed() >= long && seen == done,
            "half-way {seen} were made"
        );
        Ok(())
    };
    watched(0).await?;
    watched(2).await
}

#[tokio::test]
async fn constant_latency_applies_to_every_operation() -> Result<()> {
    let (proxy, _) = proxy().await?;
    proxy.set_latency(Duration::from_millis(50));
    make(&proxy).await?;
    list(&proxy).await?;
    let took: Vec<Duration> = proxy.calls().iter().map(|call| call.took).collect();
    ensure!(
        took.iter()
            .all(|took| (50..150).contains(&took.as_millis())),
        "{took:?}"
    );
    Ok(())
}
