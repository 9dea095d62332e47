//! Tokens and passwords of OpenStack.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use skydock_clouds::{OpenStack, Service, Session};
use skydock_clusters::Plane;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use super::{Ended, FLAGS, Plan, Rotated, end, files::Projected, renewals, renewed};
use crate::{
    hosts::Hosts,
    secrets::Secrets,
    site::{OpenStackSite, Site as _},
    steps::churn::{Churn, told},
};

const CLOUD_CONF: &str = "cloud.conf";
/// The roles of the user of a cloud controller manager in its project.
const ROLES: [&str; 2] = ["member", "load-balancer_member"];

/// The credential that is made invalid.
#[derive(Clone, Copy)]
enum Loss {
    Token,
    Password,
}

/// Revokes the tokens that the host uses.
///
/// # Errors
/// Fails if a revocation is noticed. The logs are kept in this case.
pub async fn tokens(cloud: &OpenStack, plane: &dyn Plane, plan: Plan) -> Result<Rotated> {
    run(cloud, plane, plan, "tokens", Loss::Token).await
}

/// Replaces `cloud.conf` by one with another password, and then changes the password, which revokes
/// all tokens.
///
/// # Errors
/// Fails if a rotation is noticed. The logs are kept in this case.
pub async fn passwords(cloud: &OpenStack, plane: &dyn Plane, plan: Plan) -> Result<Rotated> {
    run(cloud, plane, plan, "passwords", Loss::Password).await
}

async fn run(
    cloud: &OpenStack,
    plane: &dyn Plane,
    plan: Plan,
    name: &str,
    loss: Loss,
) -> Result<Rotated> {
    let mut site = OpenStackSite::new(cloud, name, 1).await?;
    let mut hosts = Hosts::configure(&site, name, plane.kubeconfig_path(), &FLAGS)?;
    let user = User::new(cloud, &site, &hosts).await?;
    let rotated = rotate(cloud, user, &mut site, &mut hosts, (plane, plan, loss)).await;
    told(rotated, &mut hosts)
}

async fn rotate(
    cloud: &OpenStack,
    mut user: User,
    site: &mut OpenStackSite,
    hosts: &mut Hosts,
    (plane, plan, loss): (&dyn Plane, Plan, Loss),
) -> Result<Rotated> {
    let mut files = Projected::new(hosts.dir(), &[(CLOUD_CONF, &user.cloud_conf())])?;
    let host = hosts.start().await?;
    let machines = site.add(2).await?;
    let proxy = site.proxy();
    let mut churn = Churn::new(site, plane, machines, plan.load);
    churn.begin(&host).await?;
    let mut secrets = Secrets::default();
    secrets.add("password", &user.password);
    let rotations = async {
        for number in 0..plan.rotations {
            sleep(plan.every).await;
            let before = renewals(&host).await?;
            match loss {
                Loss::Token => {
                    let token = proxy.tokens().pop().context("a token")?;
                    revoke(cloud.url(Service::Identity), &token).await?;
                }
                Loss::Password => {
                    user.password = format!("passw0rd-{number}-{}", user.id);
                    secrets.add("password", &user.password);
                    files.replace(&[(CLOUD_CONF, &user.cloud_conf())])?;
                    user.change_password().await?;
                }
            }
            renewed(&host, before).await?;
        }
        sleep(plan.every).await;
        Ok(())
    };
    let ((), report) = churn.during(&host, rotations).await?;
    let tokens = proxy.tokens();
    ensure!(
        tokens.len() > plan.rotations,
        "{} tokens for {} rotations",
        tokens.len(),
        plan.rotations
    );
    for token in &tokens {
        secrets.add("token", token);
    }
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

/// The user of the host. It differs from the user of the project, which observes the cloud.
struct User {
    admin: Session,
    id: String,
    /// The `cloud.conf` with the first password.
    conf: String,
    first: String,
    password: String,
}

impl User {
    async fn new(cloud: &OpenStack, site: &OpenStackSite, hosts: &Hosts) -> Result<Self> {
        let (admin, project) = (cloud.admin().await?, site.project());
        let (name, first) = (
            format!("{}-ccm", project.name),
            format!("first-passw0rd-{}", project.id),
        );
        let fields = json!({"name": name, "domain_id": "default", "password": first});
        let made = admin
            .create(Service::Identity, "/v3/users", "user", fields)
            .await?;
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).map(str::to_owned)
        };
        let id = text(&made, "id").context("a user's ID")?;
        for role in admin.list(Service::Identity, "/v3/roles", "roles").await? {
            if text(&role, "name").is_some_and(|name| ROLES.contains(&name.as_str())) {
                let role = text(&role, "id").context("a role's ID")?;
                let path = format!("/v3/projects/{}/users/{id}/roles/{role}", project.id);
                admin.put(Service::Identity, &path, None).await?;
            }
        }
        let conf = fs::read_to_string(hosts.dir().join(CLOUD_CONF))?;
        let conf = conf.replace(
            &format!("username={}\n", project.name),
            &format!("username={name}\n"),
        );
        let conf = conf.replace(&project.password, &first);
        Ok(Self {
            admin,
            id,
            conf,
            password: first.clone(),
            first,
        })
    }

    /// Returns the `cloud.conf` with the current password.
    fn cloud_conf(&self) -> String {
        self.conf.replace(&self.first, &self.password)
    }

    /// Changes the password in the cloud.
    async fn change_password(&self) -> Result<()> {
        let change = json!({"user": {"password": self.password}});
        let path = format!("/v3/users/{}", self.id);
        self.admin
            .send(Method::PATCH, Service::Identity, &path, Some(&change))
            .await?;
        Ok(())
    }
}

/// Revokes a token with the token itself.
async fn revoke(keystone: &str, token: &str) -> Result<()> {
    let host = keystone.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "DELETE /v3/auth/tokens HTTP/1.0\r\nHost: {host}\r\nX-Auth-Token: {token}\r\nX-Subject-Token: {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split_whitespace().nth(1).map(str::to_owned);
    ensure!(
        status.as_deref() == Some("204"),
        "the token was not revoked: {status:?}"
    );
    Ok(())
}
