//! `--use-service-account-credentials`: each controller uses its own ServiceAccount, as upstream
//! (P-45).

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::{HeaderValue, Request, header};
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::{Api, Client, Config, api::PostParams, client::Body, config::AuthInfo};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

use crate::{api::with_causes, clients};

/// Namespace of the service accounts.
const NAMESPACE: &str = "kube-system";
/// Requested lifetime of tokens (P-45).
const TOKEN_SECONDS: u32 = 3600;
/// A token is renewed when this fraction of its lifetime is left (P-45).
const LEEWAY: f64 = 0.2;
/// Interval of checks whether a token must be renewed, and delay after a failed renewal.
const CHECK_PERIOD: Duration = Duration::from_secs(10);
/// Minimum time between renewals of a token.
const MIN_RENEWAL_PERIOD: Duration = Duration::from_secs(60);
/// Delay after the first failed attempt to get a token, which doubles with each attempt (P-45).
const RETRY: Duration = Duration::from_millis(500);
const TRIES: u32 = 4;

/// Why a service account cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The API server denies access to the account or a token.
    #[error(
        "cannot get a token for the service account {NAMESPACE}/{name}; check the permission to create serviceaccounts and \
         serviceaccounts/token"
    )]
    Token {
        /// Name of the account.
        name: String,
        /// The reason.
        source: Box<kube::Error>,
    },
    /// The token is not valid.
    #[error("the token of the service account {NAMESPACE}/{name} cannot be used as a header")]
    Malformed {
        /// Name of the account.
        name: String,
    },
    /// The client cannot be built.
    #[error(transparent)]
    Client(#[from] clients::ClientError),
}

struct Account {
    root: Client,
    name: String,
}

struct Token {
    header: HeaderValue,
    renewal: Renewal,
}

/// When a token must be renewed, by two clocks. The wall clock may be wrong by hours and may be
/// changed; the monotonic clock stops while a machine is suspended. The token is renewed when
/// either of them says so.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Renewal {
    after: Duration,
    at: Timestamp,
}

impl Renewal {
    /// Returns the time at which a fifth of the token's lifetime is left. The lifetime is limited
    /// to the requested one, in case the wall clock is wrong.
    fn of(expires: Timestamp, now: Timestamp) -> Self {
        let life = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
        let life = life.min(Duration::from_secs(TOKEN_SECONDS.into()));
        Self::after(life.mul_f64(1.0 - LEEWAY).max(MIN_RENEWAL_PERIOD), now)
    }

    fn after(after: Duration, now: Timestamp) -> Self {
        Self {
            after,
            at: now.saturating_add(after).unwrap_or(Timestamp::MAX),
        }
    }

    fn is_due(self, held: Duration, now: Timestamp) -> bool {
        held >= self.after || now >= self.at
    }

    async fn wait(self) {
        let start = Instant::now();
        while !self.is_due(start.elapsed(), Timestamp::now()) {
            sleep(CHECK_PERIOD).await;
        }
    }
}

/// Creates a client for the service account with this name. Its token is renewed until `stop`.
///
/// # Errors
/// If the account or its first token cannot be created.
pub async fn client(
    root: &Client,
    config: &Config,
    name: &str,
    stop: CancellationToken,
) -> Result<Client, AccountError> {
    let account = Account {
        root: root.clone(),
        name: name.to_owned(),
    };

    let first = account.token().await?;
    let header = Arc::new(ArcSwap::from_pointee(first.header));
    let mut anonymous = config.clone();
    // The token of the account takes the place of all other credentials.
    anonymous.auth_info = AuthInfo::default();

    let current = header.clone();
    let authorize = MapRequestLayer::new(move |mut request: Request<Body>| {
        request
            .headers_mut()
            .insert(header::AUTHORIZATION, HeaderValue::clone(&current.load()));
        request
    });

    let client = clients::builder(&anonymous, name)?
        .with_layer(&authorize)
        .build();

    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = account.keep_renewed(&header, first.renewal) => {}
        }
    });
    Ok(client)
}

impl Account {
    /// Renews the token. Never ends.
    async fn keep_renewed(&self, header: &ArcSwap<HeaderValue>, mut renewal: Renewal) {
        loop {
            renewal.wait().await;
            match self.token().await {
                Ok(token) => {
                    header.store(Arc::new(token.header));
                    renewal = token.renewal;
                }
                Err(error) => {
                    tracing::warn!(
                        error = with_causes(&error),
                        "cannot renew the token of the service account; using the current one"
                    );
                    renewal = Renewal::after(CHECK_PERIOD, Timestamp::now());
                }
            }
        }
    }

    /// Returns a new token. The account is created if it is missing.
    async fn token(&self) -> Result<Token, AccountError> {
        let mut delay = RETRY;
        let mut tries = 0;

        loop {
            tries += 1;
            match self.request().await {
                Ok(token) => return self.read(token),
                // A permission is not granted while this waits.
                Err(error) if tries == TRIES || is_forbidden(&error) => {
                    return Err(AccountError::Token {
                        name: self.name.clone(),
                        source: Box::new(error),
                    });
                }
                Err(_) => sleep(delay).await,
            }
            delay *= 2;
        }
    }

    async fn request(&self) -> Result<TokenRequest, kube::Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.root.clone(), NAMESPACE);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS.into()),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };

        match accounts
            .create_token_request(&self.name, &PostParams::default(), &request)
            .await
        {
            // The account does not exist yet.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            answer => return answer,
        }

        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };

        match accounts.create(&PostParams::default(), &account).await {
            // Another replica has created it in between.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => drop(made?),
        }

        accounts
            .create_token_request(&self.name, &PostParams::default(), &request)
            .await
    }

    fn read(&self, answer: TokenRequest) -> Result<Token, AccountError> {
        let malformed = || AccountError::Malformed {
            name: self.name.clone(),
        };

        let status = answer.status.ok_or_else(malformed)?;
        let mut header =
            HeaderValue::try_from(format!("Bearer {}", status.token)).map_err(|_| malformed())?;
        // Keeps the token out of debug output.
        header.set_sensitive(true);

        Ok(Token {
            header,
            renewal: Renewal::of(status.expiration_timestamp.0, Timestamp::now()),
        })
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeApi;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_denial_of_a_token_is_final_and_reported() {
        let path = "/api/v1/namespaces/kube-system/serviceaccounts/node-controller/token";
        for (code, reason, tries) in [(403, "Forbidden", 1), (500, "InternalError", TRIES)] {
            let api = FakeApi::default();
            let account = Account {
                root: api.client(),
                name: "node-controller".to_owned(),
            };
            for _ in 0..tries {
                api.fail("POST", path, code, reason);
            }
            // What follows is not asked for, and its error is not reported.
            api.fail("POST", path, 404, "NotFound");

            let Err(AccountError::Token { source, .. }) = account.token().await else {
                panic!("{code}");
            };
            assert!(
                matches!(&*source, kube::Error::Api(status) if status.code == code),
                "{source}"
            );
            assert_eq!(api.requests().len(), usize::try_from(tries).unwrap());
        }
    }

    // Holds: P-45
    #[test]
    fn a_token_is_renewed_with_a_fifth_of_its_life_left() {
        let after = |expires| Renewal::of(time(expires), time(NOW)).after.as_secs();
        assert_eq!(after("2026-01-01T01:00:00Z"), 2880);
        assert_eq!(after("2026-01-01T00:10:00Z"), 480);
    }

    #[test]
    fn a_wrong_wall_clock_keeps_no_token_beyond_its_lifetime() {
        let after = |expires| Renewal::of(time(expires), time(NOW)).after.as_secs();
        assert_eq!(after("2026-01-01T06:00:00Z"), 2880, "it is behind");
        assert_eq!(after("2025-12-31T20:00:00Z"), 60, "it is ahead");
    }

    #[test]
    fn a_token_is_renewed_when_either_clock_says_so() {
        let renewal = Renewal::after(Duration::from_secs(2880), time(NOW));
        let due = |held, now| renewal.is_due(Duration::from_secs(held), time(now));
        assert!(!due(2879, "2026-01-01T00:47:59Z"));
        assert!(due(2, "2026-01-01T00:48:00Z"), "the machine was suspended");
        assert!(
            due(2880, "2025-12-31T00:00:00Z"),
            "the wall clock was set back"
        );
    }
}
