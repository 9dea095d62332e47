//! Requests to the cloud: where its services are, how lists are read page by page, and what its errors mean.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use skydock_sdk::{
    Result,
    http::{self, Method, Request, Response},
    types::CloudError,
};

use crate::{config::Config, host::Host};

mod catalog;
mod error;
mod version;

pub use catalog::Kind;
pub use error::explain;
pub(crate) use error::text;
pub use version::Features;

/// Requests in the air at once, for what is asked of many things one by one.
const AT_ONCE: usize = 16;

/// How long the catalogue, versions and extensions are believed.
pub(crate) const BELIEVED: Duration = Duration::from_secs(900);

/// Most pages of one list; more are a list without an end.
const PAGES: usize = 1000;

/// The cloud as one call sees it.
pub struct Cloud<'a> {
    /// What the operator wants.
    pub config: &'a Config,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// The host.
    pub host: &'a dyn Host,
    endpoints: OnceCell<BTreeMap<Kind, String>>,
}

impl std::fmt::Debug for Cloud<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cloud").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// A request, and what it is for: the beginning of a message if it fails.
#[derive(Debug)]
pub struct Ask {
    request: Request,
    what: String,
}

impl<'a> Cloud<'a> {
    /// The cloud of this configuration.
    #[must_use]
    pub fn new(config: &'a Config, cluster: &'a str, host: &'a dyn Host) -> Self {
        Self { config, cluster, host, endpoints: OnceCell::new() }
    }

    /// Address of a resource: `path` begins with `/`.
    ///
    /// # Errors
    /// If the catalogue cannot be read, or does not have the service.
    pub fn url(&self, kind: Kind, path: &str) -> Result<String> {
        let endpoints = if let Some(endpoints) = self.endpoints.get() {
            endpoints
        } else {
            let read = self.read_catalog()?;
            self.endpoints.get_or_init(|| read)
        };
        let missing = || {
            let region = &self.config.global.region;
            CloudError::invalid(format!(
                "the catalogue of Keystone has no {} endpoint of service `{}` in region `{region}`",
                self.config.global.interface.name(),
                kind.service_type()
            ))
        };
        endpoints.get(&kind).map(|base| format!("{base}{path}")).ok_or_else(missing)
    }

    /// True if the catalogue has this service.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn has(&self, kind: Kind) -> Result<bool> {
        match self.url(kind, "") {
            Ok(_) => Ok(true),
            Err(CloudError::Invalid(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A request to a service.
    ///
    /// # Errors
    /// As [`url`](Self::url).
    pub fn ask(&self, method: Method, kind: Kind, path: &str, what: impl Into<String>) -> Result<Ask> {
        let request = Request::new(method, self.url(kind, path)?).timeout(self.config.request_timeout);
        let request = match kind {
            // With the flavor's name inside, which stays known when the flavor is gone.
            Kind::Compute => request.header("OpenStack-API-Version", "compute 2.47"),
            Kind::Network | Kind::LoadBalancer | Kind::KeyManager => request,
        };
        Ok(Ask { request: request.header("Accept", "application/json"), what: what.into() })
    }

    /// Reads one thing.
    ///
    /// # Errors
    /// What the cloud says.
    pub fn get<T: DeserializeOwned>(&self, kind: Kind, path: &str, what: &str) -> Result<T> {
        self.ask(Method::Get, kind, path, what)?.send()?.json()
    }

    /// Reads a list, page by page: `path` ends in the name of the collection.
    ///
    /// # Errors
    /// What the cloud says.
    pub fn list<T: DeserializeOwned>(&self, kind: Kind, path: &str, query: Query<'_>) -> Result<Vec<T>> {
        self.lists(kind, path, &[query]).map(|lists| lists.into_iter().flatten().collect())
    }

    /// Reads several lists of one collection at once.
    ///
    /// # Errors
    /// What the cloud says of the first that fails.
    pub fn lists<T: DeserializeOwned>(&self, kind: Kind, path: &str, queries: &[Query<'_>]) -> Result<Vec<Vec<T>>> {
        // Neutron's addresses have dashes where its bodies have underscores.
        let collection = path.rsplit('/').find(|part| *part != "detail").unwrap_or_default().replace('-', "_");
        let collection = collection.as_str();
        let what = format!("cannot list {collection}");
        let ask = |query: &Query<'_>| Ok(self.ask(Method::Get, kind, path, what.as_str())?.query(query));
        let first: Vec<Ask> = queries.iter().map(ask).collect::<Result<_>>()?;
        let mut lists = Vec::new();
        for (answer, query) in send_all(first).into_iter().zip(queries) {
            let (mut items, mut next) = page(&answer.map_err(is_there)?, collection)?;
            for _ in 0..PAGES {
                let Some(marker) = next else { break };
                let answer = ask(query)?.query(&[("marker", marker.as_str())]).send().map_err(is_there)?;
                let (more, after) = page(&answer, collection)?;
                // A marker that comes again would go round for ever.
                next = after.filter(|after| *after != marker);
                items.extend(more);
            }
            lists.push(items);
        }
        Ok(lists)
    }
}

impl Ask {
    /// At another address.
    fn at(mut self, url: String) -> Self {
        self.request.url = url;
        self
    }

    /// With parameters in the address.
    #[must_use]
    pub fn query(mut self, pairs: &[(&str, &str)]) -> Self {
        self.request = self.request.query(pairs.iter().copied());
        self
    }

    /// With a body.
    ///
    /// # Errors
    /// If the body cannot be written.
    pub fn json(mut self, body: &Value) -> Result<Self> {
        self.request = self.request.json(body)?;
        Ok(self)
    }

    /// Only if the resource has this revision still: lost updates of Neutron's resources are told, not made.
    #[must_use]
    pub fn if_revision(mut self, revision: Option<u64>) -> Self {
        if let Some(revision) = revision {
            self.request = self.request.header("If-Match", format!("revision_number={revision}"));
        }
        self
    }

    /// Sends it.
    ///
    /// # Errors
    /// What the cloud says.
    pub fn send(self) -> Result<Response> {
        explain(&self.what, http::send(self.request))
    }

    /// Sends it. Of what the cloud itself says that it is not there, by a fault of this name, the answer is none; what a proxy on the way
    /// does not find proves nothing.
    ///
    /// # Errors
    /// What the cloud says.
    pub fn send_for(self, fault: &str) -> Result<Option<Response>> {
        found(http::send(self.request), &self.what, fault)
    }
}

/// As [`send_all`], each as [`Ask::send_for`].
pub fn send_all_for(asks: Vec<Ask>, fault: &str) -> Vec<Result<Option<Response>>> {
    let (requests, whats): (Vec<_>, Vec<_>) = asks.into_iter().map(|ask| (ask.request, ask.what)).unzip();
    let answers = http::send_all(requests, AT_ONCE);
    answers.into_iter().zip(whats).map(|(answer, what)| found(answer, &what, fault)).collect()
}

fn found(answer: Result<Response>, what: &str, fault: &str) -> Result<Option<Response>> {
    let missing = match answer {
        Ok(answer) if [404, 410].contains(&answer.status) => answer,
        other => return explain(what, other).map(Some),
    };
    match missing.json::<Value>() {
        Ok(body) if body.get(fault).is_some() => Ok(None),
        _ => Err(CloudError::unavailable(format!("{what}: HTTP {}, and not in the cloud's own words", missing.status))),
    }
}

/// Sends all, many at a time; one answer each, in the same order.
pub fn send_all(asks: Vec<Ask>) -> Vec<Result<Response>> {
    let (requests, whats): (Vec<_>, Vec<_>) = asks.into_iter().map(|ask| (ask.request, ask.what)).unzip();
    let answers = http::send_all(requests, AT_ONCE);
    answers.into_iter().zip(whats).map(|(answer, what)| explain(&what, answer)).collect()
}

/// A list is always there: who does not find it is not the cloud, but something on the way.
fn is_there(error: CloudError) -> CloudError {
    match error {
        CloudError::NotFound(text) => CloudError::unavailable(text),
        other => other,
    }
}

/// The items of a page, and the marker of the next one if there is one.
pub(crate) fn page<T: DeserializeOwned>(answer: &Response, collection: &str) -> Result<(Vec<T>, Option<String>)> {
    let mut body: Value = answer.json()?;
    let malformed = |reason: &str| CloudError::internal(format!("cannot read the list of {collection}: {reason}"));
    let items = body.get_mut(collection).map(Value::take).ok_or_else(|| malformed("it is not in the answer"))?;
    let last = items.as_array().and_then(|items| items.last()?.get("id")?.as_str()).map(str::to_owned);
    let links = body.get(format!("{collection}_links")).and_then(Value::as_array);
    let more = links.is_some_and(|links| links.iter().any(|link| link.get("rel").is_some_and(|rel| rel == "next")));
    let items = serde_json::from_value(items).map_err(|error| malformed(&error.to_string()))?;
    Ok((items, last.filter(|_| more)))
}

/// Names and values of a query; a name may come again.
pub type Query<'a> = Vec<(&'a str, &'a str)>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{network::Port, testing::Script};

    #[test]
    fn lists_are_read_page_by_page_by_their_marker() {
        let script = Script::new("");
        let page = |id: &str, more: bool| {
            let links = if more { json!([{"rel": "next", "href": "http://elsewhere/?marker=x"}]) } else { json!([]) };
            json!({"ports": [{"id": id}], "ports_links": links})
        };
        let ports = "GET http://network/v2.0/ports?device_id=d";
        script.on(ports, 200, page("1", true));
        script.on(&format!("{ports}&marker=1"), 200, page("2", true));
        script.on(&format!("{ports}&marker=2"), 200, page("3", false));
        let found: Vec<Port> = script.cloud().list(Kind::Network, "/ports", vec![("device_id", "d")]).unwrap();
        assert_eq!(found.iter().map(|port| port.id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
        // A marker that comes again ends it.
        script.on(&format!("{ports}&marker=2"), 200, page("2", true));
        let found: Vec<Port> = script.cloud().list(Kind::Network, "/ports", vec![("device_id", "d")]).unwrap();
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn the_catalogue_is_read_once_and_what_it_lacks_is_named() {
        let script = Script::new("");
        assert_eq!(script.cloud().url(Kind::LoadBalancer, "/x"), Ok("http://load-balancer/v2.0/x".to_owned()));
        script.on("GET http://k/", 500, Value::Null);
        assert_eq!(script.cloud().url(Kind::Compute, "/x"), Ok("http://compute/v2.1/x".to_owned()));
        assert_eq!(script.cloud().has(Kind::KeyManager), Ok(false));
        let missing = script.cloud().url(Kind::KeyManager, "").unwrap_err();
        let said = "the catalogue of Keystone has no public endpoint of service `key-manager` in region `one`";
        assert_eq!(missing, CloudError::invalid(said));
    }

    #[test]
    fn what_octavia_can_do_is_not_guessed() {
        let script = Script::new("");
        script.on("GET http://load-balancer/ ", 503, Value::Null);
        assert!(matches!(script.cloud().features(), Err(CloudError::Unavailable(_))));
    }
}
