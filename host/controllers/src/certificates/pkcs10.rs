//! Reads the certificate signing request (PKCS #10, RFC 2986) in a CertificateSigningRequest.
//!
//! The signer reads the same bytes with another parser. Therefore, a request is valid only if it is
//! encoded exactly as what was read here would be encoded: the signer finds nothing else in it.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use x509_parser::{
    certification_request::{X509CertificationRequest, X509CertificationRequestInfo},
    cri_attributes::ParsedCriAttribute,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME},
    prelude::FromDer,
    x509::X509Name,
};

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----\n";
const END: &str = "\n-----END CERTIFICATE REQUEST-----";

/// Tags of ASN.1 (X.680), with the bit of constructed types.
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `attributes [0]` of a request.
const ATTRIBUTES: u8 = 0xa0;
/// `dNSName [2]` and `iPAddress [7]` of a GeneralName (RFC 5280).
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// Version 1, which is encoded as 0.
const VERSION: &[u8] = &[0x02, 0x01, 0x00];
/// Object identifiers `pkcs-9-at-extensionRequest` and `id-ce-subjectAltName`.
const EXTENSION_REQUEST: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e";
const SUBJECT_ALT_NAME: &[u8] = b"\x06\x03\x55\x1d\x11";

/// What a request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pkcs10 {
    pub(super) common_name: String,
    pub(super) organization: String,
    pub(super) dns_names: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
}

/// Why a request is not one that a kubelet creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Pkcs10Error {
    #[error("it is not a single PEM block CERTIFICATE REQUEST")]
    NotPem,
    #[error("it is not a valid PKCS #10 request")]
    NotDer,
    #[error("its subject has other parts than a common name and an organization")]
    Subject,
    #[error("it requests something other than DNS names and IP addresses")]
    Extensions,
    #[error("it is encoded ambiguously")]
    Encoding,
}

/// Reads a request in PEM. The signature is verified by the signer.
pub(super) fn read(pem: &[u8]) -> Result<Pkcs10, Pkcs10Error> {
    let der = decode(pem).ok_or(Pkcs10Error::NotPem)?;
    let (rest, request) =
        X509CertificationRequest::from_der(&der).map_err(|_| Pkcs10Error::NotDer)?;
    if !rest.is_empty() {
        return Err(Pkcs10Error::NotDer);
    }

    let info = &request.certification_request_info;
    let (common_name, organization) = subject(&info.subject).ok_or(Pkcs10Error::Subject)?;
    let (critical, names) = alternative_names(info).ok_or(Pkcs10Error::Extensions)?;

    let mut read = Pkcs10 {
        common_name,
        organization,
        dns_names: Vec::new(),
        addresses: Vec::new(),
    };
    let mut encoded = Vec::new();
    for name in names {
        match name {
            GeneralName::DNSName(name) => {
                encoded.extend(der_value(DNS_NAME, name.as_bytes()));
                read.dns_names.push((*name).to_owned());
            }
            GeneralName::IPAddress(bytes) => {
                encoded.extend(der_value(IP_ADDRESS, bytes));
                read.addresses
                    .push(address(bytes).ok_or(Pkcs10Error::Extensions)?);
            }
            _ => return Err(Pkcs10Error::Extensions),
        }
    }

    if encode(info, critical, &encoded) != info.raw {
        return Err(Pkcs10Error::Encoding);
    }
    Ok(read)
}

/// Decodes a text that is one PEM block without headers, and nothing else.
fn decode(pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let body = text.strip_suffix('\n').unwrap_or(text);
    let body = body.strip_prefix(BEGIN)?.strip_suffix(END)?;
    STANDARD.decode(body.replace('\n', "")).ok()
}

/// Returns common name and organization of a subject that has nothing else.
fn subject(subject: &X509Name<'_>) -> Option<(String, String)> {
    let mut common_name = None;
    let mut organization = None;

    for part in subject.iter_attributes() {
        let place = if *part.attr_type() == OID_X509_COMMON_NAME {
            &mut common_name
        } else if *part.attr_type() == OID_X509_ORGANIZATION_NAME {
            &mut organization
        } else {
            return None;
        };
        if place.replace(part.as_str().ok()?.to_owned()).is_some() {
            return None;
        }
    }

    Some((common_name?, organization?))
}

/// Returns the names of a request that asks for names and nothing else, and whether that extension
/// is critical.
fn alternative_names<'a>(
    info: &'a X509CertificationRequestInfo<'_>,
) -> Option<(bool, &'a [GeneralName<'a>])> {
    let [attribute] = info.attributes() else {
        return None;
    };
    let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
        return None;
    };
    let [extension] = requested.extensions.as_slice() else {
        return None;
    };
    let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
        return None;
    };
    Some((extension.critical, names.general_names.as_slice()))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// Encodes the signed part of a request with this subject and key that asks for these names.
fn encode(info: &X509CertificationRequestInfo<'_>, critical: bool, names: &[u8]) -> Vec<u8> {
    let critical = if critical {
        der_value(BOOLEAN, &[0xff])
    } else {
        Vec::new()
    };
    let names = der_value(OCTET_STRING, &der_value(SEQUENCE, names));
    let extension = der_value(SEQUENCE, &[SUBJECT_ALT_NAME, &critical, &names].concat());
    let requested = der_value(SET, &der_value(SEQUENCE, &extension));
    let attribute = der_value(SEQUENCE, &[EXTENSION_REQUEST, &requested].concat());
    let attributes = der_value(ATTRIBUTES, &attribute);

    let (subject, key) = (info.subject.as_raw(), info.subject_pki.raw);
    der_value(SEQUENCE, &[VERSION, subject, key, &attributes].concat())
}

/// Encodes a value in DER (X.690).
pub(super) fn der_value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = length.get(zeros..).unwrap_or_default();

    let mut value = vec![tag];
    match length {
        [] => value.push(0),
        [short] if *short < 0x80 => value.push(*short),
        long => {
            // At most eight bytes.
            value.push(0x80 | u8::try_from(long.len()).unwrap_or(0x7f));
            value.extend(long);
        }
    }
    value.extend(content);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_encoded_in_as_few_bytes_as_possible() {
        for (length, expected) in [
            (0, vec![0]),
            (1, vec![1]),
            (0x7f, vec![0x7f]),
            (0x80, vec![0x81, 0x80]),
            (0xff, vec![0x81, 0xff]),
            (0x100, vec![0x82, 1, 0]),
            (0x1_0000, vec![0x83, 1, 0, 0]),
        ] {
            let value = der_value(SEQUENCE, &vec![7; length]);
            assert_eq!(value[1..=expected.len()], expected, "{length}");
            assert_eq!(value.len(), 1 + expected.len() + length);
        }
    }
}
