//! The review of rules and credentials: what is wrong with them, and what is valid but probably not
//! what was meant.

use std::{collections::BTreeMap, sync::Arc};

use skydock_credentials::{Credential, CredentialMetrics, Withheld, config::CredentialConfig};
use skydock_egress::{
    ConfigErrors, EgressRule, Gateway, GatewayDependencies, Host, Settings, TargetPattern,
};

use super::{EgressPolicy, credentials, settings::unbound};

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A field of a rule, by the position of the rule; and the position in the field, if that is a
    /// list.
    Rule(usize, &'static str, Option<usize>),
    /// A field of a credential, by the position of the credential.
    Credential(usize, &'static str),
}

/// A mistake, or something that is probably one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub subject: Subject,
    /// The sentence for the operator.
    pub sentence: String,
}

impl Finding {
    fn of_rule(index: usize, field: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            subject: Subject::Rule(index, field, None),
            sentence: sentence.into(),
        }
    }
}

/// All findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// Mistakes: the rules and credentials cannot be used.
    pub errors: Vec<Finding>,
    /// What can be used, but does not do what was probably meant.
    pub warnings: Vec<Finding>,
}

/// Reviews the network access of a plugin. No connections are opened, and no files are read.
#[must_use]
pub fn review(plugin: &str, policy: &EgressPolicy) -> Review {
    let mut review = Review::default();

    let known = match credentials(policy, &CredentialMetrics::default()) {
        Ok(known) => known.all(),
        Err(errors) => {
            review.errors.extend(errors.iter().map(|error| Finding {
                subject: Subject::Credential(error.index(), ""),
                sentence: error.problem().to_owned(),
            }));
            // That they are known is all that can be said of the rules.
            let names = policy.credentials.iter().map(CredentialConfig::name);
            let unknown = |name: &str| -> (String, Arc<dyn Credential>) {
                (name.to_owned(), Arc::new(Withheld::new(name)))
            };
            names.map(unknown).collect()
        }
    };

    // A rule that is wrong does not hide the warnings about the others.
    let mut right: Vec<usize> = (0..policy.rules.len()).collect();
    if let Err(errors) = gateway(plugin, policy, &known, &right) {
        right.retain(|index| errors.iter().all(|error| error.index() != *index));
        review.errors.extend(errors.iter().map(|error| {
            Finding {
                subject: Subject::Rule(error.index(), error.field(), error.item()),
                sentence: misplaced(policy, error.index(), error.field())
                    .unwrap_or_else(|| error.problem().to_owned()),
            }
        }));
    }

    let warnings = gateway(plugin, policy, &known, &right).map(|gateway| gateway.warnings());
    review
        .warnings
        .extend(warnings.into_iter().flatten().filter_map(|warning| {
            // A warning counts only the rules that are right.
            let index = right.get(warning.index())?;
            Some(Finding::of_rule(
                *index,
                warning.field(),
                warning.to_string(),
            ))
        }));

    for (index, rule) in policy.rules.iter().enumerate() {
        review.warnings.extend(of_rule(index, rule, plugin, policy));
    }

    review.warnings.extend(unused(plugin, policy));
    review
}

/// Returns the error about a client certificate in the place of a credential.
fn misplaced(policy: &EgressPolicy, rule: usize, field: &str) -> Option<String> {
    let name = policy.rules.get(rule)?.credential.as_ref()?;
    let found = policy.credentials.iter().find(|it| it.name() == name)?;
    let is_misplaced = field == "credential" && found.client_certificate().is_some();
    is_misplaced.then(|| {
        format!("credential `{name}` is a client certificate: name it in `tls.clientCertificate`")
    })
}

/// Returns a gateway with the rules at these positions, and these credentials, whatever component
/// they are for.
fn gateway(
    plugin: &str,
    policy: &EgressPolicy,
    known: &BTreeMap<String, Arc<dyn Credential>>,
    rules: &[usize],
) -> Result<Gateway, ConfigErrors> {
    let rules = rules.iter().filter_map(|index| policy.rules.get(*index));
    let settings = Settings {
        rules: rules.cloned().collect(),
        ..unbound(policy, known.clone())
    };
    Gateway::new(plugin, &settings, GatewayDependencies::default())
}

fn of_rule(index: usize, rule: &EgressRule, plugin: &str, policy: &EgressPolicy) -> Vec<Finding> {
    let mut all = Vec::new();

    let name = rule.credential.as_deref();
    let credential = policy
        .credentials
        .iter()
        .find(|credential| Some(credential.name()) == name);

    if let Some(credential) = credential {
        let why = withheld(credential, plugin).or_else(|| excluded(credential, rule));
        all.extend(why.map(|sentence| {
            Finding::of_rule(
                index,
                "credential",
                format!("egress rule `{}`: {sentence}", rule.name),
            )
        }));
    }

    for (field, list) in [("reads", &rule.reads), ("actions", &rule.actions)] {
        for (item, action) in list.iter().enumerate() {
            if let Some(meant) = misspelled(action) {
                all.push(Finding {
                    subject: Subject::Rule(index, field, Some(item)),
                    sentence: format!(
                        "egress rule `{}`: `{action}` probably names no action; did you mean `{meant}`?",
                        rule.name
                    ),
                });
            }
        }
    }

    all
}

/// Returns why this plugin may not use the credential at all.
fn withheld(credential: &CredentialConfig, plugin: &str) -> Option<String> {
    let name = credential.name();
    let owner = &credential.binding().plugin;
    (owner != plugin).then(|| {
        format!(
            "it denies all requests, because credential `{name}` is for plugin `{owner}`: set `for.plugin` of the credential to `{plugin}`"
        )
    })
}

/// Returns why the credential authenticates no request of the rule.
fn excluded(credential: &CredentialConfig, rule: &EgressRule) -> Option<String> {
    let CredentialConfig::AwsSigv4(aws) = credential else {
        return None;
    };

    if aws.services.is_empty() || aws.regions.is_empty() {
        // An error of the credential.
        return None;
    }

    // A target that is not valid is an error of the rule already.
    let target = rule.to.parse::<TargetPattern>().ok()?;
    let Some(Host::Name(host)) = target.host() else {
        return None;
    };

    let why = aws.excludes(host)?;
    Some(format!(
        "it denies all requests, because credential `{}` does not sign requests to {host}: {why}",
        aws.name
    ))
}

/// Returns a warning for each credential that no rule uses.
fn unused(plugin: &str, policy: &EgressPolicy) -> Vec<Finding> {
    let is_used = |name: &str| {
        policy.rules.iter().any(|rule| {
            let certificate = rule
                .tls
                .as_ref()
                .and_then(|tls| tls.client_certificate.as_ref());
            [rule.credential.as_ref(), certificate].contains(&Some(&name.to_owned()))
        })
    };

    // It is probably the one that a rule with another name means.
    let is_known = |name: &str| policy.credentials.iter().any(|it| it.name() == name);
    let mut names = policy
        .rules
        .iter()
        .filter_map(|rule| rule.credential.as_deref());
    if names.any(|name| !is_known(name)) {
        return Vec::new();
    }
    let credentials = policy.credentials.iter().enumerate();
    let unused = credentials.filter(|(_, credential)| !is_used(credential.name()));

    unused
        .map(|(index, credential)| Finding {
            subject: Subject::Credential(index, "name"),
            sentence: format!(
                "credential `{}` is not used by any egress rule of plugin `{plugin}`",
                credential.name()
            ),
        })
        .collect()
}

/// First words of the actions of clouds.
const VERBS: &[&str] = &[
    "Accept",
    "Activate",
    "Add",
    "Allocate",
    "Apply",
    "Assign",
    "Associate",
    "Attach",
    "Authorize",
    "Batch",
    "Cancel",
    "Check",
    "Copy",
    "Create",
    "Deactivate",
    "Delete",
    "Deregister",
    "Describe",
    "Detach",
    "Disable",
    "Disassociate",
    "Enable",
    "Export",
    "Find",
    "Get",
    "Head",
    "Import",
    "List",
    "Lookup",
    "Modify",
    "Put",
    "Query",
    "Read",
    "Register",
    "Release",
    "Remove",
    "Replace",
    "Reset",
    "Retrieve",
    "Revoke",
    "Search",
    "Select",
    "Set",
    "Start",
    "Stop",
    "Tag",
    "Terminate",
    "Test",
    "Unassign",
    "Untag",
    "Update",
    "Validate",
];

/// Maximum number of letters in which a misspelled verb differs.
const MAX_DISTANCE: usize = 2;

/// Returns the action that was probably meant, if its first word is almost a usual one.
fn misspelled(action: &str) -> Option<String> {
    let is_lower = |c: char| c.is_ascii_lowercase();
    let first = action.chars().next().filter(char::is_ascii_uppercase)?;
    let rest = action.get(first.len_utf8()..)?;
    let end = rest.find(|c| !is_lower(c)).unwrap_or(rest.len());
    let word = action.get(..first.len_utf8() + end)?;

    // Short words are similar to many.
    if word.len() < 5 || VERBS.contains(&word) {
        return None;
    }
    let distance = |verb: &&&str| strsim::damerau_levenshtein(verb, word);
    let nearest = VERBS.iter().min_by_key(distance)?;
    (distance(&nearest) <= MAX_DISTANCE)
        .then(|| format!("{nearest}{}", action.get(word.len()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &str, credentials: &str) -> EgressPolicy {
        EgressPolicy {
            rules: serde_saphyr::from_str(rules).unwrap(),
            credentials: serde_saphyr::from_str(credentials).unwrap(),
            ..EgressPolicy::default()
        }
    }

    fn sentences(findings: &[Finding]) -> Vec<String> {
        findings
            .iter()
            .map(|finding| format!("{:?} {}", finding.subject, finding.sentence))
            .collect()
    }

    const TOKEN: &str =
        "{name: t, type: header, for: {plugin: a, digest: any}, valueFile: /run/token}";
    const KEYS: &str = "{name: k, type: aws-sigv4, for: {plugin: a, digest: any}, source: {imds: {}}, services: [ec2], regions: [eu-west-1]}";

    #[test]
    fn rules_that_cannot_work_as_meant_cause_a_warning() {
        let ec2 = "to: 'https://ec2.eu-west-1.amazonaws.com:443', credential: k";
        for (rule, credentials, expected) in [
            (ec2, KEYS.to_owned(), ""),
            (
                ec2,
                KEYS.replace("plugin: a", "plugin: b"),
                "\"credential\", None) egress rule `r`: it denies all requests, because credential `k` is for plugin `b`",
            ),
            (
                ec2,
                KEYS.replace("eu-west-1", "us-east-1"),
                "region `eu-west-1` is not in its `regions`",
            ),
            (
                ec2,
                KEYS.replace("[ec2]", "[elasticloadbalancing]"),
                "service `ec2` is not in its `services`",
            ),
            (
                "to: 'https://*.amazonaws.com:443', credential: k",
                KEYS.to_owned(),
                "",
            ),
            (
                "to: 'http://api.example.com:80', credential: t",
                TOKEN.to_owned(),
                "its credential is sent unencrypted",
            ),
            (
                "to: 'http://api.example.com:80', credential: t",
                TOKEN.replace("any", &format!("sha256:{}", "1".repeat(64))),
                "its credential is sent unencrypted",
            ),
            (
                "to: 'https://api.example.com:443'",
                TOKEN.to_owned(),
                "Credential(0, \"name\") credential `t` is not used by any egress rule of plugin `a`",
            ),
            (
                &format!("{ec2}, reads: ['Describe*', 'Decsribe*']"),
                KEYS.to_owned(),
                "\"reads\", Some(1)) egress rule `r`: `Decsribe*` probably names no action; did you mean `Describe*`?",
            ),
        ] {
            let policy = policy(
                &format!("[{{name: r, paths: [/], {rule}}}]"),
                &format!("[{credentials}]"),
            );
            let review = review("a", &policy);
            assert_eq!(sentences(&review.errors), [""; 0], "{rule}");
            let warnings = sentences(&review.warnings);
            assert_eq!(
                warnings.len(),
                usize::from(!expected.is_empty()),
                "{warnings:?}"
            );
            assert!(
                warnings.iter().all(|warning| warning.contains(expected)),
                "{expected}: {warnings:?}"
            );
        }
    }

    #[test]
    fn all_wrong_rules_and_credentials_are_found() {
        let policy = policy(
            "[{name: a, to: 'https://a.example', credential: none}, {name: a, to: 'https://a.example:443', methods: [GET, FETCH]}]",
            "[{name: '', type: header, for: {plugin: a, digest: any}, valueFile: /t}, \
              {name: h, type: header, for: {plugin: a, digest: any}, header: 'a b', valueFile: /t}]",
        );
        let subjects: Vec<_> = review("a", &policy)
            .errors
            .into_iter()
            .map(|finding| finding.subject)
            .collect();
        assert_eq!(
            subjects,
            [
                Subject::Credential(0, ""),
                Subject::Credential(1, ""),
                Subject::Rule(0, "to", None),
                Subject::Rule(0, "credential", None),
                Subject::Rule(1, "name", None),
                Subject::Rule(1, "methods", Some(1)),
            ]
        );
    }

    #[test]
    fn only_words_that_are_almost_usual_are_misspelled() {
        for (action, meant) in [
            ("Decsribe*", Some("Describe*")),
            ("DescribeInstances", None),
            ("DecribeInstances", Some("DescribeInstances")),
            ("Desribe", Some("Describe")),
            ("Modfy*", Some("Modify*")),
            ("Lst*", None),
            ("*", None),
            ("RetrieveServiceContent", None),
            ("LoginExtensionByCertificate", None),
            ("describe*", None),
            ("Ünknown", None),
        ] {
            assert_eq!(misspelled(action).as_deref(), meant, "{action}");
        }
    }
}
