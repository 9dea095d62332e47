// Routes to the Pods of nodes.
import { Conflict, each, Invalid, NotFound, type NewRoute, type Node, type Result, type Route, type RoutePage } from "@skydock/sdk";

import type * as api from "./api.js";
import { AT_ONCE, serverId, type Cloud } from "./cloud.js";

const KIND = "routes";

/** Lists a page of the routes of this cluster. The token of a page is the cloud's. */
export async function list(cloud: Cloud, nodes: Node[], page: string | undefined): Promise<RoutePage> {
  const { items, next } = await cloud.list<api.Route>(KIND, page);
  const routes = items.map((route) => ({
    name: route.id,
    targetNode: target(route, nodes),
    destinationCidr: route.cidr,
    blackhole: route.blackhole,
  }));
  return { routes, next: next ?? undefined };
}

/**
 * Returns the node to which a route leads: that of the server. The name in the label may be that of another server by now, so it
 * counts only until the node has a provider ID.
 */
function target(route: api.Route, nodes: Node[]): string | undefined {
  const isTarget = ({ name, providerId }: Node) =>
    providerId === undefined ? route.labels["node"] === name : serverId(providerId) === route.target;
  return nodes.find(isTarget)?.name;
}

/** Creates routes. */
export function create(cloud: Cloud, routes: readonly NewRoute[]): Promise<Result<void>[]> {
  return each(routes, AT_ONCE, async (route) => {
    const spec = wanted(cloud, route);
    const answer = await cloud.create<api.Route>(KIND, spec);
    if ("existing" in answer && !same(await cloud.find<api.Route>(KIND, answer.existing), spec)) {
      throw new Conflict(`the route ${answer.existing} is in the way`);
    }
    // Otherwise, it is that of an earlier create whose answer was lost, or that the list did not show yet.
  });
}

/** Deletes routes. */
export function remove(cloud: Cloud, routes: readonly Route[]): Promise<Result<void>[]> {
  return each(routes, AT_ONCE, ({ name }) => cloud.delete(KIND, name));
}

/** Returns the route to create. The name follows from the node's UID and the IP family, of which a node has one CIDR each. */
function wanted(cloud: Cloud, { nameHint, targetNode, targetProviderId, destinationCidr }: NewRoute): api.RouteSpec {
  if (targetProviderId === undefined) {
    throw new NotFound(`the node ${targetNode} has no provider ID yet`);
  }
  const target = serverId(targetProviderId);
  if (target === undefined) {
    throw new Invalid(`${targetProviderId} is not a valid provider ID`);
  }
  const family = destinationCidr.includes(":") ? "ipv6" : "ipv4";
  return {
    name: `k8s-${nameHint}-${family}`,
    cidr: destinationCidr,
    target,
    labels: cloud.labels({ node: targetNode }),
  };
}

function same(existing: api.Route | undefined, { name, cidr, target, labels }: api.RouteSpec): boolean {
  const keys = Object.keys(labels);
  return (
    existing !== undefined &&
    existing.name === name &&
    existing.cidr === cidr &&
    existing.target === target &&
    Object.keys(existing.labels).length === keys.length &&
    keys.every((key) => existing.labels[key] === labels[key])
  );
}
