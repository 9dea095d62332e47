//! Which versions, cipher suites and key exchanges are offered, by the names that Go has for them.

use rustls::{
    SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, ring},
    version::{TLS12, TLS13},
};

/// Cipher suites of Go that are not offered: they are weak, or at least not needed.
const NOT_OFFERED: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Key exchanges of Go (`tls.CurveID`) that are not offered: P-521, and hybrids with ML-KEM.
const CURVES_NOT_OFFERED: [u16; 4] = [25, 4587, 4588, 4589];

static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
static ONLY_TLS13: [&SupportedProtocolVersion; 1] = [&TLS13];

/// The lowest version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// What is offered.
#[derive(Clone, Debug)]
pub struct TlsParameters {
    version: TlsVersion,
    suites: Vec<SupportedCipherSuite>,
    groups: Vec<&'static dyn SupportedKxGroup>,
}

/// Returns what rustls has.
pub(crate) fn provider() -> CryptoProvider {
    ring::default_provider()
}

impl Default for TlsParameters {
    fn default() -> Self {
        let provider = provider();
        Self {
            version: TlsVersion::default(),
            suites: provider.cipher_suites,
            groups: provider.kx_groups,
        }
    }
}

impl TlsParameters {
    /// Restricts what is offered; an empty list restricts nothing. Also returns the names in the
    /// lists that Go knows and that are never offered.
    ///
    /// As in Go, cipher suites of TLS 1.3 are offered unless the list has some of these.
    ///
    /// # Errors
    /// If a name is not known, or nothing is left; the sentence names the flag.
    pub fn restricted(
        version: TlsVersion,
        suites: &[String],
        curves: &[u16],
    ) -> Result<(Self, Vec<String>), String> {
        let all = Self::default();
        let mut ignored = Vec::new();

        let mut listed = Vec::new();
        for name in suites {
            match all.suites.iter().find(|suite| is_named(suite, name)) {
                Some(suite) => listed.push(*suite),
                None if NOT_OFFERED.contains(&name.as_str()) => {
                    ignored.push(format!("--tls-cipher-suites={name}"));
                }
                None => {
                    let names: Vec<_> = all.suites.iter().map(go_name).collect();
                    let names = names.join(", ");
                    return Err(format!(
                        "--tls-cipher-suites: {name:?} is not a cipher suite; expected {names}"
                    ));
                }
            }
        }
        let suites = match listed.iter().any(is_tls13) {
            _ if suites.is_empty() => all.suites,
            true => listed,
            false => {
                let tls13 = all.suites.into_iter().filter(is_tls13);
                tls13.chain(listed).collect()
            }
        };

        let mut groups = Vec::new();
        for curve in curves {
            let is_it = |group: &&&'static dyn SupportedKxGroup| u16::from(group.name()) == *curve;
            match all.groups.iter().find(is_it) {
                Some(group) => groups.push(*group),
                None if CURVES_NOT_OFFERED.contains(curve) => {
                    ignored.push(format!("--tls-curve-preferences={curve}"));
                }
                None => {
                    return Err(format!(
                        "--tls-curve-preferences: {curve} is not the number of a curve; expected 23 (P-256), 24 (P-384) or 29 (X25519)"
                    ));
                }
            }
        }
        if groups.is_empty() && !curves.is_empty() {
            return Err(
                "--tls-curve-preferences: none of these is supported; add 23 (P-256), 24 (P-384) or 29 (X25519)"
                    .to_owned(),
            );
        }
        if curves.is_empty() {
            groups = all.groups;
        }

        let parameters = Self {
            version,
            suites,
            groups,
        };
        Ok((parameters, ignored))
    }

    pub(crate) fn provider(&self) -> CryptoProvider {
        CryptoProvider {
            cipher_suites: self.suites.clone(),
            kx_groups: self.groups.clone(),
            ..provider()
        }
    }

    pub(crate) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        let has_tls12 = self.suites.iter().any(|suite| !is_tls13(suite));
        match self.version {
            TlsVersion::Tls12 if has_tls12 => &BOTH,
            TlsVersion::Tls12 | TlsVersion::Tls13 => &ONLY_TLS13,
        }
    }
}

fn is_tls13(suite: &SupportedCipherSuite) -> bool {
    suite.tls13().is_some()
}

/// Returns the name of a cipher suite in Go and in RFCs.
fn go_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replace("TLS13_", "TLS_")
}

/// Returns whether this is the name of the cipher suite, or the one that Go had for it.
fn is_named(suite: &SupportedCipherSuite, name: &str) -> bool {
    let known = go_name(suite);
    known == name
        || (name.ends_with("_WITH_CHACHA20_POLY1305") && known == format!("{name}_SHA256"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cipher suites and curves that are offered, and what is ignored.
    type Restricted = (Vec<String>, Vec<u16>, Vec<String>);

    fn restricted(suites: &[&str], curves: &[u16]) -> Result<Restricted, String> {
        let suites: Vec<_> = suites.iter().map(|&name| name.to_owned()).collect();
        let (parameters, ignored) = TlsParameters::restricted(TlsVersion::Tls12, &suites, curves)?;
        let mut names: Vec<_> = parameters.suites.iter().map(go_name).collect();
        names.sort();
        let groups = parameters.groups.iter().map(|it| it.name().into());
        Ok((names, groups.collect(), ignored))
    }

    const ALWAYS: [&str; 3] = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ];

    #[test]
    fn cipher_suites_have_the_names_of_go() {
        let (all, groups, ignored) = restricted(&[], &[]).unwrap();
        assert_eq!((all.len(), groups.len(), ignored.len()), (9, 3, 0));

        let gcm = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        let (names, ..) = restricted(&[gcm], &[]).unwrap();
        assert_eq!(names, [ALWAYS[0], ALWAYS[1], ALWAYS[2], gcm]);
        let (names, ..) = restricted(&[ALWAYS[1], gcm], &[]).unwrap();
        assert_eq!(names, [ALWAYS[1], gcm]);
        let (names, ..) = restricted(&["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"], &[]).unwrap();
        assert_eq!(names[3], "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256");
    }

    #[test]
    fn weak_cipher_suites_are_never_offered() {
        let weak = "TLS_RSA_WITH_AES_128_GCM_SHA256";
        let (names, _, ignored) = restricted(&[weak], &[]).unwrap();
        assert_eq!(names, ALWAYS);
        assert_eq!(ignored, [format!("--tls-cipher-suites={weak}")]);

        for name in NOT_OFFERED {
            assert!(restricted(&[name], &[]).is_ok(), "{name}");
        }
        let error = restricted(&["TLS_NULL"], &[]).unwrap_err();
        assert!(
            error.contains("\"TLS_NULL\" is not a cipher suite; expected ")
                && error.contains(ALWAYS[0]),
            "{error}"
        );
    }

    #[test]
    fn curves_have_the_numbers_of_go() {
        let (_, groups, ignored) = restricted(&[], &[4588, 29, 23]).unwrap();
        assert_eq!(groups, [29, 23]);
        assert_eq!(ignored, ["--tls-curve-preferences=4588"]);
        assert!(restricted(&[], &[4588]).is_err());
        assert!(restricted(&[], &[1]).is_err());
    }

    #[test]
    fn versions_follow_from_the_minimum_and_the_cipher_suites() {
        for (version, suites, expected) in [
            (TlsVersion::Tls12, vec![], 2),
            (TlsVersion::Tls13, vec![], 1),
            (TlsVersion::Tls12, vec![ALWAYS[0].to_owned()], 1),
        ] {
            let (parameters, _) = TlsParameters::restricted(version, &suites, &[]).unwrap();
            assert_eq!(parameters.versions().len(), expected);
        }
    }
}
