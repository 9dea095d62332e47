use std::{pin::pin, time::Duration};

use anyhow::{Result, ensure};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use kube::{
    Api, Client, Config,
    api::{ListParams, WatchParams},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use skydock_devplane::{Access, DevPlane, Options};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{Stage, rejected};

async fn secure() -> Result<DevPlane> {
    Ok(DevPlane::start(Options {
        access: Access::Secure,
        ..Options::default()
    })
    .await?)
}

/// Returns a client with the kubeconfig, after `change`.
async fn client(plane: &DevPlane, change: impl FnOnce(&mut Kubeconfig)) -> Result<Client> {
    let mut kubeconfig = Kubeconfig::from_yaml(&plane.kubeconfig())?;
    change(&mut kubeconfig);
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn set_token(kubeconfig: &mut Kubeconfig, token: Option<&str>) {
    for user in &mut kubeconfig.auth_infos {
        let token = token.map(|token| token.to_owned().into());
        user.auth_info = Some(AuthInfo {
            token,
            ..AuthInfo::default()
        });
    }
}

async fn list(client: Client) -> kube::Result<()> {
    Api::<Node>::all(client)
        .list(&ListParams::default())
        .await
        .map(drop)
}

/// Connects without sending anything.
async fn silent(plane: &DevPlane) -> Result<TcpStream> {
    Ok(TcpStream::connect(plane.url().trim_start_matches("https://")).await?)
}

#[tokio::test]
async fn without_a_token_only_health_is_accessible() -> Result<()> {
    let plane = secure().await?;
    list(client(&plane, |_| ()).await?).await?;
    for token in [None, Some("other"), Some("")] {
        let stranger = client(&plane, |it| set_token(it, token)).await?;
        let status = rejected(list(stranger.clone()).await)?;
        assert_eq!(
            (status.code, status.message.as_str()),
            (401, "Unauthorized"),
            "{token:?}"
        );
        let health = stranger
            .request_text(http::Request::get("/readyz").body(Vec::new())?)
            .await?;
        assert_eq!(health, "ok");
    }
    Ok(())
}

#[tokio::test]
async fn only_the_kubeconfig_has_token_and_certificate() -> Result<()> {
    let (one, other) = (secure().await?, secure().await?);
    let kubeconfig = one.kubeconfig();
    for secret in ["token: ", "certificate-authority-data: "] {
        let value = |text: &str| {
            text.split_once(secret)
                .map(|(_, rest)| rest.split([' ', '\n']).next().map(str::to_owned))
        };
        let secret = value(&kubeconfig).flatten().unwrap();
        ensure!(
            secret.len() >= 64 && !format!("{one:?}").contains(&secret),
            "{secret}"
        );
        assert_ne!(
            value(&other.kubeconfig()).flatten(),
            Some(secret),
            "another plane has its own"
        );
    }
    ensure!(!kubeconfig.contains("PRIVATE KEY"));
    let without = |it: &mut Kubeconfig| {
        it.clusters[0]
            .cluster
            .as_mut()
            .unwrap()
            .certificate_authority_data = None;
    };
    ensure!(!matches!(
        list(client(&one, without).await?).await,
        Ok(()) | Err(kube::Error::Api(_))
    ));
    Ok(())
}

#[tokio::test]
async fn the_certificate_is_valid_for_all_names_of_loopback() -> Result<()> {
    let plane = secure().await?;
    let port = plane.url().rsplit_once(':').unwrap().1.to_owned();
    let named = |it: &mut Kubeconfig| {
        it.clusters[0].cluster.as_mut().unwrap().server = Some(format!("https://localhost:{port}"));
    };
    list(client(&plane, named).await?).await?;
    let listen = std::net::SocketAddr::from(([127, 0, 0, 2], 0));
    let plane = DevPlane::start(Options {
        listen,
        access: Access::Secure,
        ..Options::default()
    })
    .await?;
    list(client(&plane, |_| ()).await?).await?;
    Ok(())
}

#[tokio::test]
async fn the_kubernetes_service_has_the_port_of_the_scheme() -> Result<()> {
    for (access, expected) in [
        (Access::Insecure, ("http", 80)),
        (Access::Secure, ("https", 443)),
    ] {
        let plane = DevPlane::start(Options {
            access,
            ..Options::default()
        })
        .await?;
        let service = Api::<Service>::default_namespaced(client(&plane, |_| ()).await?)
            .get("kubernetes")
            .await?;
        let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
        assert_eq!(
            (ports[0].name.as_deref().unwrap_or_default(), ports[0].port),
            expected
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_sends_nothing_delays_nobody() -> Result<()> {
    let plane = secure().await?;
    let mut silent_ones = Vec::new();
    for _ in 0..100 {
        silent_ones.push(silent(&plane).await?);
    }
    // Half of a record.
    silent_ones[0].write_all(&[22, 3, 1, 0, 200, 1]).await?;
    timeout(Duration::from_secs(5), list(client(&plane, |_| ()).await?)).await??;
    let before = Instant::now();
    plane.shutdown().await;
    ensure!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    for mut stream in silent_ones {
        // Closed, or reset where something was sent.
        assert_eq!(
            timeout(Duration::from_secs(5), stream.read(&mut [0]))
                .await?
                .unwrap_or(0),
            0
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_shutdown_ends_watches_over_tls_at_once() -> Result<()> {
    let plane = secure().await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&plane, |_| ()).await?);
    let params = WatchParams {
        bookmarks: false,
        ..WatchParams::default()
    };
    let mut events = pin!(maps.watch(&params, "0").await?);
    let before = Instant::now();
    plane.shutdown().await;
    ensure!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    assert!(
        events.try_next().await?.is_none(),
        "a watch ends; it does not break off"
    );
    assert!(maps.get("a").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_plain_http_client_is_told_to_use_https() -> Result<()> {
    let plane = secure().await?;
    let plain = Client::try_from(Config::new(
        plane.url().replace("https://", "http://").parse()?,
    ))?;
    let status = rejected(list(plain).await)?;
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    ensure!(status.message.contains("HTTPS"), "{}", status.message);

    // A body that the server does not read in one piece.
    let mut stream = silent(&plane).await?;
    stream
        .write_all(
            b"POST /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000\r\n\r\n",
        )
        .await?;
    stream.write_all(&[b'x'; 30000]).await?;
    let mut answer = String::new();
    timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await??;
    ensure!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.ends_with('}'),
        "{answer}"
    );
    Ok(())
}

#[tokio::test]
async fn an_insecure_plane_needs_no_token() -> Result<()> {
    let stage = Stage::new().await?;
    ensure!(
        stage.plane.url().starts_with("http://") && !stage.plane.kubeconfig().contains("token")
    );
    list(client(&stage.plane, |_| ()).await?).await?;
    Ok(())
}
