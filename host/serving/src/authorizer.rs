//! Whether a user may send a request. The API server decides (SubjectAccessReview), unless the
//! group or the path does.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use tokio::time::Instant;

use crate::{
    authenticator::User,
    cache::Cache,
    review::{ReviewError, Reviewer},
};

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// Paths that everybody may use, without authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlwaysAllowPaths {
    paths: BTreeSet<String>,
    prefixes: Vec<String>,
}

/// Why a path is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid path; expected a path, which may end with *")]
pub struct PathError(String);

impl AlwaysAllowPaths {
    /// Reads a list of paths. One that ends with `*` is a prefix, and the first slash may be
    /// missing.
    ///
    /// # Errors
    /// If a path has a `*` elsewhere.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Self, PathError> {
        let mut parsed = Self::default();
        for path in list.into_iter().filter(|path| !path.is_empty()) {
            let given = path.strip_prefix('/').unwrap_or(path);
            let prefix = given.strip_suffix('*');

            if prefix.unwrap_or(given).contains('*') {
                return Err(PathError(path.to_owned()));
            }
            match prefix {
                Some(prefix) => parsed.prefixes.push(prefix.to_owned()),
                None => drop(parsed.paths.insert(given.to_owned())),
            }
        }
        Ok(parsed)
    }

    /// Returns whether everybody may use this path.
    pub(crate) fn contain(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.paths.contains(path) || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// With the reason of the API server, which may be empty.
    Forbidden(String),
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorizeError {
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("the API server both allows and denies the request")]
    Contradiction,
}

/// Decides about requests. Paths that are always allowed do not come here.
pub(crate) struct Authorizer {
    reviewer: Reviewer,
    answers: Cache<Verdict>,
    allowed_ttl: Duration,
    denied_ttl: Duration,
}

impl Authorizer {
    pub(crate) fn new(
        reviewer: Reviewer,
        answers: Cache<Verdict>,
        allowed_ttl: Duration,
        denied_ttl: Duration,
    ) -> Self {
        Self {
            reviewer,
            answers,
            allowed_ttl,
            denied_ttl,
        }
    }

    /// Decides whether a user may do this, a method in lower case, with this path.
    pub(crate) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Verdict, AuthorizeError> {
        if is_master(user) {
            return Ok(Verdict::Allowed);
        }

        let spec = spec(user, verb, path);
        // It consists of texts, so this does not fail.
        let question = serde_json::to_vec(&spec).unwrap_or_default();
        let digest = self.answers.digest(&question);
        if let Some(verdict) = self.answers.get(digest, Instant::now()) {
            return Ok(verdict);
        }

        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let status = match self.reviewer.review(&review).await {
            Ok(review) => review.status.unwrap_or_default(),
            // Without somebody to ask, nothing is allowed.
            Err(ReviewError::Off) => return Ok(Verdict::Forbidden(String::new())),
            Err(error) => return Err(error.into()),
        };

        let verdict = verdict(status)?;
        let ttl = match &verdict {
            Verdict::Allowed => self.allowed_ttl,
            Verdict::Forbidden(_) => self.denied_ttl,
        };
        self.answers
            .insert(digest, verdict.clone(), ttl, Instant::now());
        Ok(verdict)
    }

    pub(crate) fn reviewer(&self) -> &Reviewer {
        &self.reviewer
    }
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

/// Returns the question for the API server.
fn spec(user: &User, verb: &str, path: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        resource_attributes: None,
    }
}

/// Returns what an answer means. Without an opinion, the request is forbidden.
fn verdict(status: SubjectAccessReviewStatus) -> Result<Verdict, AuthorizeError> {
    match (status.allowed, status.denied.unwrap_or_default()) {
        (true, true) => Err(AuthorizeError::Contradiction),
        (true, false) => Ok(Verdict::Allowed),
        (false, _) => Ok(Verdict::Forbidden(status.reason.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_kube::testing::FakeApi;

    use super::*;

    const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

    #[test]
    fn paths_are_allowed_as_by_upstream() {
        let paths = AlwaysAllowPaths::parse(["/healthz", "livez", "/open/*", ""]).unwrap();
        for (path, is_allowed) in [
            ("/healthz", true),
            ("/livez", true),
            ("/open/a", true),
            ("/healthz/ping", false),
            ("/healthz/", false),
            ("/Healthz", false),
            ("//healthz", false),
            ("/metrics", false),
            ("/", false),
            ("/open", false),
        ] {
            assert_eq!(paths.contain(path), is_allowed, "{path}");
        }
        assert!(AlwaysAllowPaths::parse(["/"]).unwrap().contain("/"));
        assert!(AlwaysAllowPaths::parse(["/*"]).unwrap().contain("/metrics"));
        assert!(AlwaysAllowPaths::parse(["/a*b"]).is_err());
        assert!(AlwaysAllowPaths::parse(["**"]).is_err());
    }

    #[test]
    fn only_a_clear_answer_allows() {
        let answer = |allowed, denied| SubjectAccessReviewStatus {
            allowed,
            denied,
            ..SubjectAccessReviewStatus::default()
        };
        let forbidden = Verdict::Forbidden(String::new());
        for (status, expected) in [
            (answer(true, None), Some(Verdict::Allowed)),
            (answer(true, Some(false)), Some(Verdict::Allowed)),
            (answer(false, None), Some(forbidden.clone())),
            (answer(false, Some(true)), Some(forbidden)),
            (answer(true, Some(true)), None),
        ] {
            assert_eq!(verdict(status.clone()).ok(), expected, "{status:?}");
        }
    }

    fn authorizer(reviewer: Reviewer) -> Authorizer {
        let ttl = Duration::from_secs(10);
        Authorizer::new(reviewer, Cache::new().unwrap(), ttl, 2 * ttl)
    }

    fn answer(allowed: bool) -> serde_json::Value {
        json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
               "status": {"allowed": allowed, "reason": "because"}})
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_is_asked_once_for_a_while() {
        let api = FakeApi::default();
        let authorizer = authorizer(Reviewer::with(api.client()));
        let user = User::named("jane");
        let asks = async || authorizer.authorize(&user, "get", "/metrics").await;

        api.answer("POST", PATH, 201, answer(true));
        assert_eq!(asks().await.unwrap(), Verdict::Allowed);
        assert_eq!(asks().await.unwrap(), Verdict::Allowed);
        assert_eq!(api.requests().len(), 1);
        let spec = &api.requests()[0].body["spec"];
        assert_eq!(
            *spec,
            json!({"user": "jane", "groups": [], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}})
        );

        tokio::time::advance(Duration::from_secs(11)).await;
        api.clear("POST", PATH);
        api.answer("POST", PATH, 201, answer(false));
        let forbidden = Verdict::Forbidden("because".to_owned());
        assert_eq!(asks().await.unwrap(), forbidden);
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(asks().await.unwrap(), forbidden);
        assert_eq!(api.requests().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_answer_is_not_allowed() {
        let api = FakeApi::default();
        api.fail("POST", PATH, 403, "Forbidden");
        let asked = authorizer(Reviewer::with(api.client()));
        let jane = User::named("jane");
        assert!(asked.authorize(&jane, "get", "/metrics").await.is_err());

        let pending = authorizer(Reviewer::pending());
        assert!(pending.authorize(&jane, "get", "/metrics").await.is_err());

        let off = authorizer(Reviewer::off());
        let verdict = off.authorize(&jane, "get", "/metrics").await.unwrap();
        assert_eq!(verdict, Verdict::Forbidden(String::new()));

        // The group decides.
        let mut admin = User::named("admin");
        admin.groups.push(MASTERS.to_owned());
        let verdict = off.authorize(&admin, "put", "/debug/flags/v").await;
        assert_eq!(verdict.unwrap(), Verdict::Allowed);
    }
}
