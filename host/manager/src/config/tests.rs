//! Tests of flags and files together.

use skydock_sandbox::Overlap;

use super::*;

mod manifests;

fn config(args: &[&str]) -> Result<Config, ConfigError> {
    let nowhere = Defaults {
        plugin_dir: "/nowhere/plugins".into(),
        config: "/nowhere/config.yaml".into(),
    };
    config_with(args, &nowhere)
}

fn config_with(args: &[&str], defaults: &Defaults) -> Result<Config, ConfigError> {
    let cli = crate::cli::parse([&["skydock"], args].concat()).expect("flags parse");
    Config::with_defaults(cli.ccm, defaults)
}

fn lines(config: &Config) -> Vec<&str> {
    config.notices.iter().map(Notice::line).collect()
}

fn plugin_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("static.wasm"), b"").unwrap();
    dir
}

#[test]
fn a_file_for_an_instance_is_checked_with_a_region_of_its_keys() {
    let path = Path::new("/etc/skydock/config.yaml");
    for (name, source, expected) in [
        ("aws", "{imds: {}}", Some("eu-west-1")),
        ("aws", "{sharedFile: {file: /run/keys}}", None),
        ("metal", "{imds: {}}", None),
    ] {
        let text = format!(
            "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- {{name: {name}, file: a.wasm}}\n\
             credentials:\n- {{name: k, type: aws-sigv4, for: {{plugin: {name}, digest: any}}, source: {source}, services: [ec2], \
             regions: [eu-west-1, eu-west-2]}}\n"
        );
        let file = SkydockConfiguration::parse(&text, path).unwrap();
        let (source, _) = source_in_file(&file, &file.plugins[0], path, Vec::new()).unwrap();
        let region = source.default_options.get("region").map(String::as_str);
        assert_eq!(region, expected, "{text}");
    }
}

#[test]
fn the_provider_is_found_by_plugin_flag_then_plugin_dir() {
    let dir = plugin_dir();
    let file = dir.path().join("static.wasm");
    let named = format!("--plugin=mine={}", file.display());
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    assert_eq!(
        config(&["--cloud-provider=mine", &named])
            .unwrap()
            .plugin
            .file,
        file
    );
    assert_eq!(
        config(&["--cloud-provider=static", &named, &in_dir])
            .unwrap()
            .plugin
            .file,
        file
    );

    std::fs::write(dir.path().join("metal.wasm"), b"").unwrap();
    let missing = config(&["--cloud-provider=aws", &in_dir])
        .unwrap_err()
        .to_string();
    assert!(
        missing
            .contains("aws.wasm does not exist; set --cloud-provider to one of metal, static, or"),
        "{missing}"
    );
}

#[test]
fn the_only_plugin_serves_whatever_the_provider_is() {
    let dir = plugin_dir();
    let file = dir.path().join("static.wasm");
    std::fs::write(dir.path().join("notes.txt"), b"").unwrap();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    let flag = format!("--plugin=static={}", file.display());

    for source in [&in_dir, &flag] {
        let missing = config(&[source]).unwrap();
        assert_eq!(
            (missing.plugin.name.as_str(), &missing.plugin.file),
            ("static", &file)
        );
        assert_eq!(
            lines(&missing),
            ["--cloud-provider is not set: the only plugin, static, serves"]
        );

        let other = config(&[source, "--cloud-provider=external"]).unwrap();
        assert_eq!(
            (other.plugin.name.as_str(), &other.plugin.file),
            ("static", &file)
        );
        assert!(
            matches!(other.notices.as_slice(), [Notice::Warning(line)]
                if line.contains("--cloud-provider=external") && line.contains("static")),
            "{:?}",
            other.notices
        );
        let right = config(&[source, "--cloud-provider=static"]).unwrap();
        assert!(right.notices.is_empty());
    }

    std::fs::write(dir.path().join("metal.wasm"), b"").unwrap();
    for args in [
        &[in_dir.as_str()][..],
        &[&flag, "--plugin=metal=metal.wasm"],
    ] {
        let several = config(args).unwrap_err().to_string();
        assert!(
            several.starts_with("--cloud-provider is missing") && several.contains("metal"),
            "{several}"
        );
    }
    // A plugin that a flag names comes before those in the directory.
    let named = config(&[&in_dir, &flag, "--cloud-provider=external"]).unwrap();
    assert_eq!(named.plugin.name, "static");
}

#[test]
fn plugins_and_configuration_are_found_without_flags() {
    let dir = plugin_dir();
    let defaults = Defaults {
        plugin_dir: dir.path().into(),
        config: dir.path().join("config.yaml"),
    };
    let plugins = dir.path().display().to_string();

    let alone = config_with(&["--cloud-provider=static"], &defaults).unwrap();
    assert_eq!(alone.plugin.file, dir.path().join("static.wasm"));
    assert_eq!(
        lines(&alone),
        [format!("--plugin-dir is not set: using {plugins}")]
    );

    // What the file names comes before what happens to be in the directory.
    std::fs::write(dir.path().join("other.wasm"), b"").unwrap();
    let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins: [{name: other, file: other.wasm}]\n";
    std::fs::write(&defaults.config, text).unwrap();
    for provider in [
        "--cloud-provider=",
        "--cloud-provider=static",
        "--cloud-provider=other",
    ] {
        let configured = config_with(&[provider], &defaults).unwrap();
        assert_eq!(configured.plugin.name, "other", "{provider}");
        assert_eq!(configured.file.as_ref(), Some(&defaults.config));
        let said = format!("--config is not set: using {plugins}/config.yaml");
        assert!(lines(&configured).contains(&said.as_str()));
        assert_eq!(lines(&configured).len() > 1, provider.ends_with("static"));
    }

    std::fs::write(&defaults.config, "kind: Other\n").unwrap();
    let wrong = config_with(&[], &defaults).unwrap_err().to_string();
    assert!(wrong.contains("config.yaml"), "{wrong}");
}

#[test]
fn cloud_conf_is_recognized_through_symlinks() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("cloud.conf"), "").unwrap();
    std::fs::write(path("other.conf"), "").unwrap();
    std::os::unix::fs::symlink(path("cloud.conf"), path("link.conf")).unwrap();
    let text = format!(
        "[{{name: k, type: session, for: {{plugin: a, digest: any}}, login: {{keystone: {{cloudConf: {}}}}}}}]",
        path("link.conf").display()
    );
    let policy = EgressPolicy {
        credentials: serde_saphyr::from_str(&text).unwrap(),
        ..EgressPolicy::default()
    };

    for (file, expected) in [
        ("link.conf", true),
        ("cloud.conf", true),
        ("other.conf", false),
        ("none", false),
    ] {
        assert_eq!(is_cloud_conf(&policy, &path(file)), expected, "{file}");
        let (kept, passed) = if expected {
            (ConfigSecrets::Kept, ConfigSecrets::Kept)
        } else {
            (ConfigSecrets::Rejected, ConfigSecrets::Passed)
        };
        assert_eq!(
            [false, true].map(|allowed| config_secrets(&policy, Some(&path(file)), allowed)),
            [kept, passed],
            "{file}"
        );
    }
}

#[test]
fn flags_override_the_configuration_file() {
    let dir = plugin_dir();
    let file = dir.path().join("config.yaml");
    let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: static\n  file: static.wasm\n  \
                cloudConfig: config.yaml\n  options: {a: '1', b: '1'}\n  limits: {memory: 64Mi, uses: '7'}\n  overlap: none\n";
    std::fs::write(&file, text).unwrap();
    let flag = format!("--config={}", file.display());
    let read = config(&[&flag]).unwrap();
    assert_eq!(
        (read.plugin.name.as_str(), read.plugin.file.as_path()),
        ("static", &*dir.path().join("static.wasm"))
    );
    assert_eq!(
        (read.plugin.cloud_config.as_deref(), read.plugin.overlap),
        (Some(&*file), Some(Overlap::None))
    );
    assert_eq!(
        (read.plugin.limits.memory, read.plugin.limits.uses),
        (64 << 20, 7)
    );

    let over = config(&[
        &flag,
        "--plugin-limit=memory=65Mi",
        "--plugin-option=b=2",
        "--plugin-option=c=3",
    ])
    .unwrap();
    assert_eq!(
        (over.plugin.limits.memory, over.plugin.limits.uses),
        (65 << 20, 7)
    );

    let options: Vec<_> = over
        .plugin
        .options
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(options, ["a=1", "b=2", "c=3"]);
    let other = format!(
        "--plugin=other={}",
        dir.path().join("static.wasm").display()
    );
    let other = config(&[&flag, "--cloud-provider=other", &other]).unwrap();
    assert_eq!(
        (
            other.plugin.name.as_str(),
            other.plugin.cloud_config,
            other.plugin.overlap
        ),
        ("other", None, None)
    );

    // With two plugins, none of which is named, nobody knows which is meant.
    let unlike = format!(
        "--plugin=unlike={}",
        dir.path().join("static.wasm").display()
    );
    let none = config(&[&flag, "--cloud-provider=other", &unlike])
        .unwrap_err()
        .to_string();
    assert!(
        none.contains("the plugin in") && none.contains("is static"),
        "{none}"
    );
}

#[test]
fn a_secret_that_the_environment_lacks_is_told_at_startup() {
    let dir = plugin_dir();
    let file = dir.path().join("config.yaml");
    let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins: [{name: static, file: static.wasm}]\n\
                credentials:\n- {name: k, type: header, for: {plugin: static, digest: any}, valueEnv: VARIABLE}\n";
    let flag = format!("--config={}", file.display());

    // Cargo sets the second one.
    for (variable, is_told) in [("SKYDOCK_NOWHERE", true), ("CARGO_PKG_NAME", false)] {
        std::fs::write(&file, text.replace("VARIABLE", variable)).unwrap();
        let config = config(&[&flag]).unwrap();
        let told = "credential `k`: the environment variable SKYDOCK_NOWHERE is not set";
        let is_found = lines(&config).iter().any(|line| line.starts_with(told));
        assert_eq!(is_found, is_told, "{:?}", config.notices);
    }
}

#[test]
fn a_missing_setting_is_named_with_its_flag() {
    assert!(
        config(&[])
            .unwrap_err()
            .to_string()
            .starts_with("--cloud-provider is missing")
    );

    let none = config(&["--cloud-provider=static"])
        .unwrap_err()
        .to_string();
    assert!(none.contains("--plugin static=FILE"), "{none}");
    let gone = config(&["--cloud-provider=a", "--plugin=a=/nowhere/a.wasm"])
        .unwrap_err()
        .to_string();
    assert!(
        gone.starts_with("--plugin: cannot read /nowhere/a.wasm"),
        "{gone}"
    );
    // As a directory that another user owns, this cannot be listed.
    let listed = config(&["--plugin-dir=/dev/null"]).unwrap_err().to_string();
    assert_eq!(listed, "the plugin directory: cannot read /dev/null");
    let twice = config(&["--cloud-provider=a", "--plugin=a=1", "--plugin=a=2"])
        .unwrap_err()
        .to_string();
    assert!(twice.contains("twice"), "{twice}");
}

#[test]
fn rules_for_addresses_come_from_flags() {
    let flags = [
        "skydock",
        "--cluster-cidr=10.244.0.0/16, fd00:1::/56",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--load-balancer-allowed-cidrs=10.244.9.0/24,10.244.8.1/32",
    ];
    let rules = |flags: &[&str]| ingress_rules(&crate::cli::parse(flags).unwrap().ccm).unwrap();
    assert_eq!(rules(&["skydock"]), AddressRules::default());

    let allowing = [&flags[..], &["--load-balancer-allow-node-addresses"]].concat();
    assert!(!rules(&flags).node_addresses && rules(&allowing).node_addresses);
    let rules = rules(&flags);
    let texts = |nets: Vec<IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();

    assert_eq!(texts(rules.pods), ["10.244.0.0/16", "fd00:1::/56"]);
    assert_eq!(texts(rules.services), ["10.96.0.0/12"]);
    assert_eq!(texts(rules.allowed), ["10.244.9.0/24", "10.244.8.1/32"]);
    assert!(crate::cli::parse(["skydock", "--load-balancer-allowed-cidrs=10.244.9.0"]).is_err());
}

#[test]
fn ingress_rules_are_checked_even_without_routes() {
    let dir = plugin_dir();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    let flags = [
        "--cloud-provider=static",
        &in_dir,
        "--cluster-cidr=10.244.0.0/16",
    ];
    let allowed = "--load-balancer-allowed-cidrs=10.244.9.0/24";
    let rules = config(&[&flags[..], &[allowed]].concat()).unwrap().ingress;

    assert_eq!((rules.pods.len(), rules.allowed.len()), (1, 1));
    // Neither Pod CIDRs nor routes are used, but a range that is ignored would not protect
    // anything.
    for (wrong, sentence) in [
        (
            "--cluster-cidr=10.245.0.0",
            "--cluster-cidr: \"10.245.0.0\" is not a valid CIDR",
        ),
        (
            "--service-cluster-ip-range=10.96",
            "--service-cluster-ip-range: \"10.96\" is not a valid CIDR",
        ),
    ] {
        let rejected =
            config(&[&flags[..], &[wrong, "--configure-cloud-routes=false"]].concat()).unwrap_err();
        assert!(rejected.to_string().starts_with(sentence), "{rejected}");
    }
}

// Holds: P-20
#[test]
fn rejects_inconsistent_leader_election_durations() {
    let dir = plugin_dir();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    let rejected = config(&[
        "--cloud-provider=static",
        &in_dir,
        "--leader-elect-renew-deadline=20s",
    ])
    .unwrap_err();

    assert!(
        rejected
            .to_string()
            .contains("--leader-elect-lease-duration"),
        "{rejected}"
    );
    assert!(
        config(&["--cloud-provider=static", &in_dir, "--leader-elect=false"])
            .unwrap()
            .election
            .is_none()
    );
}

#[test]
fn a_dry_run_takes_no_part_in_leader_election() {
    let dir = plugin_dir();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    let flags = [
        "--cloud-provider=static",
        in_dir.as_str(),
        "--leader-elect=true",
        "--dry-run",
    ];
    assert!(config(&flags[..3]).unwrap().election.is_some());
    assert!(config(&flags).unwrap().election.is_none());
}

#[test]
fn process_events_refer_to_the_configured_lease() {
    let dir = plugin_dir();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    let flags = [
        "--leader-elect-resource-name=mine",
        "--leader-elect-resource-namespace=here",
    ];
    let process = config(&[&["--cloud-provider=static", &in_dir], &flags[..]].concat())
        .unwrap()
        .options
        .process;
    assert_eq!(
        (process.kind.as_deref(), process.name.as_deref()),
        (Some("Lease"), Some("mine"))
    );
    assert_eq!(process.namespace.as_deref(), Some("here"));
}

#[test]
fn flags_of_a_disabled_controller_are_not_checked() {
    let dir = plugin_dir();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    for (controller, flags) in [
        ("service", &["--load-balancer-default-class=false"][..]),
        (
            "route",
            &[
                "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=false",
                "--route-reconciliation-period=0",
            ],
        ),
        (
            "nodeipam",
            &[
                "--allocate-node-cidrs",
                "--cidr-allocator-type=CloudAllocator",
            ],
        ),
    ] {
        let with = |controllers: &str| {
            let controllers = format!("--controllers={controllers}");
            let provider = ["--cloud-provider=static", &in_dir, &controllers];
            config(&[&provider, flags].concat()).map(drop)
        };
        assert!(with("*").is_err(), "{controller}");
        let disabled = with(&format!("*,-{controller}"));
        assert!(disabled.is_ok(), "{controller}: {disabled:?}");
    }
}

// Holds: P-02
#[test]
fn an_unknown_controller_is_named() {
    let dir = plugin_dir();
    let in_dir = format!("--plugin-dir={}", dir.path().display());
    let rejected = config(&[
        "--cloud-provider=static",
        &in_dir,
        "--controllers=cloud-nodes",
    ])
    .unwrap_err();
    assert!(rejected.to_string().contains("cloud-nodes"), "{rejected}");
}

#[test]
fn without_a_writable_directory_plugins_are_compiled_at_each_start() {
    let found = |flags: &[&str], default: Option<PathBuf>| {
        let args = crate::cli::parse([&["skydock"], flags].concat())
            .expect("flags parse")
            .ccm;
        let mut notices = Vec::new();
        let directory = plugin_cache_dir(&args, default, &mut notices);
        (directory, notices.len())
    };

    let default = || Some(PathBuf::from("/home/.cache/skydock/compiled"));
    let named = ["--plugin-cache-dir=/named"];
    assert!(matches!(found(&named, None), (Ok(Some(it)), 0) if it == Path::new("/named")));
    assert!(matches!(found(&[], default()), (Ok(it), 0) if it == default()));
    assert!(matches!(found(&[], None), (Ok(None), 1)));
    let last_good = ["--plugin-fallback=last-good"];
    assert!(matches!(
        found(&last_good, None),
        (Err(ConfigError::NoCacheDir), 0)
    ));
}

#[test]
fn a_directory_is_writable_if_the_nearest_one_that_exists_is() {
    let dir = tempfile::tempdir().unwrap();
    assert!(is_writable(dir.path()));
    assert!(is_writable(&dir.path().join("skydock/compiled")));
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(is_writable(Path::new("/nowhere/.cache")), is_root);
}
