//! What a check found, and the command that fixes it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::snapshot::{Origin, Workload};

/// Number of names in a sentence.
pub(super) const NAMES: usize = 8;
/// The end of a command that creates objects.
const APPLY: &str = " | kubectl apply --filename -";

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

    /// Adds a command that creates an object, or changes it.
    pub(super) fn apply(self, object: &Value) -> Self {
        self.run(format!("printf %s {}{APPLY}", quote(&object.to_string())))
    }

    /// Adds a step.
    pub(super) fn step(mut self, fix: Fix) -> Self {
        self.fix.push(fix);
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
                let Some(command) = self.command(workload) else {
                    return vec![Fix::Text(format!(
                        "in the Pod of {}: {}",
                        workload.title(),
                        self.in_words()
                    ))];
                };
                let mut fixes = vec![Fix::Command(command)];
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

    fn command(&self, workload: &Workload) -> Option<String> {
        let (kind, name) = target(workload)?;
        let (format, patch) = match self {
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
        Some(format!(
            "kubectl --namespace {} patch {kind} {name} --type={format} --patch {}",
            quote(&workload.namespace),
            quote(&patch)
        ))
    }
}

/// Returns a JSON pointer as a path of fields.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Returns kind and name of a workload for a command; `None` if no command is made for it. Whoever
/// creates a Pod chooses the kind and the name of its owner, which need not be valid.
pub(super) fn target(workload: &Workload) -> Option<(&'static str, Cow<'_, str>)> {
    let kind = match workload.kind.as_str() {
        "Deployment" => "deployment",
        "DaemonSet" => "daemonset",
        "StatefulSet" => "statefulset",
        "ReplicaSet" => "replicaset",
        "Job" => "job",
        _ => return None,
    };
    // kubectl would take it for a flag.
    let is_flag = workload.name.starts_with('-');
    (!is_flag).then(|| (kind, quote(&workload.name)))
}

/// Returns a command for the cluster that was read. `flags` are those that tell kubectl which one
/// that is.
pub(super) fn for_cluster(command: &str, flags: &str) -> String {
    if let Some(rest) = command.strip_prefix("kubectl ") {
        return format!("kubectl{flags} {rest}");
    }
    match command.strip_suffix(APPLY) {
        Some(objects) => format!("{objects} | kubectl{flags} apply --filename -"),
        None => command.to_owned(),
    }
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
    fn commands_name_the_cluster() {
        let flags = " --kubeconfig='a b'";
        for (command, expected) in [
            ("kubectl get nodes", "kubectl --kubeconfig='a b' get nodes"),
            (
                "printf %s '{}' | kubectl apply --filename -",
                "printf %s '{}' | kubectl --kubeconfig='a b' apply --filename -",
            ),
            ("skydock config check a", "skydock config check a"),
        ] {
            assert_eq!(for_cluster(command, flags), expected);
            assert_eq!(for_cluster(command, ""), command);
        }
    }

    #[test]
    fn a_sentence_has_few_names() {
        assert_eq!(names(["a", "b"]), "a, b");
        let many: Vec<_> = (0..1000).map(|number| format!("n{number}")).collect();
        assert!(names(&many).ends_with("n7 and 992 more"));
    }
}
