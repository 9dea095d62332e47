//! Keeps in the cluster what was accepted of each plugin, so that a restart accepts no more than a
//! replacement at run time: an annotation of the Lease, which no plugin can write.

use std::{collections::BTreeMap, io::Write, time::Duration};

use anyhow::{Context, anyhow};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use skydock_cloud::text::escape;
use skydock_kube::{
    api::{with_causes, with_deadline},
    clients::{self, ClusterAccess},
    informer::Read,
};
use skydock_sandbox::{Accepted, Plugin};
use tokio::time::sleep;

use crate::{
    cli::AcceptedArgs,
    commands::inspect::table::{Row, lines},
    process::blocking::blocking,
};

/// The annotation: JSON with the plugins by their names.
const ANNOTATION: &str = "skydock.dev/accepted";

/// Attempts to write the Lease while its holder renews it, which happens every two seconds.
const ATTEMPTS: u32 = 5;

/// Time between two attempts after a failure.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

type All = BTreeMap<String, Accepted>;

/// Why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The API server denied the request, or did not answer.
    #[error("{}", api_message(.0))]
    Api(#[from] kube::Error),
    /// The annotation has other contents.
    #[error(
        "the annotation {ANNOTATION} cannot be read ({0}): remove it with `skydock plugin accepted --reset`"
    )]
    Unreadable(serde_json::Error),
    /// Others changed the Lease each time.
    #[error("the Lease was changed at the same time")]
    Busy,
    /// There is no Lease with this name.
    #[error("it does not exist")]
    NoLease,
    /// Nothing is known about this plugin.
    #[error("nothing was accepted of a plugin {0:?}; there are: {1}")]
    NoPlugin(String, String),
}

impl StoreError {
    /// Returns true if the API server does not allow it.
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 403)
    }

    /// Returns true if the API server rejects what is written, for example because the annotations
    /// of others leave too little room.
    fn is_final(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if [413, 422].contains(&status.code))
    }
}

/// Returns the message of the API server, or the error with its causes.
fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => with_causes(error),
    }
}

/// What was accepted, in the Lease of a run.
#[derive(Clone)]
pub struct AcceptedStore {
    leases: Api<Read<Lease>>,
    namespace: String,
    name: String,
}

impl AcceptedStore {
    /// Creates a store in this Lease.
    #[must_use]
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self {
            leases: Api::namespaced(with_deadline(client), namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Checks that the plugin needs no more than what was accepted, if the API server says what that
    /// is. A replica without permission to lead may have none to read it either.
    ///
    /// # Errors
    /// If it needs more, or the annotation has other contents.
    pub async fn check_if_known(&self, plugin: &Plugin) -> anyhow::Result<()> {
        match self.read().await {
            Ok(all) => check(plugin, &all).await,
            // Waiting does not help: only an operator removes the annotation.
            Err(error @ StoreError::Unreadable(_)) => Err(anyhow!(error).context(self.to_string())),
            Err(error) => {
                tracing::warn!(lease = %self, "cannot read what was accepted of the plugin: {error}");
                Ok(())
            }
        }
    }

    /// Waits until the API server says what was accepted, and checks that the plugin needs no more.
    /// If this process does not lead (`leads`), it may have no permission to read it: then nothing
    /// is checked.
    ///
    /// # Errors
    /// If it needs more, or the annotation has other contents.
    pub async fn check(&self, plugin: &Plugin, leads: bool) -> anyhow::Result<()> {
        match self.known(leads).await? {
            Some(all) => check(plugin, &all).await,
            None => Ok(()),
        }
    }

    /// Waits until the API server says what was accepted. Returns `None` if this process does not
    /// lead and may not read it.
    async fn known(&self, leads: bool) -> anyhow::Result<Option<All>> {
        loop {
            match self.read().await {
                Ok(all) => return Ok(Some(all)),
                // Waiting does not help: only an operator removes the annotation.
                Err(error @ StoreError::Unreadable(_)) => {
                    return Err(anyhow!(error).context(self.to_string()));
                }
                Err(error) if error.is_forbidden() && !leads => return Ok(None),
                Err(error) => {
                    tracing::warn!(lease = %self, "cannot read what was accepted of the plugin; retrying: {error}");
                    sleep(RETRY_PERIOD).await;
                }
            }
        }
    }

    /// Keeps what is accepted of the plugin whenever a generation is in service. Ends only with the
    /// reason why it cannot be kept: without it, a restart would accept more than a replacement.
    pub async fn follow(&self, plugin: &Plugin) -> String {
        // A permission that comes late must not overwrite what was accepted before.
        if let Err(rejection) = self.check(plugin, true).await {
            return rejection.to_string();
        }

        let mut generations = plugin.subscribe();
        loop {
            // Marked as seen before it is read, so that a generation that follows is not missed.
            generations.borrow_and_update();
            let name = plugin.name();
            let accepted = plugin.generation().accepted;
            let keep = |all: &mut All| drop(all.insert(name.to_owned(), (*accepted).clone()));

            while let Err(error) = self.update(keep).await {
                if error.is_final() {
                    return format!(
                        "cannot keep what was accepted of the plugin in the Lease {self}: {error}"
                    );
                }
                tracing::error!(lease = %self, "cannot keep what was accepted of the plugin; retrying: {error}");
                sleep(RETRY_PERIOD).await;
            }

            if generations.changed().await.is_err() {
                // The plugin is gone. To end would mean that what was accepted cannot be kept.
                return std::future::pending().await;
            }
        }
    }

    /// Returns what was accepted of each plugin.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read(&self) -> Result<All, StoreError> {
        parse(self.lease().await?.as_ref())
    }

    async fn lease(&self) -> Result<Option<Lease>, StoreError> {
        let lease = self.leases.get_opt(&self.name).await?;
        Ok(lease.map(|Read(lease)| lease))
    }

    /// Changes what was accepted. Writes nothing if it stays the same.
    async fn update(&self, change: impl Fn(&mut All)) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS {
            let lease = self.lease().await?;
            let before = parse(lease.as_ref())?;
            let mut all = before.clone();
            change(&mut all);
            if all == before {
                return Ok(());
            }

            match self.write(lease, &all).await {
                // The holder has renewed the Lease in between.
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                written => return Ok(written?),
            }
        }

        Err(StoreError::Busy)
    }

    async fn write(&self, lease: Option<Lease>, all: &All) -> Result<(), kube::Error> {
        let is_new = lease.is_none();
        // Without leader election, nobody else creates the Lease.
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        });

        let annotations = lease.metadata.annotations.get_or_insert_default();
        if all.is_empty() {
            annotations.remove(ANNOTATION);
        } else {
            let text = serde_json::to_string(all).map_err(kube::Error::SerdeError)?;
            annotations.insert(ANNOTATION.to_owned(), text);
        }

        let params = PostParams::default();
        if is_new {
            self.leases.create(&params, &Read(lease)).await?;
        } else {
            // The resource version of the Lease prevents that a renewal is lost.
            self.leases
                .replace(&self.name, &params, &Read(lease))
                .await?;
        }

        Ok(())
    }

    /// Returns what was accepted of one plugin, of which something must be known, or of all.
    async fn of(&self, plugin: Option<&str>) -> Result<All, StoreError> {
        let lease = self.lease().await?.ok_or(StoreError::NoLease)?;
        let (chosen, _) = divide(parse(Some(&lease))?, plugin)?;
        Ok(chosen)
    }

    /// Forgets what was accepted of one plugin or of all, even if it cannot be read.
    async fn reset(&self, plugin: Option<&str>) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS {
            let lease = self.lease().await?.ok_or(StoreError::NoLease)?;
            let rest = match plugin {
                Some(_) => divide(parse(Some(&lease))?, plugin)?.1,
                None => All::new(),
            };

            match self.write(Some(lease), &rest).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                written => return Ok(written?),
            }
        }
        Err(StoreError::Busy)
    }
}

/// Returns what was accepted of one plugin, of which something must be known, or of all; and the
/// rest.
fn divide(all: All, plugin: Option<&str>) -> Result<(All, All), StoreError> {
    let Some(plugin) = plugin else {
        return Ok((all, All::new()));
    };

    if !all.contains_key(plugin) {
        let known: Vec<_> = all.into_keys().collect();
        return Err(StoreError::NoPlugin(plugin.to_owned(), known.join(", ")));
    }
    Ok(all.into_iter().partition(|(name, _)| name == plugin))
}

impl std::fmt::Display for AcceptedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Checks that the plugin needs no more than what was accepted. If it does, the last good build is
/// put into service instead, if the operator wants it and it does not.
async fn check(plugin: &Plugin, all: &All) -> anyhow::Result<()> {
    let name = plugin.name();
    // The first plugin of a cluster is accepted as it is.
    let Some(before) = all.get(name) else {
        return Ok(());
    };
    let Err(additions) = plugin.may_follow(before) else {
        return Ok(());
    };

    let rejection = anyhow!(
        "plugin {name} needs more than what was accepted in this cluster, for sha256:{}: {additions}; allow it under `permissions` \
         (`imports`, `exports`, `hosts`) in the configuration, or accept it with `skydock plugin accepted {name} --reset`",
        before.digest
    );

    // The last good build may need more than what was accepted, too.
    if Box::pin(plugin.fall_back()).await && plugin.may_follow(before).is_ok() {
        tracing::error!("{rejection}");
        return Ok(());
    }
    Err(rejection)
}

fn parse(lease: Option<&Lease>) -> Result<All, StoreError> {
    let annotations = lease.and_then(|lease| lease.metadata.annotations.as_ref());
    let text = annotations.and_then(|all| all.get(ANNOTATION));
    let all = text.map(|text| serde_json::from_str(text).map_err(StoreError::Unreadable));
    Ok(all.transpose()?.unwrap_or_default())
}

/// Runs `skydock plugin accepted`: shows what was accepted, or forgets it.
///
/// # Errors
/// If the API server does not answer, or does not allow it.
pub async fn run(args: AcceptedArgs) -> anyhow::Result<()> {
    let access = ClusterAccess {
        kubeconfig: args.kubeconfig,
        master: args.master,
    };
    let client = blocking(async move {
        let config = clients::load(&access).await?;
        anyhow::Ok(clients::named(&config, "plugin-accepted")?)
    })
    .await?;

    let store = AcceptedStore::new(
        &client,
        &args.leader_elect_resource_namespace,
        &args.leader_elect_resource_name,
    );

    let plugin = args.plugin.as_deref();
    if args.reset {
        let reset = store.reset(plugin).await;
        reset.with_context(|| format!("cannot change the Lease {store}"))?;
        writeln!(
            std::io::stdout(),
            "forgotten: the next start accepts the plugin as it is"
        )?;
        return Ok(());
    }

    let all = store.of(plugin).await;
    let all = all.with_context(|| format!("cannot read the Lease {store}"))?;

    let mut out = std::io::stdout().lock();
    if all.is_empty() {
        writeln!(out, "nothing was accepted yet")?;
    }

    for (name, accepted) in &all {
        let rows = [
            Row::new("plugin", [name]),
            Row::new("sha256", [&accepted.digest]),
            Row::new("imports", &accepted.imports),
            Row::new("exports", accepted.exports.iter().flatten()),
            Row::new("wants to reach", &accepted.hosts),
            Row::new("provider IDs", &accepted.provider_ids),
            Row::new("annotations", &accepted.annotations),
        ];
        // Names may come from the plugin (SEC-15).
        for line in lines(&rows) {
            writeln!(out, "{}", escape(&line))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_kube::testing::FakeApi;

    use super::*;

    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ccm";

    fn lease(text: Option<&str>) -> serde_json::Value {
        let mut annotations = json!({"a": "b"});
        if let Some(text) = text {
            annotations[ANNOTATION] = text.into();
        }
        json!({
            "metadata": {"name": "ccm", "resourceVersion": "7", "annotations": annotations},
            "spec": {"holderIdentity": "me"},
        })
    }

    fn store(api: &FakeApi) -> AcceptedStore {
        AcceptedStore::new(&api.client(), "kube-system", "ccm")
    }

    fn metal(digest: &str) -> Accepted {
        Accepted {
            digest: digest.to_owned(),
            ..Accepted::default()
        }
    }

    /// Returns the Leases that were written.
    fn written(api: &FakeApi) -> Vec<serde_json::Value> {
        let requests = api.requests().into_iter();
        let written = requests.filter(|request| request.method == "PUT");
        written.map(|request| request.body).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_accepted_is_waited_for() {
        let known = lease(Some(r#"{"metal": {"digest": "1"}}"#));
        let failed = |code: u16| json!({"kind": "Status", "status": "Failure", "code": code});
        for (code, leads, waits) in [(503, false, true), (503, true, true), (403, true, true)] {
            let api = FakeApi::default();
            api.answer("GET", LEASE, code, failed(code));
            api.answer("GET", LEASE, 200, known.clone());
            let all = store(&api).known(leads).await.unwrap();
            assert_eq!(all.is_some_and(|all| all.contains_key("metal")), waits);
        }

        let api = FakeApi::default();
        api.answer("GET", LEASE, 403, failed(403));
        assert_eq!(store(&api).known(false).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_was_accepted_is_kept_next_to_the_holder() {
        let api = FakeApi::default();
        api.answer("GET", LEASE, 200, lease(None));
        api.answer("PUT", LEASE, 200, lease(None));
        let store = store(&api);
        let keep = |all: &mut All| drop(all.insert("metal".into(), metal("1")));
        store.update(keep).await.unwrap();
        let lease_now = written(&api).remove(0);
        assert_eq!(lease_now["metadata"]["resourceVersion"], "7");
        assert_eq!(lease_now["metadata"]["annotations"]["a"], "b");
        assert_eq!(lease_now["spec"]["holderIdentity"], "me");

        let text = lease_now["metadata"]["annotations"][ANNOTATION].clone();
        api.answer("GET", LEASE, 200, lease(text.as_str()));
        assert_eq!(store.read().await.unwrap()["metal"], metal("1"));

        api.answer("GET", LEASE, 200, lease(text.as_str()));
        store.update(keep).await.unwrap();
        assert_eq!(written(&api).len(), 1, "it is the same");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error_until_it_is_reset() {
        let api = FakeApi::default();
        api.answer("GET", LEASE, 200, lease(Some("{")));
        api.answer("PUT", LEASE, 200, lease(None));
        let store = store(&api);
        let error = store.read().await.unwrap_err().to_string();
        assert!(error.contains("skydock plugin accepted --reset"), "{error}");
        api.answer("GET", LEASE, 200, lease(Some(r#"{"metal": {}}"#)));
        let error = store.read().await.unwrap_err().to_string();
        assert!(error.contains("missing field `digest`"), "{error}");
        api.answer("GET", LEASE, 200, lease(Some("{")));
        store.reset(None).await.unwrap();
        let lease_now = written(&api).remove(0);
        assert_eq!(lease_now["metadata"]["annotations"], json!({"a": "b"}));
    }

    #[tokio::test]
    async fn a_plugin_or_a_lease_that_does_not_exist_is_an_error() {
        let known = || {
            lease(Some(
                r#"{"metal": {"digest": "1"}, "rock": {"digest": "2"}}"#,
            ))
        };
        for (plugin, wanted) in [
            (None, Ok(2)),
            (Some("metal"), Ok(1)),
            (
                Some("mettal"),
                Err("nothing was accepted of a plugin \"mettal\"; there are: metal, rock"),
            ),
        ] {
            let api = FakeApi::default();
            api.answer("GET", LEASE, 200, known());
            let shown = store(&api).of(plugin).await.map(|all| all.len());
            assert_eq!(
                shown.map_err(|it| it.to_string()),
                wanted.map_err(Into::into)
            );
            api.answer("GET", LEASE, 200, known());
            api.answer("PUT", LEASE, 200, known());
            let reset = store(&api).reset(plugin).await;
            assert_eq!(
                (reset.is_ok(), written(&api).len()),
                match wanted {
                    Ok(_) => (true, 1),
                    Err(_) => (false, 0),
                }
            );
        }
        let api = FakeApi::default();
        for _ in 0..2 {
            api.fail("GET", LEASE, 404, "NotFound");
        }
        let store = store(&api);
        for result in [store.of(None).await.map(drop), store.reset(None).await] {
            assert!(matches!(result, Err(StoreError::NoLease)), "{result:?}");
        }
    }

    #[tokio::test]
    async fn a_record_that_the_api_server_rejects_is_not_tried_forever() {
        for (code, is_final) in [
            (422, true),
            (413, true),
            (403, false),
            (429, false),
            (500, false),
        ] {
            let api = FakeApi::default();
            api.answer("GET", LEASE, 200, lease(None));
            api.fail("PUT", LEASE, code, "Failed");
            let keep = |all: &mut All| drop(all.insert("metal".into(), metal("1")));
            let error = store(&api).update(keep).await.unwrap_err();
            assert_eq!(error.is_final(), is_final, "{code}");
        }
    }
}
