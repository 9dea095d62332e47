//! Reads the cluster for `skydock doctor`. Nothing is written: an access review, which is sent like
//! an object, is not kept by the API server.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::{Event, Node, Pod},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{Client, Resource, api::ListParams, core::Request};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skydock_kube::api::{with_causes, with_deadline};

use super::{
    ccm::{self, Ccm, LEASE_NAME, LEASE_NAMESPACE},
    scheduling::host_ports,
    snapshot::{Known, Lack, Origin, Snapshot, Unknown, Workload, decode},
};

/// Number of objects in a page.
const PAGE: u32 = 500;
/// Number of pages of a list.
const PAGES: usize = 100;

/// A page of a list, whose objects are decoded one by one: one that is not valid must not hide the
/// others.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

/// The permissions of Skydock in `deploy/base/rbac.yaml`: verb, group, resource, and the name of the
/// only object, if it is one. Those with `true` are needed in the namespace of the Lease only.
const PERMISSIONS: &[(&str, &str, &str, &str, bool)] = &[
    ("list", "", "nodes", "", false),
    ("watch", "", "nodes", "", false),
    ("list", "", "services", "", false),
    ("watch", "", "services", "", false),
    ("get", "", "namespaces", "kube-system", false),
    ("create", "", "events", "", false),
    ("patch", "", "events", "", false),
    ("patch", "", "nodes", "", false),
    ("delete", "", "nodes", "", false),
    ("patch", "", "nodes/status", "", false),
    ("patch", "", "services/status", "", false),
    ("create", "coordination.k8s.io", "leases", "", true),
    ("get", "coordination.k8s.io", "leases", LEASE_NAME, true),
    ("list", "coordination.k8s.io", "leases", LEASE_NAME, true),
    ("watch", "coordination.k8s.io", "leases", LEASE_NAME, true),
    ("update", "coordination.k8s.io", "leases", LEASE_NAME, true),
    ("create", "", "configmaps", "", true),
    (
        "get",
        "",
        "configmaps",
        "cloud-controller-manager-load-balancer-nodes",
        true,
    ),
    (
        "update",
        "",
        "configmaps",
        "cloud-controller-manager-load-balancer-nodes",
        true,
    ),
];

/// Reads everything that checks look at.
pub(super) async fn snapshot(client: &Client) -> Snapshot {
    let reader = Reader {
        client: with_deadline(client),
    };
    let now = Timestamp::now();
    if let Err(error) = reader.client.apiserver_version().await
        && !matches!(&error, kube::Error::Api(_))
    {
        let why = format!("the API server does not answer: {}", with_causes(&error));
        return Snapshot::new(now, Some(&Unknown(why)));
    }
    reader.all(now).await
}

struct Reader {
    client: Client,
}

impl Reader {
    async fn all(&self, now: Timestamp) -> Snapshot {
        let mut all = Snapshot::new(now, None);
        let notices = &mut all.notices;
        all.nodes = self.list::<Node>(None, "", notices, |_| true).await;
        all.pods = self.pods(notices).await;
        all.workloads = self.workloads(notices).await;
        let on_nodes = "involvedObject.kind=Node,reason=FailedToInitialize";
        all.events = self.list::<Event>(None, on_nodes, notices, |_| true).await;
        let of_kubelets = "spec.signerName=kubernetes.io/kubelet-serving";
        all.requests = self
            .list::<CertificateSigningRequest>(None, of_kubelets, notices, |_| true)
            .await;
        all.endpoints = self
            .list::<EndpointSlice>(Some("default"), "", notices, |slice| {
                let labels = slice.metadata.labels.as_ref();
                let service = labels.and_then(|it| it.get("kubernetes.io/service-name"));
                service.is_some_and(|name| name == "kubernetes")
            })
            .await;

        let ccms = ccm::find(
            all.workloads.as_deref().unwrap_or_default(),
            all.pods.as_deref().unwrap_or_default(),
        );
        all.leases = self.leases(&ccms, &mut all.notices).await;
        all.lacks = self.lacks(&ccms).await;
        all
    }

    /// Reads a list, page by page, and keeps some of its objects.
    async fn list<K>(
        &self,
        namespace: Option<&str>,
        fields: &str,
        notices: &mut Vec<String>,
        keeps: impl Fn(&K) -> bool,
    ) -> Known<Vec<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let mut kept = Vec::new();
        let mut undecoded = 0_usize;
        let keep = |item: Value| match decode::<K>(item) {
            Some(object) => kept.extend(keeps(&object).then_some(object)),
            None => undecoded += 1,
        };
        let path = K::url_path(&(), namespace);
        let plural = K::plural(&());
        self.pages(&path, &plural, fields, notices, keep).await?;
        if undecoded > 0 {
            notices.push(format!("{undecoded} {plural} could not be decoded"));
        }
        Ok(kept)
    }

    /// Calls a function with each object of a list.
    async fn pages(
        &self,
        path: &str,
        plural: &str,
        fields: &str,
        notices: &mut Vec<String>,
        mut each: impl FnMut(Value),
    ) -> Known<()> {
        let mut params = ListParams::default().limit(PAGE);
        if !fields.is_empty() {
            params = params.fields(fields);
        }

        for _ in 0..PAGES {
            let request = Request::new(path).list(&params);
            let request = request.map_err(|error| Unknown(error.to_string()))?;
            let page = self.client.request::<Page>(request).await;
            let page = page.map_err(|error| unknown(&format!("list {plural}"), &error))?;
            page.items.into_iter().flatten().for_each(&mut each);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
        notices.push(format!(
            "there are more than {} {plural}: only these were read",
            PAGES * PAGE as usize
        ));
        Ok(())
    }

    /// Reads Pods of all namespaces, or else of kube-system.
    async fn pods(&self, notices: &mut Vec<String>) -> Known<Vec<Pod>> {
        let keeps = |pod: &Pod| {
            let in_system = pod.metadata.namespace.as_deref() == Some(LEASE_NAMESPACE);
            let uses_ports = pod
                .spec
                .as_ref()
                .is_some_and(|spec| !host_ports(spec).is_empty());
            in_system || uses_ports || Ccm::new(&Workload::of_pod(pod)).is_some()
        };
        match self.list::<Pod>(None, "", notices, keeps).await {
            Err(Unknown(why)) => {
                let some = self
                    .list::<Pod>(Some(LEASE_NAMESPACE), "", notices, keeps)
                    .await?;
                notices.push(format!("only Pods of {LEASE_NAMESPACE} were read: {why}"));
                Ok(some)
            }
            all => all,
        }
    }

    async fn workloads(&self, notices: &mut Vec<String>) -> Known<Vec<Workload>> {
        let mut all = Vec::new();
        self.workloads_of::<Deployment>(notices, &mut all).await?;
        self.workloads_of::<DaemonSet>(notices, &mut all).await?;
        self.workloads_of::<StatefulSet>(notices, &mut all).await?;
        Ok(all)
    }

    /// Adds the workloads of a kind of all namespaces, or else of kube-system, that run a
    /// cloud-controller-manager.
    async fn workloads_of<K: Resource<DynamicType = ()>>(
        &self,
        notices: &mut Vec<String>,
        all: &mut Vec<Workload>,
    ) -> Known<()> {
        let (kind, plural) = (K::kind(&()), K::plural(&()));
        let mut add = |item: Value| {
            let workload = Workload::read(&kind, &item, Origin::Cluster);
            all.extend(workload.filter(|it| Ccm::new(it).is_some()));
        };
        let path = K::url_path(&(), None);
        let Err(Unknown(why)) = self.pages(&path, &plural, "", notices, &mut add).await else {
            return Ok(());
        };
        let path = K::url_path(&(), Some(LEASE_NAMESPACE));
        self.pages(&path, &plural, "", notices, &mut add).await?;
        notices.push(format!(
            "only {plural} of {LEASE_NAMESPACE} were read: {why}"
        ));
        Ok(())
    }

    /// Reads the Leases of kube-system, and those that cloud-controller-managers name.
    async fn leases(&self, ccms: &[Ccm], notices: &mut Vec<String>) -> Known<Vec<Lease>> {
        let leases = ccms.iter().filter_map(Ccm::lease);
        let mut namespaces: Vec<_> = leases.map(|it| it.namespace).collect();
        namespaces.push(LEASE_NAMESPACE.to_owned());
        namespaces.sort();
        namespaces.dedup();

        let mut all = Vec::new();
        for namespace in namespaces {
            all.extend(self.list(Some(&namespace), "", notices, |_| true).await?);
        }
        Ok(all)
    }

    /// Asks which permissions the accounts of Skydock do not have.
    async fn lacks(&self, ccms: &[Ccm]) -> Known<Vec<Lack>> {
        let mut lacks = Vec::new();
        for ccm in ccms.iter().filter(|ccm| ccm.is_skydock()) {
            let account = ccm.account();
            let place = ccm
                .lease()
                .map_or_else(|| LEASE_NAMESPACE.to_owned(), |it| it.namespace);
            for &(verb, group, resource, name, local) in PERMISSIONS {
                let namespace = local.then(|| place.clone());
                let name = match ccm.lease() {
                    Some(lease) if name == LEASE_NAME => lease.name,
                    _ => name.to_owned(),
                };
                let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {
                        "user": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
                        "groups": [
                            "system:serviceaccounts",
                            format!("system:serviceaccounts:{}", account.namespace),
                            "system:authenticated",
                        ],
                        "resourceAttributes": {
                            "verb": verb, "group": group, "resource": plural, "subresource": subresource,
                            "name": name, "namespace": namespace,
                        },
                    },
                });
                if !self.is_allowed(review).await? {
                    lacks.push(Lack {
                        account: account.clone(),
                        verb,
                        group,
                        resource,
                        namespace,
                    });
                }
            }
        }
        Ok(lacks)
    }

    async fn is_allowed(&self, review: Value) -> Known<bool> {
        let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| Unknown(error.to_string()))?;
        let answer = self.client.request::<Value>(request).await;
        let answer =
            answer.map_err(|error| unknown("ask for the permissions of an account", &error))?;
        Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }
}

/// Says why something is not known.
fn unknown(what: &str, error: &kube::Error) -> Unknown {
    let why = match error {
        kube::Error::Api(status) => status.message.clone(),
        error => with_causes(error),
    };
    Unknown(format!("cannot {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use skydock_kube::testing::FakeApi;

    use super::*;

    const RBAC: &str = include_str!("../../../../../deploy/base/rbac.yaml");

    #[test]
    fn the_permissions_are_those_of_the_manifest() {
        let documents = crate::commands::migrate::parse(RBAC).unwrap();
        let mut manifest = Vec::new();
        for document in &documents {
            for rule in document["rules"].as_array().into_iter().flatten() {
                let texts = |field: &str| -> Vec<String> {
                    let list = rule[field].as_array().into_iter().flatten();
                    list.map(|it| it.as_str().unwrap().to_owned()).collect()
                };
                let name = texts("resourceNames").first().cloned().unwrap_or_default();
                let local = document["kind"] == "Role";
                for (verb, resource) in texts("verbs").into_iter().flat_map(|verb| {
                    texts("resources")
                        .into_iter()
                        .map(move |it| (verb.clone(), it))
                }) {
                    manifest.push((
                        verb,
                        texts("apiGroups")[0].clone(),
                        resource,
                        name.clone(),
                        local,
                    ));
                }
            }
        }
        let mut listed: Vec<_> = PERMISSIONS
            .iter()
            .map(|(verb, group, resource, name, local)| {
                let [verb, group, resource, name] =
                    [verb, group, resource, name].map(|it| (*it).to_owned());
                (verb, group, resource, name, *local)
            })
            .collect();
        manifest.sort();
        listed.sort();
        assert_eq!(listed, manifest);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_is_not_absent() {
        let api = FakeApi::default();
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        api.answer("GET", "/version", 200, version);
        api.fail("GET", "/api/v1/nodes", 403, "Forbidden");
        api.fail("GET", "/api/v1/pods", 403, "Forbidden");
        let system = "/api/v1/namespaces/kube-system/pods";
        let first = json!({"metadata": {"continue": "next"}, "items": [
            {"metadata": {"name": "a", "namespace": "kube-system"}},
            {"metadata": {"name": "b", "creationTimestamp": "never"}},
        ]});
        api.answer("GET", system, 200, first);
        api.answer(
            "GET",
            system,
            200,
            json!({"items": [{"metadata": {"name": "c", "namespace": "kube-system"}}]}),
        );

        let read = snapshot(&api.client()).await;
        let Err(Unknown(why)) = read.nodes else {
            panic!("known");
        };
        assert!(
            why.starts_with("cannot list nodes") && why.contains("\"ccm\""),
            "{why}"
        );
        assert!(read.leases.is_err() && read.workloads.is_err());

        let names: Vec<_> = read
            .pods
            .unwrap()
            .into_iter()
            .map(|pod| pod.metadata.name.unwrap())
            .collect();
        assert_eq!(names, ["a", "c"]);
        let notices = read.notices.join("\n");
        assert!(
            notices.contains("1 pods could not be decoded")
                && notices.contains("only Pods of kube-system"),
            "{notices}"
        );
        let queries: Vec<_> = api
            .requests()
            .into_iter()
            .filter(|it| it.path == system)
            .map(|it| it.query)
            .collect();
        assert!(
            queries[0].contains("limit=500") && queries[1].contains("continue=next"),
            "{queries:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_is_waited_for_once() {
        let api = FakeApi::default();
        let read = snapshot(&api.client()).await;
        assert!(
            read.nodes
                .unwrap_err()
                .0
                .starts_with("the API server does not answer")
        );
        assert_eq!(api.requests().len(), 1);
    }
}
