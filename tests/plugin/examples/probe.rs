//! A plugin that uses everything that the host offers, and reports the results in events.
//!
//! The options `unused` and `overlap` are passed to `info`. `pages` is the number of pages when
//! routes are listed, each with two routes, or `endless`. The annotations of a service are
//! `probe.example/read` with the object to read (`KIND NAMESPACE NAME`), and `probe.example/end`
//! with the way in which `ensure` ends: `error`, `trap` or `retire`.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use skydock_sdk::events::{self, Severity};
use skydock_sdk::load_balancers::{NodeSet, Target};
use skydock_sdk::plugin::{Overlap, PluginInfo, Settings};
use skydock_sdk::routes::{NewRoute, Route, RoutePage};
use skydock_sdk::types::{CloudError, Ingress, LoadBalancerStatus, Pair, Service};
use skydock_sdk::{
    Configured, LoadBalancers, Lookup, Maintenance, Plugin, Result, Routes, calls, cluster, objects,
};

struct Probe;

static OPTIONS: Configured<Vec<Pair>> = Configured::new();

/// The number of calls of this plugin instance.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// `info` had time left.
static INFO_HAD_TIME: AtomicBool = AtomicBool::new(false);

skydock_sdk::export!(Probe: load_balancers, routes, maintenance);

impl Plugin for Probe {
    fn configure(settings: Settings) -> Result<()> {
        if objects::annotate("default/web", "probe.example/early", Some("x"))
            || cluster::revision().is_some()
        {
            return Err(CloudError::invalid("something could be done too early"));
        }
        if !has_time() {
            return Err(CloudError::invalid("there is no time to configure it"));
        }
        OPTIONS.set(settings.options);
        Ok(())
    }

    fn info() -> PluginInfo {
        INFO_HAD_TIME.store(has_time(), Ordering::SeqCst);
        let options = OPTIONS.get().unwrap_or_default();
        PluginInfo {
            name: "probe".into(),
            version: "1.0.0".into(),
            unused: options
                .lookup("unused")
                .map(|names| names.split(',').map(Into::into).collect())
                .unwrap_or_default(),
            overlap: match options.lookup("overlap") {
                Some("none") => Overlap::None,
                Some("per-interface") => Overlap::PerInterface,
                _ => Overlap::Any,
            },
            annotation_prefixes: vec![options.lookup("prefix").unwrap_or("probe.example/").into()],
            ..PluginInfo::default()
        }
    }
}

impl LoadBalancers for Probe {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        let written = objects::annotate(&name(&service), "probe.example/got", Some("1"));
        tell(&name(&service), "Got", &format!("annotate={written}"));
        Ok(None)
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        let call = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
        let object = name(&service);
        objects::annotate(&object, "probe.example/begun", Some("1"));
        let mut said = vec![
            format!("call={call}"),
            format!(
                "remaining={}",
                has_time() && INFO_HAD_TIME.load(Ordering::SeqCst)
            ),
            format!("memory={}", calls::memory_limit()),
            format!("arguments={:?}", std::env::args().collect::<Vec<_>>()),
            format!("uid={:?}", cluster::uid()),
            format!("revision={:?}", cluster::revision()),
            format!("changes={}", changes(nodes)),
        ];
        if let Some(wanted) = service.annotations.lookup("probe.example/read") {
            let words: Vec<&str> = wanted.split(' ').collect();
            if let [kind, namespace, name] = words[..] {
                said.push(format!("read={:?}", objects::read(kind, namespace, name)));
            }
        }
        let long = "x".repeat(4097);
        for (on, key, value) in [
            (
                object.as_str(),
                "probe.example/id",
                Some(format!("lb-{call}")),
            ),
            (object.as_str(), "probe.example/gone", None),
            ("default/other", "probe.example/id", Some("x".into())),
            (object.as_str(), "other.example/id", Some("x".into())),
            (object.as_str(), "probe.example/", Some("x".into())),
            (
                object.as_str(),
                "probe.example/not a name",
                Some("x".into()),
            ),
            (object.as_str(), "probe.example/long", Some(long)),
        ] {
            said.push(format!(
                "{}",
                u8::from(objects::annotate(on, key, value.as_deref()))
            ));
        }
        tell(&object, "Ensured", &said.join(" "));
        match service.annotations.lookup("probe.example/end") {
            Some("error") => return Err(CloudError::unavailable("as it was asked for")),
            Some("trap") => std::process::abort(),
            Some("retire") => calls::retire(),
            Some("many") => {
                let taken = (0..20).filter(|n| {
                    objects::annotate(&object, &format!("probe.example/n{n}"), Some("x"))
                });
                tell(&object, "Many", &taken.count().to_string());
            }
            _ => {}
        }
        let ip = Some("192.0.2.1".to_owned());
        Ok(LoadBalancerStatus {
            ingress: vec![Ingress {
                ip,
                ..Ingress::default()
            }],
        })
    }

    fn update_nodes(service: Service, nodes: &NodeSet) -> Result<()> {
        tell(&name(&service), "Updated", &changes(nodes));
        Ok(())
    }

    fn ensure_deleted(_: Service) -> Result<()> {
        Ok(())
    }
}

impl Routes for Probe {
    fn list_routes(page: Option<String>) -> Result<RoutePage> {
        let options = OPTIONS.get()?;
        let number: usize = page
            .as_deref()
            .unwrap_or("0")
            .parse()
            .map_err(|_| CloudError::internal("no page"))?;
        let (routes, more) = match options.lookup("pages") {
            Some("endless") => (Vec::new(), true),
            Some("wordy") => {
                return Ok(RoutePage {
                    routes: Vec::new(),
                    next: Some("x".repeat(5000)),
                });
            }
            pages => {
                let pages: usize = pages
                    .unwrap_or("1")
                    .parse()
                    .map_err(|_| CloudError::internal("no number"))?;
                (
                    (2 * number..2 * number + 2).map(route).collect(),
                    number + 1 < pages,
                )
            }
        };
        Ok(RoutePage {
            routes,
            next: more.then(|| (number + 1).to_string()),
        })
    }

    fn create_routes(routes: Vec<NewRoute>) -> Vec<Result<()>> {
        routes
            .iter()
            .map(|route| {
                tell(&route.target_node, "RouteMade", &route.destination_cidr);
                Ok(())
            })
            .collect()
    }

    fn delete_routes(routes: Vec<Route>) -> Vec<Result<()>> {
        routes.iter().map(|_| Ok(())).collect()
    }
}

impl Maintenance for Probe {
    fn maintain() -> Result<u64> {
        tell("n1", "Maintained", "a node");
        tell("n1", "NodeDeletionStopped", "as Skydock says it");
        tell("n1", "NodeNotReady", "as Kubernetes says it");
        tell("default/web", "Maintained", "a service");
        tell("nobody", "Maintained", "never seen");
        Ok(5)
    }
}

fn has_time() -> bool {
    calls::remaining().as_millis() > 1000
}

fn name(service: &Service) -> String {
    format!("{}/{}", service.namespace, service.name)
}

fn tell(object: &str, reason: &str, message: &str) {
    events::publish(object, Severity::Normal, reason, message);
}

fn changes(nodes: &NodeSet) -> String {
    let names = |all: Vec<Target>| {
        all.into_iter()
            .map(|it| it.name)
            .collect::<Vec<_>>()
            .join("+")
    };
    nodes.changes().map_or("unknown".into(), |it| {
        format!("{}/{}", names(it.added), names(it.removed))
    })
}

fn route(number: usize) -> Route {
    Route {
        name: format!("r{number}"),
        target_node: None,
        target_addresses: None,
        destination_cidr: format!("10.0.{number}.0/24"),
        blackhole: false,
    }
}
