//! `--use-service-account-credentials`: each controller under an account of its own, as upstream does it (P-45).

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
use kube::{
    Api, Client, Config,
    api::PostParams,
    client::{Body, ClientBuilder},
    config::AuthInfo,
};
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

use crate::clients;

/// Where the accounts are.
const NAMESPACE: &str = "kube-system";
/// How long a token is asked for (P-45).
const TOKEN_SECONDS: i64 = 3600;
/// A token is renewed when this share of its life is left (P-45).
const LEEWAY: f64 = 0.2;
/// Tries to get a token, with doubled delays between them (P-45).
const RETRY: Duration = Duration::from_millis(500);
const TRIES: u32 = 4;

/// Why an account cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The API server refuses account or token.
    #[error(
        "cannot get a token for the service account {NAMESPACE}/{name}: the right to create serviceaccounts and \
         serviceaccounts/token there may be missing"
    )]
    Token {
        /// Account.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The token is none.
    #[error("the token of the service account {NAMESPACE}/{name} cannot be used as a header")]
    Malformed {
        /// Account.
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
    renew_in: Duration,
}

/// A client under the account of this name; its token is renewed until `stop`.
///
/// # Errors
/// If the account or its first token cannot be had.
pub async fn client(
    root: &Client,
    config: &Config,
    name: &str,
    stop: CancellationToken,
) -> Result<Client, AccountError> {
    let account = Account { root: root.clone(), name: name.to_owned() };
    let first = account.token().await?;
    let header = Arc::new(ArcSwap::from_pointee(first.header));
    let mut anonymous = clients::with_user_agent(config.clone(), name);
    anonymous.auth_info = AuthInfo::default();
    let url = anonymous.cluster_url.to_string();
    let current = header.clone();
    let authorize = MapRequestLayer::new(move |mut request: Request<Body>| {
        request.headers_mut().insert(header::AUTHORIZATION, HeaderValue::clone(&current.load()));
        request
    });
    let client = ClientBuilder::try_from(anonymous)
        .map_err(|source| clients::ClientError::Build { url, source: Box::new(source) })?
        .with_layer(&authorize)
        .build();
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = account.keep(&header, first.renew_in) => {}
        }
    });
    Ok(client)
}

impl Account {
    /// Renews the token for ever.
    async fn keep(&self, header: &ArcSwap<HeaderValue>, mut renew_in: Duration) {
        loop {
            tokio::time::sleep(renew_in).await;
            match self.token().await {
                Ok(token) => {
                    header.store(Arc::new(token.header));
                    renew_in = token.renew_in;
                }
                Err(error) => {
                    tracing::warn!(
                        error = format!("{:#}", anyhow::Error::from(error)),
                        "keeping the old token for now"
                    );
                    renew_in = Duration::from_secs(10);
                }
            }
        }
    }

    /// A new token; the account is made if it is missing.
    async fn token(&self) -> Result<Token, AccountError> {
        let mut delay = RETRY;
        for _ in 1..TRIES {
            match self.request().await {
                Ok(token) => return self.read(token),
                Err(kube::Error::Api(status)) if status.is_forbidden() => break,
                Err(_) => tokio::time::sleep(delay).await,
            }
            delay *= 2;
        }
        let failed = |source| AccountError::Token { name: self.name.clone(), source: Box::new(source) };
        self.request().await.map_err(failed).and_then(|token| self.read(token))
    }

    async fn request(&self) -> Result<TokenRequest, kube::Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.root.clone(), NAMESPACE);
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        match accounts.create_token_request(&self.name, &PostParams::default(), &request).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            answer => return answer,
        }
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        match accounts.create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => drop(made?),
        }
        accounts.create_token_request(&self.name, &PostParams::default(), &request).await
    }

    fn read(&self, answer: TokenRequest) -> Result<Token, AccountError> {
        let malformed = || AccountError::Malformed { name: self.name.clone() };
        let status = answer.status.ok_or_else(malformed)?;
        let mut header = HeaderValue::try_from(format!("Bearer {}", status.token)).map_err(|_| malformed())?;
        header.set_sensitive(true);
        Ok(Token { header, renew_in: renew_in(status.expiration_timestamp.0, Timestamp::now()) })
    }
}

/// When to renew a token: with a fifth of its life left, and not more often than once a minute.
fn renew_in(expires: Timestamp, now: Timestamp) -> Duration {
    let life = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    life.mul_f64(1.0 - LEEWAY).max(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p45_a_token_is_renewed_with_a_fifth_of_its_life_left() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(renew_in("2026-01-01T01:00:00Z".parse().unwrap(), now), Duration::from_secs(2880));
        assert_eq!(renew_in("2025-01-01T01:00:00Z".parse().unwrap(), now), Duration::from_secs(60));
    }
}
