//! Requests to the cloud: service endpoints, paged lists, and the meaning of errors.

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

use crate::{config::Config, host_functions::HostFunctions};

mod catalog;
mod error;
mod version;

pub use catalog::Kind;
pub use error::{explain, is_exhausted};
pub use version::Features;

/// Header with a service and the version of its API.
const VERSION: &str = "OpenStack-API-Version";

/// Maximum number of concurrent requests when many resources are requested individually.
const AT_ONCE: usize = 16;

/// How long the catalog, versions and extensions are cached.
pub(crate) const CACHED: Duration = Duration::from_secs(900);

/// Maximum number of pages of one list. A list with more pages is endless: it is an error, since an
/// incomplete list would look as if resources had been deleted.
const PAGES: usize = 1000;

/// The context of one call to the cloud.
pub struct Cloud<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The name of the cluster.
    pub cluster: &'a str,
    /// The host.
    pub host: &'a dyn HostFunctions,
    endpoints: OnceCell<BTreeMap<Kind, String>>,
}

impl std::fmt::Debug for Cloud<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cloud")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// A request and its purpose, which starts the message if the request fails.
#[derive(Debug)]
pub struct ServiceRequest {
    request: Request,
    what: String,
}

impl<'a> Cloud<'a> {
    /// Creates the context for this configuration.
    #[must_use]
    pub fn new(config: &'a Config, cluster: &'a str, host: &'a dyn HostFunctions) -> Self {
        Self {
            config,
            cluster,
            host,
            endpoints: OnceCell::new(),
        }
    }

    /// Returns the URL of a resource. `path` starts with `/`.
    ///
    /// # Errors
    /// Fails if the catalog cannot be read, or does not contain the service.
    pub fn url(&self, kind: Kind, path: &str) -> Result<String> {
        let missing = || {
            let region = &self.config.global.region;
            // Keystone omits services that are disabled temporarily.
            self.forget_catalog();
            CloudError::unavailable(format!(
                "the catalog of Keystone has no {} endpoint of service `{}` in region `{region}`",
                self.config.global.interface.name(),
                kind.service_type()
            ))
        };

        self.endpoints()?
            .get(&kind)
            .map(|base| format!("{base}{path}"))
            .ok_or_else(missing)
    }

    fn endpoints(&self) -> Result<&BTreeMap<Kind, String>> {
        if let Some(endpoints) = self.endpoints.get() {
            return Ok(endpoints);
        }
        let read = self.read_catalog()?;
        Ok(self.endpoints.get_or_init(|| read))
    }

    /// Returns true if the catalog contains this service.
    ///
    /// # Errors
    /// Fails if the catalog cannot be read.
    pub fn has(&self, kind: Kind) -> Result<bool> {
        Ok(self.endpoints()?.contains_key(&kind))
    }

    /// Creates a request to a service.
    ///
    /// # Errors
    /// See [`url`](Self::url).
    pub fn request(
        &self,
        method: Method,
        kind: Kind,
        path: &str,
        what: impl Into<String>,
    ) -> Result<ServiceRequest> {
        let request =
            Request::new(method, self.url(kind, path)?).timeout(self.config.request_timeout);

        let request = match kind {
            // This microversion includes the name of the flavor, which remains even if the flavor
            // is deleted.
            Kind::Compute => request.header(VERSION, "compute 2.47"),
            // This one expands volumes that are attached.
            Kind::BlockStorage => request.header(VERSION, "volume 3.42"),
            Kind::Network | Kind::LoadBalancer | Kind::KeyManager => request,
        };

        Ok(ServiceRequest {
            request: request.header("Accept", "application/json"),
            what: what.into(),
        })
    }

    /// Reads one resource.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub fn get<T: DeserializeOwned>(&self, kind: Kind, path: &str, what: &str) -> Result<T> {
        self.request(Method::Get, kind, path, what)?.send()?.json()
    }

    /// Reads a list page by page. `path` ends with the name of the collection.
    ///
    /// # Errors
    /// Fails if a request fails.
    pub fn list<T: DeserializeOwned>(
        &self,
        kind: Kind,
        path: &str,
        query: Query<'_>,
    ) -> Result<Vec<T>> {
        self.lists(kind, path, &[query])
            .map(|lists| lists.into_iter().flatten().collect())
    }

    /// Reads several lists of one collection at once.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn lists<T: DeserializeOwned>(
        &self,
        kind: Kind,
        path: &str,
        queries: &[Query<'_>],
    ) -> Result<Vec<Vec<T>>> {
        // Neutron uses dashes in URLs where it uses underscores in bodies.
        let collection = path
            .rsplit('/')
            .find(|part| *part != "detail")
            .unwrap_or_default()
            .replace('-', "_");
        let collection = collection.as_str();

        let what = format!("cannot list {collection}");
        let request = |query: &Query<'_>| {
            Ok(self
                .request(Method::Get, kind, path, what.as_str())?
                .query(query))
        };

        // Only the first pages: the others need the marker of the page before.
        let first: Vec<ServiceRequest> = queries.iter().map(request).collect::<Result<_>>()?;
        let mut lists = Vec::new();
        for (answer, query) in send_all(first).into_iter().zip(queries) {
            let (mut items, mut next) = page(&answer.map_err(is_there)?, collection)?;
            let mut pages = 1;
            while let Some(marker) = next {
                let answer = request(query)?
                    .query(&[("marker", marker.as_str())])
                    .send()
                    .map_err(is_there)?;
                let (more, after) = page(&answer, collection)?;
                items.extend(more);
                pages += 1;

                // A marker that repeats itself shows an endless list before the limit does.
                if after
                    .as_ref()
                    .is_some_and(|after| pages >= PAGES || *after == marker)
                {
                    return Err(CloudError::unavailable(format!(
                        "{what}: the list does not end after page {pages}"
                    )));
                }

                next = after;
            }

            lists.push(items);
        }

        Ok(lists)
    }
}

impl ServiceRequest {
    /// Sets another URL.
    fn at(mut self, url: String) -> Self {
        self.request.url = url;
        self
    }

    /// Sets another version of the API, for example `compute 2.60`.
    #[must_use]
    pub fn microversion(mut self, version: &str) -> Self {
        self.request.headers.retain(|(name, _)| name != VERSION);
        self.request = self.request.header(VERSION, version);
        self
    }

    /// Adds query parameters.
    #[must_use]
    pub fn query(mut self, pairs: &[(&str, &str)]) -> Self {
        self.request = self.request.query(pairs.iter().copied());
        self
    }

    /// Adds a body.
    ///
    /// # Errors
    /// Fails if the body cannot be serialized.
    pub fn json(mut self, body: &Value) -> Result<Self> {
        self.request = self.request.json(body)?;
        Ok(self)
    }

    /// Requires that the resource still has this revision. Neutron rejects the change otherwise, so
    /// that concurrent updates are not lost.
    #[must_use]
    pub fn if_revision(mut self, revision: Option<u64>) -> Self {
        if let Some(revision) = revision {
            self.request = self
                .request
                .header("If-Match", format!("revision_number={revision}"));
        }
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub fn send(self) -> Result<Response> {
        explain(&self.what, http::send(self.request))
    }

    /// Sends the request. Returns `None` if the cloud itself reports, with a fault of this name,
    /// that the resource does not exist. A 404 from a proxy on the way is an error, because it
    /// proves nothing.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub fn send_for(self, fault: &str) -> Result<Option<Response>> {
        found(http::send(self.request), &self.what, fault)
    }
}

/// Sends requests like [`send_all`], with the results of [`ServiceRequest::send_for`].
pub fn send_all_for(requests: Vec<ServiceRequest>, fault: &str) -> Vec<Result<Option<Response>>> {
    let (requests, whats): (Vec<_>, Vec<_>) = requests
        .into_iter()
        .map(|request| (request.request, request.what))
        .unzip();
    let answers = http::send_all(requests, AT_ONCE);

    answers
        .into_iter()
        .zip(whats)
        .map(|(answer, what)| found(answer, &what, fault))
        .collect()
}

fn found(answer: Result<Response>, what: &str, fault: &str) -> Result<Option<Response>> {
    let missing = match answer {
        Ok(answer) if [404, 410].contains(&answer.status) => answer,
        other => return explain(what, other).map(Some),
    };

    match missing.json::<Value>() {
        Ok(body) if body.get(fault).is_some() => Ok(None),
        _ => Err(CloudError::unavailable(format!(
            "{what}: HTTP {} without an error message of the API: check the endpoint and proxies",
            missing.status
        ))),
    }
}

/// Sends all requests, several at a time, and returns their answers in the same order.
pub fn send_all(requests: Vec<ServiceRequest>) -> Vec<Result<Response>> {
    let (requests, whats): (Vec<_>, Vec<_>) = requests
        .into_iter()
        .map(|request| (request.request, request.what))
        .unzip();
    let answers = http::send_all(requests, AT_ONCE);

    answers
        .into_iter()
        .zip(whats)
        .map(|(answer, what)| explain(&what, answer))
        .collect()
}

/// What a request was answered with, whatever the status.
#[derive(Debug)]
pub struct Answered {
    /// The purpose of the request.
    pub what: String,
    /// The answer; an error if there is none.
    pub result: Result<Response>,
}

impl Answered {
    /// Returns whether the answer has this status, and this word in its body.
    #[must_use]
    pub fn says(&self, status: u16, word: &str) -> bool {
        let answer = self.result.as_ref().ok();
        let answer = answer.filter(|it| it.status == status);
        answer.is_some_and(|it| String::from_utf8_lossy(&it.body).contains(word))
    }
}

/// Sends all requests like [`send_all`], for callers to whom statuses mean something else. They
/// [`explain`] what they do not know.
pub fn send_each(requests: Vec<ServiceRequest>) -> Vec<Answered> {
    let (requests, whats): (Vec<_>, Vec<_>) = requests
        .into_iter()
        .map(|request| (request.request, request.what))
        .unzip();
    let answers = http::send_all(requests, AT_ONCE).into_iter();
    let answered = |(result, what)| Answered { what, result };
    answers.zip(whats).map(answered).collect()
}

/// Converts "not found" to "unavailable". A list or a catalog always exists, so "not found" is not
/// from the cloud but from something on the way.
fn is_there(error: CloudError) -> CloudError {
    match error {
        CloudError::NotFound(text) => CloudError::unavailable(text),
        other => other,
    }
}

/// Returns the items of a page, and the marker of the next page if there is one.
pub(crate) fn page<T: DeserializeOwned>(
    answer: &Response,
    collection: &str,
) -> Result<(Vec<T>, Option<String>)> {
    let mut body: Value = answer.json()?;
    let malformed = |reason: &str| {
        CloudError::internal(format!("cannot read the list of {collection}: {reason}"))
    };

    let items = body
        .get_mut(collection)
        .map(Value::take)
        .ok_or_else(|| malformed("it is missing in the answer"))?;

    // The marker is the ID of the last item. The link only shows that there are more.
    let last = items
        .as_array()
        .and_then(|items| items.last()?.get("id")?.as_str())
        .map(str::to_owned);

    let links = body
        .get(format!("{collection}_links"))
        .and_then(Value::as_array);
    let more = links.is_some_and(|links| {
        links
            .iter()
            .any(|link| link.get("rel").is_some_and(|rel| rel == "next"))
    });
    let items = serde_json::from_value(items).map_err(|error| malformed(&error.to_string()))?;
    Ok((items, last.filter(|_| more)))
}

/// Names and values of a query. A name can occur several times.
pub type Query<'a> = Vec<(&'a str, &'a str)>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{services::network::Port, testing::Script};

    #[test]
    fn lists_are_paged_by_marker() {
        let script = Script::new("");
        let page = |id: &str, more: bool| {
            let links = if more {
                json!([{"rel": "next", "href": "http://elsewhere/?marker=x"}])
            } else {
                json!([])
            };
            json!({"ports": [{"id": id}], "ports_links": links})
        };
        let ports = "GET http://network/v2.0/ports?device_id=d";
        script.on(ports, 200, page("1", true));
        script.on(&format!("{ports}&marker=1"), 200, page("2", true));
        script.on(&format!("{ports}&marker=2"), 200, page("3", false));
        let found: Vec<Port> = script
            .cloud()
            .list(Kind::Network, "/ports", vec![("device_id", "d")])
            .unwrap();
        assert_eq!(
            found
                .iter()
                .map(|port| port.id.as_str())
                .collect::<Vec<_>>(),
            ["1", "2", "3"]
        );
        // A list that does not end is an error: without its rest, ports would seem to be deleted.
        script.on(&format!("{ports}&marker=2"), 200, page("2", true));
        let endless = script
            .cloud()
            .list::<Port>(Kind::Network, "/ports", vec![("device_id", "d")])
            .unwrap_err();
        assert_eq!(
            endless,
            CloudError::unavailable("cannot list ports: the list does not end after page 3")
        );
    }

    #[test]
    fn the_catalog_is_cached_and_missing_services_are_named() {
        let script = Script::new("");
        assert_eq!(
            script.cloud().url(Kind::LoadBalancer, "/x"),
            Ok("http://load-balancer/v2.0/x".to_owned())
        );

        script.on("GET http://k/", 500, Value::Null);
        assert_eq!(
            script.cloud().url(Kind::Compute, "/x"),
            Ok("http://compute/v2.1/x".to_owned())
        );
        assert_eq!(script.cloud().has(Kind::KeyManager), Ok(false));

        let missing = script.cloud().url(Kind::KeyManager, "").unwrap_err();
        let message = "the catalog of Keystone has no public endpoint of service `key-manager` in region `one`";
        assert_eq!(missing, CloudError::unavailable(message));
    }

    #[test]
    fn a_service_missing_from_the_catalog_is_looked_up_again() {
        let script = Script::new("");
        let endpoint = |kind: &str| json!({"type": kind, "endpoints": [{"interface": "public", "region": "one", "url": format!("http://{kind}")}]});
        script.on(
            "GET http://k/v3/auth/catalog",
            200,
            json!({"catalog": [endpoint("network")]}),
        );
        let off = script.cloud().url(Kind::LoadBalancer, "");

        assert!(matches!(off, Err(CloudError::Unavailable(_))), "{off:?}");

        script.on(
            "GET http://k/v3/auth/catalog",
            200,
            json!({"catalog": [endpoint("network"), endpoint("load-balancer")]}),
        );
        assert_eq!(
            script.cloud().url(Kind::LoadBalancer, ""),
            Ok("http://load-balancer/v2.0".to_owned())
        );
    }

    #[test]
    fn unknown_octavia_features_are_an_error() {
        let script = Script::new("");
        script.on("GET http://load-balancer/ ", 503, Value::Null);
        assert!(matches!(
            script.cloud().features(),
            Err(CloudError::Unavailable(_))
        ));
    }
}
