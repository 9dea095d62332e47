//! The errors of independent steps, as one.

use std::time::Duration;

use skydock_sdk::types::CloudError;

/// Returns one error for the errors of independent steps, or `None` if there is none.
///
/// It is retried if one of them would be, and people hear of it if they should hear of one of them.
pub(crate) fn join(mut errors: Vec<CloudError>) -> Option<CloudError> {
    let all_invalid = errors
        .iter()
        .all(|error| matches!(error, CloudError::Invalid(_)));

    // The most important one decides; `sort` keeps the order of equal ones.
    errors.sort_by_key(precedence);
    let mut texts: Vec<String> = Vec::new();
    for error in &errors {
        if !texts.iter().any(|text| text == error.message()) {
            texts.push(error.message().to_owned());
        }
    }

    let first = errors.into_iter().next()?;
    if texts.len() == 1 {
        return Some(first);
    }

    let text = texts.join("; ");
    Some(match first {
        // An invalid Service alone is not retried, but the other errors have to be.
        CloudError::Invalid(_) if !all_invalid => CloudError::internal(text),
        CloudError::NotFound(_) => CloudError::internal(text),
        CloudError::Denied(_) => CloudError::denied(text),
        CloudError::Invalid(_) => CloudError::invalid(text),
        CloudError::Unavailable(_) => CloudError::unavailable(text),
        CloudError::Conflict(_) => CloudError::conflict(text),
        CloudError::Throttled(retry) => {
            CloudError::throttled(Duration::from_millis(retry.after_ms), text)
        }
        CloudError::InProgress(retry) => {
            CloudError::in_progress(Duration::from_millis(retry.after_ms), text)
        }
        CloudError::Internal(_) | CloudError::ImplementedElsewhere => CloudError::internal(text),
    })
}

/// Throttling comes first, because AWS asks for a pause; what passes by itself comes last.
fn precedence(error: &CloudError) -> u8 {
    match error {
        CloudError::Throttled(_) => 0,
        CloudError::Invalid(_) => 1,
        CloudError::Denied(_) | CloudError::Internal(_) | CloudError::NotFound(_) => 2,
        CloudError::Unavailable(_) => 3,
        CloudError::Conflict(_) => 4,
        CloudError::InProgress(_) | CloudError::ImplementedElsewhere => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_independent_steps_become_one_error() {
        let second = Duration::from_secs(1);
        let internal = || CloudError::internal("state");
        let invalid = || CloudError::invalid("text");
        for (errors, expected) in [
            (vec![], None),
            (vec![invalid()], Some(invalid())),
            (vec![internal(), internal()], Some(internal())),
            (
                vec![internal(), invalid()],
                Some(CloudError::internal("text; state")),
            ),
            (
                vec![CloudError::in_progress(second, "wait"), invalid()],
                Some(CloudError::internal("text; wait")),
            ),
            (
                vec![invalid(), CloudError::invalid("other")],
                Some(CloudError::invalid("text; other")),
            ),
            (
                vec![CloudError::in_progress(second, "wait"), internal()],
                Some(CloudError::internal("state; wait")),
            ),
            (
                vec![internal(), CloudError::throttled(second, "slow")],
                Some(CloudError::throttled(second, "slow; state")),
            ),
        ] {
            assert_eq!(join(errors), expected);
        }
    }
}
