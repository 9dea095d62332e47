//! Names of secrets.

/// Parts of names of secrets, without the characters between words.
const PARTS: &[&str] = &[
    "password",
    "passwd",
    "passwort",
    "kennwort",
    "motdepasse",
    "contrasena",
    "passphrase",
    "passcode",
    "secret",
    "privatekey",
    "sharedkey",
    "apikey",
    "authkey",
    "accesskey",
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
    "connectionstr",
    "connstr",
    "adminpass",
    "assertion",
];

/// Last words of names of secrets.
const LAST: &[&str] = &[
    "pass", "pwd", "pword", "pswd", "psw", "pw", "bindpw", "psk", "otp", "totp", "jwt", "bearer",
    "sig", "sas", "cred", "creds",
];

/// Words that end like one for a password.
const OTHER_PASSES: &[&str] = &[
    "bypass",
    "compass",
    "encompass",
    "overpass",
    "surpass",
    "trespass",
    "underpass",
];

/// Last words of names whose value is a secret if it looks like one.
const SUSPICIOUS: &[&str] = &[
    "access", "ak", "auth", "cipher", "dek", "hmac", "kek", "key", "keys", "license", "login",
    "pat", "pin", "salt", "seed", "sign", "signing", "sk", "webhook",
];

/// Ends of names of tokens that say which page or which attempt a request is about, or whether some
/// are needed.
const MARKS: &[&str] = &[
    "nexttoken",
    "pagetoken",
    "continuetoken",
    "continuationtoken",
    "paginationtoken",
    "idempotencytoken",
    "httptokens",
    "maxtokens",
];

/// Ends of names that APIs write in one word for such a mark. With a separator, as in
/// `client_token`, they are names of secrets in files.
const ONE_WORD_MARKS: &[&str] = &["clienttoken", "requesttoken"];

/// Ends of names of what only refers to a secret.
const REFERENCES: &[&str] = &[
    "keyid",
    "keyids",
    "credentialid",
    "credentialsid",
    "certsecret",
    "credentialsecret",
    "credentialssecret",
    "existingsecret",
    "kubeconfigsecret",
    "tlssecret",
    "name",
    "namespace",
    "ref",
    "file",
    "path",
    "pullsecret",
    "pullsecrets",
    "url",
    "type",
    "kind",
    "version",
];

/// Last words of names of settings about secrets.
const SETTINGS: &[&str] = &[
    "age",
    "algorithm",
    "arn",
    "audience",
    "body",
    "class",
    "count",
    "days",
    "dir",
    "directory",
    "disabled",
    "driver",
    "duration",
    "enabled",
    "endpoint",
    "env",
    "expiration",
    "expires",
    "expiry",
    "format",
    "header",
    "host",
    "hours",
    "interval",
    "issuer",
    "length",
    "lifetime",
    "limit",
    "manager",
    "method",
    "minutes",
    "mode",
    "owner",
    "period",
    "policy",
    "port",
    "prefix",
    "provider",
    "providers",
    "rate",
    "region",
    "required",
    "role",
    "rotation",
    "scope",
    "seconds",
    "selector",
    "size",
    "source",
    "store",
    "suffix",
    "timeout",
    "ttl",
    "uri",
];

/// Last words that say nothing about what a value is.
const FILLERS: &[&str] = &[
    "base",
    "content",
    "current",
    "data",
    "encoded",
    "new",
    "old",
    "plain",
    "plaintext",
    "previous",
    "str",
    "string",
    "text",
    "value",
];

/// Ends of names of secrets that may have others below them, with what these are.
const HOLDERS: &[(&str, Holder)] = &[
    ("passphrases", Holder::Passwords),
    ("passwords", Holder::Passwords),
    ("keys", Holder::Tokens),
    ("tokens", Holder::Tokens),
    ("pass", Holder::Password),
    ("passphrase", Holder::Password),
    ("passwd", Holder::Password),
    ("password", Holder::Password),
    ("pwd", Holder::Password),
    ("credentials", Holder::Logins),
    ("creds", Holder::Logins),
    ("secrets", Holder::Logins),
    ("cred", Holder::Single),
    ("credential", Holder::Single),
    ("key", Holder::Single),
    ("secret", Holder::Single),
    ("token", Holder::Single),
];

/// Last words of what has a secret: below `tokens`, its token, but in a login its name.
const OWNERS: &[&str] = &[
    "access",
    "account",
    "backend",
    "client",
    "cluster",
    "domain",
    "email",
    "engine",
    "environment",
    "group",
    "host",
    "location",
    "login",
    "owner",
    "profile",
    "project",
    "region",
    "role",
    "server",
    "servers",
    "tenant",
    "user",
    "username",
    "users",
    "vault",
    "zone",
];

/// Last words of names below that of a secret whose values are about it.
const REMARKS: &[&str] = &[
    "address",
    "addresses",
    "annotations",
    "comment",
    "description",
    "id",
    "ids",
    "items",
    "key",
    "keys",
    "labels",
    "max",
    "min",
    "note",
    "status",
];

/// Maximum bytes of a name that are considered: its end.
const LONGEST: usize = 128;

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// Nothing.
    None,
    /// It is a secret if it looks like one.
    Maybe,
    /// It is a secret.
    Secret,
}

/// What may be below the name of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A password of each owner.
    Passwords,
    /// A token of each owner.
    Tokens,
    /// One password, perhaps of several owners.
    Password,
    /// Logins: names and secrets.
    Logins,
    /// One secret, and settings about it.
    Single,
}

impl Holder {
    /// Returns true for a map that has a secret for each key, such as the name of a user.
    pub(crate) fn is_map(self) -> bool {
        matches!(self, Self::Passwords | Self::Tokens | Self::Logins)
    }
}

/// What a name below that of a secret says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// It refers to a secret.
    Reference,
    /// It is a setting or a remark.
    Setting,
    /// It is who has a secret, or a part of a login.
    Owner,
    /// Nothing.
    Other,
}

/// Returns true for the name of a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    strength(name) == Strength::Secret
}

/// Returns true if the name, or one of its words, is that of a secret: `session/token/7`.
#[must_use]
pub fn has_secret(name: &str) -> bool {
    is_secret(name)
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(is_secret)
}

/// Returns true for the name of a password, which may be before it without a sign between.
pub(crate) fn is_password(name: &str) -> bool {
    const ENDS: [&str; 6] = [
        "password",
        "passwd",
        "passphrase",
        "passwort",
        "pwd",
        "token",
    ];

    let ends = |end: &&str| {
        let from = name.len().checked_sub(end.len());
        from.and_then(|from| name.get(from..))
            .is_some_and(|it| it.eq_ignore_ascii_case(end))
    };
    ENDS.iter().any(ends) && is_secret(name)
}

/// Returns what a name says about its value.
pub(crate) fn strength(name: &str) -> Strength {
    let from = name.ceil_char_boundary(name.len().saturating_sub(LONGEST));
    let mut words = words(name.get(from..).unwrap_or_default());
    let whole = words.concat();

    while words.len() > 1
        && words.last().is_some_and(|it| {
            FILLERS.contains(&it.as_str()) || it.bytes().all(|b| b.is_ascii_digit())
        })
    {
        words.pop();
    }

    let joined = words.concat();
    let Some(last) = words.last().map(String::as_str) else {
        return Strength::None;
    };

    let ends = |all: &[&str]| all.iter().any(|end| joined.ends_with(end));

    let is_token = words.iter().any(|it| it == "token") || ends(&["token", "tokens"]);
    let is_pass = ["pass", "pwd"].iter().any(|end| last.ends_with(end));
    let is_mark = ends(MARKS) || ends(ONE_WORD_MARKS) && !name.contains(['_', '-']);
    let is_named = is_token && !is_mark
        || LAST.contains(&last)
        || is_pass && !OTHER_PASSES.contains(&last)
        || PARTS.iter().any(|it| whole.contains(it));

    if is_named && !ends(REFERENCES) && !SETTINGS.contains(&last) {
        Strength::Secret
    } else if !is_named && SUSPICIOUS.contains(&last) {
        Strength::Maybe
    } else {
        Strength::None
    }
}

/// Returns what may be below this name: `x.tokens.prod` is one of tokens.
pub(crate) fn holder(name: &str) -> Option<Holder> {
    name.split('.')
        .filter(|part| is_secret(part))
        .find_map(|part| {
            let joined = words(part).concat();
            let mut ends = HOLDERS.iter().filter(|(end, _)| joined.ends_with(end));
            let other = joined.contains("password").then_some(Holder::Single);
            ends.next().map(|(_, holder)| *holder).or(other)
        })
}

/// Returns what a name below that of a secret says.
pub(crate) fn member(name: &str) -> Member {
    let words = words(name);
    let joined = words.concat();
    let last = words.last().map_or("", String::as_str);

    if OWNERS.contains(&last) {
        Member::Owner
    } else if REFERENCES.iter().any(|end| joined.ends_with(end)) {
        Member::Reference
    } else if SETTINGS.contains(&last) || REMARKS.contains(&last) {
        Member::Setting
    } else {
        Member::Other
    }
}

/// Returns true for a name of keys, which may be those of others: `ssh_key: ID`.
pub(crate) fn is_key(name: &str) -> bool {
    ends_with(name, "key") || ends_with(name, "keys")
}

/// Returns true if this is the last word of a name.
pub(crate) fn ends_with(name: &str, word: &str) -> bool {
    words(name).last().is_some_and(|last| last == word)
}

/// Returns the words of a name in lower case: of `aadClientSecret`, `AAD_CLIENT_SECRET` and
/// `aad-client-secret`, they are the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    let mut letters = name.chars().peekable();

    while let Some(letter) = letters.next() {
        if !letter.is_ascii_alphanumeric() {
            before = None;
            continue;
        }

        let starts = before.is_none_or(|before| {
            let after_capitals = before.is_ascii_uppercase()
                && letter.is_ascii_uppercase()
                && letters.peek().is_some_and(char::is_ascii_lowercase);
            before.is_ascii_lowercase() && letter.is_ascii_uppercase()
                || before.is_ascii_digit() != letter.is_ascii_digit()
                || after_capitals
        });

        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter.to_ascii_lowercase());
        }

        before = Some(letter);
    }
    words
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
            "aadClientSecret",
            "AADClientCertPassword",
            "adminPass",
            "DB_PASS",
            "userpwd",
            "smtp-pw",
            "sas",
            "connection-string",
            "tokens",
            "passwords",
            "password_2",
            "tokenValue",
            "TOKEN_PROD",
            "client_assertion",
            "access-key",
            "pwd",
            "client_token",
            "request-token",
        ] {
            assert!(is_secret(name), "{name}");
        }

        for name in [
            "nextToken",
            "next_page_token",
            "httpTokens",
            "ClientToken",
            "secretName",
            "secret-namespace",
            "tokenCount",
            "token-ttl",
            "passwordPolicy",
            "application-credential-id",
            "AWSAccessKeyId",
            "compass",
            "bypass",
            "passthrough",
            "key",
            "key-file",
            "passed",
            "tokenizer",
            "",
            "7",
        ] {
            assert!(!is_secret(name), "{name}");
        }

        assert!(
            has_secret("project/7:token") && has_secret("token/abc") && !has_secret("servers/7")
        );
    }

    #[test]
    fn a_suspicious_name_is_not_yet_a_secret() {
        for name in ["key", "tls.key", "auth", "AES_KEY", "github-pat"] {
            assert_eq!(strength(name), Strength::Maybe, "{name}");
        }
        for name in ["keys-of", "subnet-id", "authUrl", "monkey"] {
            assert_eq!(strength(name), Strength::None, "{name}");
        }
    }
}
