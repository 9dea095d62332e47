//! Requests for serving certificates, as kubelets create them.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

const GROUP: &str = "system:nodes";

/// Requests a serving certificate with these names and addresses for a node, with the user of its
/// kubelet. The admin's kubeconfig is used to impersonate it.
///
/// # Errors
/// Fails if the request cannot be created.
pub async fn request_certificate(
    kubeconfig: &Path,
    node: &str,
    request: &str,
    names: &[&str],
) -> Result<()> {
    let user = format!("system:node:{node}");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    let subject = [
        (DnType::OrganizationName, GROUP),
        (DnType::CommonName, user.as_str()),
    ];
    for (part, text) in subject {
        params.distinguished_name.push(part, text);
    }
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;

    let object = CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some(request.to_owned()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: "kubernetes.io/kubelet-serving".to_owned(),
            usages: Some(vec![
                "digital signature".to_owned(),
                "server auth".to_owned(),
            ]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };

    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(user);
    config.auth_info.impersonate_groups = Some(vec![GROUP.to_owned()]);
    let requests: Api<CertificateSigningRequest> = Api::all(Client::try_from(config)?);
    requests
        .create(&PostParams::default(), &object)
        .await
        .with_context(|| format!("request {request} of node {node}"))?;
    Ok(())
}

/// Returns the certificate that was issued for a request, in PEM; `None` as long as there is none.
///
/// # Errors
/// Fails if the request cannot be read.
pub async fn issued(client: &Client, request: &str) -> Result<Option<String>> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let status = requests.get(request).await?.status.unwrap_or_default();
    let certificate = status.certificate.map(|pem| String::from_utf8(pem.0));
    Ok(certificate.transpose()?)
}
