//! What the provider asks of Azure for the node of one virtual machine: the endpoints of the cloud, a token, zones, the machine and its
//! network interface.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::{authority::Authority, rotation::front::Front};

/// The secret with which Skydock logs in, and the token that it gets.
pub(super) const SECRET: &str = "a-secret-of-azure";
pub(super) const TOKEN: &str = "a-token-of-azure";
/// The virtual machine, and its address.
pub(super) const MACHINE: &str = "vm-1";
pub(super) const ADDRESS: &str = "10.2.0.4";
/// The paths of the resources that are known.
pub(super) const GROUP: &str = "/subscriptions/sub/resourceGroups/group";

/// The power of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Power {
    #[default]
    Running,
    Deallocated,
    /// The machine is deleted.
    Gone,
}

#[derive(Default)]
struct State {
    power: Power,
    requests: Vec<String>,
}

/// An Azure with one virtual machine. It ends when it is dropped.
pub(super) struct Stub {
    front: Front,
    authority: Authority,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

impl Stub {
    /// Starts an Azure.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let authority = Authority::new("azure")?;
        let leaf = authority.sign(Duration::from_secs(24 * 3600))?;
        let front = Front::before(&listener.local_addr()?.to_string(), &leaf, &[]).await?;
        let state: Arc<Mutex<State>> = Arc::default();
        let of_task = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&of_task)));
            }
        });
        Ok(Self { front, authority, state, task: task.abort_handle() })
    }

    /// Returns the URL of everything.
    pub(super) fn url(&self) -> String {
        self.front.url()
    }

    /// Returns the certificate of the authority in PEM.
    pub(super) fn authority(&self) -> String {
        self.authority.pem()
    }

    /// Changes the power of the machine.
    pub(super) fn set_power(&self, power: Power) {
        lock(&self.state).power = power;
    }

    /// Returns all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        lock(&self.state).requests.clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// No code that holds the lock can panic in an inconsistent state.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request. Errors are ignored, because clients may close connections.
async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) -> Result<()> {
    let mut text = String::new();
    let (head, length) = loop {
        let mut more = [0; 16 << 10];
        let count = stream.read(&mut more).await?;
        text.push_str(std::str::from_utf8(more.get(..count).unwrap_or_default())?);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length || count == 0 {
                break (head.to_owned(), head.len() + 4);
            }
        }
    };
    let (status, answer) = answer(&head, text.get(length..).unwrap_or_default(), &state)?;
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(format!("{head}{answer}").as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn answer(head: &str, body: &str, state: &Mutex<State>) -> Result<(u16, Value)> {
    let mut words = head.split(' ');
    let (method, target) = (words.next().context("a method")?, words.next().context("a target")?);
    let path = target.split('?').next().unwrap_or_default();
    let power = {
        let mut state = lock(state);
        state.requests.push(format!("{method} {path}"));
        state.power
    };
    let base = format!("https://{}", header(head, "host").context("a host")?);
    let error = |status, code: &str| (status, json!({"error": {"code": code, "message": path}}));
    Ok(match (method, path) {
        ("GET", "/metadata/endpoints") => {
            let login = json!({"loginEndpoint": base, "audiences": [base]});
            (200, json!([{"name": "stub", "resourceManager": base, "authentication": login}]))
        }
        ("GET", "/adfs/.well-known/openid-configuration") => {
            let [issuer, authorize, token] =
                ["", "/oauth2/authorize", "/oauth2/token"].map(|it| format!("{base}/adfs{it}"));
            (200, json!({"issuer": issuer, "authorization_endpoint": authorize, "token_endpoint": token}))
        }
        ("POST", "/adfs/oauth2/token") if body.contains(&format!("client_secret={SECRET}")) => {
            (200, json!({"token_type": "Bearer", "expires_in": 3600, "access_token": TOKEN}))
        }
        _ if header(head, "authorization") != Some(&format!("Bearer {TOKEN}")) => error(401, "AuthenticationFailed"),
        ("GET", "/subscriptions/sub/providers/Microsoft.Compute") => {
            let zones = json!([{"location": "West Europe", "zones": ["1", "2", "3"]}]);
            let kind = json!({"resourceType": "virtualMachines", "locations": ["West Europe"], "zoneMappings": zones});
            (200, json!({"namespace": "Microsoft.Compute", "resourceTypes": [kind]}))
        }
        ("GET", path) => match (path.to_ascii_lowercase().rsplit_once('/'), power) {
            (Some((_, MACHINE)), Power::Running | Power::Deallocated) => (200, machine(power)),
            (Some((_, "virtualmachines")), Power::Gone) => (200, json!({"value": []})),
            (Some((_, "virtualmachines")), _) => (200, json!({"value": [machine(power)]})),
            (Some((_, "nic-1")), _) => (200, interface()),
            _ => error(404, "ResourceNotFound"),
        },
        _ => error(405, "MethodNotAllowed"),
    })
}

fn machine(power: Power) -> Value {
    let status = if power == Power::Running { "PowerState/running" } else { "PowerState/deallocated" };
    json!({
        "id": format!("{GROUP}/providers/Microsoft.Compute/virtualMachines/{MACHINE}"),
        "name": MACHINE, "location": "westeurope", "zones": ["2"],
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_D2s_v5"}, "provisioningState": "Succeeded",
            "networkProfile": {"networkInterfaces": [{"id": format!("{GROUP}/providers/Microsoft.Network/networkInterfaces/nic-1")}]},
            "instanceView": {"statuses": [{"code": "ProvisioningState/succeeded"}, {"code": status}]},
        },
    })
}

fn interface() -> Value {
    let id = format!("{GROUP}/providers/Microsoft.Network/networkInterfaces/nic-1");
    let address = json!({"name": "ipconfig1", "properties": {"privateIPAddress": ADDRESS, "primary": true}});
    json!({"id": id, "name": "nic-1", "properties": {"primary": true, "ipConfigurations": [address]}})
}
