//! The configuration file (`--config`) as it is written: which plugin serves the cluster, and what
//! the operator permits it.

mod plugin;
mod problem;
mod read;
mod references;
mod tree;

use std::{io::Write, path::Path};

use ipnet::Ipv6Net;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use skydock_credentials::config::CredentialConfig;
use skydock_egress::AuditConfig;

use crate::egress::{self, EgressPolicy, Subject};

use self::tree::Step;

pub(crate) use self::tree::Path as FieldPath;
pub use self::{
    plugin::{
        CloudConfigSecrets, ObjectGrantConfiguration, OverlapConfiguration,
        PermissionsConfiguration, PluginConfiguration,
    },
    problem::{ConfigurationError, Problem},
};

/// Maximum size of the file in bytes, which is that of a ConfigMap.
const MAX_FILE: u64 = 1 << 20;

/// The version of the file format.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum ApiVersion {
    /// May still change between releases; see the changelog.
    #[serde(rename = "skydock.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of the file.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum Kind {
    /// The configuration of a Skydock process.
    SkydockConfiguration,
}

/// The configuration of a Skydock process.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SkydockConfiguration {
    /// The version of the file format.
    pub api_version: ApiVersion,
    /// The kind of the file.
    pub kind: Kind,
    /// The plugins that serve the cluster. Only one is supported.
    #[serde(default)]
    pub plugins: Vec<PluginConfiguration>,
    /// Credentials that authenticate requests of plugins. The secrets are in separate files, or in
    /// environment variables.
    #[serde(default)]
    pub credentials: Vec<CredentialConfig>,
    /// Prefixes of NAT64 translators in this network, in addition to 64:ff9b::/96, for example
    /// `2001:db8:64::/96`. An address below such a prefix is checked like the IPv4 address to which
    /// the translator connects.
    #[serde(default)]
    pub nat64: Vec<String>,
    /// Audit of the requests of plugins. Default: none.
    pub audit: Option<AuditConfig>,
}

impl SkydockConfiguration {
    /// Reads a file. Relative paths in it are relative to its directory. Blocks the thread.
    ///
    /// # Errors
    /// [`ConfigurationError`] with the position of the mistake.
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        Self::parse(&text(path)?, path)
    }

    /// Parses the text of a file at this path.
    ///
    /// # Errors
    /// [`ConfigurationError`] with all mistakes and their positions.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigurationError> {
        let reviewed = Reviewed::new(text, path);
        match reviewed.configuration {
            Some(configuration) if reviewed.errors.is_empty() => Ok(configuration),
            _ => Err(ConfigurationError::Wrong {
                path: path.to_owned(),
                problems: reviewed.errors,
            }),
        }
    }

    /// Returns the JSON Schema of the file.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Returns what the types do not ensure and is wrong.
    fn findings(&self) -> Findings {
        let mut findings = Findings {
            errors: self.errors(),
            warnings: Vec::new(),
        };

        for (index, plugin) in self.plugins.iter().enumerate() {
            let path = FieldPath::default().key("plugins").index(index);
            let problems = plugin.problems().into_iter();
            let problems = problems.map(|(field, sentence)| (path.clone().join(&field), sentence));
            findings.errors.extend(problems);
            self.review_egress(plugin, &path, &mut findings);
        }

        // Those of credentials are found with each plugin.
        for found in [&mut findings.errors, &mut findings.warnings] {
            let all = std::mem::take(found);
            for finding in all {
                if !found.contains(&finding) {
                    found.push(finding);
                }
            }
        }
        findings
    }

    /// Returns the errors that are not about one plugin.
    fn errors(&self) -> Vec<Finding> {
        let mut errors = Vec::new();
        let root = FieldPath::default();

        if self.plugins.len() > 1 {
            let names: Vec<&str> = self
                .plugins
                .iter()
                .map(|plugin| plugin.name.as_str())
                .collect();
            let sentence = format!(
                "only one plugin is supported, but the file has {}",
                names.join(", ")
            );
            errors.push((root.clone().key("plugins"), sentence));
        }

        if let Some(audit) = &self.audit
            && let Err(problem) = audit.limits()
        {
            errors.push((root.clone().key("audit"), problem));
        }

        for (index, text) in self.nat64.iter().enumerate() {
            if prefix(text).is_none() {
                let sentence = format!(
                    "{text:?} is not a valid prefix of a NAT64 translator; expected for example 2001:db8:64::/96"
                );
                errors.push((root.clone().key("nat64").index(index), sentence));
            }
        }
        errors
    }

    /// Adds what is wrong with the rules of the plugin at this path, and with the credentials.
    fn review_egress(
        &self,
        plugin: &PluginConfiguration,
        path: &FieldPath,
        findings: &mut Findings,
    ) {
        let mut review = egress::review(&plugin.name, &self.egress_policy(plugin));
        if self.plugins.len() > 1 {
            // Another plugin may use a credential that this one does not.
            let is_of_rule =
                |finding: &egress::Finding| matches!(finding.subject, Subject::Rule(..));
            review.warnings.retain(is_of_rule);
        }

        let place = |finding: egress::Finding| {
            let path = match finding.subject {
                Subject::Rule(index, field, item) => {
                    let field = path.clone().key("egress").index(index).keys(field);
                    item.map_or(field.clone(), |item| field.index(item))
                }
                Subject::Credential(index, field) => FieldPath::default()
                    .key("credentials")
                    .index(index)
                    .keys(field),
            };
            (path, finding.sentence)
        };

        findings.errors.extend(review.errors.into_iter().map(place));
        findings
            .warnings
            .extend(review.warnings.into_iter().map(place));
    }

    /// Returns the plugin with this name.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&PluginConfiguration> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }

    /// Returns the network access of a plugin, and its credentials.
    #[must_use]
    pub fn egress_policy(&self, plugin: &PluginConfiguration) -> EgressPolicy {
        EgressPolicy {
            rules: plugin.egress.clone(),
            credentials: self.credentials.clone(),
            nat64: self.nat64.iter().filter_map(|text| prefix(text)).collect(),
            audit: self.audit.clone(),
        }
    }

    fn anchor(&mut self, dir: &Path) {
        let paths = self.plugins.iter_mut().flat_map(PluginConfiguration::paths);
        for path in paths.filter(|path| path.is_relative()) {
            *path = dir.join(&*path);
        }
    }
}

/// Parses the prefix of a NAT64 translator, whose length is one of those in RFC 6052.
fn prefix(text: &str) -> Option<Ipv6Net> {
    let prefix: Ipv6Net = text.trim().parse().ok()?;
    [32, 40, 48, 56, 64, 96]
        .contains(&prefix.prefix_len())
        .then_some(prefix)
}

/// Where something is wrong, and what.
type Finding = (FieldPath, String);

/// What is wrong, or probably not as it was meant.
struct Findings {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
}

/// A file that was read, and all that is wrong in it.
#[derive(Debug)]
pub(crate) struct Reviewed {
    /// The parts that could be read. Relative paths in it are relative to the file's directory.
    pub(crate) configuration: Option<SkydockConfiguration>,
    /// The file, to find places in it.
    tree: Option<tree::Node>,
    pub(crate) errors: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Reviewed {
    pub(crate) fn new(text: &str, path: &Path) -> Self {
        let mut reviewed = match read::read(text) {
            Ok(content) => Self {
                configuration: Some(content.configuration),
                tree: Some(content.tree),
                errors: content.problems,
                warnings: Vec::new(),
            },
            Err(problem) => Self {
                configuration: None,
                tree: None,
                errors: vec![problem],
                warnings: Vec::new(),
            },
        };

        reviewed.add_findings();
        reviewed.sort();

        if let Some(configuration) = &mut reviewed.configuration {
            configuration.anchor(path.parent().unwrap_or(Path::new("")));
        }
        reviewed
    }

    fn add_findings(&mut self) {
        let (Some(configuration), Some(tree)) = (&self.configuration, &self.tree) else {
            return;
        };

        let findings = configuration.findings();
        let certain = |found: Vec<Finding>| -> Vec<Problem> {
            let certain = found.into_iter().filter(|(path, _)| is_certain(tree, path));
            certain
                .map(|(path, sentence)| located(tree, &path, &sentence))
                .collect()
        };

        let errors = certain(findings.errors);
        let warnings = certain(findings.warnings);
        self.errors.extend(errors);
        self.warnings.extend(warnings);
    }

    /// Adds what is wrong with the files that this one names. Blocks the thread.
    pub(crate) fn add_references(&mut self) {
        let (Some(configuration), Some(tree)) = (&self.configuration, &self.tree) else {
            return;
        };

        let problems = references::problems(configuration, tree).into_iter();
        self.errors
            .extend(problems.map(|(path, sentence)| located(tree, &path, &sentence)));
        let mut secrets = references::short_secrets(configuration);
        secrets.extend(references::variables(configuration));
        self.warnings.extend(
            secrets
                .into_iter()
                .map(|(path, sentence)| located(tree, &path, &sentence)),
        );
        self.sort();
    }

    /// Adds an error of the field at this path.
    pub(crate) fn add_error(&mut self, path: &FieldPath, sentence: &str) {
        if let Some(tree) = &self.tree {
            self.errors.push(located(tree, path, sentence));
        }
    }

    fn sort(&mut self) {
        for problems in [&mut self.errors, &mut self.warnings] {
            problems.sort_by_key(Problem::place);
        }
    }
}

/// Returns whether a finding would also be made if what could not be read was right.
fn is_certain(tree: &tree::Node, path: &FieldPath) -> bool {
    let is_complete = |list: &str| tree.field(list).is_none_or(|node| !node.is_incomplete());

    match path.steps() {
        // Whether a credential is used.
        [Step::Key(list), Step::Index(_), Step::Key(name)]
            if list == "credentials" && name == "name" =>
        {
            is_complete("plugins")
        }
        // The credential of a rule.
        [.., Step::Index(_), Step::Key(field)] if field == "credential" => {
            is_complete("credentials")
        }
        // A whole rule, or a whole credential.
        [.., Step::Key(list), Step::Index(_)] if list == "egress" || list == "credentials" => {
            !tree.find(path).1.is_incomplete()
        }
        _ => true,
    }
}

fn located(tree: &tree::Node, path: &FieldPath, sentence: &str) -> Problem {
    let (path, node) = tree.find(path);
    Problem::at(node.at, &path, sentence)
}

/// Reads the text of a file of at most 1 MiB. Blocks the thread.
///
/// # Errors
/// [`ConfigurationError::Read`].
pub fn text(path: &Path) -> Result<String, ConfigurationError> {
    let unreadable = |source| ConfigurationError::Read {
        path: path.to_owned(),
        source,
    };

    let file = skydock_sandbox::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than the maximum shows that the file is larger.
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_FILE + 1), &mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(unreadable(std::io::Error::other("it is larger than 1 MiB")));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(std::io::Error::other(error)))
}

/// Parses the text of a YAML file at this path.
///
/// # Errors
/// [`ConfigurationError`] with the position of the mistake, and a suggestion for an unknown field
/// or word.
pub fn from_yaml<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigurationError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 100_000, max_events: 1_000_000, max_documents: 1 },
        with_snippet: false,
    };
    let wrong = |error| ConfigurationError::Wrong {
        path: path.to_owned(),
        problems: vec![Problem::new(&error)],
    };
    serde_saphyr::from_str_with_options(text, options).map_err(wrong)
}

/// Runs `skydock config schema`.
///
/// # Errors
/// If standard output is closed.
pub fn print_schema() -> anyhow::Result<()> {
    writeln!(
        std::io::stdout().lock(),
        "{:#}",
        SkydockConfiguration::schema()
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use skydock_sandbox::{KeyRange, Permissions};

    use super::*;

    const HEAD: &str = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\n";

    fn parse(rest: &str) -> Result<SkydockConfiguration, String> {
        let read = SkydockConfiguration::parse(
            &format!("{HEAD}{rest}"),
            Path::new("/etc/skydock/config.yaml"),
        );
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn parses_a_plugin_with_its_permissions() {
        let text = "
plugins:
- name: openstack
  file: openstack.wasm
  digest: sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
  cloudConfig: /etc/cloud.conf
  options: { region: north }
  overlap: per-interface
  limits: { memory: 64Mi }
  permissions:
    providerIDs: [openstack:///, old://]
    domains: [openstack.org]
    labels: [rack]
    objects:
    - { kind: v1/Secret, namespace: ops, name: tls }
    - { kind: v1/Secret, namedBy: example.com/tls-secret }
";
        let plugin = parse(text).unwrap().plugins.remove(0);
        assert_eq!(
            plugin.file,
            Path::new("/etc/skydock/openstack.wasm"),
            "it begins at the file's directory"
        );
        assert_eq!(
            plugin.cloud_config.as_deref(),
            Some(Path::new("/etc/cloud.conf"))
        );
        assert_eq!(
            (
                plugin.options["region"].as_str(),
                plugin.limits["memory"].as_str()
            ),
            ("north", "64Mi")
        );

        let permissions = plugin.permissions().unwrap();
        assert_eq!(permissions.provider_ids, ["openstack:///", "old://"]);
        assert_eq!(permissions.keys, [KeyRange::Domain("openstack.org".into())]);
        assert_eq!(
            (permissions.labels.len(), permissions.objects.len()),
            (1, 2)
        );

        let old = "plugins: [{name: a, file: a, grants: {objects: [{kind: v1/Secret, namespace: b, name: c}]}}]";
        let permissions = parse(old).unwrap().plugins[0].permissions().unwrap();
        let expected = Permissions {
            objects: permissions.objects.clone(),
            ..Permissions::by_name("a")
        };
        assert_eq!((permissions.objects.len(), &permissions), (1, &expected));
    }

    /// Checks that each of these files has an error that begins like this, at this place.
    fn check<const N: usize>(files: [(&str, &str, &str); N]) {
        for (text, place, start) in files {
            let error = parse(text).unwrap_err();
            let expected = format!("/etc/skydock/config.yaml:{place} {start}");
            assert!(error.starts_with(&expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn errors_have_the_position_and_a_suggestion() {
        check([
            (
                "pluggins: []",
                "3:1:",
                "unknown field `pluggins`; did you mean `plugins`?",
            ),
            (
                "plugins:\n- name: a\n  file: a\n  cloudconfig: x",
                "6:3:",
                "plugins[0]: unknown field `cloudconfig`; did you mean `cloudConfig`?",
            ),
            (
                "plugins:\n- name: a\n  file: a\n  zzz: x",
                "6:3:",
                "plugins[0]: unknown field `zzz`; expected one of `",
            ),
            (
                "plugins:\n- name: a\n  file: a\n  overlap: nun",
                "6:12:",
                "plugins[0].overlap: unknown word `nun`; did you mean `none`?",
            ),
            (
                "plugins:\n- name: a",
                "4:3:",
                "plugins[0]: missing field `file`",
            ),
        ]);
    }

    #[test]
    fn each_invalid_value_is_reported_where_it_is() {
        check([
            (
                "plugins: [{name: a, file: a}, {name: b, file: b}]",
                "3:10:",
                "plugins: only one plugin is supported, but the file has a, b",
            ),
            (
                "audit: {keep: 2}",
                "3:8:",
                "audit: maxSize and keep need file",
            ),
            (
                "nat64: ['2001:db8::/33']",
                "3:9:",
                "nat64[0]: \"2001:db8::/33\" is not",
            ),
            (
                "plugins: [{name: A_b, file: a}]",
                "3:18:",
                "plugins[0].name: the name \"A_b\" is not",
            ),
            (
                "plugins: [{name: a, file: a, digest: sha256:12}]",
                "3:38:",
                "plugins[0].digest: `sha256:12` is not valid; expected `any`, `sha256:`",
            ),
            (
                "plugins: [{name: a, file: a, limits: {memory: x}}]",
                "3:47:",
                "plugins[0].limits.memory: ",
            ),
            (
                "plugins: [{name: a, file: a, grants: {objects: [{kind: v1/Pod, name: x}]}}]",
                "3:49:",
                "plugins[0].permissions.objects[0]: unknown kind \"v1/Pod\"",
            ),
            (
                "plugins: [{name: a, file: a, permissions: {objects: [{kind: v1/Secret}]}}]",
                "3:54:",
                "plugins[0].permissions.objects[0]: v1/Secret: set",
            ),
            (
                "plugins: [{name: a, file: a, permissions: {domains: [projectcalico.org]}}]",
                "3:54:",
                "plugins[0].permissions.domains[0]: \"projectcalico.org\" is not possible",
            ),
            (
                "plugins: [{name: a, file: a, grants: {prefixes: [b://, b.example/, c.example/d-]}}]",
                "3:49:",
                "plugins[0].permissions.prefixes: `prefixes` was replaced: write `providerIDs: [b://]` and `domains: [b.example, c.example/d-]`",
            ),
        ]);
    }

    #[test]
    fn a_file_of_another_kind_is_rejected() {
        let empty = SkydockConfiguration::parse(" ", Path::new("c.yaml"))
            .unwrap_err()
            .to_string();
        assert!(empty.starts_with("c.yaml: the file is empty"), "{empty}");
        let other = SkydockConfiguration::parse("apiVersion: v1\nkind: X\n", Path::new("c.yaml"))
            .unwrap_err()
            .to_string();
        assert!(
            other.contains("`v1`") && other.contains("skydock.dev/v1alpha1"),
            "{other}"
        );
    }

    #[test]
    fn nat64_prefixes_apply_to_the_rules_of_every_plugin() {
        let configuration =
            parse("nat64: ['2001:db8:64::/96']\nplugins: [{name: a, file: a}]").unwrap();
        let policy = configuration.egress_policy(&configuration.plugins[0]);
        assert_eq!(policy.nat64, ["2001:db8:64::/96".parse().unwrap()]);
    }

    #[test]
    fn credential_and_tls_files_need_absolute_paths() {
        let text = |credential: &str, tls: &str| {
            format!(
                "plugins:\n- name: a\n  file: a.wasm\n  egress: [{{name: x, to: 'https://a.example:443', tls: {{{tls}}}}}]\n\
                 credentials:\n- {{name: k, for: {{plugin: a, digest: any}}, {credential}}}"
            )
        };
        let header = "type: header, header: x-token, valueFile:";

        for (credential, tls, relative) in [
            (format!("{header} /run/token"), "", None),
            (format!("{header} tok/en"), "", Some("`tok/en`")),
            (
                "type: session, login: {keystone: {cloudConf: cloud.conf}}".to_owned(),
                "",
                Some("`cloud.conf`"),
            ),
            (
                "type: aws-sigv4, source: {sharedFile: {file: ~/.aws/x}}".to_owned(),
                "",
                Some("`~/.aws/x`"),
            ),
            (
                format!("{header} /run/token"),
                "caFile: ca.pem",
                Some("`ca.pem`"),
            ),
        ] {
            let error = parse(&text(&credential, tls)).err();
            let expected = relative.map(|path| format!("{path} must be an absolute path"));
            assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
            assert!(
                error
                    .zip(expected)
                    .is_none_or(|(error, expected)| error.contains(&expected))
            );
        }
    }

    #[test]
    fn a_secret_is_in_a_file_or_in_an_environment_variable() {
        let of_type = |fields: &str| {
            format!(
                "plugins:\n- name: a\n  file: a.wasm\n  egress: [{{name: x, to: 'https://a.example:443', credential: k}}]\n\
                 credentials:\n- {{name: k, type: {fields}, for: {{plugin: a, digest: any}}}}"
            )
        };
        let text = |value: &str| of_type(&format!("header{value}"));
        let either = Some("set either `valueFile` or `valueEnv`");
        for (value, wrong) in [
            (", valueFile: /run/token", None),
            (", valueEnv: API_TOKEN", None),
            ("", either),
            (", valueFile: /run/token, valueEnv: API_TOKEN", either),
            (
                ", valueEnv: s3cret",
                Some("credentials[0].valueEnv: must be the name of an"),
            ),
        ] {
            let error = parse(&text(value)).err();
            assert_eq!(error.is_some(), wrong.is_some(), "{value}: {error:?}");
            let error = error.unwrap_or_default();
            assert!(
                error.contains(wrong.unwrap_or_default()),
                "{value}: {error}"
            );
            assert!(!error.contains("s3cret"), "{error}");
        }

        let client =
            "oauth2, grant: {clientSecret: {tokenUrl: 'https://a.example/token', clientId: c";
        for (begin, name, end) in [
            ("basic, userFile: /run/user", "password", ""),
            (client, "clientSecret", "}}"),
        ] {
            let (file, variable) = (format!(", {name}File: /run/p"), format!(", {name}Env: P"));
            let either = format!("set either `{name}File` or `{name}Env`");
            for (fields, is_right) in [
                (file.clone(), true),
                (variable.clone(), true),
                (String::new(), false),
                (file + &variable, false),
            ] {
                let error = parse(&of_type(&format!("{begin}{fields}{end}"))).err();
                assert_eq!(error.is_none(), is_right, "{fields}: {error:?}");
                assert!(
                    error.is_none_or(|error| error.contains(&either)),
                    "{fields}"
                );
            }
        }
    }

    /// A field with another type would accept any path.
    #[test]
    fn every_file_in_the_schema_is_an_absolute_path() {
        let mut schema = SkydockConfiguration::schema();
        // Paths of a plugin may be relative to the directory of the configuration.
        schema["$defs"]
            .as_object_mut()
            .unwrap()
            .remove("PluginConfiguration")
            .unwrap();
        let mut files = Vec::new();
        collect(&schema, &mut files);
        assert!(files.len() > 20, "{files:?}");

        let any = files
            .iter()
            .filter(|(_, of)| !of.contains("AbsolutePath"))
            .collect::<Vec<_>>();
        assert!(any.is_empty(), "{any:?}");
    }

    /// Collects the fields whose names suggest files, with their schema.
    fn collect(schema: &serde_json::Value, files: &mut Vec<(String, String)>) {
        for (name, field) in schema
            .get("properties")
            .and_then(|it| it.as_object())
            .into_iter()
            .flatten()
        {
            if name.ends_with("File") || ["file", "cloudConf"].contains(&name.as_str()) {
                files.push((name.clone(), field.to_string()));
            }
        }
        match schema {
            serde_json::Value::Object(fields) => {
                fields.values().for_each(|field| collect(field, files));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, files)),
            _ => {}
        }
    }

    #[test]
    fn the_examples_in_the_documentation_are_valid() {
        let page = concat!(
            include_str!("../../../docs/operating.md"),
            include_str!("../../../README.md")
        );
        let examples: Vec<&str> = page
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next())
            .filter(|it| it.starts_with("apiVersion: skydock"))
            .collect();
        let read = examples
            .iter()
            .map(|example| SkydockConfiguration::parse(example, Path::new("page")).unwrap());
        let plugins: Vec<_> = read
            .flat_map(|it| it.plugins)
            .map(|plugin| plugin.name)
            .collect();
        assert_eq!(plugins, ["metal", "metal", "openstack", "aws"]);
    }

    #[test]
    fn the_schema_describes_all_fields_and_rejects_others() {
        let schema = SkydockConfiguration::schema();
        assert_eq!(schema["additionalProperties"], false);
        let plugin = schema
            .pointer("/$defs/PluginConfiguration/properties")
            .unwrap()
            .as_object()
            .unwrap();
        assert!(
            plugin.contains_key("cloudConfig")
                && plugin
                    .values()
                    .all(|field| field.get("description").is_some()),
            "{plugin:?}"
        );
    }
}
