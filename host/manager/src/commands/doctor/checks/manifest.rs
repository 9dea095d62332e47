//! Checks of the manifest: what does not fit together in the Pod of a cloud-controller-manager.

use k8s_openapi::{api::core::v1::Probe, apimachinery::pkg::util::intstr::IntOrString};
use serde_json::json;

use super::Facts;
use crate::{
    cli::plugin_limits::parse_bytes,
    commands::doctor::{
        ccm::{Ccm, Endpoint},
        finding::{Finding, PodPatch},
        snapshot::Known,
    },
};

/// Memory of Skydock itself.
const OWN_MEMORY: usize = 256 << 20;
/// Default of the limit `memory-total`.
const MEMORY_TOTAL: usize = 1 << 30;

/// D15: flags, probes and limits contradict each other.
pub(super) fn consistent(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    for ccm in facts.ccms() {
        findings.extend(election(ccm));
        findings.extend(probes(ccm));
        findings.extend(memory(ccm));
    }
    Ok(findings)
}

/// Without leader election, only one Pod may run.
fn election(ccm: &Ccm) -> Option<Finding> {
    let workload = &ccm.workload;
    let is_off = !ccm.flags.is_on("leader-elect", true);
    let several = workload.is_daemon() || workload.replicas.is_some_and(|count| count > 1);
    (is_off && several).then(|| {
        let finding = Finding::problem(
            workload.title(),
            "it runs more than one Pod with --leader-elect=false",
        )
        .why("all of them act at once, and overwrite what the others do");
        with_flag(finding, ccm, "--leader-elect=true")
    })
}

/// Adds the change that adds a flag. The last of several values counts.
fn with_flag(finding: Finding, ccm: &Ccm, flag: &str) -> Finding {
    // A word behind a script is an argument of the shell.
    if ccm.is_script() {
        return finding.text(format!(
            "add {flag} to the command in the script of {}",
            ccm.workload.title()
        ));
    }
    let (field, value) = match &ccm.container.args {
        Some(args) if !args.is_empty() => ("args/-", json!(flag)),
        _ if ccm.container.command.is_some() => ("command/-", json!(flag)),
        _ => ("args", json!([flag])),
    };
    let path = format!("/containers/{}/{field}", ccm.index);
    finding.patch(&ccm.workload, PodPatch::Set(path, value))
}

/// Probes that cannot succeed restart the Pod again and again.
fn probes(ccm: &Ccm) -> Vec<Finding> {
    let container = &ccm.container;
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    let given = probes
        .into_iter()
        .filter_map(|(field, probe)| Some((field, probe.as_ref()?)));
    given
        .filter_map(|(field, it)| probe(ccm, field, it))
        .collect()
}

/// Where a probe connects to.
struct Target<'a> {
    /// The field of the probe that says it.
    handler: &'static str,
    port: &'a IntOrString,
    host: Option<&'a str>,
    /// `None` if it only connects.
    scheme: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn of(probe: &'a Probe) -> Option<Self> {
        let http = probe.http_get.as_ref().map(|get| Self {
            handler: "httpGet",
            port: &get.port,
            host: get.host.as_deref(),
            scheme: Some(get.scheme.as_deref().unwrap_or("HTTP")),
        });
        http.or_else(|| {
            let tcp = probe.tcp_socket.as_ref()?;
            Some(Self {
                handler: "tcpSocket",
                port: &tcp.port,
                host: tcp.host.as_deref(),
                scheme: None,
            })
        })
    }
}

fn probe(ccm: &Ccm, field: &'static str, probe: &Probe) -> Option<Finding> {
    let target = Target::of(probe)?;
    let port = number(ccm, target.port)?;
    let path = format!("/containers/{}/{field}/{}", ccm.index, target.handler);
    let set =
        |field: &str, value: serde_json::Value| PodPatch::Set(format!("{path}/{field}"), value);
    let finding = |saw: String| {
        Finding::problem(ccm.workload.title(), format!("{field}: {saw}"))
            .why("the kubelet restarts the container, or never counts it as ready, because the probe cannot succeed")
    };

    let asks_loopback = target
        .host
        .is_some_and(|host| host == "localhost" || host.starts_with("127."));
    let endpoints = ccm.endpoints()?;

    let Some(first) = endpoints.first() else {
        // The programs of other clouds have servers of their own.
        let flag = match target.scheme {
            Some("HTTP") if asks_loopback => format!("--metrics-bind-address=127.0.0.1:{port}"),
            Some("HTTP") => format!("--metrics-bind-address=:{port}"),
            _ => format!("--secure-port={port}"),
        };
        return ccm.is_skydock().then(|| {
            let finding = finding("--secure-port=0 turns the server off that it asks".to_owned());
            with_flag(finding, ccm, &flag)
        });
    };

    let Some(endpoint) = endpoints.iter().find(|it| it.port == port) else {
        return ccm.is_skydock().then(|| {
            let same = |it: &&Endpoint| target.scheme.is_some_and(|asked| asked == it.scheme);
            let Endpoint { port: served, .. } = endpoints.iter().find(same).unwrap_or(first);
            finding(format!(
                "it asks port {port}, but the server has port {served}"
            ))
            .patch(&ccm.workload, set("port", (*served).into()))
        });
    };
    let Endpoint {
        scheme, address, ..
    } = endpoint;
    if let Some(asked) = target.scheme.filter(|asked| asked != scheme) {
        return Some(
            finding(format!(
                "it asks by {asked}, but port {port} serves {scheme}"
            ))
            .patch(&ccm.workload, set("scheme", (*scheme).into())),
        );
    }

    if endpoint.is_loopback() && !asks_loopback {
        let on_host = ccm.workload.pod.host_network.unwrap_or_default();
        let finding = finding(format!(
            "it asks the address of the Pod, but the server has only {address}"
        ));
        let everywhere = match *scheme {
            "HTTP" => format!("--metrics-bind-address=:{port}"),
            _ => "--bind-address=0.0.0.0".to_owned(),
        };
        return Some(if on_host {
            finding.patch(&ccm.workload, set("host", address.as_str().into()))
        } else {
            with_flag(finding, ccm, &everywhere)
        });
    }
    None
}

/// Returns the number of a port, which may be named.
fn number(ccm: &Ccm, port: &IntOrString) -> Option<i32> {
    match port {
        IntOrString::Int(port) => Some(*port),
        IntOrString::String(name) => {
            let ports = ccm.container.ports.as_deref().unwrap_or_default();
            let named = ports.iter().find(|it| it.name.as_ref() == Some(name));
            named.map(|it| it.container_port)
        }
    }
}

/// Skydock needs memory for its plugin.
fn memory(ccm: &Ccm) -> Option<Finding> {
    if !ccm.is_skydock() {
        return None;
    }
    let resources = ccm.container.resources.as_ref()?;
    let limit = resources.limits.as_ref()?.get("memory")?;
    let bytes = parse_bytes(&limit.0)?;

    let total = ccm.flags.value("plugin-limit");
    let total = total.and_then(|text| text.strip_prefix("memory-total="));
    let total = total.and_then(parse_bytes).unwrap_or(MEMORY_TOTAL);
    let needed = total.saturating_add(OWN_MEMORY);
    (bytes < needed).then(|| {
        Finding::warning(
            ccm.workload.title(),
            format!(
                "its memory limit, {}, is less than the limit memory-total of the plugin and 256Mi for Skydock",
                limit.0
            ),
        )
        .why("the kernel may kill it while the plugin starts; to compile a plugin needs up to 2Gi more")
        .patch(
            &ccm.workload,
            PodPatch::Set(
                format!("/containers/{}/resources/limits/memory", ccm.index),
                format!("{}Mi", needed >> 20).into(),
            ),
        )
    })
}
