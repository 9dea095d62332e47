//! Which requests are treated how. Pure: the same seed and the same requests have the same faults.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::Fault;

/// What happens to certain requests.
#[derive(Debug, Clone)]
pub struct Rule {
    operation: String,
    fault: Fault,
    containing: Option<String>,
    probability: f64,
    after: u64,
    times: u64,
}

impl Rule {
    /// This fault for every request of these operations; `*` stands for anything.
    #[must_use]
    pub fn new(operation: &str, fault: Fault) -> Self {
        let operation = operation.to_owned();
        Self { operation, fault, containing: None, probability: 1.0, after: 0, times: u64::MAX }
    }

    /// Only for requests with this text in their path, query or body.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.containing = Some(text.to_owned());
        self
    }

    /// Only for this share of them, chosen by the seed: for each operation by itself, so that it does not matter how requests
    /// of several operations are mixed.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Only after so many have passed.
    #[must_use]
    pub fn after(mut self, passed: u64) -> Self {
        self.after = passed;
        self
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// All rules, and how often each was looked at.
#[derive(Debug)]
pub(super) struct Rules {
    seed: u64,
    rules: Vec<(Rule, Seen)>,
    /// How many rules there have ever been: a rule's number, for chance.
    added: u64,
}

#[derive(Debug, Default)]
struct Seen {
    number: u64,
    matched: u64,
    fired: u64,
    by_operation: HashMap<String, u64>,
}

impl Rules {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, rules: Vec::new(), added: 0 }
    }

    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push((rule, Seen { number: self.added, ..Seen::default() }));
        self.added += 1;
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The faults of the next request of this operation, in the order of the rules; `contains` tells if a text is in it.
    pub(super) fn next(&mut self, operation: &str, contains: impl Fn(&str) -> bool) -> Vec<Fault> {
        let seed = self.seed;
        let mut faults = Vec::new();
        for (rule, seen) in &mut self.rules {
            if !matches(&rule.operation, operation) || !rule.containing.as_deref().is_none_or(&contains) {
                continue;
            }
            seen.matched += 1;
            if seen.matched <= rule.after || seen.fired >= rule.times {
                continue;
            }
            let nth = seen.by_operation.entry(operation.to_owned()).or_default();
            *nth += 1;
            let chance = |what: &str| chance(seed, seen.number, operation, *nth, what);
            if chance("fires") < rule.probability {
                seen.fired += 1;
                faults.push(match rule.fault {
                    Fault::Latency(least, most) => Fault::Delay(between(least, most, chance("how long"))),
                    ref fault => fault.clone(),
                });
            }
        }
        faults
    }
}

fn between(least: Duration, most: Duration, share: f64) -> Duration {
    least + most.saturating_sub(least).mul_f64(share)
}

/// A number from 0 up to 1 that depends on all of these and on nothing else.
fn chance(seed: u64, rule: u64, operation: &str, nth: u64, what: &str) -> f64 {
    let mut hash = Sha256::new();
    for number in [seed, rule, nth] {
        hash.update(number.to_le_bytes());
    }
    hash.update(what);
    hash.update(operation);
    let number = hash.finalize().iter().take(6).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    #[allow(clippy::cast_precision_loss, reason = "48 bits fit")]
    let share = number as f64 / (1_u64 << 48) as f64;
    share
}

/// True if the name is the pattern, in which `*` stands for anything.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    // Each place where the rest could begin.
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| rest.get(at..).is_some_and(|rest| matches(after, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, operations: &[&str]) -> Vec<usize> {
        let mut rules = Rules::new(seed);
        rules.add(Rule::new("*", Fault::Lost).with_probability(0.5));
        operations.iter().map(|operation| rules.next(operation, |_| false).len()).collect()
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("ec2:Describe*", "ec2:DescribeInstances") && matches("*", "") && matches("*a*b", "xaxb"));
        assert!(matches("GET */servers/{id}", "GET compute/servers/{id}"));
        assert!(!matches("ec2:Describe*", "elb:DescribeX") && !matches("*a", "ab") && !matches("", "a"));
    }

    #[test]
    fn a_script_lets_some_pass_and_ends() {
        let mut rules = Rules::new(0);
        rules.add(Rule::new("a", Fault::Status(500)).after(1).times(2));
        let counts: Vec<usize> = (0..5).map(|_| rules.next("a", |_| false).len()).collect();
        assert_eq!(counts, [0, 1, 1, 0, 0]);
        assert!(rules.next("b", |_| false).is_empty());
    }

    #[test]
    fn only_requests_with_the_text_are_meant() {
        let mut rules = Rules::new(0);
        rules.add(Rule::new("*", Fault::Lost).containing("marker="));
        assert!(rules.next("a", |text| "limit=1".contains(text)).is_empty());
        assert_eq!(rules.next("a", |text| "limit=1&marker=x".contains(text)), [Fault::Lost]);
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let hundred = ["a"; 100];
        assert_eq!(drawn(7, &hundred), drawn(7, &hundred));
        assert_ne!(drawn(7, &hundred), drawn(8, &hundred));
        let fired: usize = drawn(7, &hundred).iter().sum();
        assert!((30..70).contains(&fired), "{fired}");
    }

    #[test]
    fn what_an_operation_draws_does_not_depend_on_the_others() {
        let alone = drawn(3, &["a"; 50]);
        let mixed = drawn(3, &["a", "b"].repeat(50));
        assert_eq!(alone, mixed.iter().step_by(2).copied().collect::<Vec<_>>());
    }

    #[test]
    fn latency_is_between_its_bounds_and_varies() {
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(30));
        let mut rules = Rules::new(1);
        rules.add(Rule::new("*", Fault::Latency(least, most)));
        let drawn: Vec<Fault> = (0..20).flat_map(|_| rules.next("a", |_| false)).collect();
        let within = |fault: &Fault| matches!(fault, Fault::Delay(time) if (least..=most).contains(time));
        assert!(drawn.iter().all(within) && drawn[0] != drawn[1], "{drawn:?}");
    }
}
