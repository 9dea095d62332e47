// Servers behind nodes.
import { each, Invalid, NotFound, type Instance, type Node, type NodeAddress, type Presence, type Result } from "@skydock/sdk";

import type { Server } from "./api.js";
import { AT_ONCE, providerId, serverId, type Cloud } from "./cloud.js";

/** Returns whether the servers of nodes run. */
export function check(cloud: Cloud, nodes: readonly Node[]): Promise<Result<Presence>[]> {
  return each(nodes, AT_ONCE, async (node): Promise<Presence> => {
    const server = await find(cloud, node);
    switch (server?.state) {
      case "running":
      case "stopped":
        return server.state;
      case undefined:
        if (node.providerId === undefined) {
          throw noServer(node); // its server may have another name
        }
        return "absent";
    }
    throw new Error(`the server ${server?.id} has an unknown state`);
  });
}

/** Describes the servers of nodes. */
export function describe(cloud: Cloud, nodes: readonly Node[]): Promise<Result<Instance>[]> {
  return each(nodes, AT_ONCE, async (node) => {
    const server = await find(cloud, node);
    if (server === undefined) {
      throw noServer(node);
    }
    if (server.region !== cloud.region) {
      throw new NotFound(`the server ${server.id} is in another region: ${server.region}`);
    }
    return instance(server);
  });
}

/** Finds the server of a node: by its provider ID, or else by its name. */
async function find(cloud: Cloud, node: Node): Promise<Server | undefined> {
  if (node.providerId !== undefined) {
    const id = serverId(node.providerId);
    if (id === undefined) {
      throw new Invalid(`${node.providerId} is not a valid provider ID`);
    }
    return cloud.find<Server>("servers", id);
  }
  const servers = await cloud.named<Server>("servers", node.name);
  if (servers.length > 1) {
    throw new Invalid(`${servers.length} servers have the name ${node.name}: rename all but one`);
  }
  return servers[0];
}

function noServer(node: Node): NotFound {
  return new NotFound(`no server belongs to the node ${node.name}`);
}

function instance({ id, name, type, zone, region, addresses }: Server): Instance {
  const all = addresses.map(({ kind, address }): NodeAddress => {
    return { kind: kind === "internal" ? "InternalIP" : "ExternalIP", address };
  });
  all.push({ kind: "Hostname", address: name });
  return { providerId: providerId(zone, id), instanceType: type, zone, region, addresses: all };
}
