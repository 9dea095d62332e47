use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::*;
use crate::{NewRoute, Node, ProviderInfo, Service};

/// A provider without capabilities.
struct Nothing;

impl CloudProvider for Nothing {
    fn info(&self) -> Arc<ProviderInfo> {
        unreachable!("not asked")
    }
}

/// Returns the answer to a call that never waits.
fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("it waits"),
    }
}

#[test]
fn functions_of_lacking_capabilities_change_nothing() {
    let arguments = Arguments::default();
    for function in Function::ALL {
        let call = function.with(&arguments);
        assert_eq!(call.function(), *function);
        assert_eq!(
            now(call.make(&Nothing)),
            Err(CloudError::ImplementedElsewhere),
            "{function}"
        );
    }
    assert_eq!(Nothing.max_routes(), None, "no limit");
}

#[test]
fn the_table_has_the_functions_of_the_contract() {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.1");
    let mut declared = BTreeSet::new();
    for capability in Capability::ALL {
        let file = contract.join(capability.name()).with_extension("wit");
        let text = fs::read_to_string(file).unwrap();
        let functions = text
            .lines()
            .filter_map(|line| line.trim().split_once(": func("));
        // A percent sign lets a name be a keyword of WIT.
        let names = functions.map(|(name, _)| name.trim_start_matches('%'));
        declared.extend(names.map(|name| format!("{capability}.{name}")));
    }
    // Part of the introduction of a plugin, like `plugin.info`.
    assert!(declared.remove("volumes.driver"));

    let table: BTreeSet<_> = Function::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(table, declared);
    for function in Function::ALL {
        assert_eq!(Function::named(&function.to_string()), Some(*function));
    }
    for unknown in ["instances", "instances.", "zones.check", "check"] {
        assert_eq!(Function::named(unknown), None, "{unknown}");
    }
}

#[test]
fn a_call_takes_the_arguments_of_its_types() {
    let arguments = Arguments {
        nodes: [Node::default(), Node::default()].map(Arc::new).into(),
        service: Service {
            name: "web".into(),
            ..Service::default()
        },
        new_routes: Vec::<NewRoute>::new(),
        ..Arguments::default()
    };
    assert!(matches!(
        Function::Ensure.with(&arguments),
        Call::Ensure { service, nodes } if service.name == "web" && nodes.is_empty()
    ));
    for (function, questions, answers_each) in [
        (Function::Describe, 2, true),
        (Function::CreateRoutes, 0, true),
        (Function::Ensure, 1, false),
        (Function::ListRoutes, 1, false),
        (Function::Maintain, 1, false),
        (Function::CreateVolumes, 0, true),
        (Function::ListVolumes, 1, false),
    ] {
        assert_eq!(function.with(&arguments).questions(), questions);
        assert_eq!(function.answers_each(), answers_each, "{function}");
    }
    assert!(Function::Ensure.takes(ArgumentKind::NodeSet));
    assert!(!Function::Get.takes(ArgumentKind::NodeSet));
}
