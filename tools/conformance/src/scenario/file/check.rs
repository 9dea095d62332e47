//! Mistakes in a file that its types do not find.

use std::{collections::BTreeSet, fmt};

use serde_saphyr::{Location, Spanned};
use skydock_cloud::{ArgumentKind, CallKind, Function};

use super::{Action, Given, Kill, Scenario, Scenarios, Step};

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
    volumes: BTreeSet<&'a str>,
    snapshots: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn add(&mut self, given: &'a Given) {
        self.nodes
            .extend(given.nodes.iter().map(|it| it.name.as_str()));
        self.services
            .extend(given.services.iter().map(|it| it.name.as_str()));
        self.volumes
            .extend(given.volumes.iter().map(|it| it.name.as_str()));
        self.snapshots
            .extend(given.snapshots.iter().map(|it| it.name.as_str()));
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
    let is_about_volumes = CallKind::from(function.capability()) == CallKind::Volumes;
    function.answers_each() && !is_about_volumes || function.takes(ArgumentKind::NodeSet)
}

/// Returns true for a function whose list is that of some snapshots.
fn takes_snapshots(function: Function) -> bool {
    function.takes(ArgumentKind::NewSnapshots) || function.takes(ArgumentKind::SnapshotIds)
}

/// Returns true for a function whose list is that of some volumes.
fn takes_volumes(function: Function) -> bool {
    function.answers_each() && !takes_nodes(function) && !takes_snapshots(function)
}

/// Checks a step whose objects have these names.
fn check_step(step: &Spanned<Step>, names: &Names<'_>) -> Result<(), Mistake> {
    let checked = check_fields(&step.value)
        .and_then(|()| check_values(&step.value))
        .and_then(|()| check_names(&step.value, names));

    checked.map_err(|sentence| at(step.referenced, sentence))
}

/// Checks that the fields of a step go together, and that none is missing.
fn check_fields(step: &Step) -> Result<(), String> {
    let Some(action) = step.action() else {
        return Err(
            "a step has exactly one of `call`, `http`, `run`, `given`, `wait`, `swap` and `restart`; `swap` may be with `call`"
                .to_owned(),
        );
    };

    let misplaced = fields(action, step)
        .into_iter()
        .find(|(_, is_set, fits)| *is_set && !fits);
    if let Some((field, ..)) = misplaced {
        return Err(format!("`{field}` does not go with the rest of this step"));
    }

    if is_about_service(action) && step.service.is_none() {
        return Err("`service` is missing".to_owned());
    }

    let is_never = |kill: Kill| kill.after.is_none() && kill.requests.is_none();
    if step.kill.is_some_and(is_never) {
        return Err("`kill` needs `after` or `requests`".to_owned());
    }

    Ok(())
}

/// Returns true for a call about a Service.
fn is_about_service(action: Action<'_>) -> bool {
    matches!(action, Action::Call(function) if function.takes(ArgumentKind::Service))
}

/// Returns each field, whether it is set, and whether it means something with the rest of the step.
fn fields(action: Action<'_>, step: &Step) -> [(&'static str, bool, bool); 16] {
    let expect = &step.expect;

    let is_call = matches!(action, Action::Call(_));
    let takes = |what: fn(Function) -> bool| matches!(action, Action::Call(it) if what(it));
    let is_http = matches!(action, Action::Http(_));
    let is_run = matches!(action, Action::Run(_));

    let is_killed = step.kill.is_some();
    let is_plain = is_call && !is_killed && !step.answer_lost;

    [
        ("nodes", step.nodes.is_some(), takes(takes_nodes)),
        ("volumes", step.volumes.is_some(), takes(takes_volumes)),
        (
            "snapshots",
            step.snapshots.is_some(),
            takes(takes_snapshots),
        ),
        ("service", step.service.is_some(), is_about_service(action)),
        ("times", step.times.is_some(), is_plain),
        (
            "atOnce",
            step.at_once.is_some(),
            is_plain && step.times.is_none() && !step.swap,
        ),
        (
            "kill",
            is_killed,
            is_call && !step.answer_lost && !step.swap,
        ),
        ("answerLost", step.answer_lost, is_call && !step.swap),
        ("input", step.input.is_some(), is_run),
        (
            "within",
            step.within.is_some(),
            is_http || is_run || is_call && !is_killed,
        ),
        (
            "expect.answer",
            expect.answer.is_some(),
            is_call && !is_killed && expect.error.is_none(),
        ),
        ("expect.error", expect.error.is_some(), is_plain),
        (
            "expect.maxRequests",
            !expect.max_requests.is_empty(),
            is_call && !is_killed && step.at_once.is_none(),
        ),
        ("expect.status", expect.status.is_some(), is_http),
        ("expect.exit", expect.exit.is_some(), is_run),
        ("expect.json", expect.json.is_some(), is_http || is_run),
    ]
}

/// Checks the values that types allow, and that mean nothing.
fn check_values(step: &Step) -> Result<(), String> {
    if step.run.as_ref().is_some_and(Vec::is_empty) {
        return Err("`run` needs a program".to_owned());
    }

    if step.times == Some(0) || step.at_once.is_some_and(|many| !(2..=16).contains(&many)) {
        return Err("expected at least 1 for `times`, and 2 to 16 for `atOnce`".to_owned());
    }

    let url = step.http.as_ref().map(|http| &http.url);
    if let Some(url) = url.filter(|url| url.starts_with("https:")) {
        return Err(format!(
            "{url}: `http` has no TLS; use `run` with a program such as curl"
        ));
    }

    let is_method = |key: &str| key == "all" || key.bytes().all(|b| b.is_ascii_uppercase());
    let mut methods = step.expect.max_requests.keys();
    if let Some(key) = methods.find(|key| !is_method(key)) {
        return Err(format!(
            "`maxRequests`: {key:?} is not a valid method; expected for example POST, or `all`"
        ));
    }

    Ok(())
}

/// Checks that the objects of a step exist.
fn check_names(step: &Step, names: &Names<'_>) -> Result<(), String> {
    let known = |kind: &str, name: &str, known: &BTreeSet<&str>| {
        if known.contains(name) {
            return Ok(());
        }

        let known: Vec<_> = known.iter().copied().collect();
        Err(format!(
            "unknown {kind} `{name}`; expected one of `{}`",
            known.join("`, `")
        ))
    };

    for name in step.nodes.iter().flatten() {
        known("node", name, &names.nodes)?;
    }
    for name in step.volumes.iter().flatten() {
        known("volume", name, &names.volumes)?;
    }
    for name in step.snapshots.iter().flatten() {
        known("snapshot", name, &names.snapshots)?;
    }
    if let Some(name) = &step.service {
        known("Service", name, &names.services)?;
    }

    Ok(())
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
            (
                "{call: instances.check, volumes: [a]}",
                "9:5: `volumes` does not go",
            ),
            (
                "{call: volumes.delete-volumes, nodes: [node-1]}",
                "9:5: `nodes` does not go",
            ),
            (
                "{call: snapshots.create-snapshots, volumes: [a]}",
                "9:5: `volumes` does not go",
            ),
            (
                "{call: attachments.attach-volumes, volumes: [a]}",
                "9:5: unknown volume `a`",
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
            let message =
                mistake(&format!("- name: a\n  steps:\n  - {step}\n")).unwrap_or_default();
            assert!(message.starts_with(expected), "{message}\n{expected}");
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
        let rejected = [
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

        for (step, field) in rejected {
            let message =
                mistake(&format!("- name: a\n  steps:\n  - {step}\n")).unwrap_or_default();
            assert_eq!(
                message,
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
