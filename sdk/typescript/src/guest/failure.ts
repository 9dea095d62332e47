// The errors that requests end with if there is no response: the codes of wasi:http.
import type { ErrorCode } from "wasi:http/types@0.2.12";

import { Denied, Internal, Unavailable, type CloudError } from "../index.js";

/** The egress rules do not allow the request. */
const DENIED = ["HTTP-request-denied", "destination-IP-prohibited", "HTTP-request-method-invalid", "HTTP-request-URI-invalid"];
/** The cloud cannot be reached at present. */
const UNAVAILABLE = [
  "DNS-timeout",
  "DNS-error",
  "destination-not-found",
  "destination-unavailable",
  "destination-IP-unroutable",
  "connection-refused",
  "connection-terminated",
  "connection-timeout",
  "connection-read-timeout",
  "connection-write-timeout",
  "connection-limit-reached",
  "TLS-protocol-error",
  "TLS-certificate-error",
  "TLS-alert-received",
  "HTTP-response-timeout",
  "HTTP-response-incomplete",
  "HTTP-protocol-error",
  "HTTP-response-transfer-coding",
  "HTTP-response-content-coding",
];

/** Returns the error for a code. */
export function failure(request: string, { tag, val }: ErrorCode): CloudError {
  const text = typeof val === "string" && val !== "" ? `${request}: ${tag}: ${val}` : `${request}: ${tag}`;
  if (DENIED.includes(tag)) {
    return new Denied(`${text}: the egress rules do not allow this request`);
  }
  return UNAVAILABLE.includes(tag) ? new Unavailable(text) : new Internal(text);
}
