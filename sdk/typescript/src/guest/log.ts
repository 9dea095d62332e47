// Writes `console` to the log of the host.
import { log } from "wasi:logging/logging@0.1.0-draft";

type Level = Parameters<typeof log>[0];

/** Methods of `console`, and their levels. */
const METHODS = { trace: "trace", debug: "debug", log: "info", info: "info", warn: "warn", error: "error" } as const;

/** Replaces the methods of `console`. */
export function redirectConsole(context: string): void {
  for (const [method, level] of Object.entries(METHODS)) {
    console[method as keyof typeof METHODS] = (...values: unknown[]) => write(level, context, values);
  }
}

function write(level: Level, context: string, values: unknown[]): void {
  log(level, context, values.map(shown).join(" "));
}

/** Returns a value as text. */
function shown(value: unknown): string {
  if (value instanceof Error) {
    return `${value.name}: ${value.message}`;
  }
  if (typeof value !== "object" || value === null) {
    return String(value);
  }
  try {
    return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? String(inner) : inner));
  } catch {
    return String(value);
  }
}
