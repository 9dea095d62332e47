//! One request and its response. Both proceed concurrently, because a cloud may answer before it
//! has read the complete request.
use wasip2::http::outgoing_handler;
use wasip2::http::types::OutgoingRequest;
use wasip2::io::poll::Pollable;

use super::code;
use super::download::Download;
use super::upload::Upload;
use crate::http::Response;
use crate::http::failure::Failure;

/// Both directions. The rest of the upload is dropped before the download.
pub(super) struct Exchange {
    upload: Option<Upload>,
    download: Download,
}

impl Exchange {
    /// Passes the request to the host, without options for its timeouts: the operator's rules
    /// contain those, and the plugin has a deadline for the complete exchange. Besides,
    /// wasmtime-wasi-http 48 never frees options that it is given, which would cost one handle for
    /// each request.
    pub(super) fn begin(
        request: OutgoingRequest,
        body: Vec<u8>,
        at_most: usize,
    ) -> Result<Self, Failure> {
        let upload = if body.is_empty() {
            None
        } else {
            Some(Upload::new(&request, body)?)
        };

        let future =
            outgoing_handler::handle(request, None).map_err(|code| code::failure(&code))?;

        Ok(Self {
            upload,
            download: Download::new(future, at_most),
        })
    }

    /// Continues as far as possible without waiting. Returns the result when the exchange has
    /// ended.
    pub(super) fn step(&mut self) -> Option<Result<Response, Failure>> {
        if let Some(upload) = &mut self.upload
            && upload.step()
            && let Some(upload) = self.upload.take()
            && let Err(failure) = upload.finish()
        {
            return Some(Err(failure));
        }

        self.download.step()
    }

    /// Adds the pollables that the exchange waits for.
    pub(super) fn waits_for<'a>(&'a self, all: &mut Vec<&'a Pollable>) {
        all.extend(self.upload.as_ref().map(Upload::waits_for));
        all.push(self.download.waits_for());
    }
}
