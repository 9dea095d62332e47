//! Servers with the names of nodes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::session::text;
use super::{Project, Service};
use crate::Error;

/// How long each server may take to become ACTIVE. Usually it takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with one port in the project's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The ID.
    pub id: String,
    /// The name.
    pub name: String,
    /// `ACTIVE`, `SHUTOFF` …
    pub status: String,
    /// The fixed addresses, IPv4 first.
    pub addresses: Vec<String>,
    /// The reason for the status `ERROR`.
    pub fault: Option<String>,
}

impl Server {
    fn read(value: &Value) -> Result<Self, Error> {
        let networks = value.get("addresses").and_then(Value::as_object);
        let all = networks
            .into_iter()
            .flat_map(|networks| networks.values())
            .filter_map(Value::as_array)
            .flatten();
        let fixed = all.filter(|one| {
            one.get("OS-EXT-IPS:type")
                .is_none_or(|kind| kind == "fixed")
        });
        let mut addresses: Vec<String> = fixed
            .filter_map(|one| one.get("addr").and_then(Value::as_str))
            .map(str::to_owned)
            .collect();
        addresses.sort_by_key(|address| address.contains(':'));
        let fault = value
            .pointer("/fault/message")
            .and_then(Value::as_str)
            .map(str::to_owned);
        Ok(Self {
            id: text(value, "/id")?,
            name: text(value, "/name")?,
            status: text(value, "/status")?,
            addresses,
            fault,
        })
    }
}

impl Project {
    /// Creates servers with these names from the image `tiny` and the flavor `m1.tiny`, and waits
    /// until they are ACTIVE.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, if a server fails, or if it is not ACTIVE in time.
    pub async fn create_servers<N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<Server>, Error> {
        let session = &self.session;
        let images = session.get(Service::Image, "/v2/images?name=tiny").await?;
        let flavors = session
            .list(Service::Compute, "/v2.1/flavors", "flavors")
            .await?;
        let flavor = flavors
            .iter()
            .find(|flavor| flavor.get("name").is_some_and(|name| name == "m1.tiny"));
        let image = text(&images, "/images/0/id")?;
        let flavor = text(flavor.unwrap_or(&Value::Null), "/id")?;
        let mut wanted = Vec::new();
        for name in names {
            let fields = json!({
                "name": name.as_ref(), "imageRef": image, "flavorRef": flavor, "networks": [{"uuid": self.network_id}],
            });
            let made = session
                .create(Service::Compute, "/v2.1/servers", "server", fields)
                .await?;
            wanted.push(text(&made, "/id")?);
        }
        let began = Instant::now();
        loop {
            let all = self.servers().await?;
            let mine: Vec<Server> = wanted
                .iter()
                .filter_map(|id| all.iter().find(|server| server.id == *id).cloned())
                .collect();
            let failed = mine.iter().any(|server| server.status == "ERROR");
            if mine.len() == wanted.len() && mine.iter().all(|server| server.status == "ACTIVE") {
                return Ok(mine);
            }
            let limit = PATIENCE.saturating_mul(u32::try_from(wanted.len()).unwrap_or(u32::MAX));
            if failed || began.elapsed() > limit {
                let (what, seen) = ("servers to be ACTIVE".to_owned(), format!("{mine:?}"));
                return Err(Error::TimedOut {
                    what,
                    waited: began.elapsed(),
                    seen,
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns all servers of the project, from all pages.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn servers(&self) -> Result<Vec<Server>, Error> {
        let mut all: Vec<Server> = Vec::new();
        loop {
            let marker = all
                .last()
                .map_or_else(String::new, |last| format!("&marker={}", last.id));
            let path = format!("/v2.1/servers/detail?limit=500{marker}");
            let page = self
                .session
                .list(Service::Compute, &path, "servers")
                .await?;
            if page.is_empty() {
                return Ok(all);
            }
            for server in &page {
                all.push(Server::read(server)?);
            }
            if page.len() < 500 {
                return Ok(all);
            }
        }
    }

    /// Stops a server and waits until it is SHUTOFF.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, or if it takes too long.
    pub async fn stop_server(&self, id: &str) -> Result<(), Error> {
        self.act(id, "os-stop", "SHUTOFF").await
    }

    /// Starts a stopped server and waits until it is ACTIVE.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, or if it takes too long.
    pub async fn start_server(&self, id: &str) -> Result<(), Error> {
        self.act(id, "os-start", "ACTIVE").await
    }

    async fn act(&self, id: &str, action: &str, status: &str) -> Result<(), Error> {
        let path = format!("/v2.1/servers/{id}");
        self.session
            .post(
                Service::Compute,
                &format!("{path}/action"),
                &json!({action: null}),
            )
            .await?;
        let done = |answer: &Value| {
            answer
                .pointer("/server/status")
                .is_some_and(|seen| seen == status)
        };
        self.session
            .wait(Service::Compute, &path, PATIENCE, done)
            .await
            .map(|_| ())
    }

    /// Deletes a server and waits until it is gone.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, or if it takes too long.
    pub async fn delete_server(&self, id: &str) -> Result<(), Error> {
        let path = format!("/v2.1/servers/{id}");
        self.session.delete(Service::Compute, &path).await?;
        let began = Instant::now();
        loop {
            match self.session.get(Service::Compute, &path).await {
                Err(Error::Rejected { status: 404, .. }) => return Ok(()),
                Ok(seen) if began.elapsed() > PATIENCE => {
                    let (what, seen) = (format!("server {id} to be gone"), seen.to_string());
                    return Err(Error::TimedOut {
                        what,
                        waited: PATIENCE,
                        seen,
                    });
                }
                Err(error) => return Err(error),
                Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Returns the ID of a server's port.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails, or if the server has no port.
    pub async fn port_of(&self, server: &str) -> Result<String, Error> {
        let ports = self
            .session
            .get(Service::Network, &format!("/v2.0/ports?device_id={server}"))
            .await?;
        text(&ports, "/ports/0/id")
    }
}
