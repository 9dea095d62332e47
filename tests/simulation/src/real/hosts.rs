//! Processes of the built binary, restarted whenever they end.

use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, Client, api::PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use skydock_support::{Paths, Process};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

/// The flags of all hosts, with periods that are short enough for a test.
const FLAGS: [&str; 15] = [
    "--v=2",
    "--cloud-provider=static",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
    "--node-monitor-period=1s",
    "--node-status-update-frequency=10s",
    "--load-balancer-check-period=20s",
    "--allocate-node-cidrs=true",
    "--configure-cloud-routes=false",
    "--cluster-cidr=10.244.0.0/16",
    "--secure-port=0",
    "--metrics-bind-address=0",
    "--node-deletion-interval=20s",
    "--cluster-name=chaos",
];
/// The delay before a process that ended is restarted, as by a kubelet.
const RESTART: Duration = Duration::from_secs(1);

/// Creates a service account with all permissions and returns a token for it.
pub(super) async fn account(client: &Client, name: &str) -> Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "kube-system");
    let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": name}],
    }))?;
    Api::<ClusterRoleBinding>::all(client.clone())
        .create(&PostParams::default(), &binding)
        .await?;
    let hour = TokenRequestSpec {
        expiration_seconds: Some(3600),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec: hour,
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await?;
    Ok(answer.status.context("the API server gave no token")?.token)
}

/// A host that is restarted whenever it ends.
pub(super) struct Contender {
    name: String,
    state: Arc<Mutex<State>>,
    /// The task that restarts the process. On drop, it ends together with the process.
    _tended: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The ID of the running process.
    process: Option<Pid>,
    /// The earliest time of the next start.
    down_until: Option<Instant>,
    /// True if it is not restarted.
    leaves: bool,
    wrongs: Vec<String>,
}

impl Contender {
    /// Starts the host with `NAME.kubeconfig` in this folder. Its output is written to `NAME.log`.
    pub(super) fn start(paths: &Paths, dir: &Path, name: &str, flags: &[&str]) -> Result<Self> {
        let mut args: Vec<OsString> = FLAGS.iter().chain(flags).map(OsString::from).collect();
        let file =
            |flag: &str, name: String| format!("--{flag}={}", dir.join(name).display()).into();
        args.push(file("kubeconfig", format!("{name}.kubeconfig")));
        args.push(file("plugin-cache-dir", format!("{name}-cache")));
        args.push(file("cloud-config", "inventory.yaml".to_owned()));
        args.push(format!("--plugin-dir={}", paths.plugins.display()).into());
        let state = Arc::new(Mutex::new(State::default()));
        let log = dir.join(format!("{name}.log"));
        let mut tended = JoinSet::new();
        tended.spawn(tend(paths.skydock.clone(), args, log, Arc::clone(&state)));
        Ok(Self {
            name: name.to_owned(),
            state,
            _tended: tended,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Kills the host at any point. It is restarted after this time.
    pub(super) fn kill(&self, down: Duration) {
        lock(&self.state).down_until = Some(Instant::now() + down);
        self.signal(Signal::KILL);
    }

    /// Stops the host gracefully. It is restarted.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Suspends the host for this time.
    pub(super) async fn suspend(&self, time: Duration) {
        self.signal(Signal::STOP);
        sleep(time).await;
        self.signal(Signal::CONT);
    }

    /// Stops the host gracefully and permanently.
    pub(super) async fn stop(&self, limit: Duration) -> Result<()> {
        lock(&self.state).leaves = true;
        self.terminate();
        let ended = timeout(limit, self.gone()).await;
        ensure!(
            ended.is_ok(),
            "{} still runs {limit:?} after SIGTERM",
            self.name
        );
        Ok(())
    }

    /// Kills the host permanently.
    pub(super) async fn end(&self) {
        lock(&self.state).leaves = true;
        self.signal(Signal::KILL);
        self.gone().await;
    }

    /// Returns unexpected behavior of the host.
    pub(super) fn wrongs(&self) -> Vec<String> {
        lock(&self.state)
            .wrongs
            .iter()
            .map(|wrong| format!("{}: {wrong}", self.name))
            .collect()
    }

    async fn gone(&self) {
        while lock(&self.state).process.is_some() {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a signal if the process runs.
    fn signal(&self, signal: Signal) {
        let state = lock(&self.state);
        if let Some(process) = state.process {
            // An error means that the process has just ended.
            let _ = kill_process(process, signal);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tend(binary: PathBuf, args: Vec<OsString>, log: PathBuf, state: Arc<Mutex<State>>) {
    loop {
        let wait = lock(&state).down_until.take();
        if let Some(until) = wait {
            sleep_until(until).await;
        }
        if lock(&state).leaves {
            return;
        }
        match once(&binary, &args, &log, &state).await {
            Ok(status) => {
                let mut state = lock(&state);
                state.process = None;
                state.wrongs.extend(wrong(status, &log));
            }
            Err(error) => lock(&state).wrongs.push(format!("{error:#}")),
        }
        sleep(RESTART).await;
    }
}

async fn once(
    binary: &Path,
    args: &[OsString],
    log: &Path,
    state: &Mutex<State>,
) -> Result<ExitStatus> {
    let mut command = Command::new(binary);
    command.args(args);
    let process = Process::start("the host", command, log);
    let mut process = process.with_context(|| format!("cannot start {}", binary.display()))?;
    lock(state).process = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    Ok(process.wait().await?)
}

/// Returns an error for an unexpected exit status: 1 is expected after losing the lease or the API
/// server, and 0 after a graceful stop.
fn wrong(status: ExitStatus, log: &Path) -> Option<String> {
    let expected =
        matches!(status.code(), Some(0 | 1)) || status.signal() == Some(Signal::KILL.as_raw());
    (!expected).then(|| {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        format!(
            "ended with {status}: {}",
            said.lines().last().unwrap_or_default()
        )
    })
}
