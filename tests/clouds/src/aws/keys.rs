//! Users, and the verification of their signatures.

use http::Method;
use serde_json::{Value, json};

use super::xml;
use super::{Aws, AwsClient};
use crate::Error;

/// A user's access key.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// `AKIA…`
    pub id: String,
    /// The secret access key.
    pub secret: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Aws {
    /// Creates a user with an access key and a policy (`{"Version": …, "Statement": …}`). Without a
    /// policy, the user may do everything.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn user(&self, name: &str, policy: Option<&Value>) -> Result<Keys, Error> {
        self.client.user(name, policy).await
    }

    /// Enables the verification of signatures and policies for all requests except those to the
    /// metadata service. Returns the keys of a user who may do everything. [`Self::call`] uses
    /// another user.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn verify_signatures(&self) -> Result<Keys, Error> {
        let own = self.client.user("skydock-fixture", None).await?;
        let keys = self.client.user("skydock", None).await?;
        self.client.use_keys(own);
        // The number of further requests that are not verified.
        self.client
            .plain(Method::POST, "/moto-api/reset-auth", "0")
            .await?;
        Ok(keys)
    }

    /// Like [`Self::call`], with these keys.
    ///
    /// # Errors
    /// Fails if there is no answer, or if it is an error.
    pub async fn call_as(
        &self,
        keys: &Keys,
        api: &str,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<String, Error> {
        self.client.call_with(keys, api, action, parameters).await
    }
}

impl AwsClient {
    async fn user(&self, name: &str, policy: Option<&Value>) -> Result<Keys, Error> {
        let all = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]});
        let policy = policy.unwrap_or(&all).to_string();
        self.call("iam", "CreateUser", &[("UserName", name)])
            .await?;
        let parameters = [
            ("UserName", name),
            ("PolicyName", name),
            ("PolicyDocument", policy.as_str()),
        ];
        self.call("iam", "PutUserPolicy", &parameters).await?;
        let answer = self
            .call("iam", "CreateAccessKey", &[("UserName", name)])
            .await?;
        let field = |field: &str| {
            xml::first(&answer, field)
                .map(str::to_owned)
                .ok_or_else(|| Error::Unexpected {
                    request: "iam:CreateAccessKey".to_owned(),
                    field: field.to_owned(),
                    body: "(not shown)".to_owned(),
                })
        };
        Ok(Keys {
            id: field("AccessKeyId")?,
            secret: field("SecretAccessKey")?,
        })
    }
}
