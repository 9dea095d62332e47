//! Sends a request about several things, for example instances, so that one that AWS rejects does not
//! affect the others.

use skydock_sdk::types::CloudError;

use super::failure::Failure;
use crate::tags::Tags;

/// Maximum number of requests to find rejected elements. The others are left to the next call.
const MOST: usize = 40;

/// What AWS did with the elements of a request that it rejected first.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    /// The elements that AWS rejected alone, or by name, and the reason.
    pub(crate) rejected: Vec<(T, Failure)>,
    /// Why it is unknown for the rest.
    pub(crate) failed: Option<Failure>,
}

struct Search<'a, T> {
    name: &'a dyn Fn(&T) -> &str,
    send: &'a dyn Fn(&[T]) -> Result<(), Failure>,
    left: usize,
    outcome: Outcome<T>,
}

/// Sends a request again for parts of these elements, after AWS rejected it for all of them.
///
/// The elements that the error names in any form are left out. If it names none or all, the parts
/// are halves, so that its words do not matter. `name` returns an ID that no other text contains, or
/// an empty text.
pub(crate) fn without_rejected<T: Clone>(
    all: &[T],
    failure: Failure,
    name: &dyn Fn(&T) -> &str,
    send: &dyn Fn(&[T]) -> Result<(), Failure>,
) -> Outcome<T> {
    let mut search = Search {
        name,
        send,
        left: MOST,
        outcome: Outcome {
            rejected: Vec::new(),
            failed: None,
        },
    };
    search.split(all, failure);
    search.outcome
}

impl<T: Clone> Search<'_, T> {
    fn split(&mut self, part: &[T], failure: Failure) {
        if !failure.may_be_about_one() {
            self.outcome.failed.get_or_insert(failure);
            return;
        }
        if let [one] = part {
            self.outcome.rejected.push((one.clone(), failure));
            return;
        }

        let text = failure.to_string();
        let (named, rest): (Vec<T>, Vec<T>) = part
            .iter()
            .cloned()
            .partition(|one| names(&text, (self.name)(one)));

        if named.is_empty() || rest.is_empty() {
            let (first, second) = part.split_at(part.len() / 2);
            self.retry(first, &failure);
            self.retry(second, &failure);
        } else {
            let rejected = named.into_iter().map(|one| (one, failure.clone()));
            self.outcome.rejected.extend(rejected);
            self.retry(&rest, &failure);
        }
    }

    fn retry(&mut self, part: &[T], before: &Failure) {
        if self.left == 0 {
            self.outcome.failed.get_or_insert_with(|| before.clone());
            return;
        }
        self.left -= 1;
        if let Err(failure) = (self.send)(part) {
            self.split(part, failure);
        }
    }
}

/// Adds those of these tags that AWS accepts, after it rejected them together.
///
/// # Errors
/// Names the tags that AWS rejects, or returns why it is unknown.
pub(crate) fn add_tags(
    tags: &Tags,
    failure: Failure,
    send: &dyn Fn(&Tags) -> Result<(), Failure>,
) -> skydock_sdk::Result<()> {
    let all: Vec<(String, String)> = tags.clone().into_iter().collect();
    let send = |part: &[(String, String)]| send(&part.iter().cloned().collect());
    // The words of an error can contain a key by chance.
    let outcome = without_rejected(&all, failure, &|_| "", &send);

    if let Some(failure) = outcome.failed {
        return Err(failure.into());
    }
    let rejected = outcome.rejected.iter();
    let texts: Vec<String> = rejected
        .map(|((key, _), failure)| format!("AWS rejects the tag {key}: {failure}"))
        .collect();

    if texts.is_empty() {
        return Ok(());
    }
    Err(CloudError::internal(texts.join("; ")))
}

/// Returns true if a text contains this ID, and not only as the beginning of another one.
pub(crate) fn names(text: &str, id: &str) -> bool {
    !id.is_empty()
        && text.match_indices(id).any(|(at, _)| {
            let after = text.get(at + id.len()..).unwrap_or_default();
            !after.starts_with(|next: char| next.is_ascii_alphanumeric())
        })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn rejection(code: &str, message: &str) -> Failure {
        Failure::Rejected {
            action: "RegisterTargets",
            status: 400,
            code: code.into(),
            message: message.into(),
        }
    }

    /// Sends IDs to a cloud that rejects those that begin with `bad`. Returns the rejected ones, the
    /// registered ones, and the number of requests.
    fn sent(all: &[&str], words: &dyn Fn(&[&str]) -> String) -> (String, String, usize) {
        let (registered, count) = (RefCell::new(Vec::new()), RefCell::new(0));
        let answer = |part: &[&str]| {
            let bad: Vec<&str> = part
                .iter()
                .copied()
                .filter(|id| id.starts_with("bad"))
                .collect();
            if bad.is_empty() {
                registered
                    .borrow_mut()
                    .extend(part.iter().map(|id| (*id).to_owned()));
                Ok(())
            } else {
                Err(rejection("InvalidTarget", &words(&bad)))
            }
        };
        let send = |part: &[&str]| {
            *count.borrow_mut() += 1;
            answer(part)
        };
        let outcome = without_rejected(all, answer(all).unwrap_err(), &|id| *id, &send);
        assert_eq!(outcome.failed, None);
        let mut rejected: Vec<&str> = outcome.rejected.iter().map(|(id, _)| *id).collect();
        rejected.sort_unstable();
        let mut registered = registered.into_inner();
        registered.sort_unstable();
        (rejected.join(" "), registered.join(" "), count.into_inner())
    }

    #[test]
    fn a_rejected_instance_is_found_whatever_the_words_are() {
        let all = ["bad1", "i1", "i2", "bad10", "i3"];
        let expected = ("bad1 bad10".to_owned(), "i1 i2 i3".to_owned());
        let mut counts = Vec::new();
        for words in [
            &(|bad: &[&str]| format!("not running: '{}'", bad.join("', '")))
                as &dyn Fn(&[&str]) -> String,
            &|bad| format!("EC2 instance {} is not in running state.", bad[0]),
            &|bad| format!("Instance ID {}, is wrong", bad[0]),
            &|_| "The specified target does not exist or has an unsupported type".to_owned(),
            &|_| format!("one of {} is wrong", all.join(",")),
        ] {
            let (rejected, registered, count) = sent(&all, words);
            assert_eq!((rejected, registered), expected.clone());
            counts.push(count);
        }
        assert_eq!(counts[..3], [1, 2, 2]);
        assert!(counts[3..].iter().all(|count| *count < 10), "{counts:?}");
    }

    #[test]
    fn an_error_about_the_request_is_not_searched() {
        for code in [
            "Throttling",
            "AccessDenied",
            "TargetGroupNotFound",
            "TooManyTargets",
        ] {
            let never = |_: &[&str]| panic!("sent again");
            let outcome = without_rejected(&["a", "b"], rejection(code, "a"), &|id| *id, &never);
            assert!(outcome.rejected.is_empty(), "{code}");
            assert_eq!(outcome.failed, Some(rejection(code, "a")));
        }
    }

    #[test]
    fn the_search_for_rejected_instances_ends() {
        let all: Vec<String> = (0..100).map(|number| format!("bad{number}")).collect();
        let count = RefCell::new(0);
        let send = |_: &[String]| {
            *count.borrow_mut() += 1;
            Err(rejection("InvalidTarget", "words"))
        };
        let outcome = without_rejected(&all, rejection("InvalidTarget", "words"), &|id| id, &send);
        assert!(outcome.failed.is_some());
        assert_eq!(count.into_inner(), MOST);
    }
}
