//! Skydock answers requests for health, metrics and other pages like a Go program: the cases of
//! upstream's `test/integration/serving`, and others, sent to Skydock and to Kubernetes' framework
//! for cloud controller managers (`tests/bench/peer`), with the same flags and the same API server.
//!
//! `cases.rs` lists them, and why some answers differ.

mod cases;
mod client;
mod site;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use skydock_support::{Seen, TAKEN, eventually, free_address};

use crate::cases::{CERTIFICATE, GROUPS, HANDSHAKES, Handshake, Request, STARTS, Who};
use crate::client::{Answer, Client};
use crate::site::{SIDES, Server, Side, Site, is_served, own_loopback};

/// How long an answer may differ: rights take effect after a moment, and answers of the API server
/// are used for ten seconds.
const SETTLED: Duration = Duration::from_secs(30);
/// The default of `--secure-port`.
const PORT: u16 = 10258;

/// The answers of both programs, without what is different in any two programs.
async fn answers(site: &Site, servers: &[Server; 2], request: &Request) -> Result<[Answer; 2]> {
    let [upstream, skydock] = servers;
    let upstream = site.ask(upstream, request).await?;
    let skydock = site.ask(skydock, request).await?;
    Ok([upstream, skydock].map(|answer| comparable(answer, request)))
}

fn comparable(mut answer: Answer, request: &Request) -> Answer {
    if let Answer::Http { status, body, .. } = &mut answer {
        if *status == 200 && request.is_own_content() {
            body.clear();
        }
        // Each program has its own checks of health.
        let lines = body.lines();
        let kept: Vec<_> = lines
            .filter(|line| !line.starts_with("[+]") && !line.starts_with("[-]"))
            .collect();
        let kept = kept.join("\n");
        *body = kept;
    }
    answer
}

/// Sends a request to both programs, and returns what is wrong.
async fn compare(site: &Site, servers: &[Server; 2], request: &Request) -> Option<String> {
    let Request {
        method,
        path,
        who,
        headers,
        wished,
    } = request;
    let name = format!("{method} {path} {who:?} {headers:?}");

    let settled = eventually(SETTLED, async || {
        let [upstream, skydock] = answers(site, servers, request).await?;
        let is_same = upstream == skydock;
        let seen = match wished {
            Some(reason) => format!("no difference any more: {reason}: {skydock:?}"),
            None => format!("\n  upstream {upstream:?}\n  Skydock  {skydock:?}"),
        };
        Ok(Seen::when(is_same == wished.is_none(), seen))
    });
    let error = settled.await.err();
    error.map(|error| format!("{name}: {error:#}"))
}

async fn both(site: &Site, flags: &[&str]) -> Result<[Server; 2]> {
    let [upstream, skydock] = SIDES;
    let upstream = site.run(upstream, flags, free_address()?).await?;
    let skydock = site.run(skydock, flags, free_address()?).await?;
    Ok([upstream, skydock])
}

// Holds: P-40, P-41, P-42
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_as_by_a_go_program() -> Result<()> {
    let site = Site::start().await?;
    let mut wrong = Vec::new();
    for group in GROUPS {
        let mut servers = both(&site, group.flags).await?;
        for request in group.requests {
            let difference = compare(&site, &servers, request).await;
            wrong.extend(difference.map(|what| format!("{:?}: {what}", group.flags)));
        }
        for server in &mut servers {
            let ended = server.process.ended()?;
            ensure!(ended.is_none(), "{}", server.process.last_words());
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_that_stop_a_go_program_stop_skydock() -> Result<()> {
    let site = Site::start().await?;
    let mut wrong = Vec::new();
    for case in STARTS {
        let differs = case.starts[0] != case.starts[1];
        ensure!(differs == case.wished.is_some(), "{:?}", case.flags);
        for (side, expected) in SIDES.into_iter().zip(case.starts) {
            let mut server = site.run(side, case.flags, free_address()?).await?;
            let starts = server.process.ended()?.is_none();
            if starts != expected {
                wrong.push(format!("{:?}: {side:?} starts: {starts}", case.flags));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_cipher_suites_are_offered_as_by_go() -> Result<()> {
    let site = Site::start().await?;
    let mut wrong = Vec::new();
    for (flags, handshakes) in HANDSHAKES {
        let flags = [&CERTIFICATE[..], *flags].concat();
        let servers = both(&site, &flags).await?;
        for Handshake {
            version,
            suite,
            succeeds,
        } in *handshakes
        {
            let client = Client {
                version: Some(*version),
                suite: *suite,
                ..Client::default()
            };
            for (side, server) in SIDES.into_iter().zip(&servers) {
                let answer = client.send(server.address, "GET", "/healthz", "").await?;
                if (answer != Answer::Nothing) != *succeeds {
                    wrong.push(format!(
                        "{flags:?} {version:?} {suite:?}: {side:?}: {answer:?}"
                    ));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_port_is_that_of_upstream() -> Result<()> {
    if !cfg!(target_os = "linux") {
        // Elsewhere, loopback has one address, and the port may be in use.
        return Ok(());
    }
    let site = Site::start().await?;
    for (number, side) in (0..).zip(SIDES) {
        let address = SocketAddr::new(own_loopback(number), PORT);
        let server = site.run(side, &[], address).await?;
        ensure!(is_served(address).await?, "{side:?}");
        drop(server);

        let mut closed = site.spawn(side, &["--secure-port=0"], address)?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let ended = closed.process.ended()?;
        ensure!(ended.is_none(), "{side:?}: {}", closed.process.last_words());
        ensure!(!is_served(address).await?, "{side:?} serves without a port");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_a_page_about_the_process() -> Result<()> {
    let site = Site::start().await?;
    let flags = [
        "--authentication-skip-lookup",
        "--authentication-kubeconfig={kubeconfig}",
        "--authorization-kubeconfig={kubeconfig}",
    ];
    let server = site.run(Side::Skydock, &flags, free_address()?).await?;
    let request = Request {
        method: "GET",
        path: "/statusz/overview",
        who: Who::Token("admin"),
        headers: "",
        wished: None,
    };

    eventually(TAKEN, async || {
        let answer = site.ask(&server, &request).await?;
        let told = format!("{answer:?}");
        let Answer::Http { kind, body, .. } = answer else {
            return Ok(Seen::NotYet(told));
        };
        let words = [
            "<td>static: ",
            "<span>generation 1: ",
            "runs without leader election",
            "0 of 0 wait for their cloud.",
        ];
        let is_whole = kind == "text/html" && words.iter().all(|words| body.contains(words));
        Ok(Seen::when(is_whole, told))
    })
    .await
}

/// A Go program ends at once, as it does not catch the signal; Skydock completes its work first.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_program_closes_its_port() -> Result<()> {
    let site = Site::start().await?;
    for (mut server, expected) in both(&site, &[]).await?.into_iter().zip([None, Some(0)]) {
        server.process.signal(Signal::TERM)?;
        let ended = server.process.ends_within(SETTLED).await?;
        ensure!(ended.code() == expected, "{ended}");
        ensure!(!is_served(server.address).await?, "it is still served");
    }
    Ok(())
}
