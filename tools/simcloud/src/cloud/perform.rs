//! The operations under `/v1`.
use serde::Serialize;

use super::Cloud;
use crate::api::answer::{Reply, Request, check_match};
use crate::api::check::Labels;
use crate::api::error::Result;
use crate::api::page::Wanted;
use crate::api::path::{Action, Kind, Operation};
use crate::history::Millis;
use crate::{
    api::parse,
    resources::{load_balancers, routes, snapshots, volumes},
};

/// A zone as clients see it.
#[derive(Clone, Debug, Serialize)]
struct Zone<'a> {
    name: &'a str,
    region: &'a str,
}

impl Cloud {
    /// Performs an operation.
    pub(crate) fn perform(
        &mut self,
        now: Millis,
        operation: Operation,
        request: &Request,
    ) -> Result<Reply> {
        let Operation { kind, action } = operation;
        let id = request.path.rsplit('/').next().unwrap_or_default();

        // Only lists have parameters.
        if action != Action::List {
            parse::query(&request.query, [])?;
        }

        match action {
            Action::List => self.list(now, kind, request),
            Action::Get => self.show(now, kind, id, 200, request.if_none_match.as_deref()),
            Action::Create => self.create(now, kind, &request.body),
            Action::Update => {
                self.update(now, kind, id, request)?;
                self.show(now, kind, id, 200, None)
            }
            Action::Delete => self.delete(now, kind, id, request.if_match.as_deref()),
        }
    }

    fn list(&self, now: Millis, kind: Kind, request: &Request) -> Result<Reply> {
        let wanted = Wanted::parse(kind.name(), &request.query)?;

        // A name is a key: only a scan may be answered by a replica that lags behind.
        let at = if wanted.name.is_some() {
            now
        } else {
            now.saturating_sub(self.settings.lag_ms)
        };
        let tag = request.if_none_match.as_deref();

        match kind {
            Kind::Servers => {
                let page = wanted
                    .select(self.servers.all(at), |it| (it.name.as_str(), &it.labels))
                    .map(|(number, it)| it.view(number, &self.options.region));
                Reply::tagged(200, &page, tag)
            }
            Kind::LoadBalancers => {
                let page = wanted
                    .select(self.load_balancers.all(at), |it| (it.name(), it.labels()))
                    .map(|(number, it)| self.load_balancer_view(at, number, it));
                Reply::tagged(200, &page, tag)
            }
            Kind::Routes => {
                let page = wanted
                    .select(self.routes.all(at), |it| (it.name.as_str(), &it.labels))
                    .map(|(number, it)| self.route_view(at, number, it));
                Reply::tagged(200, &page, tag)
            }
            Kind::Volumes => {
                let page = wanted
                    .select(self.volumes.all(at), |it| {
                        (it.spec.name.as_str(), &it.spec.labels)
                    })
                    .map(|(number, it)| self.volume_view(at, number, it));
                Reply::tagged(200, &page, tag)
            }
            Kind::Snapshots => {
                let page = wanted
                    .select(self.snapshots.all(at), |it| {
                        (it.spec.name.as_str(), &it.spec.labels)
                    })
                    .map(|(number, it)| it.view(at, number));
                Reply::tagged(200, &page, tag)
            }
            Kind::Zones => {
                let all = (1..)
                    .zip(&self.options.zones)
                    .filter(|(_, name)| wanted.admits(name, &Labels::new()));
                let page = wanted.page(all).map(|(_, name)| Zone {
                    name,
                    region: &self.options.region,
                });
                Reply::tagged(200, &page, tag)
            }
        }
    }

    /// Returns the response with one object.
    fn show(
        &self,
        now: Millis,
        kind: Kind,
        id: &str,
        status: u16,
        if_none_match: Option<&str>,
    ) -> Result<Reply> {
        match kind {
            Kind::Servers | Kind::Zones => {
                let (number, it) = self.server(now, id)?;
                Reply::tagged(
                    status,
                    &it.view(number, &self.options.region),
                    if_none_match,
                )
            }
            Kind::LoadBalancers => {
                let (number, it) = self.load_balancer(now, id)?;
                Reply::tagged(
                    status,
                    &self.load_balancer_view(now, number, it),
                    if_none_match,
                )
            }
            Kind::Routes => {
                let (number, it) = self.route(now, id)?;
                Reply::tagged(status, &self.route_view(now, number, it), if_none_match)
            }
            Kind::Volumes => {
                let (number, it) = self.volume(now, id)?;
                Reply::tagged(status, &self.volume_view(now, number, it), if_none_match)
            }
            Kind::Snapshots => {
                let (number, it) = self.snapshot(now, id)?;
                Reply::tagged(status, &it.view(now, number), if_none_match)
            }
        }
    }

    fn create(&mut self, now: Millis, kind: Kind, body: &[u8]) -> Result<Reply> {
        let id = match kind {
            Kind::Routes => routes::id(self.create_route(now, parse::body(body)?)?),
            Kind::Volumes => volumes::id(self.create_volume(now, parse::body(body)?)?),
            Kind::Snapshots => snapshots::id(self.create_snapshot(now, parse::body(body)?)?),
            _ => load_balancers::id(self.create_load_balancer(now, parse::body(body)?)?),
        };
        self.show(now, kind, &id, 201, None)
    }

    fn update(&mut self, now: Millis, kind: Kind, id: &str, request: &Request) -> Result<()> {
        let if_match = request.if_match.as_deref();
        if kind == Kind::Volumes {
            let change = parse::body(&request.body)?;
            let (number, it) = self.volume(now, id)?;
            check_match(if_match, &self.volume_view(now, number, it))?;
            self.change_volume(now, number, change)
        } else {
            let change = parse::body(&request.body)?;
            let (number, it) = self.load_balancer(now, id)?;
            check_match(if_match, &self.load_balancer_view(now, number, it))?;
            self.change_load_balancer(now, number, change)
        }
    }

    fn delete(
        &mut self,
        now: Millis,
        kind: Kind,
        id: &str,
        if_match: Option<&str>,
    ) -> Result<Reply> {
        match kind {
            Kind::Routes => {
                let (number, it) = self.route(now, id)?;
                check_match(if_match, &self.route_view(now, number, it))?;
                self.routes.delete(now, number);
            }
            Kind::Volumes => {
                let (number, it) = self.volume(now, id)?;
                check_match(if_match, &self.volume_view(now, number, it))?;
                self.delete_volume(now, number)?;
            }
            Kind::Snapshots => {
                let (number, it) = self.snapshot(now, id)?;
                check_match(if_match, &it.view(now, number))?;
                self.snapshots.delete(now, number);
            }
            _ => {
                let (number, it) = self.load_balancer(now, id)?;
                check_match(if_match, &self.load_balancer_view(now, number, it))?;
                self.load_balancers.delete(now, number);
            }
        }
        Ok(Reply::empty())
    }
}
