//! The life of routes, as controllers call it.

use std::sync::Arc;

use skydock_cloud::{Answer, Arguments, Capability, Function, NewRoute, Node, Route};

use super::life::Life;
use crate::harness::{loaded_plugin::LoadedPlugin, objects, observation::Observation};

/// Creates twice, once all together and once each alone; lists twice, deletes twice, and lists.
pub(super) async fn run(plugin: &LoadedPlugin, nodes: &[Arc<Node>]) -> Life {
    if !plugin.info().can(Capability::Routes) {
        return Life::default();
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

    Life {
        seen,
        missing: these(&|new| !is_in(&ours, new)),
        left: these(&|new| is_in(&routes, new)),
    }
}
