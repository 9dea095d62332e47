//! CPU time and elapsed time that the gateway adds to a request, compared with hyper alone.
//!
//! The server runs in this process too and is the same for both, so the difference is the
//! gateway's.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout
)] // macros of criterion, and this is a benchmark

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use skydock_cloud::{CallKind, Capability};
use skydock_credentials::{
    Credential, CredentialMetrics, Credentials, Dependencies, SystemClock, config::CredentialConfig,
};
use skydock_egress::{
    Call, EgressMetrics, Gateway, GatewayDependencies, HostIssuer, InstanceRequests, Options,
    PluginPhase, Resolver, Settings, TlsConfig,
};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

struct Loopback;

#[async_trait]
impl Resolver for Loopback {
    async fn resolve(&self, _: &str, _: CallKind) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()])
    }
}

async fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = r#"{"id": "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "name": "node-1", "metadata": {"zone": "a"}, "note": "a\"b"},"#;
    let large = Bytes::from(server.repeat((16 << 20) / server.len()));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let large = large.clone();
            let answer = service_fn(move |request: Request<_>| {
                let body = match request.uri().path() {
                    "/v3/large" => large.clone(),
                    _ => Bytes::from_static(b"0123456789"),
                };
                async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(body))) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    port
}

fn gateway(port: u16, credential: Option<Arc<dyn Credential>>) -> Gateway {
    let field = credential.as_ref().map_or("", |_| "credential: token, ");
    let rule = format!(
        "[{{name: api, to: 'http://api.example.com:{port}', paths: [/v3], addresses: [127.0.0.1/32], {field}limits: {{rate: 10000, burst: 10000}}}}]"
    );
    let settings = Settings {
        rules: serde_saphyr::from_str(&rule).unwrap(),
        credentials: credential
            .map(|it| ("token".to_owned(), it))
            .into_iter()
            .collect(),
        ..Settings::default()
    };
    let dependencies = GatewayDependencies {
        resolver: Arc::new(Loopback),
        metrics: EgressMetrics::default(),
        ..GatewayDependencies::default()
    };
    Gateway::new("bench", &settings, dependencies).unwrap()
}

/// Returns a credential with a token, whose quotes are searched for in answers.
fn token(folder: &Path) -> Arc<dyn Credential> {
    let file = folder.join("token");
    std::fs::write(&file, "xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yTcV2bN4mA8sD-q7Ew").unwrap();
    let yaml = format!(
        "[{{name: token, for: {{plugin: bench, digest: any}}, type: header, prefix: 'Bearer ', valueFile: {}}}]",
        file.display()
    );
    let dependencies = Dependencies {
        issuers: Box::new(|_| Arc::new(HostIssuer::new(TlsConfig::default(), None))),
        clock: Arc::new(SystemClock),
        metrics: CredentialMetrics::default(),
    };
    let configs: Vec<CredentialConfig> = serde_saphyr::from_str(&yaml).unwrap();
    let credentials = Credentials::new(&configs, &dependencies).unwrap();
    credentials.bind("token", "bench", "sha256:0").unwrap()
}

async fn through(gateway: &Gateway, instance: &InstanceRequests, uri: &str) {
    let request = Request::get(uri)
        .header("accept", "application/json")
        .body(Full::<Bytes>::default())
        .unwrap();
    let call = Call {
        instance,
        phase: PluginPhase::Serving,
        capability: Capability::Instances,
        dry_run: false,
        left: Duration::from_secs(30),
        options: Options::default(),
    };
    let (head, body) = request.into_parts();
    let answer = gateway
        .admit(&head, &call)
        .unwrap()
        .send(head, body)
        .await
        .unwrap();
    answer.into_body().collect().await.unwrap();
}

async fn directly(client: &Client<HttpConnector, Full<Bytes>>, uri: &str) {
    let request = Request::get(uri)
        .header("accept", "application/json")
        .body(Full::<Bytes>::default())
        .unwrap();
    client
        .request(request)
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap();
}

/// CPU time used by this process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

fn compare(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let port = runtime.block_on(serve());
    let folder = tempfile::tempdir().unwrap();
    let signing = gateway(port, Some(token(folder.path())));
    let (gateway, instance) = (gateway(port, None), InstanceRequests::default());
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (named, plain) = (
        format!("http://api.example.com:{port}/v3/x"),
        format!("http://127.0.0.1:{port}/v3/x"),
    );
    let mut group = criterion.benchmark_group("request");
    group.bench_function("hyper", |bench| {
        bench.to_async(&runtime).iter(|| directly(&client, &plain));
    });
    group.bench_function("gateway", |bench| {
        bench
            .to_async(&runtime)
            .iter(|| through(&gateway, &instance, &named));
    });
    group.finish();
    // The search for secrets in a large answer.
    let mut group = criterion.benchmark_group("body");
    let large = format!("http://api.example.com:{port}/v3/large");
    for (name, gateway) in [("plain", &gateway), ("searched", &signing)] {
        group.bench_function(name, |bench| {
            bench
                .to_async(&runtime)
                .iter(|| through(gateway, &instance, &large));
        });
    }
    group.finish();
}

/// CPU time of a request, which Criterion does not measure, with one thread for everything: what
/// it costs to wake another one up depends on the machine's mood, and hides what is measured.
fn cpu_time(_: &mut Criterion) {
    const REQUESTS: u32 = 1000;
    const TURNS: usize = 21;

    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let port = runtime.block_on(serve());
    let (gateway, instance) = (gateway(port, None), InstanceRequests::default());
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (named, plain) = (
        format!("http://api.example.com:{port}/v3/x"),
        format!("http://127.0.0.1:{port}/v3/x"),
    );

    let measure = |run: &dyn Fn()| {
        let before = cpu();
        (0..REQUESTS).for_each(|_| run());
        (cpu() - before) / REQUESTS
    };
    let mut turns: Vec<(Duration, Duration)> = (0..TURNS)
        .map(|_| {
            (
                measure(&|| runtime.block_on(directly(&client, &plain))),
                measure(&|| runtime.block_on(through(&gateway, &instance, &named))),
            )
        })
        .collect();

    let ratio =
        |(hyper, gateway): &(Duration, Duration)| gateway.as_secs_f64() / hyper.as_secs_f64();
    turns.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let median = turns[TURNS / 2];
    println!(
        "the median of {TURNS} turns: {:?} of CPU with hyper, {:?} with the gateway: {:.2}",
        median.0,
        median.1,
        ratio(&median)
    );
}

criterion_group!(benches, compare, cpu_time);
criterion_main!(benches);
