use super::*;

fn ccm(args: &[&str]) -> Result<CcmArgs, Stop> {
    parse([&["skydock"], args].concat()).map(|cli| cli.ccm)
}

fn rejection(args: &[&str]) -> String {
    let sentence = ccm(args).expect_err("rejected").sentence();
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    sentence
}

#[test]
fn parses_the_flags_of_a_typical_ccm_manifest() {
    let args = ccm(&[
        "--cloud-provider=static",
        "--cloud-config=/etc/kubernetes/cloud.yaml",
        "--kubeconfig=/etc/kubernetes/ccm.conf",
        "--cluster-name=prod",
        "--leader-elect=true",
        "--leader-elect-lease-duration=15s",
        "--leader-elect-renew-deadline=10s",
        "--leader-elect-retry-period=2s",
        "--use-service-account-credentials",
        "--controllers=*,-route",
        "--configure-cloud-routes=false",
        "--allocate-node-cidrs=false",
        "--v=2",
        "--plugin=static=/plugins/static.wasm",
        "--plugin-dir=/plugins",
        "--node-status-update-frequency=5m0s",
    ])
    .unwrap();

    assert_eq!(args.cloud_provider, "static");
    assert!(args.leader_elect && args.use_service_account_credentials);
    assert_eq!(args.controllers, ["*", "-route"]);
    assert_eq!(args.leader_elect_lease_duration, Duration::from_secs(15));
    assert_eq!(
        args.nodes.node_status_update_frequency,
        Duration::from_secs(300)
    );
    assert_eq!(
        args.plugins,
        [NamedPlugin {
            name: "static".into(),
            file: "/plugins/static.wasm".into()
        }]
    );
}

#[test]
fn defaults_match_upstream() {
    let args = ccm(&[]).unwrap();
    assert!(args.leader_elect && !args.use_service_account_credentials);
    assert_eq!(args.cluster_name, "kubernetes");
    assert_eq!(args.controllers, ["*"]);
    assert_eq!(args.leader_elect_renew_deadline, Duration::from_secs(10));
    assert_eq!(args.leader_elect_retry_period, Duration::from_secs(2));
    assert_eq!(args.leader_elect_resource_name, "cloud-controller-manager");
    assert_eq!(args.leader_elect_resource_namespace, "kube-system");
    assert_eq!(args.nodes.node_monitor_period, Duration::from_secs(5));
}

#[test]
fn parses_boolean_flags_like_go() {
    assert!(!ccm(&["--leader-elect=false"]).unwrap().leader_elect);
    assert!(ccm(&["--leader-elect"]).unwrap().leader_elect);
    assert!(rejection(&["--leader-elect=maybe"]).contains("maybe"));
}

#[test]
fn an_unsupported_upstream_flag_is_rejected_by_name() {
    assert_eq!(
        rejection(&["--address=0.0.0.0"]),
        "--address is a flag of upstream's cloud-controller-manager that Skydock does not support: \
         use --secure-port, which serves HTTPS: set scheme: HTTPS in the probes; --metrics-bind-address serves plain HTTP"
    );
    assert!(rejection(&["--webhooks=x"]).ends_with("remove it: Skydock has no webhooks"));

    let two = rejection(&[
        "--port",
        "10258",
        "--v=2",
        "--address=::",
        "--cluster-nam=a",
    ]);
    let first = two.find("--port is a flag").unwrap();
    assert!(two[first..].contains("; --address is a flag"), "{two}");
}

#[test]
fn a_flag_without_effect_is_accepted_unless_flags_are_strict() {
    let given = [
        "--kube-api-qps",
        "50",
        "--profiling",
        "--vmodule=a=4",
        "--v=2",
    ];
    let accepted = ccm(&given).unwrap();
    let flags: Vec<_> = accepted
        .accepted
        .iter()
        .map(|it| it.flag.as_str())
        .collect();
    assert_eq!(
        flags,
        ["--kube-api-qps=50", "--profiling=true", "--vmodule=a=4"]
    );
    assert!(accepted.accepted.iter().all(|it| it.no_effect.is_some()));
    assert_eq!(accepted.v, 2);

    for strict in ["--strict-flags", "--strict-flags=True"] {
        let said = rejection(&[&given[..], &[strict]].concat());
        for flag in ["--kube-api-qps is", "--profiling is", "--vmodule is"] {
            assert!(said.contains(flag), "{said}");
        }
    }
    assert!(ccm(&[&given[..], &["--strict-flags", "--strict_flags=0"]].concat()).is_ok());
}

#[test]
fn values_are_read_as_by_pflag() {
    let both = |left: &[&str], right: &[&str]| {
        let read = |args| {
            let mut args = ccm(args).unwrap_or_else(|stop| panic!("{stop:?}"));
            // They are shown as they are written.
            args.effective.clear();
            format!("{args:?}")
        };
        assert_eq!(read(left), read(right), "{left:?}");
    };
    for (given, same) in [
        (&["--cluster-name", "c"][..], &["--cluster-name=c"][..]),
        (&["--cluster_name=c"], &["--cluster-name=c"]),
        (&["--controllers", "-route,*"], &["--controllers=-route,*"]),
        (&["--controllers=*,,-route,"], &["--controllers=*,-route"]),
        (
            &["--controllers=\"*\",\"-route\""],
            &["--controllers=*,-route"],
        ),
        (
            &["--feature-gates= CloudControllerManagerWatchBasedRoutesReconciliation = F "],
            &["--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=false"],
        ),
        (&["--leader-elect=False"], &["--leader-elect=false"]),
        (&["--leader-elect=0"], &["--leader-elect=false"]),
        (&["--leader-elect=t"], &["--leader-elect"]),
        (
            &["--leader-elect=T", "--leader-elect=F"],
            &["--leader-elect=f"],
        ),
        (&["--leader-elect=FALSE"], &["--leader-elect=0"]),
        (
            &["--leader-elect=TRUE", "--dry-run=1"],
            &["--leader-elect", "--dry-run"],
        ),
        (&["--dry-run=true"], &["--dry-run"]),
        (&["--dry-run=false"], &[]),
        (&["--v=2", "--v=4"], &["--v=4"]),
        (&["--v=1000"], &["--v=255"]),
        (&["--v", "-1"], &["--v=0"]),
        (
            &["--concurrent-node-syncs=0x1F"],
            &["--concurrent-node-syncs=31"],
        ),
        (
            &["--concurrent-node-syncs", "1_0"],
            &["--concurrent-node-syncs=10"],
        ),
        (&["--secure-port=0b1_01"], &["--secure-port=5"]),
        (
            &["--node-cidr-mask-size=+25"],
            &["--node-cidr-mask-size=25"],
        ),
        (
            &["--cluster-cidr=10.0.0.0/8", "--cluster-cidr", "fd00::/56"],
            &["--cluster-cidr=fd00::/56"],
        ),
        (
            &["--controllers=*", "--controllers=-route"],
            &["--controllers=*,-route"],
        ),
        (&["-v", "2"], &["-v=2"]),
        (
            &["--leader-elect", "--leader-elect=false"],
            &["--leader-elect=false"],
        ),
        (&["", "--v=2", ""], &["--v=2"]),
        // An empty text is not set.
        (&["--cloud-config=", "--master=", "--kubeconfig", ""], &[]),
        (
            &["--cluster-cidr=", "--feature-gates=", "--feature-gates=,"],
            &[],
        ),
        (
            &["--cluster-cidr=10.0.0.0/8,"],
            &["--cluster-cidr=10.0.0.0/8"],
        ),
        (
            &["--metrics-bind-address=localhost:1"],
            &["--metrics-bind-address=127.0.0.1:1"],
        ),
        (&["--secure-port", "1"], &["--secure-port=1"]),
        (
            &["--tls-cipher-suites=", "--tls-cert-file", ""],
            &["--client-ca-file="],
        ),
        (
            &["--route-reconciliation-period", "1m30s"],
            &["--route-reconciliation-period=90s"],
        ),
    ] {
        both(given, same);
    }

    let BindAddress::At(all) = ccm(&["--metrics-bind-address=:10258"])
        .unwrap()
        .serving
        .metrics_bind_address
    else {
        panic!("nothing is served")
    };
    assert!(all.ip().is_unspecified() && all.port() == 10258, "{all}");
    // A flag is not the value of another one.
    assert!(rejection(&["--cloud-config", "--v=2"]).contains("--cloud-config"));
    assert!(rejection(&["--kube-api-qps", "--v=2"]).contains("--kube-api-qps needs a value"));
    assert!(rejection(&["--profiling=maybe"]).contains("neither true nor false"));
}

#[test]
fn feature_gates_of_upstream_are_accepted() {
    let own = "CloudControllerManagerWatchBasedRoutesReconciliation";
    let accepted = |list: &str| {
        let args = ccm(&[&format!("--feature-gates={list}")]).unwrap();
        let said = args.accepted.into_iter();
        let said = said.map(|it| (it.flag, it.no_effect.unwrap_or_default()));
        (args.routes.feature_gates, said.collect::<Vec<_>>())
    };
    assert_eq!(
        accepted(&format!("AllAlpha=false,{own}=false,")),
        (
            vec![FeatureGate::WatchBasedRoutes(false)],
            vec![(
                "--feature-gates=AllAlpha=false".to_owned(),
                "Skydock does not have this gate".to_owned()
            )]
        )
    );

    for (gate, words) in [
        ("CloudDualStackNodeIPs=true", ""),
        ("CloudDualStackNodeIPs=false", "both IP families"),
        ("CloudControllerManagerWebhook=T", "Skydock has no webhooks"),
        ("CloudControllerManagerWebhook=false", ""),
    ] {
        let (own, said) = accepted(gate);
        assert!(own.is_empty() && said[0].1.contains(words), "{said:?}");
        assert_eq!(words.is_empty(), said[0].1.is_empty(), "{said:?}");
    }
    assert!(rejection(&["--feature-gates=A=maybe"]).contains("A=maybe: \"maybe\" is neither"));
}

#[test]
fn the_path_of_another_executable_is_ignored() {
    for (given, ignored) in [
        (&["/bin/metal-cloud-controller-manager", "--v=2"][..], 1),
        (
            &[
                "/go-runner",
                "--log-file=/l",
                "--also-stdout=false",
                "/cloud-controller-manager",
                "--v=2",
            ],
            2,
        ),
        (&["--redirect-stderr=true", "/app/ccm", "--v=2"], 1),
        (&["/sbin/tini", "--", "/bin/ccm", "--v=2"], 2),
        (&["hyperkube", "cloud-controller-manager", "--v=2"], 2),
    ] {
        let args = ccm(given).unwrap();
        assert_eq!((args.executables.len(), args.v), (ignored, 2), "{given:?}");
    }

    let log_file = ccm(&[
        "--log-file",
        "/var/log/ccm.log",
        "/cloud-controller-manager",
    ])
    .unwrap();
    assert!(
        log_file.accepted[0]
            .no_effect
            .as_ref()
            .unwrap()
            .contains("no log file is written")
    );

    for wrong in [
        &["--v=2", "/bin/metal-cloud-controller-manager"][..],
        &["--leader-elect", "/etc/cloud"],
        &["/etc/kubernetes/cloud.conf"],
    ] {
        assert!(rejection(wrong).contains(wrong[wrong.len() - 1]));
    }
    let shell = rejection(&[
        "/bin/bash",
        "-c",
        "exec /bin/x-cloud-controller-manager --v=2",
    ]);
    assert!(shell.contains("starts a shell"), "{shell}");
}

#[test]
fn a_subcommand_is_not_changed() {
    let cli = parse(["skydock", "plugin", "test", "/bin/a", "", "--secure-port=1"]).unwrap();
    let Some(Command::Plugin {
        command: PluginCommand::Tool(tool),
    }) = cli.command
    else {
        panic!("another command")
    };
    assert_eq!(tool.words().1, ["/bin/a", "", "--secure-port=1"]);
}

#[test]
fn the_version_of_upstream_has_values() {
    for (given, prints) in [
        ("--version", true),
        ("--version=raw", true),
        ("--version=true", true),
        ("--version=false", false),
    ] {
        let stopped = parse(["skydock", given]).err();
        assert_eq!(stopped.is_some(), prints, "{given}");
        assert!(
            stopped.is_none_or(|stop| matches!(stop.0, Why::Clap(error) if is_request(&error)))
        );
    }
}

#[test]
fn rejects_unknown_flags_with_a_suggestion() {
    assert_eq!(
        rejection(&["--clod-provider=static"]),
        "unexpected argument '--clod-provider' found; did you mean --cloud-provider?"
    );
    let unknown = rejection(&["--vpc-names=a"]);
    assert!(
        unknown.contains("'--vpc-names' found") && unknown.contains("options: {vpc-names: VALUE}"),
        "{unknown}"
    );
    assert!(rejection(&["surplus"]).contains("surplus"));
}

#[test]
fn an_error_in_a_subcommand_leads_to_its_help() {
    let of = |words: &[&str]| parse([&["skydock"], words].concat()).unwrap_err();

    let check = of(&["config", "check", "--config=f.yaml"]);
    assert_eq!(check.command(), "skydock config check");
    assert!(!check.sentence().contains("options:"), "{check}");

    assert_eq!(of(&["--vpc-names=a"]).command(), "skydock");
    assert_eq!(of(&["--v=debug"]).command(), "skydock");
}

#[test]
fn an_error_names_all_flags_that_are_wrong() {
    let error = rejection(&[
        "--enable-things=1",
        "--webhooks=a",
        "--network=public",
        "--v=z",
    ]);
    for flag in ["'--enable-things'", "--webhooks", "'--network'"] {
        assert!(error.contains(flag), "{error}");
    }
    assert!(!error.contains("public"), "{error}");
}

#[test]
fn controllers_of_others_can_be_disabled() {
    let cli = parse(["skydock", "--controllers=*,-gkenetworkparamset,-route"]).unwrap();
    assert_eq!(cli.ccm.controllers, ["*", "-route"]);
    let accepted = &cli.ccm.accepted[0];
    assert_eq!(accepted.flag, "--controllers=-gkenetworkparamset");
    assert!(accepted.no_effect.is_some());

    let strict = rejection(&["--strict-flags", "--controllers=*,-gkenetworkparamset"]);
    assert!(
        strict.contains("no controller gkenetworkparamset"),
        "{strict}"
    );
    // A misspelled one would run, and what is enabled would not.
    for kept in ["-servise", "tagging"] {
        let cli = parse(["skydock", &format!("--controllers={kept}")]).unwrap();
        assert_eq!(
            (cli.ccm.controllers, cli.ccm.accepted.len()),
            (vec![kept.to_owned()], 0)
        );
    }
}

#[test]
fn rejects_invalid_flag_values() {
    assert!(rejection(&["--plugin=static"]).contains("NAME=FILE"));
    assert!(rejection(&["--node-monitor-period=soon"]).contains("expected a duration"));
    assert!(rejection(&["--concurrent-node-syncs=0"]).contains("0"));
    assert!(rejection(&["--metrics-bind-address=all"]).contains("ADDRESS:PORT"));
}

#[test]
fn errors_say_what_is_expected() {
    for (args, expected) in [
        (&["--node-deletion-limit=-1"][..], "expected a number"),
        (&["--v=debug"], "expected a number from 0 to 255"),
        (
            &["--load-balancer-allowed-cidrs=10.0.0.1"],
            "192.0.2.7/32 for a single address",
        ),
        (&["--leader-elect", "false"], "--leader-elect=false"),
        (
            &["--cloud-provider=a", "--allocate-node-cidrs", "true"],
            "set boolean flags with =",
        ),
        (&["plugin"], "skydock plugin inspect FILE"),
    ] {
        let sentence = rejection(args);
        assert!(sentence.contains(expected), "{args:?}: {sentence}");
    }
}

#[test]
fn parses_go_durations() {
    for (text, millis) in [
        ("15s", 15_000),
        ("5m0s", 300_000),
        ("1h30m", 5_400_000),
        ("100ms", 100),
        ("1.5s", 1_500),
        ("72h", 259_200_000),
        (".5s", 500),
        ("1.5h30m", 7_200_000),
        ("1m1m", 120_000),
        ("0", 0),
        ("0s", 0),
        ("+0", 0),
        ("-0", 0),
        ("-0s", 0),
        ("+1m", 60_000),
        ("5.s", 5_000),
        ("1.h.5m", 3_630_000),
        ("007s", 7_000),
        ("2000us", 2),
        ("2000µs", 2),
        ("2000μs", 2),
        ("3000000ns", 3),
        ("1m0.5s", 60_500),
    ] {
        assert_eq!(
            parse_duration(text),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    for wrong in [
        "-5s", "", "+", ".", ".s", "s", "5", "1h5", "1h-5m", "1.2.3s", "1h.s", "soon",
    ] {
        assert!(parse_duration(wrong).is_err(), "{wrong}");
    }
}

/// Durations are added to times, which have a limited range.
#[test]
fn no_flag_accepts_a_duration_of_more_than_a_year() {
    assert!(parse_duration("8760h").is_ok());
    let too_long = [
        "8760h1s",
        "2562047788015215h30m7s",
        "9223372036854775807s",
        "100000000000000000000h",
    ];
    for text in too_long {
        assert!(parse_duration(text).is_err(), "{text}");
    }

    let cli = <Cli as clap::CommandFactory>::command();
    let durations: Vec<_> = cli
        .get_arguments()
        .filter(|arg| {
            arg.get_value_names()
                .is_some_and(|names| names.iter().any(|name| name.as_str() == "DURATION"))
        })
        .filter_map(clap::Arg::get_long)
        .collect();
    assert!(durations.len() >= 9, "{durations:?}");

    for flag in durations {
        let rejected = parse(["skydock", &format!("--{flag}={}", too_long[2])]);
        assert!(
            rejected.is_err_and(|stop| stop.sentence().contains(flag)),
            "--{flag}"
        );
    }
}

#[test]
fn help_shows_the_defaults_of_the_controllers() {
    use clap::CommandFactory;
    let help = Cli::command().render_long_help().to_string();
    let defaults = skydock_controllers::Options::default();
    for (what, default) in [
        ("Number of batches of nodes", defaults.node.workers),
        ("Number of Services", defaults.services.concurrent_syncs),
    ] {
        let line = help.lines().find(|line| line.contains(what)).unwrap();
        assert!(line.ends_with(&format!("[default: {default}]")), "{line}");
    }
}

#[test]
fn help_names_all_controllers() {
    use clap::CommandFactory;
    let cli = Cli::command();
    let flag = cli
        .get_arguments()
        .find(|arg| arg.get_long() == Some("controllers"))
        .unwrap();
    let help = flag.get_help().unwrap().to_string();
    for controller in skydock_controllers::controllers() {
        assert!(help.contains(controller.alias), "{help}");
    }
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn the_flags_in_effect_are_known_without_secrets() {
    let given = [
        "--cluster-name=prod",
        "--controllers=*,-route",
        "--use-service-account-credentials",
        "--master=https://user:hunter2@10.0.0.1:6443",
        "--plugin-option=password=hunter2",
        "--kube-api-qps=50",
        "--kube-api-content-type=https://user:hunter2@example",
    ];
    let effective = ccm(&given).unwrap().effective;
    for (name, value) in [
        ("cluster-name", "prod"),
        ("controllers", "*,-route"),
        ("use-service-account-credentials", "true"),
        ("dry-run", "false"),
        ("leader-elect-lease-duration", "15s"),
        ("cloud-config", ""),
        ("secure-port", "10258"),
        ("master", "10.0.0.1:6443"),
        ("plugin-option", "password=…"),
        ("kube-api-qps", "50"),
        ("kube-api-content-type", "example"),
    ] {
        assert_eq!(
            effective.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
    assert!(!effective.contains_key("help"));
    assert!(!format!("{effective:?}").contains("hunter2"));

    let said = rejection(&["--master=https://user:hunter2@10.0.0.1 6443"]);
    assert!(said.contains("'10.0.0.1 6443' for '--master"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
