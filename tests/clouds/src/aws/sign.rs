//! Signature version 4 for a form that is posted to `/`.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::Keys;

/// The only content type that is signed here.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
/// The block length of SHA-256 in bytes.
const BLOCK: usize = 64;

/// The scope of a signature.
pub(crate) struct Scope<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    pub(crate) now: Timestamp,
}

/// The headers of a signed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) date: String,
    pub(crate) authorization: String,
}

/// Signs the content type, the host and the date.
pub(crate) fn sign(keys: &Keys, scope: &Scope<'_>, host: &str, body: &str) -> Signed {
    let date = scope.now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = scope.now.strftime("%Y%m%d").to_string();
    let headers = "content-type;host;x-amz-date";
    let canonical = format!(
        "POST\n/\n\ncontent-type:{FORM}\nhost:{host}\nx-amz-date:{date}\n\n{headers}\n{}",
        hex::encode(Sha256::digest(body))
    );
    let range = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{range}\n{}",
        hex::encode(Sha256::digest(canonical))
    );
    let mut key = hmac(format!("AWS4{}", keys.secret).as_bytes(), day.as_bytes());
    for part in [scope.region, scope.service, "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = hex::encode(hmac(&key, text.as_bytes()));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{range}, SignedHeaders={headers}, Signature={signature}",
        keys.id
    );
    Signed {
        date,
        authorization,
    }
}

/// Computes HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > BLOCK {
        Sha256::digest(key).to_vec()
    } else {
        key.to_vec()
    };
    block.resize(BLOCK, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::new()
        .chain_update(pad(0x36))
        .chain_update(message)
        .finalize();
    Sha256::new()
        .chain_update(pad(0x5c))
        .chain_update(inner)
        .finalize()
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_matches_rfc_4231() {
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(
            hex::encode(hmac(b"Jefe", b"what do ya want for nothing?")),
            expected
        );
        let long = hmac(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
        );
        assert_eq!(
            hex::encode(long),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
