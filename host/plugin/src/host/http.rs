//! `wasi:http/outgoing-handler`: deny by default.

mod bounds;

use std::sync::Arc;

use skydock_egress::{Host, Rules, Scheme, Target};
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

pub(crate) use bounds::Oversized;
pub(super) use bounds::{add_to_linker, context};

use super::{Phase, Shared};
use crate::bindings::wasi::logging::logging::Level;

/// What the guest is told of a request before it is in service.
const NOT_YET: &str = "the cloud must not be called while a plugin is made, in configure and in info";

/// Puts every request to the rules. There are none yet, and so no client either.
pub(super) struct Egress {
    shared: Arc<Shared>,
    generation: u64,
    pub(super) phase: Phase,
    rules: Rules,
}

impl Egress {
    pub(super) fn new(shared: Arc<Shared>, generation: u64) -> Self {
        Self { shared, generation, phase: Phase::Loading, rules: Rules::default() }
    }

    /// Why the request may not be sent: a metric label and a sentence.
    fn refusal(&self, uri: &http::Uri) -> (&'static str, String) {
        match target(uri) {
            None => ("malformed", "the request has no host a rule could name".to_owned()),
            Some(target) => match self.rules.check(&target) {
                Err(denied) => ("no_rule", denied.to_string()),
                Ok(()) => ("no_client", format!("this host sends no requests, though a rule permits {target}")),
            },
        }
    }
}

type Answer = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<()>> + Send>)>;

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<()>> + Send>,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        let (reason, sentence) = match self.phase {
            Phase::Loading => ("loading", NOT_YET.to_owned()),
            Phase::Serving => self.refusal(request.uri()),
        };
        self.shared.metrics.egress_denied(&self.shared.plugin, reason);
        self.shared.log(self.generation, Level::Warn, "egress", &format!("request refused: {sentence}"));
        let error = match self.phase {
            Phase::Loading => Error::InternalError(Some(NOT_YET.to_owned())),
            Phase::Serving => Error::HttpRequestDenied,
        };
        Box::new(std::future::ready(Err(error)))
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        1
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        bounds::CHUNK
    }
}

fn target(uri: &http::Uri) -> Option<Target> {
    let scheme = Scheme::parse(uri.scheme_str()?)?;
    let host = Host::parse(uri.host()?)?;
    let port = uri.port_u16().unwrap_or(match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    });
    Some(Target { scheme, host, port })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty};
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;
    use crate::{ClusterSlot, Limits, PluginMetrics, PluginSource, runtime::Ticker};

    #[test]
    fn a_request_is_told_by_scheme_host_and_port() {
        let table = [
            ("https://API.example.com/v1?x", Some("https://api.example.com:443")),
            ("http://[::1]:8080/", Some("http://[::1]:8080")),
            ("http://169.254.169.254/latest/meta-data", Some("http://169.254.169.254:80")),
            ("http://user:secret@127.0.0.1/", Some("http://127.0.0.1:80")),
            ("http://2130706433/", None),
            ("/relative", None),
        ];
        for (uri, expected) in table {
            let found = target(&uri.parse().expect(uri)).map(|target| target.to_string());
            assert_eq!(found.as_deref(), expected, "{uri}");
        }
    }

    // Holds: SEC-03, OPS-57
    #[tokio::test]
    async fn every_request_is_refused_and_counted() {
        let mut registry = Registry::default();
        let limits = Limits::default();
        let source = PluginSource { name: "test".into(), ..PluginSource::default() };
        let metrics = PluginMetrics::register(&mut registry);
        let ticker = Ticker::start(|| true).unwrap();
        let shared = Arc::new(Shared::new(&source, limits, metrics, ClusterSlot::default(), ticker));
        let mut egress = Egress::new(shared, 1);
        egress.phase = Phase::Serving;
        for uri in ["https://api.example.com/", "http://169.254.169.254/latest", "http://127.0.0.1:6443/", "/relative"]
        {
            let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
            let request = http::Request::builder().uri(uri).body(body).unwrap();
            let sent = egress.send_request(request, None, Box::new(std::future::ready(Ok(()))));
            assert!(matches!(Box::into_pin(sent).await, Err(Error::HttpRequestDenied)), "{uri}");
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for (kind, count) in [("no_rule", 3), ("malformed", 1)] {
            let line = format!("skydock_plugin_egress_denied_total{{plugin=\"test\",kind=\"{kind}\"}} {count}");
            assert!(text.lines().any(|other| other == line), "{line} is missing in:\n{text}");
        }
    }
}
