//! `wasi:http/outgoing-handler`: every request goes through the plugin's gateway, which denies
//! requests that no rule allows.

mod bounds;
mod ended;
mod exchange;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use skydock_cloud::Capability;
use skydock_egress::{About, Call, Code, Gateway, InstanceRequests, Options, RequestError};
use skydock_recording::Tape;
use tokio::time::Instant;
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks};

pub(super) use bounds::{add_to_linker, context};

use super::{InstancePhase, PluginData};

/// One instance's access to the gateway.
pub(super) struct Egress {
    shared: Arc<PluginData>,
    generation: u64,
    /// Without a gateway, no request is allowed.
    gateway: Option<Arc<Gateway>>,
    instance: InstanceRequests,
    /// Set by `State::http` before each request, like the deadline.
    pub(super) phase: InstancePhase,
    /// Deadline of the current call.
    pub(super) deadline: Option<Instant>,
    tape: Option<Tape>,
}

type Answer = Result<(
    http::Response<WasiBody>,
    Box<dyn Future<Output = Result<()>> + Send>,
)>;

/// Why a request failed, as the guest sees it.
#[derive(Clone, Debug)]
struct Failure {
    code: Code,
    message: Option<String>,
}

impl Failure {
    fn of(error: &RequestError) -> Self {
        Self {
            code: error.code(),
            message: None,
        }
    }
}

/// A response as the guest sees it, later.
type Sent = BoxFuture<'static, Result<http::Response<Body>, Failure>>;
type Body = UnsyncBoxBody<bytes::Bytes, Failure>;

impl Egress {
    pub(super) fn new(
        shared: Arc<PluginData>,
        generation: u64,
        gateway: Option<Arc<Gateway>>,
        tape: Option<Tape>,
    ) -> Self {
        let instance = InstanceRequests::default();
        let phase = InstancePhase::Loading;

        Self {
            shared,
            generation,
            gateway,
            instance,
            phase,
            deadline: None,
            tape,
        }
    }

    /// Returns true if requests are in flight: a call that does not answer is then waiting for the
    /// cloud.
    pub(super) fn is_waiting(&self) -> bool {
        self.instance.in_flight() > 0
    }

    fn call(&self, options: Option<RequestOptions>) -> Call<'_> {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));

        let options = options.map_or_else(Options::default, |options| Options {
            connect: options.connect_timeout,
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        });

        let (phase, capability) = match self.phase {
            // Its requests are denied, whatever they are for.
            InstancePhase::Loading => (
                skydock_egress::PluginPhase::Loading,
                Capability::Maintenance,
            ),
            InstancePhase::Serving(capability) => {
                (skydock_egress::PluginPhase::Serving, capability)
            }
        };

        Call {
            instance: &self.instance,
            phase,
            capability,
            dry_run: self.shared.only_reads,
            left: left.unwrap_or(Duration::ZERO),
            options,
        }
    }

    fn denied(&self, about: Option<&About>, sentence: &str, failure: Failure) -> Sent {
        self.shared.log_request(
            self.generation,
            about,
            &format!("request denied: {sentence}"),
        );
        Box::pin(std::future::ready(Err(failure)))
    }

    fn send(&self, request: http::Request<WasiBody>, options: Option<RequestOptions>) -> Sent {
        let Some(gateway) = &self.gateway else {
            let failure = Failure {
                code: Code::HttpRequestDenied,
                message: None,
            };
            return self.denied(
                None,
                "this plugin has no network access: it runs without egress rules",
                failure,
            );
        };

        let (head, body) = request.into_parts();
        match gateway.admit(&head, &self.call(options)) {
            // A sentence for the author of the plugin: no rule of the operator would help.
            Err(error) if self.phase == InstancePhase::Loading => {
                let failure = Failure {
                    code: Code::InternalError,
                    message: Some(error.sentence().to_owned()),
                };
                self.denied(error.about(), error.sentence(), failure)
            }
            Err(error) => self.denied(error.about(), error.sentence(), Failure::of(&error)),
            Ok(admitted) => {
                let shared = Arc::clone(&self.shared);
                let generation = self.generation;

                Box::pin(async move {
                    let failed = |error: &RequestError| {
                        let sentence = format!("request failed: {}", error.sentence());
                        shared.log_request(generation, error.about(), &sentence);
                        Failure::of(error)
                    };

                    let answer = admitted
                        .send(head, body)
                        .await
                        .map_err(|error| failed(&error))?;

                    Ok(answer.map(|body| body.map_err(|error| Failure::of(&error)).boxed_unsync()))
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
        let sent = match &self.tape {
            None => self.send(request, options),
            Some(Tape::Recording(recorder)) => {
                let gateway = self.gateway.clone();
                let secrets = move || gateway.map(|it| it.secrets()).unwrap_or_default();
                exchange::record(recorder, request, options, secrets, |it| {
                    self.send(it, options)
                })
            }
            Some(Tape::Playing(player)) => exchange::play(player, request, options),
        };

        Box::new(async move {
            let answer = sent.await.map_err(error)?;
            let answer = answer.map(|body| body.map_err(error).boxed_unsync());
            let sent: Box<dyn Future<Output = Result<()>> + Send> =
                Box::new(std::future::ready(Ok(())));

            Ok((answer, sent))
        })
    }

    /// The gateway sets it to the target of the request.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        // One waits while another one is sent: a handle keeps at most two chunks.
        1
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        bounds::CHUNK
    }
}

/// Returns the wasi:http code with the same name.
fn error(failure: Failure) -> Error {
    match failure.code {
        Code::DnsTimeout => Error::DnsTimeout,
        Code::DnsError => Error::DnsError {
            rcode: None,
            info_code: None,
        },
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
        Code::InternalError => Error::InternalError(failure.message),
    }
}
