//! A cloud that breaks one demand of the contract, which its cloud-config names; with `none` it breaks none.
use std::cell::RefCell;

use skydock_sdk::http::{self, Request};
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::{CloudError, Node};
use skydock_sdk::{Configured, Instances, Plugin, Result};

struct Faulty;

static FAULT: Configured<String> = Configured::new();

const FAULTS: [&str; 13] = [
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
];

thread_local! {
    /// What the instance remembers, although it should not.
    static MEMORY: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Sends a request, and returns its error.
fn ask() -> Result<()> {
    http::send(Request::get("http://cloud.example:80/"))?.success().map(drop)
}

fn has(fault: &str) -> bool {
    FAULT.get().is_ok_and(|it| *it == fault)
}

impl Plugin for Faulty {
    fn configure(settings: Settings) -> Result<()> {
        let text = settings.cloud_config.unwrap_or_default().trim().to_owned();
        let option = settings.options.iter().find(|(key, _)| key == "fault").map(|(_, value)| value.clone());
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
            version: "1.0.0".into(),
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
        if has("leaks") {
            MEMORY.with_borrow_mut(|memory| memory.push(vec![1; 1000]));
        }
        Ok(nodes.iter().map(|_| Ok(Presence::Running)).collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        let calls = MEMORY.with_borrow_mut(|memory| {
            if has("counts") || has("remembers") && memory.len() < 2 {
                memory.push(Vec::new());
            }
            memory.len()
        });
        let zone = if has("counts") || has("remembers") { format!("z{calls}") } else { "z".into() };
        let instance = |node: &Node| {
            let name = &node.name;
            assert!(!has("slices-names") || name.len() < 100, "a name is long");
            Ok(Instance {
                provider_id: node
                    .provider_id
                    .clone()
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

skydock_sdk::export!(Faulty: instances);
