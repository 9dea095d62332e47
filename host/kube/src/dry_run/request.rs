//! Turns requests into dry runs.
//!
//! Where the API server reads `dryRun` depends on the verb: for deletions from the body if there is
//! one, otherwise from the query; for all other writes from the query only. Some subresources
//! ignore it. Therefore only known kinds of requests are sent; any other request fails in a dry run
//! until it is added here.

use http::{Method, Uri};
use serde_json::{Map, Value, json};

/// What to do with a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// The request changes nothing; send it as it is.
    Read,
    /// The request publishes an event; do not send it.
    Event,
    /// Send the request to this URI.
    DryRunInQuery(Uri),
    /// Send the request with this body.
    DryRunInBody(Vec<u8>),
}

/// A request that cannot be sent as a dry run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dry run: {method} {path} was not sent: {why}; this is a bug, please report it")]
pub(super) struct Unsupported {
    method: Method,
    path: String,
    why: &'static str,
}

/// Decides what to do with a request.
///
/// # Errors
///
/// Returns an error if it is not known how to send the request as a dry run.
pub(super) fn action(method: &Method, uri: &Uri, body: &[u8]) -> Result<Action, Unsupported> {
    let unsupported = |why| Unsupported {
        method: method.clone(),
        path: uri.path().to_owned(),
        why,
    };

    let target = Target::parse(uri.path());
    let plain = target
        .as_ref()
        .is_some_and(|target| matches!(target.subresource, None | Some("status" | "approval")));

    match (method, target) {
        // Paths without a resource, for example `/version`.
        (&Method::GET, None) => Ok(Action::Read),
        (&Method::GET, Some(_)) if plain => Ok(Action::Read),
        (
            &Method::POST,
            Some(Target {
                is_event: true,
                name: None,
                ..
            }),
        )
        | (
            &Method::PATCH,
            Some(Target {
                is_event: true,
                name: Some(_),
                subresource: None,
                ..
            }),
        ) => Ok(Action::Event),
        (&Method::POST, Some(Target { name: None, .. }))
        | (&Method::PUT | &Method::PATCH, Some(Target { name: Some(_), .. }))
            if plain =>
        {
            let uri =
                with_dry_run(uri).map_err(|_| unsupported("its address cannot be changed"))?;
            Ok(Action::DryRunInQuery(uri))
        }
        (
            &Method::DELETE,
            Some(Target {
                name: Some(_),
                subresource: None,
                ..
            }),
        ) => delete_options(body)
            .map(Action::DryRunInBody)
            .ok_or_else(|| unsupported("its body is not a JSON object")),
        _ => Err(unsupported(
            "it is not known whether the API server supports a dry run of it",
        )),
    }
}

/// Parts of a request's path.
struct Target<'a> {
    is_event: bool,
    /// Name of the object; `None` for a collection.
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Returns `None` if the path is not that of a resource.
    fn parse(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", "v1", rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return None,
        };

        let rest = match rest {
            // These two belong to the Namespace itself.
            ["namespaces", _, "status" | "finalize"] => rest,
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };

        let mut rest = rest.iter().copied();
        let resource = rest.next()?;
        let is_event = resource == "events" && matches!(group, "" | "events.k8s.io");
        let name = rest.next();
        let subresource = rest.next();

        // Longer paths belong to a proxy.
        let subresource = if rest.next().is_some() {
            Some("…")
        } else {
            subresource
        };

        Some(Self {
            is_event,
            name,
            subresource,
        })
    }
}

/// Adds `dryRun=All` to the query, and removes other values of `dryRun`.
fn with_dry_run(uri: &Uri) -> Result<Uri, http::uri::InvalidUri> {
    let path = uri.path();
    let query = uri.query().unwrap_or_default();
    let kept = query
        .split('&')
        .filter(|pair| !pair.is_empty() && pair.split('=').next() != Some("dryRun"));
    let query: Vec<&str> = kept.chain(["dryRun=All"]).collect();
    format!("{path}?{}", query.join("&")).parse()
}

/// Adds `dryRun` to the options of a deletion; returns `None` if they cannot be parsed.
fn delete_options(body: &[u8]) -> Option<Vec<u8>> {
    let mut options: Map<String, Value> = if body.is_empty() {
        Map::new()
    } else {
        serde_json::from_slice(body).ok()?
    };
    options.insert("dryRun".to_owned(), json!(["All"]));
    Some(Value::Object(options).to_string().into_bytes())
}

#[cfg(test)]
mod tests;
