//! Answers of token endpoints (RFC 6749, section 5.1).

use std::time::Duration;

use serde_json::Value;

use crate::masking::secret::Secret;
use crate::{
    kinds::renewed::Issued,
    sources::{failure::Failure, issuer_client::IssuerClient},
};

/// Returns the token and its lifetime. A token without an expiry is renewed after one hour, the
/// usual lifetime of tokens.
pub(crate) fn token(issuer: &IssuerClient, answer: &Value) -> Result<Issued<Secret>, Failure> {
    let value = issuer.secret_at(answer, "/access_token")?;

    // These are not used, but they are secrets that must be redacted.
    for other in ["/refresh_token", "/id_token"] {
        if let Some(text) = answer.pointer(other).and_then(Value::as_str) {
            issuer.keep(text);
        }
    }

    let lifetime = answer.get("expires_in").and_then(seconds).unwrap_or(3600);
    Ok(Issued {
        value,
        lifetime: Some(Duration::from_secs(lifetime)),
    })
}

/// Parses a number of seconds, which some servers (Azure's metadata service) write as text.
pub(crate) fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            // For example `3599.0`. Values beyond 2^53 are not valid lifetimes.
            number
                .as_f64()
                .filter(|it| (0.0..9e15).contains(it))
                .map(|it| Duration::from_secs_f64(it).as_secs())
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_are_numbers_or_strings() {
        for (value, expected) in [
            (json!(3599), Some(3599)),
            (json!("3599"), Some(3599)),
            (json!(3599.5), Some(3599)),
            (json!(-1), None),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            assert_eq!(seconds(&value), expected, "{value}");
        }
    }
}
