//! Decides which claims need a volume, and what their volume and PersistentVolume are, as csi-provisioner
//! does.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{
            CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
            ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
            PersistentVolumeSpec, SecretReference, VolumeNodeAffinity,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use skydock_cloud::Pairs;
use skydock_csi::proto::{
    self, CapacityRange, CreateVolumeRequest, TopologyRequirement, VolumeContentSource,
};

use crate::{capability, custom::is_name, quantity, request::secrets};

/// Finalizer of a PersistentVolume, until its volume is deleted (`finalizerPV`).
pub(super) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Annotation of a PersistentVolume: the provisioner (`annDynamicallyProvisioned`).
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Annotation of a claim: the node for which the scheduler needs the volume.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Annotations of a claim: who has to create its volume. kube-controller-manager sets them.
const PROVISIONERS: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];

/// Annotation of a claim: its class, before there was a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Annotations of a PersistentVolume: the Secret for its deletion, of which there is none.
const DELETION_SECRET: [&str; 2] = [
    "volume.kubernetes.io/provisioner-deletion-secret-name",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace",
];

/// Attribute of a volume: who has created it (`provisionerIDKey`).
const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// Prefix of the parameters of a class that are not for the driver (`csiParameterPrefix`).
const RESERVED: &str = "csi.storage.k8s.io/";

/// Type of the file system, if neither the class nor the driver has one: `--default-fstype` of the
/// sidecar in `deploy/`.
const FILE_SYSTEM: &str = "ext4";

/// Parameters with the Secrets of the controller part.
const OUR_SECRETS: [&str; 5] = [
    "secret",
    "provisioner-secret",
    "controller-publish-secret",
    "controller-expand-secret",
    "controller-modify-secret",
];

/// Parameters with those of the node part, which kubelets read.
const NODE_SECRETS: [&str; 3] = [
    "node-stage-secret",
    "node-publish-secret",
    "node-expand-secret",
];

/// Returns the class of a claim (`GetPersistentVolumeClaimClass`).
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotations = claim.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(CLASS));
    let field = || claim.spec.as_ref()?.storage_class_name.as_ref();
    annotated.or_else(field).map_or("", String::as_str)
}

/// Returns the node that the scheduler has selected.
pub(super) fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    let node = claim.metadata.annotations.as_ref()?.get(SELECTED_NODE)?;
    Some(node.as_str()).filter(|node| !node.is_empty())
}

/// Returns true for a claim that has a volume.
pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let spec = claim.spec.as_ref();
    spec.is_some_and(|it| {
        it.volume_name
            .as_deref()
            .is_some_and(|name| !name.is_empty())
    })
}

/// Returns true if a claim has to get its volume from this driver (`ShouldProvision`).
pub(super) fn is_for(claim: &PersistentVolumeClaim, driver: &str) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let provisioner = annotations.and_then(|all| PROVISIONERS.iter().find_map(|key| all.get(*key)));
    provisioner.is_some_and(|it| it == driver)
        && !is_bound(claim)
        && claim.metadata.deletion_timestamp.is_none()
}

/// Returns true if the volume of a claim can be created already (`shouldProvision`).
pub(super) fn is_due(claim: &PersistentVolumeClaim, class: &StorageClass, driver: &str) -> bool {
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    class.provisioner == driver && (!waits || selected_node(claim).is_some())
}

/// Returns true if a change of a claim may need work.
pub(super) fn is_news(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    let needs = |it: &PersistentVolumeClaim| {
        let ObjectMeta {
            uid,
            annotations,
            deletion_timestamp,
            ..
        } = &it.metadata;
        (
            uid.clone(),
            annotations.clone(),
            deletion_timestamp.is_some(),
        )
    };
    old.spec != new.spec || needs(old) != needs(new)
}

/// Returns the unique name of the volume of a claim, and of its PersistentVolume.
pub(super) fn name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// A claim, and what else its volume is created from.
pub(super) struct Asked<'a> {
    pub(super) driver: &'a str,
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) class: &'a StorageClass,
    pub(super) source: Option<VolumeContentSource>,
    pub(super) topology: Option<TopologyRequirement>,
    /// Parameters of the VolumeAttributesClass.
    pub(super) attributes: Pairs,
}

/// A request, and the PersistentVolume that follows from its answer. Both stay the same until the answer is
/// final: with another request, the cloud could reject what it is already creating.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prepared {
    pub(super) request: CreateVolumeRequest,
    volume: PersistentVolume,
}

/// Returns the request for the volume of a claim (`prepareProvision`).
///
/// # Errors
/// Why it cannot be created.
pub(super) fn prepare(asked: Asked<'_>) -> Result<Prepared, String> {
    let Asked {
        driver,
        claim,
        class,
        source,
        topology,
        attributes,
    } = asked;
    let spec = claim.spec.as_ref().ok_or("the claim has no spec")?;
    if spec.selector.is_some() {
        return Err("claim Selector is not supported".to_owned());
    }

    let name = name(claim);
    let none = Pairs::new();
    let parameters = class.parameters.as_ref().unwrap_or(&none);
    let file_system = file_system(parameters)?;
    let names = Names::of(claim, &name);
    let secret = |kind| secret(parameters, kind, &names);
    let [stage, publish, expand] = NODE_SECRETS.map(secret);

    let request = CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes: size(spec)?,
            limit_bytes: 0,
        }),
        volume_capabilities: capabilities(spec, class, &file_system)?,
        parameters: for_driver(parameters, &names)?,
        secrets: our_secrets(parameters),
        volume_content_source: source,
        accessibility_requirements: topology,
        mutable_parameters: attributes,
        name: name.clone(),
    };

    let csi = CSIPersistentVolumeSource {
        driver: driver.to_owned(),
        fs_type: Some(file_system).filter(|_| !is_block(spec)),
        node_stage_secret_ref: stage?,
        node_publish_secret_ref: publish?,
        node_expand_secret_ref: expand?,
        ..CSIPersistentVolumeSource::default()
    };
    Ok(Prepared {
        request,
        volume: skeleton(driver, claim, spec, class, csi),
    })
}

fn is_block(spec: &PersistentVolumeClaimSpec) -> bool {
    capability::is_block(spec.volume_mode.as_deref())
}

/// Returns the bytes that a claim requests.
pub(super) fn size(spec: &PersistentVolumeClaimSpec) -> Result<i64, String> {
    let requests = spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    let Some(asked) = requests.and_then(|all| all.get("storage")) else {
        return Ok(0);
    };
    quantity::bytes(asked).ok_or_else(|| format!("{} is not a valid size", asked.0))
}

/// Returns the capabilities for the access modes of a claim, each of which must be possible.
fn capabilities(
    spec: &PersistentVolumeClaimSpec,
    class: &StorageClass,
    file_system: &str,
) -> Result<Vec<proto::VolumeCapability>, String> {
    let (volume_mode, options) = (spec.volume_mode.as_deref(), class.mount_options.as_deref());
    let one = |mode: &String| {
        let mode = capability::mode(std::slice::from_ref(mode))?;
        Ok(capability::capability(
            mode,
            volume_mode,
            file_system,
            options,
        ))
    };
    spec.access_modes.iter().flatten().map(one).collect()
}

/// Returns the type of the file system that a class has.
fn file_system(parameters: &Pairs) -> Result<String, String> {
    let is_it = |key: &str| key.to_lowercase() == "fstype" || key == format!("{RESERVED}fstype");
    let mut all = parameters.iter().filter(|(key, _)| is_it(key));
    let first = all.next().map(|(_, value)| value.as_str());
    if all.next().is_some() {
        return Err(
            "the StorageClass has two parameters for the type of the file system".to_owned(),
        );
    }
    let given = first.filter(|it| !it.is_empty());
    Ok(given.unwrap_or(FILE_SYSTEM).to_owned())
}

/// Returns the parameters for the driver, with the claim, which plugins mark volumes with
/// (`removePrefixedParameters`, `--extra-create-metadata`).
fn for_driver(parameters: &Pairs, names: &Names<'_>) -> Result<Pairs, String> {
    let mut kept = Pairs::new();
    for (key, value) in parameters {
        match key.strip_prefix(RESERVED) {
            None => {
                kept.insert(key.clone(), value.clone());
            }
            Some("fstype") => {}
            Some(name) if is_secret(name) => {}
            Some(_) => return Err(format!("the StorageClass has the unknown parameter {key}")),
        }
    }
    for (key, value) in [
        ("pvc/name", names.claim),
        ("pvc/namespace", names.namespace),
        ("pv/name", names.volume),
    ] {
        kept.insert(format!("{RESERVED}{key}"), value.to_owned());
    }
    Ok(kept)
}

fn is_secret(name: &str) -> bool {
    let mut kinds = OUR_SECRETS.iter().chain(&NODE_SECRETS);
    kinds.any(|kind| {
        let rest = name.strip_prefix(kind);
        rest.is_some_and(|rest| rest == "-name" || rest == "-namespace")
    })
}

/// Returns what stands for the Secrets of the controller part, with which a request is rejected.
fn our_secrets(parameters: &Pairs) -> Pairs {
    let named = |kind: &&str| parameters.get(&format!("{RESERVED}{kind}-name"));
    let first = OUR_SECRETS.iter().find_map(named);
    let reference = first.map(|name| SecretReference {
        name: Some(name.clone()),
        namespace: None,
    });
    secrets(reference.as_ref())
}

/// What parameters of a class may refer to.
struct Names<'a> {
    claim: &'a str,
    namespace: &'a str,
    annotations: Option<&'a Pairs>,
    volume: &'a str,
}

impl<'a> Names<'a> {
    fn of(claim: &'a PersistentVolumeClaim, volume: &'a str) -> Self {
        Self {
            claim: claim.metadata.name.as_deref().unwrap_or_default(),
            namespace: claim.metadata.namespace.as_deref().unwrap_or_default(),
            annotations: claim.metadata.annotations.as_ref(),
            volume,
        }
    }

    /// Returns the name of a Secret. The user of the claim may decide it.
    fn secret(&self, text: &str) -> Result<String, String> {
        resolve(text, |token| match token {
            "pvc.name" => Some(self.claim),
            _ => self.namespace_token(token).or_else(|| {
                let key = token.strip_prefix("pvc.annotations['")?;
                let value = self.annotations?.get(key.strip_suffix("']")?)?;
                Some(value.as_str())
            }),
        })
    }

    /// Returns the namespace of a Secret. The user of the claim must not decide it.
    fn secret_namespace(&self, text: &str) -> Result<String, String> {
        resolve(text, |token| self.namespace_token(token))
    }

    fn namespace_token(&self, token: &str) -> Option<&'a str> {
        match token {
            "pv.name" => Some(self.volume),
            "pvc.namespace" => Some(self.namespace),
            _ => None,
        }
    }
}

/// Replaces the tokens in a parameter, whose values may have the form of tokens (`resolveTemplate`).
fn resolve<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> Result<String, String> {
    let (mut resolved, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let token = after.split_once('}');
        let found = token.and_then(|(token, next)| Some((value_of(token)?, next)));
        let (value, next) = found.ok_or_else(|| {
            format!("a parameter of the StorageClass has an unknown token: {text}")
        })?;
        resolved.push_str(before);
        resolved.push_str(value);
        rest = next;
    }
    resolved.push_str(rest);

    if !is_name(&resolved) {
        return Err(format!(
            "{resolved:?} is not a valid name; it is from a parameter of the StorageClass: {text}"
        ));
    }
    Ok(resolved)
}

/// Returns the Secret of the node part, of this kind, that a class has.
fn secret(
    parameters: &Pairs,
    kind: &str,
    names: &Names<'_>,
) -> Result<Option<SecretReference>, String> {
    let text = |field| parameters.get(&format!("{RESERVED}{kind}-{field}"));
    match (text("name"), text("namespace")) {
        (None, None) => Ok(None),
        (Some(name), Some(namespace)) => Ok(Some(SecretReference {
            name: Some(names.secret(name)?),
            namespace: Some(names.secret_namespace(namespace)?),
        })),
        _ => Err(format!(
            "the StorageClass has only one of {kind}-name and {kind}-namespace"
        )),
    }
}

/// Returns the PersistentVolume without what the cloud decides.
fn skeleton(
    driver: &str,
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    class: &StorageClass,
    csi: CSIPersistentVolumeSource,
) -> PersistentVolume {
    let mut annotations = Pairs::new();
    annotations.insert(PROVISIONED_BY.to_owned(), driver.to_owned());
    for key in DELETION_SECRET {
        annotations.insert(key.to_owned(), String::new());
    }

    let metadata = &claim.metadata;
    let attributes_class = spec.volume_attributes_class_name.clone();
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name(claim)),
            annotations: Some(annotations),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes.clone(),
            mount_options: class.mount_options.clone(),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: Some(class_of(claim).to_owned()),
            volume_mode: spec.volume_mode.clone(),
            volume_attributes_class_name: attributes_class.filter(|name| !name.is_empty()),
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
                ..ObjectReference::default()
            }),
            csi: Some(csi),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

impl Prepared {
    /// Returns the PersistentVolume of the volume that was created (`Provision`).
    pub(super) fn finish(&self, created: proto::Volume) -> PersistentVolume {
        let mut volume = self.volume.clone();
        let Some(spec) = &mut volume.spec else {
            return volume;
        };

        let size = quantity::of_bytes(created.capacity_bytes);
        spec.capacity = Some(BTreeMap::from([("storage".to_owned(), size)]));
        spec.node_affinity = affinity(created.accessible_topology);
        if let Some(csi) = &mut spec.csi {
            let mut attributes = created.volume_context;
            let identity = format!("skydock-{}", csi.driver);
            attributes.entry(IDENTITY.to_owned()).or_insert(identity);
            csi.volume_attributes = Some(attributes);
            csi.volume_handle = created.volume_id;
        }
        volume
    }
}

/// Returns the node affinity for nodes in one of these parts of the cloud (`GenerateVolumeNodeAffinity`).
fn affinity(topology: Vec<proto::Topology>) -> Option<VolumeNodeAffinity> {
    let requirement = |(key, value)| NodeSelectorRequirement {
        key,
        operator: "In".to_owned(),
        values: Some(vec![value]),
    };
    let parts = topology.into_iter().filter(|it| !it.segments.is_empty());
    let terms: Vec<_> = parts
        .map(|part| NodeSelectorTerm {
            match_expressions: Some(part.segments.into_iter().map(requirement).collect()),
            match_fields: None,
        })
        .collect();

    let required = NodeSelector {
        node_selector_terms: terms,
    };
    (!required.node_selector_terms.is_empty()).then_some(VolumeNodeAffinity {
        required: Some(required),
    })
}

#[cfg(test)]
mod tests;
