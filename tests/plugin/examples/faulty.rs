//! A cloud that breaks one demand of the contract, which its cloud-config names; with `none` it
//! breaks none. Its load balancers and routes are in the host's cache.
use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use skydock_sdk::cache::{self, Reservation};
use skydock_sdk::http::{self, Request};
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::load_balancers::NodeSet;
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::routes::{NewRoute, Route, RoutePage};
use skydock_sdk::types::{CloudError, Ingress, LoadBalancerStatus, Node, Service};
use skydock_sdk::{Configured, Instances, LoadBalancers, Plugin, Result, Routes};

struct Faulty;

static FAULT: Configured<String> = Configured::new();

const FAULTS: &[&str] = &[
    "none",
    "asks-early",
    "accepts-anything",
    "quotes",
    "reversed",
    "counts",
    "rejects-empty",
    "slices-names",
    "guesses-absent",
    "blames-the-node",
    "no-text",
    "leaks",
    "remembers",
    "other-info",
    "alone",
    "name-first",
    "new-address",
    "updates-nothing",
    "deletes-once",
    "creates-once",
    "waits",
    "poisoned",
    "guesses-unasked",
    "get-deletes",
    "get-creates",
    "never-updates",
    "leaks-in-ensure",
    "doubles",
    "slices-services",
    "forgets-a-route",
    "keeps-routes",
    "swaps-results",
    "needs-a-target",
];

/// How long what is in the cache lives.
const LIFETIME: Duration = Duration::from_hours(1);

thread_local! {
    /// What the instance remembers, although it should not.
    static MEMORY: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends a request, and returns its error.
fn ask() -> Result<()> {
    http::send(Request::get("http://cloud.example:80/"))?
        .success()
        .map(drop)
}

/// Returns the time in nanoseconds, which is never the same.
fn now() -> u128 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_nanos()
}

/// Fails if another instance does the same.
fn alone() -> Result<()> {
    match cache::reserve("alone", now().to_string().as_bytes(), LIFETIME) {
        Reservation::Held => {
            std::thread::sleep(Duration::from_millis(50));
            cache::remove("alone");
            Ok(())
        }
        _ => Err(CloudError::conflict("another instance is at work")),
    }
}

fn has(fault: &str) -> bool {
    FAULT.get().is_ok_and(|it| *it == fault)
}

impl Plugin for Faulty {
    fn configure(settings: Settings) -> Result<()> {
        let text = settings.cloud_config.unwrap_or_default().trim().to_owned();
        let option = settings
            .options
            .iter()
            .find(|(key, _)| key == "fault")
            .map(|(_, value)| value.clone());
        let fault = option.unwrap_or_else(|| text.clone());
        if fault == "quotes" && text != "quotes" {
            return Err(CloudError::invalid(format!("line 1: unknown fault {text}")));
        }
        if fault != "accepts-anything" && !FAULTS.contains(&text.as_str()) {
            return Err(CloudError::invalid("line 1: the fault is unknown"));
        }
        if fault == "asks-early" {
            let _ = ask();
        }
        FAULT.set(fault);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "faulty".into(),
            version: if has("other-info") {
                format!("1.0.{}", now())
            } else {
                "1.0.0".into()
            },
            provider_id_prefixes: vec!["faulty://".into()],
            ..PluginInfo::default()
        }
    }
}

impl Instances for Faulty {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        if nodes.is_empty() && has("rejects-empty") {
            return Err(CloudError::internal("no nodes"));
        }
        if has("guesses-absent") && ask().is_err() {
            return Ok(nodes.iter().map(|_| Ok(Presence::Absent)).collect());
        }
        if has("blames-the-node") && ask().is_err() {
            return Err(CloudError::invalid("the cloud did not answer"));
        }
        if has("no-text") {
            return Err(CloudError::internal(""));
        }
        if has("alone") {
            alone()?;
        }
        if has("poisoned")
            && nodes
                .iter()
                .any(|node| node.provider_id.as_ref().is_some_and(|id| id.contains('%')))
        {
            return Err(CloudError::invalid("a provider ID is not valid"));
        }
        if has("guesses-unasked") {
            return Ok(nodes.iter().map(|_| Ok(Presence::Absent)).collect());
        }
        if has("doubles") {
            BUFFER.with_borrow_mut(|buffer| buffer.extend_from_slice(&[1; 8192]));
        }
        if has("leaks") {
            MEMORY.with_borrow_mut(|memory| memory.push(vec![1; 10_000]));
        }
        Ok(nodes.iter().map(|_| Ok(Presence::Running)).collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        if has("guesses-unasked") {
            ask()?;
        }
        let calls = MEMORY.with_borrow_mut(|memory| {
            if has("counts") || has("remembers") && memory.len() < 2 {
                memory.push(Vec::new());
            }
            memory.len()
        });
        let zone = if has("counts") || has("remembers") {
            format!("z{calls}")
        } else {
            "z".into()
        };
        let instance = |node: &Node| {
            let name = &node.name;
            assert!(!has("slices-names") || name.len() < 100, "a name is long");
            Ok(Instance {
                provider_id: node
                    .provider_id
                    .clone()
                    .filter(|_| !has("name-first"))
                    .or_else(|| Some(format!("faulty://{}", &name[..name.len().min(200)]))),
                zone: Some(zone.clone()),
                ..Instance::default()
            })
        };
        let mut answers: Vec<_> = nodes.iter().map(instance).collect();
        if has("reversed") {
            answers.reverse();
        }
        Ok(answers)
    }
}

fn key(service: &Service) -> String {
    format!("load-balancer/{}", service.uid)
}

/// Returns a status with this text as its name.
fn status(address: &[u8]) -> LoadBalancerStatus {
    let hostname = Some(String::from_utf8_lossy(address).into_owned());
    LoadBalancerStatus {
        ingress: vec![Ingress {
            hostname,
            ..Ingress::default()
        }],
    }
}

impl LoadBalancers for Faulty {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        let found = cache::get(&key(&service)).map(|address| status(&address));
        if has("get-deletes") {
            cache::remove(&key(&service));
        }
        if has("get-creates") {
            _ = cache::set(&key(&service), b"lb.example", LIFETIME);
        }
        Ok(found)
    }

    fn ensure(service: Service, _: &NodeSet) -> Result<LoadBalancerStatus> {
        assert!(
            !has("slices-services") || service.name.len() < 60,
            "a name is long"
        );
        if has("leaks-in-ensure") {
            MEMORY.with_borrow_mut(|memory| memory.push(vec![1; 10_000]));
        }
        if has("waits") {
            std::thread::sleep(Duration::from_millis(2200));
        }
        let address = if has("new-address") {
            format!("h{}.example", now())
        } else {
            "lb.example".to_owned()
        };
        _ = cache::set(&key(&service), address.as_bytes(), LIFETIME);
        Ok(status(address.as_bytes()))
    }

    fn update_nodes(service: Service, _: &NodeSet) -> Result<()> {
        if has("never-updates") && cache::get(&key(&service)).is_some() {
            return Err(CloudError::internal("it does not work"));
        }
        let exists = has("updates-nothing") || cache::get(&key(&service)).is_some();
        if exists {
            Ok(())
        } else {
            Err(CloudError::not_found("there is no load balancer"))
        }
    }

    fn ensure_deleted(service: Service) -> Result<()> {
        if has("deletes-once") && cache::get(&key(&service)).is_none() {
            return Err(CloudError::not_found("there is no load balancer"));
        }
        cache::remove(&key(&service));
        Ok(())
    }
}

/// The routes: a line with node and destination for each.
fn table() -> Vec<String> {
    let text = cache::get("routes")
        .and_then(|text| String::from_utf8(text).ok())
        .unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn keep(table: &[String]) {
    _ = cache::set("routes", table.join("\n").as_bytes(), LIFETIME);
}

impl Routes for Faulty {
    fn list_routes(_: Option<String>) -> Result<RoutePage> {
        let route = |line: String| {
            let (node, cidr) = line.split_once(' ')?;
            Some(Route {
                name: line.clone(),
                target_node: Some(node.to_owned()),
                target_addresses: None,
                destination_cidr: cidr.to_owned(),
                blackhole: false,
            })
        };
        let mut routes: Vec<_> = table().into_iter().filter_map(route).collect();
        if has("forgets-a-route") {
            routes.pop();
        }
        Ok(RoutePage { routes, next: None })
    }

    fn create_routes(routes: Vec<NewRoute>) -> Vec<Result<()>> {
        let mut table = table();
        let create = |new: NewRoute| {
            if has("swaps-results") && new.target_provider_id.is_none() {
                return Err(CloudError::in_progress(
                    Duration::from_secs(1),
                    "the node has no provider ID",
                ));
            }
            let line = format!("{} {}", new.target_node, new.destination_cidr);
            match table.contains(&line) {
                true if has("creates-once") => {
                    return Err(CloudError::conflict("the route exists"));
                }
                true => {}
                false => table.push(line),
            }
            Ok(())
        };
        let mut answers: Vec<_> = routes.into_iter().map(create).collect();
        if has("swaps-results") {
            answers.reverse();
        }
        keep(&table);
        answers
    }

    fn delete_routes(routes: Vec<Route>) -> Vec<Result<()>> {
        assert!(
            !has("needs-a-target") || routes.iter().all(|route| route.target_node.is_some()),
            "no target"
        );
        let mut table = table();
        table.retain(|line| has("keeps-routes") || routes.iter().all(|route| route.name != *line));
        keep(&table);
        routes.iter().map(|_| Ok(())).collect()
    }
}

skydock_sdk::export!(Faulty: instances, load_balancers, routes);
