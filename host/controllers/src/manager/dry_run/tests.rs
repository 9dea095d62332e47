use std::sync::Mutex;

use skydock_cloud::{
    Arguments, Attachment, NewRoute, NewVolume, NodeSet, Route, StorageError, VolumeId,
};
use skydock_controller_base::testing::{FakeApi, FakeCloud};

use super::*;

fn all(api: &FakeApi) -> Clients {
    let client = api.client();
    Clients {
        informers: client.clone(),
        node: client.clone(),
        service: client.clone(),
        route: client,
    }
}

#[tokio::test]
async fn a_dry_run_reads_from_the_cloud_but_changes_nothing() {
    let cloud = Arc::new(FakeCloud::default());
    let (dry_run_clients, _) =
        dry_run_clients(cloud.clone(), &all(&FakeApi::default()), &Arc::default());
    let service = Service {
        namespace: "ns".into(),
        name: "web".into(),
        ..Service::default()
    };
    assert_eq!(
        dry_run_clients
            .ensure_load_balancer(&service, &NodeSet::default())
            .await,
        Ok(service.status.clone())
    );
    assert_eq!(
        dry_run_clients
            .update_load_balancer(&service, &NodeSet::default())
            .await,
        Ok(())
    );
    assert_eq!(
        dry_run_clients.ensure_load_balancer_deleted(&service).await,
        Ok(())
    );
    let elsewhere = CloudError::ImplementedElsewhere;
    let route = NewRoute {
        name_hint: String::new(),
        target_node: "n1".into(),
        target_provider_id: None,
        target_addresses: Vec::new(),
        destination_cidr: "10.0.0.0/24".into(),
    };
    assert_eq!(
        dry_run_clients.create_routes(&[route.clone(), route]).await,
        Ok(vec![Err(elsewhere.clone()), Err(elsewhere)])
    );
    let old = Route {
        name: "r".into(),
        target_node: None,
        target_addresses: None,
        destination_cidr: "10.0.0.0/24".into(),
        blackhole: false,
    };
    assert_eq!(
        dry_run_clients.delete_routes(&[old]).await,
        Ok(vec![Err(CloudError::ImplementedElsewhere)])
    );
    assert_eq!(cloud.calls(), Vec::<String>::new());
    dry_run_clients.get_load_balancer(&service).await.unwrap();
    assert_eq!(cloud.calls(), ["get web"]);
}

/// A cloud that knows which functions were called.
#[derive(Default)]
struct Called(Mutex<Vec<Function>>);

/// Implements [`CloudProvider`] for [`Called`].
macro_rules! called {
    ($(
        $(#[$doc:meta])*
        $function:ident $effect:ident $capability:ident $name:literal:
            $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;
    )*) => {
        #[async_trait]
        impl CloudProvider for Called {
            fn info(&self) -> Arc<ProviderInfo> {
                unreachable!("not asked")
            }

            $(
                #[allow(unused_variables)] // each argument has a name in the table
                async fn $method(&self, $($argument: &$type),*) -> Result<$answer, CloudError> {
                    self.0.lock().unwrap().push(Function::$function);
                    Err(CloudError::ImplementedElsewhere)
                }
            )*
        }
    };
}

skydock_cloud::functions!(called);

#[tokio::test]
async fn each_function_that_may_change_the_cloud_is_not_called() {
    let cloud = Arc::new(Called::default());
    let (dry_run_clients, _) =
        dry_run_clients(cloud.clone(), &all(&FakeApi::default()), &Arc::default());
    let arguments = Arguments::default();
    for function in Function::ALL.iter().copied() {
        let _ = function.with(&arguments).make(&*dry_run_clients).await;
        let expected = function.only_reads().then_some(function);
        let called = std::mem::take(&mut *cloud.0.lock().unwrap());
        assert_eq!(called, Vec::from_iter(expected), "{function}");
    }
}

#[tokio::test]
async fn each_element_that_a_dry_run_does_not_make_has_an_answer() {
    let volume = || VolumeId("vol-1".into());
    let attachment = |node: Option<&str>| Attachment {
        volume: volume(),
        node: node.map(Into::into),
    };
    let new = NewVolume {
        name: "pvc-1".into(),
        ..NewVolume::default()
    };
    let (dry_run_clients, _) = dry_run_clients(
        Arc::new(Called::default()),
        &all(&FakeApi::default()),
        &Arc::default(),
    );

    let elsewhere = || Err(StorageError::Cloud(CloudError::ImplementedElsewhere));
    assert_eq!(
        dry_run_clients.create_volumes(&[new.clone(), new]).await,
        Ok(vec![elsewhere(), elsewhere()])
    );
    let attachments = [attachment(Some("i-1")), attachment(None)];
    assert_eq!(
        dry_run_clients.detach_volumes(&attachments).await,
        Ok(vec![
            Err(StorageError::Cloud(
                CloudError::ImplementedElsewhere
            ));
            2
        ])
    );
    assert_eq!(
        dry_run_clients.delete_volumes(&[volume()]).await,
        Ok(vec![Err(StorageError::Cloud(
            CloudError::ImplementedElsewhere
        ))])
    );
}
