//! The life of routes, as controllers call it.

use std::sync::Arc;

use skydock_cloud::{Capability, NewRoute, Node, Route};

use crate::{
    Verdict,
    judge::{difference, failed, sequence, skipped},
    stand::{objects, observation::Observation, scene::Scene},
};

/// The life of routes.
#[derive(Default)]
pub(super) struct Routed {
    /// Creations, lists and deletions, each with its repetition; then the last list.
    seen: Vec<Observation>,
    /// Destinations that were created, and are missing in the list.
    missing: Vec<String>,
    /// Destinations that were deleted, and are in the last list.
    left: Vec<String>,
}

/// Returns those of the routes that were created like this.
pub(super) fn ours(routes: Vec<Route>, wanted: &[NewRoute]) -> Vec<Route> {
    routes
        .into_iter()
        .filter(|it| {
            wanted
                .iter()
                .any(|new| new.destination_cidr == it.destination_cidr)
        })
        .collect()
}

/// Creates twice, once all together and once each alone; lists twice, deletes twice, and lists.
pub(super) async fn run(scene: &Scene, nodes: &[Arc<Node>]) -> Routed {
    if !scene.info().can(Capability::Routes) {
        return Routed::default();
    }
    let wanted = objects::routes(nodes);
    let mut seen = vec![scene.create_routes("new routes", &wanted).await];

    let mut again = Vec::new();
    for route in &wanted {
        again.push(
            scene
                .create_routes("an existing route", std::slice::from_ref(route))
                .await,
        );
    }
    seen.extend(Observation::together(&again));

    let (listed, routes) = scene.list_routes("nothing").await;
    seen.extend([listed, scene.list_routes("nothing").await.0]);

    // Other routes are those of the cloud's owner.
    let ours = ours(routes, &wanted);
    seen.push(scene.delete_routes("routes", &ours).await);
    seen.push(scene.delete_routes("deleted routes", &ours).await);

    let (rest, routes) = scene.list_routes("nothing").await;
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

    Routed {
        seen,
        missing: these(&|new| !is_in(&ours, new)),
        left: these(&|new| is_in(&routes, new)),
    }
}

impl Routed {
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
