// The imports of a component, as far as tests use them. They are controlled with `state`: `answer` says what the cloud answers to a
// request, or throws an object with a code as its payload. `handles` are those that are open.
export const state = { remainingMs: 30_000, retired: false, lines: [], answer: undefined, handles: new Set() };

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

/** A handle. Like the host, it insists that children are dropped before it, and that it is dropped once. */
class Handle {
  #children = [];

  constructor(parent) {
    parent?.#children.push(this);
    state.handles.add(this);
  }

  [Symbol.dispose]() {
    if (this.#children.some((child) => state.handles.has(child)) || !state.handles.delete(this)) {
      throw new Error(`${this.constructor.name} is dropped too early or twice`);
    }
  }
}

// io
export class Pollable extends Handle {
  constructor(parent, isReady) {
    super(parent);
    this.isReady = isReady;
  }
}
export const poll = (all) => all.map((pollable, at) => (pollable.isReady() ? at : -1)).filter((at) => at >= 0);
// clocks
export const subscribeDuration = () => new Pollable(undefined, () => true);
// http
export class Fields {
  static fromList = (entries) => {
    if (entries.some(([name]) => name === "x-wrong")) {
      throw Object.assign(new Error(), { payload: { tag: "invalid-syntax" } });
    }
    return Object.assign(new Fields(), { list: entries });
  };
}
class Listed extends Handle {
  entries = () => [["x-a", new TextEncoder().encode("1")], ["x-a", new TextEncoder().encode("2")]];
}
export class OutgoingRequest extends Handle {
  seen = { body: "" };
  constructor({ list }) {
    super();
    this.seen.headers = Object.fromEntries(list.map(([name, value]) => [name, new TextDecoder().decode(value)]));
  }
  setMethod = ({ tag, val }) => (this.seen.method = val ?? tag);
  setScheme = ({ tag }) => (this.seen.scheme = tag);
  setAuthority = (authority) => (this.seen.authority = authority);
  setPathWithQuery = (path) => (this.seen.path = path);
  body = () => new OutgoingBody(this.seen);
}
export class OutgoingBody extends Handle {
  constructor(seen) {
    super();
    this.seen = seen;
  }
  static finish = (body) => body[Symbol.dispose]();
  write = () => new OutputStream(this);
}
class OutputStream extends Handle {
  room = 0;
  constructor(body) {
    super(body);
    this.seen = body.seen;
  }
  checkWrite = () => BigInt((this.room = this.room === 0 ? 3 : 0));
  write = (bytes) => void (this.seen.body += new TextDecoder().decode(bytes));
  subscribe = () => new Pollable(this, () => true);
}
export const handle = (request) => {
  request[Symbol.dispose]();
  return new Future(state.answer(request.seen));
};
class Future extends Handle {
  constructor(answer) {
    super();
    this.answer = answer;
  }
  subscribe = () => new Pollable(this, () => this.answer !== "never");
  get = () =>
    ({ tag: "ok", val: this.answer.code ? { tag: "err", val: this.answer.code } : { tag: "ok", val: new Incoming(this.answer) } });
}
class Incoming extends Handle {
  constructor(answer) {
    super();
    this.answer = answer;
  }
  status = () => this.answer.status ?? 200;
  headers = () => new Listed(this);
  consume = () => Object.assign(new IncomingBody(this), { answer: this.answer });
}
class IncomingBody extends Handle {
  stream = () => Object.assign(new InputStream(this), { answer: this.answer });
}
class InputStream extends Handle {
  at = 0;
  read() {
    const { body = "", broken } = this.answer;
    if (this.at < body.length) {
      return new TextEncoder().encode(body.slice(this.at, (this.at += body.length > 100 ? 65_536 : 4)));
    }
    const val = broken && Object.assign(new Handle(), { broken });
    throw Object.assign(new Error(), { payload: broken ? { tag: "last-operation-failed", val } : { tag: "closed" } });
  }
  subscribe = () => new Pollable(this, () => true);
}
export const httpErrorCode = (error) => (error.broken === "unknown" ? undefined : { tag: error.broken });
