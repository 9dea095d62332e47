//! Operations on routes.
use super::Cloud;
use crate::api::error::{Error, Result};
use crate::history::Millis;
use crate::resources::routes::{MOST, Route, View};
use crate::{
    api::{check, parse},
    resources::{routes, servers},
};

impl Cloud {
    /// Returns a route as clients see it.
    pub(crate) fn route_view<'a>(&self, at: Millis, number: u64, route: &'a Route) -> View<'a> {
        let there = servers::number(&route.target)
            .is_some_and(|number| self.servers.get(at, number).is_some());

        View {
            id: routes::id(number),
            name: &route.name,
            cidr: &route.cidr,
            target: &route.target,
            blackhole: !there,
            labels: &route.labels,
        }
    }

    pub(crate) fn route(&self, now: Millis, id: &str) -> Result<(u64, &Route)> {
        let found = parse::number("rt-", id)
            .and_then(|number| Some((number, self.routes.get(now, number)?)));
        found.ok_or_else(|| Error::not_found("route", id))
    }

    pub(crate) fn create_route(&mut self, now: Millis, route: Route) -> Result<u64> {
        check::name(&route.name, 128)?;
        check::cidr("cidr", &route.cidr)?;
        check::labels(&route.labels)?;

        if self.server(now, &route.target).is_err() {
            return Err(Error::field(
                "target",
                format!("no server {}", route.target),
            ));
        }

        if let Some((number, _)) = self
            .routes
            .all(now)
            .find(|(_, other)| other.name == route.name)
        {
            return Err(Error::exists("route", routes::id(number), &route.name));
        }

        if self.routes.len() >= MOST {
            return Err(Error::quota(MOST, "routes"));
        }

        Ok(self.routes.create(now, route))
    }
}
