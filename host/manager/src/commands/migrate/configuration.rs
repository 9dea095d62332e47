//! The configuration file for a manifest, to be filled in.

use std::path::Path;

use serde_json::{Map, Value};
use skydock_credentials::Variable;
use skydock_egress::TargetPattern;
use skydock_sandbox::{Permissions, metadata::Metadata};

/// Stands for the image with the plugin.
pub(super) const PLUGIN_IMAGE: &str = "registry.example.com/plugin:1.0.0";
/// The plugins in Skydock's image.
const IN_IMAGE: [&str; 3] = ["aws", "openstack", "static"];
/// Stands for a region, in the form of one of AWS.
const REGION: &str = "xx-region-1";
/// Stands for the API of a cloud about which nothing is known.
const SOME_API: &str = "https://api.cloud.example:443";

/// What the file of a plugin says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PluginFile {
    /// The name under which it runs: that of its file.
    pub(super) name: String,
    provider_ids: Vec<String>,
    /// The hosts that it wants to reach; `None` if it does not say that.
    hosts: Option<Vec<String>>,
}

impl PluginFile {
    pub(super) fn new(file: &Path, metadata: Option<&Metadata>) -> Self {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let hosts = metadata.map(|metadata| metadata.wanted_hosts.clone());
        Self {
            name: name.into_owned(),
            provider_ids: metadata
                .map(|metadata| metadata.provider_id_prefixes.clone())
                .unwrap_or_default(),
            hosts,
        }
    }

    /// Returns true if it wants to reach nothing.
    fn reaches_nothing(&self) -> bool {
        self.hosts.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns the prefixes of provider IDs that it asks for and that do not bear its name, as far as
    /// they do not depend on its configuration.
    fn foreign_ids(&self) -> Vec<&str> {
        let by_name = Permissions::by_name(&self.name).provider_ids;
        let is_permitted = |id: &str| by_name.iter().any(|prefix| id.starts_with(prefix.as_str()));
        let ids = self.provider_ids.iter().map(String::as_str);
        ids.filter(|id| !id.contains('*') && !is_permitted(id))
            .collect()
    }

    /// Returns how many of the rules for its hosts are no comments. The plugin in the image is
    /// Skydock's, whatever this file says.
    fn allowed(&self, rules: &[Rule]) -> usize {
        if is_in_image(&self.name) {
            rules.len()
        } else {
            rules.len().min(1)
        }
    }

    /// Returns what an operator has to decide about it.
    pub(super) fn wishes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let foreign = self.foreign_ids();
        if !foreign.is_empty() {
            notes.push(format!(
                "the plugin asks for provider IDs of other names, {}: uncomment its permission in config.yaml if your nodes have them and you \
                 trust it with these nodes",
                foreign.join(", ")
            ));
        }

        let hosts = self.hosts.as_deref().unwrap_or_default();
        let rules = rules(hosts);
        let (allowed, others) = rules.split_at(self.allowed(&rules));
        notes.extend(allowed.iter().map(|rule| {
            format!(
                "config.yaml lets the plugin reach {}, with the credential: make sure that it belongs to your cloud",
                rule.host
            )
        }));
        notes.extend(others.iter().map(|rule| {
            format!(
                "the plugin asks for {}: uncomment its rule in config.yaml if it belongs to your cloud",
                rule.host
            )
        }));

        let unclear = hosts
            .iter()
            .filter(|host| *host != "*" && target(host).is_none());
        notes.extend(unclear.map(|host| {
            format!("the plugin asks for {host}, for which there is no rule in config.yaml: add one if you know the host")
        }));
        notes
    }
}

/// Returns true if Skydock's image has the plugin with this name.
pub(super) fn is_in_image(name: &str) -> bool {
    IN_IMAGE.contains(&name)
}

/// What is known about the cloud.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cloud<'a> {
    /// The plugin, if it was named.
    pub(super) plugin: Option<&'a PluginFile>,
    /// `--cloud-provider`.
    pub(super) provider: Option<&'a str>,
    /// `--cloud-config`.
    pub(super) cloud_config: Option<&'a str>,
    /// Environment variables that have secrets, the most likely first.
    pub(super) secrets: &'a [String],
}

impl Cloud<'_> {
    /// Returns the name under which the plugin runs.
    fn name(&self) -> &str {
        let provider = self.provider.filter(|name| is_name(name));
        let plugin = self.plugin.map(|plugin| plugin.name.as_str());
        plugin.or(provider).unwrap_or("plugin")
    }

    fn has_credential(&self) -> bool {
        !self.plugin.is_some_and(PluginFile::reaches_nothing)
    }

    /// Returns where the login of clouds is that have one of their own.
    fn login(&self) -> Option<&'static str> {
        match self.name() {
            name if name.contains("openstack") => Some("that of cloud.conf"),
            "aws" => Some("the role of the instance"),
            _ => None,
        }
    }

    /// Returns the environment variable that the credential reads.
    pub(super) fn variable(&self) -> Option<&str> {
        let first = self.secrets.first().map(String::as_str);
        first.filter(|_| self.has_credential() && self.login().is_none())
    }

    /// Returns what is said about a login in the environment that the credential does not have.
    pub(super) fn other_login(&self) -> Option<String> {
        let is_left = self.has_credential() && !self.secrets.is_empty();
        let login = self.login().filter(|_| is_left)?;
        Some(format!(
            "the credential in config.yaml has another login, {login}, than the environment variables {}: if that one has to stay, write \
             it into a file that the credential names",
            self.secrets.join(", ")
        ))
    }
}

/// What the names of variables end with that say where a secret is, or whose it is.
const NO_SECRETS: [&str; 6] = ["DIR", "FILE", "NAME", "NAMESPACE", "PATH", "URL"];

/// Returns the names of environment variables that probably have secrets, the most likely first.
pub(super) fn secrets(container: &Map<String, Value>) -> Vec<String> {
    let env = container.get("env").and_then(Value::as_array);
    let mut found: Vec<(bool, String)> = Vec::new();
    for variable in env.into_iter().flatten() {
        let Some(name) = variable.get("name").and_then(Value::as_str) else {
            continue;
        };
        let words = ["TOKEN", "SECRET", "PASSWORD", "API_KEY", "APIKEY"];
        let is_named = words.iter().any(|word| name.contains(word));
        let is_secret = variable.pointer("/valueFrom/secretKeyRef").is_some();
        let is_place = NO_SECRETS.iter().any(|end| name.ends_with(end));
        if (is_named || is_secret) && !is_place && Variable::try_from(name.to_owned()).is_ok() {
            found.push((!is_named, name.to_owned()));
        }
    }

    // Stable: otherwise in the order of the manifest.
    found.sort_by_key(|(is_unlikely, _)| *is_unlikely);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Variables that Skydock reads, or the libraries that it uses.
const READ: [&str; 7] = [
    "HOME",
    "HTTPS_PROXY",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "NO_PROXY",
    "RUST_LOG",
    "XDG_CACHE_HOME",
];

/// Returns what is said about environment variables that nobody reads, apart from that of the
/// credential, and those that the arguments name.
pub(super) fn unread(
    container: &Map<String, Value>,
    credential: Option<&str>,
    arguments: &[String],
) -> Vec<String> {
    let env = container.get("env").and_then(Value::as_array);
    let names = env.into_iter().flatten();
    let names = names.filter_map(|variable| variable.get("name")?.as_str());
    let is_secret = |name: &str| credential == Some(name);
    let is_argument = |name: &str| {
        let reference = format!("$({name})");
        arguments.iter().any(|word| word.contains(&reference))
    };

    let mut notes = Vec::new();
    let names: Vec<_> = names
        .filter(|name| !READ.contains(name) && !is_secret(name) && !is_argument(name))
        .collect();
    if !names.is_empty() {
        notes.push(format!(
            "nobody reads the environment variables {}: plugins have none; write what they set under `options` of the plugin, and secrets \
             into credentials",
            names.join(", ")
        ));
    }

    let sources = container.get("envFrom").and_then(Value::as_array);
    for source in sources.into_iter().flatten() {
        let named = [("Secret", "secretRef"), ("ConfigMap", "configMapRef")];
        let named = named.into_iter().find_map(|(kind, field)| {
            let name = source.get(field)?.get("name")?.as_str()?;
            Some(format!("{kind} {name}"))
        });
        let named = named.unwrap_or_else(|| "another object".to_owned());
        notes.push(format!(
            "nobody reads the environment variables of {named} (envFrom), except one that is `valueEnv` of a credential: plugins have \
             none; write what the others set under `options` of the plugin"
        ));
    }
    notes
}

/// Returns the text with the values of the variables that the kubelet replaces in it; `None` if one
/// of them is not in the manifest.
pub(super) fn expand(text: &str, container: &Map<String, Value>) -> Option<String> {
    let env = container.get("env").and_then(Value::as_array);
    let mut expanded = text.to_owned();
    for variable in env.into_iter().flatten() {
        let name = variable.get("name").and_then(Value::as_str);
        let value = variable.get("value").and_then(Value::as_str);
        if let (Some(name), Some(value)) = (name, value) {
            expanded = expanded.replace(&format!("$({name})"), value);
        }
    }
    (!expanded.contains("$(")).then_some(expanded)
}

/// File for the secret of a cloud about which nothing is known.
const SECRET_FILE: &str = "/etc/skydock-secrets/token";

/// Returns what has to be mounted for the credential in the file.
pub(super) fn to_mount(text: &str) -> Option<String> {
    text.contains(SECRET_FILE).then(|| {
        format!("mount the Secret of the cloud so that {SECRET_FILE} exists, or name another file or variable in the credential")
    })
}

/// Returns the text of the file.
pub(super) fn text(cloud: &Cloud<'_>) -> String {
    let unknown = PluginFile {
        name: cloud.name().to_owned(),
        ..PluginFile::default()
    };
    let plugin = cloud.plugin.unwrap_or(&unknown);
    let name = &plugin.name;

    let mut out = format!(
        "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: {name}\n  file: /plugins/{name}.wasm\n"
    );
    out.push_str(&permissions(plugin));
    if plugin.reaches_nothing() {
        return out;
    }

    out.push_str(
        "  # What the plugin may reach: replace names that stand for others, such as those with `region` or `example`.\n  egress:\n",
    );
    let rules = rules(plugin.hosts.as_deref().unwrap_or_default());
    let unknown = Rule {
        name: "api".to_owned(),
        host: SOME_API.to_owned(),
    };
    let rules = if rules.is_empty() {
        vec![unknown]
    } else {
        rules
    };
    let (allowed, others) = rules.split_at(plugin.allowed(&rules));
    for rule in allowed {
        out.push_str(&rule.text("  "));
    }
    for rule in others {
        out.push_str(&rule.text("  # "));
    }
    out.push_str(&format!(
        "credentials:\n# In production, name the digest of the plugin. `skydock config schema` shows all types of credentials.\n- name: cloud\n  \
         for: {{plugin: {name}, digest: any}}\n{}",
        credential(name, cloud)
    ));
    out
}

/// Returns true for the name of a plugin.
pub(super) fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Returns the permission for provider IDs that the name of the plugin does not include, as a
/// comment: only the operator knows whose they are.
fn permissions(plugin: &PluginFile) -> String {
    let foreign = plugin.foreign_ids();
    if foreign.is_empty() {
        return String::new();
    }

    let by_name = Permissions::by_name(&plugin.name).provider_ids;
    let all: Vec<_> = by_name.iter().map(String::as_str).chain(foreign).collect();
    format!(
        "  # The plugin asks for provider IDs of other names.\n  # permissions:\n  #   providerIDs: {}\n",
        Value::from(all)
    )
}

/// A rule for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    name: String,
    host: String,
}

impl Rule {
    /// Returns the lines of the rule.
    fn text(&self, start: &str) -> String {
        let Self { name, host } = self;
        format!("{start}- name: {name}\n{start}  to: {host}\n{start}  credential: cloud\n")
    }
}

/// Returns the target of a rule for a host that a plugin wants to reach; `None` if that depends on
/// its configuration.
fn target(host: &str) -> Option<String> {
    let target: TargetPattern = host.replace('*', REGION).parse().ok()?;
    Some(target.to_string())
}

/// Returns a rule for each host that the plugin wants to reach, as far as that does not depend on its
/// configuration.
fn rules(hosts: &[String]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for host in hosts.iter().filter_map(|host| target(host)) {
        if rules.iter().any(|rule| rule.host == host) {
            continue;
        }
        let label = host.split("://").nth(1).unwrap_or_default();
        let label = label.split(['.', ':']).next().unwrap_or_default();
        let label = if is_name(label) { label } else { "api" };

        let numbered = (2..).map(|number| format!("{label}-{number}"));
        let name = std::iter::once(label.to_owned())
            .chain(numbered)
            .find(|name| rules.iter().all(|rule| rule.name != *name));
        rules.extend(name.map(|name| Rule { name, host }));
    }
    rules
}

/// Returns the fields of the credential that depend on the cloud.
fn credential(name: &str, cloud: &Cloud<'_>) -> String {
    let conf = cloud.cloud_config.filter(|path| path.starts_with('/'));

    match (name, conf, cloud.variable()) {
        (name, conf, _) if name.contains("openstack") => format!(
            "  type: session\n  login:\n    keystone:\n      cloudConf: {}\n",
            Value::from(conf.unwrap_or("/etc/kubernetes/cloud.conf"))
        ),
        ("aws", ..) => format!(
            "  type: aws-sigv4\n  # The role of the instance; in a Pod with a role, webIdentity.\n  source: {{imds: {{}}}}\n  \
             services: [ec2, elasticloadbalancing]\n  regions: [{REGION}]\n"
        ),
        (_, _, Some(variable)) => format!(
            "  type: header\n  header: Authorization\n  prefix: \"Bearer \"\n  # A file (valueFile) can be replaced without a restart.\n  \
             valueEnv: {variable}\n"
        ),
        _ => format!(
            "  type: header\n  header: Authorization\n  prefix: \"Bearer \"\n  # Mount a Secret with this file.\n  \
             valueFile: {SECRET_FILE}\n"
        ),
    }
}
