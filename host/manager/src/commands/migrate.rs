//! `skydock migrate`: what the manifest of another cloud-controller-manager becomes with Skydock.
//!
//! What becomes of a flag is in the tables of `cli/arguments/upstream.rs`.

mod configuration;
mod container;
mod script;
mod workload;

use std::{io::Write as _, path::PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use skydock_cloud::text::escape;
use skydock_sandbox::{Compiler, Outline, Runtime, RuntimeOptions};

pub(super) use self::{container::command_line, workload::is_ccm};

use self::{
    configuration::PluginFile,
    workload::{Migrated, Place},
};
use crate::{
    cli::{COMPILER, MigrateArgs},
    file,
    process::blocking::blocking,
};

/// The image of Skydock, if none is named.
const IMAGE: &str = concat!("registry.example.com/skydock:", env!("CARGO_PKG_VERSION"));

/// Maximum number of nodes of a manifest in YAML.
const MAX_NODES: usize = 100_000;

const TEMPLATE: &str = "it is a template, not a manifest: render it first, for example with `helm template`, and migrate the result";

/// Prints the new manifest, and on standard error what was dropped.
///
/// # Errors
/// If the manifest cannot be read, is a template, or has no cloud-controller-manager.
pub async fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let path = args.manifest.clone();
    let text = blocking(async move { file::text(&path) }).await?;

    let plugin = match args.plugin {
        Some(file) => Some(described(file).await?),
        None => None,
    };

    let image = args.image.as_deref().unwrap_or(IMAGE);
    let migration = migrate(&text, image, plugin.as_ref())
        .with_context(|| args.manifest.display().to_string())?;

    for note in &migration.notes {
        // If standard error is closed, nobody can be told.
        let _ = writeln!(std::io::stderr(), "{}", escape(note));
    }
    std::io::stdout()
        .lock()
        .write_all(migration.manifest.as_bytes())?;
    Ok(())
}

/// Returns what the file of a plugin says about itself. None of its code runs.
async fn described(file: PathBuf) -> anyhow::Result<PluginFile> {
    let options = RuntimeOptions::new(Compiler::this_program(COMPILER)?);
    let runtime = blocking(async { Runtime::new(options) }).await;
    let runtime = runtime.context("cannot start the plugin runtime")?;

    let outline = Outline::read(&runtime, file.clone())
        .await
        .with_context(|| format!("{} cannot be used", file.display()))?;
    Ok(PluginFile::new(&file, outline.typed.metadata.as_ref()))
}

/// The result.
#[derive(Debug)]
struct Migration {
    /// The manifest, in YAML.
    manifest: String,
    /// What was dropped or has to be done, each with the reason.
    notes: Vec<String>,
}

/// Migrates a manifest.
fn migrate(text: &str, image: &str, plugin: Option<&PluginFile>) -> anyhow::Result<Migration> {
    let mut documents = parse(text)?;
    let mut migrated = Vec::new();
    for document in &mut documents {
        if workload::is_template(document) {
            bail!(TEMPLATE);
        }
        migrated.extend(workload::migrate(document, image, plugin));
    }

    if migrated.is_empty() {
        bail!(
            "no container of a cloud-controller-manager was found; expected a Deployment, DaemonSet, StatefulSet or Pod whose command, \
             arguments or image name one"
        );
    }
    check_places(&migrated)?;

    let mut out = String::new();
    let mut written = Vec::new();
    for migrated in &migrated {
        let Some(document) = configuration_document(migrated)? else {
            continue;
        };
        if !written.contains(&document) {
            push(&mut out, &document);
            written.push(document);
        }
    }
    for document in &documents {
        push(&mut out, &serde_saphyr::to_string(document)?);
    }

    let notes = migrated.iter().flat_map(|it| it.notes.iter().cloned());
    Ok(Migration {
        manifest: out,
        notes: notes.collect(),
    })
}

/// Adds a document.
fn push(out: &mut String, document: &str) {
    out.push_str("---\n");
    out.push_str(document.trim_end());
    out.push('\n');
}

/// Checks that no two objects need different files in one place.
fn check_places(migrated: &[Migrated]) -> anyhow::Result<()> {
    for (index, one) in migrated.iter().enumerate() {
        let before = migrated.iter().take(index);
        let other = before
            .filter(|other| other.place == one.place)
            .filter(|other| other.configuration.is_some() && one.configuration.is_some())
            .find(|other| other.configuration != one.configuration);
        if let Some(other) = other {
            bail!(
                "{} and {} need different configuration files: migrate each from a file of its own, and give one of the ConfigMaps \
                 another name",
                other.name,
                one.name
            );
        }
    }
    Ok(())
}

/// Returns the document with the configuration file, if one is needed.
fn configuration_document(migrated: &Migrated) -> anyhow::Result<Option<String>> {
    let Some(text) = &migrated.configuration else {
        return Ok(None);
    };

    match &migrated.place {
        Place::Node => Ok(Some(format!(
            "# This is not an object of Kubernetes: write it as {}/config.yaml on each node.\n{text}",
            workload::HOST_DIRECTORY
        ))),
        Place::Cluster { namespace } => {
            let mut object = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": workload::CONFIG_MAP},
                "data": {"config.yaml": text},
            });
            if let (Some(namespace), Some(metadata)) = (namespace, object.get_mut("metadata")) {
                metadata["namespace"] = namespace.as_str().into();
            }
            Ok(Some(serde_saphyr::to_string(&object)?))
        }
    }
}

/// Returns the objects of a manifest.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES, max_events: 1_000_000 },
        // As kubectl reads them, for example the modes of files.
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple_with_options(text, options);
    match documents {
        Ok(documents) => Ok(documents.into_iter().flat_map(items).collect()),
        // Rules of Prometheus have braces, too, and are valid.
        Err(_) if text.contains("{{") || text.contains("{%") => bail!(TEMPLATE),
        Err(error) => bail!("it is not valid YAML: {error}"),
    }
}

/// Returns the objects of a list, or the object itself.
fn items(mut document: Value) -> Vec<Value> {
    let kind = document.get("kind").and_then(Value::as_str);
    let may_be_list = kind.is_some_and(|kind| kind.ends_with("List"));
    // A custom resource may have such a name, and other items.
    let is_object = |item: &Value| item.get("kind").or(item.get("metadata")).is_some();
    let items = document.get_mut("items").and_then(Value::as_array_mut);
    let objects = items.filter(|items| may_be_list && items.iter().all(is_object));

    match objects {
        Some(objects) => std::mem::take(objects),
        None => vec![document],
    }
}

#[cfg(test)]
mod tests;
