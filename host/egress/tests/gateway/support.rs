//! Servers, resolvers and plugins for tests.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_cloud::{CallKind, Capability};
use skydock_credentials::Credential;
use skydock_egress::{
    Call, ClusterAddresses, EgressMetrics, Gateway, GatewayDependencies, InstanceRequests, Options,
    PluginPhase, RequestError, Resolver, ResponseBody, Settings,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Longer than any test waits.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts an HTTP/1.1 server.
    pub(crate) async fn http<F>(
        answer: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        Self::raw(move |stream| {
            let answer = answer.clone();
            async move {
                let service = service_fn(move |request| {
                    let answer = answer(request);
                    async move { Ok::<_, std::convert::Infallible>(answer.await) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        })
        .await
    }

    /// Starts a server that always answers 200.
    pub(crate) async fn plain() -> Self {
        Self::http(|_| async { Response::new(Full::default()) }).await
    }

    /// Starts a server that calls `serve` for each connection.
    pub(crate) async fn raw<F>(
        serve: impl Fn(TcpStream) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let task = tokio::spawn({
            let connections = connections.clone();
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream));
                }
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    /// Starts a server that reads the head of a request and then writes these pieces, each after
    /// the given number of milliseconds.
    pub(crate) async fn script(pieces: &'static [(u64, &'static str)], then_close: bool) -> Self {
        Self::raw(move |mut stream| async move {
            let mut head = vec![0; 16 * 1024];
            let _ = stream.read(&mut head).await;
            for (pause, piece) in pieces {
                tokio::time::sleep(Duration::from_millis(*pause)).await;
                if stream.write_all(piece.as_bytes()).await.is_err() {
                    return;
                }
            }
            if !then_close {
                tokio::time::sleep(LONG).await;
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A resolver with fixed answers. A name with several lists resolves to the next one each time.
#[derive(Default)]
pub(crate) struct Names {
    lists: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    pub(crate) fn with(self, name: &str, lists: &[&[&str]]) -> Self {
        let lists = lists
            .iter()
            .map(|list| list.iter().map(|it| it.parse().unwrap()).collect())
            .collect();
        self.lists.lock().unwrap().insert(name.to_owned(), lists);
        self
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str, _: CallKind) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if name.starts_with("never") {
            std::future::pending::<()>().await;
        }
        let mut lists = self.lists.lock().unwrap();
        let list = lists
            .get_mut(name)
            .ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if list.len() > 1 {
            list.remove(0)
        } else {
            list[0].clone()
        })
    }
}

/// A plugin with one instance.
pub(crate) struct Plugin {
    pub(crate) gateway: Gateway,
    pub(crate) instance: InstanceRequests,
    pub(crate) names: Arc<Names>,
    registry: Registry,
}

/// Parses rules in YAML; `PORT` is replaced by the port.
pub(crate) fn settings(
    rules: &str,
    port: u16,
    credential: Option<Arc<dyn Credential>>,
) -> Settings {
    let rules = rules.replace("PORT", &port.to_string());
    let credentials = credential
        .into_iter()
        .map(|it| (it.name().to_owned(), it))
        .collect::<BTreeMap<_, _>>();
    Settings {
        rules: serde_saphyr::from_str(&rules).expect(&rules),
        credentials,
        ..Settings::default()
    }
}

impl Plugin {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::with(
            settings,
            Names::default().with("api.example.com", &[&["127.0.0.1"]]),
            ClusterAddresses::default(),
        )
    }

    pub(crate) fn with(settings: &Settings, names: Names, closed: ClusterAddresses) -> Self {
        let mut registry = Registry::default();
        let names = Arc::new(names);
        let dependencies = GatewayDependencies {
            resolver: names.clone(),
            closed: Arc::new(move || closed.clone()),
            metrics: EgressMetrics::register(&mut registry),
            ..GatewayDependencies::default()
        };
        let gateway = Gateway::new("test", settings, dependencies)
            .unwrap_or_else(|errors| panic!("{errors}"));
        // Unless a test says otherwise, it has one capability, which may use everything.
        gateway.serves(&[Capability::Instances].into());
        Self {
            gateway,
            instance: InstanceRequests::default(),
            names,
            registry,
        }
    }

    /// Creates a plugin with one rule, which has these fields, for api.example.com and the port of
    /// the server.
    pub(crate) fn to(server: &Server, fields: &str) -> Self {
        Self::new(&settings(&rule(fields), server.port(), None))
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call {
            instance: &self.instance,
            phase: PluginPhase::Serving,
            capability: Capability::Instances,
            dry_run: false,
            left: LONG,
            options: Options::default(),
        }
    }

    pub(crate) async fn send(
        &self,
        request: Request<&str>,
    ) -> Result<Response<ResponseBody>, RequestError> {
        self.send_in(&self.call(), request).await
    }

    pub(crate) async fn send_in(
        &self,
        call: &Call<'_>,
        request: Request<&str>,
    ) -> Result<Response<ResponseBody>, RequestError> {
        let (head, body) = request.into_parts();
        self.send_body(
            call,
            head,
            Full::new(Bytes::copy_from_slice(body.as_bytes())),
        )
        .await
    }

    pub(crate) async fn send_body<B>(
        &self,
        call: &Call<'_>,
        head: Parts,
        body: B,
    ) -> Result<Response<ResponseBody>, RequestError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.gateway.admit(&head, call)?.send(head, body).await
    }

    /// Returns the status and the complete body.
    pub(crate) async fn fetch(&self, request: Request<&str>) -> Result<(u16, Bytes), RequestError> {
        read(self.send(request).await?).await
    }

    /// Returns the value of a metric, by its line without the prefix of the name.
    pub(crate) fn metric(&self, start: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let start = format!("skydock_egress_{start} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |number| {
            number.parse().unwrap_or_else(|_| panic!("{start}{number}"))
        })
    }

    pub(crate) fn denials(&self, rule: &str, reason: &str) -> u64 {
        self.metric(&format!(
            "denials_total{{plugin=\"test\",rule=\"{rule}\",reason=\"{reason}\"}}"
        ))
    }
}

pub(crate) async fn read(response: Response<ResponseBody>) -> Result<(u16, Bytes), RequestError> {
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// Returns a rule for api.example.com over plain HTTP that opens loopback.
pub(crate) fn rule(fields: &str) -> String {
    format!(
        "[{{name: api, to: 'http://api.example.com:PORT', addresses: [127.0.0.1/32], {fields}}}]"
    )
}

pub(crate) fn get(server: &Server, path: &str) -> Request<&'static str> {
    request("GET", server, path)
}

pub(crate) fn request(method: &str, server: &Server, path: &str) -> Request<&'static str> {
    let uri = format!("http://api.example.com:{}{path}", server.port());
    Request::builder().method(method).uri(uri).body("").unwrap()
}

pub(crate) fn post(server: &Server, path: &str, body: &'static str) -> Request<&'static str> {
    request("POST", server, path).map(|_| body)
}
