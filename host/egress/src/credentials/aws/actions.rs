//! Actions that return a secret, or create an identity whose secret the plugin would know.

use http::request::Parts;

use crate::{
    actions::{of_body, of_head},
    credentials::failure::Failure,
};

/// Services that only hand out credentials.
const SERVICES: &[&str] = &[
    "sts",
    "sso",
    "sso-oauth",
    "ssooidc",
    "signin",
    "rolesanywhere",
    "eks-auth",
    "cognito-identity",
    "cognito-idp",
    "identitystore",
    "portal.sso",
    "oidc",
];

/// Actions of any service, compared without regard to case.
const ACTIONS: &[&str] = &[
    // IAM
    "CreateAccessKey",
    "UpdateAccessKey",
    "CreateLoginProfile",
    "UpdateLoginProfile",
    "ChangePassword",
    "CreateServiceSpecificCredential",
    "ResetServiceSpecificCredential",
    "CreateVirtualMFADevice",
    "UploadSigningCertificate",
    "UploadSSHPublicKey",
    "UploadServerCertificate",
    "CreateUser",
    "CreateDelegationRequest",
    "CreateSAMLProvider",
    "CreateOpenIDConnectProvider",
    "UpdateAssumeRolePolicy",
    // STS, whatever service name is used
    "AssumeRole",
    "AssumeRoleWithSAML",
    "AssumeRoleWithWebIdentity",
    "AssumeRoot",
    "GetFederationToken",
    "GetSessionToken",
    "GetWebIdentityToken",
    "GetDelegatedAccessToken",
    // EC2
    "CreateKeyPair",
    "GetPasswordData",
    // Container and package registries
    "GetAuthorizationToken",
    // Secrets Manager, Systems Manager, KMS
    "GetSecretValue",
    "BatchGetSecretValue",
    "GetRandomPassword",
    "GetParameter",
    "GetParameters",
    "GetParametersByPath",
    "GetParameterHistory",
    "StartSession",
    "ResumeSession",
    "CreateActivation",
    // Lightsail, GameLift, Redshift, EMR
    "GetInstanceAccessDetails",
    "DownloadDefaultKeyPair",
    "GetRelationalDatabaseMasterUserPassword",
    "CreateBucketAccessKey",
    "RequestUploadCredentials",
    "GetComputeAccess",
    "GetClusterCredentials",
    "GetClusterCredentialsWithIAM",
    "GetClusterSessionCredentials",
    // Lake Formation, S3 access grants
    "GetTemporaryGlueTableCredentials",
    "GetDataAccess",
];

/// Returns true if the service only hands out credentials.
pub(crate) fn is_secret_service(service: &str) -> bool {
    SERVICES
        .iter()
        .any(|secret| secret.eq_ignore_ascii_case(service))
}

/// Denies actions that return a secret, wherever the request names its action: in the query, in a
/// form, in `X-Amz-Target`, or in the path.
pub(crate) fn check(head: &Parts, body: &[u8]) -> Result<(), Failure> {
    let unclear =
        |why| Failure::malformed(format!("the action of the request is not clear: {why}"));
    let mut actions = of_head(head).map_err(unclear)?.named;
    actions.extend(of_body(&head.headers, body).map_err(unclear)?);
    if actions.len() > 1 {
        return Err(Failure::malformed("the request names more than one action"));
    }
    actions.extend(
        super::super::minting::path_segments(head.uri.path())
            .into_iter()
            .flatten(),
    );
    let named = actions.iter().find_map(|action| {
        ACTIONS
            .iter()
            .find(|secret| secret.eq_ignore_ascii_case(action.trim()))
    });
    match named {
        Some(action) => Err(Failure::minting(format!(
            "{action} returns a secret or creates an identity, which is not allowed with Skydock's keys"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::credential::CredentialErrorKind;

    fn kind(uri: &str, target: Option<&str>, body: &str) -> Option<CredentialErrorKind> {
        let mut request = Request::post(uri);
        if let Some(target) = target {
            request = request.header("X-Amz-Target", target);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head, body.as_bytes())
            .err()
            .map(|failure| failure.kind)
    }

    #[test]
    fn actions_that_issue_credentials_are_denied() {
        let minting = Some(CredentialErrorKind::Minting);
        for (uri, target, body) in [
            (
                "https://iam.amazonaws.com/",
                None,
                "Action=CreateAccessKey&Version=2010-05-08",
            ),
            (
                "https://iam.amazonaws.com/",
                None,
                "Version=2010-05-08&Action=createaccesskey",
            ),
            (
                "https://iam.amazonaws.com/",
                None,
                "%41ction=Create%41ccess%4Bey",
            ),
            ("https://iam.amazonaws.com/", None, "ACTION=CreateAccessKey"),
            (
                "https://iam.amazonaws.com/?Action=CreateLoginProfile",
                None,
                "",
            ),
            (
                "https://iam.amazonaws.com/?%61ction=CreateLoginProfile",
                None,
                "",
            ),
            (
                "https://ec2.eu-west-1.amazonaws.com/",
                None,
                "Action=CreateKeyPair",
            ),
            (
                "https://ec2.eu-west-1.amazonaws.com/",
                None,
                "Action=AssumeRole",
            ),
            (
                "https://secretsmanager.eu-west-1.amazonaws.com/",
                Some("secretsmanager.GetSecretValue"),
                "{}",
            ),
            (
                "https://api.ecr.eu-west-1.amazonaws.com/",
                Some("AmazonEC2.x.GetAuthorizationToken"),
                "{}",
            ),
            (
                "https://x.amazonaws.com/service/A/operation/GetSecretValue",
                None,
                "",
            ),
            (
                "https://x.amazonaws.com/service/A/operation/%47etSecretValue/",
                None,
                "",
            ),
        ] {
            assert_eq!(kind(uri, target, body), minting, "{uri} {target:?} {body}");
        }
    }

    #[test]
    fn a_request_without_one_clear_action_is_malformed() {
        let malformed = Some(CredentialErrorKind::Malformed);
        let uri = "https://ec2.eu-west-1.amazonaws.com/";
        assert_eq!(kind(uri, None, "ACTION=+CreateAccessKey+"), malformed);
        assert_eq!(kind(uri, None, "x=1;Action=CreateAccessKey"), malformed);
        assert_eq!(
            kind(
                uri,
                Some("AmazonEC2.DescribeInstances"),
                "Action=CreateKeyPair"
            ),
            malformed
        );
        assert_eq!(
            kind(uri, None, "Action=DescribeInstances&Action=CreateKeyPair"),
            malformed
        );
        assert_eq!(
            kind(
                &format!("{uri}?Action=DescribeInstances"),
                None,
                "action=CreateKeyPair"
            ),
            malformed
        );
    }

    #[test]
    fn a_body_that_servers_could_decode_is_malformed() {
        // "Action=CreateAccessKey" in EBCDIC.
        let ebcdic = b"\xc1\x83\xa3\x89\x96\x95\x7e\xc3\x99\x85\x81\xa3\x85\xc1\x83\x83\x85\xa2\xa2\xd2\x85\xa8";
        for (name, value) in [
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=ibm037",
            ),
            ("content-encoding", "gzip"),
            ("content-type", "multipart/form-data; boundary=x"),
        ] {
            let request = Request::post("https://iam.amazonaws.com/")
                .header(name, value)
                .body(())
                .unwrap();
            let failure = check(&request.into_parts().0, ebcdic).unwrap_err();
            assert_eq!(
                failure.kind,
                CredentialErrorKind::Malformed,
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn actions_of_a_controller_are_allowed() {
        let uri = "https://ec2.eu-west-1.amazonaws.com/";
        for body in [
            "Action=DescribeInstances&Version=2016-11-15&InstanceId.1=i-1",
            "Action=CreateRoute&Version=2016-11-15",
            "Action=CreateLoadBalancer&Tags.member.1.Key=Action&Tags.member.1.Value=CreateKeyPair",
        ] {
            assert_eq!(kind(uri, None, body), None, "{body}");
        }
    }

    #[test]
    fn services_that_issue_credentials_are_recognized() {
        for service in ["sts", "STS", "cognito-identity"] {
            assert!(is_secret_service(service));
        }
        assert!(!is_secret_service("ec2"));
    }
}
