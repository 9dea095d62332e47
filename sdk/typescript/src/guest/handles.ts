// Handles of the host: they are dropped in time, not when the engine collects garbage, because their number is limited.

/** Handles that belong together. Children are added after their parents, which the host requires to be dropped last. */
export class Handles {
  #open: Disposable[] = [];

  /** Keeps a handle until it is dropped with the others. */
  add<T extends Disposable>(handle: T): T {
    this.#open.push(handle);
    return handle;
  }

  /** Gives a handle away: it was passed to the host. */
  give<T extends Disposable>(handle: T): T {
    this.#open = this.#open.filter((other) => other !== handle);
    return handle;
  }

  /** Drops a handle. */
  drop(handle: Disposable): void {
    this.give(handle)[Symbol.dispose]();
  }

  /** Drops all handles. */
  close(): void {
    for (let handle = this.#open.pop(); handle !== undefined; handle = this.#open.pop()) {
      handle[Symbol.dispose]();
    }
  }
}
