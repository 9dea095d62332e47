//! Hooks: requests to the vendor's own cloud, and programs.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

use super::{
    file::{Expect, Http},
    matching::{Order, difference},
    variables::Variables,
};

/// How long a request or a program may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Maximum bytes of an answer.
const ANSWER: u64 = 16 << 20;

/// Maximum bytes of what a program says that are shown.
const SHOWN: usize = 2000;

/// What a hook has seen: a status or exit code, and JSON.
pub(super) struct Seen {
    code: i32,
    text: String,
    /// What a program has written to standard error.
    stderr: String,
}

/// Sends a request.
///
/// # Errors
/// A sentence, if there is no answer.
pub(super) async fn request(http: &Http, variables: &Variables) -> Result<Seen, String> {
    let mut request = ureq::http::Request::builder()
        .method(http.method.as_str())
        .uri(variables.expand(&http.url)?)
        .header("content-type", "application/json");
    for (name, value) in &http.headers {
        request = request.header(name, variables.expand(value)?);
    }

    let body = http
        .body
        .as_ref()
        .map(|body| variables.expand_all(body))
        .transpose()?;

    // The client blocks its thread until the cloud answers.
    let sent = tokio::task::spawn_blocking(move || {
        send(request, body.as_ref()).map_err(|error| error.to_string())
    });
    sent.await.unwrap_or_else(|error| Err(error.to_string()))
}

fn send(request: ureq::http::request::Builder, body: Option<&Value>) -> Result<Seen, ureq::Error> {
    let config = ureq::config::Config::builder();
    let config = config
        // A scenario may expect any status.
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .timeout_global(Some(DEADLINE));

    let agent = ureq::Agent::new_with_config(config.build());
    let mut answer = match body {
        None => agent.run(request.body(())?)?,
        Some(body) => agent.run(request.body(body.to_string())?)?,
    };

    let text = answer
        .body_mut()
        .with_config()
        .limit(ANSWER)
        .read_to_string()?;

    Ok(Seen {
        code: answer.status().as_u16().into(),
        text,
        stderr: String::new(),
    })
}

/// Runs a program with JSON on standard input.
///
/// # Errors
/// A sentence, if it cannot be started or takes too long.
pub(super) async fn run(
    argv: &[String],
    input: &Value,
    folder: &Path,
    variables: &Variables,
) -> Result<Seen, String> {
    let argv = argv
        .iter()
        .map(|word| variables.expand(word))
        .collect::<Result<Vec<_>, _>>()?;

    let Some((program, arguments)) = argv.split_first() else {
        return Err("no program".to_owned());
    };

    let mut command = Command::new(program);
    // An empty folder is the current one.
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }

    command
        .args(arguments)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());

    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;

    let text = input.to_string();
    let running = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A program may not read its input.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
        child.wait_with_output().await
    };

    // Past the deadline, the future is dropped, and the program ends with it.
    let ended = tokio::time::timeout(DEADLINE, running).await;
    let output = ended.map_err(|_| format!("{program} did not end within {DEADLINE:?}"))?;
    let output = output.map_err(|error| format!("{program}: {error}"))?;

    Ok(Seen {
        // Without a code, a signal has ended it.
        code: output.status.code().unwrap_or(-1),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Compares the status and the body of an answer with what is expected. Returns what was expected,
/// and what was seen.
pub(super) fn judge_answer(
    seen: &Seen,
    expect: &Expect,
    variables: &Variables,
) -> Option<(String, String)> {
    let is_status = expect
        .status
        .map_or((200..300).contains(&seen.code), |status| {
            i32::from(status) == seen.code
        });

    if !is_status {
        let expected = expect.status.map_or_else(
            || "an answer with status 2xx".to_owned(),
            |it| format!("status {it}"),
        );
        return Some((
            expected,
            format!("status {}: {}", seen.code, short(&seen.text)),
        ));
    }

    judge_json(seen, expect, variables)
}

/// Compares the exit code and the output of a program with what is expected.
pub(super) fn judge_program(
    seen: &Seen,
    expect: &Expect,
    variables: &Variables,
) -> Option<(String, String)> {
    let exit = expect.exit.unwrap_or(0);

    if seen.code != exit {
        let output = if seen.stderr.trim().is_empty() {
            &seen.text
        } else {
            &seen.stderr
        };
        return Some((
            format!("exit code {exit}"),
            format!("exit code {}: {}", seen.code, short(output)),
        ));
    }

    judge_json(seen, expect, variables)
}

fn judge_json(seen: &Seen, expect: &Expect, variables: &Variables) -> Option<(String, String)> {
    let expected = expect.json.as_ref()?;
    let expected = match variables.expand_all(expected) {
        Ok(expected) => expected,
        Err(sentence) => return Some((expected.to_string(), sentence)),
    };

    let Ok(there) = serde_json::from_str::<Value>(&seen.text) else {
        return Some((
            format!("{expected}"),
            format!("the output is not valid JSON: {}", short(&seen.text)),
        ));
    };

    difference(&expected, &there, Order::Any).map(|it| {
        (
            expected.to_string(),
            format!("{it}; {}", short(&there.to_string())),
        )
    })
}

fn short(text: &str) -> String {
    let text = text.trim();
    match text.get(..text.floor_char_boundary(SHOWN)) {
        Some(part) if part.len() < text.len() => format!("{part}…"),
        _ => text.to_owned(),
    }
}

/// Returns the input of a program: what the file says, and the objects of the cluster.
pub(super) fn input(
    scenario: &str,
    given: Option<&Value>,
    nodes: &Value,
    services: &Value,
) -> Value {
    json!({"scenario": scenario, "input": given, "nodes": nodes, "services": services})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(text: &str) -> Expect {
        serde_saphyr::from_str(text).unwrap()
    }

    #[tokio::test]
    async fn a_program_gets_json_and_answers_with_json() {
        let variables = Variables::new([("WORD".to_owned(), "x".to_owned())].into());
        let run = async |words: &[&str]| {
            let argv: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            run(&argv, &json!({"a": 1}), Path::new(""), &variables).await
        };

        let echoed = run(&["cat"])
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            judge_program(&echoed, &expect("json: {a: 1}"), &variables),
            None
        );
        let (expected, seen) = judge_program(&echoed, &expect("json: {a: 2}"), &variables).unwrap();
        assert_eq!(
            (expected.as_str(), seen.as_str()),
            ("{\"a\":2}", ".a is 1, not 2; {\"a\":1}")
        );

        let failed = run(&["sh", "-c", "echo ${WORD} >&2; exit 3"])
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(judge_program(&failed, &expect("exit: 3"), &variables), None);
        assert_eq!(
            judge_program(&failed, &expect("{}"), &variables).unwrap().1,
            "exit code 3: x"
        );

        assert!(
            run(&["/no/such/program"])
                .await
                .is_err_and(|error| error.starts_with("cannot start /no/such"))
        );
    }

    #[test]
    fn an_answer_is_judged_by_its_status_first() {
        let variables = Variables::new([("ID".to_owned(), "7".to_owned())].into());
        let seen = |code, text: &str| Seen {
            code,
            text: text.to_owned(),
            stderr: String::new(),
        };
        let judge = |seen: &Seen, text: &str| judge_answer(seen, &expect(text), &variables);
        assert_eq!(judge(&seen(204, ""), "{}"), None);
        assert_eq!(judge(&seen(404, ""), "status: 404"), None);
        assert_eq!(
            judge(&seen(500, "down"), "{}").unwrap().1,
            "status 500: down"
        );
        assert_eq!(
            judge(&seen(200, r#"{"id": "7"}"#), "json: {id: '${ID}'}"),
            None
        );
        assert!(
            judge(&seen(200, "<html>"), "json: {}")
                .unwrap()
                .1
                .starts_with("the output is not valid JSON: <html>")
        );
    }
}
