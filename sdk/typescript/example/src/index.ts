// The provider: takes what a call needs from the host, and passes it on. It has no rules of its own.
import { definePlugin, Internal, type Call } from "@skydock/sdk";

import { Cloud, SCHEME } from "./cloud.js";
import { parse, type Config } from "./config.js";
import * as instances from "./instances.js";
import * as loadBalancers from "./load-balancers.js";
import * as routes from "./routes.js";

let config: Config | undefined;

function cloud(call: Call): Cloud {
  if (config === undefined) {
    throw new Internal("the provider is not configured");
  }
  return new Cloud(config, call);
}

export default definePlugin({
  configure(settings) {
    config = parse(settings);
  },
  info: () => ({
    name: "simcloud",
    version: "0.1.0",
    providerIdPrefixes: [SCHEME],
    wantedHosts: config ? [config.url] : [],
  }),
  instances: {
    check: (nodes, call) => instances.check(cloud(call), nodes),
    describe: (nodes, call) => instances.describe(cloud(call), nodes),
  },
  loadBalancers: {
    get: (service, call) => loadBalancers.get(cloud(call), service),
    ensure: (service, nodes, call) => loadBalancers.ensure(cloud(call), service, nodes.targets()),
    updateNodes: (service, nodes, call) => loadBalancers.updateNodes(cloud(call), service, nodes.targets()),
    ensureDeleted: (service, call) => loadBalancers.ensureDeleted(cloud(call), service),
  },
  routes: {
    list: (page, call) => routes.list(cloud(call), call.host.nodes(), page),
    create: (wanted, call) => routes.create(cloud(call), wanted),
    delete: (old, call) => routes.remove(cloud(call), old),
  },
});
