//! A cluster in a cloud (VPC, subnets, instances), the store, and the calls that were sent.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use skydock_aws::{
    api::{call::Call, failure::Failure, wire::Wire},
    cloud::{Cloud, Event, Setup},
    common::targets::{Target, Targets},
    endpoint::Api,
    http::Http,
    store::Store,
};
use skydock_clouds::{Aws, Proxy};
use skydock_sdk::{
    http::Request,
    types::{Node, Service, ServicePort, Transport},
};
use tokio::runtime::Runtime;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Returns a word that no other test uses.
pub(crate) fn unique() -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_micros();
    format!("{now:x}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A store that is kept between calls.
#[derive(Default)]
pub(crate) struct Memory(RefCell<BTreeMap<String, String>>);

impl Memory {
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Store for Memory {
    fn get(&self, key: &str) -> Option<String> {
        self.0.borrow().get(key).cloned()
    }
    fn set(&self, key: &str, text: &str, _: Duration) {
        self.0.borrow_mut().insert(key.to_owned(), text.to_owned());
    }
    fn reserve(&self, key: &str, text: &str, _: Duration) -> bool {
        self.0
            .borrow_mut()
            .entry(key.to_owned())
            .or_insert_with(|| text.to_owned())
            == text
    }
    fn remove(&self, key: &str) {
        self.0.borrow_mut().remove(key);
    }
}

/// A connection to AWS that records calls and injects errors.
pub(crate) struct Line {
    setup: Setup,
    pub(crate) sent: RefCell<Vec<Call>>,
    /// Action, number of calls that succeed before, number of calls that then fail, and the error
    /// code.
    pub(crate) faults: RefCell<Vec<(&'static str, usize, usize, &'static str)>>,
    /// Returns the code and the message of an error instead of sending a call.
    pub(crate) rejects: RefCell<Option<Rejects>>,
}

type Rejects = Box<dyn Fn(&Call) -> Option<(&'static str, String)>>;

impl Line {
    /// Rejects the calls of these actions that have this text in a parameter.
    pub(crate) fn problem(&self, actions: &'static [&'static str], text: &str, code: &'static str) {
        let text = text.to_owned();
        let rejects = move |call: &Call| {
            let has_text = call.params.iter().any(|(_, value)| value.contains(&text));
            (actions.contains(&call.action) && has_text).then(|| (code, "injected".to_owned()))
        };
        *self.rejects.borrow_mut() = Some(Box::new(rejects));
    }

    fn error(&self, call: &Call) -> Option<(&'static str, String)> {
        let rejection = self
            .rejects
            .borrow()
            .as_ref()
            .and_then(|rejects| rejects(call));
        rejection.or_else(|| Some((self.fault(call.action)?, "injected".to_owned())))
    }

    fn fault(&self, action: &str) -> Option<&'static str> {
        let mut faults = self.faults.borrow_mut();
        let fault = faults
            .iter_mut()
            .find(|(of, _, left, _)| *of == action && *left > 0)?;
        if fault.1 > 0 {
            fault.1 -= 1;
            return None;
        }
        fault.2 -= 1;
        Some(fault.3)
    }

    /// Returns the actions sent since the previous call, in order.
    pub(crate) fn take(&self) -> Vec<String> {
        self.sent
            .borrow_mut()
            .drain(..)
            .map(|call| call.action.to_owned())
            .collect()
    }
}

impl Wire for Line {
    fn send(&self, calls: &[Call]) -> Vec<Result<String, Failure>> {
        calls
            .iter()
            .map(|call| {
                self.sent.borrow_mut().push(call.clone());
                if let Some((code, message)) = self.error(call) {
                    return Err(Failure::Rejected {
                        action: call.action,
                        status: 400,
                        code: code.into(),
                        message,
                    });
                }
                Http::new(&self.setup)
                    .send(std::slice::from_ref(call))
                    .pop()
                    .unwrap()
            })
            .collect()
    }
}

/// A cluster in a cloud.
pub(crate) struct World {
    pub(crate) cluster: String,
    pub(crate) vpc: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) group: String,
    pub(crate) instances: Vec<String>,
    pub(crate) setup: Setup,
    pub(crate) line: Line,
    pub(crate) store: Memory,
    /// The warnings that were published.
    pub(crate) told: RefCell<Vec<String>>,
}

/// The cloud for all tests of this process. It ends with the process.
struct Server {
    aws: Aws,
    proxy: Proxy,
    _runtime: Runtime,
}

fn started() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let (aws, proxy) = runtime.block_on(async {
            let aws = Aws::start().await.unwrap();
            let proxy = Proxy::before_aws(&aws, 1).await.unwrap();
            (aws, proxy)
        });
        Server {
            aws,
            proxy,
            _runtime: runtime,
        }
    })
}

/// Returns the URL of the server.
pub(crate) fn server() -> String {
    started().proxy.url().to_owned()
}

/// Creates a certificate and returns its ARN.
pub(crate) fn certificate() -> String {
    let scope = "AWS4-HMAC-SHA256 Credential=x/19700101/us-east-1/acm/aws4_request, SignedHeaders=host, Signature=0";
    let request = Request::post(started().aws.url())
        .header("Authorization", scope)
        .header("X-Amz-Target", "CertificateManager.RequestCertificate")
        .text(
            "application/x-amz-json-1.1",
            r#"{"DomainName": "example.com"}"#,
        );
    let answer: serde_json::Value = skydock_sdk::http::send(request)
        .unwrap()
        .success()
        .unwrap()
        .json()
        .unwrap();
    answer["CertificateArn"].as_str().unwrap().to_owned()
}

fn setup(text: &str) -> Setup {
    let url = server();
    let text = format!("[Global]\nRegion = us-east-1\n{text}");
    Setup::read(&text, "cloud.conf", &[("endpoint".into(), url)])
        .unwrap()
        .for_cluster("kubernetes", &["10.244.0.0/16".to_owned()])
}

fn line(setup: &Setup) -> Line {
    Line {
        setup: setup.clone(),
        sent: RefCell::default(),
        faults: RefCell::default(),
        rejects: RefCell::default(),
    }
}

/// Creates a call from text parameters.
pub(crate) fn call(api: Api, action: &'static str, params: &[(&str, &str)]) -> Call {
    let params = params
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Call {
        api,
        action,
        params,
    }
}

/// Returns the contents of all elements with this name.
pub(crate) fn texts(body: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    body.split(&open)
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(&close)?.0.trim().to_owned()))
        .collect()
}

pub(crate) fn text(body: &str, tag: &str) -> String {
    texts(body, tag)
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("no <{tag}> in {body}"))
}

impl World {
    /// Creates a cluster with this number of instances and these additional lines of configuration.
    pub(crate) fn new(instances: usize, config: &str) -> Self {
        let cluster = format!("c{}", unique());
        let setup = setup(&format!("KubernetesClusterID = {cluster}\n{config}\n"));
        let line = line(&setup);
        let mut world = Self {
            vpc: String::new(),
            subnets: Vec::new(),
            group: String::new(),
            instances: Vec::new(),
            cluster,
            setup,
            line,
            store: Memory::default(),
            told: RefCell::default(),
        };
        world.build(instances);
        world.line.take();
        world
    }

    /// Replaces the configuration, without an ID of the cluster, and clears the store.
    pub(crate) fn reconfigure(&mut self, config: &str) {
        self.setup = setup(config);
        self.line = line(&self.setup);
        self.store.clear();
    }

    pub(crate) fn ask(&self, call: Call) -> String {
        self.line.send(&[call]).pop().unwrap().unwrap()
    }

    pub(crate) fn ec2(&self, action: &'static str, params: &[(&str, &str)]) -> String {
        self.ask(call(Api::Ec2, action, params))
    }

    pub(crate) fn elb(&self, action: &'static str, params: &[(&str, &str)]) -> String {
        self.ask(call(Api::Elb, action, params))
    }

    pub(crate) fn elbv2(&self, action: &'static str, params: &[(&str, &str)]) -> String {
        self.ask(call(Api::Elbv2, action, params))
    }

    pub(crate) fn tag(&self, resource: &str, key: &str, value: &str) {
        self.ec2(
            "CreateTags",
            &[
                ("ResourceId.1", resource),
                ("Tag.1.Key", key),
                ("Tag.1.Value", value),
            ],
        );
    }

    fn build(&mut self, instances: usize) {
        let key = format!("kubernetes.io/cluster/{}", self.cluster);
        self.vpc = text(
            &self.ec2("CreateVpc", &[("CidrBlock", "10.0.0.0/16")]),
            "vpcId",
        );
        let gateway = text(&self.ec2("CreateInternetGateway", &[]), "internetGatewayId");
        self.ec2(
            "AttachInternetGateway",
            &[("InternetGatewayId", &gateway), ("VpcId", &self.vpc)],
        );
        let tables = self.ec2(
            "DescribeRouteTables",
            &[("Filter.1.Name", "vpc-id"), ("Filter.1.Value.1", &self.vpc)],
        );
        let table = text(&tables, "routeTableId");
        let route = [
            ("RouteTableId", table.as_str()),
            ("DestinationCidrBlock", "0.0.0.0/0"),
            ("GatewayId", &gateway),
        ];
        self.ec2("CreateRoute", &route);
        self.tag(&table, &key, "owned");
        for (zone, cidr) in [("us-east-1a", "10.0.1.0/24"), ("us-east-1b", "10.0.2.0/24")] {
            let params = [
                ("VpcId", self.vpc.as_str()),
                ("CidrBlock", cidr),
                ("AvailabilityZone", zone),
            ];
            let subnet = text(&self.ec2("CreateSubnet", &params), "subnetId");
            self.tag(&subnet, &key, "shared");
            self.subnets.push(subnet);
        }
        let name = format!("nodes-{}", self.cluster);
        let params = [
            ("GroupName", name.as_str()),
            ("GroupDescription", "nodes"),
            ("VpcId", &self.vpc),
        ];
        self.group = text(&self.ec2("CreateSecurityGroup", &params), "groupId");
        self.tag(&self.group, &key, "owned");
        for index in 0..instances {
            self.launch(index % 2);
        }
    }

    /// Launches one more instance.
    pub(crate) fn launch(&mut self, subnet: usize) -> String {
        let key = format!("kubernetes.io/cluster/{}", self.cluster);
        let params = [
            ("ImageId", "ami-12c6146b"),
            ("InstanceType", "m5.large"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("SubnetId", self.subnets[subnet].as_str()),
            ("SecurityGroupId.1", &self.group),
        ];
        let id = text(&self.ec2("RunInstances", &params), "instanceId");
        self.tag(&id, &key, "owned");
        self.instances.push(id.clone());
        id
    }

    /// Runs one call of the host.
    pub(crate) fn call<T>(&self, act: impl FnOnce(&Cloud<'_>) -> T) -> T {
        let nodes = || self.nodes();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let publish_event = |_: &Service, Event { reason, message }: Event<'_>| {
            self.told.borrow_mut().push(format!("{reason}: {message}"));
        };
        let cloud = Cloud::new(&self.setup, &self.line, &self.store, &nodes, now);
        act(&cloud.with_events(&publish_event))
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        let node = |(index, id): (usize, &String)| Node {
            name: format!("node-{index}"),
            provider_id: Some(format!("aws:///us-east-1a/{id}")),
            ..Node::default()
        };
        self.instances.iter().enumerate().map(node).collect()
    }

    /// Returns the warnings that were published since the last call.
    pub(crate) fn warnings(&self) -> String {
        self.told
            .borrow_mut()
            .drain(..)
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub(crate) fn targets(&self) -> Targets {
        let target = |id: &String| Target {
            provider_id: Some(format!("aws:///us-east-1a/{id}")),
            labels: Vec::new(),
        };
        Targets {
            all: self.instances.iter().map(target).collect(),
            changes: None,
        }
    }
}

/// Returns a Service of type `nlb` with one TCP port for each pair.
pub(crate) fn service(ports: &[(u16, u16)]) -> Service {
    let port = |(port, node_port): &(u16, u16)| ServicePort {
        name: format!("p{port}"),
        transport: Transport::Tcp,
        app_protocol: None,
        port: *port,
        target_port: "8080".into(),
        node_port: *node_port,
    };
    let uid = unique();
    Service {
        namespace: "default".into(),
        name: format!("web{}", &uid[uid.len() - 5..]),
        uid: format!("{uid:0>32}"),
        annotations: vec![annotation("type", "nlb")],
        ports: ports.iter().map(port).collect(),
        ..Service::default()
    }
}

pub(crate) fn annotation(name: &str, value: &str) -> (String, String) {
    (
        format!("service.beta.kubernetes.io/aws-load-balancer-{name}"),
        value.to_owned(),
    )
}

/// Returns the name of a Service's load balancer.
pub(crate) fn name(service: &Service) -> String {
    format!("a{}", service.uid.replace('-', ""))
        .chars()
        .take(32)
        .collect()
}
