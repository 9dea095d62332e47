//! Clouds with OAuth2: requests that return tokens, account keys or passwords.

use http::{Method, request::Parts};
use memchr::memmem;

use crate::{credentials::failure::Failure, encode::unpercent};

/// Hosts that only hand out credentials.
const ISSUERS: &[&str] = &[
    "oauth2.googleapis.com",
    "sts.googleapis.com",
    "iamcredentials.googleapis.com",
    "accounts.google.com",
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
    "login.windows.net",
    "login.microsoft.com",
    "sts.windows.net",
    "login.partner.microsoftonline.cn",
    "graph.microsoft.com",
    "graph.microsoft.us",
    "dod-graph.microsoft.us",
    "microsoftgraph.chinacloudapi.cn",
    "graph.windows.net",
    "vault.azure.net",
    "vault.azure.cn",
    "vault.usgovcloudapi.net",
    "managedhsm.azure.net",
    "iam.cloud.ibm.com",
];

/// Domains of clouds that accept requests within a request, whose paths are in its body.
const BATCH_HOSTS: &[&str] = &[
    "googleapis.com",
    "azure.com",
    "azure.cn",
    "usgovcloudapi.net",
    "chinacloudapi.cn",
    "microsoft.com",
    "microsoft.us",
    "microsoftonline.com",
];

/// Google's custom methods: the part of a path after the last colon.
const GOOGLE: &[&str] = &[
    "generateaccesstoken",
    "generateidtoken",
    "signblob",
    "signjwt",
    "accesssecretversion",
    "access",
    "getpassword",
    "exchangetoken",
    "decrypt",
    "rawdecrypt",
    "asymmetricdecrypt",
    "asymmetricsign",
    "macsign",
    "generateephemeralcert",
    "resetsecret",
    // Permissions for an identity that the plugin chooses.
    "setiampolicy",
    "importsshpublickey",
];

/// Google's resources and methods below a project: what a server writes to its console, keys for
/// signed URLs, startup scripts and SSH keys, certificates and passwords of databases.
const GOOGLE_TYPES: &[&str] = &[
    "serialport",
    "screenshot",
    "getguestattributes",
    "addsignedurlkey",
    "setmetadata",
    "setcommoninstancemetadata",
    "setiampolicy",
    "createephemeral",
    "sslcerts",
    "setserviceaccount",
    "authstring",
    "keystring",
    "identityawareproxyclients",
];

/// Places in a path below a project that have no name behind them.
const GOOGLE_SINGLE: &[&str] = &["global", "aggregated"];

/// Prefixes of Azure's actions that return a secret, set one, or run commands. Reads of Azure are
/// GET: what is listed with POST has secrets.
const AZURE: &[&str] = &[
    "addkey",
    "addpassword",
    "begingetaccess",
    "createshareable",
    "elevateaccess",
    "executescript",
    "generate",
    "getaccesstoken",
    "getdataplane",
    "getgatewaysettings",
    "getkeys",
    "getsecrets",
    "getssotoken",
    "getvpnprofilepackageurl",
    "list",
    "publishxml",
    "readonlykeys",
    "regenerate",
    "resetpassword",
    "resetserviceprincipal",
    "retrievebootdiagnosticsdata",
    "rotate",
    "runcommand",
    "token",
];

/// Prefixes of Azure's lists that have no secrets, although they need POST.
const AZURE_LISTS: &[&str] = &["listactive", "listnetworkmanager"];

/// Azure's resources with secrets, and those with templates that can return the secrets of any
/// resource. Behind the name is the provider, if the name is common.
const AZURE_SECRETS: &[(&str, &str)] = &[
    ("sharedkey", ""),
    ("sharedkeys", ""),
    ("accessprofiles", ""),
    ("vpndeviceconfigurationscript", ""),
    ("trustedaccessrolebindings", ""),
    ("agentregistrationinformation", ""),
    ("deployments", "microsoft.resources"),
    ("deploymentscripts", "microsoft.resources"),
    ("authorizations", "microsoft.network"),
    ("sourcecontrols", "microsoft.web"),
    ("token", "microsoft.web"),
];

/// Azure's resources with which the plugin would run commands, or get permissions or an identity,
/// when they are created.
const AZURE_CREATION: &[(&str, &str)] = &[
    ("runcommands", "microsoft.compute"),
    ("extensions", "microsoft.compute"),
    ("serialports", ""),
    ("roleassignments", "microsoft.authorization"),
    ("roledefinitions", "microsoft.authorization"),
    ("federatedidentitycredentials", ""),
];

/// Returns an error if the answer to the request would be a secret.
pub(crate) fn check(head: &Parts, paths: &[Vec<String>]) -> Result<(), Failure> {
    let host = head.uri.host().unwrap_or_default().to_ascii_lowercase();
    let host = host
        .strip_suffix('.')
        .unwrap_or(&host)
        .replace(".mtls.", ".");
    let issuer = ISSUERS.iter().any(|issuer| {
        // For example, `eu.sts…` and `iamcredentials.mtls…` are the same services.
        host == *issuer || host.ends_with(&format!(".{issuer}"))
    });
    let batches = BATCH_HOSTS
        .iter()
        .any(|domain| host == *domain || host.ends_with(&format!(".{domain}")));
    let minting = issuer
        || expands_user_data(head.uri.query().unwrap_or_default())
        || paths
            .iter()
            .any(|segments| mints(segments, &head.method) || batches && is_batch(segments));
    if !minting {
        return Ok(());
    }
    Err(Failure::minting(format!(
        "{} of this path returns a token, a key or a password, which is not allowed with Skydock's identity",
        head.method
    )))
}

/// Returns true if the query asks Azure for the user data of a server: `$expand=userData`.
fn expands_user_data(query: &str) -> bool {
    let query = unpercent(query).to_ascii_lowercase();
    query.split(|byte| b"&;".contains(byte)).any(|parameter| {
        let mut halves = parameter.splitn(2, |byte| *byte == b'=');
        let name = halves.next().unwrap_or_default().trim_ascii();
        let value = halves.next().unwrap_or_default();
        [&b"expand"[..], b"$expand"].contains(&name) && memmem::find(value, b"userdata").is_some()
    })
}

fn mints(segments: &[String], method: &Method) -> bool {
    let any = (0..segments.len()).any(|at| match segments.get(at..).unwrap_or_default() {
        [projects, behind @ ..] if projects == "projects" && google(behind, method) => true,
        [providers, provider, rest @ ..] if providers == "providers" => {
            provider.contains('.') && azure(provider, rest, method)
        }
        [provider, rest @ ..] if provider.starts_with("microsoft.") => {
            azure(provider, rest, method)
        }
        _ => false,
    });
    any || google_form(segments, method) || access(segments, method)
}

/// Returns true for secrets of Google in what is behind `projects`: the name of the project, then
/// resources, each with its name, and perhaps a method.
fn google(behind: &[String], method: &Method) -> bool {
    let read = matches!(*method, Method::GET | Method::HEAD);
    let mut rest = behind.iter().skip(1);
    let mut types = Vec::new();
    while let Some(kind) = rest.next() {
        types.push(kind.split(':').next().unwrap_or_default());
        if !GOOGLE_SINGLE.contains(&kind.as_str()) {
            rest.next();
        }
    }
    // The plugin would know the private part of a key that it uploads.
    let makes_key = match types.as_slice() {
        ["serviceaccounts" | "locations", "keys"] | [.., "hmackeys"] => !read,
        _ => false,
    };
    makes_key || types.iter().any(|kind| GOOGLE_TYPES.contains(kind))
}

/// Returns true for the forms of Google's secrets that are the same everywhere: custom methods, SSH
/// keys of users, and gRPC, of which the path is only the name of the method.
fn google_form(segments: &[String], method: &Method) -> bool {
    let custom = segments.last().and_then(|last| last.rsplit_once(':'));
    let clones = |resource: &str| resource == "clone" && *method == Method::POST;
    match segments {
        _ if custom.is_some_and(|(_, it)| GOOGLE.contains(&it) || clones(it)) => true,
        [.., users, _, keys] | [.., users, _, keys, _] if users == "users" => {
            keys == "sshpublickeys"
        }
        [rpc, ..] if rpc == "$rpc" => true,
        [service, _] => service.starts_with("google."),
        _ => false,
    }
}

/// Returns true for secrets of Azure in what is behind the name of a provider: resources, each with
/// its name. A POST has an action at its end.
fn azure(provider: &str, rest: &[String], method: &Method) -> bool {
    let read = matches!(*method, Method::GET | Method::HEAD);
    let has = |list: &[(&str, &str)]| {
        let is = |kind: &String| {
            let mut list = list.iter();
            list.any(|(name, of)| name == kind && (of.is_empty() || *of == provider))
        };
        rest.iter().step_by(2).any(is)
    };
    let starts = |list: &[&str]| {
        let action = rest.last();
        action.is_some_and(|action| list.iter().any(|start| action.starts_with(start)))
    };
    has(AZURE_SECRETS)
        || !read && has(AZURE_CREATION)
        || *method == Method::POST && starts(AZURE) && !starts(AZURE_LISTS)
}

/// Returns true for access to clusters and servers, and tokens, as many clouds have them.
fn access(segments: &[String], method: &Method) -> bool {
    match segments {
        [.., clusters, _, file] if clusters.contains("cluster") => {
            ["kubeconfig", "credentials"].contains(&file.as_str())
        }
        [.., clusters, _] if clusters.ends_with("cluster-kubeconfig") => true,
        [.., actions, action] if actions == "actions" => {
            ["request_console", "reset_password"].contains(&action.as_str())
        }
        [before @ .., token] => {
            let oauth = |it: &String| ["oauth", "oauth2", "os-oauth2"].contains(&it.as_str());
            *method == Method::POST && token == "token" && before.iter().any(oauth)
        }
        [] => false,
    }
}

fn is_batch(segments: &[String]) -> bool {
    let is = |segment: Option<&String>| segment.is_some_and(|it| it == "batch" || it == "$batch");
    is(segments.first()) || is(segments.last())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{super::path_segments, *};

    fn refused(method: &str, uri: &str) -> bool {
        let request = Request::builder().method(method).uri(uri);
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head, &path_segments(head.uri.path())).is_err()
    }

    #[test]
    fn google_and_azure_requests_for_credentials_are_denied() {
        let google = "https://iam.googleapis.com/v1/projects/p/serviceAccounts/a";
        let azure = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers";
        for (method, uri) in [
            ("POST", "https://oauth2.googleapis.com/token".to_owned()),
            (
                "POST",
                "https://IAMCREDENTIALS.googleapis.com./x".to_owned(),
            ),
            (
                "POST",
                "https://iamcredentials.mtls.googleapis.com/x".to_owned(),
            ),
            (
                "POST",
                "https://login.microsoftonline.com/t/oauth2/v2.0/token".to_owned(),
            ),
            ("POST", format!("{google}/keys")),
            ("POST", format!("{google}/keys:upload")),
            (
                "POST",
                "https://storage.googleapis.com/storage/v1/projects/p/hmacKeys".to_owned(),
            ),
            (
                "GET",
                "https://apikeys.googleapis.com/v2/projects/p/locations/global/keys/k/keyString"
                    .to_owned(),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Compute/disks/d/beginGetAccess"),
            ),
            (
                "PUT",
                format!(
                    "{azure}/Microsoft.ManagedIdentity/userAssignedIdentities/i/federatedIdentityCredentials/c"
                ),
            ),
            ("POST", format!("{google}:signBlob")),
            ("POST", format!("{google}%3AsignJwt")),
            (
                "GET",
                "https://secretmanager.googleapis.com/v1/projects/p/secrets/s/versions/1:access"
                    .to_owned(),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Storage/storageAccounts/a/listKeys"),
            ),
            (
                "POST",
                format!(
                    "{azure}/Microsoft.ContainerService/managedClusters/a/listClusterAdminCredential"
                ),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.ContainerRegistry/registries/a/LISTCREDENTIALS/"),
            ),
        ] {
            assert!(refused(method, &uri), "{method} {uri}");
        }
    }

    // Holds: SEC-35
    #[test]
    fn secrets_are_denied_in_every_form_of_google_and_azure() {
        let compute = "https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances/i";
        let azure = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers";
        for (method, uri) in [
            (
                "POST",
                "https://www.googleapis.com/oauth2/v4/token".to_owned(),
            ),
            ("POST", "https://www.googleapis.com/batch/iam/v1".to_owned()),
            (
                "POST",
                "https://compute.googleapis.com/batch/compute/v1".to_owned(),
            ),
            ("GET", format!("{compute}/serialPort")),
            ("POST", format!("{compute}/setMetadata")),
            ("POST", format!("{compute}/setIamPolicy")),
            (
                "POST",
                "https://cloudkms.googleapis.com/v1/projects/p/keyRings/r/cryptoKeys/k:decrypt"
                    .to_owned(),
            ),
            (
                "POST",
                "https://sqladmin.googleapis.com/v1/projects/p/instances/i/sslCerts".to_owned(),
            ),
            (
                "POST",
                "https://management.azure.com/batch?api-version=x".to_owned(),
            ),
            (
                "POST",
                "https://graph.microsoft.com/v1.0/applications/a/addPassword".to_owned(),
            ),
            ("GET", "https://v.vault.azure.net/secrets/s".to_owned()),
            ("POST", "https://graph.microsoft.us/v1.0/$batch".to_owned()),
            (
                "POST",
                "https://management.chinacloudapi.cn/batch".to_owned(),
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Resources/deployments/d"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.ApiManagement/service/s/users/u/token"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.OperationalInsights/workspaces/w/sharedKeys"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.X/a/listStorageAccountKeys"),
            ),
            (
                "POST",
                "https://secretmanager.googleapis.com/$rpc/google.cloud.secretmanager.v1.SecretManagerService/AccessSecretVersion"
                    .to_owned(),
            ),
            (
                "POST",
                "https://apikeys.googleapis.com/v2/projects/p/locations/global/keys".to_owned(),
            ),
            (
                "GET",
                "https://redis.googleapis.com/v1/projects/p/locations/l/instances/i/authString"
                    .to_owned(),
            ),
            ("POST", format!("{compute}/setServiceAccount")),
            (
                "POST",
                "https://compute.googleapis.com/compute/v1/projects/p/global/backendBuckets/b/addSignedUrlKey"
                    .to_owned(),
            ),
            (
                "POST",
                "https://a.example/google.iam.admin.v1.IAM/CreateServiceAccountKey".to_owned(),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Network/virtualNetworkGateways/g/listRadiusSecrets"),
            ),
            (
                "GET",
                format!("{azure}/Microsoft.Web/sites/s/functions/admin/token"),
            ),
            (
                "GET",
                format!("{azure}/Microsoft.Compute/virtualMachines/v?$expand=user%44ata"),
            ),
            (
                "GET",
                format!("{azure}/Microsoft.Network/connections/c/sharedkey"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Compute/virtualMachines/v/runCommand"),
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Compute/virtualMachines/v/runCommands/r"),
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Compute/virtualMachines/v/extensions/e"),
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Authorization/roleAssignments/r"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Storage/storageAccounts/a/regenerateKey"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Web/sites/s/config/appsettings/list"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Batch/batchAccounts/b/regenerateKeys"),
            ),
        ] {
            assert!(refused(method, &uri), "{method} {uri}");
        }
    }

    #[test]
    fn google_and_azure_requests_of_a_controller_are_allowed() {
        for (method, uri) in [
            (
                "GET",
                "https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances",
            ),
            (
                "POST",
                "https://compute.googleapis.com/compute/v1/projects/p/global/operations/o/wait",
            ),
            (
                "PUT",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Network/loadBalancers/a",
            ),
            (
                "GET",
                "https://management.azure.com/subscriptions/s/providers",
            ),
            (
                "PUT",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Network/routeTables/t/routes/rotate-1",
            ),
            (
                "GET",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Network/loadBalancers/token",
            ),
            (
                "POST",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Network/networkManagers/m/listActiveConnectivityConfigurations",
            ),
            (
                "PUT",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Compute/virtualMachines/extensions",
            ),
            (
                "GET",
                "https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances/screenshot",
            ),
            (
                "DELETE",
                "https://compute.googleapis.com/compute/v1/projects/p/global/addresses/setMetadata",
            ),
            (
                "PATCH",
                "https://iam.googleapis.com/v1/projects/p/serviceAccounts/a",
            ),
        ] {
            assert!(!refused(method, uri), "{method} {uri}");
        }
    }
}
