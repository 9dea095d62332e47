//! vSphere's Web Services API: a session is a cookie.

use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use zeroize::Zeroizing;

use super::{LoggedIn, captured, post};
use crate::request::encode;
use crate::{
    config::{Capture, VsphereSoapConfig},
    secret_requests::soap::SESSION_COOKIE,
    sources::{failure::Failure, file::SecretFile, issuer_client::IssuerClient},
};

/// Sessions are renewed before vCenter ends them, which happens after 30 minutes without requests.
/// vCenter then answers with 500 and a SOAP fault instead of 401, which does not cause a renewal.
const LIFETIME: Duration = Duration::from_secs(25 * 60);

/// A login with user name and password.
pub(crate) struct Vsphere {
    config: VsphereSoapConfig,
    /// The files with the user name and the password.
    files: [SecretFile; 2],
}

impl Vsphere {
    pub(crate) fn new(config: &VsphereSoapConfig) -> Self {
        let files = [
            SecretFile::new(&config.user_file),
            SecretFile::new(&config.password_file),
        ];
        Self {
            config: config.clone(),
            files,
        }
    }

    pub(crate) fn files(&self) -> &[SecretFile] {
        &self.files
    }

    pub(crate) fn uri(&self) -> Uri {
        self.config.url.uri()
    }

    pub(super) async fn log_in(&self, issuer: &IssuerClient) -> Result<LoggedIn, Failure> {
        let [user, password] = &self.files;
        // A user name is not a secret, and may occur in many texts.
        let user = user.text().await?;
        let password = issuer.read(password).await?;

        let escaped = |text: Option<&str>| Zeroizing::new(encode::xml(text.unwrap_or_default()));
        let body = Zeroizing::new(format!(
            concat!(
                r#"<?xml version="1.0" encoding="UTF-8"?>"#,
                r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>"#,
                r#"<Login xmlns="urn:vim25"><_this type="SessionManager">{manager}</_this>"#,
                r#"<userName>{user}</userName><password>{password}</password></Login>"#,
                r#"</soapenv:Body></soapenv:Envelope>"#
            ),
            manager = encode::xml(&self.config.session_manager),
            user = *escaped(user.expose_str()),
            password = *escaped(password.expose_str()),
        ));

        let body = Bytes::copy_from_slice(body.as_bytes());
        let mut request = post(
            self.config.url.as_str(),
            "text/xml; charset=\"utf-8\"",
            body,
        )?;
        request
            .headers_mut()
            .insert("SOAPAction", http::HeaderValue::from_static("urn:vim25"));

        // A rejected login has status 500, which would otherwise count as unavailable.
        let answer = issuer.ask(request).await?;
        if answer.status().is_server_error() && is_invalid_login(answer.body()) {
            return Err(Failure::denied(
                "vSphere rejected the user name or password",
            ));
        }

        let answer = issuer.succeeded(self.uri().host().unwrap_or_default(), answer)?;
        let token = captured(issuer, &answer, &Capture::Cookie(SESSION_COOKIE.to_owned()))?;
        Ok(LoggedIn {
            token,
            lifetime: Some(LIFETIME),
            answer,
        })
    }
}

/// Returns true if the login was denied. This is reported as a SOAP fault with status 500.
fn is_invalid_login(body: &[u8]) -> bool {
    ["InvalidLogin", "NoPermission"].iter().any(|fault| {
        body.windows(fault.len())
            .any(|part| part == fault.as_bytes())
    })
}
