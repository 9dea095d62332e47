//! The examples in `README.md`.
use serde_json::Value;
use skydock_simcloud::{Options, Simcloud};

use crate::client::{call, send};

const README: &str = include_str!("../../README.md");

/// An exchange: method, path, body, status, body.
type Example<'a> = (&'a str, &'a str, Value, u16, Value);

fn examples() -> Vec<Example<'static>> {
    let blocks = README
        .split("```http\n")
        .skip(1)
        .map(|block| block.split_once("```").unwrap().0);
    blocks.map(example).collect()
}

fn example(block: &str) -> Example<'_> {
    let (request, response) = block.split_once("\n\n").unwrap();
    let (line, body) = request.split_once('\n').unwrap_or((request, "null"));
    let (method, path) = line.split_once(' ').unwrap();
    let (status, expected) = response.split_once('\n').unwrap();
    let expected = if expected.trim().is_empty() {
        "null"
    } else {
        expected
    };
    let read =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (
        method,
        path,
        read(body),
        status.parse().unwrap(),
        read(expected),
    )
}

#[test]
fn the_examples_of_the_readme_are_true() {
    let cloud = Simcloud::start(Options {
        servers: 2,
        ..Options::default()
    })
    .unwrap();
    let examples = examples();
    assert!(examples.len() > 15, "{}", examples.len());
    for (method, path, body, status, expected) in examples {
        let answer = call(&cloud, method, path, &body);
        assert_eq!(
            (answer.status, answer.body),
            (status, expected),
            "{method} {path}"
        );
    }
}

#[test]
fn the_command_of_the_readme_works() {
    let cloud = Simcloud::start(Options::default()).unwrap();
    let command = README
        .lines()
        .find_map(|line| line.trim().strip_prefix("curl -H '"))
        .unwrap();
    let (header, url) = command.split_once("' http://127.0.0.1:8080").unwrap();
    let response = send(
        &cloud.url(),
        "GET",
        url,
        &[header.split_once(": ").unwrap()],
        &Value::Null,
    )
    .unwrap();
    assert_eq!(response.status, 200);
}
