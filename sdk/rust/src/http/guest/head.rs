//! A request without its body, as `wasi:http` takes it.
use std::time::Duration;

use wasip2::http::types::{Fields, Method as WasiMethod, OutgoingRequest, RequestOptions, Scheme};

use crate::http::failure::Failure;
use crate::http::prepared::Prepared;
use crate::http::{Method, time};

/// Method, URL and headers.
pub(super) fn request(method: Method, prepared: &Prepared<'_>) -> Result<OutgoingRequest, Failure> {
    let fields = Fields::new();
    for (name, value) in &prepared.headers {
        fields
            .append(name, value.as_bytes())
            .map_err(|error| Failure::Wrong(format!("the host does not take the header `{name}`: {error}")))?;
    }
    let request = OutgoingRequest::new(fields);
    let wrong =
        |part: &'static str| move |()| Failure::Wrong(format!("the host does not take the {part} of the request"));
    request.set_method(&wasi_method(method)).map_err(wrong("method"))?;
    let scheme = if prepared.address.secure { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).map_err(wrong("scheme"))?;
    request.set_authority(Some(prepared.address.authority)).map_err(wrong("host"))?;
    request.set_path_with_query(Some(&prepared.address.path_and_query())).map_err(wrong("path"))?;
    Ok(request)
}

/// Bounds for what the host sees of a request, the whole of which may take `limit`. A host that has no such option ends it no
/// later: the plugin has a clock of its own.
pub(super) fn options(limit: Duration) -> RequestOptions {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).ok();
    let options = RequestOptions::new();
    let _ = options.set_connect_timeout(nanos(time::CONNECT.min(limit)));
    let _ = options.set_first_byte_timeout(nanos(limit));
    let _ = options.set_between_bytes_timeout(nanos(limit));
    options
}

fn wasi_method(method: Method) -> WasiMethod {
    match method {
        Method::Get => WasiMethod::Get,
        Method::Head => WasiMethod::Head,
        Method::Post => WasiMethod::Post,
        Method::Put => WasiMethod::Put,
        Method::Patch => WasiMethod::Patch,
        Method::Delete => WasiMethod::Delete,
        Method::Options => WasiMethod::Options,
    }
}
