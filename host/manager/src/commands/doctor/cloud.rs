//! Asks the cloud about nodes, with a configuration of Skydock and without changing anything.

use std::{path::Path, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use skydock_cloud::CloudProvider;
use skydock_controllers::node_for_provider;

use super::{
    checks::waits,
    snapshot::{Cloud, CloudAnswers, Known, Unknown},
};
use crate::{
    ccm, cli,
    config::Config,
    file::{self, Reviewed},
    process::blocking::blocking,
};

/// Number of nodes that the cloud is asked about.
const NODES: usize = 20;

/// Checks the configuration as `skydock config check` does, and asks the plugin about these nodes.
/// The address of the API server is closed to it.
///
/// # Errors
/// If the file cannot be read.
pub(super) async fn ask(
    file: &Path,
    nodes: &[Node],
    api_server: Option<http::Uri>,
) -> anyhow::Result<Cloud> {
    let path = file.to_owned();
    let reviewed = blocking(async move {
        let mut reviewed = Reviewed::new(&file::text(&path)?, &path);
        reviewed.add_references();
        anyhow::Ok(reviewed)
    })
    .await?;

    let errors = reviewed.errors.iter().map(|it| it.line(file, "error"));
    let errors: Vec<_> = errors.collect();
    let answers = if errors.is_empty() {
        let answers = Box::pin(answers(file, nodes, api_server)).await;
        answers.map_err(|error| Unknown(format!("the cloud was not asked: {error:#}")))
    } else {
        let count = errors.len();
        Err(Unknown(format!(
            "the cloud was not asked: {} has {count} errors",
            file.display()
        )))
    };
    Ok(Cloud {
        file: file.display().to_string(),
        errors,
        answers,
    })
}

async fn answers(
    file: &Path,
    nodes: &[Node],
    api_server: Option<http::Uri>,
) -> anyhow::Result<CloudAnswers> {
    let flag = format!("--config={}", file.display());
    let config = blocking(async move {
        // A dry run only asks the cloud.
        let parsed = cli::parse(["skydock", "--dry-run", &flag]);
        let parsed = parsed.map_err(|stop| anyhow::anyhow!("{stop}"))?;
        anyhow::Ok(Config::try_from(parsed.ccm)?)
    })
    .await?;

    let plugin = Box::pin(ccm::load_plugin(&config, api_server)).await?;
    let info = plugin.info();
    let mut instances = Vec::new();
    for batch in nodes.chunks(info.max_batch.max(1)) {
        let seen: Vec<_> = batch
            .iter()
            .map(|node| Arc::new(node_for_provider(node)))
            .collect();
        let answers = match plugin.describe(&seen).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); seen.len()],
        };
        let names = seen.iter().map(|node| node.name.clone());
        instances.extend(names.zip(answers));
    }
    Ok(CloudAnswers {
        prefixes: info.provider_id_prefixes.clone(),
        instances,
    })
}

/// Returns the nodes to ask about: the only one of interest, or those that wait before others.
pub(super) fn chosen(nodes: &Known<Vec<Node>>, only: Option<&str>) -> Vec<Node> {
    let mut all: Vec<_> = nodes.iter().flatten().collect();
    all.retain(|node| only.is_none_or(|name| node.metadata.name.as_deref() == Some(name)));
    all.sort_by_key(|node| !waits(node));
    all.into_iter().take(NODES).cloned().collect()
}
