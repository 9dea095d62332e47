//! The cloud, a host that remembers in memory, and the account of what was asked.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use skydock_openstack::{
    cloud::Cloud,
    config::Config,
    host::{Event, Host},
};
use skydock_sdk::{
    http::{self, Request},
    types::{Node, Service},
};

/// Why a test against the real cloud is ignored unless asked for.
macro_rules! real {
    () => {
        match $crate::world::World::from_env() {
            Some(world) => world,
            None => return,
        }
    };
}
pub(crate) use real;

/// A host in memory.
#[derive(Default)]
pub(crate) struct Memory {
    kept: RefCell<BTreeMap<String, Vec<u8>>>,
    pub(crate) annotations: RefCell<BTreeMap<String, Option<String>>>,
    pub(crate) events: RefCell<Vec<Event>>,
    pub(crate) nodes: RefCell<Vec<Node>>,
}

impl Host for Memory {
    fn kept(&self, key: &str) -> Option<Vec<u8>> {
        self.kept.borrow().get(key).cloned()
    }

    fn keep(&self, key: &str, value: &[u8], _: Duration) {
        self.kept.borrow_mut().insert(key.to_owned(), value.to_vec());
    }

    fn forget(&self, key: &str) {
        self.kept.borrow_mut().remove(key);
    }

    fn annotate(&self, _: &Service, key: &str, value: Option<&str>) {
        self.annotations.borrow_mut().insert(key.to_owned(), value.map(str::to_owned));
    }

    fn tell(&self, _: &Service, event: &Event) {
        self.events.borrow_mut().push(event.clone());
    }

    fn nodes(&self) -> Option<Vec<Node>> {
        Some(self.nodes.borrow().clone())
    }
}

/// The cloud with its account.
pub(crate) struct World {
    pub(crate) auth_url: String,
    pub(crate) host: Memory,
    calls: Arc<Mutex<Vec<String>>>,
    _interception: http::native::Interception,
}

impl World {
    /// The cloud that the environment names.
    pub(crate) fn from_env() -> Option<Self> {
        let env = |name: &str| std::env::var(format!("SKYDOCK_OPENSTACK_{name}")).ok();
        let auth_url = env("AUTH_URL")?;
        let domain = json!({"name": "Default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": env("USERNAME")?, "password": env("PASSWORD")?, "domain": domain}}},
            "scope": {"project": {"name": env("PROJECT")?, "domain": domain}},
        }});
        let answer = http::send(Request::post(format!("{auth_url}/auth/tokens")).json(&login).unwrap()).unwrap();
        let token = answer.header("x-subject-token").expect("a token").to_owned();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let account = Arc::clone(&calls);
        let interception = http::native::intercept(move |request| {
            request.headers.push(("X-Auth-Token".to_owned(), token.clone()));
            let path = request.url.splitn(4, '/').nth(3).unwrap_or_default().to_owned();
            account.lock().unwrap().push(format!("{} {path}", request.method));
            None
        });
        Some(Self { auth_url, host: Memory::default(), calls, _interception: interception })
    }

    /// A configuration: further lines, after the section `Global`.
    pub(crate) fn config(&self, more: &str) -> Config {
        let text = format!("[Global]\nauth-url={}\nregion=RegionOne\n{more}", self.auth_url);
        Config::parse(&text, &[]).unwrap_or_else(|problems| panic!("{}", problems.in_file("cloud.conf")))
    }

    /// The cloud as one call sees it.
    pub(crate) fn cloud<'a>(&'a self, config: &'a Config) -> Cloud<'a> {
        Cloud::new(config, "kubernetes", &self.host)
    }

    /// What was asked since it was asked for last.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}
