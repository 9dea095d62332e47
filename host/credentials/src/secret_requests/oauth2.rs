//! Clouds with OAuth2: requests that return tokens, account keys or passwords.

use http::{Method, request::Parts};
use memchr::memmem;

use crate::{request::encode::unpercent, sources::failure::Failure};

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

/// Google's custom methods (the part of a path after the last colon) whose names do not follow
/// [`is_google_method`].
const GOOGLE: &[&str] = &["access", "asymmetricsign", "macsign", "importsshpublickey"];

/// Beginnings of Google's custom methods that return or set what [`SECRETS`] says.
const GOOGLE_VERBS: &[&str] = &[
    "access", "create", "exchange", "fetch", "generate", "get", "import", "issue", "reset",
    "retrieve", "rotate", "set",
];

/// Words in the names of secrets.
const SECRETS: &[&str] = &["token", "secret", "password", "credential"];

/// Google's pools of identities of other issuers.
const GOOGLE_POOLS: &[&str] = &["workloadidentitypools", "workforcepools"];

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
    "begingetaccess",
    "elevateaccess",
    "executescript",
    "generate",
    "getdataplane",
    "getgatewaysettings",
    "getvpnprofilepackageurl",
    "list",
    "publishxml",
    "regenerate",
    "resetserviceprincipal",
    "retrievebootdiagnosticsdata",
    "rotate",
    "runcommand",
];

/// Words in the names of such actions.
const AZURE_WORDS: &[&str] = &[
    "key",
    "secret",
    "token",
    "password",
    "credential",
    "connectionstring",
    "shareable",
];

/// Azure's actions that open a way into a container.
const AZURE_SHELLS: &[&str] = &["attach", "exec"];

/// Prefixes of Azure's lists that have no secrets, although they need POST.
const AZURE_LISTS: &[&str] = &["listactive", "listnetworkmanager"];

/// Beginnings of Azure's resources with secrets, and of those with templates that can return the
/// secrets of any resource. Behind the name is the provider, if the name is common.
const AZURE_SECRETS: &[(&str, &str)] = &[
    ("sharedkey", ""),
    ("accessprofiles", ""),
    ("vpndeviceconfigurationscript", ""),
    ("trustedaccessrolebindings", ""),
    ("agentregistrationinformation", ""),
    ("deployment", "microsoft.resources"),
    ("authorizations", "microsoft.network"),
    ("hostruntime", "microsoft.web"),
    ("sourcecontrols", "microsoft.web"),
    ("token", "microsoft.web"),
];

/// Beginnings of Azure's resources with which the plugin would run commands, or an identity of its
/// choice would get access, when they are created.
const AZURE_CREATION: &[(&str, &str)] = &[
    ("runcommands", "microsoft.compute"),
    ("extensions", "microsoft.compute"),
    ("serialports", ""),
    ("role", "microsoft.authorization"),
    ("federatedidentitycredentials", ""),
    ("accesspolic", ""),
    ("administrators", ""),
];

/// Word in the names of such resources within a service.
const AZURE_ROLES: &str = "roleassignment";

/// Parts of a path that issue tokens.
const OAUTH: &[&str] = &["oauth", "oauth2", "os-oauth2", "oidc", "openid-connect"];

/// Parts of a path that issue tokens directly behind them.
const TOKEN_SERVICES: &[&str] = &["connect", "identity"];

/// Actions of servers whose answer is a password, or a way to the console.
const SERVER_ACTIONS: &[&str] = &[
    "enable_rescue",
    "rebuild",
    "request_console",
    "reset_password",
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
    // Rules do not see the paths of requests within a request.
    let batches = BATCH_HOSTS
        .iter()
        .any(|domain| host == *domain || host.ends_with(&format!(".{domain}")));

    let minting = issuer
        || asks_in_query(head.uri.query().unwrap_or_default())
        || paths
            .iter()
            .any(|segments| mints(segments, &head.method) || batches && is_batch(segments));

    if !minting {
        return Ok(());
    }
    Err(Failure::secret_request(format!(
        "{} of this path returns a token, a key or a password, or gives access to others, which is not allowed with Skydock's identity",
        head.method
    )))
}

/// Returns true if the query asks Azure for the user data of a server (`$expand=userData`), or
/// Rancher for access to a cluster (`action=generateKubeconfig`).
fn asks_in_query(query: &str) -> bool {
    let query = unpercent(query).to_ascii_lowercase();
    query.split(|byte| b"&;".contains(byte)).any(|parameter| {
        let mut halves = parameter.splitn(2, |byte| *byte == b'=');
        let name = halves.next().unwrap_or_default().trim_ascii();
        let value = halves.next().unwrap_or_default();
        let has = |word: &[u8]| memmem::find(value, word).is_some();
        match name {
            b"expand" | b"$expand" => has(b"userdata"),
            b"action" => has(b"kubeconfig"),
            _ => false,
        }
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
    any || google_form(segments, method) || access(segments)
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
    let gives_identity = match types.as_slice() {
        ["serviceaccounts" | "locations", "keys"] | [.., "hmackeys"] => !read,
        // This replaces the metadata and the service account of a server that exists.
        ["zones", "instances"] => [Method::PUT, Method::PATCH].contains(method),
        _ => false,
    };

    gives_identity || types.iter().any(|kind| GOOGLE_TYPES.contains(kind))
}

/// Returns true for the forms of Google's secrets that are the same everywhere: custom methods, SSH
/// keys of users, and gRPC, of which the path is only the name of the method.
fn google_form(segments: &[String], method: &Method) -> bool {
    let custom = segments.last().and_then(|last| last.rsplit_once(':'));
    let clones = |resource: &str| resource == "clone" && *method == Method::POST;
    match segments {
        _ if custom.is_some_and(|(_, it)| is_google_method(it) || clones(it)) => true,
        _ if gives_access(segments, method) => true,
        [.., users, _, keys] | [.., users, _, keys, _] if users == "users" => {
            keys == "sshpublickeys"
        }
        [rpc, ..] if rpc == "$rpc" => true,
        [service, _] => service.starts_with("google."),
        _ => false,
    }
}

/// Returns true for custom methods that sign, decrypt, return or set a secret, or set who has access.
fn is_google_method(name: &str) -> bool {
    // A name of a resource can have a colon, too.
    if !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return false;
    }

    let has_verb = || GOOGLE_VERBS.iter().any(|verb| name.starts_with(verb));
    let has_secret = || SECRETS.iter().any(|word| name.contains(word));
    let is_certificate = || name.starts_with("generate") && name.contains("cert");
    let set = name.strip_prefix("set");

    GOOGLE.contains(&name)
        || name.starts_with("sign") && !name.starts_with("signal")
        || name.ends_with("decrypt")
        || has_verb() && has_secret()
        || is_certificate()
        || set.is_some_and(|it| it.starts_with("iam") || it.ends_with("auth"))
}

/// Returns true for Google's resources with which an identity of the plugin's choice would get access:
/// what is in a pool of identities, and the policies of buckets.
fn gives_access(segments: &[String], method: &Method) -> bool {
    let writes = [Method::POST, Method::PUT, Method::PATCH].contains(method);
    let gives = |at| match segments.get(at..).unwrap_or_default() {
        [pools, _, _, ..] if GOOGLE_POOLS.contains(&pools.as_str()) => true,
        // Each resource in a bucket has its name behind it.
        [storage, _, b, _, rest @ ..] if storage == "storage" && b == "b" => {
            rest.len() % 2 == 1 && rest.last().is_some_and(|it| it == "iam")
        }
        _ => false,
    };
    writes && (0..segments.len()).any(gives)
}

/// Returns true for secrets of Azure in what is behind the name of a provider: resources, each with
/// its name. A POST has an action at its end.
fn azure(provider: &str, rest: &[String], method: &Method) -> bool {
    let read = matches!(*method, Method::GET | Method::HEAD);
    let kinds = || rest.iter().step_by(2).map(String::as_str);
    let has = |list: &[(&str, &str)]| {
        let is = |kind: &str| {
            let mut list = list.iter();
            list.any(|(start, of)| kind.starts_with(start) && (of.is_empty() || *of == provider))
        };
        kinds().any(is)
    };
    let starts = |list: &[&str]| {
        let action = rest.last();
        action.is_some_and(|action| list.iter().any(|start| action.starts_with(start)))
    };

    let has_word = |kind: &str| AZURE_WORDS.iter().any(|word| kind.contains(word));
    let is_shell = |action: &String| AZURE_SHELLS.contains(&action.as_str());
    // Key Vault's resources have no values, and those of its keys are elsewhere.
    let has_keys = |kind: &str| kind.ends_with("keys") && !kind.contains("public");

    let creates = || has(AZURE_CREATION) || kinds().any(|kind| kind.contains(AZURE_ROLES));
    // The policies of a vault are also in the vault.
    let is_vault = provider == "microsoft.keyvault" && kinds().next_back() == Some("vaults");

    has(AZURE_SECRETS)
        || provider != "microsoft.keyvault" && kinds().any(has_keys)
        || !read && creates()
        || [Method::PUT, Method::PATCH].contains(method) && is_vault
        || *method == Method::POST
            && !starts(AZURE_LISTS)
            && (starts(AZURE) || kinds().any(has_word) || rest.last().is_some_and(is_shell))
}

/// Returns true for access to clusters and servers, and tokens, as many clouds have them.
fn access(segments: &[String]) -> bool {
    if opens_cluster(segments) {
        return true;
    }

    match segments {
        [.., clusters, _] if clusters.ends_with("cluster-kubeconfig") => true,
        [.., actions, action] if actions == "actions" => SERVER_ACTIONS.contains(&stem(action)),
        [before @ .., token] if ["token", "access_token"].contains(&stem(token)) => {
            let is = |list: &[&str], it: &String| list.contains(&it.as_str());
            before.iter().any(|it| is(OAUTH, it))
                || before.last().is_some_and(|it| is(TOKEN_SERVICES, it))
        }
        _ => false,
    }
}

/// Returns true for files with which a cluster is accessed. Each resource has its name behind it, so
/// such a file is an even number of segments behind the word for clusters; otherwise, it is a name.
/// If there are `clusters`, a word for Kubernetes before is the name of the API.
fn opens_cluster(segments: &[String]) -> bool {
    let is_kubernetes = |it: &String| it == "k8s" || it == "kube" || it.contains("kubernetes");
    segments.iter().enumerate().any(|(at, file)| {
        let file = stem(file);
        let is_config = file.ends_with("config");
        let is_access = is_config && file.contains("kube") || file == "credentials";
        let before = segments.get(..at).unwrap_or_default();

        // Clusters of databases have configurations, too.
        let is_kubernetes_config =
            ["config", "user_config"].contains(&file) && before.iter().any(is_kubernetes);

        let has_clusters = || before.iter().any(|it| it == "clusters");
        let is_cluster =
            |kind: &String| kind.contains("cluster") || is_kubernetes(kind) && !has_clusters();

        (is_access || is_kubernetes_config)
            && (file.ends_with("getkubeconfig")
                || before.iter().rev().skip(1).step_by(2).any(is_cluster))
    })
}

/// Returns the segment without what many servers read as the format of the answer.
fn stem(segment: &str) -> &str {
    segment.split('.').next().unwrap_or_default()
}

fn is_batch(segments: &[String]) -> bool {
    let is = |segment: Option<&String>| segment.is_some_and(|it| it == "batch" || it == "$batch");
    is(segments.first()) || is(segments.last())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{super::path_segments, *};

    fn is_denied(method: &str, uri: &str) -> bool {
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
            assert!(is_denied(method, &uri), "{method} {uri}");
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
            ("PUT", compute.to_owned()),
            ("PATCH", compute.to_owned()),
            (
                "PUT",
                format!("{azure}/Microsoft.Resources/deploymentStacks/d"),
            ),
            (
                "GET",
                format!("{azure}/Microsoft.DocumentDB/databaseAccounts/d/readonlykeys"),
            ),
            (
                "GET",
                format!("{azure}/Microsoft.Search/searchServices/s/listQueryKeys"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Search/searchServices/s/createQueryKey/n"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.ContainerInstance/containerGroups/g/containers/c/exec"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.ContainerInstance/containerGroups/g/containers/c/attach"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.Network/bastionHosts/b/getShareableLinks"),
            ),
            (
                "POST",
                format!("{azure}/Microsoft.App/containerApps/a/getAuthtoken"),
            ),
            (
                "GET",
                format!("{azure}/Microsoft.Web/sites/s/hostruntime/admin/host/keys"),
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Web/sites/s/host/default/functionkeys/k"),
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Authorization/roleAssignmentScheduleRequests/r"),
            ),
        ] {
            assert!(is_denied(method, &uri), "{method} {uri}");
        }
    }

    // Holds: SEC-35
    #[test]
    fn requests_that_sign_or_give_access_are_denied() {
        let google = "https://a.googleapis.com/v1/projects/p/locations/l";
        let pools =
            "https://iam.googleapis.com/v1/projects/p/locations/global/workloadIdentityPools";
        let bucket = "https://storage.googleapis.com/storage/v1/b/b";
        let azure = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers";
        let vault = format!("{azure}/Microsoft.KeyVault/vaults/v");
        for (method, uri, expected) in [
            (
                "POST",
                "https://oslogin.googleapis.com/v1/users/u/projects/p/locations/l:signSshPublicKey"
                    .to_owned(),
                true,
            ),
            (
                "POST",
                format!("{google}/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1:macSign"),
                true,
            ),
            ("POST", format!("{google}/clusters/c:setMasterAuth"), true),
            (
                "POST",
                format!("{google}/clusters/c:generateClientCertificate"),
                true,
            ),
            (
                "GET",
                format!("{google}/memberships/m:generateCredentials"),
                true,
            ),
            (
                "POST",
                format!("{google}/awsClusters/c:generateAwsAccessToken"),
                true,
            ),
            ("POST", format!("{google}/secrets/s:setIamPolicy"), true),
            (
                "POST",
                format!("{pools}/w/providers?workloadIdentityPoolProviderId=x"),
                true,
            ),
            ("PATCH", format!("{pools}/w/providers/x"), true),
            (
                "POST",
                format!("{pools}/w/namespaces/n/managedIdentities/i:addAttestationRule"),
                true,
            ),
            (
                "POST",
                "https://iam.googleapis.com/v1/locations/global/workforcePools/w/providers"
                    .to_owned(),
                true,
            ),
            ("PUT", format!("{bucket}/iam"), true),
            ("PUT", format!("{bucket}/managedFolders/f/iam"), true),
            ("PUT", format!("{vault}/accessPolicies/add"), true),
            ("PUT", format!("{vault}/accessPolicies/replace"), true),
            ("PUT", format!("{vault}/accessPolicies/remove"), true),
            ("PATCH", vault.clone(), true),
            (
                "PUT",
                format!("{azure}/Microsoft.Cache/redis/r/accessPolicyAssignments/a"),
                true,
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.DocumentDB/databaseAccounts/d/sqlRoleAssignments/a"),
                true,
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Sql/servers/s/administrators/ActiveDirectory"),
                true,
            ),
            ("GET", format!("{google}/clusters/c:getIamPolicy"), false),
            (
                "POST",
                format!("{google}/clusters/c:testIamPermissions"),
                false,
            ),
            ("POST", format!("{google}/clusters/c:setLogging"), false),
            ("POST", format!("{google}/executions/e:signal"), false),
            ("POST", format!("{google}/models/m:generateContent"), false),
            ("POST", format!("{google}/models/m:countTokens"), false),
            (
                "GET",
                "https://a.example/clusters/arn:aws:eks:eu-1:1:cluster%2Fset-token".to_owned(),
                false,
            ),
            (
                "GET",
                "https://a.example/labels/app:secret-store".to_owned(),
                false,
            ),
            ("GET", format!("{pools}/w/providers/x"), false),
            ("DELETE", format!("{pools}/w/providers/x"), false),
            ("POST", pools.to_owned(), false),
            ("GET", format!("{bucket}/iam"), false),
            ("PUT", format!("{bucket}/o/iam"), false),
            ("GET", vault.clone(), false),
            ("DELETE", vault.clone(), false),
            (
                "PUT",
                format!("{vault}/privateEndpointConnections/c"),
                false,
            ),
            (
                "GET",
                format!("{azure}/Microsoft.Sql/servers/s/administrators"),
                false,
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Network/firewallPolicies/f"),
                false,
            ),
            (
                "PUT",
                format!("{azure}/Microsoft.Network/loadBalancers/administrators"),
                false,
            ),
        ] {
            assert_eq!(is_denied(method, &uri), expected, "{method} {uri}");
        }
    }

    // Holds: SEC-35
    #[test]
    fn access_to_clusters_and_servers_is_denied() {
        for (method, path) in [
            ("GET", "/1.3/kubernetes/7/kubeconfig"),
            ("POST", "/1.0/cloud/project/p/kube/k/kubeconfig"),
            ("POST", "/1.0/cloud/project/p/kube/k/kubeconfig/reset"),
            ("POST", "/20180222/clusters/7/kubeconfig/content"),
            ("GET", "/v2/kubernetes/clusters/7/config"),
            ("GET", "/k8s/7/user_config"),
            ("GET", "/k8s/clusters/p/r/name/config"),
            ("GET", "/v1/clusters/c/kubeconfig.yaml"),
            ("GET", "/v1/clusters/my-cluster/kubeconfig"),
            ("GET", "/k8s/v1/regions/r/clusters/c/kubeconfig"),
            ("POST", "/v1/clusters/c/adminKubeconfig"),
            ("GET", "/v1/clusters/c/kube_config"),
            ("GET", "/api/clusters_mgmt/v1/clusters/c/credentials"),
            ("POST", "/v2/sks-cluster-kubeconfig/7"),
            ("GET", "/global/v2/getKubeconfig"),
            ("POST", "/v3/clusters/c?action=generateKubeconfig"),
            ("POST", "/v1/servers/7/actions/enable_rescue"),
            ("POST", "/v1/servers/7/actions/rebuild"),
            ("POST", "/v1/servers/7/actions/reset_password"),
            ("POST", "/oauth/token"),
            ("POST", "/oauth/token.json"),
            ("PUT", "/oauth/token?a=b"),
            ("GET", "/oauth2/v2.0/token"),
            ("POST", "/realms/r/protocol/openid-connect/token"),
            ("POST", "/identity/token"),
            ("POST", "/connect/token"),
        ] {
            let uri = format!("https://a.example{path}");
            assert!(is_denied(method, &uri), "{method} {path}");
        }

        for (method, path) in [
            ("GET", "/v2/databases/clusters/7/config"),
            ("GET", "/v1/clusters/kubeconfig"),
            ("GET", "/v1/clusters/c/nodes/kubeconfig"),
            ("GET", "/v1/servers/kubeconfig"),
            ("GET", "/v1/servers/7/config"),
            ("GET", "/k8s/7/nodepools/config"),
            ("GET", "/k8s/v1/regions/r/clusters/c/pools/config"),
            ("GET", "/v2/kubernetes/clusters/kubeconfig"),
            ("GET", "/v2/kubernetes/clusters/7/addons/credentials"),
            ("GET", "/v2/kubernetes/clusters/7/node-pools"),
            ("GET", "/v1/projects/p/credentials"),
            ("POST", "/v3/clusters/c?action=reboot"),
            ("POST", "/v1/servers/7/actions/disable_rescue"),
            ("POST", "/v1/servers/7/actions/reboot"),
            ("POST", "/v1/servers/7/rebuild"),
            ("GET", "/v1/providers/token"),
            ("GET", "/v1/identity/servers/token"),
            ("POST", "/v1/oauth/clients"),
        ] {
            let uri = format!("https://a.example{path}");
            assert!(!is_denied(method, &uri), "{method} {path}");
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
            (
                "POST",
                "https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances",
            ),
            (
                "PATCH",
                "https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances/i/updateNetworkInterface",
            ),
            (
                "PATCH",
                "https://sqladmin.googleapis.com/v1/projects/p/instances/i",
            ),
            (
                "POST",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Compute/virtualMachines/v/attachDetachDataDisks",
            ),
            (
                "PUT",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Compute/virtualMachines/keys",
            ),
            (
                "GET",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Compute/sshPublicKeys/k",
            ),
            (
                "GET",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.KeyVault/vaults/v/keys/k",
            ),
            (
                "GET",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Authorization/roleAssignments",
            ),
            (
                "GET",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Web/sites/s",
            ),
            (
                "POST",
                "https://management.azure.com/subscriptions/s/providers/Microsoft.Network/networkInterfaces/token/effectiveRouteTable",
            ),
        ] {
            assert!(!is_denied(method, uri), "{method} {uri}");
        }
    }
}
