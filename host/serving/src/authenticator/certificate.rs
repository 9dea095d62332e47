//! The user that a client certificate is for.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::{Opinion, User};

/// Where the UID of a user is in the subject, as upstream (`asn1util.X509UID`).
const UID: &str = "1.3.6.1.4.1.57683.2";
/// Key of the digest of the certificate, as upstream (`user.CredentialIDKey`).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The subject of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The last one, as in Go, or empty.
    pub(super) common_name: String,
    organizations: Vec<String>,
    uids: Vec<String>,
    credential_id: String,
}

impl Subject {
    /// Reads a certificate, which must be valid.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let subject = parsed.subject();
        let fingerprint = hex::encode(digest(&SHA256, certificate));

        Some(Self {
            common_name: texts(subject.iter_common_name())?.pop().unwrap_or_default(),
            organizations: texts(subject.iter_organization())?,
            uids: uids(subject)?,
            credential_id: format!("X509SHA256={fingerprint}"),
        })
    }

    /// Returns the user, as upstream's `CommonNameUserConversion`.
    pub(super) fn opinion(self) -> Opinion {
        if self.common_name.is_empty() {
            return Opinion::Nothing;
        }
        let uid = match self.uids.as_slice() {
            [] => String::new(),
            [uid] if !uid.is_empty() => uid.clone(),
            _ => return Opinion::Rejected,
        };

        let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![self.credential_id])]);
        Opinion::User(User {
            name: self.common_name,
            uid,
            groups: self.organizations,
            extra,
        })
    }
}

/// Returns the texts; `None` if one cannot be read. Go reads more kinds of texts, so without it, the
/// subject would be that of another user for the API server.
fn texts<'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>,
) -> Option<Vec<String>> {
    attributes
        .map(|it| it.as_str().ok().map(str::to_owned))
        .collect()
}

/// Returns the UIDs; `None` if one is not a text.
fn uids(subject: &X509Name<'_>) -> Option<Vec<String>> {
    let uids = subject
        .iter_attributes()
        .filter(|it| it.attr_type().to_id_string() == UID);
    uids.map(|it| it.as_str().ok().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    /// Returns what a certificate with these names says.
    fn opinion(names: &[(DnType, &str)]) -> Opinion {
        let names = names
            .iter()
            .map(|(kind, name)| (kind.clone(), DnValue::from(*name)));
        subject(names).unwrap().opinion()
    }

    fn subject(names: impl IntoIterator<Item = (DnType, DnValue)>) -> Option<Subject> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind, name);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Subject::of(certificate.der())
    }

    fn uid() -> DnType {
        DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
    }

    #[test]
    fn the_subject_of_a_certificate_is_a_user() {
        let Opinion::User(user) = opinion(&[
            (DnType::CommonName, "jane"),
            (DnType::OrganizationName, "system:monitoring"),
            (uid(), "7"),
        ]) else {
            panic!("no user")
        };
        assert_eq!(
            (user.name.as_str(), user.uid.as_str(), user.groups),
            ("jane", "7", vec!["system:monitoring".to_owned()])
        );
        let id = &user.extra[CREDENTIAL_ID][0];
        assert_eq!(id.len(), "X509SHA256=".len() + 64);

        assert_eq!(
            opinion(&[(DnType::OrganizationName, "system:masters")]),
            Opinion::Nothing
        );
        assert_eq!(
            opinion(&[(DnType::CommonName, "jane"), (uid(), "")]),
            Opinion::Rejected
        );
        assert_eq!(Subject::of(b"not a certificate"), None);
    }

    #[test]
    fn a_name_that_cannot_be_read_is_no_user() {
        let utf16 = || DnValue::BmpString("jane".try_into().unwrap());
        for names in [
            vec![(DnType::CommonName, utf16())],
            vec![
                (DnType::CommonName, DnValue::from("jane")),
                (DnType::OrganizationName, utf16()),
            ],
        ] {
            assert_eq!(subject(names), None);
        }
    }
}
