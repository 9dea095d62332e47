//! The settings of a gateway: the rules and credentials that a build of the plugin may use.

use std::{collections::BTreeMap, sync::Arc};

use skydock_credentials::{BindError, Credential, Withheld, config::CredentialConfig};
use skydock_egress::{EgressRule, Settings, TlsConfig};

use super::{ActivePolicy, EgressError, EgressPolicy};

/// Returns all rules, credentials and client certificates, whatever component these are for, to
/// validate them.
pub(super) fn unbound(
    policy: &EgressPolicy,
    credentials: BTreeMap<String, Arc<dyn Credential>>,
) -> Settings {
    let certificates = policy.credentials.iter();
    let certificates = certificates.filter_map(CredentialConfig::client_certificate);

    Settings {
        rules: policy.rules.clone(),
        credentials,
        certificates: certificates
            .map(|it| (it.name.clone(), it.certificate()))
            .collect(),
        nat64: policy.nat64.clone(),
        ..Settings::default()
    }
}

/// Returns the settings for the component with this digest. A rule whose credential or client
/// certificate is for another component denies the requests that match it, so that no later rule can
/// allow them.
pub(super) fn settings(
    plugin: &str,
    active: &ActivePolicy,
    digest: &str,
) -> Result<Settings, EgressError> {
    let mut settings = Settings {
        nat64: active.policy.nat64.clone(),
        digest: format!("sha256:{digest}"),
        ..Settings::default()
    };

    for rule in &active.policy.rules {
        match bind(plugin, active, digest, rule, &mut settings)? {
            None => settings.rules.push(rule.clone()),
            // Without a digest, the configuration is only validated.
            Some(_) if digest.is_empty() => {}
            Some(error) => {
                tracing::warn!(
                    plugin,
                    rule = rule.name,
                    "the rule denies all requests: {error}"
                );
                let withheld = withhold(rule, &mut settings);
                settings.rules.push(withheld);
            }
        }
    }

    Ok(settings)
}

/// Adds the credential and the client certificate of a rule to the settings, or returns why the
/// component must not use one of them.
fn bind(
    plugin: &str,
    active: &ActivePolicy,
    digest: &str,
    rule: &EgressRule,
    settings: &mut Settings,
) -> Result<Option<BindError>, EgressError> {
    let digest = format!("sha256:{digest}");
    let mut denied = None;

    if let Some(name) = &rule.credential {
        let known = active.policy.credentials.iter();
        let mut known = known.filter(|credential| credential.name() == name);
        let names = || (rule.name.clone(), name.clone());

        match known.next() {
            None => {
                let (rule, credential) = names();
                return Err(EgressError::NoCredential { rule, credential });
            }
            Some(CredentialConfig::ClientCertificate(_)) => {
                let (rule, credential) = names();
                return Err(EgressError::Certificate { rule, credential });
            }
            Some(_) => match active.credentials.bind(name, plugin, &digest) {
                Ok(credential) => drop(settings.credentials.insert(name.clone(), credential)),
                Err(error) => denied = Some(error),
            },
        }
    }

    let tls = rule.tls.as_ref();
    if let Some(name) = tls.and_then(|tls| tls.client_certificate.as_ref()) {
        match active.credentials.bind_certificate(name, plugin, &digest) {
            Ok(certificate) => drop(settings.certificates.insert(name.clone(), certificate)),
            Err(error) => denied = denied.or(Some(error)),
        }
    }
    Ok(denied)
}

/// Returns the rule with a credential that denies its requests.
fn withhold(rule: &EgressRule, settings: &mut Settings) -> EgressRule {
    let tls = rule.tls.as_ref();
    let certificate = tls.and_then(|tls| tls.client_certificate.clone());
    let name = rule.credential.clone().or(certificate).unwrap_or_default();

    // The rule may have a credential that another rule uses.
    let denied = format!("{name} of {}", rule.name);
    settings
        .credentials
        .insert(denied.clone(), Arc::new(Withheld::new(&name)));

    let tls = tls.map(|tls| TlsConfig {
        client_certificate: None,
        ..tls.clone()
    });

    EgressRule {
        credential: Some(denied),
        tls,
        ..rule.clone()
    }
}
