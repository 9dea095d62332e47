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
use kube::{Client, Resource, api::ListParams, client::Body, core::Request};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skydock_credentials::server_time;
use skydock_kube::api::{with_causes, with_deadline, with_limit};
use skydock_secrets::redacted;
use tokio::time::{Instant, timeout_at};

use super::{
    ccm::{self, Ccm, LEASE_NAMESPACE},
    permissions::{CHANGES_NODES, Permission, acts_as_node_controller, needed_by},
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
    reader.read().await
}

struct Reader {
    client: Client,
    /// When nothing more is read.
    until: Instant,
}

impl Reader {
    async fn read(&self) -> Snapshot {
        let why = match timeout_at(self.until, self.version()).await {
            Ok(Ok(answer)) => {
                // The clock of an operator's machine may differ from those of the cluster.
                let now = server_time(answer.headers());
                return self.all(now.unwrap_or_else(Timestamp::now)).await;
            }
            Ok(Err(error)) => with_causes(&error),
            Err(_) => too_slow(),
        };
        let why = format!("the API server does not answer: {why}");
        Snapshot::new(Timestamp::now(), Some(&Unknown(why)))
    }

    /// Asks for the version of the API server. Any answer shows that there is one.
    async fn version(&self) -> kube::Result<http::Response<Body>> {
        let request = http::Request::get("/version").body(Body::from(Vec::<u8>::new()));
        self.client
            .send(request.map_err(kube::Error::HttpError)?)
            .await
    }

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
        (all.trusted, all.unasked) = self.trusted(&ccms).await;
        all.notices
            .extend(all.unasked.as_ref().map(|why| why.0.clone()));
        let ccms: Vec<_> = ccms
            .into_iter()
            .filter(|it| it.is_trusted(&all.trusted))
            .collect();
        all.leases = self.leases(&ccms, &mut all.unread, &mut all.notices).await;
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
        let mut all = self.workloads_of::<Deployment>(notices).await?;
        all.extend(self.workloads_of::<DaemonSet>(notices).await?);
        all.extend(self.workloads_of::<StatefulSet>(notices).await?);
        Ok(all)
    }

    /// Reads the workloads of a kind of all namespaces, or else of kube-system, that run a
    /// cloud-controller-manager.
    async fn workloads_of<K: Resource<DynamicType = ()>>(
        &self,
        notices: &mut Vec<String>,
    ) -> Known<Vec<Workload>> {
        match self.workloads_in::<K>(None, notices).await {
            Err(Unknown(why)) => {
                let some = self
                    .workloads_in::<K>(Some(LEASE_NAMESPACE), notices)
                    .await?;
                let plural = K::plural(&());
                notices.push(format!(
                    "only {plural} of {LEASE_NAMESPACE} were read: {why}"
                ));
                Ok(some)
            }
            all => all,
        }
    }

    async fn workloads_in<K: Resource<DynamicType = ()>>(
        &self,
        namespace: Option<&str>,
        notices: &mut Vec<String>,
    ) -> Known<Vec<Workload>> {
        let (kind, plural) = (K::kind(&()), K::plural(&()));
        let mut found: Vec<Workload> = Vec::new();
        let mut undecoded = 0_usize;
        let add = |item: Value| match Workload::read(&kind, &item, Origin::Cluster) {
            Some(workload) => found.extend(Some(workload).filter(|it| Ccm::new(it).is_some())),
            None => undecoded += 1,
        };
        let path = K::url_path(&(), namespace);
        self.pages(&path, &plural, "", notices, add).await?;
        if undecoded > 0 {
            notices.push(format!("{undecoded} {plural} could not be decoded"));
        }
        Ok(found)
    }

    /// Reads the Leases of kube-system, and those of other namespaces that cloud-controller-managers
    /// name, as far as they can be read.
    async fn leases(
        &self,
        ccms: &[Ccm],
        unread: &mut Vec<String>,
        notices: &mut Vec<String>,
    ) -> Known<Vec<Lease>> {
        let mut all = self
            .list::<Lease>(Some(LEASE_NAMESPACE), "", notices, |_| true)
            .await?;

        let leases = ccms.iter().filter_map(Ccm::lease);
        let mut namespaces: BTreeSet<_> = leases.map(|it| it.namespace).collect();
        namespaces.remove(LEASE_NAMESPACE);
        for namespace in namespaces {
            if !is_label(&namespace) {
                notices.push(format!(
                    "--leader-elect-resource-namespace={namespace:?} is not a valid namespace"
                ));
                continue;
            }
            match self
                .list::<Lease>(Some(&namespace), "", notices, |_| true)
                .await
            {
                Ok(some) => all.extend(some),
                Err(Unknown(why)) => {
                    notices.push(format!("Leases of {namespace} were not read: {why}"));
                    unread.push(namespace);
                }
            }
        }
        Ok(all)
    }

    /// Returns the accounts of cloud-controller-managers outside of kube-system that may change
    /// nodes, which nobody but an administrator can allow, and why there may be others.
    async fn trusted(&self, ccms: &[Ccm]) -> (Vec<Account>, Option<Unknown>) {
        let others = ccms.iter().filter(|it| !it.is_trusted(&[]));
        let accounts: BTreeSet<_> = others.map(Ccm::account).collect();
        let mut unasked = (accounts.len() > ACCOUNTS).then(|| {
            Unknown(format!(
                "{} accounts of what looks like a cloud-controller-manager outside of {LEASE_NAMESPACE}: only {ACCOUNTS} were looked at",
                accounts.len()
            ))
        });

        let mut trusted = Vec::new();
        for account in accounts.into_iter().take(ACCOUNTS) {
            let mut its = ccms.iter().filter(|it| it.account() == account);
            let has_others = its.any(Ccm::has_accounts);
            match self.may_change_nodes(&account, has_others).await {
                Ok(true) => trusted.push(account),
                Ok(false) => {}
                Err(Unknown(why)) => {
                    unasked = Some(Unknown(format!(
                        "what looks like a cloud-controller-manager outside of {LEASE_NAMESPACE} was ignored: {why}"
                    )));
                    break;
                }
            }
        }
        (trusted, unasked)
    }

    /// Returns true if an account may change nodes, itself or through that of a controller.
    async fn may_change_nodes(&self, account: &Account, has_others: bool) -> Known<bool> {
        let may = self.is_allowed(review(account, &CHANGES_NODES)).await?;
        if may || !has_others {
            return Ok(may);
        }
        let acts = acts_as_node_controller();
        self.is_allowed(review(account, &acts)).await
    }

    /// Asks which permissions the accounts of Skydock do not have.
    async fn lacks(&self, ccms: &[Ccm]) -> Known<Vec<Lack>> {
        let mut asked = BTreeSet::new();
        let mut lacks = Vec::new();
        for ccm in ccms.iter().filter(|ccm| ccm.is_skydock()) {
            for (account, permission) in needed_by(ccm) {
                if !asked.insert((account.clone(), permission.clone())) {
                    continue;
                }
                if !self.is_allowed(review(&account, &permission)).await? {
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
            Err(_) => Err(Unknown(format!("cannot {what}: {}", too_slow()))),
        }
    }
}

/// Returns true for a DNS label, as the name of a namespace is.
fn is_label(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let has_dash = text.starts_with('-') || text.ends_with('-');
    (1..=63).contains(&text.len()) && !has_dash && text.chars().all(is_plain)
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

fn too_slow() -> String {
    format!("reading the cluster takes longer than {} s", READ.as_secs())
}

/// Says why something is not known.
fn unknown(what: &str, error: &kube::Error) -> Unknown {
    let why = match error {
        kube::Error::Api(status) => status.message.clone(),
        error => with_causes(error),
    };
    Unknown(format!("cannot {what}: {}", redacted(&why)))
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
    async fn the_cluster_is_only_read() {
        let api = FakeApi::default();
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        api.answer("GET", "/version", 200, version);
        for path in [
            "/api/v1/nodes",
            "/api/v1/pods",
            "/api/v1/events",
            "/apis/apps/v1/daemonsets",
            "/apis/apps/v1/statefulsets",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        ] {
            api.answer("GET", path, 200, json!({"items": []}));
        }
        // Permissions of both accounts are asked for, and whether the other one is trusted.
        let ccm = |namespace: &str| {
            json!({"metadata": {"name": "ccm", "namespace": namespace}, "spec": {"template": {"spec": {
                "serviceAccountName": "ccm", "containers": [{"name": "ccm", "image": "x/skydock"}]}}}})
        };
        let deployments = json!({"items": [ccm("kube-system"), ccm("mine")]});
        api.answer("GET", "/apis/apps/v1/deployments", 200, deployments);
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for _ in 0..500 {
            api.answer("POST", reviews, 201, json!({"status": {"allowed": true}}));
        }

        let read = snapshot(&api.client()).await;
        assert!(read.lacks.is_ok_and(|lacks| lacks.is_empty()));
        let requests = api.requests();
        let (reads, others): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|it| it.method == "GET");
        assert!(reads.len() >= 10 && others.len() > 10, "{reads:?}");
        for request in others {
            // The API server keeps no reviews.
            let asked = (request.method.as_str(), request.path.as_str());
            assert_eq!(asked, ("POST", reviews));
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
        let ccms = [ccm("kube-system"), ccm("mine"), ccm("tenant")];
        let (trusted, unasked) = reader.trusted(&ccms).await;
        let found = ccms.iter().map(|ccm| ccm.is_trusted(&trusted));
        assert_eq!(found.collect::<Vec<_>>(), [true, true, false]);
        assert_eq!((unasked, api.requests().len()), (None, 2));

        api.fail("POST", path, 403, "Forbidden");
        let (trusted, unasked) = reader.trusted(&ccms).await;
        assert!(trusted.is_empty() && unasked.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_may_act_as_one_that_changes_nodes() {
        let object = json!({"metadata": {"name": "ccm", "namespace": "mine"}, "spec": {"template": {"spec": {"containers": [
            {"name": "ccm", "image": "x/skydock", "args": ["--use-service-account-credentials"]}]}}}});
        let workload = Workload::read("Deployment", &object, Origin::Cluster).unwrap();
        let ccms = [Ccm::new(&workload).unwrap()];
        for may_act in [true, false] {
            let api = FakeApi::default();
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            for allowed in [false, may_act] {
                api.answer("POST", path, 201, json!({"status": {"allowed": allowed}}));
            }
            let reader = Reader {
                client: api.client(),
                until: Instant::now() + READ,
            };
            let (trusted, _) = reader.trusted(&ccms).await;
            assert_eq!(ccms[0].is_trusted(&trusted), may_act);
            let requests = api.requests();
            let asked = &requests[1].body["spec"]["resourceAttributes"];
            assert_eq!(asked["subresource"], "token");
            assert_eq!(asked["name"], "node-controller");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_midway_is_read_once() {
        let api = FakeApi::default();
        let reader = Reader {
            client: api.client(),
            until: Instant::now() + READ,
        };
        let ccm = json!({"metadata": {"name": "ccm", "namespace": "kube-system"}, "spec": {"template": {"spec": {
            "containers": [{"name": "ccm", "image": "x/skydock"}]}}}});
        let first = json!({"metadata": {"continue": "next"}, "items": [ccm]});
        api.answer("GET", "/apis/apps/v1/deployments", 200, first);
        let expired = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
            "message": "it is too old: password=S3CRET9x"});
        api.answer("GET", "/apis/apps/v1/deployments", 410, expired);
        let system = "/apis/apps/v1/namespaces/kube-system/deployments";
        api.answer("GET", system, 200, json!({"items": [ccm]}));

        let mut notices = Vec::new();
        let found = reader.workloads_of::<Deployment>(&mut notices).await;
        assert_eq!(found.map(|all| all.len()), Ok(1));
        let notices = notices.join("\n");
        assert!(
            notices.contains("only deployments of kube-system") && !notices.contains("S3CRET"),
            "{notices}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_does_not_hide_the_leases_of_others() {
        let api = FakeApi::default();
        let ccm = |namespace: &str| {
            let arg = format!("--leader-elect-resource-namespace={namespace}");
            let object = json!({"metadata": {"name": "ccm", "namespace": "kube-system"}, "spec": {"template": {"spec": {
                "containers": [{"name": "ccm", "image": "x/skydock", "args": [arg]}]}}}});
            Ccm::new(&Workload::read("Deployment", &object, Origin::Cluster).unwrap()).unwrap()
        };
        let path =
            |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let lease = json!({"items": [{"metadata": {"name": "a"}}]});
        api.answer("GET", &path("kube-system"), 200, lease.clone());
        api.fail("GET", &path("denied"), 403, "Forbidden");
        api.answer("GET", &path("other"), 200, lease);

        let reader = Reader {
            client: api.client(),
            until: Instant::now() + READ,
        };
        let long = "a".repeat(64);
        let ccms = ["denied", "other", "a/../../b", "a b", "-a", long.as_str()].map(ccm);
        let (mut unread, mut notices) = (Vec::new(), Vec::new());
        let leases = reader.leases(&ccms, &mut unread, &mut notices).await;
        assert_eq!(leases.map(|all| all.len()), Ok(2));
        assert_eq!(unread, ["denied"]);
        assert_eq!((notices.len(), api.requests().len()), (5, 3));

        // Without these, nothing is known.
        api.fail("GET", &path("kube-system"), 403, "Forbidden");
        assert!(reader.leases(&[], &mut unread, &mut notices).await.is_err());
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

    #[tokio::test(start_paused = true)]
    async fn the_time_is_that_of_the_api_server() {
        let api = FakeApi::default();
        api.set_date("Thu, 01 Jan 2026 12:00:00 GMT");
        api.fail("GET", "/version", 403, "Forbidden");
        let read = snapshot(&api.client()).await;
        assert_eq!(read.now, "2026-01-01T12:00:00Z".parse().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_takes_longer_than_all_may_take() {
        let api = FakeApi::default();
        api.hang("GET", "/version");
        let start = Instant::now();
        let reader = Reader {
            client: api.client(),
            until: start + Duration::from_secs(1),
        };
        let read = reader.read().await;
        assert!(read.nodes.is_err() && start.elapsed() < Duration::from_secs(2));
    }
}
