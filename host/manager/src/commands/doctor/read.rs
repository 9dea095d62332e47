//! Reads the cluster for `skydock doctor`. Nothing is written: an access review, which is sent like
//! an object, is not kept by the API server.

use std::{collections::BTreeSet, time::Duration};

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
use skydock_kube::api::{with_causes, with_deadline, with_limit};
use tokio::time::{Instant, timeout_at};

use super::{
    ccm::{self, Ccm, LEASE_NAMESPACE},
    permissions::{CHANGES_NODES, Permission, needed},
    scheduling::host_ports,
    snapshot::{Account, Known, Lack, Origin, Snapshot, Unknown, Workload, decode},
};

/// Number of objects in a page.
const PAGE: u32 = 500;
/// Bytes of an answer. A page of the largest Pods that are usual has a tenth of it.
const ANSWER: usize = 64 << 20;
/// How long the cluster is read. What was not read until then is not known.
const READ: Duration = Duration::from_mins(5);
/// Number of pages of a list.
const PAGES: usize = 100;

/// A page of a list, whose objects are decoded one by one: one that is not valid must not hide the
/// others.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    /// What has no such field is no list.
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<Value>>,
}

/// Number of accounts whose permissions are asked for.
const ACCOUNTS: usize = 20;

/// Reads everything that checks look at.
pub(super) async fn snapshot(client: &Client) -> Snapshot {
    let reader = Reader {
        client: with_limit(&with_deadline(client), ANSWER),
        until: Instant::now() + READ,
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
    /// When nothing more is read.
    until: Instant,
}

impl Reader {
    async fn all(&self, now: Timestamp) -> Snapshot {
        let mut all = Snapshot::new(now, None);
        let notices = &mut all.notices;
        all.nodes = self.list::<Node>(None, "", notices, |_| true).await;
        if all.nodes.as_ref().is_ok_and(Vec::is_empty) {
            notices.push(
                "the cluster has no nodes, so most checks have nothing to look at".to_owned(),
            );
        }
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
        all.trusted = self.trusted(&ccms, &mut all.notices).await;
        let ccms: Vec<_> = ccms
            .into_iter()
            .filter(|it| it.is_trusted(&all.trusted))
            .collect();
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
            let page: Page = self.request(request, &format!("list {plural}")).await?;
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
        let mut undecoded = 0_usize;
        let mut add = |item: Value| match Workload::read(&kind, &item, Origin::Cluster) {
            Some(workload) => all.extend(Some(workload).filter(|it| Ccm::new(it).is_some())),
            None => undecoded += 1,
        };
        let path = K::url_path(&(), None);
        if let Err(Unknown(why)) = self.pages(&path, &plural, "", notices, &mut add).await {
            let path = K::url_path(&(), Some(LEASE_NAMESPACE));
            self.pages(&path, &plural, "", notices, &mut add).await?;
            notices.push(format!(
                "only {plural} of {LEASE_NAMESPACE} were read: {why}"
            ));
        }
        if undecoded > 0 {
            notices.push(format!("{undecoded} {plural} could not be decoded"));
        }
        Ok(())
    }

    /// Reads the Leases of kube-system, and those that cloud-controller-managers name.
    async fn leases(&self, ccms: &[Ccm], notices: &mut Vec<String>) -> Known<Vec<Lease>> {
        let leases = ccms.iter().filter_map(Ccm::lease);
        let mut namespaces: Vec<_> = leases.map(|it| it.namespace).collect();
        namespaces.push(LEASE_NAMESPACE.to_owned());
        namespaces.sort();
        namespaces.dedup();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        namespaces.retain(|it| {
            let is_valid = !it.is_empty() && it.chars().all(is_name);
            if !is_valid {
                notices.push(format!(
                    "--leader-elect-resource-namespace={it:?} is no namespace"
                ));
            }
            is_valid
        });

        let mut all = Vec::new();
        for namespace in namespaces {
            all.extend(self.list(Some(&namespace), "", notices, |_| true).await?);
        }
        Ok(all)
    }

    /// Returns the accounts of cloud-controller-managers outside of kube-system that may change
    /// nodes, which nobody but an administrator can allow.
    async fn trusted(&self, ccms: &[Ccm], notices: &mut Vec<String>) -> Vec<Account> {
        let others = ccms.iter().filter(|it| !it.is_trusted(&[]));
        let accounts: BTreeSet<_> = others.map(Ccm::account).collect();
        if accounts.len() > ACCOUNTS {
            notices.push(format!(
                "{} accounts of what looks like a cloud-controller-manager outside of {LEASE_NAMESPACE}: only {ACCOUNTS} were looked at",
                accounts.len()
            ));
        }

        let mut trusted = Vec::new();
        for account in accounts.into_iter().take(ACCOUNTS) {
            match self.is_allowed(review(&account, &CHANGES_NODES)).await {
                Ok(true) => trusted.push(account),
                Ok(false) => {}
                Err(Unknown(why)) => {
                    notices.push(format!(
                        "what looks like a cloud-controller-manager outside of {LEASE_NAMESPACE} was ignored: {why}"
                    ));
                    break;
                }
            }
        }
        trusted
    }

    /// Asks which permissions the accounts of Skydock do not have.
    async fn lacks(&self, ccms: &[Ccm]) -> Known<Vec<Lack>> {
        let mut asked = BTreeSet::new();
        let mut lacks = Vec::new();
        for ccm in ccms.iter().filter(|ccm| ccm.is_skydock()) {
            let account = ccm.account();
            for permission in needed(ccm.lease()) {
                if !asked.insert((account.clone(), permission.clone())) {
                    continue;
                }
                if !self.is_allowed(review(&account, &permission)).await? {
                    let account = account.clone();
                    lacks.push(Lack {
                        account,
                        permission,
                    });
                }
            }
        }
        Ok(lacks)
    }

    async fn is_allowed(&self, review: Value) -> Known<bool> {
        let what = "ask for the permissions of an account";
        let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| Unknown(error.to_string()))?;
        let answer = self.request::<Value>(request, what).await?;
        decision(&answer).map_err(|why| Unknown(format!("cannot {what}: {why}")))
    }

    async fn request<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
        what: &str,
    ) -> Known<T> {
        match timeout_at(self.until, self.client.request::<T>(request)).await {
            Ok(answer) => answer.map_err(|error| unknown(what, &error)),
            Err(_) => Err(Unknown(format!(
                "cannot {what}: reading the cluster takes longer than {} s",
                READ.as_secs()
            ))),
        }
    }
}

/// Returns the question whether an account has a permission.
fn review(account: &Account, permission: &Permission) -> Value {
    let Permission {
        verb,
        group,
        resource,
        name,
        namespace,
    } = permission;
    let (plural, subresource) = resource.split_once('/').unwrap_or((*resource, ""));
    json!({
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
                "name": name.as_deref().unwrap_or_default(), "namespace": namespace,
            },
        },
    })
}

/// Reads the answer to a question for a permission. An authorizer that has failed denies nothing.
fn decision(answer: &Value) -> Result<bool, String> {
    let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
    let error = answer.pointer("/status/evaluationError");
    let error = error.and_then(Value::as_str).unwrap_or_default();
    match allowed {
        Some(true) => Ok(true),
        Some(false) if error.is_empty() => Ok(false),
        Some(false) => Err(error.to_owned()),
        None => Err("the answer has no decision".to_owned()),
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

    #[test]
    fn what_is_not_decided_is_not_denied() {
        for (answer, expected) in [
            (json!({"status": {"allowed": true}}), Some(true)),
            (
                json!({"status": {"allowed": false, "reason": "no"}}),
                Some(false),
            ),
            (
                json!({"status": {"allowed": false, "evaluationError": "timed out"}}),
                None,
            ),
            (
                json!({"status": {"allowed": true, "evaluationError": "timed out"}}),
                Some(true),
            ),
            (json!({"kind": "Status", "status": "Failure"}), None),
            (json!({}), None),
        ] {
            assert_eq!(decision(&answer).ok(), expected, "{answer}");
        }
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
    async fn what_is_no_list_and_what_is_not_decoded_are_no_absence() {
        let api = FakeApi::default();
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        api.answer("GET", "/version", 200, version);
        api.answer("GET", "/api/v1/nodes", 200, json!({}));
        let failure = json!({"kind": "Status", "status": "Failure", "message": "no"});
        api.answer("GET", "/api/v1/pods", 200, failure.clone());
        api.answer("GET", "/api/v1/namespaces/kube-system/pods", 200, failure);
        let broken =
            json!({"items": [{"metadata": {"name": "a"}, "spec": {"template": {"spec": 7}}}]});
        api.answer("GET", "/apis/apps/v1/deployments", 200, broken);
        for plural in ["daemonsets", "statefulsets"] {
            let path = format!("/apis/apps/v1/{plural}");
            api.answer("GET", &path, 200, json!({"items": null}));
        }

        let read = snapshot(&api.client()).await;
        assert!(read.nodes.is_err() && read.pods.is_err());
        assert_eq!(read.workloads.map(|all| all.len()), Ok(0));
        let notices = read.notices.join("\n");
        assert!(
            notices.contains("1 deployments could not be decoded"),
            "{notices}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_accounts_that_may_change_nodes_are_trusted() {
        let api = FakeApi::default();
        let ccm = |namespace: &str| {
            let object = json!({"metadata": {"name": "ccm", "namespace": namespace}, "spec": {"template": {"spec": {
                "serviceAccountName": "ccm", "containers": [{"name": "ccm", "image": "x/skydock"}]}}}});
            Ccm::new(&Workload::read("Deployment", &object, Origin::Cluster).unwrap()).unwrap()
        };
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for allowed in [true, false] {
            api.answer("POST", path, 201, json!({"status": {"allowed": allowed}}));
        }
        let reader = Reader {
            client: api.client(),
            until: Instant::now() + READ,
        };
        let mut notices = Vec::new();
        let ccms = [ccm("kube-system"), ccm("mine"), ccm("tenant")];
        let trusted = reader.trusted(&ccms, &mut notices).await;
        let found = ccms.iter().map(|ccm| ccm.is_trusted(&trusted));
        assert_eq!(found.collect::<Vec<_>>(), [true, true, false]);
        assert_eq!((notices.len(), api.requests().len()), (0, 2));
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
