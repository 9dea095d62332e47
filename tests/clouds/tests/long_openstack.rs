//! Tests of OpenStack on loopback: all requests that a cloud controller sends.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_clouds::{
    Error, Fault, OpenStack, Project, Proxy, Rule, Service, Session, count_requests,
};
use tokio::sync::OnceCell;

/// The cloud for all tests, each of which has its own project. It ends with this process.
static CLOUD: OnceCell<OpenStack> = OnceCell::const_new();

async fn cloud() -> Result<&'static OpenStack> {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_test_writer()
        .try_init();
    Ok(CLOUD.get_or_try_init(OpenStack::start).await?)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .with_context(|| format!("no {pointer} in {value}"))
}

/// Creates a resource in Octavia and waits until its load balancer is updated.
async fn make(
    project: &Project,
    lb: &str,
    path: &str,
    kind: &str,
    fields: Value,
) -> Result<String> {
    let path = format!("/v2/lbaas/{path}");
    let made = project
        .session
        .create(Service::LoadBalancer, &path, kind, fields)
        .await?;
    let settled = project.settled_load_balancer(lb).await?;
    ensure!(
        text(&settled, "/provisioning_status")? == "ACTIVE",
        "after {kind}: {settled}"
    );
    Ok(text(&made, "/id")?.to_owned())
}

async fn load_balancer(project: &Project, fields: Value) -> Result<(String, Value)> {
    let made = project
        .session
        .create(
            Service::LoadBalancer,
            "/v2/lbaas/loadbalancers",
            "loadbalancer",
            fields,
        )
        .await?;
    ensure!(
        text(&made, "/provisioning_status")? == "PENDING_CREATE",
        "{made}"
    );
    let settled = project.settled_load_balancer(text(&made, "/id")?).await?;
    ensure!(
        text(&settled, "/provisioning_status")? == "ACTIVE",
        "{settled}"
    );
    Ok((text(&made, "/id")?.to_owned(), settled))
}

async fn gone(session: &Session, service: Service, path: &str) -> Result<()> {
    for _ in 0..300 {
        if let Err(Error::Rejected { status: 404, .. }) = session.get(service, path).await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("{path} is still there")
}

#[tokio::test]
async fn servers_are_created_stopped_and_deleted() -> Result<()> {
    let project = cloud().await?.project("servers").await?;
    let servers = project
        .create_servers(&["node-1", "node-2", "node-3"])
        .await?;
    let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
    ensure!(names == ["node-1", "node-2", "node-3"], "{names:?}");
    for server in &servers {
        let [v4, v6] = server.addresses.as_slice() else {
            anyhow::bail!("{server:?}")
        };
        ensure!(
            v4.starts_with("10.9.") && v6.starts_with("fd00:9:"),
            "{server:?}"
        );
    }
    project.stop_server(&servers[0].id).await?;
    project.start_server(&servers[0].id).await?;
    project.stop_server(&servers[1].id).await?;
    project.delete_server(&servers[2].id).await?;
    let mut left: Vec<_> = project
        .servers()
        .await?
        .into_iter()
        .map(|server| (server.name, server.status))
        .collect();
    left.sort();
    let expected = [("node-1", "ACTIVE"), ("node-2", "SHUTOFF")]
        .map(|(name, status)| (name.to_owned(), status.to_owned()));
    ensure!(left == expected, "{left:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_is_found_by_its_exact_name() -> Result<()> {
    let project = cloud().await?.project("names").await?;
    project.create_servers(&["node-1", "node-10"]).await?;
    let found = project
        .session
        .list(
            Service::Compute,
            "/v2.1/servers/detail?name=%5Enode-1%24",
            "servers",
        )
        .await?;
    ensure!(found.len() == 1, "{found:?}");
    ensure!(
        text(&found[0], "/OS-EXT-AZ:availability_zone")? == "nova",
        "{found:?}"
    );
    Ok(())
}

#[tokio::test]
async fn routers_accept_routes_and_ports_accept_address_pairs() -> Result<()> {
    let project = cloud().await?.project("routes").await?;
    let servers = project.create_servers(&["node-1"]).await?;
    let next_hop = &servers[0].addresses[0];
    let routes =
        json!({"router": {"routes": [{"destination": "10.244.0.0/24", "nexthop": next_hop}]}});
    let atomic = format!("/v2.0/routers/{}/add_extraroutes", project.router_id);
    project
        .session
        .put(Service::Network, &atomic, Some(&routes))
        .await?;
    let port = project.port_of(&servers[0].id).await?;
    let pairs = json!({"port": {"allowed_address_pairs": [{"ip_address": "10.244.0.0/24"}]}});
    project
        .session
        .put(
            Service::Network,
            &format!("/v2.0/ports/{port}"),
            Some(&pairs),
        )
        .await?;
    let held = project.holdings().await?;
    ensure!(
        held["routes"].len() == 1 && held["routes"][0].contains(next_hop.as_str()),
        "{held:?}"
    );
    ensure!(held["allowed_address_pairs"].len() == 1, "{held:?}");
    let remove = format!("/v2.0/routers/{}/remove_extraroutes", project.router_id);
    project
        .session
        .put(Service::Network, &remove, Some(&routes))
        .await?;
    ensure!(project.holdings().await?["routes"].is_empty());
    Ok(())
}

#[tokio::test]
async fn a_load_balancer_is_built_in_steps_and_deleted_by_cascade() -> Result<()> {
    let project = cloud().await?.project("steps").await?;
    let before = project.holdings().await?;
    let (lb, settled) = load_balancer(
        &project,
        json!({"name": "lb", "vip_subnet_id": project.subnet_id}),
    )
    .await?;
    let listener = json!({
        "name": "tcp", "protocol": "TCP", "protocol_port": 80, "loadbalancer_id": lb, "allowed_cidrs": ["192.0.2.0/24"],
        "timeout_client_data": 60_000,
    });
    let listener = make(&project, &lb, "listeners", "listener", listener).await?;
    let pool = json!({
        "name": "pool", "protocol": "PROXY", "lb_algorithm": "ROUND_ROBIN", "listener_id": listener,
        "session_persistence": {"type": "SOURCE_IP"},
    });
    let pool = make(&project, &lb, "pools", "pool", pool).await?;
    let members = json!({"members": [
        {"address": "10.9.0.50", "protocol_port": 30080, "subnet_id": project.subnet_id},
        {"address": "10.9.0.51", "protocol_port": 30080, "subnet_id": project.subnet_id},
    ]});
    project
        .session
        .put(
            Service::LoadBalancer,
            &format!("/v2/lbaas/pools/{pool}/members"),
            Some(&members),
        )
        .await?;
    project.settled_load_balancer(&lb).await?;
    let monitor =
        json!({"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1});
    make(&project, &lb, "healthmonitors", "healthmonitor", monitor).await?;
    let seen = project
        .session
        .list(
            Service::LoadBalancer,
            &format!("/v2/lbaas/pools/{pool}/members"),
            "members",
        )
        .await?;
    ensure!(
        seen.len() == 2
            && seen
                .iter()
                .all(|member| member["provisioning_status"] == "ACTIVE"),
        "{seen:?}"
    );

    let (ip, address) = project
        .floating_ip(Some(text(&settled, "/vip_port_id")?))
        .await?;
    let shown = project
        .session
        .get(Service::Network, &format!("/v2.0/floatingips/{ip}"))
        .await?;
    ensure!(shown["floatingip"]["status"] == "ACTIVE", "{shown}");
    ensure!(
        address.starts_with("198.18.") && project.holdings().await? != before,
        "{address}"
    );
    project
        .session
        .delete(Service::Network, &format!("/v2.0/floatingips/{ip}"))
        .await?;
    let path = format!("/v2/lbaas/loadbalancers/{lb}");
    project
        .session
        .delete(Service::LoadBalancer, &format!("{path}?cascade=true"))
        .await?;
    gone(&project.session, Service::LoadBalancer, &path).await?;
    let after = project.holdings().await?;
    ensure!(after == before, "before {before:#?}\nafter {after:#?}");
    Ok(())
}

#[tokio::test]
async fn a_load_balancer_is_created_with_one_request() -> Result<()> {
    let project = cloud().await?.project("whole").await?;
    let pool = |name: &str, protocol: &str, monitor: &str| {
        json!({
            "name": name, "protocol": protocol, "lb_algorithm": "ROUND_ROBIN",
            "members": [{"address": "10.9.0.50", "protocol_port": 30080}],
            "healthmonitor": {"type": monitor, "delay": 5, "timeout": 3, "max_retries": 1},
        })
    };
    let listener = |name: &str, protocol: &str, monitor: &str| json!({"name": name, "protocol": protocol, "protocol_port": 53, "default_pool": pool(name, protocol, monitor)});
    let fields = json!({
        "name": "lb", "vip_subnet_id": project.subnet_id,
        "additional_vips": [{"subnet_id": project.subnet6_id}],
        "listeners": [listener("udp", "UDP", "UDP-CONNECT"), listener("tcp", "TCP", "TCP"), listener("sctp", "SCTP", "SCTP")],
    });
    let (lb, settled) = load_balancer(&project, fields).await?;
    ensure!(
        text(&settled, "/additional_vips/0/ip_address")?.starts_with("fd00:9:"),
        "{settled}"
    );
    let tree = project
        .session
        .get(
            Service::LoadBalancer,
            &format!("/v2/lbaas/loadbalancers/{lb}/status"),
        )
        .await?;
    let listeners = tree["statuses"]["loadbalancer"]["listeners"]
        .as_array()
        .context("no listeners")?;
    ensure!(listeners.len() == 3, "{tree}");
    Ok(())
}

#[tokio::test]
async fn the_ovn_provider_rejects_unsupported_algorithms() -> Result<()> {
    let project = cloud().await?.project("ovn").await?;
    let providers = project
        .session
        .list(Service::LoadBalancer, "/v2/lbaas/providers", "providers")
        .await?;
    ensure!(
        providers.iter().any(|provider| provider["name"] == "ovn"),
        "{providers:?}"
    );
    let fields = json!({"name": "lb", "vip_subnet_id": project.subnet_id, "provider": "ovn"});
    let (lb, _) = load_balancer(&project, fields).await?;
    let pool = |algorithm: &str| json!({"protocol": "TCP", "lb_algorithm": algorithm, "loadbalancer_id": lb});
    let rejected = make(&project, &lb, "pools", "pool", pool("ROUND_ROBIN")).await;
    let error = rejected
        .err()
        .context("ROUND_ROBIN was accepted")?
        .to_string();
    ensure!(
        error.contains("501") && error.contains("ROUND_ROBIN"),
        "{error}"
    );
    make(&project, &lb, "pools", "pool", pool("SOURCE_IP_PORT")).await?;
    Ok(())
}

/// Creates a volume or a snapshot, and waits until it has this status.
async fn make_disk(project: &Project, kind: &str, fields: Value, status: &str) -> Result<String> {
    let path = format!("/v3/{kind}s");
    let made = project
        .session
        .create(Service::BlockStorage, &path, kind, fields)
        .await?;
    let id = text(&made, "/id")?.to_owned();
    becomes(project, kind, &id, status).await?;
    Ok(id)
}

/// Waits until a volume or a snapshot has this status, and returns its fields.
async fn becomes(project: &Project, kind: &str, id: &str, status: &str) -> Result<Value> {
    let path = format!("/v3/{kind}s/{id}");
    let pointer = format!("/{kind}/status");
    let has_status = |answer: &Value| answer.pointer(&pointer).is_some_and(|it| it == status);
    let limit = Duration::from_secs(60);
    let mut answer = project
        .session
        .wait(Service::BlockStorage, &path, limit, has_status)
        .await?;
    Ok(answer.get_mut(kind).map(Value::take).unwrap_or_default())
}

async fn delete_disk(project: &Project, kind: &str, id: &str) -> Result<()> {
    let path = format!("/v3/{kind}s/{id}");
    project.session.delete(Service::BlockStorage, &path).await?;
    gone(&project.session, Service::BlockStorage, &path).await
}

fn is_rejected(result: &Result<Value, Error>, with: u16) -> Result<()> {
    ensure!(
        matches!(result, Err(Error::Rejected { status, .. }) if *status == with),
        "{result:?}"
    );
    Ok(())
}

#[tokio::test]
async fn volumes_are_expanded_copied_and_deleted() -> Result<()> {
    let project = cloud().await?.project("volumes").await?;
    let before = project.holdings().await?;
    let fields = json!({"name": "disk", "size": 1, "volume_type": "fast"});
    let disk = make_disk(&project, "volume", fields, "available").await?;
    let path = format!("/v3/volumes/{disk}/action");
    let larger = json!({"os-extend": {"new_size": 3}});
    project
        .session
        .post(Service::BlockStorage, &path, &larger)
        .await?;
    let seen = becomes(&project, "volume", &disk, "available").await?;
    ensure!(
        seen["size"] == 3 && seen["availability_zone"] == "nova",
        "{seen}"
    );

    let fields = json!({"name": "cut", "volume_id": disk});
    let snapshot = make_disk(&project, "snapshot", fields, "available").await?;
    let fields = json!({"name": "restored", "size": 4, "snapshot_id": snapshot});
    let restored = make_disk(&project, "volume", fields, "available").await?;
    let fields = json!({"name": "copy", "size": 3, "source_volid": disk});
    let copy = make_disk(&project, "volume", fields, "available").await?;
    let held = project.holdings().await?;
    ensure!(
        held["volumes"].len() == 3 && held["snapshots"].len() == 1,
        "{held:?}"
    );

    let path = format!("/v3/volumes/{disk}");
    let session = &project.session;
    let refused = session
        .send(http::Method::DELETE, Service::BlockStorage, &path, None)
        .await;
    is_rejected(&refused, 400)?; // it has a snapshot
    delete_disk(&project, "snapshot", &snapshot).await?;
    for volume in [&disk, &restored, &copy] {
        delete_disk(&project, "volume", volume).await?;
    }
    let after = project.holdings().await?;
    ensure!(after == before, "before {before:#?}\nafter {after:#?}");
    Ok(())
}

#[tokio::test]
async fn a_volume_of_the_type_faulty_is_in_state_error() -> Result<()> {
    let project = cloud().await?.project("faulty").await?;
    let fields = json!({"name": "disk", "size": 1, "volume_type": "faulty"});
    let disk = make_disk(&project, "volume", fields, "error").await?;
    delete_disk(&project, "volume", &disk).await
}

#[tokio::test]
async fn a_volume_is_attached_and_detached_by_nova_only() -> Result<()> {
    let project = cloud().await?.project("attached").await?;
    let servers = project.create_servers(&["node-1", "node-2"]).await?;
    let fields = json!({"name": "disk", "size": 1});
    let disk = make_disk(&project, "volume", fields, "available").await?;
    let attachments = servers
        .iter()
        .map(|server| format!("/v2.1/servers/{}/os-volume_attachments", server.id));
    let attachments: Vec<String> = attachments.collect();
    let attach = json!({"volumeAttachment": {"volumeId": disk}});
    let session = &project.session;
    session
        .post(Service::Compute, &attachments[0], &attach)
        .await?;
    let seen = becomes(&project, "volume", &disk, "in-use").await?;
    let attachment = &seen["attachments"][0];
    ensure!(
        attachment["server_id"] == servers[0].id.as_str() && attachment["device"] == "/dev/sdb",
        "{seen}"
    );

    // It is not for several servers, and Cinder does not detach what Nova has attached.
    let second = session
        .post(Service::Compute, &attachments[1], &attach)
        .await;
    is_rejected(&second, 400)?;
    let path = format!("/v3/volumes/{disk}/action");
    let detach = json!({"os-detach": {}});
    let detached = session.post(Service::BlockStorage, &path, &detach).await;
    is_rejected(&detached, 409)?;

    let attachment = format!("{}/{disk}", attachments[0]);
    session.delete(Service::Compute, &attachment).await?;
    becomes(&project, "volume", &disk, "available").await?;

    // A server that is deleted has no volume any more.
    session
        .post(Service::Compute, &attachments[1], &attach)
        .await?;
    becomes(&project, "volume", &disk, "in-use").await?;
    project.delete_server(&servers[1].id).await?;
    becomes(&project, "volume", &disk, "available").await?;
    delete_disk(&project, "volume", &disk).await
}

#[tokio::test]
async fn a_project_cannot_see_another_project() -> Result<()> {
    let cloud = cloud().await?;
    let (one, other) = (cloud.project("one").await?, cloud.project("other").await?);
    one.create_servers(&["node-1"]).await?;
    ensure!(other.servers().await?.is_empty() && one.servers().await?.len() == 1);
    let held = other.holdings().await?;
    ensure!(
        held["networks"].len() == 1 && held["routers"].len() == 1 && held["servers"].is_empty(),
        "{held:?}"
    );
    let twice = cloud.project("one").await;
    ensure!(
        matches!(twice, Err(Error::Rejected { status: 409, .. })),
        "{twice:?}"
    );
    Ok(())
}

#[tokio::test]
async fn services_log_their_requests() -> Result<()> {
    let cloud = cloud().await?;
    let project = cloud.project("logged").await?;
    let count = || -> Result<u64> {
        let counts = count_requests("compute", &cloud.requests(Service::Compute)?);
        Ok(counts
            .get("GET compute/os-keypairs")
            .copied()
            .unwrap_or_default())
    };
    let before = count()?;
    project
        .session
        .get(Service::Compute, "/v2.1/os-keypairs")
        .await?;
    project
        .session
        .get(Service::Compute, "/v2.1/os-keypairs")
        .await?;
    // A line is written at the end of the request, slightly after its answer.
    for _ in 0..100 {
        if count()? == before + 2 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!(
        "{before} requests were logged before, {} after two more",
        count()?
    )
}

#[tokio::test]
async fn behind_the_proxy_the_catalog_names_the_proxy() -> Result<()> {
    let cloud = cloud().await?;
    let project = cloud.project("behind").await?;
    let proxy = Proxy::before_openstack(cloud, 1).await?;
    let session = proxy.session(&project).await?;
    let catalog = session
        .list(Service::Identity, "/v3/auth/catalog", "catalog")
        .await?;
    let urls: Vec<&str> = catalog
        .iter()
        .filter_map(|entry| entry.pointer("/endpoints/0/url")?.as_str())
        .collect();
    ensure!(
        urls.len() == Service::ALL.len() && urls.iter().all(|url| url.starts_with(proxy.url())),
        "{urls:?}"
    );
    ensure!(
        urls.contains(&format!("{}/compute/v2.1", proxy.url()).as_str()),
        "{urls:?}"
    );

    let servers = project.create_servers(&["node-1", "node-2"]).await?;
    let page = session
        .get(Service::Compute, "/v2.1/servers?limit=1")
        .await?;
    let next = text(&page, "/servers_links/0/href")?;
    ensure!(next.starts_with(proxy.url()), "{next}");
    proxy.rule(Rule::new("GET compute/servers/{id}", Fault::Status(500)).times(1));
    let path = format!("/v2.1/servers/{}", servers[0].id);
    let failed = session.get(Service::Compute, &path).await;
    ensure!(
        matches!(failed, Err(Error::Rejected { status: 500, .. })),
        "{failed:?}"
    );
    session.get(Service::Compute, &path).await?;
    let stop = json!({"os-stop": null});
    session
        .post(Service::Compute, &format!("{path}/action"), &stop)
        .await?;
    let expected = [
        ("GET compute/servers", 1),
        ("GET compute/servers/{id}", 2),
        ("GET identity/auth/catalog", 1),
        ("POST compute/servers/{id}/action:os-stop", 1),
        ("POST identity/auth/tokens", 1),
    ];
    let counts: Vec<(String, u64)> = proxy.counts().into_iter().collect();
    ensure!(
        counts == expected.map(|(name, count)| (name.to_owned(), count)),
        "{counts:?}"
    );
    Ok(())
}
