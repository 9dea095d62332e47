//! What the provider asks of Azure for the nodes of virtual machines: the endpoints of the cloud, a
//! token, zones, the machines and their network interfaces.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// The secret with which Skydock logs in, and the token that it gets.
pub(super) const SECRET: &str = "a-secret-of-azure";
pub(super) const TOKEN: &str = "a-token-of-azure";
/// The path of the resource group, and those of the resources in it.
pub(super) const GROUP: &str = "/subscriptions/sub/resourceGroups/group";
const MACHINES: &str =
    "/subscriptions/sub/resourceGroups/group/providers/Microsoft.Compute/virtualMachines";
const INTERFACES: &str =
    "/subscriptions/sub/resourceGroups/group/providers/Microsoft.Network/networkInterfaces";

/// A virtual machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) address: String,
    runs: bool,
}

type Machines = Arc<Mutex<BTreeMap<String, Machine>>>;

/// An Azure with a resource group. It ends when it is dropped.
pub(super) struct Stub {
    url: String,
    machines: Machines,
    task: AbortHandle,
}

impl Stub {
    /// Starts an Azure.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let machines = Machines::default();
        let of_task = Arc::clone(&machines);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&of_task)));
            }
        });
        Ok(Self {
            url,
            machines,
            task: task.abort_handle(),
        })
    }

    /// Returns the URL of everything.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Creates the virtual machine with this number, which runs.
    pub(super) fn create(&self, number: usize) -> Machine {
        let (name, address) = (
            format!("vm-{number}"),
            format!("10.2.{}.{}", number / 250, number % 250 + 4),
        );
        let machine = Machine {
            name: name.clone(),
            address,
            runs: true,
        };
        lock(&self.machines).insert(name, machine.clone());
        machine
    }

    /// Starts or deallocates a virtual machine.
    ///
    /// # Errors
    /// Fails if it does not exist.
    pub(super) fn set_running(&self, name: &str, runs: bool) -> Result<()> {
        lock(&self.machines)
            .get_mut(name)
            .context("no such machine")?
            .runs = runs;
        Ok(())
    }

    /// Deletes a virtual machine.
    ///
    /// # Errors
    /// Fails if it does not exist.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        lock(&self.machines)
            .remove(name)
            .map(drop)
            .context("no such machine")
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// No code that holds the lock can panic in an inconsistent state.
fn lock(machines: &Mutex<BTreeMap<String, Machine>>) -> MutexGuard<'_, BTreeMap<String, Machine>> {
    machines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request. Errors are ignored, because clients may close connections.
async fn serve(mut stream: TcpStream, machines: Machines) -> Result<()> {
    let mut text = String::new();
    let (head, length) = loop {
        let mut more = [0; 16 << 10];
        let count = stream.read(&mut more).await?;
        text.push_str(std::str::from_utf8(more.get(..count).unwrap_or_default())?);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length")
                .and_then(|length| length.parse().ok())
                .unwrap_or(0);
            if body.len() >= length || count == 0 {
                break (head.to_owned(), head.len() + 4);
            }
        }
    };
    let (status, answer) = {
        let machines = lock(&machines);
        answer(&head, text.get(length..).unwrap_or_default(), &machines)?
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream
        .write_all(format!("{head}{answer}").as_bytes())
        .await?;
    Ok(stream.shutdown().await?)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines
        .into_iter()
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn answer(head: &str, body: &str, machines: &BTreeMap<String, Machine>) -> Result<(u16, Value)> {
    let mut words = head.split(' ');
    let (method, target) = (
        words.next().context("a method")?,
        words.next().context("a target")?,
    );
    let path = target.split('?').next().unwrap_or_default();
    let base = format!("https://{}", header(head, "host").context("a host")?);
    let error = |status, code: &str| (status, json!({"error": {"code": code, "message": path}}));
    Ok(match (method, path) {
        ("GET", "/metadata/endpoints") => {
            let login = json!({"loginEndpoint": base, "audiences": [base]});
            (
                200,
                json!([{"name": "stub", "resourceManager": base, "authentication": login}]),
            )
        }
        ("GET", "/adfs/.well-known/openid-configuration") => {
            let [issuer, authorize, token] =
                ["", "/oauth2/authorize", "/oauth2/token"].map(|it| format!("{base}/adfs{it}"));
            (
                200,
                json!({"issuer": issuer, "authorization_endpoint": authorize, "token_endpoint": token}),
            )
        }
        ("POST", "/adfs/oauth2/token") if body.contains(&format!("client_secret={SECRET}")) => (
            200,
            json!({"token_type": "Bearer", "expires_in": 3600, "access_token": TOKEN}),
        ),
        _ if header(head, "authorization") != Some(&format!("Bearer {TOKEN}")) => {
            error(401, "AuthenticationFailed")
        }
        ("GET", "/subscriptions/sub/providers/Microsoft.Compute") => {
            let zones = json!([{"location": "West Europe", "zones": ["1", "2", "3"]}]);
            let kind = json!({"resourceType": "virtualMachines", "locations": ["West Europe"], "zoneMappings": zones});
            (
                200,
                json!({"namespace": "Microsoft.Compute", "resourceTypes": [kind]}),
            )
        }
        ("GET", path) if of(path, MACHINES) == Some("") => (
            200,
            json!({"value": machines.values().map(machine).collect::<Vec<_>>()}),
        ),
        ("GET", path) => {
            let found = of(path, MACHINES)
                .and_then(|name| machines.get(name))
                .map(machine);
            let of_machine =
                of(path, INTERFACES).and_then(|name| machines.get(name.strip_prefix("nic-")?));
            match found.or_else(|| of_machine.map(interface)) {
                Some(resource) => (200, resource),
                None => error(404, "ResourceNotFound"),
            }
        }
        _ => error(405, "MethodNotAllowed"),
    })
}

/// Returns the name of a resource, or an empty name for the list of resources. Azure does not
/// distinguish cases in paths; all names are in lower case.
fn of<'a>(path: &'a str, list: &str) -> Option<&'a str> {
    let (start, name) = path.split_at_checked(list.len())?;
    start
        .eq_ignore_ascii_case(list)
        .then(|| name.trim_start_matches('/'))
}

fn machine(machine: &Machine) -> Value {
    let power = if machine.runs {
        "PowerState/running"
    } else {
        "PowerState/deallocated"
    };
    json!({
        "id": format!("{MACHINES}/{}", machine.name),
        "name": machine.name, "location": "westeurope", "zones": ["2"],
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_D2s_v5"}, "provisioningState": "Succeeded",
            "networkProfile": {"networkInterfaces": [{"id": format!("{INTERFACES}/nic-{}", machine.name)}]},
            "instanceView": {"statuses": [{"code": "ProvisioningState/succeeded"}, {"code": power}]},
        },
    })
}

fn interface(machine: &Machine) -> Value {
    let address = json!({"name": "ipconfig1", "properties": {"privateIPAddress": machine.address, "primary": true}});
    let name = format!("nic-{}", machine.name);
    json!({"id": format!("{INTERFACES}/{name}"), "name": name, "properties": {"primary": true, "ipConfigurations": [address]}})
}
