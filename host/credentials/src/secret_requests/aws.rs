//! Actions of AWS that return a secret, or create an identity whose secret the plugin would know.

use http::{Method, request::Parts};

use crate::{
    request::actions::{decode, of_body, of_head},
    secret_requests::path_segments,
    sources::failure::Failure,
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
    "secretsmanager",
    "ssm",
    "ssmmessages",
    "ssm-guiconnect",
    "ec2messages",
    "ec2-instance-connect",
    "acm-pca",
    "cloudshell",
    "lambda",
    "payment-cryptography",
    "redshift-serverless",
];

/// Services that hand out secrets or permissions, except with actions that start with one of these.
const READ_ONLY: &[(&str, &[&str])] = &[
    ("iam", &["Get", "List"]),
    ("kms", &["DescribeKey", "ListKeys", "ListAliases"]),
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
    // IAM: permissions for an identity of the plugin's choice
    "AddRoleToInstanceProfile",
    "AddUserToGroup",
    "AttachGroupPolicy",
    "AttachRolePolicy",
    "AttachUserPolicy",
    "CreatePolicy",
    "CreatePolicyVersion",
    "CreateRole",
    "DeleteRolePermissionsBoundary",
    "DeleteUserPermissionsBoundary",
    "EnableMFADevice",
    "GetCredentialReport",
    "PutGroupPolicy",
    "PutRolePermissionsBoundary",
    "PutRolePolicy",
    "PutUserPermissionsBoundary",
    "PutUserPolicy",
    "SetDefaultPolicyVersion",
    // EC2 and Auto Scaling: keys, consoles, and user data, which has the tokens of nodes that join
    "CreateKeyPair",
    "ImportKeyPair",
    "GetPasswordData",
    "GetConsoleOutput",
    "GetConsoleScreenshot",
    "GetLaunchTemplateData",
    "DescribeLaunchTemplateVersions",
    "DescribeLaunchConfigurations",
    "AssociateIamInstanceProfile",
    "ReplaceIamInstanceProfileAssociation",
    "SendSSHPublicKey",
    "SendSerialConsoleSSHPublicKey",
    "ExportVerifiedAccessInstanceClientConfiguration",
    "ExportClientVpnClientConfiguration",
    "GetVpnConnectionDeviceSampleConfiguration",
    "DescribeVpnConnections",
    "CreateVpnConnection",
    "ModifyVpnConnection",
    "ModifyVpnConnectionOptions",
    "ModifyVpnTunnelCertificate",
    "ModifyVpnTunnelOptions",
    "DescribeSpotFleetRequests",
    "DescribeSpotInstanceRequests",
    "DescribeBundleTasks",
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
    "SendCommand",
    "GetCommandInvocation",
    "StartAutomationExecution",
    "StartAccessRequest",
    "GetAccessToken",
    "CreateAssociation",
    "UpdateAssociation",
    "Decrypt",
    "ReEncrypt",
    "GenerateDataKey",
    "GenerateDataKeyPair",
    "GenerateMac",
    "DeriveSharedSecret",
    "Sign",
    "CreateGrant",
    "PutKeyPolicy",
    // Certificates, functions, clusters, APIs
    "ExportCertificate",
    "IssueCertificate",
    "GetFunction",
    "GetFunctionConfiguration",
    "AssumeRoleForPodIdentity",
    "CreateAccessEntry",
    "AssociateAccessPolicy",
    "CreatePodIdentityAssociation",
    "GetApiKey",
    "GetApiKeys",
    "ListApiKeys",
    "GetCredentials",
    "GetIdentityCenterAuthToken",
    "DownloadDBLogFilePortion",
    "CreateEnvironmentToken",
    "CreateCliToken",
    "CreateWebLoginToken",
    "ResetUserPassword",
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

/// Resources of APIs without actions that return a secret, or give access to a cluster.
const RESOURCES: &[&str] = &[
    "access-entries",
    "apikeys",
    "authorization-token",
    "clitoken",
    "keys-and-certificate",
    "pod-identity-associations",
    "webtoken",
];

/// Returns true if the service hands out secrets, and nothing that a cloud controller needs.
pub(crate) fn is_secret_service(service: &str) -> bool {
    SERVICES
        .iter()
        .any(|secret| secret.eq_ignore_ascii_case(service))
}

/// Denies actions that return a secret, wherever the request names its action: in the query, in a
/// form, in `X-Amz-Target`, or in the path. `services` are the one that is signed for, and the one
/// that receives the request.
pub(crate) fn check(head: &Parts, body: &[u8], services: &[&str]) -> Result<(), Failure> {
    let unclear =
        |why| Failure::malformed(format!("the action of the request is not clear: {why}"));
    let mut actions = of_head(head).map_err(unclear)?.named;
    actions.extend(of_body(&head.headers, body).map_err(unclear)?);

    // Servers differ in which of several names they use.
    if actions.len() > 1 {
        return Err(Failure::malformed("the request names more than one action"));
    }

    let reads = |allowed: &[&str]| {
        let action = actions.first();
        action.is_some_and(|action| allowed.iter().any(|start| action.starts_with(start)))
    };
    let restricted = READ_ONLY
        .iter()
        .find(|(name, allowed)| services.contains(name) && !reads(allowed));

    if let Some((service, allowed)) = restricted {
        return Err(Failure::secret_request(format!(
            "of service {service}, only actions that start with {} are allowed with Skydock's keys",
            allowed.join(", ")
        )));
    }

    if actions
        .first()
        .is_some_and(|action| action.to_ascii_lowercase().ends_with("instanceattribute"))
        && (names_user_data(head.uri.query().unwrap_or_default().as_bytes())
            || names_user_data(body))
    {
        return Err(Failure::secret_request(
            "the user data of an instance may contain secrets and commands, so it is not allowed with Skydock's keys",
        ));
    }
    let paths = path_segments(head.uri.path());
    let resource = paths.iter().find_map(|segments| secret_resource(segments));
    if let Some(resource) = resource {
        return Err(returns_secret(resource));
    }

    deny(actions, head, &paths, |_| true)
}

/// Denies actions that return a secret if the head names them, for credentials that are not for
/// AWS: its own APIs accept only signatures, but others are similar. A single word can be another
/// thing there.
pub(crate) fn deny_named(head: &Parts, paths: &[Vec<String>]) -> Result<(), Failure> {
    // What is not clear for AWS may be clear for another cloud.
    let named = of_head(head).map_or_else(|_| Vec::new(), |it| it.named);

    deny(named, head, paths, is_compound)
}

/// Denies the request if one of the actions, or one in the path, returns a secret.
fn deny(
    mut actions: Vec<String>,
    head: &Parts,
    paths: &[Vec<String>],
    counts: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let secret = |action: &str| {
        let mut all = ACTIONS.iter();
        all.find(|secret| secret.eq_ignore_ascii_case(action.trim()))
    };
    actions.retain(|action| secret(action).is_some_and(|it| counts(it)));
    actions.extend(paths.iter().filter_map(|segments| in_path(segments, head)));

    match actions.iter().find_map(|action| secret(action)) {
        Some(action) => Err(returns_secret(action)),
        None => Ok(()),
    }
}

fn returns_secret(what: &str) -> Failure {
    Failure::secret_request(format!(
        "{what} returns a secret or creates an identity, which is not allowed with Skydock's keys"
    ))
}

/// Returns true for the name of an action that has more than one word.
fn is_compound(action: &str) -> bool {
    let capitals = action.chars().filter(char::is_ascii_uppercase);
    capitals.count() > 1
}

/// Returns the action in a path: behind `operation` (Smithy), or at the end of a POST.
fn in_path(segments: &[String], head: &Parts) -> Option<String> {
    let secret = |action: &&String| {
        let mut all = ACTIONS.iter().filter(|it| is_compound(it));
        all.any(|secret| secret.eq_ignore_ascii_case(action))
    };
    match segments {
        [.., operation, action] if operation == "operation" => Some(action.clone()),
        [.., action] if head.method == Method::POST => Some(action).filter(secret).cloned(),
        _ => None,
    }
}

/// Returns the resource in a path that returns a secret: `RESOURCE/NAME/RESOURCE/NAME`, perhaps
/// behind a version.
fn secret_resource(segments: &[String]) -> Option<&'static str> {
    let is_version = |it: &String| {
        it.strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let version = usize::from(segments.first().is_some_and(is_version));

    let resources = segments.iter().skip(version).step_by(2);
    resources
        .filter_map(|it| RESOURCES.iter().find(|secret| it == *secret))
        .next()
        .copied()
}

/// Returns true if a pair of the form names user data: `Attribute=userData`, or `UserData.Value=`.
fn names_user_data(form: &[u8]) -> bool {
    let is = |text: &[u8]| text.to_ascii_lowercase().starts_with(b"userdata");
    form.split(|byte| b"&;".contains(byte)).any(|pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=').map(decode);
        let name = halves.next().unwrap_or_default();

        is(name.trim_ascii())
            || name.trim_ascii().eq_ignore_ascii_case(b"attribute")
                && halves.next().is_some_and(|value| is(value.trim_ascii()))
    })
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
        check(&head, body.as_bytes(), &["ec2"])
            .err()
            .map(|failure| failure.kind)
    }

    #[test]
    fn actions_that_issue_credentials_are_denied() {
        let secret_request = Some(CredentialErrorKind::SecretRequest);
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
                Some("com.amazonaws.x.GetAuthorizationToken"),
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
            assert_eq!(
                kind(uri, target, body),
                secret_request,
                "{uri} {target:?} {body}"
            );
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
            let failure = check(&request.into_parts().0, ebcdic, &["iam"]).unwrap_err();
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
            "Action=ModifyInstanceAttribute&SourceDestCheck.Value=false&InstanceId=i-1",
            "Action=DescribeInstanceAttribute&Attribute=instanceType&InstanceId=i-1",
            "Action=CreateLoadBalancer&Tags.member.1.Key=Action&Tags.member.1.Value=CreateKeyPair",
        ] {
            assert_eq!(kind(uri, None, body), None, "{body}");
        }
    }

    // Holds: SEC-35
    #[test]
    fn secrets_of_any_aws_service_are_denied() {
        let secret_request = Some(CredentialErrorKind::SecretRequest);
        let ec2 = "https://ec2.eu-west-1.amazonaws.com/";
        for body in [
            "Action=DescribeInstanceAttribute&Attribute=userData&InstanceId=i-1",
            "Action=DescribeInstanceAttribute&InstanceId=i-1&%41ttribute=user%44ata",
            "Action=describeinstanceattribute&attribute=USERDATA",
            "Action=ModifyInstanceAttribute&UserData.Value=IyEvYmluL3No&InstanceId=i-1",
            "Action=GetConsoleOutput&InstanceId=i-1",
            "Action=DescribeLaunchTemplateVersions",
            "Action=GenerateDataKey",
            "Action=ModifyVpnTunnelOptions",
            "Action=DescribeSpotFleetRequests",
            "Action=PutRolePolicy",
            "Action=ExportCertificate",
        ] {
            assert_eq!(kind(ec2, None, body), secret_request, "{body}");
        }

        let query = format!("{ec2}?Attribute=userData");
        assert_eq!(
            kind(&query, None, "Action=DescribeInstanceAttribute"),
            secret_request
        );
        let keys = "https://apigateway.eu-west-1.amazonaws.com/apikeys?includeValues=true";
        assert_eq!(kind(keys, None, ""), secret_request);
        let eks = "https://eks.eu-west-1.amazonaws.com/clusters/c/access-entries";
        assert_eq!(kind(eks, None, "{}"), secret_request);
        for name in ["sign", "apikeys", "decrypt"] {
            let named = format!("https://eks.eu-west-1.amazonaws.com/clusters/{name}");
            assert_eq!(kind(&named, None, ""), None, "{name}");
        }

        let of = |service: &str, body: &str| {
            let request = Request::post("https://x.example/").body(()).unwrap();
            check(&request.into_parts().0, body.as_bytes(), &["ec2", service]).is_err()
        };
        for (service, body, denied) in [
            ("iam", "Action=ListServerCertificates", false),
            ("iam", "Action=TagRole", true),
            ("iam", "", true),
            ("kms", "Action=DescribeKey", false),
            ("kms", "Action=ScheduleKeyDeletion", true),
            ("ec2", "Action=TagRole", false),
        ] {
            assert_eq!(of(service, body), denied, "{service} {body}");
        }
    }

    #[test]
    fn services_that_issue_credentials_are_recognized() {
        for service in ["sts", "STS", "cognito-identity", "ssm", "lambda"] {
            assert!(is_secret_service(service));
        }
        assert!(!is_secret_service("ec2"));
    }
}
