//! The interface `routes`: lists, creates and deletes them.

use ipnet::IpNet;
use skydock_cloud::{self as cloud, text::is_plain};

use super::{
    Guest,
    generated::routes,
    pages::{Limit, Page, page},
};
use crate::{
    answers::{Checked, Element, text, value},
    call_error::CallError,
    contract::{
        Running,
        v0_1::{
            from_guest::{addresses, each, single_answer},
            to_guest,
        },
    },
};

/// Maximum bytes of a cloud's name for a route. The longest known names are Azure resource IDs.
const MAX_NAME: usize = 1024;

impl<'a, 's> Guest<'a, 's> {
    /// Calls `routes.list-routes` for one page, after `before` routes on earlier pages. Returns it
    /// with the token of the next page.
    pub(crate) fn list_routes(
        self,
        token: Option<&'s str>,
        before: usize,
    ) -> Running<'a, Page<cloud::Route>> {
        let Self {
            functions, store, ..
        } = self;

        Box::pin(async move {
            let answer = call!(functions, store, ListRoutes: routes.call_list_routes(token));

            let limit = Limit {
                what: "routes",
                key: "routes",
                most: store.data().shared.limits.routes,
            };
            Ok(single_answer(answer).and_then(|it| {
                let all = Page {
                    items: it.routes,
                    next: it.next,
                };
                page(all, before, limit, route).map_err(CallError::BadAnswer)
            }))
        })
    }

    /// Calls `routes.create-routes`.
    pub(crate) fn create_routes(
        self,
        routes: &'s [cloud::NewRoute],
    ) -> Running<'a, Vec<Element<()>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = routes.iter().map(to_guest::new_route).collect();

        Box::pin(async move {
            let answer = call!(functions, store, CreateRoutes: routes.call_create_routes(&records));

            Ok(each(routes, Ok(answer), |_, ()| Ok(())))
        })
    }

    /// Calls `routes.delete-routes`.
    pub(crate) fn delete_routes(self, routes: &'s [cloud::Route]) -> Running<'a, Vec<Element<()>>> {
        let Self {
            functions, store, ..
        } = self;
        let records: Vec<_> = routes.iter().map(to_guest::route).collect();

        Box::pin(async move {
            let answer = call!(functions, store, DeleteRoutes: routes.call_delete_routes(&records));

            Ok(each(routes, Ok(answer), |_, ()| Ok(())))
        })
    }
}

fn route(route: routes::Route) -> Checked<cloud::Route> {
    let named = (1..=MAX_NAME).contains(&route.name.len()) && is_plain(&route.name);
    value(
        "route name",
        &route.name,
        "1 to 1024 bytes of plain text",
        named.then_some(()),
    )?;

    if let Some(node) = &route.target_node {
        value(
            "target node",
            node,
            "a node's name",
            text::is_host_name(node).then_some(()),
        )?;
    }

    let cidr = &route.destination_cidr;
    let destination = value("destination", cidr, "a CIDR", cidr.parse::<IpNet>().ok())?;

    Ok(cloud::Route {
        name: route.name,
        target_node: route.target_node,
        target_addresses: route.target_addresses.map(addresses).transpose()?,
        // In canonical form, to be compared with the Pod CIDRs of nodes.
        destination_cidr: destination.trunc().to_string(),
        blackhole: route.blackhole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::v0_1::bindings::skydock::provider::types as wit;

    #[test]
    fn addresses_of_a_route_are_only_compared() {
        let noted = routes::Route {
            name: "r-1".into(),
            target_node: None,
            target_addresses: Some(vec![wit::NodeAddress {
                kind: wit::AddressKind::ExternalIp,
                address: "127.0.0.1".into(),
            }]),
            destination_cidr: "10.1.2.0/24".into(),
            blackhole: false,
        };
        assert!(route(noted).is_ok());
    }

    fn address(text: &str) -> wit::NodeAddress {
        wit::NodeAddress {
            kind: wit::AddressKind::InternalIp,
            address: text.into(),
        }
    }

    #[test]
    fn a_route_is_converted_completely() {
        let listed = routes::Route {
            name: "r-1".into(),
            target_node: Some("Node_1".into()),
            target_addresses: Some(vec![address("10.0.0.1"), address("2001:DB8::1")]),
            destination_cidr: "2001:DB8:1::7/64".into(),
            blackhole: true,
        };
        let internal = |text: &str| cloud::NodeAddress {
            kind: cloud::AddressKind::InternalIp,
            address: text.into(),
        };
        let expected = cloud::Route {
            name: "r-1".into(),
            target_node: Some("Node_1".into()),
            target_addresses: Some(vec![internal("10.0.0.1"), internal("2001:db8::1")]),
            destination_cidr: "2001:db8:1::/64".into(),
            blackhole: true,
        };

        assert_eq!(route(listed), Ok(expected));
    }

    #[test]
    fn an_invalid_route_is_rejected() {
        let good = routes::Route {
            name: "r-1".into(),
            target_node: Some("node-1".into()),
            target_addresses: None,
            destination_cidr: "10.1.2.3/24".into(),
            blackhole: false,
        };
        let listed = route(good.clone()).unwrap();
        assert_eq!(
            (listed.destination_cidr.as_str(), listed.blackhole),
            ("10.1.2.0/24", false)
        );

        let bad = [
            routes::Route {
                destination_cidr: "10.1.2.0".into(),
                ..good.clone()
            },
            routes::Route {
                destination_cidr: "10.1.2.0/33".into(),
                ..good.clone()
            },
            routes::Route {
                name: String::new(),
                ..good.clone()
            },
            routes::Route {
                name: "a\nb".into(),
                ..good.clone()
            },
            routes::Route {
                name: "x".repeat(1025),
                ..good.clone()
            },
            routes::Route {
                target_node: Some("a b".into()),
                ..good.clone()
            },
            routes::Route {
                target_addresses: Some(vec![address("10.0.0.1"); 65]),
                ..good.clone()
            },
            routes::Route {
                target_addresses: Some(vec![address("host")]),
                ..good.clone()
            },
        ];
        assert!(
            route(routes::Route {
                name: "x".repeat(1024),
                ..good.clone()
            })
            .is_ok()
        );

        for it in bad {
            assert!(route(it.clone()).is_err(), "{}", it.name);
        }
    }
}
