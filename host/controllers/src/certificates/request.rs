//! CertificateSigningRequests in the cache: what is read and kept of each.

use k8s_openapi::{
    ByteString,
    api::certificates::v1::{
        CertificateSigningRequest, CertificateSigningRequestCondition,
        CertificateSigningRequestSpec, CertificateSigningRequestStatus,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::Deserialize;
use skydock_kube::informer::{Entry, Identity, Kind};

use super::plan::{self, Claim, Flaw};

/// The signer of serving certificates of kubelets.
const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Maximum bytes of a request in PEM. That of a kubelet has less than 2 KiB.
pub(super) const MOST_BYTES: usize = 16 << 10;

/// CertificateSigningRequests.
#[derive(Debug)]
pub(super) struct RequestKind;

/// Identity and version of a request.
#[derive(Debug)]
pub(super) struct Version {
    name: String,
    uid: String,
    resource_version: String,
}

/// A request for the serving certificate of a kubelet that nobody has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The node whose kubelet created it; empty if its user is not a node.
    pub(super) node: String,
    /// When it was created, in seconds since the Unix epoch.
    pub(super) created: u64,
    /// What it asks for. It is read once, since a kubelet can create many requests, and change its
    /// Node all the time.
    pub(super) claim: Result<Claim, Flaw>,
}

/// What such a request says. The API server sets user and groups; everything else is up to the
/// user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) username: String,
    pub(super) groups: Vec<String>,
    pub(super) usages: Vec<String>,
    /// The request in PEM; `None` if it has more than [`MOST_BYTES`].
    pub(super) pem: Option<Vec<u8>>,
}

impl Kind for RequestKind {
    type Object = CertificateSigningRequest;
    type Read = Sent;
    /// `None` for a request with another signer, and for one that is decided.
    type View = Option<Waiting>;
    type Kept = Version;

    const FIELDS: Option<&'static str> = Some("spec.signerName=kubernetes.io/kubelet-serving");

    fn split(object: CertificateSigningRequest) -> (Version, Option<Waiting>) {
        let CertificateSigningRequest {
            metadata,
            spec,
            status,
        } = object;
        let status = status.unwrap_or_default();

        let decided =
            status.certificate.is_some() || status.conditions.is_some_and(|it| !it.is_empty());
        let created = metadata.creation_timestamp;
        let waiting = (spec.signer_name == SIGNER && !decided).then(|| {
            let request = Request {
                username: spec.username.unwrap_or_default(),
                groups: spec.groups.unwrap_or_default(),
                usages: spec.usages.unwrap_or_default(),
                pem: Some(spec.request.0).filter(|pem| pem.len() <= MOST_BYTES),
            };
            Waiting {
                node: plan::node_name(&request).to_owned(),
                created: created.map_or(0, |it| u64::try_from(it.0.as_second()).unwrap_or(0)),
                claim: plan::claim(&request),
            }
        });

        let version = Version {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        };
        (version, waiting)
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        Identity {
            namespace: "",
            name: &entry.object.name,
            uid: &entry.object.uid,
            resource_version: &entry.object.resource_version,
        }
    }
}

/// The fields of a request that are read: whoever creates one must not be able to make the list of
/// all unreadable with another field.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sent {
    metadata: SentMetadata,
    spec: SentSpec,
    #[serde(default)]
    status: SentStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentMetadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentSpec {
    request: ByteString,
    signer_name: String,
    username: Option<String>,
    groups: Option<Vec<String>>,
    usages: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentStatus {
    conditions: Option<Vec<SentCondition>>,
    certificate: Option<ByteString>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentCondition {
    #[serde(rename = "type")]
    type_: String,
}

impl From<Sent> for CertificateSigningRequest {
    fn from(sent: Sent) -> Self {
        let Sent {
            metadata,
            spec,
            status,
        } = sent;
        let condition = |it: SentCondition| CertificateSigningRequestCondition {
            type_: it.type_,
            ..CertificateSigningRequestCondition::default()
        };

        Self {
            metadata: ObjectMeta {
                name: metadata.name,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                creation_timestamp: metadata.creation_timestamp,
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                request: spec.request,
                signer_name: spec.signer_name,
                username: spec.username,
                groups: spec.groups,
                usages: spec.usages,
                ..CertificateSigningRequestSpec::default()
            },
            status: Some(CertificateSigningRequestStatus {
                conditions: status
                    .conditions
                    .map(|all| all.into_iter().map(condition).collect()),
                certificate: status.certificate,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_controller_base::testing::with;

    use super::{super::pkcs10::Pkcs10Error, *};

    fn object() -> Value {
        json!({
            "metadata": {"name": "csr-1", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": "m", "time": "0000-99-99T00:00:00Z"}]},
            "spec": {"signerName": SIGNER, "username": "system:node:n1", "groups": ["system:nodes"],
                "usages": ["digital signature", "server auth"], "request": "AAEC", "extra": {"odd": [1]}},
            "status": {},
        })
    }

    fn view(object: Value) -> Option<Waiting> {
        let sent: Sent = serde_json::from_value(object).unwrap();
        Entry::<RequestKind>::new(sent.into()).view
    }

    #[test]
    fn a_request_is_read_whatever_its_other_fields_are() {
        let request = view(object()).unwrap();
        assert_eq!(request.node, "n1");
        assert_eq!(request.created, 1_767_225_600);
        assert_eq!(request.claim, Err(Flaw::Unreadable(Pkcs10Error::NotPem)));
    }

    // Holds: SEC-64
    #[test]
    fn a_request_that_is_decided_or_of_another_signer_is_none() {
        for change in [
            json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Denied", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Failed", "status": "True", "lastUpdateTime": "?"}]}}),
            json!({"status": {"certificate": "AAEC"}}),
            json!({"spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet"}}),
            json!({"spec": {"signerName": "kubernetes.io/kube-apiserver-client"}}),
            json!({"spec": {"signerName": "kubernetes.io/legacy-unknown"}}),
            json!({"spec": {"signerName": "example.com/kubelet-serving"}}),
        ] {
            assert_eq!(view(with(&object(), &change)), None, "{change}");
        }
    }

    // Holds: SEC-64
    #[test]
    fn a_request_that_is_too_long_is_not_kept() {
        let mut object: CertificateSigningRequest =
            serde_json::from_value::<Sent>(object()).unwrap().into();
        object.spec.request = ByteString(vec![b'A'; MOST_BYTES + 1]);
        let request = Entry::<RequestKind>::new(object).view.unwrap();
        assert_eq!(request.claim, Err(Flaw::TooLong));
    }
}
