//! Creates the head of a `wasi:http` request.
use wasip2::http::types::{Fields, Method as WasiMethod, OutgoingRequest, Scheme};

use crate::http::Method;
use crate::http::failure::Failure;
use crate::http::prepared::Prepared;

/// Creates a request with method, URL and headers.
pub(super) fn request(method: Method, prepared: &Prepared<'_>) -> Result<OutgoingRequest, Failure> {
    let fields = Fields::new();
    for (name, value) in &prepared.headers {
        fields.append(name, value.as_bytes()).map_err(|error| {
            Failure::Wrong(format!("Skydock rejected the header `{name}`: {error}"))
        })?;
    }

    let request = OutgoingRequest::new(fields);
    let wrong = |what: &'static str| {
        move |()| Failure::Wrong(format!("Skydock rejected the request: {what}"))
    };

    request
        .set_method(&wasi_method(method))
        .map_err(wrong("its method is not known"))?;

    let scheme = if prepared.address.secure {
        Scheme::Https
    } else {
        Scheme::Http
    };
    request
        .set_scheme(Some(&scheme))
        .map_err(wrong("its scheme is not known"))?;

    request
        .set_authority(Some(prepared.address.authority))
        .map_err(wrong("the host in its URL is malformed"))?;

    let path = prepared.address.path_and_query();
    request
        .set_path_with_query(Some(&path))
        .map_err(wrong("the path in its URL is malformed"))?;
    Ok(request)
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
