//! Helpers for unit tests of complete calls: a host in memory, and a cloud with scripted answers.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use skydock_sdk::{
    http::{self, Response, native::Interception},
    load_balancers::Target,
    types::{AddressKind, Node, NodeAddress, Service},
};

use crate::{
    cloud::Cloud,
    config::Config,
    host_functions::{Event, HostFunctions},
    load_balancers::Nodes,
};

/// A host in memory.
#[derive(Default)]
pub(crate) struct Memory {
    entries: RefCell<BTreeMap<String, Vec<u8>>>,
    pub(crate) annotations: RefCell<BTreeMap<String, Option<String>>>,
    pub(crate) events: RefCell<Vec<Event>>,
    /// The addresses of the cluster's nodes.
    pub(crate) nodes: RefCell<Vec<&'static str>>,
    /// True if the host does not know the nodes yet.
    pub(crate) unsynced: Cell<bool>,
}

impl HostFunctions for Memory {
    fn cached(&self, key: &str) -> Option<Vec<u8>> {
        self.entries.borrow().get(key).cloned()
    }

    fn cache(&self, key: &str, value: &[u8], _: Duration) {
        self.entries
            .borrow_mut()
            .insert(key.to_owned(), value.to_vec());
    }

    fn uncache(&self, key: &str) {
        self.entries.borrow_mut().remove(key);
    }

    fn annotate(&self, _: &Service, key: &str, value: Option<&str>) {
        self.annotations
            .borrow_mut()
            .insert(key.to_owned(), value.map(str::to_owned));
    }

    fn publish(&self, _: &Service, event: &Event) {
        assert!(
            !skydock_cloud::reason::is_reserved(event.reason),
            "Skydock rejects {}",
            event.reason
        );
        self.events.borrow_mut().push(event.clone());
    }

    fn nodes(&self) -> Option<Vec<Node>> {
        let node = |address: &&str| {
            let address = NodeAddress {
                kind: AddressKind::InternalIp,
                address: (*address).to_owned(),
            };
            Node {
                addresses: vec![address],
                ..Node::default()
            }
        };
        (!self.unsynced.get()).then(|| self.nodes.borrow().iter().map(node).collect())
    }
}

/// No nodes.
pub(crate) struct NoNodes;

impl Nodes for NoNodes {
    fn targets(&self) -> Rc<[Target]> {
        Rc::default()
    }

    fn nodes(&self) -> Vec<Node> {
        Vec::new()
    }
}

/// A cloud with scripted answers: prefixes of requests, each with a status and a body. Other
/// requests get status 500.
pub(crate) struct Script {
    pub(crate) host: Memory,
    pub(crate) config: Config,
    requested: Arc<Mutex<Vec<String>>>,
    bodies: Arc<Mutex<Vec<(String, Value)>>>,
    conditions: Arc<Mutex<Vec<(String, String)>>>,
    versions: Arc<Mutex<Vec<(String, String)>>>,
    answers: Arc<Mutex<Vec<(String, u16, Value)>>>,
    _interception: Interception,
}

/// The answers of every test: the catalog, the version of Octavia, and empty lists.
fn default_answers() -> Vec<(String, u16, Value)> {
    let endpoint = |kind: &str| json!({"type": kind, "endpoints": [{"interface": "public", "region": "one", "url": format!("http://{kind}")}]});
    let catalog: Vec<Value> = ["compute", "network", "load-balancer", "block-storage"]
        .map(endpoint)
        .to_vec();
    vec![
        (
            "GET http://k/v3/auth/catalog".to_owned(),
            200,
            json!({"catalog": catalog}),
        ),
        (
            "GET http://load-balancer/ ".to_owned(),
            200,
            json!({"versions": [{"id": "v2.0"}, {"id": "v2.27"}]}),
        ),
        (
            "GET http://load-balancer/v2.0/lbaas/loadbalancers?tags=".to_owned(),
            200,
            json!({"loadbalancers": []}),
        ),
        (
            "GET http://load-balancer/v2.0/lbaas/loadbalancers?vip_".to_owned(),
            200,
            json!({"loadbalancers": []}),
        ),
        (
            "GET http://network/v2.0/floatingips?floating_ip_address=".to_owned(),
            200,
            json!({"floatingips": []}),
        ),
        (
            "GET http://load-balancer/v2.0/lbaas/listeners?".to_owned(),
            200,
            json!({"listeners": []}),
        ),
    ]
}

impl Script {
    pub(crate) fn new(config: &str) -> Self {
        let answers = Arc::new(Mutex::new(default_answers()));
        let requested = Arc::new(Mutex::new(Vec::new()));
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let conditions = Arc::new(Mutex::new(Vec::new()));
        let versions = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::clone(&answers);
        let account = Arc::clone(&requested);
        let sent = Arc::clone(&bodies);
        let conditional = Arc::clone(&conditions);
        let versioned = Arc::clone(&versions);

        let interception = http::native::intercept(move |request| {
            let line = format!("{} {} ", request.method, request.url);
            let script = script.lock().unwrap();
            let found = script
                .iter()
                .rev()
                .find(|(beginning, ..)| line.starts_with(beginning.as_str()));
            let (status, body) = found.map_or((500, Value::Null), |(_, status, body)| {
                (*status, body.clone())
            });
            if !line.contains("auth/catalog") && !line.contains("load-balancer/ ") {
                account.lock().unwrap().push(line.trim_end().to_owned());
            }
            for (name, version) in &request.headers {
                if name == "OpenStack-API-Version" {
                    let version = (line.clone(), version.clone());
                    versioned.lock().unwrap().push(version);
                }
            }
            if let Some((_, condition)) =
                request.headers.iter().find(|(name, _)| name == "If-Match")
            {
                let condition = (line.trim_end().to_owned(), condition.clone());
                conditional.lock().unwrap().push(condition);
            }
            if let Ok(body) = serde_json::from_slice(&request.body) {
                sent.lock().unwrap().push((line, body));
            }
            Some(Response {
                status,
                body: body.to_string().into_bytes(),
                ..Response::default()
            })
        });
        let text = format!("[Global]\nauth-url=http://k\nregion=one\n{config}");
        let config = Config::parse(&text, &[]).unwrap();
        let host = Memory::default();
        // The process is not new.
        host.cache("running", &[1], Duration::MAX);
        Self {
            host,
            config,
            requested,
            bodies,
            conditions,
            versions,
            answers,
            _interception: interception,
        }
    }

    /// Sets the answer for requests with this prefix. The last matching answer is used.
    pub(crate) fn on(&self, beginning: &str, status: u16, body: Value) -> &Self {
        self.answers
            .lock()
            .unwrap()
            .push((beginning.to_owned(), status, body));
        self
    }

    pub(crate) fn cloud(&self) -> Cloud<'_> {
        Cloud::new(&self.config, "c", &self.host)
    }

    /// Returns the bodies of requests with this prefix.
    pub(crate) fn sent(&self, beginning: &str) -> Vec<Value> {
        let sent = self.bodies.lock().unwrap();
        sent.iter()
            .filter(|(line, _)| line.starts_with(beginning))
            .map(|(_, body)| body.clone())
            .collect()
    }

    /// Returns the requests with `If-Match`, and its values.
    pub(crate) fn conditions(&self) -> Vec<(String, String)> {
        self.conditions.lock().unwrap().clone()
    }

    /// Returns the versions of the API of requests with this prefix.
    pub(crate) fn versions(&self, beginning: &str) -> Vec<String> {
        let versions = self.versions.lock().unwrap();
        versions
            .iter()
            .filter(|(line, _)| line.starts_with(beginning))
            .map(|(_, version)| version.clone())
            .collect()
    }

    /// Returns the requests since the previous call.
    pub(crate) fn requested(&self) -> Vec<String> {
        std::mem::take(&mut self.requested.lock().unwrap())
    }
}
