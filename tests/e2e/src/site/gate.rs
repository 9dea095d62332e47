//! TLS and a proxy in front of a cloud without them.

use std::{fs, path::Path, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};
use skydock_clouds::Proxy;

use crate::{authority::Authority, front::Front};

/// How long the certificate is valid.
const VALID: Duration = Duration::from_secs(24 * 3600);

/// The way to a cloud: a TLS server, and behind it a proxy.
pub(super) struct Gate {
    front: Front,
    authority: Authority,
    proxy: Proxy,
}

impl Gate {
    /// Starts both in front of the cloud at this URL.
    ///
    /// # Errors
    /// Fails if they cannot listen.
    pub(super) async fn before(cloud: &str, seed: u64) -> Result<Self> {
        let proxy = Proxy::before_server(cloud, seed).await?;
        let authority = Authority::new("cloud")?;
        let leaf = authority.sign(VALID)?;
        let front = Front::before(proxy.url().trim_start_matches("http://"), &leaf, &[]).await?;
        Ok(Self {
            front,
            authority,
            proxy,
        })
    }

    /// Returns the URL for clients: `https://127.0.0.1:PORT`.
    pub(super) fn url(&self) -> String {
        self.front.url()
    }

    pub(super) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns the egress rule for clients. The certificate of the authority is written to the
    /// directory.
    ///
    /// # Errors
    /// Fails if the directory cannot be written.
    pub(super) fn rule(&self, dir: &Path) -> Result<Value> {
        let authority = dir.join("ca.pem");
        fs::write(&authority, self.authority.pem())?;
        Ok(json!({"to": self.url(), "tls": {"caFile": authority}}))
    }
}
