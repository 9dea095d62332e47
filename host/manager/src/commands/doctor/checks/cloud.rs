//! Checks of what the cloud says about nodes.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::Node;
use skydock_cloud::{CloudError, Instance};
use skydock_controllers::constants::ANNOTATION_PROVIDED_NODE_IP;
use skydock_secrets::redacted;

use super::{Facts, name_of, provider_id};
use crate::commands::doctor::{
    finding::{Finding, names, quote},
    snapshot::{CloudAnswers, Known},
};

/// D11: nodes and their instances do not fit together.
pub(super) fn instances(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let Some(cloud) = &facts.snapshot.cloud else {
        return Ok(Vec::new());
    };
    let answers = cloud.answers.as_ref().map_err(Clone::clone)?;

    let mut findings: Vec<_> = foreign(facts, answers)?.into_iter().collect();
    let mut unknown = Vec::new();
    for node in facts.waiting()? {
        match answer(answers, node) {
            Some(Err(CloudError::NotFound(_))) if may_be_own(answers, node) => {
                unknown.push(name_of(node));
            }
            Some(Ok(instance)) => findings.extend(other_address(node, instance)),
            _ => {}
        }
    }
    if !unknown.is_empty() {
        let saw = format!("the cloud knows no instance for {}", names(&unknown));
        let finding = if facts.has_other_clouds() {
            Finding::warning("nodes", saw)
                .text("if they belong to the cloud of the other cloud-controller-manager, this is in order")
        } else {
            Finding::problem("nodes", saw)
        };
        findings.push(
            finding
                .why("most clouds find the instance of a new node by its name, which is the host name unless the kubelet has another one")
                .text("look whether the credentials are for the project and region of the instance; start the kubelet with --hostname-override=NAME and the name of the instance, and let it register the node again"),
        );
    }
    Ok(findings)
}

/// Returns true if a node has a provider ID of the cloud that was asked, or none.
fn may_be_own(answers: &CloudAnswers, node: &Node) -> bool {
    let id = provider_id(node);
    let mut prefixes = answers.prefixes.iter();
    id.is_empty() || prefixes.any(|prefix| id.starts_with(prefix))
}

fn answer<'a>(answers: &'a CloudAnswers, node: &Node) -> Option<&'a Result<Instance, CloudError>> {
    let mut all = answers.instances.iter();
    let (_, answer) = all.find(|(name, _)| name == name_of(node))?;
    Some(answer)
}

/// Nodes that wait and have the provider ID of another cloud.
fn foreign(facts: &Facts<'_>, answers: &CloudAnswers) -> Known<Option<Finding>> {
    let waiting = facts.waiting()?;
    let others = waiting.iter().filter(|node| !may_be_own(answers, node));
    let others: Vec<_> = others.map(|node| name_of(node)).collect();
    // They wait for the cloud-controller-manager of their own cloud.
    if others.is_empty() || facts.has_other_clouds() {
        return Ok(None);
    }
    Ok(Some(
        Finding::problem(
            "nodes",
            format!(
                "these nodes wait, and their provider ID does not begin with {}: {}",
                names(&answers.prefixes),
                names(&others)
            ),
        )
        .why("they are ignored: a node belongs to the cloud that its provider ID names, which cannot be changed")
        .text("if they are not of another cloud: drain and delete each of them (kubectl delete node NAME), and restart its kubelet without --provider-id, or with the right one, so that the node is registered again"),
    ))
}

/// The kubelet insists on an address that the instance does not have.
fn other_address(node: &Node, instance: &Instance) -> Option<Finding> {
    let annotations = node.metadata.annotations.as_ref()?;
    let provided = annotations.get(ANNOTATION_PROVIDED_NODE_IP)?;
    let known: Vec<_> = instance
        .addresses
        .iter()
        .filter_map(|address| address.address.parse::<IpAddr>().ok())
        .collect();
    let mut provided = provided.split(',').map(str::trim);
    let missing = provided.find(|text| {
        text.parse()
            .is_ok_and(|address: IpAddr| !known.contains(&address))
    })?;
    Some(
        Finding::problem(
            name_of(node),
            format!(
                "its kubelet has --node-ip={missing}, but the instance has {}",
                names(known.iter().map(IpAddr::to_string))
            ),
        )
        .why("a node is initialized only if the cloud knows the address that the kubelet asks for")
        .text("set --node-ip of the kubelet to an address of the instance, and restart it"),
    )
}

/// D13: the configuration or its credentials do not work.
pub(super) fn credentials(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let Some(cloud) = &facts.snapshot.cloud else {
        return Ok(Vec::new());
    };
    let check = format!("skydock config check {}", quote(&cloud.file));
    let mut findings: Vec<_> = cloud
        .errors
        .iter()
        .map(|error| {
            Finding::problem(&cloud.file, redacted(error))
                .why("Skydock does not start with it, or has no access to the cloud")
                .run(&check)
        })
        .collect();

    let Ok(answers) = &cloud.answers else {
        return Ok(findings);
    };
    let mut failed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (node, answer) in &answers.instances {
        match answer {
            Ok(_) | Err(CloudError::NotFound(_) | CloudError::ImplementedElsewhere) => {}
            Err(error) => failed.entry(error.to_string()).or_default().push(node),
        }
    }
    for (error, nodes) in failed {
        findings.push(
            Finding::problem(
                &cloud.file,
                format!(
                    "asked about {}, the plugin answers: {}",
                    names(nodes),
                    redacted(&error)
                ),
            )
            .why("with these credentials and rules, the cloud cannot be asked about nodes")
            .run(&check),
        );
    }
    Ok(findings)
}
