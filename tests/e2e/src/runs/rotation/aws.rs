//! Access keys of AWS.

use anyhow::{Context as _, Result};
use skydock_clouds::{Aws, Keys, xml};
use skydock_clusters::Plane;
use tokio::time::sleep;

use super::{Ended, FLAGS, Plan, Rotated, end, files::Projected};
use crate::{
    hosts::Hosts,
    secrets::Secrets,
    site::{AwsSite, Site as _},
    steps::churn::{Churn, told},
};

/// The user of the host. It differs from the user of the site, which observes the cloud.
const USER: &str = "ccm";

/// Replaces access keys: a new key is created, the files are replaced, and the old key is deleted
/// at once. The cloud must already verify signatures.
///
/// # Errors
/// Fails if a rotation is noticed. The logs are kept in this case.
pub async fn access_keys(
    cloud: &Aws,
    keys: Keys,
    plane: &dyn Plane,
    plan: Plan,
) -> Result<Rotated> {
    let mut site = AwsSite::new(cloud, keys, "rotation", 1).await?;
    let mut hosts = Hosts::configure(&site, "rotation", plane.kubeconfig_path(), &FLAGS)?;
    let rotated = rotate(cloud, &mut site, &mut hosts, plane, plan).await;
    told(rotated, &mut hosts)
}

async fn rotate(
    cloud: &Aws,
    site: &mut AwsSite<'_>,
    hosts: &mut Hosts,
    plane: &dyn Plane,
    plan: Plan,
) -> Result<Rotated> {
    let mut keys = cloud.user(USER, None).await?;
    let mut files = Projected::new(hosts.dir(), &texts(&keys))?;
    let host = hosts.start().await?;
    let machines = site.add(2).await?;
    let mut churn = Churn::new(site, plane, machines, plan.load);
    churn.begin(&host).await?;
    let mut secrets = Secrets::default();
    secrets.add_access_key(&keys.secret, cloud.region());
    let rotations = async {
        for _ in 0..plan.rotations {
            sleep(plan.every).await;
            let old = std::mem::replace(&mut keys, made(cloud).await?);
            secrets.add_access_key(&keys.secret, cloud.region());
            files.replace(&texts(&keys))?;
            cloud
                .call(
                    "iam",
                    "DeleteAccessKey",
                    &[("UserName", USER), ("AccessKeyId", &old.id)],
                )
                .await?;
        }
        sleep(plan.every).await;
        Ok(())
    };
    let ((), report) = churn.during(&host, rotations).await?;
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

fn texts(keys: &Keys) -> [(&'static str, &str); 2] {
    [
        ("access-key-id", &keys.id),
        ("secret-access-key", &keys.secret),
    ]
}

async fn made(cloud: &Aws) -> Result<Keys> {
    let answer = cloud
        .call("iam", "CreateAccessKey", &[("UserName", USER)])
        .await?;
    let field = |name| {
        xml::first(&answer, name)
            .map(str::to_owned)
            .context("a field of an access key")
    };
    Ok(Keys {
        id: field("AccessKeyId")?,
        secret: field("SecretAccessKey")?,
    })
}
