//! What a check found, and the command that fixes it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::snapshot::{Origin, Workload};

/// Number of names in a sentence.
const NAMES: usize = 8;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Severity {
    /// Nodes wait because of it, or will.
    Problem,
    /// It works, but may not stay so.
    Warning,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// How bad it is.
    pub(super) severity: Severity,
    /// The object that it is about.
    pub(super) object: String,
    /// What was seen.
    pub(super) saw: String,
    /// Why it matters.
    pub(super) why: String,
    /// What fixes it.
    pub(super) fix: Vec<Fix>,
}

/// A step that fixes a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fix {
    /// A command for a shell.
    Command(String),
    /// What to do where no command can do it.
    Text(String),
}

impl Finding {
    pub(super) fn problem(object: impl Into<String>, saw: impl Into<String>) -> Self {
        Self {
            severity: Severity::Problem,
            object: object.into(),
            saw: saw.into(),
            why: String::new(),
            fix: Vec::new(),
        }
    }

    pub(super) fn warning(object: impl Into<String>, saw: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::problem(object, saw)
        }
    }

    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub(super) fn run(mut self, command: impl Into<String>) -> Self {
        self.fix.push(Fix::Command(command.into()));
        self
    }

    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.fix.push(Fix::Text(text.into()));
        self
    }

    /// Adds the change of the Pod of a workload that fixes it.
    pub(super) fn patch(mut self, workload: &Workload, patch: PodPatch) -> Self {
        self.fix.extend(patch.fixes(workload));
        self
    }
}

/// A change of the Pod that a workload runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodPatch {
    /// Fields of the Pod, as for a merge patch: `null` removes a field.
    Merge(Value),
    /// Sets one value, at a JSON pointer in the Pod. `-` at its end adds an item to a list.
    Set(String, Value),
}

impl PodPatch {
    fn fixes(self, workload: &Workload) -> Vec<Fix> {
        match &workload.origin {
            Origin::Manifest(file) => vec![Fix::Text(format!(
                "in {file}, in the Pod of {}: {}",
                workload.title(),
                self.in_words()
            ))],
            // Nobody can change a running Pod in this way.
            Origin::Cluster if workload.kind == "Pod" => vec![Fix::Text(format!(
                "in the manifest of {}, for a static Pod in /etc/kubernetes/manifests on each control plane node: {}",
                workload.title(),
                self.in_words()
            ))],
            Origin::Cluster => {
                let mut fixes = vec![Fix::Command(self.command(workload))];
                if let Some(manager) = &workload.managed_by {
                    fixes.push(Fix::Text(format!(
                        "{manager} manages {}: change it there, too, or the change is lost",
                        workload.title()
                    )));
                }
                fixes
            }
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Merge(fields) => format!("set {fields}"),
            Self::Set(path, value) => match path.strip_suffix("/-") {
                Some(list) => format!("add {value} to {}", dotted(list)),
                None => format!("set {} to {value}", dotted(path)),
            },
        }
    }

    fn command(&self, workload: &Workload) -> String {
        let (kind, patch) = match self {
            Self::Merge(fields) => (
                "merge",
                json!({"spec": {"template": {"spec": fields}}}).to_string(),
            ),
            Self::Set(path, value) => (
                "json",
                json!([{"op": "add", "path": format!("/spec/template/spec{path}"), "value": value}])
                    .to_string(),
            ),
        };
        format!(
            "kubectl --namespace {} patch {} {} --type={kind} --patch {}",
            quote(&workload.namespace),
            workload.kind.to_lowercase(),
            quote(&workload.name),
            quote(&patch)
        )
    }
}

/// Returns a JSON pointer as a path of fields.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Quotes a word for a shell.
pub(super) fn quote(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Returns some of the names, and how many others there are.
pub(super) fn names<N: AsRef<str>>(all: impl IntoIterator<Item = N>) -> String {
    let mut all = all.into_iter();
    let first: Vec<_> = all.by_ref().take(NAMES).collect();
    let first: Vec<_> = first.iter().map(AsRef::as_ref).collect();
    match all.count() {
        0 => first.join(", "),
        others => format!("{} and {others} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("kube-system", "kube-system"),
            ("a=b:NoSchedule", "a=b:NoSchedule"),
            ("", "''"),
            ("-o", "'-o'"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quote(word), expected);
        }
    }

    #[test]
    fn a_sentence_has_few_names() {
        assert_eq!(names(["a", "b"]), "a, b");
        let many: Vec<_> = (0..1000).map(|number| format!("n{number}")).collect();
        assert!(names(&many).ends_with("n7 and 992 more"));
    }
}
