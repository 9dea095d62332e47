//! Requests to the cloud.
use serde::de::DeserializeOwned;
use skydock_sdk::{
    Result,
    http::{self, Request, Response},
    types::CloudError,
};

use crate::{
    api::{Labeled, Labels, Page, Problem},
    config::Config,
};

/// Number of requests in flight in a call.
const AT_ONCE: usize = 8;
/// Label of everything that we create.
const OWNER: &str = "cluster";
/// Beginning of the provider IDs of this cloud's servers: `simcloud:///ZONE/ID`.
pub(crate) const SCHEME: &str = "simcloud://";

/// The cloud and one of its users.
#[derive(Debug)]
pub(crate) struct Cloud<'a> {
    /// How to reach it.
    pub(crate) config: &'a Config,
    /// UID of the cluster. It is on everything that we create: other clusters in the same account
    /// are none of our business.
    pub(crate) cluster: String,
}

impl Config {
    /// Returns the URL of a list.
    pub(crate) fn list(&self, kind: &str) -> String {
        format!("{}/v1/{kind}", self.url)
    }

    /// Returns the URL of an object.
    pub(crate) fn object(&self, kind: &str, id: &str) -> Result<String> {
        Ok(format!("{}/{}", self.list(kind), http::segment(id)?))
    }

    /// Returns the request for the objects with a name. Unlike a complete list, the answer does not
    /// lag behind.
    pub(crate) fn named(&self, kind: &str, name: &str) -> Request {
        Request::get(self.list(kind)).query([("name", name)])
    }
}

impl Cloud<'_> {
    /// Returns the labels of an object of this cluster.
    pub(crate) fn labels<const N: usize>(&self, more: [(&str, &str); N]) -> Labels {
        let pairs = [(OWNER, self.cluster.as_str())].into_iter().chain(more);
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns whether an object is this cluster's. One whose label was removed is, too: all names
    /// have a UID of this cluster's objects.
    pub(crate) fn owns(&self, labels: &Labels) -> bool {
        labels.get(OWNER).is_none_or(|owner| *owner == self.cluster)
    }

    /// Returns the filter for the objects of this cluster.
    pub(crate) fn owned(&self) -> String {
        format!("{OWNER}={}", self.cluster)
    }

    /// Returns a page of the objects of this cluster. The token of a page is the cloud's.
    pub(crate) fn page<T: DeserializeOwned>(
        &self,
        kind: &str,
        page: Option<&str>,
    ) -> Result<Page<T>> {
        let request = Request::get(self.config.list(kind))
            .query([("label", self.owned().as_str()), ("limit", "100")]);
        ask(request.query(page.map(|token| ("page_token", token))))
    }

    /// Returns the object with each ID, or none if it does not exist or is another cluster's.
    pub(crate) fn by_id<T: DeserializeOwned + Labeled>(
        &self,
        kind: &str,
        ids: &[&str],
    ) -> Vec<Result<Option<T>>> {
        let request = |id: &&str| Ok(Request::get(self.config.object(kind, id)?));
        let answers = send_all(ids.iter().map(request).collect());

        let read = |answer: Result<Response>| {
            let answer = answer?;
            if problem(&answer, 404, "not_found").is_some() {
                return Ok(None);
            }
            let found: T = certain(answer)?.json()?;
            Ok(Some(found).filter(|it| self.owns(it.labels())))
        };
        answers.into_iter().map(read).collect()
    }

    /// Deletes the object with each ID, and returns the answers; none for an object that does not
    /// exist or is another cluster's.
    pub(crate) fn delete_by_id<T: DeserializeOwned + Labeled>(
        &self,
        kind: &str,
        ids: &[&str],
    ) -> Vec<Result<Option<Response>>> {
        let found = self.by_id::<T>(kind, ids);
        let request = |(found, id): (&Result<Option<T>>, &&str)| {
            let exists = matches!(found, Ok(Some(_)));
            exists.then(|| Ok(Request::delete(self.config.object(kind, id)?)))
        };
        let requests = found.iter().zip(ids).filter_map(request).collect();
        let mut answers = send_all(requests).into_iter();

        let answer =
            |found: Result<Option<T>>| found?.map(|_| next_answer(&mut answers)).transpose();
        found.into_iter().map(answer).collect()
    }
}

/// Returns the answer to the next request.
pub(crate) fn next_answer(
    answers: &mut impl Iterator<Item = Result<Response>>,
) -> Result<Response> {
    let lost = || Err(CloudError::internal("a request has no answer"));
    answers.next().unwrap_or_else(lost)
}

/// Sends a request and reads the answer.
pub(crate) fn ask<T: DeserializeOwned>(request: Request) -> Result<T> {
    certain(http::send(request)?)?.json()
}

/// Sends requests, some of which could not be made, and returns one result for each.
pub(crate) fn send_all(requests: Vec<Result<Request>>) -> Vec<Result<Response>> {
    let good = requests
        .iter()
        .filter_map(|request| request.as_ref().ok().cloned())
        .collect();

    // Only the good requests have answers, in the same order.
    let mut answers = http::send_all(good, AT_ONCE).into_iter();
    requests
        .into_iter()
        .map(|request| request.and_then(|_| next_answer(&mut answers)))
        .collect()
}

/// Returns the cloud's error, if the answer is one with this status and code. The status alone is
/// not enough: a proxy, or a wrong URL, answers 404, too.
pub(crate) fn problem(response: &Response, status: u16, code: &str) -> Option<Problem> {
    let problem: Problem = (response.status == status)
        .then(|| response.json().ok())
        .flatten()?;
    (problem.code == code).then_some(problem)
}

/// Accepts a deletion, also of what is already gone.
pub(crate) fn deleted(response: Response) -> Result<()> {
    match problem(&response, 404, "not_found") {
        Some(_) => Ok(()),
        None => certain(response).map(|_| ()),
    }
}

/// Returns the response if it is a success. A 404 that is not the cloud's own says nothing about an
/// object.
pub(crate) fn certain(response: Response) -> Result<Response> {
    if response.status == 404 && problem(&response, 404, "not_found").is_none() {
        return Err(CloudError::unavailable("HTTP 404, not from the cloud"));
    }
    response.success()
}

pub(crate) fn provider_id(zone: &str, id: &str) -> String {
    format!("{SCHEME}/{zone}/{id}")
}

/// Returns the ID of the server in a provider ID.
pub(crate) fn server_id(provider_id: &str) -> Option<&str> {
    let (_, id) = provider_id
        .strip_prefix(SCHEME)?
        .strip_prefix('/')?
        .split_once('/')?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_id_contains_the_server() {
        assert_eq!(server_id(&provider_id("zone-a", "srv-1")), Some("srv-1"));
        for other in [
            "simcloud://zone-a/srv-1",
            "simcloud:///srv-1",
            "simcloud:///zone-a/",
            "simcloud:///a/b/c",
            "aws:///a/i-1",
        ] {
            assert_eq!(server_id(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_cloud_can_say_that_something_is_gone() {
        let answer = |status, body: &str| Response {
            status,
            body: body.into(),
            ..Response::default()
        };
        assert_eq!(deleted(answer(204, "")), Ok(()));
        assert_eq!(
            deleted(answer(
                404,
                r#"{"code": "not_found", "message": "", "field": null}"#
            )),
            Ok(())
        );
        assert!(deleted(answer(404, "<html>no such page</html>")).is_err());
        assert!(
            deleted(answer(
                404,
                r#"{"code": "no_such_path", "message": "", "field": null}"#
            ))
            .is_err()
        );
        assert!(
            deleted(answer(
                500,
                r#"{"code": "not_found", "message": "", "field": null}"#
            ))
            .is_err()
        );
    }
}
