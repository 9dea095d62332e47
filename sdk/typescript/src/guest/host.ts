// The host inside a component.
import * as cache from "skydock:provider/cache@0.1.1";
import * as calls from "skydock:provider/calls@0.1.1";
import * as cluster from "skydock:provider/cluster@0.1.1";
import * as events from "skydock:provider/events@0.1.1";
import * as objects from "skydock:provider/objects@0.1.1";

import { Denied, NotFound, Unavailable, type Host } from "../index.js";
import { milliseconds } from "./convert.js";
import { sdkNode, sdkService } from "./generated/convert.js";

export const host: Host = {
  clusterUid: () => cluster.uid(),
  revision: () => cluster.revision(),
  nodes: () => cluster.nodes().map(sdkNode),
  services: () => cluster.services().map(sdkService),
  nodeJson: (name) => cluster.nodeJson(name),
  serviceJson: (namespace, name) => cluster.serviceJson(namespace, name),
  readObject(kind, namespace, name) {
    try {
      return objects.read(kind, namespace, name);
    } catch (thrown) {
      throw refusal(`${kind} ${namespace}/${name}`, thrown);
    }
  },
  annotate: (object, key, value) => objects.annotate(object, key, value),
  publish: (object, severity, reason, message) =>
    events.publish(object, severity === "Normal" ? "normal" : "warning", reason, message),
  cache: {
    get: (key) => cache.get(key),
    set: (key, value, ttlMs) => cache.set(key, value, milliseconds(Math.trunc(ttlMs))),
    reserve: (key, value, ttlMs) => cache.reserve(key, value, milliseconds(Math.trunc(ttlMs))),
    remove: (key) => cache.remove(key),
  },
  remainingMs: () => Number(calls.remainingMs()),
  memoryLimit: () => calls.memoryLimit(),
  retire: () => calls.retire(),
};

function refusal(object: string, thrown: unknown): unknown {
  const payload = (thrown as { payload?: { tag: string; val?: string } }).payload;
  switch (payload?.tag) {
    case "not-granted":
      return new Denied(`${object}: the configuration does not allow to read this object`);
    case "not-there":
      return new NotFound(`${object} does not exist`);
    case "unavailable":
      return new Unavailable(`${object}: ${payload.val}`);
  }
  return thrown;
}
