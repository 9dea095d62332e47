//! Limits for the parts of a request that the host keeps for a guest.
//!
//! A request and its parts stay in the host until they are sent or dropped. wasmtime limits their
//! number, and the size of most parts; the parts whose size it does not limit are limited here.
//! Together, these limits ensure that a handle keeps at most
//! [`handles::BYTES`](crate::imports::handles) in memory.

use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource},
};
use wasmtime_wasi_http::{
    RequestOptions, WasiHttpCtx, WasiHttpView as _,
    p2::{
        add_only_http_to_linker_async,
        bindings::http::{
            outgoing_handler::Host as _,
            types::{HostOutgoingRequest as _, IoError, Method},
        },
        types::HostOutgoingRequest,
    },
};

use super::ended;
use crate::{call_error::Oversized, imports::State};

/// Bytes of one chunk of a request's body. At most two chunks wait in the host; the rest stays in
/// the guest until they are sent.
pub(super) const CHUNK: usize = 16 << 10;

/// Maximum bytes of headers or trailers, including overhead: the limit of most servers.
const FIELDS: usize = 16 << 10;

/// Maximum bytes of a method. The longest registered one has 17.
const METHOD: usize = 32;

/// Maximum bytes of host and port: a DNS name with a port has up to 259.
const AUTHORITY: usize = 512;

/// Maximum bytes of path and query: the limit of most servers.
const PATH: usize = 8 << 10;

/// The interface whose functions are replaced.
const INTERFACE: &str = "wasi:http/types@0.2.12";

/// The interface that sends requests.
const HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// Returns the state of `wasi:http` for one instance.
pub(in crate::imports) fn context() -> WasiHttpCtx {
    let mut context = WasiHttpCtx::new();
    context.set_field_size_limit(FIELDS);
    context
}

/// Links `wasi:http` for outgoing requests.
pub(in crate::imports) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);

    let mut types = linker.instance(INTERFACE)?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut call: Call<'_>, (request, method): Set<Method>| {
            if let Method::Other(name) = &method {
                bounded("method", name, METHOD)?;
            }
            Ok((call.data_mut().http().set_method(request, method)?,))
        },
    )?;

    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut call: Call<'_>, (request, name): Set<Text>| {
            bounded("authority", name.as_deref().unwrap_or_default(), AUTHORITY)?;
            Ok((call.data_mut().http().set_authority(request, name)?,))
        },
    )?;

    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut call: Call<'_>, (request, path): Set<Text>| {
            bounded("path", path.as_deref().unwrap_or_default(), PATH)?;
            Ok((call.data_mut().http().set_path_with_query(request, path)?,))
        },
    )?;

    types.func_wrap(
        "http-error-code",
        |mut call: Call<'_>, (error,): (Resource<IoError>,)| {
            Ok((ended::code(call.data_mut().http().table.get(&error)?),))
        },
    )?;

    let mut handler = linker.instance(HANDLER)?;
    handler.func_wrap(
        "handle",
        |mut call: Call<'_>, (request, options): Handed| {
            let state = call.data_mut();
            // `handle` consumes its options, which are still needed to delete them.
            let lent = options
                .as_ref()
                .map(|options| Resource::new_own(options.rep()));

            let sent = state.http().handle(request, lent);
            // wasmtime-wasi-http 48.0.8 reads the options, but does not delete them.
            options
                .map(|options| state.http().table.delete(options))
                .transpose()?;

            let answer = match sent {
                Ok(answer) => Ok(answer),
                Err(error) => Err(error.downcast()?),
            };

            Ok((answer,))
        },
    )?;

    linker.allow_shadowing(false);
    Ok(())
}

type Call<'a> = StoreContextMut<'a, State>;
type Handed = (
    Resource<HostOutgoingRequest>,
    Option<Resource<RequestOptions>>,
);
type Set<T> = (Resource<HostOutgoingRequest>, T);
type Text = Option<String>;

/// Returns an error that ends the call: a guest could not correct a part that is far too large.
fn bounded(part: &'static str, text: &str, limit: usize) -> Result<(), Oversized> {
    if text.len() > limit {
        Err(Oversized {
            part,
            size: text.len(),
            limit,
        })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_request_has_a_size_limit() {
        assert_eq!(bounded("method", &"M".repeat(METHOD), METHOD), Ok(()));
        let error = bounded("method", &"M".repeat(METHOD + 1), METHOD).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a request with a method of 33 bytes, but at most 32 are allowed"
        );
    }

    #[test]
    fn the_contract_documents_the_request_limits() {
        let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
        assert_eq!(
            crate::contract::documented::documented("limits-request"),
            [
                format!("{METHOD} bytes"),
                format!("{AUTHORITY} bytes"),
                kib(PATH),
                kib(FIELDS),
                kib(CHUNK),
            ]
        );
    }
}
