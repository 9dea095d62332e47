// Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
import type * as witTypes from "skydock:provider/types@0.1.1";
import type * as witNodeSets from "skydock:provider/node-sets@0.1.1";
import type * as witPlugin from "skydock:provider/plugin@0.1.1";
import type * as witRoutes from "skydock:provider/routes@0.1.1";
import type * as witVolumes from "skydock:provider/volumes@0.1.1";
import type * as witAttachments from "skydock:provider/attachments@0.1.1";
import type * as witVolumeExpansion from "skydock:provider/volume-expansion@0.1.1";
import type * as witVolumeAttributes from "skydock:provider/volume-attributes@0.1.1";
import type * as witSnapshots from "skydock:provider/snapshots@0.1.1";
import type * as witStorageCapacity from "skydock:provider/storage-capacity@0.1.1";

import type { Plugin } from "../../index.js";
import { answer } from "../call.js";
import { lendNodeSet } from "../lent.js";
import { elements, onlyElements, served, storageElements, whole } from "../serve.js";
import { milliseconds, number, pairs } from "../convert.js";
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
    volumes: {
      driver: () =>
        convert.witDriverInfo(served(plugin.volumes).driver()),
      createVolumes: (volumes: witVolumes.NewVolume[]) =>
        storageElements(
          volumes.length,
          (call) => served(plugin.volumes).create(volumes.map(convert.sdkNewVolume), call),
          convert.witVolume,
        ),
      getVolumes: (ids: string[]) =>
        storageElements(
          ids.length,
          (call) => served(plugin.volumes).get(ids, call),
          convert.witVolume,
        ),
      listVolumes: (page: string | undefined) =>
        whole(
          (call) => served(plugin.volumes).list(page, call),
          convert.witVolumePage,
        ),
      deleteVolumes: (ids: string[]) =>
        storageElements(
          ids.length,
          (call) => served(plugin.volumes).delete(ids, call),
          () => undefined,
        ),
    },
    attachments: {
      attachVolumes: (attachments: witAttachments.NewAttachment[]) =>
        storageElements(
          attachments.length,
          (call) => served(plugin.attachments).attachVolumes(attachments.map(convert.sdkNewAttachment), call),
          (found) => pairs(found, "context of an attachment"),
        ),
      detachVolumes: (attachments: witAttachments.Attachment[]) =>
        storageElements(
          attachments.length,
          (call) => served(plugin.attachments).detachVolumes(attachments.map(convert.sdkAttachment), call),
          () => undefined,
        ),
    },
    volumeExpansion: {
      expandVolumes: (expansions: witVolumeExpansion.Expansion[]) =>
        storageElements(
          expansions.length,
          (call) => served(plugin.volumeExpansion).expandVolumes(expansions.map(convert.sdkExpansion), call),
          (found) => BigInt(number(found, "size of a volume", Number.MAX_SAFE_INTEGER)),
        ),
    },
    volumeAttributes: {
      modifyVolumes: (modifications: witVolumeAttributes.Modification[]) =>
        storageElements(
          modifications.length,
          (call) => served(plugin.volumeAttributes).modifyVolumes(modifications.map(convert.sdkModification), call),
          () => undefined,
        ),
    },
    snapshots: {
      createSnapshots: (snapshots: witSnapshots.NewSnapshot[]) =>
        storageElements(
          snapshots.length,
          (call) => served(plugin.snapshots).create(snapshots.map(convert.sdkNewSnapshot), call),
          convert.witSnapshot,
        ),
      getSnapshots: (ids: string[]) =>
        storageElements(
          ids.length,
          (call) => served(plugin.snapshots).get(ids, call),
          convert.witSnapshot,
        ),
      listSnapshots: (page: string | undefined) =>
        whole(
          (call) => served(plugin.snapshots).list(page, call),
          convert.witSnapshotPage,
        ),
      deleteSnapshots: (ids: string[]) =>
        storageElements(
          ids.length,
          (call) => served(plugin.snapshots).delete(ids, call),
          () => undefined,
        ),
    },
    storageCapacity: {
      getCapacities: (requests: witStorageCapacity.CapacityRequest[]) =>
        storageElements(
          requests.length,
          (call) => served(plugin.storageCapacity).getCapacities(requests.map(convert.sdkCapacityRequest), call),
          convert.witCapacity,
        ),
    },
  };
}
