//! Certificates of the server: from files, or self-signed.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write as _},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use x509_parser::extensions::GeneralName;

use super::{TlsError, parameters::provider};

/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Names of the files in `--cert-dir`, as upstream.
const PAIR: &str = "cloud-controller-manager";

/// A certificate with its chain, and its private key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// A certificate for clients that ask for one of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The files.
    pub files: CertificateFiles,
    /// Names, of which the first label may be `*`. If there are none, those in the certificate.
    pub names: Vec<String>,
}

impl NamedCertificate {
    /// Parses `CERTIFICATE,KEY` or `CERTIFICATE,KEY:NAME,NAME`, as upstream.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME".to_owned();
        let (files, names) = match text.split_once(':') {
            Some((files, names)) if !names.trim().is_empty() => (files, names),
            Some(_) => return Err(expected()),
            None => (text, ""),
        };

        let (certificate, key) = files.split_once(',').ok_or_else(expected)?;
        let (certificate, key) = (certificate.trim(), key.trim());
        if certificate.is_empty() || key.is_empty() || key.contains(',') {
            return Err(expected());
        }
        let names = names.split(',').map(|name| name.trim().to_owned());
        Ok(Self {
            files: CertificateFiles {
                certificate: certificate.into(),
                key: key.into(),
            },
            names: names.filter(|name| !name.is_empty()).collect(),
        })
    }
}

/// Contents of files, which have secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    /// Reads these files.
    pub(crate) fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, TlsError> {
        let mut files = Self::default();
        for path in paths {
            let failed = |source| TlsError::Read {
                file: path.to_owned(),
                source,
            };

            let mut content = Vec::new();
            let file = fs::File::open(path).map_err(failed)?;
            let read = file.take(MAX_FILE + 1).read_to_end(&mut content);
            if read.map_err(failed)? as u64 > MAX_FILE {
                return Err(failed(io::ErrorKind::FileTooLarge.into()));
            }
            files.0.insert(path.to_owned(), content);
        }
        Ok(files)
    }

    pub(crate) fn get(&self, path: &Path) -> &[u8] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }

    fn pair(&self, files: &CertificateFiles) -> Result<Arc<CertifiedKey>, TlsError> {
        let chain = CertificateDer::pem_slice_iter(self.get(&files.certificate));
        let chain: Result<Vec<_>, _> = chain.collect();
        let chain = chain
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| TlsError::Certificates(files.certificate.clone()))?;
        let key = PrivateKeyDer::from_pem_slice(self.get(&files.key))
            .map_err(|_| TlsError::Key(files.key.clone()))?;

        let pair = CertifiedKey::from_der(chain, key, &provider());
        pair.map(Arc::new).map_err(|source| TlsError::Pair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            source,
        })
    }
}

/// Where the certificate is from that clients get if none has their name.
#[derive(Clone)]
pub(crate) enum Source {
    Files(CertificateFiles),
    /// It is self-signed, and exists only in memory.
    Memory(Arc<CertifiedKey>),
}

impl Source {
    /// Returns the source: the files, the directory, into which a self-signed certificate is
    /// written if it has none, or memory.
    pub(crate) fn new(
        files: Option<CertificateFiles>,
        directory: Option<&Path>,
        bind: IpAddr,
    ) -> Result<Self, TlsError> {
        if let Some(files) = files {
            return Ok(Self::Files(files));
        }
        let Some(directory) = directory else {
            let (certificate, key) = self_signed(bind).map_err(TlsError::Create)?;
            let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
            let pair = CertifiedKey::from_der(vec![certificate.der().clone()], key, &provider())?;
            return Ok(Self::Memory(Arc::new(pair)));
        };

        let files = CertificateFiles {
            certificate: directory.join(format!("{PAIR}.crt")),
            key: directory.join(format!("{PAIR}.key")),
        };
        match (files.certificate.exists(), files.key.exists()) {
            (true, true) => {}
            (true, false) => return Err(TlsError::Half(files.certificate, files.key)),
            (false, true) => return Err(TlsError::Half(files.key, files.certificate)),
            (false, false) => {
                let (certificate, key) = self_signed(bind).map_err(TlsError::Create)?;
                write(&files.key, &key.serialize_pem(), 0o600)?;
                write(&files.certificate, &certificate.pem(), 0o644)?;
            }
        }
        Ok(Self::Files(files))
    }

    /// Returns the files that have to be read.
    pub(crate) fn files(&self) -> Vec<&Path> {
        match self {
            Self::Files(files) => vec![&files.certificate, &files.key],
            Self::Memory(_) => Vec::new(),
        }
    }
}

/// Creates a certificate for this machine, for a year, as upstream.
fn self_signed(
    bind: IpAddr,
) -> Result<(rcgen::Certificate, KeyPair), Box<dyn std::error::Error + Send + Sync>> {
    let own = match bind.is_unspecified() {
        true => "localhost".to_owned(),
        false => bind.to_string(),
    };
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), own];
    names.sort();
    names.dedup();

    let now = Timestamp::now();
    let today = now.to_zoned(TimeZone::UTC).date();
    let date = |date: Date| -> Result<_, std::num::TryFromIntError> {
        let (month, day) = (u8::try_from(date.month())?, u8::try_from(date.day())?);
        Ok(date_time_ymd(date.year().into(), month, day))
    };

    let mut params = CertificateParams::new(names)?;
    let name = format!("localhost@{}", now.as_second());
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date(today.checked_sub(1.day())?)?;
    params.not_after = date(today.checked_add(1.year())?)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?, key))
}

/// Writes a new file with this mode.
fn write(file: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    let written = || {
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut options = fs::OpenOptions::new();
        let mut created = options.write(true).create_new(true).mode(mode).open(file)?;
        created.write_all(text.as_bytes())
    };
    written().map_err(|source| TlsError::Write {
        file: file.to_owned(),
        source,
    })
}

/// The certificates of a server.
#[derive(Debug)]
pub(crate) struct Certificates {
    default: Arc<CertifiedKey>,
    /// By names in lower case.
    named: BTreeMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    pub(crate) fn new(
        source: &Source,
        named: &[NamedCertificate],
        files: &Files,
    ) -> Result<Self, TlsError> {
        let default = match source {
            Source::Files(pair) => files.pair(pair)?,
            Source::Memory(pair) => Arc::clone(pair),
        };

        let mut by_name = BTreeMap::new();
        // Names that are set take precedence over those in certificates.
        let is_implicit = |it: &&NamedCertificate| it.names.is_empty();
        let (implicit, explicit): (Vec<_>, Vec<_>) = named.iter().partition(is_implicit);
        for certificate in explicit.into_iter().chain(implicit) {
            let pair = files.pair(&certificate.files)?;
            let names = match certificate.names.as_slice() {
                [] => names_in(&pair),
                names => names.to_vec(),
            };
            for name in names {
                let name = name.to_ascii_lowercase();
                by_name.entry(name).or_insert_with(|| Arc::clone(&pair));
            }
        }
        Ok(Self {
            default,
            named: by_name,
        })
    }

    /// Returns the certificate for a client that asks for this name.
    fn for_name(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let name = name.map(str::to_ascii_lowercase).unwrap_or_default();
        let wildcard = || self.named.get(&format!("*.{}", name.split_once('.')?.1));
        let found = self.named.get(&name).or_else(wildcard);
        Arc::clone(found.unwrap_or(&self.default))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.for_name(hello.server_name()))
    }
}

/// Returns the names that a certificate is for.
fn names_in(pair: &CertifiedKey) -> Vec<String> {
    let names = || {
        let (_, parsed) = x509_parser::parse_x509_certificate(pair.cert.first()?).ok()?;
        let extension = parsed.subject_alternative_name().ok()??;
        let names = extension.value.general_names.iter();
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        Some(names.collect())
    };
    names().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::tls::testing::Authority;

    #[test]
    fn named_certificates_are_written_as_for_upstream() {
        let parsed = NamedCertificate::parse("a.crt, a.key: *.foo.com,foo.com").unwrap();
        assert_eq!(parsed.files.certificate, Path::new("a.crt"));
        assert_eq!(parsed.files.key, Path::new("a.key"));
        assert_eq!(parsed.names, ["*.foo.com", "foo.com"]);
        assert!(NamedCertificate::parse("a,b").unwrap().names.is_empty());
        for wrong in ["a", "a,b,c", "a,b:", ",b", "a,"] {
            assert!(NamedCertificate::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_selects_the_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let pair = |name: &str, hosts: &[&str], names: &[&str]| {
            let (certificate, key) = authority.server(hosts);
            let path = |end: &str| dir.path().join(format!("{name}.{end}"));
            fs::write(path("crt"), certificate).unwrap();
            fs::write(path("key"), key).unwrap();
            NamedCertificate {
                files: CertificateFiles {
                    certificate: path("crt"),
                    key: path("key"),
                },
                names: names.iter().map(|&it| it.to_owned()).collect(),
            }
        };
        let default = pair("default", &["localhost"], &[]).files;
        let named = [
            pair("implicit", &["api.example", "*.example.com"], &[]),
            pair("explicit", &["x"], &["API.example"]),
        ];
        let source = Source::new(Some(default.clone()), None, Ipv4Addr::UNSPECIFIED.into());
        let source = source.unwrap();
        let all = named.iter().map(|it| &it.files).chain([&default]);
        let all: Vec<_> = all
            .flat_map(|it| [it.certificate.as_path(), &it.key])
            .collect();
        let files = Files::read(all).unwrap();
        let certificates = Certificates::new(&source, &named, &files).unwrap();

        for (name, expected) in [
            (None, "default"),
            (Some("localhost"), "default"),
            (Some("api.EXAMPLE"), "explicit"),
            (Some("a.example.com"), "implicit"),
            (Some("example.com"), "default"),
            (Some("a.b.example.com"), "default"),
        ] {
            let found = certificates.for_name(name);
            let file = dir.path().join(format!("{expected}.crt"));
            let pem = CertificateDer::from_pem_file(file).unwrap();
            assert_eq!(found.cert[0], pem, "{name:?}");
        }

        // The key of another certificate.
        let mixed = CertificateFiles {
            key: named[0].files.key.clone(),
            ..default
        };
        assert!(matches!(files.pair(&mixed), Err(TlsError::Pair { .. })));
    }

    #[test]
    fn a_directory_keeps_the_self_signed_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("certs");
        let bind = IpAddr::from([192, 0, 2, 1]);
        let read = || {
            let source = Source::new(None, Some(&directory), bind).unwrap();
            let files = Files::read(source.files()).unwrap();
            let certificates = Certificates::new(&source, &[], &files).unwrap();
            certificates.default.cert[0].clone()
        };
        assert_eq!(read(), read());

        let key = directory.join("cloud-controller-manager.key");
        let mode = fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(&key).unwrap();
        let half = Source::new(None, Some(&directory), bind);
        assert!(matches!(half, Err(TlsError::Half(..))));
    }

    #[test]
    fn a_self_signed_certificate_is_for_this_machine() {
        let source = Source::new(None, None, Ipv4Addr::UNSPECIFIED.into()).unwrap();
        let certificates = Certificates::new(&source, &[], &Files::default()).unwrap();
        assert_eq!(names_in(&certificates.default), ["localhost"]);
    }
}
