//! A plugin in the configuration file.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use skydock_cloud::{ForeignKind, ForeignObject};
use skydock_controllers::service::ServiceOptions;
use skydock_credentials::config::DigestPin;
use skydock_egress::EgressRule;
use skydock_sandbox::{KeyRange, ObjectGrant, Overlap, Permissions, check_label};

use super::tree::Path;
use crate::cli::plugin_limits::{self, PluginLimit};

/// A plugin and its permissions.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginConfiguration {
    /// Name in logs and metrics: lower-case letters, digits and dashes.
    pub name: String,
    /// The WebAssembly component. A relative path is relative to the directory of this file.
    pub file: PathBuf,
    /// Required digest of the component, as `sha256:` and 64 hexadecimal digits, or a list of
    /// these. Default: `any`.
    #[serde(default)]
    pub digest: DigestPin,
    /// Configuration file of the provider, in any format. It is rejected if it has secrets, except
    /// those of an OpenStack `cloud.conf` that is also the `cloudConf` of a credential: Skydock
    /// removes these, and all comments.
    pub cloud_config: Option<PathBuf>,
    /// Options of the provider; see its documentation. They are rejected if they have secrets.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Whether `cloudConfig` and `options` may have secrets, which the plugin then receives. Only
    /// for plugins that log in themselves.
    #[serde(default)]
    pub cloud_config_secrets: CloudConfigSecrets,
    /// Which calls may run at the same time; overrides what the plugin declares.
    pub overlap: Option<OverlapConfiguration>,
    /// Resource limits, with the keys of `--plugin-limit`.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// Allowed requests. The first rule that allows a request applies, and requests that no rule
    /// allows are denied.
    #[serde(default)]
    pub egress: Vec<EgressRule>,
    /// What the plugin may claim, write and read.
    #[serde(default, alias = "grants")]
    pub permissions: PermissionsConfiguration,
}

/// Whether the configuration of a plugin may have secrets.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CloudConfigSecrets {
    /// It is rejected.
    #[default]
    Denied,
    /// The plugin receives them.
    Allowed,
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

/// What a plugin may claim, write and read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PermissionsConfiguration {
    /// Prefixes of the provider IDs that the plugin may own, for example `metal://`. Default:
    /// `NAME://`.
    #[serde(rename = "providerIDs")]
    pub provider_ids: Option<Vec<String>>,
    /// Domains of the annotations and labels that the plugin may write, with their subdomains, or a
    /// domain and the beginning of a name (`service.beta.kubernetes.io/metal-`). Default:
    /// `NAME.TLD` for any TLD, `k8s.NAME`, and `service.beta.kubernetes.io/NAME-`.
    pub domains: Option<Vec<String>>,
    /// Further labels that the plugin may write, for example `rack`.
    pub labels: Vec<String>,
    /// Objects of the cluster that the plugin may read. Skydock's account needs permission to get
    /// them.
    pub objects: Vec<ObjectGrantConfiguration>,
    /// Interfaces that a replacement may import although the previous plugin did not, for example
    /// `wasi:http/outgoing-handler`, `skydock:provider/cluster`, `skydock:provider/events` or
    /// `skydock:provider/objects`.
    pub imports: Vec<String>,
    /// Capabilities that a replacement may export although the previous plugin did not, for example
    /// `load-balancers`.
    pub exports: Vec<String>,
    /// Hosts that a replacement may declare although the previous plugin did not, as written by the
    /// plugin.
    pub hosts: Vec<String>,
    /// The field of earlier versions for what are provider IDs and domains.
    #[schemars(skip)]
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

/// Checks the beginning of provider IDs that a plugin may own. A shorter one than that of a provider
/// would also be that of others.
fn check_provider_ids(text: &str) -> Result<(), String> {
    let is_scheme = |scheme: &str| {
        !scheme.is_empty()
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };

    match text.split_once("://") {
        Some((scheme, _)) if is_scheme(scheme) => Ok(()),
        _ => {
            // The suggestion has the scheme of the text, if that has one.
            let scheme: String = text.split(':').next().unwrap_or_default().into();
            let scheme = if is_scheme(&scheme) { &scheme } else { "metal" };
            Err(format!(
                "{text:?} is not the beginning of provider IDs of one provider; expected `SCHEME://` or longer: write `providerIDs: [{scheme}://]`"
            ))
        }
    }
}

fn limit(key: &str, value: &str) -> Result<PluginLimit, String> {
    plugin_limits::parse(&format!("{key}={value}"))
}

impl PluginConfiguration {
    /// Returns what the types do not ensure and is wrong, with the field.
    pub(super) fn problems(&self) -> Vec<(Path, String)> {
        let field = |name: &str| Path::default().key(name);
        let name = (field("name"), self.check_name());
        let permissions = || field("permissions");
        let given = &self.permissions;

        let prefixes = (
            permissions().key("prefixes"),
            given.must_not_have_prefixes(),
        );
        let objects = given.objects.iter().enumerate();
        let objects = objects.map(|(index, object)| {
            let at = permissions().key("objects").index(index);
            (at, object.grant().map(drop))
        });

        let domains = given.domains.iter().flatten().enumerate();
        let domains = domains.map(|(index, text)| {
            let range = text.parse::<KeyRange>();
            let at = permissions().key("domains").index(index);
            (at, range.map(drop).map_err(|error| error.to_string()))
        });
        let provider_ids = given.provider_ids.iter().flatten().enumerate();
        let provider_ids = provider_ids.map(|(index, text)| {
            let at = permissions().key("providerIDs").index(index);
            (at, check_provider_ids(text))
        });
        let labels = given.labels.iter().enumerate().map(|(index, key)| {
            let at = permissions().key("labels").index(index);
            (at, check_label(key).map_err(|error| error.to_string()))
        });

        let limits = self
            .limits
            .iter()
            .map(|(key, value)| (field("limits").key(key), limit(key, value).map(drop)));
        let together = (field("limits"), self.check_limits());

        [name, prefixes]
            .into_iter()
            .chain(objects)
            .chain(domains)
            .chain(provider_ids)
            .chain(labels)
            .chain(limits)
            .chain([together])
            .filter_map(|(path, checked)| Some((path, checked.err()?)))
            .collect()
    }

    fn check_name(&self) -> Result<(), String> {
        let name = &self.name;
        let named = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');

        if named {
            Ok(())
        } else {
            Err(format!(
                "the name {name:?} is not valid; expected 1 to 63 lower-case letters, digits and dashes"
            ))
        }
    }

    /// Checks the limits against each other, if each of them is valid.
    fn check_limits(&self) -> Result<(), String> {
        let Ok(limits) = self.limits() else {
            return Ok(());
        };
        let services = ServiceOptions::default().concurrent_syncs;
        let together = plugin_limits::limits(services, &limits);
        together.map(drop).map_err(|error| error.to_string())
    }

    /// Returns the limits like those set by flags.
    ///
    /// # Errors
    /// A sentence, if a key is unknown or its value is not valid.
    pub fn limits(&self) -> Result<Vec<PluginLimit>, String> {
        let limits = self.limits.iter();
        let each = limits.map(|(key, value)| {
            limit(key, value).map_err(|problem| format!("limits: {key}: {problem}"))
        });
        each.collect()
    }

    /// Returns the permissions in the form of the plugin runtime.
    ///
    /// # Errors
    /// A sentence, if one is not valid.
    pub fn permissions(&self) -> Result<Permissions, String> {
        let problem = |problem: String| format!("permissions: {problem}");
        let given = &self.permissions;

        given.must_not_have_prefixes().map_err(problem)?;
        for text in given.provider_ids.iter().flatten() {
            check_provider_ids(text).map_err(|error| problem(format!("providerIDs: {error}")))?;
        }

        let by_name = Permissions::by_name(&self.name);
        let keys = given.domains.as_ref().map(|domains| {
            let range = |text: &String| {
                text.parse::<KeyRange>()
                    .map_err(|error| format!("domains: {error}"))
            };
            domains.iter().map(range).collect::<Result<_, _>>()
        });

        for key in &given.labels {
            check_label(key).map_err(|error| problem(format!("labels: {error}")))?;
        }

        let objects = given.objects.iter().map(ObjectGrantConfiguration::grant);
        Ok(Permissions {
            provider_ids: given.provider_ids.clone().unwrap_or(by_name.provider_ids),
            keys: keys.transpose().map_err(problem)?.unwrap_or(by_name.keys),
            labels: given.labels.clone(),
            objects: objects.collect::<Result<_, _>>().map_err(problem)?,
            imports: given.imports.clone(),
            exports: given.exports.clone(),
            hosts: given.hosts.clone(),
            unrestricted: false,
        })
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

impl PermissionsConfiguration {
    /// Rejects the field of earlier versions, with the lines that replace it.
    fn must_not_have_prefixes(&self) -> Result<(), String> {
        if self.prefixes.is_empty() {
            return Ok(());
        }

        // Domains are written without a slash at the end, and provider IDs keep theirs.
        let (ids, keys): (Vec<&str>, Vec<&str>) = self
            .prefixes
            .iter()
            .map(|prefix| prefix.trim_end_matches('/'))
            .zip(&self.prefixes)
            .map(|(short, prefix)| {
                if prefix.contains("://") {
                    prefix
                } else {
                    short
                }
            })
            .partition(|prefix| prefix.contains("://"));

        let fields = [("providerIDs", ids), ("domains", keys)].into_iter();
        let fields = fields
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("`{name}: [{}]`", list.join(", ")));

        Err(format!(
            "`prefixes` was replaced: write {}, with all that the plugin may own",
            fields.collect::<Vec<_>>().join(" and ")
        ))
    }
}

impl ObjectGrantConfiguration {
    fn grant(&self) -> Result<ObjectGrant, String> {
        let grant = self.parse()?;
        let checked = grant.check().map_err(|error| error.to_string());
        checked.map(|()| grant)
    }

    fn parse(&self) -> Result<ObjectGrant, String> {
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
