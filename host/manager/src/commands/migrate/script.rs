//! Finds the command line of a cloud-controller-manager in a script for a shell.

use crate::cli::arguments::executable::{Word, recognize};

/// Returns the words of the first command in a script that starts a cloud-controller-manager, with
/// variables of the shell in the notation of Kubernetes; `None` if there is none.
pub(super) fn command(script: &str) -> Option<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    joined.lines().find_map(|line| {
        let words = split(line);
        let is_start = |at: &usize| {
            let word = words.get(*at).map(String::as_str).unwrap_or_default();
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            let is_run = before.is_some_and(|word| word == "exec");
            recognize(word) == Word::Executable
                && (is_run || word.contains("cloud-controller-manager"))
        };
        let start = (0..words.len()).find(is_start)?;

        let rest = words.into_iter().skip(start);
        let ends = |word: &String| {
            [";", "&&", "||", "|", "&"].contains(&word.as_str()) || word.contains(">")
        };
        Some(rest.take_while(|word| !ends(word)).collect())
    })
}

/// Splits a line into words like a shell, but without expansions.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars().peekable();

    while let Some(next) = rest.next() {
        match (next, quote) {
            (_, Some(open)) if next == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(rest.next()),
            (' ' | '\t', None) => words.extend(word.take()),
            ('#', None) if word.is_none() => break,
            (';', None) => {
                words.extend(word.take());
                words.push(";".to_owned());
            }
            ('$', None | Some('"')) => {
                let mut name = String::new();
                let in_braces = rest.next_if_eq(&'{').is_some();
                while let Some(part) =
                    rest.next_if(|part| part.is_ascii_alphanumeric() || *part == '_')
                {
                    name.push(part);
                }
                if in_braces {
                    rest.next_if_eq(&'}');
                }
                let text = word.get_or_insert_default();
                if name.is_empty() {
                    // `$(NAME)` is expanded by the kubelet, before the shell.
                    text.push('$');
                } else {
                    text.push_str(&format!("$({name})"));
                }
            }
            (_, _) => word.get_or_insert_default().push(next),
        }
    }

    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_script_is_found() {
        let script = "#!/bin/bash\nset -o allexport\nif [[ -f /etc/env ]]; then\n  source /etc/env\nfi\n\
                      exec /bin/metal-cloud-controller-manager \\\n  --v=2 \\\n  --cluster-name=${CLUSTER} \\\n  \
                      --controllers='*,-route' --a=\"b c\" > /dev/null\n";
        let expected = [
            "/bin/metal-cloud-controller-manager",
            "--v=2",
            "--cluster-name=$(CLUSTER)",
            "--controllers=*,-route",
            "--a=b c",
        ];
        assert_eq!(command(script).unwrap(), expected);
        assert_eq!(
            command("cd /; /x-cloud-controller-manager --a=$(B) && true").unwrap(),
            ["/x-cloud-controller-manager", "--a=$(B)"]
        );
        assert_eq!(command("sleep 3\n"), None);
    }
}
