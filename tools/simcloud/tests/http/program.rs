//! The program.
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::client::send;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skydock-simcloud"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn the_program_says_where_it_listens() {
    let file = std::env::temp_dir().join(format!("simcloud-token-{}", std::process::id()));
    std::fs::write(&file, "secret\n").unwrap();
    let token_file = format!("--token-file={}", file.display());
    let flags = [
        "--listen=127.0.0.1:0",
        "--servers=3",
        "--name-prefix=n",
        "--zones=a,b",
        "--region=r",
        "--lb-delay=2s",
        "--rate-limit=9",
    ];
    let mut running = Running(
        program(&[&flags[..], &[&token_file]].concat())
            .spawn()
            .unwrap(),
    );
    let mut url = String::new();
    BufReader::new(running.0.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    std::fs::remove_file(file).unwrap();
    let get = |path, headers: &[(&str, &str)]| {
        send(url.trim(), "GET", path, headers, &Value::Null).unwrap()
    };
    let server = get("/v1/servers/srv-3", &[("authorization", "Bearer secret")]).body;
    assert_eq!(
        [&server["name"], &server["zone"], &server["region"]],
        ["n3", "a", "r"]
    );
    let settings = get("/_sim/settings", &[]).body;
    assert_eq!(
        (&settings["lb_delay_ms"], &settings["rate_limit"]["burst"]),
        (&Value::from(2000), &Value::from(9))
    );
}

#[test]
fn invalid_flags_are_rejected() {
    for flags in [
        ["--lag=61s"],
        ["--latency=-1s"],
        ["--servers=10001"],
        ["--burst=3"],
        ["--token-file=/nowhere"],
    ] {
        let output = program(&flags).output().unwrap();
        assert!(
            !output.status.success() && !output.stderr.is_empty(),
            "{flags:?}"
        );
    }
}
