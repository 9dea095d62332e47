//! A host that cannot run reports the reason in one line.

use std::{ffi::OsString, process::Command, time::Duration};

use anyhow::ensure;
use rustix::process::Signal;
use skydock_support::{Process, Seen, TAKEN, eventually, free_address, run};

use crate::{narrator::Narrator, stage::Stage};

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("A host that cannot start reports the reason in one line");
    stage.stop_hosts().await?;
    let plugin = stage.plugin_file();
    stage.replace(&plugin, &stage.built("static")?)?;
    let good = format!("--plugin=static={}", plugin.display());
    let config = format!("--cloud-config={}", stage.inventory.path().display());
    let kubeconfig = format!("--kubeconfig={}", stage.kubeconfig().display());
    let wrong = stage.dir().join("wrong.yaml");
    std::fs::write(
        &wrong,
        "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachine: []\n",
    )?;
    let wrong = format!("--cloud-config={}", wrong.display());
    let nowhere = stage.dir().join("nowhere.kubeconfig");
    let server = format!("http://{}", free_address()?);
    std::fs::write(
        &nowhere,
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\ncurrent-context: c\n"
        ),
    )?;
    let nowhere = format!("--kubeconfig={}", nowhere.display());
    // Health is served before a plugin is loaded, and another process may use the same port.
    let (provider, silent) = ("--cloud-provider=static", "--secure-port=0");
    let cases: [(&str, Vec<&str>, &str); 7] = [
        (
            "a flag nobody knows",
            vec!["--clod-provider=static"],
            "--clod-provider",
        ),
        (
            "a flag that is not honored yet",
            vec![provider, "--webhooks=x"],
            "--webhooks",
        ),
        (
            "no provider",
            vec![&good, "--plugin=other=/missing.wasm", &kubeconfig],
            "--cloud-provider is missing",
        ),
        (
            "no plugin",
            vec![provider, &kubeconfig],
            "no plugin for --cloud-provider=static",
        ),
        (
            "a missing plugin file",
            vec![provider, "--plugin=static=/missing.wasm", &kubeconfig],
            "/missing.wasm",
        ),
        (
            "a missing cloud-config",
            vec![provider, &good, "--cloud-config=/missing.yaml", &kubeconfig],
            "/missing.yaml",
        ),
        (
            "a wrong inventory",
            vec![provider, &good, &wrong, &kubeconfig, silent],
            "wrong.yaml:3",
        ),
    ];
    for (what, args, words) in cases {
        narrator
            .step(&format!("{what}: rejected"), async {
                let args: Vec<OsString> = args.iter().map(OsString::from).collect();
                let ended = run(&stage.paths.skydock, &args, Duration::from_secs(30)).await?;
                ensure!(
                    ended.code.is_some_and(|code| code != 0),
                    "it ended with {:?}",
                    ended.code
                );
                ensure!(ended.said.contains(words), "it said {:?}", ended.said);
                // A slow compilation is logged before the error.
                let is_error = |line: &&str| !line.is_empty() && !line.contains(" INFO ");
                let said: Vec<_> = ended.said.lines().filter(is_error).collect();
                ensure!(
                    said.len() == 1,
                    "it said more than one line: {:?}",
                    ended.said
                );
                Ok(said.first().map_or_else(String::new, |line| {
                    format!("exit {}: {line}", ended.code.unwrap_or(-1))
                }))
            })
            .await?;
    }
    narrator
        .step("an unreachable API server: waited for", async {
            let mut command = Command::new(&stage.paths.skydock);
            let permits = stage.permits_inventory()?;
            command.args([provider, &good, &config, &permits, &nowhere, silent]);
            let mut host = Process::start("nowhere", command, &stage.dir().join("nowhere.log"))?;
            let log = host.log().to_owned();
            let waits = eventually(TAKEN, async || {
                let (ended, log) = (host.ended()?, std::fs::read_to_string(&log)?);
                ensure!(ended.is_none(), "it ended with {ended:?}: {log}");
                let waits = |line: &&str| {
                    line.contains("waiting for the API server") && line.contains(&server)
                };
                Ok(match log.lines().find(waits) {
                    Some(line) => Seen::Yes(line.to_owned()),
                    None => Seen::NotYet(log),
                })
            })
            .await?;
            host.signal(Signal::TERM)?;
            let status = host.ends_within(Duration::from_secs(10)).await?;
            ensure!(status.success(), "it ended with {status}");
            Ok(waits)
        })
        .await?;
    Ok(())
}
