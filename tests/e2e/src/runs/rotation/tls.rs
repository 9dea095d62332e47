//! Certificates of the cloud and of the host.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use skydock_clouds::{Aws, Keys};
use skydock_clusters::Plane;
use tokio::time::sleep;

use super::{Ended, FLAGS, Plan, Rotated, end, files::Projected};
use crate::{
    authority::{Authority, Leaf},
    front::Front,
    hosts::Hosts,
    secrets::Secrets,
    site::{AwsSite, Site as _},
    steps::churn::{Churn, told},
};

const FILES: [&str; 3] = ["ca.pem", "client.pem", "client-key.pem"];

/// Replaces all certificates, including those of the authorities, shortly before they expire: first
/// those of the host, then those of the cloud. Each request needs a TLS handshake.
///
/// # Errors
/// Fails if a rotation is noticed. The logs are kept in this case.
pub async fn certificates(
    cloud: &Aws,
    keys: Keys,
    plane: &dyn Plane,
    plan: Plan,
) -> Result<Rotated> {
    let mut site = AwsSite::new(cloud, keys.clone(), "tls", 1).await?;
    let mut hosts = Hosts::configure(&site, "tls", plane.kubeconfig_path(), &FLAGS)?;
    let mut secrets = Secrets::default();
    secrets.add_access_key(&keys.secret, cloud.region());
    let rotated = rotate(secrets, &mut site, &mut hosts, plane, plan).await;
    told(rotated, &mut hosts)
}

/// The certificate of one side, and the authority that has signed it.
struct Side {
    authority: Authority,
    leaf: Leaf,
}

impl Side {
    fn new(name: &str, plan: Plan) -> Result<Self> {
        let authority = Authority::new(name)?;
        // Valid until the next certificate is in use, but not until the end of the run.
        let leaf = authority.sign(plan.every * 2 + Duration::from_secs(2))?;
        Ok(Self { authority, leaf })
    }
}

async fn rotate(
    mut secrets: Secrets,
    site: &mut AwsSite<'_>,
    hosts: &mut Hosts,
    plane: &dyn Plane,
    plan: Plan,
) -> Result<Rotated> {
    let server = site.proxy().url().trim_start_matches("http://").to_owned();
    // The first certificates must be valid until all Services are created.
    let first = Plan {
        every: plan.every + Duration::from_secs(60),
        ..plan
    };
    let (mut cloud, mut client) = (Side::new("cloud", first)?, Side::new("client", first)?);
    let front = Front::before(&server, &cloud.leaf, &[&client.authority]).await?;
    let mut files = Projected::new(hosts.dir(), &texts(&cloud.authority.pem(), &client.leaf))?;
    add(&mut secrets, &client.leaf);
    let paths = FILES.map(|file| hosts.dir().join(file));
    hosts.edit(|document| {
        let url = front.url();
        let [ca, cert, key] = paths;
        for (pointer, value) in [
            ("/plugins/0/options/endpoint", json!(url)),
            ("/plugins/0/egress/0/to", json!(url)),
            (
                "/plugins/0/egress/0/tls",
                json!({"caFile": ca, "clientCertificate": "client"}),
            ),
        ] {
            let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
            if let Some(parent) = document
                .pointer_mut(parent)
                .and_then(|parent| parent.as_object_mut())
            {
                parent.insert(field.to_owned(), value);
            }
        }
        let plugin = document.pointer("/plugins/0/name").cloned();
        let credentials = document.get_mut("credentials");
        if let Some(credentials) = credentials.and_then(|list| list.as_array_mut()) {
            credentials.push(json!({
                "name": "client", "type": "client-certificate",
                "for": {"plugin": plugin, "digest": "any"}, "certFile": cert, "keyFile": key,
            }));
        }
    })?;
    let host = hosts.start().await?;
    let machines = site.add(2).await?;
    let mut churn = Churn::new(site, plane, machines, plan.load);
    churn.begin(&host).await?;
    let rotations = async {
        for _ in 0..plan.rotations {
            let began = Instant::now();
            let (next_cloud, next_client) = (Side::new("cloud", plan)?, Side::new("client", plan)?);
            add(&mut secrets, &next_client.leaf);
            // First the server accepts both clients, then the host gets its new certificate and
            // trusts both authorities, then the server presents its new certificate, and then the
            // old authorities are removed.
            let both = [&client.authority, &next_client.authority];
            // A connection that the server has just accepted still uses its previous certificate
            // and authorities.
            let handshakes = plan.every / 8;
            front.replace(&cloud.leaf, &both)?;
            sleep(handshakes).await;
            let authorities = format!("{}{}", cloud.authority.pem(), next_cloud.authority.pem());
            files.replace(&texts(&authorities, &next_client.leaf))?;
            sleep(plan.every / 2).await;
            front.replace(&next_cloud.leaf, &[&next_client.authority])?;
            sleep(handshakes).await;
            files.replace(&texts(&next_cloud.authority.pem(), &next_client.leaf))?;
            (cloud, client) = (next_cloud, next_client);
            sleep(plan.every.saturating_sub(began.elapsed())).await;
        }
        Ok(())
    };
    let ((), report) = churn.during(&host, rotations).await?;
    let (served, failed) = front.counts();
    ensure!(
        served >= report.requests && failed == 0,
        "{served} connections, {failed} failed, {report}"
    );
    end(
        &churn,
        report,
        plan.rotations,
        Ended {
            host,
            hosts,
            secrets,
        },
    )
    .await
}

fn texts<'a>(authorities: &'a str, leaf: &'a Leaf) -> [(&'static str, &'a str); 3] {
    let [ca, cert, key] = FILES;
    [
        (ca, authorities),
        (cert, &leaf.certificate),
        (key, &leaf.key),
    ]
}

/// Adds each line of the key separately, because a single line would already be a leak.
fn add(secrets: &mut Secrets, leaf: &Leaf) {
    for line in leaf
        .key
        .lines()
        .filter(|line| !line.starts_with('-') && line.len() > 20)
    {
        secrets.add("client key", line);
    }
    secrets.add_bytes("client key in DER", leaf.private());
}
