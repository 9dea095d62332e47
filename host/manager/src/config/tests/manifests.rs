//! Arguments as manifests of other cloud-controller-managers have them: each list starts with one
//! plugin, up to the point where that is loaded, or is rejected for a reason that it names.

use super::*;

/// A list of arguments, and what is said about it. `DIR` is a directory with the files `cloud.conf`
/// and `kubeconfig`.
struct Manifest {
    args: &'static [&'static str],
    said: Said,
}

enum Said {
    /// It starts, and these texts are in the lines of the log, one in each.
    Starts(&'static [&'static str]),
    /// It does not start, and the error has all of these.
    Rejected(&'static [&'static str]),
}

use Said::{Rejected, Starts};

const OTHER: &str = "names no plugin: static, the only one, serves";

const MANIFESTS: &[Manifest] = &[
    Manifest {
        args: &[
            "/usr/local/bin/cloud-controller-manager",
            "--cloud-provider=static",
            "--leader-elect=true",
            "--use-service-account-credentials",
            "--allocate-node-cidrs=true",
            "--configure-cloud-routes=true",
            "--cluster-cidr=172.20.0.0/16",
        ],
        said: Starts(&["/usr/local/bin/cloud-controller-manager before the flags is ignored"]),
    },
    Manifest {
        args: &[
            "/bin/metal-cloud-controller-manager",
            "--v=2",
            "--cloud-config",
            "DIR/cloud.conf",
            "--cloud-provider",
            "metal",
            "--cluster-name",
            "prod",
            "--controllers=cloud-node,cloud-node-lifecycle,route,service",
        ],
        said: Starts(&["is ignored", OTHER]),
    },
    // Without a provider, and with a token that only the environment has.
    Manifest {
        args: &["--leader-elect=true", "--allow-untagged-cloud"],
        said: Starts(&[
            "--allow-untagged-cloud=true has no effect",
            "the only plugin, static, serves",
        ]),
    },
    Manifest {
        args: &[
            "--allow-untagged-cloud",
            "--cloud-provider=static",
            "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true",
            "--route-reconciliation-period=30s",
            "--webhook-secure-port=0",
            "--leader-elect=False",
        ],
        said: Starts(&["--allow-untagged-cloud=true has no effect"]),
    },
    // A static Pod with go-runner.
    Manifest {
        args: &[
            "/go-runner",
            "--log-file=/var/log/cloud-controller-manager.log",
            "--also-stdout=false",
            "--redirect-stderr=true",
            "/cloud-controller-manager",
            "--v=2",
            "--cloud-provider=external",
        ],
        said: Starts(&[
            "/go-runner before the flags is ignored",
            "/cloud-controller-manager before",
            "no log file is written",
            OTHER,
        ]),
    },
    Manifest {
        args: &[
            "--profiling=false",
            "--allocate-node-cidrs",
            "--leader-elect-resource-name=edge-cloud-controller-manager",
            "--cluster-cidr=10.42.0.0/16,",
            "--controllers=*,-route",
            "--kubeconfig=DIR/kubeconfig",
            "--node-status-update-frequency=1m0s",
            "--feature-gates=CloudDualStackNodeIPs=true,",
        ],
        said: Starts(&["the only plugin"]),
    },
    Manifest {
        args: &[
            "cloud-controller-manager",
            "--cloud-config=",
            "--feature-gates=",
            "--leader-elect-resource-lock",
            "leases",
            "--leader-elect-lease-duration=137s",
            "--leader-elect-renew-deadline=107s",
            "--leader-elect-retry-period=26s",
            "--secure-port",
            "0",
        ],
        said: Starts(&["is ignored", "the only plugin"]),
    },
    // An old one, with flags of klog and of the client.
    Manifest {
        args: &[
            "--logtostderr=true",
            "--stderrthreshold=INFO",
            "--vmodule=",
            "--kube-api-qps=100",
            "--kube-api-burst",
            "200",
            "--min-resync-period=12h0m0s",
            "--profiling",
            "--node-sync-period=10s",
            "--cloud-provider=static",
            "",
        ],
        said: Starts(&[
            "--stderrthreshold=INFO has no effect",
            "--kube-api-qps=100 has no effect: the client has no rate limit; remove the flag",
            "--kube-api-burst=200 has no effect",
            "--min-resync-period=12h0m0s has no effect",
            "--profiling=true has no effect",
            "--node-sync-period=10s has no effect",
        ]),
    },
    Manifest {
        args: &[
            "--cloud-provider=static",
            "--log-json-split-stream=true",
            "--logging-format=json",
        ],
        said: Starts(&["--log-json-split-stream=true has no effect"]),
    },
    // What would change the cloud.
    Manifest {
        args: &["--cloud-provider=static", "--user-agent=cluster-1", "--v=2"],
        said: Rejected(&["--user-agent", "options: {user-agent: VALUE}"]),
    },
    Manifest {
        args: &[
            "--cloud-config-secret-name=cloud",
            "--enable-dynamic-reloading=true",
            "--cloud-provider=static",
        ],
        said: Rejected(&[
            "name its file in --cloud-config",
            "; --enable-dynamic-reloading",
        ]),
    },
    Manifest {
        args: &[
            "--allocate-node-cidrs=true",
            "--cidr-allocator-type=CloudAllocator",
            "--cluster-cidr=10.4.0.0/14",
        ],
        said: Rejected(&["--cidr-allocator-type=CloudAllocator is not supported"]),
    },
    Manifest {
        args: &["--cloud-provider=static", "--tls-cipher-suites=A,B"],
        said: Rejected(&["--tls-cipher-suites: \"A\" is not a cipher suite"]),
    },
    // HTTPS with authentication and authorization.
    Manifest {
        args: &[
            "/bin/metal-cloud-controller-manager",
            "--cloud-provider=static",
            "--secure-port=10267",
            "--bind-address=0.0.0.0",
            "--authentication-kubeconfig=DIR/kubeconfig",
            "--authorization-kubeconfig",
            "DIR/kubeconfig",
            "--authorization-always-allow-paths=/healthz,/livez,/metrics,/readyz",
            "--tls-cert-file=/var/lib/tls/tls.crt",
            "--tls-private-key-file=/var/lib/tls/tls.key",
            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,\
             TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "--tls-min-version=VersionTLS12",
            "--permit-address-sharing=true",
        ],
        said: Starts(&["is ignored"]),
    },
    Manifest {
        args: &[
            "--cloud-provider=static",
            "--tls-min-version=VersionTLS11",
            "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA",
            "--metrics-bind-address=0.0.0.0:10253",
        ],
        said: Starts(&[
            "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA has no effect: it is not offered",
            "versions below VersionTLS12 are not offered",
            "--metrics-bind-address=0.0.0.0:10253: everybody who can reach this address",
        ]),
    },
    Manifest {
        args: &["--leader-elect-resource-lock=endpointsleases"],
        said: Rejected(&["only Leases are supported"]),
    },
    Manifest {
        args: &["--controllers=*,node-csr-approval"],
        said: Starts(&["the only plugin, static, serves"]),
    },
    Manifest {
        args: &[
            "/bin/bash",
            "-c",
            "exec /bin/metal-cloud-controller-manager --v=3",
        ],
        said: Rejected(&["starts a shell"]),
    },
];

#[test]
fn arguments_of_other_manifests_start_or_say_why_not() {
    let dir = plugin_dir();
    for file in ["cloud.conf", "kubeconfig"] {
        std::fs::write(dir.path().join(file), "").unwrap();
    }
    let defaults = Defaults {
        plugin_dir: dir.path().into(),
        config: dir.path().join("config.yaml"),
    };

    for Manifest { args, said } in MANIFESTS {
        let here = dir.path().to_str().unwrap();
        let given: Vec<_> = args.iter().map(|arg| arg.replace("DIR", here)).collect();
        let words = std::iter::once("skydock".to_owned()).chain(given);
        let started = match crate::cli::parse(words) {
            Ok(cli) => Config::with_defaults(cli.ccm, &defaults).map_err(|error| error.to_string()),
            Err(stop) => Err(format!("{stop}")),
        };

        match (started, said) {
            (Ok(config), Starts(texts)) => {
                assert_eq!(config.plugin.name, "static");
                let of_defaults = format!("using {here}");
                let lines = lines(&config).into_iter();
                let lines: Vec<_> = lines.filter(|line| !line.ends_with(&of_defaults)).collect();
                assert_eq!(lines.len(), texts.len(), "{args:?}: {lines:?}");
                for text in *texts {
                    assert!(
                        lines.iter().any(|line| line.contains(text)),
                        "{text}: {lines:?}"
                    );
                }
            }
            (Err(error), Rejected(texts)) => {
                for text in *texts {
                    assert!(error.contains(text), "{args:?}: {error}");
                }
            }
            (Ok(_), Rejected(_)) => panic!("{args:?} starts"),
            (Err(error), Starts(_)) => panic!("{args:?}: {error}"),
        }
    }
}
