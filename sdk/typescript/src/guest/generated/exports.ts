// Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
import type * as witTypes from "skydock:provider/types@0.1.1";
import type * as witNodeSets from "skydock:provider/node-sets@0.1.1";
import type * as witPlugin from "skydock:provider/plugin@0.1.1";
import type * as witRoutes from "skydock:provider/routes@0.1.1";

import type { Plugin } from "../../index.js";
import { answer } from "../call.js";
import { lendNodeSet } from "../lent.js";
import { elements, onlyElements, served, whole } from "../serve.js";
import { milliseconds } from "../convert.js";
import * as convert from "./convert.js";

/** Returns the functions of all interfaces. */
export function exports(plugin: Plugin) {
  return {
    plugin: {
      info: () =>
        convert.witPluginInfo(plugin.info()),
      configure: (settings: witPlugin.Settings) =>
        answer((call) => plugin.configure(convert.sdkSettings(settings), call)),
    },
    instances: {
      check: (nodes: witTypes.Node[]) =>
        elements(
          nodes.length,
          (call) => served(plugin.instances).check(nodes.map(convert.sdkNode), call),
          convert.presence.to,
        ),
      describe: (nodes: witTypes.Node[]) =>
        elements(
          nodes.length,
          (call) => served(plugin.instances).describe(nodes.map(convert.sdkNode), call),
          convert.witInstance,
        ),
    },
    loadBalancers: {
      get: (service: witTypes.Service) =>
        whole(
          (call) => served(plugin.loadBalancers).get(convert.sdkService(service), call),
          (found) => found == null ? undefined : convert.witLoadBalancerStatus(found),
        ),
      ensure: (service: witTypes.Service, lent: witNodeSets.NodeSet) =>
        lendNodeSet(lent, (nodes) =>
          whole(
            (call) => served(plugin.loadBalancers).ensure(convert.sdkService(service), nodes, call),
            convert.witLoadBalancerStatus,
          ),
        ),
      updateNodes: (service: witTypes.Service, lent: witNodeSets.NodeSet) =>
        lendNodeSet(lent, (nodes) =>
          answer((call) => served(plugin.loadBalancers).updateNodes(convert.sdkService(service), nodes, call)),
        ),
      ensureDeleted: (service: witTypes.Service) =>
        answer((call) => served(plugin.loadBalancers).ensureDeleted(convert.sdkService(service), call)),
    },
    routes: {
      listRoutes: (page: string | undefined) =>
        whole(
          (call) => served(plugin.routes).list(page, call),
          convert.witRoutePage,
        ),
      createRoutes: (routes: witRoutes.NewRoute[]) =>
        onlyElements(
          routes.length,
          (call) => served(plugin.routes).create(routes.map(convert.sdkNewRoute), call),
          () => undefined,
        ),
      deleteRoutes: (routes: witRoutes.Route[]) =>
        onlyElements(
          routes.length,
          (call) => served(plugin.routes).delete(routes.map(convert.sdkRoute), call),
          () => undefined,
        ),
    },
    zones: {
      locate: (nodes: witTypes.Node[]) =>
        elements(
          nodes.length,
          (call) => served(plugin.zones).locate(nodes.map(convert.sdkNode), call),
          convert.witZone,
        ),
    },
    maintenance: {
      maintain: () =>
        whole(
          (call) => served(plugin.maintenance).maintain(call),
          (found) => milliseconds(Math.trunc(found)),
        ),
    },
  };
}
