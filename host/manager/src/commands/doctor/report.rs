//! The report that `skydock doctor` prints.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;
use skydock_cloud::text::{SENTENCE, escape, shown};

use super::{
    checks::{CHECKS, Check, Facts},
    finding::{Finding, Fix, Severity, for_cluster},
    snapshot::Unknown,
};

/// Number of findings of one check.
const FINDINGS: usize = 20;
/// Length of a command in bytes. It cannot be cut.
const COMMAND: usize = 8192;

/// What was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    #[serde(rename = "apiVersion")]
    version: &'static str,
    kind: &'static str,
    pub(super) result: Verdict,
    findings: Vec<Found>,
    not_checked: Vec<NotChecked>,
    notices: Vec<String>,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    /// No check found a problem.
    Ok,
    /// Something keeps nodes from being initialized.
    Problems,
    /// No problem was found, but not everything could be read.
    Unknown,
}

impl Verdict {
    /// Returns the exit code.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Problems => 1,
            Self::Unknown => 2,
        }
    }
}

/// A finding, and the check that found it.
#[derive(Debug, Serialize)]
struct Found {
    check: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// Checks that need what could not be read.
#[derive(Debug, Serialize)]
struct NotChecked {
    why: String,
    checks: Vec<&'static str>,
}

impl Report {
    /// Runs all checks.
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        Self::by(CHECKS, facts)
    }

    fn by(checks: &[Check], facts: &Facts<'_>) -> Self {
        let mut findings = Vec::new();
        let mut unknown: BTreeMap<Unknown, Vec<&'static str>> = BTreeMap::new();
        let mut notices = facts.snapshot.notices.clone();

        for check in checks {
            let found = match (check.run)(facts) {
                Ok(found) => found,
                Err(why) => {
                    unknown.entry(why).or_default().push(check.id);
                    continue;
                }
            };
            if found.len() > FINDINGS {
                let others = found.len() - FINDINGS;
                notices.push(format!("{} has {others} more findings", check.id));
            }
            let found = found.into_iter().take(FINDINGS);
            findings.extend(found.map(|finding| Found {
                check: check.id,
                finding: safe(finding, &facts.snapshot.kubectl),
            }));
        }

        findings.sort_by_key(|found| found.finding.severity);
        let is_problem = |found: &Found| found.finding.severity == Severity::Problem;
        let result = if findings.iter().any(is_problem) {
            Verdict::Problems
        } else if unknown.is_empty() && facts.snapshot.notices.is_empty() {
            Verdict::Ok
        } else {
            Verdict::Unknown
        };

        Self {
            version: "skydock.dev/v1alpha1",
            kind: "DoctorReport",
            result,
            findings,
            not_checked: unknown
                .into_iter()
                .map(|(Unknown(why), checks)| NotChecked {
                    why: sentence(&why),
                    checks,
                })
                .collect(),
            notices: notices.iter().map(|notice| sentence(notice)).collect(),
        }
    }

    /// Returns the report for people.
    pub(super) fn text(&self, summary: &str) -> String {
        let mut out = format!("{}\n", sentence(summary));
        for Found { check, finding } in &self.findings {
            let word = match finding.severity {
                Severity::Problem => "problem",
                Severity::Warning => "warning",
            };
            // Writing to a text cannot fail.
            let _ = write!(
                out,
                "\n{word} {check}: {}\n  saw: {}\n  why: {}\n",
                finding.object, finding.saw, finding.why
            );
            for fix in &finding.fix {
                let (Fix::Command(text) | Fix::Text(text)) = fix;
                let _ = writeln!(out, "  fix: {text}");
            }
        }

        out.push('\n');
        for NotChecked { why, checks } in &self.not_checked {
            let checks: Vec<_> = checks
                .iter()
                .map(|id| format!("{id} ({})", title(id)))
                .collect();
            let _ = writeln!(out, "not checked: {}: {why}", checks.join(", "));
        }
        for notice in &self.notices {
            let _ = writeln!(out, "note: {notice}");
        }

        let count = |severity| {
            let all = self.findings.iter();
            all.filter(|found| found.finding.severity == severity)
                .count()
        };
        let warnings = match count(Severity::Warning) {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            warnings => format!(", {warnings} warnings"),
        };
        let _ = match self.result {
            Verdict::Ok => writeln!(out, "ok: no problem found{warnings}"),
            Verdict::Problems => match count(Severity::Problem) {
                1 => writeln!(out, "1 problem{warnings}"),
                problems => writeln!(out, "{problems} problems{warnings}"),
            },
            Verdict::Unknown => writeln!(
                out,
                "no problem found{warnings}, but not everything could be checked"
            ),
        };
        out
    }
}

fn title(id: &str) -> &'static str {
    let check = CHECKS.iter().find(|check| check.id == id);
    check.map(|check| check.title).unwrap_or_default()
}

/// Returns a text from the cluster as it can be shown.
fn sentence(text: &str) -> String {
    shown(text.trim(), SENTENCE).into_owned()
}

/// Returns a finding as it can be shown. `kubectl` are the flags that name the cluster.
fn safe(finding: Finding, kubectl: &str) -> Finding {
    let fix = |fix: Fix| match fix {
        Fix::Command(command) => {
            let command = for_cluster(&command, kubectl);
            if command.len() > COMMAND {
                Fix::Text("the command is too long to be shown: change the manifest".to_owned())
            } else {
                Fix::Command(escape(&command).into_owned())
            }
        }
        Fix::Text(text) => Fix::Text(sentence(&text)),
    };
    Finding {
        severity: finding.severity,
        object: sentence(&finding.object),
        saw: sentence(&finding.saw),
        why: sentence(&finding.why),
        fix: finding.fix.into_iter().map(fix).collect(),
    }
}
