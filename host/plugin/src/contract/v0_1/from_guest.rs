//! Converts what all answers have in common: errors of the cloud, batches, and addresses.

use std::time::Duration;

use skydock_cloud::{
    self as cloud, CloudError,
    text::{SENTENCE, shown},
};

use super::bindings::skydock::provider::types as wit;
use crate::{
    answers::{AnswerError, Checked, Element, count, text, value},
    call::CallError,
};

/// Maximum number of addresses of a node, of additional labels, and of ingress points.
pub(super) const MAX_LIST: usize = 64;

/// Bounds of the delay before a retry.
const RETRY: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60 * 60);

/// Converts the answer of a function that may fail as a whole.
pub(super) fn whole<T>(answer: Result<T, wit::CloudError>) -> Result<T, CallError> {
    answer.map_err(|error| CallError::Cloud(cloud_error(error)))
}

/// Converts a plugin's error for controllers: its text is cut off and escaped, its delay is kept within the bounds.
fn cloud_error(error: wit::CloudError) -> CloudError {
    told(error, |text| shown(&text, SENTENCE).into_owned())
}

/// Converts an error of the cloud, with this conversion of its text.
pub(super) fn told(error: wit::CloudError, text: impl Fn(String) -> String) -> CloudError {
    let retry = |retry: wit::Retry| cloud::Retry {
        after: Duration::from_millis(retry.after_ms).clamp(*RETRY.start(), *RETRY.end()),
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
pub(super) fn each<W, T>(
    questions: usize,
    answer: Result<Vec<Result<W, wit::CloudError>>, wit::CloudError>,
    check: impl Fn(W) -> Checked<T>,
) -> Result<Vec<Element<T>>, CallError> {
    batch(questions, whole(answer)?, check).map_err(CallError::BadAnswer)
}

/// Checks each element of a batch separately. A wrong number of elements makes the whole batch invalid.
fn batch<W, T>(
    questions: usize,
    answers: Vec<Result<W, wit::CloudError>>,
    check: impl Fn(W) -> Checked<T>,
) -> Checked<Vec<Element<T>>> {
    if answers.len() != questions {
        return Err(AnswerError::Length { questions, answers: answers.len() });
    }
    let element = |answer: Result<W, wit::CloudError>| match answer {
        Ok(answer) => check(answer).map(Ok),
        Err(error) => Ok(Err(cloud_error(error))),
    };
    Ok(answers.into_iter().map(element).collect())
}

/// Checks an address for its form only, as for those that a cloud's route contains, which are compared and never written.
pub(super) fn noted_address(address: wit::NodeAddress) -> Checked<cloud::NodeAddress> {
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

/// Checks a list of addresses.
pub(super) fn addresses(
    all: Vec<wit::NodeAddress>,
    check: impl Fn(wit::NodeAddress) -> Checked<cloud::NodeAddress>,
) -> Checked<Vec<cloud::NodeAddress>> {
    count("addresses", all.len(), MAX_LIST)?;
    all.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-15
    #[test]
    fn an_error_keeps_its_case_within_limits() {
        let retry = |after_ms| wit::Retry { after_ms, message: "wait".into() };
        let CloudError::Throttled(soon) = cloud_error(wit::CloudError::Throttled(retry(0))) else { panic!() };
        assert_eq!(soon.after, Duration::from_millis(100));
        let CloudError::InProgress(late) = cloud_error(wit::CloudError::InProgress(retry(u64::MAX))) else { panic!() };
        assert_eq!(late.after, Duration::from_secs(3600));
        let CloudError::Denied(text) = cloud_error(wit::CloudError::Denied("x\n".repeat(10_000))) else { panic!() };
        assert!(text.len() <= 1024 && !text.contains('\n'));
    }

    #[test]
    fn an_invalid_element_fails_alone_a_wrong_length_fails_all() {
        let found = batch(3, vec![Ok(1), Ok(2), Err(wit::CloudError::ImplementedElsewhere)], |it| {
            if it == 1 { Err(AnswerError::Missing("one")) } else { Ok(it) }
        });
        let expected = vec![Err(AnswerError::Missing("one")), Ok(Ok(2)), Ok(Err(CloudError::ImplementedElsewhere))];
        assert_eq!(found, Ok(expected));
        let none: Vec<Result<i32, wit::CloudError>> = Vec::new();
        assert_eq!(batch(1, none, Ok), Err(AnswerError::Length { questions: 1, answers: 0 }));
    }
}
