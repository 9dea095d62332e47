//! A cloud in the process, and what the host would do.
use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::native::{self, Interception},
    load_balancers::Target,
    storage::{StorageError, Topology, VolumeCapability},
    types::{
        AddressKind, CloudError, IpFamily, IpFamilyPolicy, Node, NodeAddress, Service, ServicePort,
        TrafficPolicy, Transport,
    },
    volumes::NewVolume,
};
use skydock_simcloud::{Options, Simcloud};

use crate::{cloud::Cloud, config::Config};

/// A cloud with three servers.
pub(crate) struct World {
    pub(crate) sim: Simcloud,
    pub(crate) config: Config,
    /// Adds the token, which is the host's task.
    _token: Interception,
}

impl World {
    pub(crate) fn start() -> Self {
        let sim = Simcloud::start(Options {
            servers: 3,
            ..Options::default()
        })
        .unwrap();

        let header = (
            "authorization".to_owned(),
            format!("Bearer {}", sim.token()),
        );
        let token = native::intercept(move |request| {
            request.headers.push(header.clone());
            None
        });

        Self {
            config: Config {
                url: sim.url(),
                region: "sim".to_owned(),
            },
            sim,
            _token: token,
        }
    }

    /// Returns the cloud as a cluster sees it.
    pub(crate) fn cluster(&self, uid: &str) -> Cloud<'_> {
        Cloud {
            config: &self.config,
            cluster: uid.to_owned(),
        }
    }

    /// Uses a hook of the cloud.
    pub(crate) fn hook(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.sim.request(method, path, body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        answer
    }

    /// Makes the next call of an operation lose its answer.
    pub(crate) fn lose(&self, operation: &str, after: bool) {
        self.hook(
            "POST",
            "/_sim/failures",
            &json!({"operation": operation, "after": after}),
        );
    }

    /// Returns everything of a kind that exists.
    pub(crate) fn all(&self, kind: &str) -> Vec<Value> {
        self.hook("GET", "/_sim/state", &Value::Null)[kind]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Returns the operations since the last call of this.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = self.hook("GET", "/_sim/calls", &Value::Null);
        self.hook("DELETE", "/_sim/calls", &Value::Null);

        let calls = log["calls"].as_array().unwrap();
        calls
            .iter()
            .map(|call| call["operation"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) fn node(name: &str, provider_id: Option<&str>) -> Node {
    Node {
        name: name.into(),
        provider_id: provider_id.map(Into::into),
        ..Node::default()
    }
}

/// Nodes with these servers.
pub(crate) fn targets(servers: &[u8]) -> Vec<Target> {
    let target = |number: &u8| Target {
        name: format!("node-{number}"),
        provider_id: Some(format!("simcloud:///zone-a/srv-{number}")),
        zone: None,
        addresses: vec![NodeAddress {
            kind: AddressKind::InternalIp,
            address: format!("10.0.0.{number}"),
        }],
    };
    servers.iter().map(target).collect()
}

/// A Service with a TCP and a UDP port.
pub(crate) fn service() -> Service {
    let port = |transport, port: u16| ServicePort {
        name: format!("{transport:?}"),
        transport,
        app_protocol: None,
        port,
        target_port: port.to_string(),
        node_port: 30000 + port,
    };

    Service {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "5f0c".into(),
        ports: vec![port(Transport::Tcp, 80), port(Transport::Udp, 53)],
        ip_families: vec![IpFamily::Ipv4],
        ip_family_policy: IpFamilyPolicy::SingleStack,
        external_traffic_policy: TrafficPolicy::Cluster,
        allocate_node_ports: true,
        ..Service::default()
    }
}

/// A volume of 10 GiB in the first zone.
pub(crate) fn new_volume(name: &str) -> NewVolume {
    NewVolume {
        name: name.into(),
        size_bytes: 10 << 30,
        capabilities: vec![VolumeCapability::default()],
        requisite: ["zone-a", "zone-b"].map(zone).to_vec(),
        preferred: vec![zone("zone-a")],
        ..NewVolume::default()
    }
}

/// The part of the cloud that is a zone.
pub(crate) fn zone(name: &str) -> Topology {
    vec![(
        "topology.csi.simcloud.example/zone".to_owned(),
        name.to_owned(),
    )]
}

/// The name of the case of a result's error, or `ok`.
pub(crate) fn case<T>(result: &Result<T, StorageError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(StorageError::Exists(_)) => "exists",
        Err(StorageError::Exhausted(_)) => "exhausted",
        Err(StorageError::OutOfRange(_)) => "out-of-range",
        Err(StorageError::InUse(_)) => "in-use",
        Err(StorageError::Cloud(CloudError::NotFound(_))) => "not-found",
        Err(StorageError::Cloud(CloudError::InProgress(_))) => "in-progress",
        Err(StorageError::Cloud(CloudError::Invalid(_))) => "invalid",
        Err(StorageError::Cloud(CloudError::Throttled(_))) => "throttled",
        Err(StorageError::Cloud(CloudError::Unavailable(_))) => "unavailable",
        Err(StorageError::Cloud(_)) => "other",
    }
}

/// The names of the cases of many results.
pub(crate) fn cases<T>(results: &[Result<T, StorageError>]) -> Vec<&'static str> {
    results.iter().map(case).collect()
}
