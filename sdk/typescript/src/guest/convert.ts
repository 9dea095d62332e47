// Conversions between the types of the SDK and those of the bindings.
import type * as wit from "skydock:provider/types@0.1.0";
import type * as sets from "skydock:provider/node-sets@0.1.0";

import * as sdk from "../index.js";

/** A map of names, and the map back. */
function names<T extends string>(map: Record<string, T>): { from(name: string): T; to(name: T): string } {
  const back = Object.fromEntries(Object.entries(map).map(([key, value]) => [value, key]));
  const found = <V>(value: V | undefined, name: string): V => {
    if (value === undefined) {
      throw new sdk.Internal(`${JSON.stringify(name)} is not one of ${Object.values(map).join(", ")}`);
    }
    return value;
  };
  return { from: (name) => found(map[name], name), to: (name) => found(back[name], name) };
}

const kinds = names<sdk.AddressKind>({
  "hostname": "Hostname",
  "internal-ip": "InternalIP",
  "external-ip": "ExternalIP",
  "internal-dns": "InternalDNS",
  "external-dns": "ExternalDNS",
});
const effects = names<sdk.TaintEffect>({
  "no-schedule": "NoSchedule",
  "prefer-no-schedule": "PreferNoSchedule",
  "no-execute": "NoExecute",
});
const transports = names<sdk.Transport>({ tcp: "TCP", udp: "UDP", sctp: "SCTP" });
const policies = names<sdk.TrafficPolicy>({ cluster: "Cluster", local: "Local" });
const families = names<sdk.IpFamily>({ ipv4: "IPv4", ipv6: "IPv6" });
const familyPolicies = names<sdk.IpFamilyPolicy>({
  "single-stack": "SingleStack",
  "prefer-dual-stack": "PreferDualStack",
  "require-dual-stack": "RequireDualStack",
});
const modes = names<sdk.IpMode>({ vip: "VIP", proxy: "Proxy" });

/**
 * Returns a text for the host. The bindings end the call, with the answers about all elements, for anything else, which data of a
 * cloud may have although its type says something else.
 */
export function text(value: unknown, what: string): string {
  if (typeof value !== "string") {
    throw new sdk.Internal(`the plugin returned the ${what} ${shown(value)}; expected a string`);
  }
  return value;
}

/** Returns a text, or undefined without one. */
export function optional(value: unknown, what: string): string | undefined {
  return value === undefined || value === null ? undefined : text(value, what);
}

/** Returns a number of a port. */
function port(value: unknown): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > 65_535) {
    throw new sdk.Internal(`the plugin returned the port ${shown(value)}; expected a number from 0 to 65535`);
  }
  return value as number;
}

function shown(value: unknown): string {
  return typeof value === "number" ? String(value) : `of type ${value === null ? "null" : typeof value}`;
}

/** Returns milliseconds as the contract has them, whatever the number is. */
export function milliseconds(duration: number): bigint {
  return duration > 0 ? BigInt(Math.ceil(Math.min(duration, Number.MAX_SAFE_INTEGER))) : 0n;
}

/** Returns the state of an instance. */
export function presence(value: unknown): sdk.Presence {
  if (value !== "running" && value !== "stopped" && value !== "absent") {
    throw new sdk.Internal(`${JSON.stringify(value)} is not one of running, stopped, absent`);
  }
  return value;
}

/** Returns labels or annotations as pairs. */
export function pairs(them: sdk.Labels | undefined, what: string): wit.Pair[] {
  return Object.entries(them ?? {}).map(([key, value]) => [key, text(value, `${what} ${key}`)]);
}

export function labels(pairs: wit.Pair[]): sdk.Labels {
  return Object.fromEntries(pairs);
}

export function addresses(them: wit.NodeAddress[]): sdk.NodeAddress[] {
  return them.map(({ kind, address }) => ({ kind: kinds.from(kind), address }));
}

export function node(it: wit.Node): sdk.Node {
  const { creationTimestamp, ...rest } = it;
  return {
    ...rest,
    labels: labels(it.labels),
    annotations: labels(it.annotations),
    taints: it.taints.map(({ key, value, effect }) => ({ key, value, effect: effects.from(effect) })),
    addresses: addresses(it.addresses),
    created: new Date(Number(creationTimestamp) * 1000),
  };
}

export function service(it: wit.Service): sdk.Service {
  return {
    ...it,
    labels: labels(it.labels),
    annotations: labels(it.annotations),
    ports: it.ports.map((port) => ({ ...port, transport: transports.from(port.transport) })),
    externalTrafficPolicy: policies.from(it.externalTrafficPolicy),
    internalTrafficPolicy: policies.from(it.internalTrafficPolicy),
    ipFamilies: it.ipFamilies.map(families.from),
    ipFamilyPolicy: familyPolicies.from(it.ipFamilyPolicy),
    selector: labels(it.selector),
    status: { ingress: it.status.ingress.map(ingress) },
  };
}

function ingress(it: wit.Ingress): sdk.Ingress {
  return {
    ...it,
    ipMode: it.ipMode === undefined ? undefined : modes.from(it.ipMode),
    ports: it.ports.map((port) => ({ ...port, transport: transports.from(port.transport) })),
  };
}

export function target(it: sets.Target): sdk.Target {
  return { ...it, addresses: addresses(it.addresses) };
}

export function witAddresses(them: readonly sdk.NodeAddress[]): wit.NodeAddress[] {
  return them.map(({ kind, address }) => ({ kind: kinds.to(kind), address: text(address, "address") }));
}

export function witStatus(it: sdk.LoadBalancerStatus): wit.LoadBalancerStatus {
  const point = (one: sdk.Ingress): wit.Ingress => ({
    ip: optional(one.ip, "IP address"),
    hostname: optional(one.hostname, "host name"),
    ipMode: one.ipMode === undefined ? undefined : modes.to(one.ipMode),
    ports: (one.ports ?? []).map(portStatus),
  });
  return { ingress: it.ingress.map(point) };
}

function portStatus(it: sdk.PortStatus): wit.Ingress["ports"][0] {
  const error = optional(it.error, "error of a port");
  return { port: port(it.port), transport: transports.to(it.transport), ...(error === undefined ? {} : { error }) };
}

/** Returns the case of an error. */
export function witError(thrown: unknown): wit.CloudError {
  const error = sdk.cloudError(thrown);
  const val = error.message || error.name;
  const retry = () => ({ afterMs: milliseconds((error as sdk.RetryLater).retryAfterMs), message: val });
  switch (true) {
    case error instanceof sdk.NotFound:
      return { tag: "not-found", val };
    case error instanceof sdk.ImplementedElsewhere:
      return { tag: "implemented-elsewhere" };
    case error instanceof sdk.Conflict:
      return { tag: "conflict", val };
    case error instanceof sdk.Throttled:
      return { tag: "throttled", val: retry() };
    case error instanceof sdk.InProgress:
      return { tag: "in-progress", val: retry() };
    case error instanceof sdk.Denied:
      return { tag: "denied", val };
    case error instanceof sdk.Invalid:
      return { tag: "invalid", val };
    case error instanceof sdk.Unavailable:
      return { tag: "unavailable", val };
  }
  return { tag: "internal", val };
}

/** Returns the elements of an answer. */
export function witResults<T, W>(them: readonly sdk.Result<T>[], convert: (value: T) => W): wit.Result<W>[] {
  return them.map((it) => {
    try {
      return it instanceof Error ? { tag: "err", val: witError(it) } : { tag: "ok", val: convert(it as T) };
    } catch (thrown) {
      return { tag: "err", val: witError(thrown) };
    }
  });
}
