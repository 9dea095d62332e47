/* Why there is no response: the error codes of wasi:http. */
#include "guest.h"

typedef enum { DENIED, AWAY, LARGE, WRONG } meaning;

static const struct {
    meaning means;
    const char *name;
    const char *text;
} codes[] = {
    [WASI_HTTP_TYPES_ERROR_CODE_DNS_TIMEOUT] = {AWAY, "DNS-timeout", "the name of the cloud's host was not resolved in time"},
    [WASI_HTTP_TYPES_ERROR_CODE_DNS_ERROR] = {AWAY, "DNS-error", "the name of the cloud's host cannot be resolved"},
    [WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_NOT_FOUND] = {AWAY, "destination-not-found", "the cloud's server was not found"},
    [WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_UNAVAILABLE] = {AWAY, "destination-unavailable",
                                                            "the cloud's server cannot be reached, or Skydock has no credential for it"},
    [WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_IP_PROHIBITED] = {DENIED, "destination-IP-prohibited", ""},
    [WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_IP_UNROUTABLE] = {AWAY, "destination-IP-unroutable", "there is no route to the cloud's server"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_REFUSED] = {AWAY, "connection-refused", "no connection to the cloud's server, or it did not answer before and is not contacted for a while; see Skydock's log"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TERMINATED] = {AWAY, "connection-terminated", "the connection was closed"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TIMEOUT] = {AWAY, "connection-timeout", "the connection was not established in time"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_READ_TIMEOUT] = {AWAY, "connection-read-timeout", "the cloud stopped answering"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_WRITE_TIMEOUT] = {AWAY, "connection-write-timeout", "the cloud stopped reading the request"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_LIMIT_REACHED] = {AWAY, "connection-limit-reached",
                                                             "too many requests, connections or hosts at the same time"},
    [WASI_HTTP_TYPES_ERROR_CODE_TLS_PROTOCOL_ERROR] = {AWAY, "TLS-protocol-error", "TLS with the cloud failed"},
    [WASI_HTTP_TYPES_ERROR_CODE_TLS_CERTIFICATE_ERROR] = {AWAY, "TLS-certificate-error",
                                                          "the certificate of the cloud's server is not trusted"},
    [WASI_HTTP_TYPES_ERROR_CODE_TLS_ALERT_RECEIVED] = {AWAY, "TLS-alert-received", "the cloud's server sent a TLS alert"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED] = {DENIED, "HTTP-request-denied", ""},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_LENGTH_REQUIRED] = {WRONG, "HTTP-request-length-required",
                                                                 "the request must have a Content-Length"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_BODY_SIZE] = {LARGE, "HTTP-request-body-size", "the request's body"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_METHOD_INVALID] = {DENIED, "HTTP-request-method-invalid", ""},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_URI_INVALID] = {DENIED, "HTTP-request-URI-invalid", ""},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_URI_TOO_LONG] = {LARGE, "HTTP-request-URI-too-long", "the URL"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_HEADER_SECTION_SIZE] = {LARGE, "HTTP-request-header-section-size", "the request's headers"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_HEADER_SIZE] = {LARGE, "HTTP-request-header-size", "a header of the request"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_TRAILER_SECTION_SIZE] = {LARGE, "HTTP-request-trailer-section-size", "the request's trailers"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_TRAILER_SIZE] = {LARGE, "HTTP-request-trailer-size", "a trailer of the request"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_INCOMPLETE] = {AWAY, "HTTP-response-incomplete", "the answer is incomplete"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_HEADER_SECTION_SIZE] = {LARGE, "HTTP-response-header-section-size", "the answer's headers"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_HEADER_SIZE] = {LARGE, "HTTP-response-header-size", "a header of the answer"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_BODY_SIZE] = {LARGE, "HTTP-response-body-size", "the answer's body"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TRAILER_SECTION_SIZE] = {LARGE, "HTTP-response-trailer-section-size", "the answer's trailers"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TRAILER_SIZE] = {LARGE, "HTTP-response-trailer-size", "a trailer of the answer"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TRANSFER_CODING] = {AWAY, "HTTP-response-transfer-coding",
                                                                  "the encoding of the answer is not valid"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_CONTENT_CODING] = {AWAY, "HTTP-response-content-coding",
                                                                 "the answer is compressed or in another character set, so Skydock cannot mask secrets in it"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TIMEOUT] = {AWAY, "HTTP-response-timeout", "no answer in time"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_UPGRADE_FAILED] = {WRONG, "HTTP-upgrade-failed", "the cloud tried to switch protocols"},
    [WASI_HTTP_TYPES_ERROR_CODE_HTTP_PROTOCOL_ERROR] = {AWAY, "HTTP-protocol-error", "the answer is not valid HTTP"},
    [WASI_HTTP_TYPES_ERROR_CODE_LOOP_DETECTED] = {WRONG, "loop-detected", "the request was sent in a loop"},
    [WASI_HTTP_TYPES_ERROR_CODE_CONFIGURATION_ERROR] = {WRONG, "configuration-error", "Skydock is not configured for this request"},
    [WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR] = {WRONG, "internal-error", "internal error in Skydock"},
};

const skydock_error *skydock_failure(const char *request, const wasi_http_types_error_code_t *code) {
    const char *name = codes[code->tag].name, *text = codes[code->tag].text, *why = NULL;
    switch (code->tag) {
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_ERROR:
        why = skydock_option_in(code->val.dns_error.rcode);
        break;
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_ALERT_RECEIVED:
        why = skydock_option_in(code->val.tls_alert_received.alert_message);
        break;
    case WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR:
        why = skydock_option_in(code->val.internal_error);
        break;
    default:
        break;
    }
    const char *colon = why == NULL || why[0] == '\0' ? "" : ": ";
    why = why == NULL ? "" : why;
    switch (codes[code->tag].means) {
    case DENIED:
        return skydock_denied("%s: Skydock denied the request (%s); its log has the reason", request, name);
    case AWAY:
        return skydock_unavailable("%s: %s%s%s (%s)", request, text, colon, why, name);
    case LARGE:
        return skydock_internal("%s: %s exceeds the limit (%s)", request, text, name);
    default:
        return skydock_internal("%s: %s%s%s (%s)", request, text, colon, why, name);
    }
}
