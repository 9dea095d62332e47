/**
 * Write a cloud provider for Skydock in TypeScript.
 *
 * A provider is an object with the capabilities of its cloud, which the main module exports as default: see {@link definePlugin}.
 * Requests are those of `fetch`; the host adds tokens and signatures. `console` writes to Skydock's log.
 *
 * Skydock replaces the instances of a plugin at any time, and runs several of them: a provider keeps nothing in memory that it
 * cannot find again in the cloud, in the objects of the cluster or in the cache of the {@link Host}. An instance executes one call
 * at a time. Code at the top level of modules runs during the build, where there is no host.
 *
 * @module
 */
export * from "./each.js";
export * from "./errors.js";
export * from "./host.js";
export * from "./http.js";
export * from "./plugin.js";
export * from "./storage.js";
export * from "./types.js";
