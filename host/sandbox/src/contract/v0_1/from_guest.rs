//! Converts what all answers have in common: errors of the cloud, batches, and addresses.

use std::time::Duration;

use skydock_cloud::{
    self as cloud, CloudError, StorageError,
    text::{SENTENCE, cut, shown},
};
use skydock_secrets::redacted;

use super::bindings::skydock::provider::{storage, types as wit};
use crate::{
    answers::{AnswerError, Checked, Element, MAX_LIST, count, text, value},
    call_error::CallError,
};

/// Converts the answer of a function that may fail as a whole.
pub(super) fn single_answer<T>(answer: Result<T, wit::CloudError>) -> Result<T, CallError> {
    answer.map_err(|error| CallError::Cloud(cloud_error(error)))
}

/// Converts a plugin's error for controllers: its text is cut off and escaped and loses secrets, its
/// delay is kept within the bounds.
fn cloud_error(error: wit::CloudError) -> CloudError {
    with_text(error, |text| sentence(&text))
}

/// Returns the text of an error cut off, escaped and without secrets.
fn sentence(text: &str) -> String {
    shown(&redacted(cut(text, SENTENCE)), SENTENCE).into_owned()
}

/// An error of an element of an answer.
pub(super) trait ElementError {
    /// What it is for controllers.
    type Converted;

    /// Converts it like [`cloud_error`].
    fn convert(self) -> Self::Converted;
}

impl ElementError for wit::CloudError {
    type Converted = CloudError;

    fn convert(self) -> CloudError {
        cloud_error(self)
    }
}

impl ElementError for storage::StorageError {
    type Converted = StorageError;

    fn convert(self) -> StorageError {
        match self {
            Self::Cloud(error) => StorageError::Cloud(cloud_error(error)),
            Self::Exists(text) => StorageError::Exists(sentence(&text)),
            Self::Exhausted(text) => StorageError::Exhausted(sentence(&text)),
            Self::OutOfRange(text) => StorageError::OutOfRange(sentence(&text)),
            Self::InUse(text) => StorageError::InUse(sentence(&text)),
        }
    }
}

/// Converts an error of the cloud, with this conversion of its text.
pub(super) fn with_text(error: wit::CloudError, text: impl Fn(String) -> String) -> CloudError {
    let retry = |retry: wit::Retry| cloud::Retry {
        after: cloud::Retry::bounded(Duration::from_millis(retry.after_ms)),
        message: text(retry.message),
    };

    match error {
        wit::CloudError::NotFound(it) => CloudError::NotFound(text(it)),
        wit::CloudError::ImplementedElsewhere => CloudError::ImplementedElsewhere,
        wit::CloudError::Conflict(it) => CloudError::Conflict(text(it)),
        wit::CloudError::Throttled(it) => CloudError::Throttled(retry(it)),
        wit::CloudError::InProgress(it) => CloudError::InProgress(retry(it)),
        wit::CloudError::Denied(it) => CloudError::Denied(text(it)),
        wit::CloudError::Invalid(it) => CloudError::Invalid(text(it)),
        wit::CloudError::Unavailable(it) => CloudError::Unavailable(text(it)),
        wit::CloudError::Internal(it) => CloudError::Internal(text(it)),
    }
}

/// Converts the answer of a function about several objects that may fail as a whole.
pub(super) fn each<Q, W, T, E: ElementError>(
    questions: &[Q],
    answer: Result<Vec<Result<W, E>>, wit::CloudError>,
    check: impl Fn(&Q, W) -> Checked<T>,
) -> Result<Vec<Element<T, E::Converted>>, CallError> {
    batch(questions, single_answer(answer)?, check).map_err(CallError::BadAnswer)
}

/// Checks each element of a batch separately. A wrong number of elements makes the whole batch
/// invalid.
fn batch<Q, W, T, E: ElementError>(
    questions: &[Q],
    answers: Vec<Result<W, E>>,
    check: impl Fn(&Q, W) -> Checked<T>,
) -> Checked<Vec<Element<T, E::Converted>>> {
    if answers.len() != questions.len() {
        return Err(AnswerError::Length {
            questions: questions.len(),
            answers: answers.len(),
        });
    }

    let element = |(question, answer): (&Q, Result<W, E>)| match answer {
        Ok(answer) => check(question, answer).map(Ok),
        Err(error) => Ok(Err(error.convert())),
    };

    Ok(questions.iter().zip(answers).map(element).collect())
}

/// Checks addresses for their form only. Nothing else is needed for those of a cloud's route, which
/// are compared and never written.
pub(super) fn addresses(all: Vec<wit::NodeAddress>) -> Checked<Vec<cloud::NodeAddress>> {
    count("addresses", all.len(), MAX_LIST)?;
    all.into_iter().map(address).collect()
}

fn address(address: wit::NodeAddress) -> Checked<cloud::NodeAddress> {
    let (kind, is_ip) = match address.kind {
        wit::AddressKind::Hostname => (cloud::AddressKind::Hostname, false),
        wit::AddressKind::InternalIp => (cloud::AddressKind::InternalIp, true),
        wit::AddressKind::ExternalIp => (cloud::AddressKind::ExternalIp, true),
        wit::AddressKind::InternalDns => (cloud::AddressKind::InternalDns, false),
        wit::AddressKind::ExternalDns => (cloud::AddressKind::ExternalDns, false),
    };

    let address = if is_ip {
        text::ip("address", &address.address)?.to_string()
    } else {
        let ok = text::is_host_name(&address.address);
        value("address", &address.address, "a DNS name", ok.then_some(()))?;
        address.address
    };

    Ok(cloud::NodeAddress { kind, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-15
    #[test]
    fn an_error_keeps_its_case_within_limits() {
        let retry = |after_ms| wit::Retry {
            after_ms,
            message: "wait".into(),
        };
        let CloudError::Throttled(soon) = cloud_error(wit::CloudError::Throttled(retry(0))) else {
            panic!()
        };
        assert_eq!(soon.after, Duration::from_millis(100));

        let CloudError::InProgress(late) =
            cloud_error(wit::CloudError::InProgress(retry(u64::MAX)))
        else {
            panic!()
        };
        assert_eq!(late.after, Duration::from_secs(3600));

        let CloudError::Denied(text) = cloud_error(wit::CloudError::Denied("x\n".repeat(10_000)))
        else {
            panic!()
        };
        assert!(text.len() <= 1024 && !text.contains('\n'));
    }

    /// Accepts any answer.
    fn right<Q, T>(_: &Q, answer: T) -> Checked<T> {
        Ok(answer)
    }

    #[test]
    fn an_error_keeps_its_case_and_text() {
        let text = || "why".to_owned();
        let (asked, waits) = (
            || wit::Retry {
                after_ms: 5000,
                message: text(),
            },
            || cloud::Retry {
                after: Duration::from_secs(5),
                message: text(),
            },
        );
        let table = [
            (
                wit::CloudError::NotFound(text()),
                CloudError::NotFound(text()),
            ),
            (
                wit::CloudError::ImplementedElsewhere,
                CloudError::ImplementedElsewhere,
            ),
            (
                wit::CloudError::Conflict(text()),
                CloudError::Conflict(text()),
            ),
            (
                wit::CloudError::Throttled(asked()),
                CloudError::Throttled(waits()),
            ),
            (
                wit::CloudError::InProgress(asked()),
                CloudError::InProgress(waits()),
            ),
            (wit::CloudError::Denied(text()), CloudError::Denied(text())),
            (
                wit::CloudError::Invalid(text()),
                CloudError::Invalid(text()),
            ),
            (
                wit::CloudError::Unavailable(text()),
                CloudError::Unavailable(text()),
            ),
            (
                wit::CloudError::Internal(text()),
                CloudError::Internal(text()),
            ),
        ];
        for (in_contract, in_host) in table {
            assert_eq!(cloud_error(in_contract.clone()), in_host);
            let failed: Result<(), _> = Err(in_contract.clone());
            assert!(
                matches!(single_answer(failed), Err(CallError::Cloud(error)) if error == in_host)
            );
            let all = Err::<Vec<Result<(), wit::CloudError>>, _>(in_contract);
            let all = each(&[0], all, right);
            assert!(matches!(all, Err(CallError::Cloud(error)) if error == in_host));
        }

        assert!(matches!(single_answer::<u8>(Ok(7)), Ok(7)));
        assert!(matches!(
            each(&[0], Ok(vec![Ok::<_, wit::CloudError>(7)]), right).as_deref(),
            Ok([Ok(Ok(7))])
        ));
        assert!(matches!(
            each(&[0, 1], Ok(vec![Ok::<_, wit::CloudError>(7)]), right),
            Err(CallError::BadAnswer(AnswerError::Length { .. }))
        ));
    }

    // Holds: SEC-15
    #[test]
    fn an_error_about_volumes_keeps_its_case_on_one_line() {
        use storage::StorageError as Guest;
        let text = || "vol-1\nis in use".to_owned();
        let shown = || "vol-1\\nis in use".to_owned();
        for (error, expected) in [
            (
                Guest::Cloud(wit::CloudError::NotFound(text())),
                StorageError::Cloud(CloudError::NotFound(shown())),
            ),
            (Guest::Exists(text()), StorageError::Exists(shown())),
            (Guest::Exhausted(text()), StorageError::Exhausted(shown())),
            (Guest::OutOfRange(text()), StorageError::OutOfRange(shown())),
            (Guest::InUse(text()), StorageError::InUse(shown())),
        ] {
            let all = each(&[0], Ok(vec![Err::<(), _>(error)]), right).unwrap();
            assert_eq!(all, [Ok(Err(expected))]);
        }
    }

    #[test]
    fn an_address_is_converted_by_its_kind() {
        use wit::AddressKind as Kind;
        let checked = |kind, text: &str| {
            address(wit::NodeAddress {
                kind,
                address: text.into(),
            })
        };
        let noted = |kind, address: &str| {
            Ok(cloud::NodeAddress {
                kind,
                address: address.into(),
            })
        };
        for (kind, address, expected) in [
            (
                Kind::Hostname,
                "Node_1",
                noted(cloud::AddressKind::Hostname, "Node_1"),
            ),
            (
                Kind::InternalDns,
                "a.b",
                noted(cloud::AddressKind::InternalDns, "a.b"),
            ),
            (
                Kind::ExternalDns,
                "a.b",
                noted(cloud::AddressKind::ExternalDns, "a.b"),
            ),
            (
                Kind::InternalIp,
                "10.0.0.1",
                noted(cloud::AddressKind::InternalIp, "10.0.0.1"),
            ),
            (
                Kind::ExternalIp,
                "2001:DB8:0::1",
                noted(cloud::AddressKind::ExternalIp, "2001:db8::1"),
            ),
        ] {
            assert_eq!(checked(kind, address), expected);
        }
        for (kind, text) in [
            (Kind::InternalIp, "a.b"),
            (Kind::InternalIp, "10.0.0.1/24"),
            (Kind::InternalIp, "010.0.0.1"),
            (Kind::ExternalIp, ""),
            (Kind::Hostname, "a b"),
            (Kind::ExternalDns, ""),
        ] {
            assert!(checked(kind, text).is_err(), "{text}");
        }
        let many = |count| {
            vec![
                wit::NodeAddress {
                    kind: Kind::Hostname,
                    address: "a".into()
                };
                count
            ]
        };
        assert_eq!(addresses(many(64)).unwrap().len(), 64);

        let excess = AnswerError::TooMany {
            what: "addresses",
            count: 65,
            limit: 64,
        };
        assert_eq!(addresses(many(65)), Err(excess));
    }

    #[test]
    fn an_invalid_element_fails_alone_a_wrong_length_fails_all() {
        let found = batch(
            &["a", "b", "c"],
            vec![Ok(1), Ok(2), Err(wit::CloudError::ImplementedElsewhere)],
            |question, it| {
                if *question == "a" {
                    Err(AnswerError::Missing("one"))
                } else {
                    Ok(it)
                }
            },
        );
        let expected = vec![
            Err(AnswerError::Missing("one")),
            Ok(Ok(2)),
            Ok(Err(CloudError::ImplementedElsewhere)),
        ];
        assert_eq!(found, Ok(expected));

        let none: Vec<Result<i32, wit::CloudError>> = Vec::new();
        assert_eq!(
            batch(&[0], none, right),
            Err(AnswerError::Length {
                questions: 1,
                answers: 0
            })
        );
    }
}
