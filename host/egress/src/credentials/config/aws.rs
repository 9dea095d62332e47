//! `type: aws-sigv4`.

use std::path::PathBuf;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Binding, IssuerUrl};

/// `type: aws-sigv4`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsConfig {
    /// The name that rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// Where the keys come from.
    pub source: AwsSource,
    /// Roles to assume after that, each with the keys of the one before.
    #[serde(default)]
    pub assume: Vec<AssumeRole>,
    /// Which STS `assume` and `webIdentity` ask. By default, that of the first of `regions`.
    #[serde(default)]
    pub sts: StsConfig,
    /// Services that requests may be signed for, by the names of their signatures, such as `ec2` and `elasticloadbalancing`.
    pub services: Vec<String>,
    /// Regions that requests may be signed for.
    pub regions: Vec<String>,
}

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AwsSource {
    /// A file each.
    Files {
        /// File with the access key ID.
        access_key_id_file: PathBuf,
        /// File with the secret access key.
        secret_access_key_file: PathBuf,
        /// File with the session token of temporary keys.
        #[serde(default)]
        session_token_file: Option<PathBuf>,
    },
    /// A file as AWS's own tools have it in `~/.aws/credentials`.
    SharedFile {
        /// The file.
        file: PathBuf,
        /// The section in it.
        #[serde(default = "default_profile")]
        profile: String,
    },
    /// The role of the machine, from its metadata service (version 2).
    Imds {
        /// Where the service is.
        #[serde(default)]
        endpoint: Option<IssuerUrl>,
    },
    /// The role of a service account (IRSA).
    WebIdentity {
        /// ARN of the role.
        role_arn: String,
        /// File with the service account's token.
        token_file: PathBuf,
        /// Name of the session, which audit logs show.
        #[serde(default = "session_name")]
        session_name: String,
    },
    /// The role of a Pod by EKS's agent.
    PodIdentity {
        /// Where the agent is.
        #[serde(default)]
        url: Option<IssuerUrl>,
        /// File with the Pod's token.
        token_file: PathBuf,
    },
    /// The role of an ECS task.
    Ecs {
        /// The whole URL.
        url: IssuerUrl,
        /// File with a token for it, if it wants one.
        #[serde(default)]
        token_file: Option<PathBuf>,
    },
}

/// One role of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssumeRole {
    /// ARN of the role.
    pub role_arn: String,
    /// Name of the session, which audit logs show.
    #[serde(default = "session_name")]
    pub session_name: String,
    /// File with the external ID that the role's owner demands.
    #[serde(default)]
    pub external_id_file: Option<PathBuf>,
    /// How long the keys are to live; by default an hour, the most that a chain may.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub duration: Option<SignedDuration>,
    /// `x-amz-source-arn`, against confused deputies.
    #[serde(default)]
    pub source_arn: Option<String>,
    /// `x-amz-source-account`, against confused deputies.
    #[serde(default)]
    pub source_account: Option<String>,
}

/// Which STS is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StsConfig {
    /// Region whose STS it is.
    #[serde(default)]
    pub region: Option<String>,
    /// Another URL, such as that of a VPC endpoint.
    #[serde(default)]
    pub endpoint: Option<IssuerUrl>,
}

fn default_profile() -> String {
    "default".to_owned()
}

fn session_name() -> String {
    "skydock".to_owned()
}
