//! The findings of a run, for people and programs.

use std::fmt::Write as _;

use quick_xml::escape::escape as escape_xml;
use serde::Serialize;
use skydock_cloud::text::escape;
use skydock_sandbox::CONTRACT;

use crate::Check;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// The plugin does what the contract demands.
    Ok,
    /// It does not.
    Failed {
        /// What the contract demands.
        expected: String,
        /// What the plugin did.
        seen: String,
        /// What to do.
        hint: String,
    },
    /// The check does not apply, for this reason.
    Skipped {
        /// For example that the plugin does not export the interface.
        reason: String,
    },
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check, or of the scenario and the number of its step.
    pub check: String,
    /// What is true of a plugin that passes, or what the step does.
    pub text: String,
    /// `FILE:LINE` of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How it ended.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Finding {
    pub(crate) fn new(check: Check, verdict: Verdict) -> Self {
        Self {
            check: check.name().to_owned(),
            text: check.text().to_owned(),
            at: None,
            verdict,
        }
    }
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for each check, and a summary.
    #[default]
    Human,
    /// One JSON object.
    Json,
    /// JUnit's XML, which CI systems show.
    Junit,
}

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subjects {
    /// What the contract demands of each plugin.
    Conformance,
    /// Scenarios with a cloud.
    Scenarios,
}

impl Subjects {
    /// Returns the name of the report, and of what it counts.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Conformance => ("conformance", "checks"),
            Self::Scenarios => ("scenarios", "steps"),
        }
    }
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What it is about.
    pub report: Subjects,
    /// Version of the contract.
    pub contract: &'static str,
    /// One for each check or step.
    pub findings: Vec<Finding>,
}

/// A report in JSON.
#[derive(Serialize)]
struct Json<'a> {
    summary: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    #[serde(flatten)]
    report: &'a Report,
}

impl Report {
    pub(crate) fn new(report: Subjects) -> Self {
        Self {
            report,
            contract: CONTRACT,
            findings: Vec::new(),
        }
    }

    /// Adds the line of a check.
    pub(crate) fn add(&mut self, check: Check, verdict: Verdict) {
        self.findings.push(Finding::new(check, verdict));
    }

    /// Returns true if no check failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failed() == 0
    }

    fn failed(&self) -> usize {
        self.findings
            .iter()
            .filter(|it| matches!(it.verdict, Verdict::Failed { .. }))
            .count()
    }

    fn skipped(&self) -> usize {
        self.findings
            .iter()
            .filter(|it| matches!(it.verdict, Verdict::Skipped { .. }))
            .count()
    }

    fn passed(&self) -> usize {
        self.findings.len() - self.failed() - self.skipped()
    }

    /// Returns the last line, for example `conformance 0.1.1: 20 of 20 checks passed, 4 skipped`.
    #[must_use]
    pub fn badge(&self) -> String {
        let (name, counted) = self.report.words();
        let skipped = self.skipped();

        let more = if skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };

        let run = self.findings.len() - skipped;
        format!(
            "{name} {}: {} of {run} {counted} passed{more}",
            self.contract,
            self.passed()
        )
    }

    /// Returns the report in this format.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn write(&self, format: Format) -> serde_json::Result<String> {
        Ok(match format {
            Format::Human => self.human(),
            Format::Json => serde_json::to_string_pretty(&self.json())? + "\n",
            Format::Junit => self.junit(),
        })
    }

    fn json(&self) -> Json<'_> {
        let passed = self.passed();
        let failed = self.failed();
        let skipped = self.skipped();

        Json {
            summary: self.badge(),
            passed,
            failed,
            skipped,
            report: self,
        }
    }

    fn human(&self) -> String {
        let mut text = String::new();
        for Finding {
            check,
            text: statement,
            at,
            verdict,
        } in &self.findings
        {
            let _ = match verdict {
                Verdict::Ok => writeln!(text, "ok       {check}: {}", escape(statement)),
                Verdict::Skipped { reason } => {
                    writeln!(text, "skipped  {check}: {}", escape(reason))
                }
                Verdict::Failed {
                    expected,
                    seen,
                    hint,
                } => {
                    let _ = writeln!(text, "FAILED   {check}: {}", escape(statement));
                    if let Some(at) = at {
                        let _ = writeln!(text, "         at:       {at}");
                    }
                    let [expected, seen] = [expected, seen].map(|it| escape(it));
                    writeln!(
                        text,
                        "         expected: {expected}\n         seen:     {seen}\n         to do:    {hint}"
                    )
                }
            };
        }

        text + &self.badge() + "\n"
    }

    fn junit(&self) -> String {
        let (name, _) = self.report.words();

        let counts = format!(
            "tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"0\"",
            self.findings.len(),
            self.failed(),
            self.skipped()
        );

        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n<testsuite name=\"{name} {}\" {counts}>\n",
            self.contract
        );

        for finding in &self.findings {
            let (class, test) = finding.names(name);
            let head = format!(
                "<testcase classname=\"{}\" name=\"{}\"",
                printable(&class),
                printable(&test)
            );

            let _ = match &finding.verdict {
                Verdict::Ok => writeln!(text, "{head}/>"),
                Verdict::Skipped { reason } => {
                    writeln!(
                        text,
                        "{head}><skipped message=\"{}\"/></testcase>",
                        printable(reason)
                    )
                }
                Verdict::Failed {
                    expected,
                    seen,
                    hint,
                } => {
                    let message = printable(&format!("expected {expected}"));
                    let at = finding
                        .at
                        .as_ref()
                        .map(|at| format!("at: {at}\n"))
                        .unwrap_or_default();

                    let body = printable(&format!(
                        "{at}expected: {expected}\nseen: {seen}\nto do: {hint}"
                    ));

                    writeln!(
                        text,
                        "{head}><failure message=\"{message}\">{body}</failure></testcase>"
                    )
                }
            };
        }

        text + "</testsuite>\n</testsuites>\n"
    }
}

impl Finding {
    /// Returns class and name for JUnit: a scenario is a class, and its steps are the tests.
    fn names(&self, report: &str) -> (String, String) {
        match self.check.split_once('.') {
            Some((scenario, number)) => (
                format!("{report}.{scenario}"),
                format!("{number} {}", self.text),
            ),
            None => (report.to_owned(), self.check.clone()),
        }
    }
}

/// Escapes the text, without the control characters that XML does not have.
fn printable(text: &str) -> String {
    escape_xml(
        text.chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .collect::<String>(),
    )
    .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let failed = Verdict::Failed {
            expected: "a < b".into(),
            seen: "\"b\"\u{1}".into(),
            hint: "fix it".into(),
        };
        let findings = vec![
            Finding::new(Check::Component, Verdict::Ok),
            Finding::new(Check::Order, failed),
            Finding::new(
                Check::RoutesAgain,
                Verdict::Skipped {
                    reason: "no routes".into(),
                },
            ),
        ];
        Report {
            findings,
            ..Report::new(Subjects::Conformance)
        }
    }

    #[test]
    fn a_scenario_is_a_class_of_steps() {
        let failed = Verdict::Failed {
            expected: "a".into(),
            seen: "b\u{1b}[31m".into(),
            hint: "fix it".into(),
        };
        let (text, at) = ("instances.check".to_owned(), Some("s.yaml:7".to_owned()));
        let finding = Finding {
            check: "node-found.2".into(),
            text,
            at,
            verdict: failed,
        };
        let report = Report {
            findings: vec![finding],
            ..Report::new(Subjects::Scenarios)
        };
        let junit = report.write(Format::Junit).unwrap();
        let case = "<testcase classname=\"scenarios.node-found\" name=\"2 instances.check\"><failure message=\"expected a\">at: s.yaml:7";
        assert!(junit.contains(case), "{junit}");
        let human = report.write(Format::Human).unwrap();
        assert!(
            human.contains("at:       s.yaml:7") && !human.contains('\u{1b}'),
            "{human}"
        );
        assert_eq!(
            human.lines().last(),
            Some("scenarios 0.1.1: 0 of 1 steps passed")
        );
    }

    #[test]
    fn the_last_line_counts_the_checks() {
        let text = report().write(Format::Human).unwrap();
        assert_eq!(
            text.lines().last(),
            Some("conformance 0.1.1: 1 of 2 checks passed, 1 skipped")
        );
        assert!(!report().is_ok());
    }

    #[test]
    fn special_characters_are_escaped_in_junit() {
        let text = report().write(Format::Junit).unwrap();
        assert!(
            text.contains("failures=\"1\" skipped=\"1\"")
                && text.contains("message=\"expected a &lt; b\""),
            "{text}"
        );
        assert!(!text.contains('\u{1}'));
    }

    #[test]
    fn verdicts_are_words_in_json() {
        let text = report().write(Format::Json).unwrap();
        assert!(
            text.contains("\"verdict\": \"failed\"") && text.contains("\"verdict\": \"ok\""),
            "{text}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (
                &read["report"],
                &read["passed"],
                &read["failed"],
                &read["skipped"]
            ),
            (&"conformance".into(), &1.into(), &1.into(), &1.into())
        );
    }
}
