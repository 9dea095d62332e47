//! `wasi:http/outgoing-handler`: every request goes through the plugin's gateway, which denies requests that no rule allows.

mod bounds;

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use skydock_egress::{Call, Code, Gateway, Instance, Options, Refusal};
use tokio::time::Instant;
use tracing::Level;
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

pub(super) use bounds::{add_to_linker, context};

use super::{Phase, Shared};

/// Message for a guest that sends a request before it is in service.
const NOT_YET: &str = "plugins must not send requests during instantiation, configure and info";

/// One instance's access to the gateway.
pub(super) struct Egress {
    shared: Arc<Shared>,
    generation: u64,
    /// Without a gateway, no request is allowed.
    gateway: Option<Arc<Gateway>>,
    instance: Instance,
    pub(super) phase: Phase,
    /// Deadline of the current call.
    pub(super) deadline: Option<Instant>,
}

type Answer = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<()>> + Send>)>;

impl Egress {
    pub(super) fn new(shared: Arc<Shared>, generation: u64, gateway: Option<Arc<Gateway>>) -> Self {
        Self { shared, generation, gateway, instance: Instance::default(), phase: Phase::Loading, deadline: None }
    }

    /// Returns true if requests are in flight: a call that does not answer is then waiting for the cloud.
    pub(super) fn is_waiting(&self) -> bool {
        self.instance.in_flight() > 0
    }

    fn call(&self, options: Option<RequestOptions>) -> Call<'_> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let options = options.map_or_else(Options::default, |options| Options {
            connect: options.connect_timeout,
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        });
        Call {
            instance: &self.instance,
            phase: match self.phase {
                Phase::Loading => skydock_egress::Phase::Loading,
                Phase::Serving => skydock_egress::Phase::Serving,
            },
            dry_run: self.shared.only_reads,
            left: left.unwrap_or(Duration::ZERO),
            options,
        }
    }

    fn refused(&self, sentence: &str, error: Error) -> Box<dyn Future<Output = Answer> + Send> {
        self.shared.log(self.generation, Level::WARN, "egress", &format!("request denied: {sentence}"));
        Box::new(std::future::ready(Err(error)))
    }

    fn send(
        &self,
        gateway: &Gateway,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        let (head, body) = request.into_parts();
        match gateway.admit(&head, &self.call(options)) {
            Err(_) if self.phase == Phase::Loading => {
                self.refused(NOT_YET, Error::InternalError(Some(NOT_YET.to_owned())))
            }
            Err(refusal) => self.refused(refusal.sentence(), error(&refusal)),
            Ok(admitted) => {
                let (shared, generation) = (Arc::clone(&self.shared), self.generation);
                Box::new(async move {
                    let told = |refusal: &Refusal| {
                        let sentence = format!("request failed: {}", refusal.sentence());
                        shared.log(generation, Level::WARN, "egress", &sentence);
                        error(refusal)
                    };
                    let answer = admitted.send(head, body).await.map_err(|refusal| told(&refusal))?;
                    let answer = answer.map(|body| body.map_err(|refusal| error(&refusal)).boxed_unsync());
                    let sent: Box<dyn Future<Output = Result<()>> + Send> = Box::new(std::future::ready(Ok(())));
                    Ok((answer, sent))
                })
            }
        }
    }
}

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<()>> + Send>,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        match &self.gateway {
            Some(gateway) => self.send(gateway, request, options),
            None => self
                .refused("this plugin has no network access: it runs without egress rules", Error::HttpRequestDenied),
        }
    }

    /// The gateway sets it according to the rule.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        1
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        bounds::CHUNK
    }
}

/// Returns the wasi:http code with the same name.
fn error(refusal: &Refusal) -> Error {
    match refusal.code() {
        Code::DnsTimeout => Error::DnsTimeout,
        Code::DnsError => Error::DnsError { rcode: None, info_code: None },
        Code::DestinationIpProhibited => Error::DestinationIpProhibited,
        Code::DestinationUnavailable => Error::DestinationUnavailable,
        Code::ConnectionRefused => Error::ConnectionRefused,
        Code::ConnectionTerminated => Error::ConnectionTerminated,
        Code::ConnectionTimeout => Error::ConnectionTimeout,
        Code::ConnectionReadTimeout => Error::ConnectionReadTimeout,
        Code::ConnectionWriteTimeout => Error::ConnectionWriteTimeout,
        Code::ConnectionLimitReached => Error::ConnectionLimitReached,
        Code::TlsProtocolError => Error::TlsProtocolError,
        Code::TlsCertificateError => Error::TlsCertificateError,
        Code::HttpRequestDenied => Error::HttpRequestDenied,
        Code::HttpRequestMethodInvalid => Error::HttpRequestMethodInvalid,
        Code::HttpRequestUriInvalid => Error::HttpRequestUriInvalid,
        Code::HttpRequestUriTooLong => Error::HttpRequestUriTooLong,
        Code::HttpRequestBodySize => Error::HttpRequestBodySize(None),
        Code::HttpRequestHeaderSectionSize => Error::HttpRequestHeaderSectionSize(None),
        Code::HttpResponseIncomplete => Error::HttpResponseIncomplete,
        Code::HttpResponseHeaderSectionSize => Error::HttpResponseHeaderSectionSize(None),
        Code::HttpResponseBodySize => Error::HttpResponseBodySize(None),
        Code::HttpResponseContentCoding => Error::HttpResponseContentCoding(None),
        Code::HttpResponseTimeout => Error::HttpResponseTimeout,
        Code::HttpProtocolError => Error::HttpProtocolError,
        // The text is only logged.
        Code::InternalError => Error::InternalError(None),
    }
}
