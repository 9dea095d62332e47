// Load balancers of Services. Each has a name that follows from the Service's UID: a create whose answer was lost is found by it.
import {
  Conflict,
  InProgress,
  Invalid,
  NotFound,
  Unavailable,
  type LoadBalancerStatus,
  type Service,
  type ServicePort,
  type Target,
} from "@skydock/sdk";

import type { LoadBalancer, LoadBalancerSpec } from "./api.js";
import { serverId, type Cloud } from "./cloud.js";

const KIND = "load-balancers";
/** Milliseconds until a load balancer that is being created is looked at again. */
const CREATING_MS = 1000;

/** Returns the load balancer of a Service. */
export async function get(cloud: Cloud, service: Service): Promise<LoadBalancerStatus | undefined> {
  const current = await findOwn(cloud, service);
  return current && status(current);
}

/** Creates or updates the load balancer of a Service. */
export async function ensure(cloud: Cloud, service: Service, targets: Target[]): Promise<LoadBalancerStatus> {
  const spec = wanted(cloud, service, targets);
  const current = (await find(cloud, service)) ?? (await create(cloud, spec));
  if (!cloud.owns(current.labels)) {
    throw new Invalid(`the load balancer ${current.id} is another cluster's`);
  }
  settled(current);
  if (!equal(current.ip_families, spec.ip_families)) {
    throw new Invalid("the IP families of a load balancer cannot be changed: create the Service again");
  }
  const { name: _, ip_families: __, ...changeable } = spec;
  return status(await update(cloud, current, changeable));
}

/** Sets the targets of the load balancer of a Service, and nothing else. */
export async function updateNodes(cloud: Cloud, service: Service, targets: Target[]): Promise<void> {
  const current = await findOwn(cloud, service);
  if (current === undefined) {
    throw new NotFound(`no load balancer ${name(service)}`);
  }
  settled(current);
  await update(cloud, current, { targets: servers(targets) });
}

/** Deletes the load balancer of a Service, in whatever state it is. */
export async function ensureDeleted(cloud: Cloud, service: Service): Promise<void> {
  const current = await findOwn(cloud, service);
  if (current !== undefined) {
    await cloud.delete(KIND, current.id);
  }
}

function name(service: Service): string {
  return `k8s-${service.uid}`;
}

async function find(cloud: Cloud, service: Service): Promise<LoadBalancer | undefined> {
  return (await cloud.named<LoadBalancer>(KIND, name(service)))[0];
}

async function findOwn(cloud: Cloud, service: Service): Promise<LoadBalancer | undefined> {
  const found = await find(cloud, service);
  return found && cloud.owns(found.labels) ? found : undefined;
}

async function create(cloud: Cloud, spec: LoadBalancerSpec): Promise<LoadBalancer> {
  const answer = await cloud.create<LoadBalancer>(KIND, spec);
  if ("existing" in answer) {
    // Another host has created it since we looked. The retry finds it.
    throw new Conflict(`the load balancer ${answer.existing} was created at the same time`);
  }
  return answer.created;
}

/** Returns the load balancer that a Service asks for. */
function wanted(cloud: Cloud, service: Service, targets: Target[]): LoadBalancerSpec {
  if (service.loadBalancerIp !== undefined) {
    throw new Invalid(`the address ${service.loadBalancerIp} cannot be requested: remove loadBalancerIP`);
  }
  const local = service.externalTrafficPolicy === "Local" && service.healthCheckNodePort !== 0;
  return {
    name: name(service),
    ip_families: service.ipFamilies.map((family) => family.toLowerCase()),
    listeners: service.ports.map(listener),
    targets: servers(targets),
    allowed_cidrs: [...service.sourceRanges],
    health_check_port: local ? service.healthCheckNodePort : null,
    labels: cloud.labels({ service: `${service.namespace}/${service.name}` }),
  };
}

function listener({ transport, port, nodePort }: ServicePort): LoadBalancerSpec["listeners"][0] {
  if (transport === "SCTP") {
    throw new Invalid(`port ${port}: SCTP is not supported`);
  }
  if (nodePort === 0) {
    throw new Invalid(`port ${port} has no node port: set allocateLoadBalancerNodePorts`);
  }
  return { protocol: transport.toLowerCase(), port, target_port: nodePort };
}

/** Returns the IDs of the nodes' servers. Nodes without a provider ID come with a later call; others are another cloud's. */
function servers(targets: Target[]): string[] {
  return targets.flatMap(({ providerId = "" }) => serverId(providerId) ?? []);
}

/** Sends the changes that are different from the current state, if there are any. */
async function update(cloud: Cloud, current: LoadBalancer, fields: Partial<LoadBalancerSpec>): Promise<LoadBalancer> {
  const differs = ([field, value]: [string, unknown]) => !equal(current[field as keyof LoadBalancerSpec], value);
  const changes = Object.entries(fields).filter(differs);
  return changes.length === 0 ? current : cloud.update(KIND, current.id, Object.fromEntries(changes));
}

/** Compares values of JSON. */
function equal(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

/** Returns JSON with its maps in alphabetical order. */
function canonical(value: unknown): string {
  const sorted = (_: string, it: unknown) =>
    it !== null && typeof it === "object" && !Array.isArray(it) ? Object.fromEntries(Object.entries(it).sort()) : it;
  return JSON.stringify(value, sorted);
}

/** Checks that the load balancer is neither being created nor broken. */
function settled({ id, status }: LoadBalancer): void {
  if (status === "pending") {
    throw new InProgress(CREATING_MS, `the load balancer ${id} is being created`);
  }
  if (status !== "active") {
    throw new Unavailable(`the load balancer ${id} is broken: create the Service again`);
  }
}

function status({ addresses }: LoadBalancer): LoadBalancerStatus {
  return { ingress: addresses.map((ip) => ({ ip })) };
}
