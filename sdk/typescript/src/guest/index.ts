/**
 * The exports of a component. `skydock plugin build` uses this module; plugins and their tests do not.
 *
 * @module
 */
import type { Plugin } from "../index.js";
import { exports } from "./generated/exports.js";
import { replaceGlobals } from "./globals.js";
import { redirectConsole } from "./log.js";

/** Returns the functions of all interfaces. Only those of the capabilities that the plugin has are exported. */
export function guest(plugin: Plugin) {
  const exported = exports(plugin);
  const { configure } = exported.plugin;
  exported.plugin.configure = (settings) => {
    replaceGlobals();
    redirectConsole("plugin");
    return configure(settings);
  };
  return exported;
}
