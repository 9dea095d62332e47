//! The fields of a credential of `type: aws-sigv4`: sources of keys, roles, STS.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Binding, IssuerUrl};
use crate::{request::aws_endpoint, sources::absolute_path::AbsolutePath};

/// `type: aws-sigv4`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsConfig {
    /// The name that egress rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// Where the keys come from.
    pub source: AwsSource,
    /// Roles to assume one after another, each with the keys of the previous one.
    #[serde(default)]
    pub assume: Vec<AssumeRole>,
    /// STS endpoint for `assume` and `webIdentity`. Default: the endpoint of the first region in
    /// `regions`.
    #[serde(default)]
    pub sts: StsConfig,
    /// Services that requests may be signed for, by their names in signatures, for example `ec2`
    /// and `elasticloadbalancing`.
    pub services: Vec<String>,
    /// Regions that requests may be signed for.
    pub regions: Vec<String>,
}

impl AwsConfig {
    /// Returns why no request to this host would be signed, as far as its name shows.
    #[must_use]
    pub fn excludes(&self, host: &str) -> Option<String> {
        let endpoint = aws_endpoint::read(host)?;
        if !self.services.contains(&endpoint.service) {
            return Some(format!(
                "service `{}` is not in its `services`",
                endpoint.service
            ));
        }

        let region = endpoint.region?;
        (!self.regions.contains(&region))
            .then(|| format!("region `{region}` is not in its `regions`"))
    }
}

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum AwsSource {
    /// A separate file for each value.
    Files {
        /// File with the access key ID.
        access_key_id_file: AbsolutePath,
        /// File with the secret access key.
        secret_access_key_file: AbsolutePath,
        /// File with the session token of temporary keys.
        #[serde(default)]
        session_token_file: Option<AbsolutePath>,
    },
    /// A file in the format of `~/.aws/credentials`.
    SharedFile {
        /// The file.
        file: AbsolutePath,
        /// The profile in the file.
        #[serde(default = "default_profile")]
        profile: String,
    },
    /// The role of the instance, from its metadata service (IMDSv2).
    Imds {
        /// URL of the metadata service.
        #[serde(default)]
        endpoint: Option<IssuerUrl>,
    },
    /// The role of a service account (IRSA).
    WebIdentity {
        /// ARN of the role.
        role_arn: String,
        /// File with the service account's token.
        token_file: AbsolutePath,
        /// Name of the session, which is shown in audit logs.
        #[serde(default = "session_name")]
        session_name: String,
    },
    /// The role of a Pod, from the agent of EKS Pod Identity.
    PodIdentity {
        /// URL of the agent.
        #[serde(default)]
        url: Option<IssuerUrl>,
        /// File with the Pod's token.
        token_file: AbsolutePath,
    },
    /// The role of an ECS task.
    Ecs {
        /// The whole URL.
        url: IssuerUrl,
        /// File with a token, if the URL requires one.
        #[serde(default)]
        token_file: Option<AbsolutePath>,
    },
}

/// A role to assume.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssumeRole {
    /// ARN of the role.
    pub role_arn: String,
    /// Name of the session, which is shown in audit logs.
    #[serde(default = "session_name")]
    pub session_name: String,
    /// File with the external ID that the owner of the role requires.
    #[serde(default)]
    pub external_id_file: Option<AbsolutePath>,
    /// How long the keys are valid. Default: one hour, the maximum if a role is assumed with the
    /// keys of another role.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub duration: Option<SignedDuration>,
    /// Value of `x-amz-source-arn`, to prevent the confused deputy problem.
    #[serde(default)]
    pub source_arn: Option<String>,
    /// Value of `x-amz-source-account`, to prevent the confused deputy problem.
    #[serde(default)]
    pub source_account: Option<String>,
}

/// The STS endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StsConfig {
    /// Region of the STS endpoint.
    #[serde(default)]
    pub region: Option<String>,
    /// Another URL, for example that of a VPC endpoint.
    #[serde(default)]
    pub endpoint: Option<IssuerUrl>,
}

fn default_profile() -> String {
    "default".to_owned()
}

fn session_name() -> String {
    "skydock".to_owned()
}
