// The imports of a component, as far as tests use them. They are controlled with `state`.
export const state = { remainingMs: 30_000, retired: false, lines: [] };

// cache
export const get = () => undefined;
export const set = () => true;
export const reserve = () => undefined;
export const remove = () => {};
// calls
export const remainingMs = () => BigInt(state.remainingMs);
export const memoryLimit = () => 1n;
export const retire = () => void (state.retired = true);
// cluster
export const uid = () => "u";
export const revision = () => 1n;
export const nodes = () => [];
export const services = () => [];
export const nodeJson = () => undefined;
export const serviceJson = () => undefined;
// events, objects
export const publish = () => true;
export const annotate = () => true;
export const read = (kind, namespace, name) => {
  throw Object.assign(new Error(), { payload: { tag: name } });
};
// logging
export const log = (...line) => void state.lines.push(line);
