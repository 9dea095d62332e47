//! Clouds behind OAuth2: what hands out tokens, keys of accounts, and passwords.

use http::{Method, request::Parts};

use super::path_segments;
use crate::credentials::failure::Failure;

/// Hosts that exist to hand out credentials.
const ISSUERS: [&str; 9] = [
    "oauth2.googleapis.com",
    "sts.googleapis.com",
    "iamcredentials.googleapis.com",
    "accounts.google.com",
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
    "login.windows.net",
    "iam.cloud.ibm.com",
];

/// Google's custom methods, after the last colon of a path.
const GOOGLE: [&str; 7] =
    ["generateaccesstoken", "generateidtoken", "signblob", "signjwt", "accesssecretversion", "access", "getpassword"];

/// Azure's actions by POST, as last segment of a path: those that begin so.
const AZURE: [&str; 14] = [
    "listkeys",
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
];

/// Refuses what would mint a secret.
pub(crate) fn check(head: &Parts) -> Result<(), Failure> {
    let host = head.uri.host().unwrap_or_default().to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host).replace(".mtls.", ".");
    let read = matches!(head.method, Method::GET | Method::HEAD);
    let issuer = ISSUERS.iter().any(|issuer| {
        // `eu.sts…` and `iamcredentials.mtls…` are the same services.
        host == *issuer || host.ends_with(&format!(".{issuer}"))
    });
    let minting = issuer || path_segments(head.uri.path()).iter().any(|segments| mints(segments, read));
    if !minting {
        return Ok(());
    }
    Err(Failure::minting(format!(
        "{} of this path would hand out a token, a key or a password, which no plugin may get with the host's identity",
        head.method
    )))
}

fn mints(segments: &[String], read: bool) -> bool {
    let Some(last) = segments.last() else { return false };
    let custom = last.rsplit_once(':').map(|(_, method)| method);
    let google = custom.is_some_and(|method| GOOGLE.contains(&method));
    let account_key = last == "keys" && segments.iter().any(|it| it == "serviceaccounts") && !read;
    let azure = !read && AZURE.iter().any(|action| last.starts_with(action));
    google || account_key || azure
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn refused(method: &str, uri: &str) -> bool {
        check(&Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0).is_err()
    }

    #[test]
    fn what_mints_is_refused() {
        let google = "https://iam.googleapis.com/v1/projects/p/serviceAccounts/a";
        let azure = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers";
        for (method, uri) in [
            ("POST", "https://oauth2.googleapis.com/token".to_owned()),
            ("POST", "https://IAMCREDENTIALS.googleapis.com./x".to_owned()),
            ("POST", "https://iamcredentials.mtls.googleapis.com/x".to_owned()),
            ("POST", "https://login.microsoftonline.com/t/oauth2/v2.0/token".to_owned()),
            ("POST", format!("{google}/keys")),
            ("POST", format!("{google}:signBlob")),
            ("POST", format!("{google}%3AsignJwt")),
            ("GET", "https://secretmanager.googleapis.com/v1/projects/p/secrets/s/versions/1:access".to_owned()),
            ("POST", format!("{azure}/Microsoft.Storage/storageAccounts/a/listKeys")),
            ("POST", format!("{azure}/Microsoft.ContainerService/managedClusters/a/listClusterAdminCredential")),
            ("POST", format!("{azure}/Microsoft.ContainerRegistry/registries/a/LISTCREDENTIALS/")),
        ] {
            assert!(refused(method, &uri), "{method} {uri}");
        }
    }

    #[test]
    fn what_a_controller_does_passes() {
        for (method, uri) in [
            ("GET", "https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances"),
            ("POST", "https://compute.googleapis.com/compute/v1/projects/p/global/operations/o/wait"),
            ("PUT", "https://management.azure.com/subscriptions/s/providers/Microsoft.Network/loadBalancers/a"),
            ("GET", "https://management.azure.com/subscriptions/s/providers"),
        ] {
            assert!(!refused(method, uri), "{method} {uri}");
        }
    }
}
