/**
 * The exports of a component. `skydock plugin build` uses this module; plugins and their tests do not.
 *
 * @module
 */
import type { NodeSet as Lent } from "skydock:provider/node-sets@0.1.0";
import type * as wit from "skydock:provider/types@0.1.0";

import type { Instance, NewRoute, NodeSet, Plugin, Result, Route, Settings, Zone } from "../index.js";
import { Internal } from "../index.js";
import { answer } from "./call.js";
import * as convert from "./convert.js";
import { redirectConsole } from "./log.js";
import { replaceGlobals } from "./globals.js";

type WitSettings = Omit<Settings, "options"> & { options: wit.Pair[] };
type WitAddresses = { targetAddresses: wit.NodeAddress[] };

/** Returns the functions of all interfaces. Only those of the capabilities that the plugin has are exported. */
export function guest(plugin: Plugin) {
  return {
    plugin: {
      configure(settings: WitSettings) {
        replaceGlobals();
        redirectConsole("plugin");
        return answer((call) => plugin.configure({ ...settings, options: convert.labels(settings.options) }, call));
      },
      info() {
        const { name, version, maxBatch = 0, overlap = "any", ...lists } = plugin.info();
        const { providerIdPrefixes = [], wantedHosts = [], unused = [], annotationPrefixes = [] } = lists;
        return { name, version, providerIdPrefixes, wantedHosts, maxBatch, unused, overlap, annotationPrefixes };
      },
    },
    instances: {
      check: (nodes: wit.Node[]) =>
        elements(nodes, convert.node, (them, call) => served(plugin.instances).check(them, call), convert.presence),
      describe: (nodes: wit.Node[]) =>
        elements(nodes, convert.node, (them, call) => served(plugin.instances).describe(them, call), instance),
    },
    loadBalancers: {
      get: (it: wit.Service) =>
        answer(async (call) => {
          const found = await served(plugin.loadBalancers).get(convert.service(it), call);
          return found && convert.witStatus(found);
        }),
      ensure: (it: wit.Service, lent: Lent) =>
        lending(lent, (nodes) =>
          answer(async (call) =>
            convert.witStatus(await served(plugin.loadBalancers).ensure(convert.service(it), nodes, call)),
          ),
        ),
      updateNodes: (it: wit.Service, lent: Lent) =>
        lending(lent, (nodes) =>
          answer((call) => served(plugin.loadBalancers).updateNodes(convert.service(it), nodes, call)),
        ),
      ensureDeleted: (it: wit.Service) =>
        answer((call) => served(plugin.loadBalancers).ensureDeleted(convert.service(it), call)),
    },
    routes: {
      listRoutes: (token: string | undefined) =>
        answer(async (call) => {
          const { routes, next } = await served(plugin.routes).list(token, call);
          return { routes: routes.map(witRoute), next: convert.optional(next, "token of the next page") };
        }),
      createRoutes: (routes: (Omit<NewRoute, "targetAddresses"> & WitAddresses)[]) => {
        const route = (it: (typeof routes)[0]) => ({ ...it, targetAddresses: convert.addresses(it.targetAddresses) });
        return routeResults(routes, elements(routes, route, (them, call) => served(plugin.routes).create(them, call), same));
      },
      deleteRoutes: (routes: (Omit<Route, "targetAddresses"> & Partial<WitAddresses>)[]) => {
        const known = (them?: wit.NodeAddress[]) => them && convert.addresses(them);
        const route = (it: (typeof routes)[0]) => ({ ...it, targetAddresses: known(it.targetAddresses) });
        return routeResults(routes, elements(routes, route, (them, call) => served(plugin.routes).delete(them, call), same));
      },
    },
    zones: {
      locate: (nodes: wit.Node[]) =>
        elements(nodes, convert.node, (them, call) => served(plugin.zones).locate(them, call), ({ zone, region }: Zone) => ({
          zone: convert.optional(zone, "zone"),
          region: convert.optional(region, "region"),
        })),
    },
    maintenance: {
      maintain: () =>
        answer(async (call) => convert.milliseconds(Math.trunc(await served(plugin.maintenance).maintain(call)))),
    },
  };
}

function served<T>(capability: T | undefined): T {
  if (capability === undefined) {
    throw new Internal("the plugin does not have this capability");
  }
  return capability;
}

function same<T>(value: T): T {
  return value;
}

/** Answers a call with one element for each item. */
function elements<W, T, R, O>(
  items: W[],
  item: (it: W) => T,
  work: (items: T[], call: Parameters<Parameters<typeof answer>[0]>[0]) => Result<R>[] | Promise<Result<R>[]>,
  converted: (value: R) => O,
): Promise<wit.Result<O>[]> {
  return answer(async (call) => {
    const results = await work(items.map(item), call);
    if (results.length !== items.length) {
      throw new Internal(`the plugin answered with ${results.length} elements for ${items.length}`);
    }
    return convert.witResults(results, converted);
  });
}

/** A failed call about routes is an error of each of them: their functions have no error of their own. */
async function routeResults(routes: unknown[], results: Promise<wit.Result<void>[]>): Promise<wit.Result<void>[]> {
  try {
    return await results;
  } catch (error) {
    return routes.map(() => ({ tag: "err", val: error as wit.CloudError }));
  }
}

function instance(it: Instance) {
  return {
    providerId: convert.optional(it.providerId, "provider ID"),
    instanceType: convert.optional(it.instanceType, "instance type"),
    zone: convert.optional(it.zone, "zone"),
    region: convert.optional(it.region, "region"),
    addresses: convert.witAddresses(it.addresses ?? []),
    labels: convert.pairs(it.labels, "label"),
    annotations: convert.pairs(it.annotations, "annotation"),
  };
}

function witRoute({ name, targetNode, targetAddresses, destinationCidr, blackhole = false }: Route) {
  const known = targetAddresses && convert.witAddresses(targetAddresses);
  return {
    name: convert.text(name, "name of a route"),
    targetNode: convert.optional(targetNode, "node of a route"),
    targetAddresses: known,
    destinationCidr: convert.text(destinationCidr, "destination of a route"),
    blackhole: Boolean(blackhole),
  };
}

/** Lends nodes to a call, and drops the handle after it: the host ends an instance that keeps it. */
async function lending<T>(lent: Lent, work: (nodes: NodeSet) => Promise<T>): Promise<T> {
  let handle: Lent | undefined = lent;
  const held = (): Lent => {
    if (handle === undefined) {
      throw new Internal("the nodes of a call were used after it");
    }
    return handle;
  };
  const nodes: NodeSet = {
    get size() {
      return held().size();
    },
    targets: () => held().targets().map(convert.target),
    nodes: () => held().nodes().map(convert.node),
    changes() {
      const changes = held().changes();
      return changes && { added: changes.added.map(convert.target), removed: changes.removed.map(convert.target) };
    },
  };
  try {
    return await work(nodes);
  } finally {
    handle = undefined;
    lent[Symbol.dispose]();
  }
}
