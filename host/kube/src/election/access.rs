//! Whether this process may use the Lease.

use super::Failure;

/// What the API server has answered to requests for the Lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseAccess {
    /// It has not answered yet.
    #[default]
    Unknown,
    /// It has answered, and the last answer was no denial.
    Granted,
    /// It has denied the last attempt: the account is unknown, or has no permission.
    Denied,
}

impl LeaseAccess {
    /// Takes note of the result of an attempt. Without an answer, nothing is known that was not known
    /// before: a replica that could lead can still lead when the API server is back.
    pub(super) fn observe<T>(&mut self, tried: &Result<T, Failure>) {
        *self = match tried {
            Ok(_) => Self::Granted,
            Err(Failure::Api(kube::Error::Api(status))) => match status.code {
                401 | 403 => Self::Denied,
                // Another replica was faster.
                409 => Self::Granted,
                _ => *self,
            },
            Err(_) => *self,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;

    use super::*;

    #[test]
    fn the_last_answer_decides_about_access() {
        let answer = |code| {
            Err(Failure::from(kube::Error::Api(Box::new(
                Status::failure("", "").with_code(code),
            ))))
        };
        let silent = Err(Failure::Silent(Duration::from_secs(5)));
        let mut access = LeaseAccess::default();

        for (tried, known) in [
            (&silent, LeaseAccess::Unknown),
            (&answer(503), LeaseAccess::Unknown),
            (&answer(403), LeaseAccess::Denied),
            (&silent, LeaseAccess::Denied),
            (&Ok(()), LeaseAccess::Granted),
            (&answer(500), LeaseAccess::Granted),
            (&answer(401), LeaseAccess::Denied),
            (&answer(409), LeaseAccess::Granted),
        ] {
            access.observe(tried);
            assert_eq!(access, known, "after {tried:?}");
        }
    }
}
