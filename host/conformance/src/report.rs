//! The findings of a run, for people and programs.

use std::fmt::Write as _;

use quick_xml::escape::escape;
use serde::Serialize;

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
    /// Name of the check.
    pub check: &'static str,
    /// What is true of a plugin that passes.
    pub text: &'static str,
    /// How it ended.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Finding {
    pub(crate) fn new(check: Check, verdict: Verdict) -> Self {
        let (name, text) = check.text();
        Self { check: name, text, verdict }
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

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version of the contract.
    pub contract: &'static str,
    /// One for each check.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns true if no check failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failed() == 0
    }

    fn failed(&self) -> usize {
        self.findings.iter().filter(|it| matches!(it.verdict, Verdict::Failed { .. })).count()
    }

    fn skipped(&self) -> usize {
        self.findings.iter().filter(|it| matches!(it.verdict, Verdict::Skipped { .. })).count()
    }

    /// Returns the last line, for example `conformance 0.1.0: 20 of 20 checks passed, 4 skipped`.
    #[must_use]
    pub fn badge(&self) -> String {
        let (skipped, run) = (self.skipped(), self.findings.len() - self.skipped());
        let more = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        format!("conformance {}: {} of {run} checks passed{more}", self.contract, run - self.failed())
    }

    /// Returns the report in this format.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn write(&self, format: Format) -> serde_json::Result<String> {
        Ok(match format {
            Format::Human => self.human(),
            Format::Json => serde_json::to_string_pretty(self)? + "\n",
            Format::Junit => self.junit(),
        })
    }

    fn human(&self) -> String {
        let mut text = String::new();
        for Finding { check, text: says, verdict } in &self.findings {
            let _ = match verdict {
                Verdict::Ok => writeln!(text, "ok       {check}: {says}"),
                Verdict::Skipped { reason } => writeln!(text, "skipped  {check}: {reason}"),
                Verdict::Failed { expected, seen, hint } => writeln!(
                    text,
                    "FAILED   {check}: {says}\n         expected: {expected}\n         seen:     {seen}\n         to do:    {hint}"
                ),
            };
        }
        text + &self.badge() + "\n"
    }

    fn junit(&self) -> String {
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"conformance {}\" tests=\"{}\" \
             failures=\"{}\" skipped=\"{}\" errors=\"0\">\n",
            self.contract,
            self.findings.len(),
            self.failed(),
            self.skipped()
        );
        for Finding { check, verdict, .. } in &self.findings {
            let _ = match verdict {
                Verdict::Ok => writeln!(text, "<testcase classname=\"conformance\" name=\"{check}\"/>"),
                Verdict::Skipped { reason } => writeln!(
                    text,
                    "<testcase classname=\"conformance\" name=\"{check}\"><skipped message=\"{}\"/></testcase>",
                    printable(reason)
                ),
                Verdict::Failed { expected, seen, hint } => writeln!(
                    text,
                    "<testcase classname=\"conformance\" name=\"{check}\"><failure message=\"{}\">{}</failure></testcase>",
                    printable(expected),
                    printable(&format!("{seen}; {hint}"))
                ),
            };
        }
        text + "</testsuite></testsuites>\n"
    }
}

/// Escapes the text, without the control characters that XML does not have.
fn printable(text: &str) -> String {
    escape(text.chars().filter(|c| !c.is_control()).collect::<String>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let failed = Verdict::Failed { expected: "a < b".into(), seen: "\"b\"\u{1}".into(), hint: "fix it".into() };
        let findings = vec![
            Finding::new(Check::Component, Verdict::Ok),
            Finding::new(Check::Order, failed),
            Finding::new(Check::RoutesAgain, Verdict::Skipped { reason: "no routes".into() }),
        ];
        Report { contract: "0.1.0", findings }
    }

    #[test]
    fn the_last_line_counts_the_checks() {
        let text = report().write(Format::Human).unwrap();
        assert_eq!(text.lines().last(), Some("conformance 0.1.0: 1 of 2 checks passed, 1 skipped"));
        assert!(!report().is_ok());
    }

    #[test]
    fn special_characters_are_escaped_in_junit() {
        let text = report().write(Format::Junit).unwrap();
        assert!(text.contains("failures=\"1\" skipped=\"1\"") && text.contains("message=\"a &lt; b\""), "{text}");
        assert!(!text.contains('\u{1}'));
    }

    #[test]
    fn verdicts_are_words_in_json() {
        let text = report().write(Format::Json).unwrap();
        assert!(text.contains("\"verdict\": \"failed\"") && text.contains("\"verdict\": \"ok\""), "{text}");
    }
}
