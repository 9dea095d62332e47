//! vSphere's Web Services API: a session is a cookie.

use std::time::Duration;

use http::Uri;

use super::{LoggedIn, captured, post};
use crate::{
    config::{Capture, VsphereSoapConfig},
    masking::secret::Secret,
    request::encode,
    secret_requests::soap::SESSION_COOKIE,
    sources::{failure::Failure, file::SecretFile, issuer_client::IssuerClient},
};

/// When a session is renewed. vCenter ends it after 30 minutes without requests, and then answers
/// with 500 and a SOAP fault instead of 401, which does not cause a renewal. The time counts from the
/// login, since the last request may have been the login.
const LIFETIME: Duration = Duration::from_secs(25 * 60);

/// A login with user name and password.
pub(crate) struct Vsphere {
    config: VsphereSoapConfig,
    user: SecretFile,
    password: SecretFile,
}

impl Vsphere {
    pub(crate) fn new(config: &VsphereSoapConfig) -> Self {
        Self {
            config: config.clone(),
            user: SecretFile::new(&config.user_file),
            password: SecretFile::new(&config.password_file),
        }
    }

    pub(crate) fn files(&self) -> [SecretFile; 2] {
        [self.user.clone(), self.password.clone()]
    }

    pub(crate) fn uri(&self) -> Uri {
        self.config.url.uri()
    }

    pub(super) async fn log_in(&self, issuer: &IssuerClient) -> Result<LoggedIn, Failure> {
        // A user name is not a secret, and may occur in many texts.
        let user = self.user.text().await?;
        let password = issuer.read(&self.password).await?;
        let envelope = login_envelope(&self.config.session_manager, text(&user)?, text(&password)?);

        let mut request = post(
            self.config.url.as_str(),
            "text/xml; charset=\"utf-8\"",
            envelope,
        )?;
        request
            .headers_mut()
            .insert("SOAPAction", http::HeaderValue::from_static("urn:vim25"));

        // A rejected login has status 500, which would otherwise count as unavailable.
        let answer = issuer.ask(request).await?;
        if answer.status().is_server_error()
            && let Some(sentence) = rejection(answer.body())
        {
            return Err(Failure::denied(sentence));
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

fn text(secret: &Secret) -> Result<&str, Failure> {
    secret
        .expose_str()
        .ok_or_else(|| Failure::malformed("the user name or password is not UTF-8"))
}

/// Returns the body of a login. It is part of a request, whose memory is not cleared.
fn login_envelope(manager: &str, user: &str, password: &str) -> String {
    format!(
        concat!(
            r#"<?xml version="1.0" encoding="UTF-8"?>"#,
            r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>"#,
            r#"<Login xmlns="urn:vim25"><_this type="SessionManager">{manager}</_this>"#,
            r#"<userName>{user}</userName><password>{password}</password></Login>"#,
            r#"</soapenv:Body></soapenv:Envelope>"#
        ),
        manager = encode::xml(manager),
        user = encode::xml(user),
        password = encode::xml(password),
    )
}

/// Returns why the login was denied, according to the fault in the answer. It is the first element of
/// `detail`, and its name or type is that of the fault.
fn rejection(body: &[u8]) -> Option<&'static str> {
    let body = std::str::from_utf8(body).ok()?;
    let (_, detail) = body.split_once("<detail>")?;
    let (fault, _) = detail.trim_start().strip_prefix('<')?.split_once('>')?;

    let is = |name: &str| {
        fault
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(|word| word.strip_suffix("Fault").unwrap_or(word) == name)
    };
    if is("InvalidLogin") {
        Some("vSphere rejected the user name or password")
    } else if is("NoPermission") {
        Some(
            "vSphere does not allow the user to log in: give it a role with the privilege `System.View`",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_escaped() {
        let envelope = login_envelope("Session<Manager>", "vsphere.local\\a&b", "<p>&\"'");
        let parts = [
            "<_this type=\"SessionManager\">Session&lt;Manager&gt;</_this>",
            "<userName>vsphere.local\\a&amp;b</userName>",
            "<password>&lt;p&gt;&amp;&quot;&apos;</password>",
        ];
        for part in parts {
            assert!(envelope.contains(part), "{part}: {envelope}");
        }
    }

    #[test]
    fn only_a_fault_about_the_login_denies_it() {
        let fault = |text: &str, detail: &str| {
            format!(
                "<soapenv:Fault><faultstring>{text}</faultstring><detail>{detail}</detail></soapenv:Fault>"
            )
        };
        for (body, word) in [
            (fault("", "<InvalidLoginFault/>"), Some("password")),
            (
                fault(
                    "Cannot complete login.",
                    "\n<InvalidLoginFault xmlns=\"urn:vim25\" xsi:type=\"InvalidLogin\"></InvalidLoginFault>",
                ),
                Some("password"),
            ),
            (
                fault("", "<Fault xsi:type=\"InvalidLogin\"></Fault>"),
                Some("password"),
            ),
            (
                fault(
                    "Permission to perform this operation was denied.",
                    "<NoPermissionFault xmlns=\"urn:vim25\" xsi:type=\"NoPermission\"><privilegeId>System.View</privilegeId></NoPermissionFault>",
                ),
                Some("System.View"),
            ),
            (
                fault(
                    "InvalidLogin",
                    "<RuntimeFaultFault>NoPermission</RuntimeFaultFault>",
                ),
                None,
            ),
            ("<html>InvalidLogin</html>".to_owned(), None),
            (String::new(), None),
        ] {
            let sentence = rejection(body.as_bytes());
            assert_eq!(sentence.is_some(), word.is_some(), "{body}");
            assert!(
                sentence
                    .unwrap_or_default()
                    .contains(word.unwrap_or_default())
            );
        }
    }
}
