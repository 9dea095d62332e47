//! A project for a cluster.

use serde_json::{Value, json};
use uuid::Uuid;

use super::session::text;
use super::{Service, Session};
use crate::Error;

/// The roles of the user, which are those of a cloud controller manager.
const ROLES: [&str; 2] = ["member", "load-balancer_member"];

/// A project with a user, and a network with an IPv4 and an IPv6 subnet on a router with a gateway
/// to the network `public`.
#[derive(Debug, Clone)]
pub struct Project {
    /// A session of the user.
    pub session: Session,
    /// The name of the project and of its user.
    pub name: String,
    /// The ID.
    pub id: String,
    /// The ID of the user.
    pub user_id: String,
    /// The random password of the user. Secret.
    pub password: String,
    /// The network `NAME`.
    pub network_id: String,
    /// The subnet `10.9.0.0/16`.
    pub subnet_id: String,
    /// The subnet `fd00:9::/64`. Addresses are assigned by Neutron, not by router advertisements.
    pub subnet6_id: String,
    /// The router `NAME` in both subnets.
    pub router_id: String,
    /// The network `public`.
    pub external_network_id: String,
}

impl Project {
    /// Creates the project with all its resources.
    pub(crate) async fn create(admin: &Session, name: &str) -> Result<Self, Error> {
        let identity = Service::Identity;
        let fields = json!({"name": name, "domain_id": "default"});
        let id = text(
            &admin
                .create(identity, "/v3/projects", "project", fields)
                .await?,
            "/id",
        )?;
        let password = Uuid::new_v4().simple().to_string();
        let fields = json!({"name": name, "domain_id": "default", "password": password});
        let user_id = text(
            &admin.create(identity, "/v3/users", "user", fields).await?,
            "/id",
        )?;
        for role in admin.list(identity, "/v3/roles", "roles").await? {
            if ROLES.contains(&text(&role, "/name")?.as_str()) {
                let role = text(&role, "/id")?;
                admin
                    .put(
                        identity,
                        &format!("/v3/projects/{id}/users/{user_id}/roles/{role}"),
                        None,
                    )
                    .await?;
            }
        }
        let session = admin.as_user(name, &password, name).await?;

        let create = async |path: &str, kind: &str, fields: Value| {
            text(
                &session.create(Service::Network, path, kind, fields).await?,
                "/id",
            )
        };
        let network_id = create("/v2.0/networks", "network", json!({"name": name})).await?;
        let subnet =
            json!({"network_id": network_id, "name": name, "ip_version": 4, "cidr": "10.9.0.0/16"});
        let subnet_id = create("/v2.0/subnets", "subnet", subnet).await?;
        let subnet = json!({
            "network_id": network_id, "name": format!("{name}-v6"), "ip_version": 6, "cidr": "fd00:9::/64",
            "ipv6_address_mode": "dhcpv6-stateful", "ipv6_ra_mode": "dhcpv6-stateful",
        });
        let subnet6_id = create("/v2.0/subnets", "subnet", subnet).await?;
        let external = session
            .get(Service::Network, "/v2.0/networks?name=public")
            .await?;
        let external_network_id = text(&external, "/networks/0/id")?;
        let gateway = json!({"network_id": external_network_id});
        let router_id = create(
            "/v2.0/routers",
            "router",
            json!({"name": name, "external_gateway_info": gateway}),
        )
        .await?;
        for subnet in [&subnet_id, &subnet6_id] {
            let path = format!("/v2.0/routers/{router_id}/add_router_interface");
            session
                .put(Service::Network, &path, Some(&json!({"subnet_id": subnet})))
                .await?;
        }
        Ok(Self {
            session,
            name: name.to_owned(),
            id,
            user_id,
            password,
            network_id,
            subnet_id,
            subnet6_id,
            router_id,
            external_network_id,
        })
    }

    /// Creates a floating IP in the network `public`, attaches it to the port if there is one, and
    /// returns its ID and address.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn floating_ip(&self, port: Option<&str>) -> Result<(String, String), Error> {
        let mut fields = json!({"floating_network_id": self.external_network_id});
        if let (Some(port), Some(fields)) = (port, fields.as_object_mut()) {
            fields.insert("port_id".to_owned(), port.into());
        }
        let made = self
            .session
            .create(Service::Network, "/v2.0/floatingips", "floatingip", fields)
            .await?;
        Ok((text(&made, "/id")?, text(&made, "/floating_ip_address")?))
    }
}
