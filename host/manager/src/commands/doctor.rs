//! `skydock doctor`: finds why nodes wait for their cloud.
//!
//! The cluster is read once (`snapshot`); then each check is a pure function of what was read
//! (`checks`). To add a check, see there.

mod ccm;
mod checks;
mod cloud;
mod finding;
mod permissions;
mod read;
mod report;
mod scheduling;
mod snapshot;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use skydock_kube::clients::{self, ClusterAccess};

use self::{
    ccm::Ccm,
    checks::Facts,
    report::Report,
    snapshot::{CONTROLLERS, Origin, Snapshot, Unknown, Workload},
};
use super::migrate;
use crate::{
    cli::{DoctorArgs, InspectFormat},
    file,
    process::blocking::blocking,
};

/// Prints what keeps nodes from being initialized. The exit code is 0 if nothing does, 1 if
/// something was found, and 2 if that is not known.
///
/// # Errors
/// If the manifest or the kubeconfig cannot be read, or there is no such node.
pub async fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let manifest = args.manifest.clone();
    let planned = blocking(async move { manifest.as_deref().map(planned).transpose() }).await?;

    let named = args.kubeconfig.clone();
    let has_master = args.master.is_some();
    let access = ClusterAccess {
        kubeconfig: args.kubeconfig.or_else(usual_kubeconfig),
        master: args.master,
    };
    let client = blocking(async move {
        let config = clients::load(&access).await?;
        let client = clients::named(&config, "doctor")?;
        anyhow::Ok((client, config.cluster_url))
    })
    .await;

    let mut api_server = None;
    let mut snapshot = match (client, &planned) {
        (Ok((client, url)), _) => {
            api_server = Some(url);
            read::snapshot(&client).await
        }
        // The manifest alone has much that can be wrong.
        (Err(error), Some(_)) => {
            let why = Unknown(format!("the cluster was not read: {error:#}"));
            Snapshot::new(Timestamp::now(), Some(&why))
        }
        (Err(error), None) => return Err(error),
    };
    snapshot.planned = planned.unwrap_or_default();
    let server = api_server.as_ref().filter(|_| has_master);
    snapshot.kubectl = kubectl_flags(named.as_deref(), server);

    let node = args.node.as_deref();
    check_node(&snapshot, node)?;
    if let Some(file) = &args.config {
        let nodes = cloud::chosen(&snapshot.nodes, node);
        snapshot.cloud = Some(Box::pin(cloud::ask(file, &nodes, api_server)).await?);
    }
    let facts = Facts::new(&snapshot, node);
    let report = Report::of(&facts);
    let text = match args.output {
        InspectFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        InspectFormat::Text => report.text(&facts.summary()),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::from(report.result.code()))
}

/// Reads what a manifest will run.
fn planned(file: &Path) -> anyhow::Result<Vec<Workload>> {
    let name = file.display().to_string();
    let documents = migrate::parse(&file::text(file)?).with_context(|| name.clone())?;
    let mut planned = Vec::new();
    for document in &documents {
        let kind = document.get("kind").and_then(serde_json::Value::as_str);
        let Some(kind) = kind.filter(|kind| *kind == "Pod" || CONTROLLERS.contains(kind)) else {
            continue;
        };
        match Workload::read(kind, document, Origin::Manifest(name.clone())) {
            Some(workload) => planned.push(workload),
            None => bail!("{name}: a {kind} in it could not be decoded"),
        }
    }
    if planned.iter().all(|workload| Ccm::new(workload).is_none()) {
        bail!("{name}: no cloud-controller-manager was found in it");
    }
    Ok(planned)
}

/// Returns the flags of kubectl for the cluster that `--kubeconfig` and `--master` name.
fn kubectl_flags(kubeconfig: Option<&Path>, server: Option<&http::Uri>) -> String {
    let flag = |name: &str, value: String| format!(" --{name}={}", finding::quote(&value));
    let kubeconfig = kubeconfig.map(|file| flag("kubeconfig", file.display().to_string()));
    let server = server.map(|url| flag("server", url.to_string()));
    [kubeconfig, server].into_iter().flatten().collect()
}

/// Returns the kubeconfig that kubectl would use, unless this runs in a Pod.
fn usual_kubeconfig() -> Option<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut listed = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty());
    if let Some(first) = listed.next() {
        return Some(first);
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return None;
    }
    let home = PathBuf::from(std::env::var_os("HOME")?);
    Some(home.join(".kube/config")).filter(|file| file.exists())
}

fn check_node(snapshot: &Snapshot, node: Option<&str>) -> anyhow::Result<()> {
    let (Some(name), Ok(nodes)) = (node, &snapshot.nodes) else {
        return Ok(());
    };
    let is_one = |it: &k8s_openapi::api::core::v1::Node| it.metadata.name.as_deref() == Some(name);
    if !nodes.iter().any(is_one) {
        bail!("there is no node {name:?} in the cluster");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_is_told_which_cluster() {
        let url: http::Uri = "https://192.0.2.1:6443/".parse().unwrap();
        for (kubeconfig, server, expected) in [
            (None, None, ""),
            (Some("staging.conf"), None, " --kubeconfig=staging.conf"),
            (
                Some("a; b"),
                Some(&url),
                " --kubeconfig='a; b' --server=https://192.0.2.1:6443/",
            ),
        ] {
            assert_eq!(kubectl_flags(kubeconfig.map(Path::new), server), expected);
        }
    }
}
