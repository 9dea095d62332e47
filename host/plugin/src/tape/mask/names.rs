//! Names of secrets.

/// Parts of names of secrets, without the characters between words.
const PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "privatekey",
    "sharedkey",
    "apikey",
    "authkey",
    "accountkey",
    "consumerkey",
    "applicationkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "subscriptionkey",
    "credential",
    "authorization",
    "cookie",
    "signature",
    "sessionid",
    "clientkeydata",
    "connectionstring",
    "adminpass",
    "assertion",
];

/// Complete names of secrets.
const NAMES: &[&str] = &["pass", "pwd", "psk", "otp", "jwt", "bearer", "sig"];

/// Ends of names of tokens that say which page or which attempt a request is about, or whether some
/// are needed.
const MARKS: &[&str] = &[
    "nexttoken",
    "pagetoken",
    "continuetoken",
    "continuationtoken",
    "paginationtoken",
    "clienttoken",
    "requesttoken",
    "idempotencytoken",
    "httptokens",
];

/// Ends of names of what only refers to a secret.
const REFERENCES: &[&str] = &[
    "name",
    "namespace",
    "ref",
    "file",
    "path",
    "url",
    "type",
    "kind",
    "version",
];

/// Returns true for the name of a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    let is_token = ends(&["token", "tokens"]) && !ends(MARKS);
    let is_named = is_token || NAMES.contains(&&*name) || PARTS.iter().any(|it| name.contains(it));
    is_named && !ends(REFERENCES)
}

/// Returns true if the name, or one of its words, is that of a secret: `session/token/7`.
pub(super) fn has_secret(name: &str) -> bool {
    is_secret(name)
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(is_secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clouds_are_known() {
        for name in [
            "X-Auth-Token",
            "X-Vault-Token",
            "PRIVATE-TOKEN",
            "hcloud_token",
            "X-Auth-Key",
            "Ocp-Apim-Subscription-Key",
            "vmware-api-session-id",
            "X-Amz-Signature",
            "secret_access_key",
            "adminPass",
            "tokens",
            "passwords",
            "client_assertion",
            "pwd",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "nextToken",
            "next_page_token",
            "httpTokens",
            "ClientToken",
            "secretName",
            "tokenCount",
            "compass",
            "key",
            "passed",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        assert!(
            has_secret("project/7:token") && has_secret("token/abc") && !has_secret("servers/7")
        );
    }
}
