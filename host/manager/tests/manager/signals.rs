//! The binary handles SIGTERM at any time, and its compiler process ends with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use rand::{SeedableRng as _, rngs::StdRng};
use rustix::process::Signal;
use skydock_devplane::{DevPlane, Fault, Options, Rule};
use skydock_support::{Process, free_address};
use tempfile::TempDir;

/// A process ends within two seconds after a signal; on a busy machine this may be noticed later.
const ENDS_WITHIN: Duration = Duration::from_secs(6);

/// How long to wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `skydock` process, which is killed at the end of the test if it is still running.
struct Skydock {
    process: Process,
    dir: TempDir,
}

impl Skydock {
    /// Starts the process in its own directory, which may already contain files.
    fn start(dir: TempDir, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skydock"));
        let serves = args.iter().any(|arg| arg.starts_with("--cloud-provider="));
        command
            .args(args)
            .args(serves.then_some("--secure-port=0"))
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .env("SECRET", "of the host");
        let process = Process::start("skydock", command, &dir.path().join("log")).unwrap();
        Self { process, dir }
    }

    /// Starts the process as a manager with this plugin.
    fn manager(dir: TempDir, plugin: &str, more: &[&str]) -> Self {
        let plugin = format!("--plugin=hostile={plugin}");
        let args = [
            "--cloud-provider=hostile",
            &plugin,
            "--configure-cloud-routes=false",
        ];
        Self::start(dir, &[&args, more].concat())
    }

    fn log(&self) -> String {
        let log = self.dir.path().join("log");
        if log.is_file() {
            fs::read_to_string(log).unwrap()
        } else {
            String::new()
        }
    }

    fn until(&mut self, what: &str, mut so: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !so(self) {
            assert!(
                began.elapsed() < PATIENCE,
                "still not: {what}\n{}",
                self.log()
            );
            if let Some(status) = self.process.ended().unwrap() {
                panic!("{status} before {what}\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns its compiler process once it is running.
    fn compiler(&mut self) -> PathBuf {
        self.until("a compiler is at work", |it| {
            it.children().iter().any(|child| is_limited(child))
        });
        self.children()
            .into_iter()
            .find(|child| is_limited(child))
            .unwrap()
    }

    /// Returns the child processes.
    fn children(&self) -> Vec<PathBuf> {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.process.id())) else {
            return Vec::new();
        };
        let ids =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
        ids.collect::<String>()
            .split_whitespace()
            .map(|id| Path::new("/proc").join(id))
            .collect()
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// Sends a signal and waits for the end of the process.
    fn ends_by(mut self, signal: Signal) -> (ExitStatus, String) {
        let began = Instant::now();
        self.signal(signal);
        loop {
            if let Some(status) = self.process.ended().unwrap() {
                return (status, self.log());
            }
            assert!(
                began.elapsed() < ENDS_WITHIN,
                "it does not hear\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns true if the compiler has set its limits; the limit of CPU time is set last.
fn is_limited(process: &Path) -> bool {
    limit(process, "Max cpu time").is_some_and(|limit| limit == "300")
}

fn limit(process: &Path, name: &str) -> Option<String> {
    let limits = fs::read_to_string(process.join("limits")).ok()?;
    let values = limits.lines().find_map(|line| line.strip_prefix(name))?;
    Some(values.split_whitespace().next()?.to_owned())
}

/// Waits for the end of a process; an ended process may still be a zombie.
fn ends(process: &Path) {
    let began = Instant::now();
    while fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(
            began.elapsed() < ENDS_WITHIN,
            "the compiler outlives its host"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A plugin that is within all limits and takes many seconds to compile.
static DEAR: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let step = "(if (local.get 0) (then (local.set 1 (i32.mul (local.get 0) (local.get 1)))))";
    let function = format!(
        "(func (param i32 i32) (result i32) {} (local.get 1))",
        step.repeat(12)
    );
    let text = format!(
        r#"(component
            (core module $m {})
            (core instance (instantiate $m))
            (instance $e)
            (export "skydock:provider/plugin@0.1.0" (instance $e)))"#,
        function.repeat(90_000)
    );
    wat::parse_str(text).unwrap()
});

/// Creates a directory with that plugin.
fn with_dear_plugin() -> TempDir {
    let dir = dir();
    fs::write(dir.path().join("dear.wasm"), &*DEAR).unwrap();
    dir
}

/// Returns a valid plugin that `cargo xtask guests` has built.
fn good() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/hostile/good.wasm");
    assert!(
        path.is_file(),
        "there is no fixture {}: run `cargo xtask guests`",
        path.display()
    );
    path.display().to_string()
}

fn write_kubeconfig(dir: &Path, server: &str, user: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    fs::write(dir.join("kubeconfig"), text).unwrap();
    "--kubeconfig=kubeconfig".to_owned()
}

/// Returns the status line of an answer, if there is one.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn health_and_signals_work_while_compiling() {
    let address = free_address().unwrap();
    let serve = format!("--metrics-bind-address={address}");
    let args = [
        "--cloud-provider=hostile",
        "--plugin=hostile=dear.wasm",
        &serve,
    ];
    let mut skydock = Skydock::start(with_dear_plugin(), &args);
    let compiler = skydock.compiler();
    for (path, status) in [
        ("/healthz", "200"),
        ("/livez", "200"),
        ("/readyz", "500"),
        ("/metrics", "200"),
    ] {
        let answer = get(address, path).expect("served");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{path}: {answer}"
        );
    }
    let (status, log) = skydock.ends_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
    ends(&compiler);
}

// Holds: SEC-13
#[test]
fn the_compiler_inherits_nothing_from_the_host() {
    let mut skydock = Skydock::manager(with_dear_plugin(), "dear.wasm", &[]);
    let compiler = skydock.compiler();
    let environment = fs::read_to_string(compiler.join("environ")).unwrap();
    assert!(
        environment.starts_with("RAYON_NUM_THREADS=") && !environment.contains("SECRET"),
        "{environment:?}"
    );
    let arguments = fs::read_to_string(compiler.join("cmdline")).unwrap();
    assert!(arguments.ends_with("\0plugin\0compile\0"), "{arguments:?}");
    // File descriptors that this test process itself inherited are passed on to all its children,
    // but none of the host's own files are.
    let files = |process: &Path| -> BTreeSet<_> {
        fs::read_dir(process.join("fd"))
            .unwrap()
            .map(|fd| fd.unwrap().file_name())
            .collect()
    };
    let mut other = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = Path::new("/proc").join(other.id().to_string());
    while !fs::read_link(process.join("exe"))
        .is_ok_and(|exe| exe != std::env::current_exe().unwrap())
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The other program may be loading its libraries.
    let end = Instant::now() + Duration::from_secs(10);
    while files(&compiler) != files(&process) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(files(&compiler), files(&process));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(
        limit(&compiler, "Max address space").unwrap(),
        (2_u64 << 30).to_string()
    );
    let stat = fs::read_to_string(compiler.join("stat")).unwrap();
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let (group, nice) = (fields[2], fields[16]);
    assert_eq!(
        group,
        compiler.file_name().unwrap().to_str().unwrap(),
        "a group of its own"
    );
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    let own: i32 = own
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(16)
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(nice, (own + 10).min(19).to_string());
}

// Holds: SEC-13
#[test]
fn the_compiler_ends_when_the_host_is_killed() {
    let mut skydock = Skydock::manager(with_dear_plugin(), "dear.wasm", &[]);
    let compiler = skydock.compiler();
    skydock.ends_by(Signal::KILL);
    ends(&compiler);
}

#[test]
fn a_signal_stops_plugin_inspect() {
    let mut skydock = Skydock::start(with_dear_plugin(), &["plugin", "inspect", "dear.wasm"]);
    skydock.compiler();
    let (status, log) = skydock.ends_by(Signal::TERM);
    assert_eq!(
        (status.code(), log.as_str()),
        (
            Some(1),
            "skydock: stopped before the plugin was inspected\n"
        )
    );
}

#[test]
fn a_signal_stops_reading_a_blocked_file() {
    let dir = dir();
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), 0o600.into()).unwrap();
    let skydock = Skydock::manager(dir, &good(), &["--kubeconfig=pipe"]);
    std::thread::sleep(Duration::from_millis(500));
    let (status, log) = skydock.ends_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn pipes_are_rejected_by_the_name_of_the_flag() {
    for (plugin, config, flag) in [
        ("pipe", None, "--plugin"),
        (
            good().as_str(),
            Some("--cloud-config=pipe"),
            "--cloud-config",
        ),
    ] {
        let dir = dir();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), 0o600.into()).unwrap();
        let mut skydock = Skydock::manager(dir, plugin, config.as_slice());
        let began = Instant::now();
        while skydock.process.ended().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "it waits for a writer");
            std::thread::sleep(Duration::from_millis(10));
        }
        let words = format!("skydock: {flag}: cannot read pipe: it is a pipe");
        assert!(skydock.log().starts_with(&words), "{}", skydock.log());
    }
}

#[test]
fn a_full_log_disk_does_not_stop_the_process() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plane = runtime
        .block_on(DevPlane::start(Options::default()))
        .unwrap();
    for format in ["--logging-format=text", "--logging-format=json"] {
        let dir = dir();
        // All writes to this file fail because the disk is full.
        std::os::unix::fs::symlink("/dev/full", dir.path().join("log")).unwrap();
        let kubeconfig = write_kubeconfig(
            dir.path(),
            plane.url().to_string().trim_end_matches('/'),
            "{}",
        );
        let address = free_address().unwrap();
        let serve = format!("--metrics-bind-address={address}");
        let plugin = format!("--plugin=hostile={}", good());
        let args = [
            "--cloud-provider=hostile",
            &plugin,
            &serve,
            &kubeconfig,
            "--cluster-cidr=10.0.0.0/16",
            format,
        ];
        let mut skydock = Skydock::start(dir, &args);
        let leads = "master_status{name=\"cloud-controller-manager\"} 1";
        skydock.until("it leads", |_| {
            get(address, "/metrics").is_some_and(|it| it.contains(leads))
        });
        assert_eq!(skydock.ends_by(Signal::TERM).0.code(), Some(0));
    }
    runtime.block_on(plane.shutdown());
}

#[test]
fn a_signal_stops_waiting_for_an_exec_credential() {
    let dir = dir();
    let program = dir.path().join("login");
    fs::write(&program, "#!/bin/sh\ntouch asked\nexec sleep 20\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}}";
    let kubeconfig = write_kubeconfig(dir.path(), "https://127.0.0.1:1", user);
    let mut skydock = Skydock::manager(dir, &good(), &[&kubeconfig]);
    skydock.until("credentials are asked for", |it| {
        it.dir.path().join("asked").exists()
    });
    let (status, log) = skydock.ends_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn a_signal_stops_waiting_for_the_api_server() {
    let dir = dir();
    // This server accepts connections but never answers.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let kubeconfig = write_kubeconfig(
        dir.path(),
        &format!("http://{}", server.local_addr().unwrap()),
        "{}",
    );
    let skydock = Skydock::manager(dir, &good(), &[&kubeconfig]);
    let connection = server.accept().unwrap();
    let (status, log) = skydock.ends_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
    drop(connection);
}

/// Answers each request to this address with this status, and nothing else.
fn answering(listener: TcpListener, status: &'static str) {
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // The head of a GET request fits into one packet.
            let read = connection.read(&mut [0; 4096]);
            if read.is_ok() {
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = connection.write_all(answer.as_bytes());
            }
        }
    });
}

#[test]
fn an_api_server_that_comes_late_is_waited_for() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dir = dir();
    let (server, address) = (free_address().unwrap(), free_address().unwrap());
    let serve = format!("--metrics-bind-address={address}");
    let plugin = format!("--plugin=hostile={}", good());
    let args = [
        "--cloud-provider=hostile",
        &plugin,
        &serve,
        "--kubeconfig=kubeconfig",
        "--cluster-cidr=10.0.0.0/16",
    ];
    write_kubeconfig(dir.path(), &format!("http://{server}"), "{}");
    let mut skydock = Skydock::start(dir, &args);
    // First the server refuses connections, then a balancer answers in its place.
    let waits = "waiting for the API server: it does not answer yet";
    skydock.until("it waits", |it| it.log().contains(waits));
    let log = skydock.log();
    assert!(log.contains(&format!("http://{server}")), "{log}");
    answering(
        TcpListener::bind(server).unwrap(),
        "503 Service Unavailable",
    );
    std::thread::sleep(Duration::from_secs(3));
    let readiness = get(address, "/readyz").unwrap();
    assert!(
        readiness.starts_with("HTTP/1.1 500") && readiness.contains("[-]apiServer"),
        "{readiness}"
    );
    assert!(
        get(address, "/healthz")
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    assert_eq!(skydock.log().matches(waits).count(), 1, "{}", skydock.log());
    let (status, log) = skydock.ends_by(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");

    // A control plane that is complete.
    let plane = runtime
        .block_on(DevPlane::start(Options::default()))
        .unwrap();
    let dir = self::dir();
    write_kubeconfig(
        dir.path(),
        plane.url().to_string().trim_end_matches('/'),
        "{}",
    );
    let mut skydock = Skydock::start(dir, &args);
    skydock.until("it is ready", |_| {
        get(address, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    assert!(!skydock.log().contains(waits), "{}", skydock.log());
    drop(skydock);
    runtime.block_on(plane.shutdown());
}

#[test]
fn a_replica_without_permission_for_the_lease_is_not_ready() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plane = runtime
        .block_on(DevPlane::start(Options::default()))
        .unwrap();
    let denied = Rule::new(Fault::Forbidden).resource("leases");
    plane.faults().set(denied, StdRng::seed_from_u64(0));
    let dir = dir();
    let address = free_address().unwrap();
    let kubeconfig = write_kubeconfig(
        dir.path(),
        plane.url().to_string().trim_end_matches('/'),
        "{}",
    );
    let serve = format!("--metrics-bind-address={address}");
    let plugin = format!("--plugin=hostile={}", good());
    let args = [
        "--cloud-provider=hostile",
        &plugin,
        &serve,
        &kubeconfig,
        "--cluster-cidr=10.0.0.0/16",
    ];
    let mut skydock = Skydock::start(dir, &args);
    let answer = |path: &str| get(address, path).unwrap_or_default();
    skydock.until("only the Lease is missing", |_| {
        answer("/readyz").contains("[+]apiServer")
    });
    skydock.until("the Lease is denied", |it| {
        it.log().contains("cannot acquire the Lease")
    });
    assert!(
        answer("/readyz").contains("[-]lease"),
        "{}",
        answer("/readyz")
    );
    assert!(answer("/healthz").starts_with("HTTP/1.1 200"));
    plane.faults().clear();
    skydock.until("it is ready", |_| {
        answer("/readyz").starts_with("HTTP/1.1 200")
    });
    drop(skydock);
    runtime.block_on(plane.shutdown());
}

#[test]
fn a_signal_stops_a_leader_and_a_standby() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plane = runtime
        .block_on(DevPlane::start(Options::default()))
        .unwrap();
    let url = plane.url().to_string();
    let start = |name: &str| {
        let dir = dir();
        let kubeconfig = write_kubeconfig(dir.path(), url.trim_end_matches('/'), "{}");
        let address = free_address().unwrap();
        let serve = format!("--metrics-bind-address={address}");
        let plugin = format!("--plugin=hostile={}", good());
        let args = [
            "--cloud-provider=hostile",
            &plugin,
            &serve,
            &kubeconfig,
            "--cluster-cidr=10.0.0.0/16",
        ];
        let mut skydock = Skydock::start(dir, &args);
        let ready = |_: &Skydock| {
            get(address, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
        };
        skydock.until(&format!("the {name} is ready"), ready);
        (skydock, address)
    };
    let leads = |address| {
        get(address, "/metrics")
            .is_some_and(|it| it.contains("master_status{name=\"cloud-controller-manager\"} 1"))
    };
    let (mut leader, address) = start("leader");
    leader.until("it leads", |_| leads(address));
    let (standby, address) = start("standby");
    assert!(!leads(address));
    for process in [standby, leader] {
        let (status, log) = process.ends_by(Signal::TERM);
        assert_eq!(status.code(), Some(0), "{log}");
    }
    runtime.block_on(plane.shutdown());
}
