//! The life of routes, as controllers call it.

use std::sync::Arc;

use skydock_cloud::{Answer, Arguments, Capability, Function, NewRoute, Node, Route};

use crate::{
    Verdict,
    harness::{loaded_plugin::LoadedPlugin, objects, observation::Observation},
    judge::{difference, failed, sequence, skipped},
};

/// The life of routes.
#[derive(Default)]
pub(super) struct RouteObservations {
    /// Creations, lists and deletions, each with its repetition; then the last list.
    seen: Vec<Observation>,
    /// Destinations that were created, and are missing in the list.
    missing: Vec<String>,
    /// Destinations that were deleted, and are in the last list.
    left: Vec<String>,
}

/// Creates twice, once all together and once each alone; lists twice, deletes twice, and lists.
pub(super) async fn run(plugin: &LoadedPlugin, nodes: &[Arc<Node>]) -> RouteObservations {
    if !plugin.info().can(Capability::Routes) {
        return RouteObservations::default();
    }
    let mut with = objects::arguments(nodes);
    let wanted = with.new_routes.clone();
    let mut seen = vec![
        plugin
            .call(Function::CreateRoutes, "new routes", &with)
            .await,
    ];

    let mut again = Vec::new();
    for route in &wanted {
        with.new_routes = vec![route.clone()];
        again.push(
            plugin
                .call(Function::CreateRoutes, "an existing route", &with)
                .await,
        );
    }
    seen.extend(Observation::together(&again));

    let list = async |with: &Arguments| {
        let (seen, answer) = plugin.answer(Function::ListRoutes, "nothing", with).await;
        match answer {
            Some(Answer::ListRoutes(routes)) => (seen, routes),
            _ => (seen, Vec::new()),
        }
    };
    let (listed, routes) = list(&with).await;
    seen.extend([listed, list(&with).await.0]);

    let ours = objects::created(routes, &wanted);
    with.routes.clone_from(&ours);
    seen.push(plugin.call(Function::DeleteRoutes, "routes", &with).await);
    let deleted = "deleted routes";
    seen.push(plugin.call(Function::DeleteRoutes, deleted, &with).await);

    let (rest, routes) = list(&with).await;
    seen.push(rest);

    let is_in = |routes: &[Route], new: &NewRoute| {
        routes
            .iter()
            .any(|it| it.destination_cidr == new.destination_cidr)
    };
    let these = |is_wrong: &dyn Fn(&NewRoute) -> bool| {
        wanted
            .iter()
            .filter(|new| is_wrong(new))
            .map(|new| new.destination_cidr.clone())
            .collect()
    };

    RouteObservations {
        seen,
        missing: these(&|new| !is_in(&ours, new)),
        left: these(&|new| is_in(&routes, new)),
    }
}

impl RouteObservations {
    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        self.seen.iter()
    }

    pub(super) fn again(&self, exported: bool) -> Verdict {
        let [
            created,
            again,
            listed,
            listed_again,
            deleted,
            deleted_again,
            _,
        ] = self.seen.as_slice()
        else {
            return skipped(if exported {
                "the calls were not made"
            } else {
                "it does not export `routes`"
            });
        };

        if [created, listed, deleted].iter().any(|it| it.denied > 0) {
            return skipped("its cloud is needed");
        }

        let repeated = [
            (created, again),
            (deleted, deleted_again),
            (listed, listed_again),
        ];
        let found = repeated.into_iter().find_map(|(one, other)| {
            difference(one, other)
                .map(|seen| format!("{}, then {}: {seen}", one.call(), other.call()))
        });

        if let Some(seen) = found {
            let hint = "treat a route that already exists, or is already deleted, as a success, and answer in the order of the list";
            return failed("the same result", seen, hint);
        }

        if let Some(verdict) = sequence(&[created, listed, deleted]) {
            return verdict;
        }

        let wrong = [
            ("missing after they were created", &self.missing),
            ("listed after they were deleted", &self.left),
        ];
        let found = wrong.into_iter().find(|(_, routes)| !routes.is_empty());
        found.map_or(Verdict::Ok, |(what, routes)| {
            let seen = format!("routes are {what}: {}", routes.join(", "));
            failed(
                "all routes of the cluster, and no others",
                seen,
                "list what the cloud has, page by page",
            )
        })
    }
}
