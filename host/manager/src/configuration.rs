//! The configuration file (`--config`): which plugin serves the cluster, and what the operator grants it.

mod follow;
mod plugin;
mod problem;

use std::{io::Write, path::Path};

use schemars::JsonSchema;
use serde::Deserialize;
use skydock_egress::credentials::config::CredentialConfig;

use crate::egress::{self, Permits};

pub use self::{
    follow::follow,
    plugin::{GrantsConfiguration, ObjectGrantConfiguration, OverlapConfiguration, PluginConfiguration},
    problem::{ConfigurationError, Problem},
};

/// Largest file in bytes: what fits a ConfigMap.
const MAX_FILE: u64 = 1 << 20;

/// The version of the file's form.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum ApiVersion {
    /// It may still change between releases; the changelog says how.
    #[serde(rename = "skydock.dev/v1alpha1")]
    V1Alpha1,
}

/// What the file is.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum Kind {
    /// The configuration of a Skydock process.
    SkydockConfiguration,
}

/// The configuration of a Skydock process.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkydockConfiguration {
    /// The version of the file's form.
    pub api_version: ApiVersion,
    /// What the file is.
    pub kind: Kind,
    /// The plugins that serve the cluster: for now, one.
    #[serde(default)]
    pub plugins: Vec<PluginConfiguration>,
    /// What authenticates requests of plugins. Secrets stand in files.
    #[serde(default)]
    pub credentials: Vec<CredentialConfig>,
}

impl SkydockConfiguration {
    /// Reads a file. Paths in it begin at its directory.
    ///
    /// # Errors
    /// [`ConfigurationError`] with the place of what is wrong. Blocks.
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let unreadable = |source| ConfigurationError::Read { path: path.to_owned(), source };
        let file = skydock_plugin::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_FILE + 1), &mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(unreadable(std::io::Error::other("it is larger than 1 MiB")));
        }
        let text = String::from_utf8(bytes).map_err(|error| unreadable(std::io::Error::other(error)))?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file at this path.
    ///
    /// # Errors
    /// [`ConfigurationError`] with the place of what is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigurationError> {
        let wrong = |problem| ConfigurationError::Wrong { path: path.to_owned(), problem };
        if text.trim().is_empty() {
            let least =
                "the file is empty; the least is `apiVersion: skydock.dev/v1alpha1` and `kind: SkydockConfiguration`";
            return Err(wrong(Problem::of_the_whole(least)));
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_nodes: 100_000, max_events: 1_000_000, max_documents: 1 },
            with_snippet: false,
        };
        let mut configuration: Self =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| wrong(Problem::new(&error)))?;
        configuration.check().map_err(|sentence| wrong(Problem::of_the_whole(sentence)))?;
        configuration.anchor(path.parent().unwrap_or(Path::new("")));
        Ok(configuration)
    }

    /// The schema of the file, as JSON Schema.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// What types cannot tell.
    fn check(&self) -> Result<(), String> {
        if self.plugins.len() > 1 {
            let names: Vec<&str> = self.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
            return Err(format!("plugins: one plugin serves a cluster for now, and here are {}", names.join(", ")));
        }
        for plugin in &self.plugins {
            plugin.check()?;
            egress::check(&plugin.name, &self.permits(plugin))
                .map_err(|error| format!("plugin {}: {error}", plugin.name))?;
        }
        Ok(())
    }

    /// What a plugin may reach, and with what.
    #[must_use]
    pub fn permits(&self, plugin: &PluginConfiguration) -> Permits {
        Permits { rules: plugin.egress.clone(), credentials: self.credentials.clone() }
    }

    fn anchor(&mut self, dir: &Path) {
        let paths = self.plugins.iter_mut().flat_map(PluginConfiguration::paths);
        for path in paths.filter(|path| path.is_relative()) {
            *path = dir.join(&*path);
        }
    }
}

/// `skydock config check`: reads the file, and says what is in it.
///
/// # Errors
/// What is wrong with it.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let configuration = SkydockConfiguration::read(path)?;
    let mut out = std::io::stdout().lock();
    for plugin in &configuration.plugins {
        writeln!(out, "plugin {}: {}", plugin.name, plugin.file.display())?;
    }
    writeln!(out, "{}: ok", path.display())?;
    Ok(())
}

/// `skydock config schema`.
///
/// # Errors
/// If nobody reads it.
pub fn print_schema() -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{:#}", SkydockConfiguration::schema())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\n";

    fn parse(rest: &str) -> Result<SkydockConfiguration, String> {
        let read = SkydockConfiguration::parse(&format!("{HEAD}{rest}"), Path::new("/etc/skydock/config.yaml"));
        read.map_err(|error| error.to_string())
    }

    // Holds: OPS-108
    #[test]
    fn a_plugin_is_named_with_all_that_it_is_granted() {
        let text = "
plugins:
- name: openstack
  file: openstack.wasm
  digest: sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
  cloudConfig: /etc/cloud.conf
  options: { region: north }
  overlap: per-interface
  limits: { memory: 64Mi }
  grants:
    objects:
    - { kind: v1/Secret, namespace: ops, name: tls }
    - { kind: v1/Secret, namedBy: example.com/tls-secret }
    prefixes: [openstack://]
";
        let plugin = parse(text).unwrap().plugins.remove(0);
        assert_eq!(plugin.file, Path::new("/etc/skydock/openstack.wasm"), "it begins at the file's directory");
        assert_eq!(plugin.cloud_config.as_deref(), Some(Path::new("/etc/cloud.conf")));
        assert_eq!((plugin.options["region"].as_str(), plugin.limits["memory"].as_str()), ("north", "64Mi"));
        let grants = plugin.grants.grants().unwrap();
        assert_eq!((grants.objects.len(), grants.prefixes.len()), (2, 1));
    }

    // Holds: OPS-107
    #[test]
    fn a_mistake_is_told_with_its_place_and_what_is_near() {
        let at = |place: &str, rest: &str| format!("/etc/skydock/config.yaml:{place} {rest}");
        for (text, told) in [
            ("pluggins: []", at("3:1:", "unknown field `pluggins`; did you mean `plugins`?")),
            (
                "plugins:\n- name: a\n  file: a\n  cloudconfig: x",
                at("6:3:", "unknown field `cloudconfig`; did you mean `cloudConfig`?"),
            ),
            ("plugins:\n- name: a\n  file: a\n  zzz: x", at("6:3:", "unknown field `zzz`; there are `")),
            ("plugins:\n- name: a\n  file: a\n  overlap: nun", at("6:12:", "unknown word `nun`; did you mean `none`?")),
            ("plugins:\n- name: a", at("", "")),
            (
                "plugins: [{name: a, file: a}, {name: b, file: b}]",
                at("", "plugins: one plugin serves a cluster for now, and here are a, b"),
            ),
            ("plugins: [{name: A_b, file: a}]", at("", "plugins: the name \"A_b\" is not")),
            ("plugins: [{name: a, file: a, digest: sha256:12}]", at("", "plugin a: the digest \"sha256:12\" is not")),
            ("plugins: [{name: a, file: a, limits: {memory: x}}]", at("", "plugin a: limits: memory: ")),
            (
                "plugins: [{name: a, file: a, grants: {objects: [{kind: v1/Pod, name: x}]}}]",
                at("", "plugin a: grants: there is nothing of kind \"v1/Pod\""),
            ),
            (
                "plugins: [{name: a, file: a, grants: {objects: [{kind: v1/Secret}]}}]",
                at("", "plugin a: grants: v1/Secret: say"),
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&told) || (told.ends_with(": ") && error.contains("file")), "{error}\n{told}");
        }
        let empty = SkydockConfiguration::parse(" ", Path::new("c.yaml")).unwrap_err().to_string();
        assert!(empty.starts_with("c.yaml: the file is empty"), "{empty}");
        let other =
            SkydockConfiguration::parse("apiVersion: v1\nkind: X\n", Path::new("c.yaml")).unwrap_err().to_string();
        assert!(other.contains("`v1`") && other.contains("skydock.dev/v1alpha1"), "{other}");
    }

    #[test]
    fn the_examples_of_the_pages_can_be_read() {
        let page = concat!(include_str!("../../../docs/operating.md"), include_str!("../../../README.md"));
        let examples: Vec<&str> = page
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next())
            .filter(|it| it.starts_with("apiVersion: skydock"))
            .collect();
        let read = examples.iter().map(|example| SkydockConfiguration::parse(example, Path::new("page")).unwrap());
        let plugins: Vec<_> = read.flat_map(|it| it.plugins).map(|plugin| plugin.name).collect();
        assert_eq!(plugins, ["metal", "metal", "openstack", "aws"]);
    }

    // Holds: OPS-107
    #[test]
    fn the_schema_names_every_field_and_refuses_others() {
        let schema = SkydockConfiguration::schema();
        assert_eq!(schema["additionalProperties"], false);
        let plugin = schema.pointer("/$defs/PluginConfiguration/properties").unwrap().as_object().unwrap();
        assert!(
            plugin.contains_key("cloudConfig") && plugin.values().all(|field| field.get("description").is_some()),
            "{plugin:?}"
        );
    }
}
