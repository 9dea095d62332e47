//! What is wrong with a kubeconfig, without its values: they are tokens, passwords and keys.

use kube::{
    client::AuthError,
    config::{KubeconfigError, LoadDataError},
};

use crate::api::with_causes;

/// Says why a kubeconfig cannot be used.
pub(super) fn of_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        // The parser quotes lines of the file.
        KubeconfigError::Parse(error) => {
            let wrong = "it is not valid YAML, or a value is not of the type that its field has";
            match error.location() {
                Some(at) if at.line() > 0 => {
                    format!("line {} column {}: {wrong}", at.line(), at.column())
                }
                _ => wrong.to_owned(),
            }
        }
        KubeconfigError::LoadCertificateAuthority(error) => of_data("certificate authority", error),
        KubeconfigError::LoadClientCertificate(error) => of_data("client certificate", error),
        KubeconfigError::LoadClientKey(error) => of_data("client key", error),
        KubeconfigError::ParseCertificates(_) => {
            "the certificate authority is not valid PEM".to_owned()
        }
        other => with_causes(other),
    }
}

fn of_data(what: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("the {what} is not valid base64"),
        other => format!("cannot load the {what}: {}", with_causes(other)),
    }
}

/// Says why there is no client with a configuration.
pub(super) fn of_client(error: &kube::Error) -> String {
    match error {
        kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. } => {
            "the scheme of the proxy's URL is not supported".to_owned()
        }
        kube::Error::RustlsTls(kube::client::RustlsTlsError::InvalidIdentityPem(_)) => {
            "the client certificate, or its key, is not valid PEM".to_owned()
        }
        other => with_causes(other),
    }
}

/// Says what is wrong with the program that the kubeconfig names under `exec`, if the error quotes
/// its output: that is where its token is.
pub(crate) fn of_exec(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match error.downcast_ref::<AuthError>()? {
        AuthError::AuthExecRun { cmd, out } => Some(format!(
            "the program {cmd:?} of the kubeconfig failed with {}",
            out.status
        )),
        AuthError::AuthExecParse(_) => Some(
            "the output of the program of the kubeconfig is not a valid ExecCredential".to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn an_error_of_a_kubeconfig_has_none_of_its_values() {
        for (yaml, expected) in [
            (
                "users:\n- name: a\n  user:\n    token: S3CRET\n    password: [S3CRET\n",
                "line ",
            ),
            (
                "users:\n- name: a\n  user:\n    token: S3CRET\n    password: [S3CRET]\n",
                "line 5 column 15: ",
            ),
            ("users: S3CRET\n", "it is not valid YAML"),
            ("S3CRET\n", "it is not valid YAML"),
            (
                "clusters: [{name: a, cluster: {insecure-skip-tls-verify: S3CRET}}]\n",
                "it is not valid YAML",
            ),
        ] {
            let reason = of_kubeconfig(&Kubeconfig::from_yaml(yaml).unwrap_err());
            assert!(
                reason.contains(expected) && !reason.contains("S3C"),
                "{yaml}: {reason}"
            );
        }
    }

    #[test]
    fn an_error_of_a_program_has_none_of_its_output() {
        let out = std::process::Output {
            status: std::process::ExitStatus::default(),
            stdout: b"S3CRET".to_vec(),
            stderr: b"S3CRET".to_vec(),
        };
        let error = kube::Error::Auth(AuthError::AuthExecRun {
            cmd: "login".to_owned(),
            out: Box::new(out),
        });
        let text = with_causes(&kube::Error::Service(Box::new(error)));
        assert!(
            text.contains("\"login\" of the kubeconfig failed") && !text.contains("S3CRET"),
            "{text}"
        );
    }
}
