//! Selects the faults of requests. Pure: the same seed and the same requests result in the same
//! faults.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::Fault;

/// A rule that injects a fault into certain requests.
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
    /// Creates a rule that injects this fault into every request of these operations. `*` matches
    /// anything.
    #[must_use]
    pub fn new(operation: &str, fault: Fault) -> Self {
        let operation = operation.to_owned();
        Self {
            operation,
            fault,
            containing: None,
            probability: 1.0,
            after: 0,
            times: u64::MAX,
        }
    }

    /// Limits the rule to requests that contain this text in their path, query or body.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.containing = Some(text.to_owned());
        self
    }

    /// Limits the rule to this fraction of the requests, chosen by the seed. Each operation is
    /// counted separately, so the order between requests of different operations does not matter.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Skips this number of requests first.
    #[must_use]
    pub fn after(mut self, passed: u64) -> Self {
        self.after = passed;
        self
    }

    /// Limits how often the fault is injected.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// All rules, and the number of requests that each was checked for.
#[derive(Debug)]
pub(super) struct Rules {
    seed: u64,
    rules: Vec<(Rule, Seen)>,
    /// The number of rules ever added, which identifies a rule for random choices.
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
        Self {
            seed,
            rules: Vec::new(),
            added: 0,
        }
    }

    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push((
            rule,
            Seen {
                number: self.added,
                ..Seen::default()
            },
        ));
        self.added += 1;
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Returns the faults of the next request of this operation, in the order of the rules.
    /// `contains` returns whether the request contains a text.
    pub(super) fn next(&mut self, operation: &str, contains: impl Fn(&str) -> bool) -> Vec<Fault> {
        let seed = self.seed;
        let mut faults = Vec::new();
        for (rule, seen) in &mut self.rules {
            if !matches(&rule.operation, operation)
                || !rule.containing.as_deref().is_none_or(&contains)
            {
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
                    Fault::Latency(least, most) => {
                        Fault::Delay(between(least, most, chance("how long")))
                    }
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

/// Returns a number in `0..1` that depends only on these values.
fn chance(seed: u64, rule: u64, operation: &str, nth: u64, what: &str) -> f64 {
    let mut hash = Sha256::new();
    for number in [seed, rule, nth] {
        hash.update(number.to_le_bytes());
    }
    hash.update(what);
    hash.update(operation);
    let number = hash
        .finalize()
        .iter()
        .take(6)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    #[allow(clippy::cast_precision_loss, reason = "48 bits fit")]
    let share = number as f64 / (1_u64 << 48) as f64;
    share
}

/// Returns true if the name matches the pattern, in which `*` matches anything.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    // All positions where the rest can begin.
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
        operations
            .iter()
            .map(|operation| rules.next(operation, |_| false).len())
            .collect()
    }

    #[test]
    fn a_star_matches_anything() {
        assert!(
            matches("ec2:Describe*", "ec2:DescribeInstances")
                && matches("*", "")
                && matches("*a*b", "xaxb")
        );
        assert!(matches("GET */servers/{id}", "GET compute/servers/{id}"));
        assert!(
            !matches("ec2:Describe*", "elb:DescribeX") && !matches("*a", "ab") && !matches("", "a")
        );
    }

    #[test]
    fn a_rule_starts_after_some_requests_and_ends() {
        let mut rules = Rules::new(0);
        rules.add(Rule::new("a", Fault::Status(500)).after(1).times(2));
        let counts: Vec<usize> = (0..5).map(|_| rules.next("a", |_| false).len()).collect();
        assert_eq!(counts, [0, 1, 1, 0, 0]);
        assert!(rules.next("b", |_| false).is_empty());
    }

    #[test]
    fn a_rule_applies_only_to_requests_with_its_text() {
        let mut rules = Rules::new(0);
        rules.add(Rule::new("*", Fault::Lost).containing("marker="));
        assert!(rules.next("a", |text| "limit=1".contains(text)).is_empty());
        assert_eq!(
            rules.next("a", |text| "limit=1&marker=x".contains(text)),
            [Fault::Lost]
        );
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
    fn faults_of_an_operation_are_independent_of_others() {
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
        let within =
            |fault: &Fault| matches!(fault, Fault::Delay(time) if (least..=most).contains(time));
        assert!(
            drawn.iter().all(within) && drawn[0] != drawn[1],
            "{drawn:?}"
        );
    }
}
