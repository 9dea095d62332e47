//! Assertions signed with an RSA key (RFC 7519, RFC 7523), algorithm RS256.

use base64::{Engine as _, engine::general_purpose};
use ring::{digest, rand::SystemRandom, signature};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Map, Value};

use crate::{masking::secret::Secret, request::encode::base64url, sources::failure::Failure};

/// Returns the header of an assertion: with the thumbprint of a certificate, by which Microsoft
/// Entra ID finds the key, or with a key ID.
pub(crate) fn header(
    certificate_pem: Option<&Secret>,
    key_id: Option<&str>,
) -> Result<Value, Failure> {
    let mut header = Map::new();
    header.insert("alg".to_owned(), "RS256".into());
    header.insert("typ".to_owned(), "JWT".into());

    if let Some(pem) = certificate_pem {
        let der = CertificateDer::from_pem_slice(pem.expose()).map_err(|_| {
            Failure::malformed("its certificate file does not contain a PEM certificate")
        })?;
        // RFC 7515, section 4.1.7 defines `x5t` with SHA-1.
        let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &der);
        let sha256 = digest::digest(&digest::SHA256, &der);
        header.insert("x5t".to_owned(), base64url(sha1.as_ref()).into());
        header.insert("x5t#S256".to_owned(), base64url(sha256.as_ref()).into());
    }

    if let Some(id) = key_id {
        header.insert("kid".to_owned(), id.into());
    }
    Ok(header.into())
}

/// Signs claims with a PEM key in PKCS#8 or PKCS#1 format.
pub(crate) fn sign(header: &Value, claims: &Value, key_pem: &[u8]) -> Result<String, Failure> {
    let key = key(key_pem)?;
    let signed = format!(
        "{}.{}",
        base64url(header.to_string().as_bytes()),
        base64url(claims.to_string().as_bytes())
    );

    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(
        &signature::RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| Failure::unavailable("cannot sign an assertion"))?;

    Ok(format!("{signed}.{}", base64url(&signature)))
}

fn key(pem: &[u8]) -> Result<signature::RsaKeyPair, Failure> {
    let bad = |what: &str| {
        Failure::malformed(format!(
            "its key file does not contain a usable RSA key in PEM format: {what}"
        ))
    };
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| bad("no private key found"))?;
    let pair = match &der {
        PrivateKeyDer::Pkcs8(der) => signature::RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => signature::RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(bad("it is neither a PKCS#8 nor a PKCS#1 key")),
    };

    // ring's errors are words like `TooSmall` and `InvalidEncoding`, and do not contain parts of
    // the key.
    pair.map_err(|rejected| bad(&rejected.to_string()))
}

/// Returns a random identifier for an assertion (`jti`).
pub(crate) fn id() -> Result<String, Failure> {
    let bytes: [u8; 16] = ring::rand::generate(&SystemRandom::new())
        .map_err(|_| Failure::unavailable("no random numbers available"))?
        .expose();
    Ok(general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = include_str!("../../tests/data/rsa.key");
    const KEY_PKCS1: &str = include_str!("../../tests/data/rsa.pkcs1.key");
    const CERTIFICATE: &str = include_str!("../../tests/data/rsa.crt");

    /// The output of `openssl x509 -fingerprint -sha1`.
    const X5T: &str = include_str!("../../tests/data/rsa.x5t");

    #[test]
    fn an_assertion_verifies_with_the_public_key() {
        for pem in [KEY, KEY_PKCS1] {
            let jwt = sign(
                &header(None, Some("k1")).unwrap(),
                &json!({ "iss": "me" }),
                pem.as_bytes(),
            )
            .unwrap();
            let (signed, signature) = jwt.rsplit_once('.').unwrap();
            let signature = general_purpose::URL_SAFE_NO_PAD.decode(signature).unwrap();
            let public = key(pem.as_bytes()).unwrap().public().as_ref().to_vec();
            let public =
                signature::UnparsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, public);
            public.verify(signed.as_bytes(), &signature).unwrap();
            let head = general_purpose::URL_SAFE_NO_PAD
                .decode(signed.split('.').next().unwrap())
                .unwrap();
            assert_eq!(
                String::from_utf8(head).unwrap(),
                r#"{"alg":"RS256","kid":"k1","typ":"JWT"}"#
            );
        }
    }

    #[test]
    fn the_header_has_the_thumbprint_of_the_certificate() {
        let header = header(Some(&Secret::from(CERTIFICATE)), None).unwrap();
        assert_eq!(header["x5t"], X5T.trim());
    }

    #[test]
    fn an_invalid_key_is_an_error_without_its_content() {
        let cut = KEY.replace("PRIVATE KEY-----\n", "PRIVATE KEY-----\nAAAA");
        for pem in ["hunter22", CERTIFICATE, &cut] {
            let failure = sign(&json!({}), &json!({}), pem.as_bytes()).unwrap_err();
            assert!(
                failure
                    .sentence
                    .starts_with("its key file does not contain a usable RSA key"),
                "{failure}"
            );
            assert!(!failure.sentence.contains("hunter22"));
        }
    }
}
