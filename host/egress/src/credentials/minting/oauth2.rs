//! Clouds with OAuth2: requests that return tokens, account keys or passwords.

use http::{Method, request::Parts};

use memchr::memmem;

use super::path_segments;
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

/// Google's resources and methods that are segments of a path: what a server writes to its console,
/// keys for signed URLs, startup scripts and SSH keys, certificates and passwords of databases, and
/// requests in the form of gRPC, of which the path is only the name of the method.
const GOOGLE_PATHS: &[&str] = &[
    "serialport",
    "screenshot",
    "getguestattributes",
    "addsignedurlkey",
    "setmetadata",
    "setcommoninstancemetadata",
    "setiampolicy",
    "createephemeral",
    "sslcerts",
    "sshpublickeys",
    "setserviceaccount",
    "authstring",
    "identityawareproxyclients",
    "$rpc",
];

/// Resources of any cloud with access to a cluster, a network or a server.
const ACCESS: &[&str] = &[
    "accessprofiles",
    "kubeconfig",
    "request_console",
    "reset_password",
    "sharedkey",
    "sharedkeys",
    "vpndeviceconfigurationscript",
    "trustedaccessrolebindings",
    "agentregistrationinformation",
];

/// Prefixes of Azure's actions, which are the last segment of the path of a POST request.
const AZURE: &[&str] = &[
    "begingetaccess",
    "listquerykeys",
    "listcallbackurl",
    "publishxml",
    "readonlykeys",
    "listkeys",
    "liststorage",
    "listnotebook",
    "listcontainer",
    "listbuild",
    "listvalue",
    "createshareable",
    "getdataplane",
    "getgatewaysettings",
    "listsecrets",
    "listcredentials",
    "listcluster",
    "listaccountsas",
    "listservicesas",
    "listsas",
    "listconnectionstrings",
    "listadmin",
    "listuser",
    "regeneratekey",
    "generatecredentials",
    "getaccesstoken",
    "retrievebootdiagnosticsdata",
    "regenerate",
    "rotate",
    "generate",
    "getkeys",
    "getsecrets",
    "listauth",
    "listapikeys",
    "listpublishing",
    "listtoken",
    "listpassword",
    "listsync",
    "addpassword",
    "addkey",
    "resetpassword",
    "resetserviceprincipal",
    "elevateaccess",
    "runcommand",
    "executescript",
];

/// Azure's resources with which the plugin would run commands, or get permissions, when they are
/// created: they are segments of a path.
const AZURE_PATHS: &[&str] = &[
    "runcommands",
    "extensions",
    "roleassignments",
    "roledefinitions",
    "serialports",
];

/// Azure's resources with secrets, and templates that can return those of any resource, and the
/// provider that they belong to, because their names are common.
const AZURE_OF: &[(&str, &str)] = &[
    ("deployments", "microsoft.resources"),
    ("deploymentscripts", "microsoft.resources"),
    ("authorizations", "microsoft.network"),
    ("sourcecontrols", "microsoft.web"),
    ("token", "functions"),
];

/// Returns an error if the answer to the request would be a secret.
pub(crate) fn check(head: &Parts) -> Result<(), Failure> {
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
    // Azure returns the user data of a server if it is asked to.
    let query = unpercent(head.uri.query().unwrap_or_default()).to_ascii_lowercase();
    let mut parameters = query.split(|byte| b"&;".contains(byte));
    let user_data = parameters.any(|parameter| {
        let has = |word| memmem::find(parameter, word).is_some();
        has(b"expand") && has(b"userdata")
    });
    let minting = issuer
        || user_data
        || path_segments(head.uri.path())
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

fn mints(segments: &[String], method: &Method) -> bool {
    let read = matches!(*method, Method::GET | Method::HEAD);
    let Some(last) = segments.last() else {
        return false;
    };
    let custom = last.rsplit_once(':').map(|(_, method)| method);
    let google = custom.is_some_and(|method| GOOGLE.contains(&method));
    let under = |name: &str| segments.iter().any(|it| it == name);
    // The plugin would know the private part of a key that it uploads.
    let of_account = matches!(last.as_str(), "keys" | "keys:upload") && under("serviceaccounts");
    let of_project = matches!(last.split(':').next(), Some("keys")) && under("locations")
        || custom == Some("clone") && under("keys");
    let made = of_account || of_project || last == "hmackeys";
    let makes_key = !read && (made || under("federatedidentitycredentials"));
    let shows_key = last == "keystring";
    let azure = *method == Method::POST
        && (AZURE.iter().any(|action| last.starts_with(action))
            || last == "token" && under("providers"));
    let named = |names: &[&str]| segments.iter().any(|it| names.contains(&it.as_str()));
    let google_path = named(GOOGLE_PATHS);
    let azure_provider = under("microsoft.authorization") || under("microsoft.compute");
    let azure_of = AZURE_OF.iter().any(|(name, of)| under(name) && under(of));
    let azure_path =
        !read && (azure_provider && named(AZURE_PATHS) || last == "list" && under("config"));
    let token = last == "token" && (under("oauth2") || under("oauth"));
    google
        || makes_key
        || shows_key
        || azure
        || azure_of
        || google_path
        || azure_path
        || token
        || named(ACCESS)
}

fn is_batch(segments: &[String]) -> bool {
    let is = |segment: Option<&String>| segment.is_some_and(|it| it == "batch" || it == "$batch");
    is(segments.first()) || is(segments.last())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn refused(method: &str, uri: &str) -> bool {
        check(
            &Request::builder()
                .method(method)
                .uri(uri)
                .body(())
                .unwrap()
                .into_parts()
                .0,
        )
        .is_err()
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
                "PATCH",
                "https://iam.googleapis.com/v1/projects/p/serviceAccounts/a",
            ),
        ] {
            assert!(!refused(method, uri), "{method} {uri}");
        }
    }
}
