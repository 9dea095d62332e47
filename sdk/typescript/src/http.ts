import { CloudError, Conflict, Denied, Internal, Invalid, NotFound, Throttled, Unavailable } from "./errors.js";

/** Delay after a 429 that does not state one. */
const THROTTLED_MS = 5000;
/** Characters of a body that are read for the message. */
const MESSAGE = 300;
/** Spaces, and characters that cannot be seen. The engine of components does not know classes of Unicode. */
const INVISIBLE = /[\s\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+/g;

/** Returns a response with a status from 200 to 299, and throws the error of any other: see {@link responseError}. */
export async function successful(response: Response): Promise<Response> {
  if (!response.ok) {
    throw await responseError(response);
  }
  return response;
}

/**
 * Returns the error that the status of a response stands for, with the cloud's message from the body, which is read.
 *
 * 429, and any status from 400 on with a `Retry-After`: Throttled. 401, 402, 403, 407: Denied. 404, 410: NotFound. 409, 412, 423:
 * Conflict. 408, 425, from 500 on: Unavailable. Others from 400 on: Invalid. Below 400: Internal. If a status means something else
 * for your cloud, check it before you call this.
 */
export async function responseError(response: Response): Promise<CloudError> {
  const { status, headers } = response;
  const said = sentence(await response.text().catch(() => ""));
  const message = said === "" ? `HTTP ${status}` : `HTTP ${status}: ${said}`;
  const after = retryAfterMs(headers.get("retry-after"), headers.get("date"));
  if (status === 429 || (status >= 400 && after !== undefined)) {
    return new Throttled(after ?? THROTTLED_MS, message);
  }
  switch (status) {
    case 401:
    case 402:
    case 403:
    case 407:
      return new Denied(message);
    case 404:
    case 410:
      return new NotFound(message);
    case 409:
    case 412:
    case 423:
      return new Conflict(message);
    case 408:
    case 425:
      return new Unavailable(message);
  }
  if (status >= 500) {
    return new Unavailable(message);
  }
  return status >= 400 ? new Invalid(message) : new Internal(`${message}: an answer that is not an error, or a redirect`);
}

/** Returns text as one segment of a path, percent-encoded. Throws `Invalid` if no segment can stand for it. */
export function segment(text: string): string {
  if (text === "" || text === "." || text === "..") {
    throw new Invalid(`${JSON.stringify(text)} cannot be part of a URL`);
  }
  return encodeURIComponent(text);
}

/** Parses `Retry-After`. A date is relative to that of the response, so that clocks do not need to agree. */
function retryAfterMs(value: string | null, date: string | null): number | undefined {
  if (value === null) {
    return undefined;
  }
  if (/^\d+$/.test(value.trim())) {
    return Number(value) * 1000;
  }
  const until = parsedDate(value);
  return until === undefined ? undefined : Math.max(until - (parsedDate(date ?? "") ?? Date.now()), 0);
}

/** Parses a date of HTTP, as in `Sun, 06 Nov 1994 08:49:37 GMT`. Engines accept many other texts as dates. */
function parsedDate(date: string): number | undefined {
  const found = /^\s*[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT\s*$/.test(date) ? Date.parse(date) : NaN;
  return Number.isNaN(found) ? undefined : found;
}

/** Returns the message in the body of an error, on one line: `message` or `detail` of JSON, perhaps in `error`, or plain text. */
function sentence(body: string): string {
  let found: unknown = body;
  try {
    found = inJson(JSON.parse(body));
  } catch {
    if (/^\s*[<{[]/.test(body)) {
      return "";
    }
  }
  const line = typeof found === "string" ? found.replace(INVISIBLE, " ").trim() : "";
  return line.length <= MESSAGE ? line : `${line.slice(0, MESSAGE - 1)}…`;
}

function inJson(body: unknown): unknown {
  if (typeof body !== "object" || body === null) {
    return undefined;
  }
  const { message, detail, error, errors } = body as Record<string, unknown>;
  const inner = error ?? (Array.isArray(errors) ? errors[0] : undefined);
  return message ?? detail ?? (typeof inner === "string" ? inner : inJson(inner));
}
