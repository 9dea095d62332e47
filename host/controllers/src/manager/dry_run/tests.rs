use skydock_cloud::{Arguments, NewRoute, NodeSet, Route};
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

#[tokio::test]
async fn each_function_that_may_change_the_cloud_is_not_called() {
    let cloud = Arc::new(FakeCloud::default());
    let (dry_run_clients, _) =
        dry_run_clients(cloud.clone(), &all(&FakeApi::default()), &Arc::default());
    let arguments = Arguments::default();
    for function in Function::ALL {
        let before = cloud.calls().len();
        let _ = function.with(&arguments).make(&*dry_run_clients).await;
        let called = cloud.calls().len() > before;
        assert_eq!(called, function.only_reads(), "{function}");
    }
}
