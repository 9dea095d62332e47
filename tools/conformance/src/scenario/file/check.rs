//! Mistakes in a file that its types do not find.

use std::{collections::BTreeSet, fmt};

use serde_saphyr::{Location, Spanned};
use skydock_cloud::{ArgumentKind, Function};

use super::{Action, Given, Scenario, Scenarios, Step};

/// A mistake, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// What is wrong.
    pub sentence: String,
}

/// Formats it as `LINE:COLUMN: SENTENCE`.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.sentence)
    }
}

/// Names of the objects that steps may use.
#[derive(Default)]
struct Names<'a> {
    nodes: BTreeSet<&'a str>,
    services: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn add(&mut self, given: &'a Given) {
        self.nodes
            .extend(given.nodes.iter().map(|it| it.name.as_str()));
        self.services
            .extend(given.services.iter().map(|it| it.name.as_str()));
    }
}

impl Scenarios {
    /// Checks what the types do not ensure.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), Mistake> {
        let mut seen = BTreeSet::new();
        for scenario in &self.scenarios {
            let Scenario { name, steps, .. } = &scenario.value;

            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');

            let wrong = if !is_name {
                Some(format!(
                    "the name {name:?} is not valid; expected lower-case letters, digits and dashes"
                ))
            } else if !seen.insert(name) {
                Some(format!("another scenario has the name {name}"))
            } else if steps.is_empty() {
                Some(format!("the scenario {name} has no steps"))
            } else {
                None
            };

            if let Some(sentence) = wrong {
                return Err(at(scenario.referenced, sentence));
            }

            let mut names = Names::default();
            let all = || {
                [&self.before, steps, &scenario.value.after, &self.after]
                    .into_iter()
                    .flatten()
            };

            names.add(&self.given);
            names.add(&scenario.value.given);
            all()
                .filter_map(|step| step.value.given.as_ref())
                .for_each(|given| names.add(given));

            for step in all() {
                check_step(step, &names)?;
            }
        }

        if self.scenarios.is_empty() {
            Err(Mistake {
                line: 1,
                column: 1,
                sentence: "there are no scenarios".to_owned(),
            })
        } else {
            Ok(())
        }
    }
}

fn at(place: Location, sentence: String) -> Mistake {
    Mistake {
        line: place.line(),
        column: place.column(),
        sentence,
    }
}

/// Returns true for a function whose list is that of some nodes, of their routes, or of the nodes of
/// a load balancer.
fn takes_nodes(function: Function) -> bool {
    function.answers_each() || function.takes(ArgumentKind::NodeSet)
}

fn check_step(step: &Spanned<Step>, names: &Names<'_>) -> Result<(), Mistake> {
    let wrong = |sentence: String| Err(at(step.referenced, sentence));
    let step = &step.value;

    let Some(action) = step.action() else {
        return wrong(
            "a step has exactly one of `call`, `http`, `run`, `given`, `wait`, `swap` and `restart`; `swap` may be with `call`"
                .to_owned(),
        );
    };

    let function = if let Action::Call(function) = action {
        Some(function)
    } else {
        None
    };

    let is_call = function.is_some();
    let is_run = matches!(action, Action::Run(_));
    let is_hook = is_run || matches!(action, Action::Http(_));
    let is_plain = !(step.kill.is_some() || step.answer_lost);

    let expect = &step.expect;
    let about_service = function.is_some_and(|it| it.takes(ArgumentKind::Service));

    // Each field, whether it is set, and whether it means something with the rest of the step.
    let fields = [
        (
            "nodes",
            step.nodes.is_some(),
            function.is_some_and(takes_nodes),
        ),
        ("service", step.service.is_some(), about_service),
        ("times", step.times.is_some(), is_call && is_plain),
        (
            "atOnce",
            step.at_once.is_some(),
            is_call && is_plain && step.times.is_none() && !step.swap,
        ),
        (
            "kill",
            step.kill.is_some(),
            is_call && !step.answer_lost && !step.swap,
        ),
        ("answerLost", step.answer_lost, is_call && !step.swap),
        ("input", step.input.is_some(), is_run),
        (
            "within",
            step.within.is_some(),
            is_hook || is_call && step.kill.is_none(),
        ),
        (
            "expect.answer",
            expect.answer.is_some(),
            is_call && step.kill.is_none() && expect.error.is_none(),
        ),
        ("expect.error", expect.error.is_some(), is_call && is_plain),
        (
            "expect.maxRequests",
            !expect.max_requests.is_empty(),
            is_call && step.kill.is_none() && step.at_once.is_none(),
        ),
        (
            "expect.status",
            expect.status.is_some(),
            matches!(action, Action::Http(_)),
        ),
        ("expect.exit", expect.exit.is_some(), is_run),
        ("expect.json", expect.json.is_some(), is_hook),
    ];

    if let Some((field, ..)) = fields
        .into_iter()
        .find(|(_, is_set, fits)| *is_set && !fits)
    {
        return wrong(format!("`{field}` does not go with the rest of this step"));
    }

    if about_service && step.service.is_none() {
        return wrong("`service` is missing".to_owned());
    }

    if step
        .kill
        .is_some_and(|kill| kill.after.is_none() && kill.requests.is_none())
    {
        return wrong("`kill` needs `after` or `requests`".to_owned());
    }

    if step.run.as_ref().is_some_and(Vec::is_empty) {
        return wrong("`run` needs a program".to_owned());
    }

    if step.times == Some(0) || step.at_once.is_some_and(|many| !(2..=16).contains(&many)) {
        return wrong("expected at least 1 for `times`, and 2 to 16 for `atOnce`".to_owned());
    }

    if let Some(url) = step
        .http
        .as_ref()
        .map(|http| &http.url)
        .filter(|url| url.starts_with("https:"))
    {
        return wrong(format!(
            "{url}: `http` has no TLS; use `run` with a program such as curl"
        ));
    }

    let is_method = |key: &str| key == "all" || key.bytes().all(|b| b.is_ascii_uppercase());
    if let Some(key) = expect.max_requests.keys().find(|key| !is_method(key)) {
        return wrong(format!(
            "`maxRequests`: {key:?} is not a valid method; expected for example POST, or `all`"
        ));
    }

    let unknown = |kind: &str, name: &str, known: &BTreeSet<&str>| {
        let known: Vec<_> = known.iter().copied().collect();
        format!(
            "unknown {kind} `{name}`; expected one of `{}`",
            known.join("`, `")
        )
    };

    if let Some(name) = step
        .nodes
        .iter()
        .flatten()
        .find(|name| !names.nodes.contains(name.as_str()))
    {
        return wrong(unknown("node", name, &names.nodes));
    }

    match step
        .service
        .as_ref()
        .filter(|name| !names.services.contains(name.as_str()))
    {
        Some(name) => wrong(unknown("Service", name, &names.services)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: skydock.dev/v1alpha1\nkind: Scenarios\ngiven:\n  nodes: [{name: node-1}]\n  \
                        services: [{name: web, ports: [{port: 80}]}]\nscenarios:\n";

    fn mistake(rest: &str) -> Option<String> {
        let file: Scenarios = serde_saphyr::from_str(&format!("{HEAD}{rest}")).unwrap();
        file.check().err().map(|it| it.to_string())
    }

    #[test]
    fn a_mistake_has_its_position() {
        for (step, expected) in [
            ("{name: x}", "9:5: a step has exactly one of"),
            (
                "{call: instances.check, restart: true}",
                "9:5: a step has exactly one of",
            ),
            (
                "{call: instances.check, service: web}",
                "9:5: `service` does not go",
            ),
            ("{call: load-balancers.get}", "9:5: `service` is missing"),
            (
                "{call: load-balancers.get, service: wob}",
                "9:5: unknown Service `wob`; expected one of `web`",
            ),
            (
                "{call: instances.check, nodes: [node-2]}",
                "9:5: unknown node `node-2`; expected one of `node-1`",
            ),
            ("{call: instances.check, kill: {}}", "9:5: `kill` needs"),
            (
                "{call: instances.check, answerLost: true, expect: {error: invalid}}",
                "9:5: `expect.error` does not go",
            ),
            (
                "{call: instances.check, expect: {status: 200}}",
                "9:5: `expect.status` does not go",
            ),
            (
                "{call: instances.check, expect: {answer: [], error: denied}}",
                "9:5: `expect.answer` does not go",
            ),
            (
                "{call: instances.check, expect: {maxRequests: {post: 1}}}",
                "9:5: `maxRequests`: \"post\"",
            ),
            (
                "{call: instances.check, atOnce: 1}",
                "9:5: expected at least 1",
            ),
            ("{run: []}", "9:5: `run` needs a program"),
            (
                "{http: {url: 'https://x'}}",
                "9:5: https://x: `http` has no TLS",
            ),
            ("{wait: 1s, within: 2s}", "9:5: `within` does not go"),
        ] {
            let told = mistake(&format!("- name: a\n  steps:\n  - {step}\n")).unwrap_or_default();
            assert!(told.starts_with(expected), "{told}\n{expected}");
        }

        assert_eq!(mistake("- {name: a, steps: [{swap: true}]}\n"), None);
        assert_eq!(
            mistake("- {name: a, steps: [{call: instances.check, swap: true, times: 2}]}\n"),
            None
        );

        let twice = "- {name: a, steps: [{swap: true}]}\n- {name: a, steps: [{swap: true}]}\n";
        assert_eq!(
            mistake(twice).as_deref(),
            Some("8:3: another scenario has the name a")
        );
        assert!(
            mistake("- {name: A b, steps: []}\n")
                .unwrap()
                .contains("\"A b\" is not valid")
        );
        assert!(
            mistake("- {name: a, steps: []}\n")
                .unwrap()
                .contains("has no steps")
        );
        assert_eq!(
            mistake("  []\n").as_deref(),
            Some("1:1: there are no scenarios")
        );
    }

    #[test]
    fn the_example_in_the_documentation_is_valid() {
        let page = include_str!("../../../../../docs/conformance.md");
        let example = page
            .split("```yaml\n")
            .nth(1)
            .unwrap()
            .split("```")
            .next()
            .unwrap();
        serde_saphyr::from_str::<Scenarios>(example)
            .unwrap()
            .check()
            .unwrap();
    }

    #[test]
    fn objects_that_a_step_creates_may_be_used() {
        let steps = "- {name: a, steps: [{given: {nodes: [{name: node-2}]}}, {call: instances.check, nodes: [node-2]}]}\n";
        assert_eq!(mistake(steps), None);
    }

    #[test]
    fn each_field_goes_with_some_steps_only() {
        let get = "call: load-balancers.get, service: web";
        let check = "call: instances.check";
        let refused = [
            ("{wait: 1s, times: 2}", "times"),
            (
                "{call: instances.check, kill: {after: 1s}, times: 2}",
                "times",
            ),
            (
                "{call: instances.check, answerLost: true, times: 2}",
                "times",
            ),
            ("{wait: 1s, atOnce: 2}", "atOnce"),
            (
                "{call: instances.check, kill: {after: 1s}, atOnce: 2}",
                "atOnce",
            ),
            ("{call: instances.check, times: 2, atOnce: 2}", "atOnce"),
            ("{call: instances.check, swap: true, atOnce: 2}", "atOnce"),
            ("{wait: 1s, kill: {after: 1s}}", "kill"),
            (
                "{call: instances.check, answerLost: true, kill: {after: 1s}}",
                "kill",
            ),
            (
                "{call: instances.check, swap: true, kill: {after: 1s}}",
                "kill",
            ),
            ("{wait: 1s, answerLost: true}", "answerLost"),
            (
                "{call: instances.check, swap: true, answerLost: true}",
                "answerLost",
            ),
            ("{call: instances.check, input: x}", "input"),
            (
                "{call: instances.check, kill: {after: 1s}, within: 2s}",
                "within",
            ),
            ("{wait: 1s, expect: {answer: []}}", "expect.answer"),
            (
                "{call: instances.check, kill: {after: 1s}, expect: {answer: []}}",
                "expect.answer",
            ),
            ("{wait: 1s, expect: {error: denied}}", "expect.error"),
            (
                "{wait: 1s, expect: {maxRequests: {all: 1}}}",
                "expect.maxRequests",
            ),
            (
                "{call: instances.check, kill: {after: 1s}, expect: {maxRequests: {all: 1}}}",
                "expect.maxRequests",
            ),
            (
                "{call: instances.check, atOnce: 2, expect: {maxRequests: {all: 1}}}",
                "expect.maxRequests",
            ),
        ];

        for (step, field) in refused {
            let told = mistake(&format!("- name: a\n  steps:\n  - {step}\n")).unwrap_or_default();
            assert_eq!(
                told,
                format!("9:5: `{field}` does not go with the rest of this step"),
                "{step}"
            );
        }

        for step in [
            format!(
                "{{{check}, nodes: [node-1], times: 2, within: 2s, expect: {{error: denied}}}}"
            ),
            format!("{{{get}, atOnce: 16, within: 2s, expect: {{answer: null}}}}"),
            format!("{{{get}, kill: {{after: 1s}}}}"),
            format!("{{{check}, answerLost: true, expect: {{maxRequests: {{GET: 1}}}}}}"),
            "{run: [x], input: y, within: 2s, expect: {exit: 1, json: {}}}".to_owned(),
            "{http: {url: 'http://x'}, within: 2s, expect: {status: 200, json: {}}}".to_owned(),
        ] {
            assert_eq!(
                mistake(&format!("- name: a\n  steps:\n  - {step}\n")),
                None,
                "{step}"
            );
        }
    }
}
