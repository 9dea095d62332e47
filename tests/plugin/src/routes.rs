//! Routes: one table, stored in the host's cache instead of a cloud.
//!
//! Two plugin instances that write the table at the same time may lose a route, but the host sends
//! calls that create routes one after the other.
use std::time::Duration;

use skydock_sdk::routes::{NewRoute, Route, RoutePage};
use skydock_sdk::types::CloudError;
use skydock_sdk::{Result, Routes, cache};

use crate::behavior::{Behavior, Lie};
use crate::misdeed::commit;
use crate::{CONFIG, Hostile, Identity};

/// The key and the lifetime of the table.
const TABLE: &str = "routes";
const LIFETIME: Duration = Duration::from_hours(24);

impl<I: Identity> Routes for Hostile<I> {
    fn list_routes(_: Option<String>) -> Result<RoutePage> {
        let behavior = begin("the list of routes")?;
        let mut routes = decode(&cache::get(TABLE).unwrap_or_default());
        match behavior {
            Behavior::Lie(Lie::Address) => routes.push(route("liar", "liar", "10.0.0.0/33")),
            Behavior::Lie(Lie::Huge) => {
                routes.push(route(&"x".repeat(1 << 20), "liar", "10.0.0.0/24"));
            }
            Behavior::Lie(Lie::Count) => {
                routes = vec![route("liar", "liar", "10.0.0.0/24"); 100_000];
            }
            _ => {}
        }
        Ok(RoutePage { routes, next: None })
    }

    fn create_routes(routes: Vec<NewRoute>) -> Vec<Result<()>> {
        let new = routes.iter().map(|new| {
            route(
                &format!("{}-{}", new.target_node, new.destination_cidr),
                &new.target_node,
                &new.destination_cidr,
            )
        });
        change(new.collect(), |table, route| {
            if !table.contains(&route) {
                table.push(route);
            }
        })
    }

    fn delete_routes(routes: Vec<Route>) -> Vec<Result<()>> {
        change(routes, |table, route| {
            table.retain(|known| known.name != route.name);
        })
    }
}

fn begin(what: &str) -> Result<Behavior> {
    let behavior = CONFIG.get()?.routes;
    commit(behavior, what, &|_| false)?;
    Ok(behavior)
}

/// Changes the table for each route and returns one result per route.
fn change(routes: Vec<Route>, apply: impl Fn(&mut Vec<Route>, Route)) -> Vec<Result<()>> {
    let mut table = decode(&cache::get(TABLE).unwrap_or_default());
    let mut answers = Vec::new();
    for route in routes {
        let begun = begin(&route.name);
        if begun.is_ok() {
            apply(&mut table, route);
        }
        match begun {
            Ok(Behavior::Lie(Lie::Length)) => {}
            Ok(Behavior::Lie(Lie::Longer)) => answers.extend([Ok(()), Ok(())]),
            other => answers.push(other.map(|_| ())),
        }
    }
    if cache::set(TABLE, encode(&table).as_bytes(), LIFETIME) {
        return answers;
    }
    answers
        .iter()
        .map(|_| Err(CloudError::internal("the table of routes is full")))
        .collect()
}

fn route(name: &str, node: &str, cidr: &str) -> Route {
    Route {
        name: name.into(),
        target_node: Some(node.into()),
        target_addresses: None,
        destination_cidr: cidr.into(),
        blackhole: false,
    }
}

/// Encodes one line per route: name, node and CIDR, none of which contains a space.
fn encode(table: &[Route]) -> String {
    let line = |route: &Route| {
        format!(
            "{} {} {}\n",
            route.name,
            route.target_node.as_deref().unwrap_or_default(),
            route.destination_cidr
        )
    };
    table.iter().map(line).collect()
}

fn decode(table: &[u8]) -> Vec<Route> {
    let text = String::from_utf8_lossy(table);
    let parse = |line: &str| {
        let mut words = line.split(' ');
        Some(route(words.next()?, words.next()?, words.next()?))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_table_survives_encoding_and_decoding() {
        let table = vec![
            route("n1-10.0.0.0/24", "n1", "10.0.0.0/24"),
            route("n2-fd00::/64", "n2", "fd00::/64"),
        ];
        assert_eq!(decode(encode(&table).as_bytes()), table);
        assert_eq!(decode(b""), []);
    }
}
