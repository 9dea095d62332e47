//! The cloud, a host in memory, and a record of the requests.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use skydock_clouds::{OpenStack, Project, Server, Service as Cataloged, Session};
use skydock_openstack::{
    cloud::Cloud,
    config::Config,
    host_functions::{Event, HostFunctions},
};
use skydock_sdk::{
    http,
    types::{Node, Service},
};
use tokio::runtime::Runtime;

/// A host in memory.
#[derive(Default)]
pub(crate) struct Memory {
    kept: RefCell<BTreeMap<String, (Vec<u8>, Instant)>>,
    pub(crate) annotations: RefCell<BTreeMap<String, Option<String>>>,
    pub(crate) events: RefCell<Vec<Event>>,
    pub(crate) nodes: RefCell<Vec<Node>>,
}

impl HostFunctions for Memory {
    fn cached(&self, key: &str) -> Option<Vec<u8>> {
        let kept = self.kept.borrow();
        kept.get(key)
            .filter(|(_, until)| Instant::now() < *until)
            .map(|(value, _)| value.clone())
    }

    fn cache(&self, key: &str, value: &[u8], lifetime: Duration) {
        self.kept
            .borrow_mut()
            .insert(key.to_owned(), (value.to_vec(), Instant::now() + lifetime));
    }

    fn uncache(&self, key: &str) {
        self.kept.borrow_mut().remove(key);
    }

    fn annotate(&self, _: &Service, key: &str, value: Option<&str>) {
        self.annotations
            .borrow_mut()
            .insert(key.to_owned(), value.map(str::to_owned));
    }

    fn publish(&self, _: &Service, event: &Event) {
        self.events.borrow_mut().push(event.clone());
    }

    fn nodes(&self) -> Option<Vec<Node>> {
        Some(self.nodes.borrow().clone())
    }
}

/// The cloud for all tests of this process. It ends with the process.
struct Started {
    cloud: OpenStack,
    runtime: Runtime,
}

fn started() -> &'static Started {
    static STARTED: OnceLock<Started> = OnceLock::new();
    STARTED.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let cloud = runtime.block_on(async {
            let cloud = OpenStack::start().await.unwrap();
            let admin = cloud.admin().await.unwrap();
            let public = admin.get(Cataloged::Network, "/v2.0/networks?name=public").await.unwrap();
            // Additional floating IPs besides those of `public-v4`.
            let subnet = json!({
                "network_id": public["networks"][0]["id"], "name": "public-b", "ip_version": 4, "cidr": "198.51.100.0/24",
                "enable_dhcp": false,
            });
            admin.create(Cataloged::Network, "/v2.0/subnets", "subnet", subnet).await.unwrap();
            cloud
        });
        Started { cloud, runtime }
    })
}

/// A project of the cloud with a record of its requests.
pub(crate) struct World {
    pub(crate) project: Project,
    pub(crate) auth_url: String,
    pub(crate) host: Memory,
    /// Maximum delay before a test retries, whatever delay is requested: most tests do not count
    /// retries.
    pub(crate) retry_delay: Cell<Duration>,
    calls: Arc<Mutex<Vec<String>>>,
    _interception: http::native::Interception,
}

impl World {
    /// Creates a project with this number of servers: `node0`, `node1`, …
    pub(crate) fn new(servers: usize) -> Self {
        Self::with(servers, async |_, _| {})
    }

    /// Creates a project with the servers `node0` to `node3`: the first with a floating IP and a
    /// host name, the last stopped.
    pub(crate) fn of_all_kinds() -> Self {
        Self::with(4, async |project, servers| {
            let port = project.port_of(&servers[0].id).await.unwrap();
            project.floating_ip(Some(&port)).await.unwrap();
            let (path, name) = (
                format!("/v2.1/servers/{}/metadata", servers[0].id),
                "host-0.example.com",
            );
            let metadata = json!({"metadata": {"hostname": name}});
            project
                .session
                .post(Cataloged::Compute, &path, &metadata)
                .await
                .unwrap();
            project.stop_server(&servers[3].id).await.unwrap();
        })
    }

    fn with(servers: usize, more: impl AsyncFnOnce(&Project, &[Server])) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Started { cloud, runtime } = started();
        let project = runtime.block_on(async {
            let name = format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
            let project = cloud.project(&name).await.unwrap();
            let names: Vec<String> = (0..servers).map(|number| format!("node{number}")).collect();
            let servers = project.create_servers(&names).await.unwrap();
            more(&project, &servers).await;
            project
        });
        let token = project.session.token().to_owned();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let account = Arc::clone(&calls);
        let interception = http::native::intercept(move |request| {
            request
                .headers
                .push(("X-Auth-Token".to_owned(), token.clone()));
            let path = request
                .url
                .splitn(4, '/')
                .nth(3)
                .unwrap_or_default()
                .to_owned();
            account
                .lock()
                .unwrap()
                .push(format!("{} {path}", request.method));
            None
        });
        Self {
            project,
            auth_url: cloud.auth_url(),
            host: Memory::default(),
            retry_delay: Cell::new(Duration::from_millis(300)),
            calls,
            _interception: interception,
        }
    }

    /// Waits for a request that is not one of the plugin.
    pub(crate) fn wait<T>(
        &self,
        request: impl Future<Output = Result<T, skydock_clouds::Error>>,
    ) -> T {
        started().runtime.block_on(request).unwrap()
    }

    /// Returns a session of the administrator.
    pub(crate) fn admin(&self) -> Session {
        self.wait(started().cloud.admin())
    }

    /// Returns the setting for the network of floating IPs, because there are two external
    /// networks.
    pub(crate) fn external(&self) -> String {
        format!(
            "[LoadBalancer]\nfloating-network-id={}\n",
            self.project.external_network_id
        )
    }

    /// Returns a configuration with the sections `Global` and `LoadBalancer` and additional lines.
    pub(crate) fn config(&self, more: &str) -> Config {
        let text = format!(
            "[Global]\nauth-url={}\nregion=RegionOne\n{}{more}",
            self.auth_url,
            self.external()
        );
        Config::parse(&text, &[])
            .unwrap_or_else(|problems| panic!("{}", problems.in_file("cloud.conf")))
    }

    /// Returns the context of one call.
    pub(crate) fn cloud<'a>(&'a self, config: &'a Config) -> Cloud<'a> {
        Cloud::new(config, "kubernetes", &self.host)
    }

    /// Returns the requests since the previous call.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}
