//! One request and its answer. Both go on at once: a cloud may answer before it has read everything.
use wasip2::http::outgoing_handler;
use wasip2::http::types::OutgoingRequest;
use wasip2::io::poll::Pollable;

use super::code;
use super::download::Download;
use super::upload::Upload;
use crate::http::Response;
use crate::http::failure::Failure;

/// Both directions. What is left of the upload is dropped before the download.
pub(super) struct Exchange {
    upload: Option<Upload>,
    download: Download,
}

impl Exchange {
    /// Hands the request to the host, without options for its timeouts: the operator's rules have those, the plugin has a clock
    /// for the whole, and wasmtime-wasi-http 48 never lets go of options it was given, which would cost a handle a request.
    pub(super) fn begin(request: OutgoingRequest, body: Vec<u8>, at_most: usize) -> Result<Self, Failure> {
        let upload = if body.is_empty() { None } else { Some(Upload::new(&request, body)?) };
        let future = outgoing_handler::handle(request, None).map_err(|code| code::failure(&code))?;
        Ok(Self { upload, download: Download::new(future, at_most) })
    }

    /// Goes as far as it can without waiting; answers if it is over.
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

    /// Adds what it waits for.
    pub(super) fn waits_for<'a>(&'a self, all: &mut Vec<&'a Pollable>) {
        all.extend(self.upload.as_ref().map(Upload::waits_for));
        all.push(self.download.waits_for());
    }
}
