//! What the names of headers and query parameters mean: who is asking, authentication, or nothing
//! that a server decides on.

use skydock_credentials::{request::actions::decode, request::glob::Glob};

/// Headers with which a proxy tells a server who is asking, or over which connection. A server
/// trusts them because a proxy removes those of clients, and Skydock may be behind that proxy.
const IDENTITY: &[&str] = &[
    "via",
    "x-client-verify",
    "x-proxy-user",
    "x-rh-identity",
    "front-end-https",
];

/// Beginnings of the names of such headers.
const IDENTITY_PREFIXES: &[&str] = &[
    "x-remote-",
    "remote-",
    "x-envoy-",
    "l5d-client-",
    "x-auth-request-",
    "x-authentik-",
    "x-webauth-",
    "x-vouch-",
    "tailscale-",
    "oidc-claim-",
    "iv-user",
    "sm-user",
    "x-appengine-",
    "x-ms-client-principal",
    "x-amzn-oidc-",
    "x-goog-iap-",
    "x-consumer-",
    "x-pomerium-",
    "impersonate-",
];

/// Words in the names of such headers.
const IDENTITY_WORDS: &[&str] = &[
    "forwarded",
    "authenticated",
    "userinfo",
    "dn",
    "ssl",
    "tls",
    "mtls",
];

/// Words for the client, whose address or certificate such headers have.
const CLIENTS: &[&str] = &[
    "client",
    "connecting",
    "originating",
    "peer",
    "real",
    "remote",
    "socket",
    "source",
    "ssl",
    "user",
];

/// Words for an address at the end of a name.
const ADDRESSES: &[&str] = &["ip", "ipv4", "ipv6", "addr", "address"];

/// Headers that authenticate. Only `guestAuth: allowed` lets a plugin send them.
const AUTHENTICATION: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-ms-authorization-auxiliary",
    "cookie",
    "cookie2",
    "x-auth-token",
    "x-auth-key",
    "x-subject-token",
    "x-storage-token",
    "x-service-token",
    "x-amz-security-token",
    "x-aws-ec2-metadata-token",
    "x-api-key",
    "api-key",
    "apikey",
    "x-goog-api-key",
    "x-access-token",
    "x-session-token",
    "x-consul-token",
    "x-vault-token",
    "private-token",
    "vmware-api-session-id",
    "ocp-apim-subscription-key",
];

/// Words in names of other headers that authenticate.
const WORDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "jwt",
    "assertion",
    "session",
    "sessionid",
    "sid",
    "signature",
    "apikey",
    "credential",
    "credentials",
    "cookie",
    "auth",
    "authentication",
    "authenticate",
    "bearer",
    "saml",
    "otp",
    "authkey",
    "accesskey",
    "principal",
];

/// Parts of names of other headers that authenticate.
const PARTS: &[&str] = &[
    "authorization",
    "api-key",
    "auth-key",
    "access-key",
    "account-key",
    "shared-key",
    "subscription-key",
];

/// Headers with which OpenStack's middleware tells a service whose token it has checked.
const MIDDLEWARE: &[&str] = &[
    "x-identity-status",
    "x-is-admin-project",
    "x-role",
    "x-roles",
    "x-user",
    "x-user-id",
    "x-user-name",
    "x-user-domain-id",
    "x-user-domain-name",
    "x-project-id",
    "x-project-name",
    "x-project-domain-id",
    "x-project-domain-name",
    "x-domain-id",
    "x-domain-name",
    "x-tenant",
    "x-tenant-id",
    "x-tenant-name",
];

/// Query parameters that authenticate: those of presigned URLs, API keys, tokens and passwords.
const PARAMETERS: &[&str] = &[
    "awsaccesskeyid",
    "signature",
    "sig",
    "token",
    "access_token",
    "access-token",
    "auth_token",
    "auth-token",
    "id_token",
    "refresh_token",
    "session_token",
    "security_token",
    "securitytoken",
    "private_token",
    "api_token",
    "bearer_token",
    "job_token",
    "api_key",
    "api-key",
    "apikey",
    "key",
    "accesskey",
    "access_key",
    "accesskeyid",
    "subscription-key",
    "secret",
    "client_secret",
    "jwt",
    "assertion",
    "client_assertion",
    "password",
    "passwd",
    "pwd",
    "pass",
    "auth",
    "authorization",
    "bearer",
    "session",
    "sessionid",
    "session_id",
    "jsessionid",
    "phpsessid",
    "sid",
    "credential",
    "credentials",
    "code_verifier",
    "hmac",
    "pat",
    "ticket",
    "samlresponse",
    "hapikey",
    "app_key",
    "application_key",
    // Who is asking.
    "sudo",
    "impersonate",
    "as_user",
    "run_as",
    "on_behalf_of",
];

/// Words in names of parameters that only look like authentication: places in lists, and marks of
/// repeated requests.
const PLACES: &[&str] = &[
    "page",
    "next",
    "continuation",
    "continue",
    "skip",
    "sync",
    "resume",
    "client",
    "idempotency",
    "retry",
];

/// Beginnings of the names of such parameters.
const PARAMETER_PREFIXES: &[&str] = &["x-amz-", "x-goog-", "x-oss-", "x-cos-", "x-tos-"];

/// Headers that a plugin may send beside a credential: they describe the request and its body, or
/// let others find it.
const COMMON: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "correlation-id",
    "date",
    "digest",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "opc-client-info",
    "opc-request-id",
    "opc-retry-token",
    "openstack-api-version",
    "pragma",
    "prefer",
    "request-id",
    "soapaction",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-acs-action",
    "x-acs-region-id",
    "x-acs-version",
    "x-amz-client-token",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-target",
    "x-amz-user-agent",
    "x-amzn-query-mode",
    "x-amzn-trace-id",
    "x-client-request-id",
    "x-compute-request-id",
    "x-correlation-id",
    "x-goog-api-client",
    "x-goog-request-params",
    "x-goog-request-reason",
    "x-idempotency-key",
    "x-ms-client-request-id",
    "x-ms-correlation-request-id",
    "x-ms-date",
    "x-ms-return-client-request-id",
    "x-ms-version",
    "x-request-id",
    "x-tc-action",
    "x-tc-region",
    "x-tc-timestamp",
    "x-tc-version",
];

/// Beginnings of the names of such headers.
const COMMON_PREFIXES: &[&str] = &["amz-sdk-", "x-openstack-"];

/// The names that a rule allows a plugin to send in addition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Names of headers, in lower case.
    pub(crate) headers: Vec<Glob>,
    /// Names of query parameters, in lower case.
    pub(crate) parameters: Vec<Glob>,
}

impl Listed {
    /// Returns true if a plugin may send this header beside a credential.
    pub(crate) fn allows(&self, header: &str) -> bool {
        !is_identity(header)
            && !AUTHENTICATION.contains(&header)
            && (COMMON.contains(&header)
                || begins(header, COMMON_PREFIXES)
                || self.has_header(header))
    }

    /// Returns true if the header is listed, and authentication that may be.
    pub(crate) fn has_header(&self, name: &str) -> bool {
        !AUTHENTICATION.contains(&name) && self.headers.iter().any(|glob| glob.matches(name))
    }

    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|glob| glob.matches(name))
    }
}

/// Returns true for headers with which proxies tell who is asking.
pub(crate) fn is_identity(header: &str) -> bool {
    IDENTITY.contains(&header)
        || begins(header, IDENTITY_PREFIXES)
        || header.split('-').any(|word| {
            IDENTITY_WORDS.contains(&word)
                || is_certificate(word) && CLIENTS.iter().any(|client| header.contains(client))
        })
        || is_address_of_client(header)
}

fn is_certificate(word: &str) -> bool {
    word.starts_with("cert") || word.ends_with("cert") || word.ends_with("certificate")
}

/// Returns true for names such as `x-real-ip` and `x-azure-clientip`.
fn is_address_of_client(header: &str) -> bool {
    let (before, last) = header.rsplit_once('-').unwrap_or(("", header));

    ADDRESSES
        .iter()
        .any(|address| match last.strip_suffix(address) {
            Some("") => before.split('-').any(|word| CLIENTS.contains(&word)),
            Some(word) => CLIENTS.contains(&word),
            None => false,
        })
}

/// Returns true for headers that authenticate.
pub(crate) fn authenticates(header: &str) -> bool {
    is_reserved(header)
        || MIDDLEWARE.contains(&header)
        || PARTS.iter().any(|part| header.contains(part))
        || has_word(header) && !is_identity(header)
}

fn has_word(header: &str) -> bool {
    header.split('-').any(|word| WORDS.contains(&word)) && !COMMON.contains(&header)
}

/// Returns true for headers that authenticate and that no rule can list.
pub(crate) fn is_reserved(header: &str) -> bool {
    AUTHENTICATION.contains(&header)
}

/// Returns the name of a query parameter as servers read it, in lower case.
pub(crate) fn parameter(pair: &str) -> String {
    let name = decode(pair.split('=').next().unwrap_or_default().as_bytes());
    let name = String::from_utf8_lossy(&name).trim().to_lowercase();

    // PHP and Rails read `token[]` and `a[token]` as parts of a structure.
    let inner = name.rsplit(['[', ']']).find(|part| !part.is_empty());
    inner.unwrap_or_default().to_owned()
}

/// Returns true for query parameters that authenticate.
pub(crate) fn is_authentication(parameter: &str) -> bool {
    // A server may take a header's value from the query, too.
    let header = parameter.replace(['_', '.'], "-");
    let is_place = || header.split('-').any(|word| PLACES.contains(&word));

    PARAMETERS.contains(&parameter)
        || begins(parameter, PARAMETER_PREFIXES)
        || (authenticates(&header) || has_word(&header)) && !is_place()
}

fn begins(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_headers_tell_what_they_are_for() {
        for name in [
            "x-forwarded-client-cert",
            "x-forwarded-for",
            "x-remote-user",
            "x-ssl-client-verify",
            "x-real-ip",
            "via",
            "impersonate-user",
            "x-ms-client-principal",
            "x-forwarded",
            "x-original-forwarded-for",
            "client-cert",
            "client-cert-chain",
            "x-arr-clientcert",
            "x-sslclientcert",
            "ssl-cert",
            "x-peer-certificate",
            "x-client-s-dn",
            "x-originating-ip",
            "x-azure-clientip",
            "x-azure-socketip",
            "cf-connecting-ipv6",
            "wl-proxy-client-ip",
            "tailscale-user-login",
            "x-authentik-username",
            "x-vouch-user",
            "x-userinfo",
            "x-endpoint-api-userinfo",
            "x-apigateway-api-userinfo",
            "cf-access-authenticated-user-email",
            "x-rh-identity",
            "x-sslcert",
            "x-client-certificate",
            "oidc-claim-sub",
            "x-appengine-user-email",
        ] {
            assert!(is_identity(name), "{name}");
        }
        for name in [
            "x-amz-server-side-encryption-customer-key-md5",
            "x-amz-source-expected-bucket-owner",
            "x-ms-client-name",
            "x-ms-copy-source",
            "x-ms-useragent",
            "x-goog-user-project",
            "x-auth-user",
            "x-auth-email",
            "x-storage-user",
            "x-user-agent",
            "x-floating-ip",
            "x-target-address",
            "x-client-zip",
            "x-certificate-id",
            "x-source-region",
            "x-real-time",
        ] {
            assert!(!is_identity(name), "{name}");
        }
        for name in [
            "authorization",
            "x-my-authorization-2",
            "cookie",
            "token",
            "x-jwt-assertion",
            "cf-access-client-secret",
            "dd-api-key",
            "x-roles",
            "x-user-id",
            "x-custom-session",
        ] {
            assert!(
                authenticates(name) && !Listed::default().allows(name),
                "{name}"
            );
        }
        for name in COMMON
            .iter()
            .chain(&["amz-sdk-request", "x-openstack-nova-api-version"])
        {
            let is_plain = !authenticates(name) && !is_identity(name);
            assert!(is_plain && Listed::default().allows(name), "{name}");
        }
    }

    #[test]
    fn a_rule_cannot_list_what_always_authenticates() {
        let listed = Listed {
            headers: vec![
                Glob::parse("x-*").unwrap(),
                Glob::parse("dd-api-key").unwrap(),
            ],
            parameters: Vec::new(),
        };
        assert!(listed.allows("dd-api-key") && listed.allows("x-feature"));
        for name in ["x-auth-token", "x-remote-user", "cookie", "feature"] {
            assert!(!listed.allows(name), "{name}");
        }
    }

    #[test]
    fn query_parameters_are_read_as_servers_do() {
        for pair in [
            "token=a",
            "%74oken=a",
            "Password",
            "user[password]=x",
            "key[]=x",
            "X-Amz%2dSignature=ab",
            "sig",
            "oauth_token=a",
            "X-Auth-Token=a",
            "temp_url_signature=a",
            "dd_api_key=a",
            "sudo=root",
            "forwarded_token=a",
            "x-forwarded-access-token=a",
        ] {
            assert!(is_authentication(&parameter(pair)), "{pair}");
        }

        for pair in [
            "marker=token",
            "pageToken=a",
            "NextToken=b",
            "Tag.1.Key=c",
            "page_token=a",
            "client-token=a",
            "sort_key=name",
            "",
        ] {
            assert!(!is_authentication(&parameter(pair)), "{pair}");
        }
    }
}
