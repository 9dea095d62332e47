//! A plugin in the configuration file.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use skydock_cloud::{ForeignKind, ForeignObject};
use skydock_egress::EgressRule;
use skydock_plugin::{Grants, ObjectGrant, Overlap};

use crate::cli::plugin_limits::{self, PluginLimit};

/// A plugin and its permissions.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginConfiguration {
    /// Name in logs and metrics: lower-case letters, digits and dashes.
    pub name: String,
    /// The WebAssembly component. A relative path is relative to the directory of this file.
    pub file: PathBuf,
    /// Required digest of the component, as `sha256:` and 64 hexadecimal digits. Default: any
    /// digest is accepted.
    pub digest: Option<String>,
    /// Configuration file of the provider. The plugin receives its text without secrets.
    pub cloud_config: Option<PathBuf>,
    /// Options of the provider; see its documentation. Must not contain secrets.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Which calls may run at the same time; overrides what the plugin declares.
    pub overlap: Option<OverlapConfiguration>,
    /// Resource limits, with the keys of `--plugin-limit`.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// Allowed requests. The first rule that allows a request applies, and requests that no rule
    /// allows are denied.
    #[serde(default)]
    pub egress: Vec<EgressRule>,
    /// Objects of the cluster that the plugin may read, and additional permissions that a
    /// replacement may require.
    #[serde(default)]
    pub grants: GrantsConfiguration,
}

/// Which calls may run at the same time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapConfiguration {
    /// Any calls, each in its own plugin instance.
    Any,
    /// One call at a time for each exported interface.
    PerInterface,
    /// One call at a time.
    None,
}

/// What the operator grants a plugin.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GrantsConfiguration {
    /// Objects of the cluster that the plugin may read. Skydock's account needs permission to get
    /// them.
    pub objects: Vec<ObjectGrantConfiguration>,
    /// Interfaces that a replacement may import although the previous plugin did not, for example
    /// `wasi:http/outgoing-handler`.
    pub imports: Vec<String>,
    /// Hosts that a replacement may declare although the previous plugin did not, as written by the
    /// plugin.
    pub hosts: Vec<String>,
    /// Prefixes of provider IDs and of annotations that a replacement may own although the previous
    /// plugin did not.
    pub prefixes: Vec<String>,
}

/// Objects of the cluster that a plugin may read: one by its name, or those that an annotation of a
/// Service names.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectGrantConfiguration {
    /// `v1/Secret`, `v1/ConfigMap` or `v1/Namespace`.
    pub kind: String,
    /// Namespace of the object; not set for a Namespace.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
    /// Annotation of the current Service that contains the name of the object, which must be in the
    /// namespace of the Service.
    pub named_by: Option<String>,
}

impl PluginConfiguration {
    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let named = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !named {
            return Err(format!(
                "plugins: the name {name:?} is not valid; expected 1 to 63 lower-case letters, digits and dashes"
            ));
        }
        let of = |problem: String| format!("plugin {name}: {problem}");
        self.sha256().map_err(of)?;
        self.limits().map_err(of)?;
        self.grants.grants().map_err(of)?;
        Ok(())
    }

    /// Returns the required SHA-256 of the component, in hexadecimal.
    ///
    /// # Errors
    /// A sentence, if the digest is not valid.
    pub fn sha256(&self) -> Result<Option<String>, String> {
        let Some(digest) = &self.digest else {
            return Ok(None);
        };
        let hex = digest
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let hex = hex.ok_or_else(|| {
            format!(
                "the digest {digest:?} is not valid; expected `sha256:` and 64 hexadecimal digits"
            )
        })?;
        Ok(Some(hex.to_ascii_lowercase()))
    }

    /// Returns the limits like those set by flags.
    ///
    /// # Errors
    /// A sentence, if a key is unknown or its value is not valid.
    pub fn limits(&self) -> Result<Vec<PluginLimit>, String> {
        let limit = |(key, value): (&String, &String)| {
            plugin_limits::parse(&format!("{key}={value}"))
                .map_err(|problem| format!("limits: {key}: {problem}"))
        };
        self.limits.iter().map(limit).collect()
    }

    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.file).chain(self.cloud_config.as_mut())
    }
}

impl From<OverlapConfiguration> for Overlap {
    fn from(overlap: OverlapConfiguration) -> Self {
        match overlap {
            OverlapConfiguration::Any => Self::Any,
            OverlapConfiguration::PerInterface => Self::PerInterface,
            OverlapConfiguration::None => Self::None,
        }
    }
}

impl GrantsConfiguration {
    /// Returns the grants in the form of the plugin runtime.
    ///
    /// # Errors
    /// A sentence, if an object has no name.
    pub fn grants(&self) -> Result<Grants, String> {
        let objects = self
            .objects
            .iter()
            .map(|it| it.grant().map_err(|problem| format!("grants: {problem}")));
        Ok(Grants {
            objects: objects.collect::<Result<_, _>>()?,
            imports: self.imports.clone(),
            hosts: self.hosts.clone(),
            prefixes: self.prefixes.clone(),
        })
    }
}

impl ObjectGrantConfiguration {
    fn grant(&self) -> Result<ObjectGrant, String> {
        let Self {
            kind: text,
            namespace,
            name,
            named_by,
        } = self;
        let kind = ForeignKind::parse(text).ok_or_else(|| {
            format!("unknown kind {text:?}; expected `v1/Secret`, `v1/ConfigMap` or `v1/Namespace`")
        })?;
        let is_namespace = kind == ForeignKind::Namespace;
        match (namespace, name, named_by) {
            (None, None, Some(annotation)) if !is_namespace => Ok(ObjectGrant::NamedBy {
                kind,
                annotation: annotation.clone(),
            }),
            (namespace, Some(name), None) if namespace.is_none() == is_namespace => {
                let namespace = namespace.clone().unwrap_or_default();
                Ok(ObjectGrant::Exact(ForeignObject {
                    kind,
                    namespace,
                    name: name.clone(),
                }))
            }
            _ if is_namespace => Err(format!("{text}: set only `name`")),
            _ => Err(format!(
                "{text}: set either `namespace` and `name`, or `namedBy`"
            )),
        }
    }
}
