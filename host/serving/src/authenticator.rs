//! Who sent a request: a front proxy says it, the client's certificate, or the API server
//! (TokenReview); otherwise, it is anonymous.

mod certificate;
pub(crate) mod cluster;
mod front_proxy;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::{HeaderMap, header};
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;

use self::certificate::Subject;
pub(crate) use self::front_proxy::{FrontProxy, RequestHeaders};
use crate::{
    cache::Cache,
    review::{ReviewError, Reviewer},
    tls::Authorities,
};

/// The user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";
/// The groups that say whether it has some.
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// Who sent a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn anonymous() -> Self {
        Self {
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::named(ANONYMOUS)
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.has_group(UNAUTHENTICATED)
    }

    fn has_group(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group == name)
    }

    /// Adds the group of users that are known, as upstream.
    fn authenticated(mut self) -> Self {
        let is_told = self.has_group(AUTHENTICATED) || self.has_group(UNAUTHENTICATED);
        if self.name != ANONYMOUS && !is_told {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// What one way of authentication says about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Opinion {
    User(User),
    /// The request has no credentials of this kind.
    Nothing,
    /// It has some, which are not valid or cannot be checked.
    Rejected,
}

/// The request has credentials, and none of them is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no valid credentials")]
pub(crate) struct Unauthorized;

/// Decides by the opinions, in the order in which they count. A rejection counts only if nobody
/// knows the user.
fn conclude(opinions: Vec<Opinion>) -> Result<User, Unauthorized> {
    let is_rejected = opinions.contains(&Opinion::Rejected);
    let user = opinions.into_iter().find_map(|opinion| match opinion {
        Opinion::User(user) => Some(user),
        Opinion::Nothing | Opinion::Rejected => None,
    });

    match user {
        Some(user) => Ok(user.authenticated()),
        None if is_rejected => Err(Unauthorized),
        None => Ok(User::anonymous()),
    }
}

/// Whose certificates are believed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// Those of users.
    pub(crate) clients: Option<Authorities>,
    /// Those of proxies, which say who the user is.
    pub(crate) front_proxy: Option<FrontProxy>,
}

/// Finds out who sent a request.
pub(crate) struct Authenticator {
    trust: ArcSwap<Trust>,
    reviewer: Reviewer,
    /// The opinions about tokens.
    answers: Cache<Opinion>,
    ttl: Duration,
}

impl Authenticator {
    /// Creates an authenticator that asks this reviewer about tokens, and believes no certificates
    /// yet.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new(reviewer: Reviewer, ttl: Duration) -> Result<Self, ring::error::Unspecified> {
        Ok(Self {
            trust: ArcSwap::default(),
            reviewer,
            answers: Cache::new()?,
            ttl,
        })
    }

    pub(crate) fn reviewer(&self) -> &Reviewer {
        &self.reviewer
    }

    pub(crate) fn set_trust(&self, trust: Trust) {
        self.trust.store(Arc::new(trust));
    }

    /// Returns who sent a request with these headers, on a connection with these certificates.
    pub(crate) async fn authenticate(
        &self,
        certificates: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Result<User, Unauthorized> {
        let mut opinions = {
            let trust = self.trust.load();
            vec![
                by_front_proxy(trust.front_proxy.as_ref(), certificates, headers),
                by_certificate(trust.clients.as_ref(), certificates),
            ]
        };

        let is_known = opinions.iter().any(|it| matches!(it, Opinion::User(_)));
        if !is_known && let Some(token) = bearer_token(headers) {
            opinions.push(self.by_token(token).await);
        }
        conclude(opinions)
    }

    async fn by_token(&self, token: &str) -> Opinion {
        let digest = self.answers.digest(token.as_bytes());
        if let Some(opinion) = self.answers.get(digest, Instant::now()) {
            return opinion;
        }

        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let status = match self.reviewer.review(&review).await {
            Ok(review) => review.status.unwrap_or_default(),
            // Upstream has no such authenticator then.
            Err(ReviewError::Off) => return Opinion::Nothing,
            Err(ReviewError::Unanswered) => return Opinion::Rejected,
        };

        let is_error = status.error.as_ref().is_some_and(|it| !it.is_empty());
        let opinion = of_status(status);
        // As upstream, errors are asked about again.
        if !(is_error && opinion == Opinion::Rejected) {
            self.answers
                .insert(digest, opinion.clone(), self.ttl, Instant::now());
        }
        opinion
    }
}

fn by_front_proxy(
    proxy: Option<&FrontProxy>,
    certificates: &[CertificateDer<'_>],
    headers: &HeaderMap,
) -> Opinion {
    let (Some(proxy), Some(leaf)) = (proxy, certificates.first()) else {
        return Opinion::Nothing;
    };
    if !proxy.authorities.issued(certificates) {
        return Opinion::Rejected;
    }

    match Subject::of(leaf) {
        Some(subject) => proxy.headers.opinion(&subject.common_name, headers),
        None => Opinion::Rejected,
    }
}

fn by_certificate(
    authorities: Option<&Authorities>,
    certificates: &[CertificateDer<'_>],
) -> Opinion {
    let (Some(authorities), Some(leaf)) = (authorities, certificates.first()) else {
        return Opinion::Nothing;
    };
    if !authorities.issued(certificates) {
        return Opinion::Rejected;
    }
    Subject::of(leaf).map_or(Opinion::Rejected, Subject::opinion)
}

/// Returns the token in the header `Authorization`, read as upstream does.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns what the API server's answer about a token means.
fn of_status(status: TokenReviewStatus) -> Opinion {
    if status.authenticated != Some(true) {
        return Opinion::Rejected;
    }

    let UserInfo {
        username,
        uid,
        groups,
        extra,
    } = status.user.unwrap_or_default();
    match username {
        Some(name) if !name.is_empty() => Opinion::User(User {
            name,
            uid: uid.unwrap_or_default(),
            groups: groups.unwrap_or_default(),
            extra: extra.unwrap_or_default(),
        }),
        _ => Opinion::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;
    use skydock_kube::testing::FakeApi;

    use super::*;

    const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

    #[test]
    fn the_first_opinion_about_a_user_counts() {
        use Opinion::{Nothing, Rejected};
        let user = |name: &str| Opinion::User(User::named(name));
        for (opinions, expected) in [
            (vec![], Ok(ANONYMOUS)),
            (vec![Nothing, Nothing, Nothing], Ok(ANONYMOUS)),
            (vec![user("a"), user("b")], Ok("a")),
            (vec![Nothing, user("b")], Ok("b")),
            (vec![Rejected, user("b")], Ok("b")),
            (vec![user("a"), Rejected], Ok("a")),
            (vec![Rejected, Nothing], Err(Unauthorized)),
            (vec![Nothing, Nothing, Rejected], Err(Unauthorized)),
        ] {
            let found = conclude(opinions.clone());
            let name = found.as_ref().map(|user| user.name.as_str());
            assert_eq!(name.map_err(|error| *error), expected, "{opinions:?}");
        }
    }

    #[test]
    fn a_known_user_is_in_the_group_of_known_users() {
        let groups = |user: User| conclude(vec![Opinion::User(user)]).unwrap().groups;
        assert_eq!(groups(User::named("a")), [AUTHENTICATED]);
        assert_eq!(groups(User::named(ANONYMOUS)), [""; 0]);

        for told in [AUTHENTICATED, UNAUTHENTICATED] {
            let mut user = User::named("a");
            user.groups.push(told.to_owned());
            assert_eq!(groups(user), [told]);
        }
        assert!(conclude(vec![]).unwrap().is_anonymous());
        assert!(
            !conclude(vec![Opinion::User(User::named("a"))])
                .unwrap()
                .is_anonymous()
        );
    }

    #[test]
    fn bearer_tokens_are_read_as_by_upstream() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("  bearer abc  ", Some("abc")),
            ("BEARER abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic YTpi", None),
            ("abc", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer_token(&headers), token, "{value:?}");
        }
    }

    #[test]
    fn only_an_authenticated_user_with_a_name_is_believed() {
        for (status, name) in [
            (
                json!({"authenticated": true, "user": {"username": "jane"}}),
                Some("jane"),
            ),
            (
                json!({"authenticated": true, "user": {"username": ""}}),
                None,
            ),
            (json!({"authenticated": true}), None),
            (
                json!({"authenticated": false, "user": {"username": "jane"}}),
                None,
            ),
            (json!({"user": {"username": "jane"}}), None),
            (json!({"error": "expired"}), None),
            (json!({}), None),
        ] {
            let opinion = of_status(serde_json::from_value(status.clone()).unwrap());
            let expected = name.map_or(Opinion::Rejected, |it| Opinion::User(User::named(it)));
            assert_eq!(opinion, expected, "{status}");
        }
    }

    fn with_token(token: &str) -> HeaderMap {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    fn answer(status: &serde_json::Value) -> serde_json::Value {
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {}, "status": status})
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_reviewed_once_for_a_while() {
        let api = FakeApi::default();
        let ttl = Duration::from_secs(10);
        let authenticator = Authenticator::new(Reviewer::with(api.client()), ttl).unwrap();
        let user = async |token: &str| {
            let found = authenticator.authenticate(&[], &with_token(token)).await;
            found.map(|user| user.name)
        };

        let jane = json!({"authenticated": true, "user": {"username": "jane"}});
        api.answer("POST", PATH, 201, answer(&jane));
        api.answer("POST", PATH, 201, answer(&json!({"authenticated": false})));
        assert_eq!(user("good").await, Ok("jane".to_owned()));
        assert_eq!(user("bad").await, Err(Unauthorized));
        assert_eq!(user("good").await, Ok("jane".to_owned()));
        assert_eq!(user("bad").await, Err(Unauthorized));
        let asked: Vec<_> = api.requests().into_iter().map(|it| it.body).collect();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0]["spec"], json!({"token": "good"}));

        // The token was revoked.
        tokio::time::advance(ttl).await;
        api.answer("POST", PATH, 201, answer(&json!({"authenticated": false})));
        assert_eq!(user("good").await, Err(Unauthorized));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_cannot_be_reviewed_is_not_believed() {
        let api = FakeApi::default();
        api.fail("POST", PATH, 403, "Forbidden");
        let ttl = Duration::from_secs(10);
        for (reviewer, expected) in [
            (Reviewer::with(api.client()), Err(Unauthorized)),
            (Reviewer::pending(), Err(Unauthorized)),
            // Upstream ignores tokens without an API server.
            (Reviewer::off(), Ok(User::anonymous())),
        ] {
            let authenticator = Authenticator::new(reviewer, ttl).unwrap();
            let found = authenticator.authenticate(&[], &with_token("a")).await;
            assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn a_request_without_credentials_asks_nobody() {
        let api = FakeApi::default();
        let ttl = Duration::from_secs(10);
        let authenticator = Authenticator::new(Reviewer::with(api.client()), ttl).unwrap();
        let found = authenticator.authenticate(&[], &HeaderMap::new()).await;
        assert_eq!(found, Ok(User::anonymous()));
        assert!(api.requests().is_empty());
    }
}
