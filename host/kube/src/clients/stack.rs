//! The HTTP stack for requests to the API server: that of kube, but with HTTP/2, which kube cannot
//! enable.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config, Error,
    client::{Body, ClientBuilder, ConfigExt as _, DynBody, RustlsTlsError, retry::RetryPolicy},
};
use tower::{
    BoxError, Layer as _, ServiceBuilder, ServiceExt as _, layer::layer_fn, retry::RetryLayer,
    util::BoxService,
};

use super::{
    metrics::{Measure, count_retries},
    read_ahead::{ReadAheadConnector, read_ahead},
    unprocessed::Unprocessed,
};

/// After this time without data, a connection is checked by a ping. A dead connection blocks all
/// requests that share it. client-go uses 30 s and 15 s, which is long; pings are cheap.
const PING: Duration = Duration::from_secs(10);
/// The connection is closed if there is no answer to the ping within this time.
const PONG: Duration = Duration::from_secs(5);

/// Maximum bytes of an HTTP/2 frame. The API server sends each frame on its own: by default they are
/// smaller than an event of a watch with a typical kubelet's node, which has some 20 KiB.
const MAX_FRAME: u32 = 64 << 10;

/// What sends requests.
type Boxed = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;
/// The builder of a client.
pub(super) type Stack = ClientBuilder<Boxed>;

/// Creates the stack. All requests and watches share a connection if the server supports HTTP/2;
/// otherwise each takes one from a pool.
///
/// # Errors
/// If TLS or the credentials in the configuration do not work.
pub(super) fn shared(config: Config) -> Result<Stack, Error> {
    let measure = Measure::requests_to(&config.cluster_url);

    // Only kube's own stack, which uses HTTP/1.1, supports proxies and exec plugins.
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        let measured = layer_fn(|service: Boxed| Boxed::new(measure.layer(service)));
        return Ok(ClientBuilder::try_from(config)?.with_layer(&measured));
    }

    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        // Otherwise a request that times out on a dead connection would be retried on another idle
        // one that is dead too.
        .http2_keep_alive_while_idle(true)
        .http2_max_frame_size(MAX_FRAME)
        .build::<_, Body>(connector(&config)?);

    let service = ServiceBuilder::new()
        .map_request(count_retries)
        .layer(config.base_uri_layer())
        .option_layer(
            config
                .default_retry
                .then(|| RetryLayer::new(RetryPolicy::server_retry())),
        )
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(|request: Request<Body>| {
            tracing::debug!(method = %request.method(), path = %request.uri(), "requesting");
            request
        })
        // What the server has not processed is sent again, as by Go's client.
        .layer(RetryLayer::new(Unprocessed::default()))
        .layer(measure)
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response| {
            response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        })
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace))
}

type Connector = TimeoutConnector<hyper_rustls::HttpsConnector<ReadAheadConnector>>;

fn connector(config: &Config) -> Result<Connector, Error> {
    let mut tls = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();

    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(RustlsTlsError::InvalidServerName)
            .map_err(Error::RustlsTls)?;
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
    }

    let mut tcp = HttpConnector::new();
    // Otherwise, it rejects the https URLs that TLS passes on.
    tcp.enforce_http(false);

    // Small frames of one request must not wait for acknowledgments of others.
    tcp.set_nodelay(true);

    // TCP keepalive is the counterpart of HTTP/2 pings, but is answered by the other machine and
    // not by its server.
    tcp.set_keepalive(Some(PING));
    tcp.set_keepalive_interval(Some(PONG));
    tcp.set_keepalive_retries(Some(1));

    let tls = tls.enable_all_versions().wrap_connector(read_ahead(tcp));
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(config.connect_timeout);
    Ok(connector)
}
