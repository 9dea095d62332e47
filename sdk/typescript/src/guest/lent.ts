// What the host lends for a call.
import type { NodeSet as Lent } from "skydock:provider/node-sets@0.1.1";

import { Internal, type NodeSet } from "../index.js";
import { sdkNode, sdkNodeChanges } from "./generated/convert.js";
import { targetsOf, unpack } from "./packed.js";

/** Lends nodes to a call, and drops the handle after it: the host ends an instance that keeps it. */
export async function lendNodeSet<T>(lent: Lent, work: (nodes: NodeSet) => Promise<T>): Promise<T> {
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
    targets: () => targetsOf(held().fingerprint(), () => unpack(held().packedTargets())),
    nodes: () => held().nodes().map(sdkNode),
    changes() {
      const changes = held().changes();
      return changes && sdkNodeChanges(changes);
    },
  };
  try {
    return await work(nodes);
  } finally {
    handle = undefined;
    lent[Symbol.dispose]();
  }
}
