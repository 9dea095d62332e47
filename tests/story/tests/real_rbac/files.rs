//! Creates the arguments and files of a process from `deploy/` and from the objects in the cluster.

use std::{ffi::OsString, path::Path, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::config::Kubeconfig;
use serde_json::json;

/// How often a standby checks the lease. This is so rare that only its watch can make it react
/// quickly.
pub(crate) const RETRY: Duration = Duration::from_secs(15);

/// Flags that differ from those of the Deployment, in addition to that period.
const FLAGS: [&str; 4] = [
    "--v=4",
    "--node-monitor-period=1s",
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=25s",
];

/// A configuration file that is equivalent to the flags of the base.
pub(crate) const CONFIGURATION: &str = "apiVersion: skydock.dev/v1alpha1
kind: SkydockConfiguration
plugins:
- name: static
  file: /plugins/static.wasm
  cloudConfig: /etc/skydock/cloud.yaml
";

/// Returns the text with its examples uncommented. They start with ` # - target` and end with an
/// empty line.
pub(crate) fn uncommented(text: &str) -> String {
    let mut in_example = false;
    let lines = text.lines().map(|line| {
        in_example = !line.is_empty() && (in_example || line.starts_with("  # - target"));
        let plain = line.strip_prefix("  # ").filter(|_| in_example);
        plain.map_or_else(|| line.to_owned(), |plain| format!("  {plain}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces the paths in a Pod that follow `before` by paths of this machine.
pub(crate) fn moved(text: &str, before: &str, dir: &Path, plugins: &Path) -> String {
    let places = [
        ("/plugins", plugins.to_owned()),
        ("/etc/skydock", dir.join("etc")),
        ("/var/cache/skydock", dir.join("cache")),
    ];
    places.iter().fold(text.to_owned(), |text, (from, to)| {
        text.replace(
            &format!("{before}{from}"),
            &format!("{before}{}", to.display()),
        )
    })
}

/// Returns the Deployment's arguments with the paths of this machine.
pub(crate) fn arguments(
    deployment: &Deployment,
    dir: &Path,
    plugins: &Path,
    kubeconfig: &Path,
) -> Result<Vec<OsString>> {
    let pod = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref())
        .context("no Pod")?;
    let given = pod
        .containers
        .first()
        .and_then(|container| container.args.as_ref())
        .context("no arguments")?;
    let mut args = Vec::new();
    for arg in given {
        args.push(moved(arg, "=", dir, plugins).into());
    }
    // In a Pod, all three are its own account.
    for flag in [
        "kubeconfig",
        "authentication-kubeconfig",
        "authorization-kubeconfig",
    ] {
        args.push(format!("--{flag}={}", kubeconfig.display()).into());
    }
    args.push("--bind-address=127.0.0.1".into());
    args.push(format!("--leader-elect-retry-period={}s", RETRY.as_secs()).into());
    args.extend(FLAGS.map(OsString::from));
    Ok(args)
}

/// Returns a kubeconfig for the same cluster with another token. It is JSON, which is valid YAML.
pub(crate) fn kubeconfig_with(token: &str, admin: &Path) -> Result<String> {
    let admin = Kubeconfig::read_from(admin)?;
    let cluster = admin
        .clusters
        .into_iter()
        .next()
        .and_then(|named| named.cluster)
        .context("no cluster")?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "plane",
        "clusters": [{ "name": "plane", "cluster": cluster }],
        "users": [{ "name": "account", "user": { "token": token } }],
        "contexts": [{ "name": "plane", "context": { "cluster": "plane", "user": "account" } }],
    });
    Ok(kubeconfig.to_string())
}
