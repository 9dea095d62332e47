/* Requests, as far as they are the same in a plugin and in its tests. */
#define _DEFAULT_SOURCE
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/* Milliseconds that are left for the plugin after the last response. */
#define MARGIN_MS 1000
/* The limits of the host (wit/v0.1.1/plugin.wit), which ends calls that exceed them. */
#define MOST_AUTHORITY 512
#define MOST_PATH 8192
#define MOST_HEADERS 16384
/* What the host counts for each header in addition to its text. */
#define HEADER_COST 72

skydock_http_request skydock_http(const char *method, const char *url) {
    return (skydock_http_request){.method = method, .url = url};
}

skydock_http_request skydock_http_json(const char *method, const char *url, const char *json) {
    skydock_http_request request = {.method = method, .url = url, .body = skydock_bytes_of(json)};
    skydock_add_pair(&request.headers, "content-type", "application/json");
    return request;
}

void skydock_http_send(const skydock_http_request *request, skydock_http_response *response) {
    skydock_http_send_all(request, 1, response);
}

void skydock_http_send_all(const skydock_http_request *requests, size_t count, skydock_http_response *responses) {
    for (size_t i = 0; i < count; i++) {
        responses[i] = (skydock_http_response){.error = requests[i].error, .body = {"", 0}};
    }
    skydock_host_send_all(requests, count, responses);
}

uint64_t skydock_http_limit(const skydock_http_request *request, uint64_t remaining_ms) {
    uint64_t most = remaining_ms > MARGIN_MS ? remaining_ms - MARGIN_MS : 0;
    return request->timeout_ms != 0 && request->timeout_ms < most ? request->timeout_ms : most;
}

size_t skydock_http_max_body(const skydock_http_request *request) {
    return request->max_body != 0 ? request->max_body : (size_t)16 << 20;
}

const char *skydock_escape(const char *text) {
    size_t len = strlen(text);
    char *escaped = skydock_alloc(len <= (SIZE_MAX - 1) / 3 ? 3 * len + 1 : SIZE_MAX);
    char *out = escaped;
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char letter = (unsigned char)*at;
        if (letter < 0x80 && (isalnum(letter) || strchr("-._~", letter) != NULL)) {
            *out++ = *at;
        } else {
            *out++ = '%';
            *out++ = "0123456789ABCDEF"[letter >> 4];
            *out++ = "0123456789ABCDEF"[letter & 15];
        }
    }
    return escaped;
}

/* True if a path has a segment that means another path. */
static bool has_dots(const char *path) {
    while (*path == '/') {
        const char *segment = ++path;
        path += strcspn(path, "/?");
        size_t len = (size_t)(path - segment), at = 0, dots = 0;
        while (at < len && (segment[at] == '.' || strncasecmp(segment + at, "%2e", 3) == 0)) {
            at += segment[at] == '.' ? 1 : 3;
            dots++;
        }
        if (at == len && (dots == 1 || dots == 2)) {
            return true;
        }
    }
    return false;
}

/* Takes the URL apart. Returns what is wrong with it. */
static const char *parse_url(const char *url, skydock_prepared *prepared) {
    if (url == NULL) {
        return "is missing";
    }
    for (const char *at = url; *at != '\0'; at++) {
        if ((unsigned char)*at <= ' ' || (unsigned char)*at > '~') {
            return "has a character that must be percent-encoded";
        }
    }
    const char *rest = strstr(url, "://");
    if (rest == NULL) {
        return "is not absolute, as in https://cloud.example/path";
    }
    size_t scheme = (size_t)(rest - url);
    prepared->secure = scheme == 5 && strncasecmp(url, "https", 5) == 0;
    if (!prepared->secure && !(scheme == 4 && strncasecmp(url, "http", 4) == 0)) {
        return "uses neither https nor http";
    }
    rest += 3;
    rest = skydock_copy(rest, strcspn(rest, "#"));
    size_t authority = strcspn(rest, "/?");
    prepared->authority = skydock_copy(rest, authority);
    if (authority == 0 || rest[0] == ':') {
        return "has no host";
    }
    if (strchr(prepared->authority, '@') != NULL) {
        return "contains a user; Skydock adds credentials";
    }
    const char *path = rest + authority;
    prepared->path = path[0] == '/' ? path : skydock_format("/%s", path);
    return has_dots(prepared->path) ? "has a segment that means another path" : NULL;
}

static bool is_header_name(const char *name) {
    if (name == NULL || name[0] == '\0') {
        return false;
    }
    for (const char *at = name; *at != '\0'; at++) {
        unsigned char letter = (unsigned char)*at;
        if (letter >= 0x80 || !(isalnum(letter) || strchr("!#$%&'*+-.^_`|~", letter) != NULL)) {
            return false;
        }
    }
    return true;
}

static bool is_of_the_host(const char *name) {
    static const char *const names[] = {"connection",          "content-length",   "host", "http2-settings",    "keep-alive", "proxy-authenticate",
                                        "proxy-authorization", "proxy-connection", "te",   "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_control(const char *value) {
    for (const char *at = value; *at != '\0'; at++) {
        if (((unsigned char)*at < ' ' && *at != '\t') || *at == 0x7f) {
            return true;
        }
    }
    return false;
}

static bool is_method(const char *method) {
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (skydock_same(method, methods[i])) {
            return true;
        }
    }
    return false;
}

const skydock_error *skydock_prepare(const skydock_http_request *request, skydock_prepared *prepared) {
    *prepared = (skydock_prepared){0};
    if (!is_method(request->method)) {
        return skydock_internal("the method of a request is not valid; expected for example GET");
    }
    const char *problem = parse_url(request->url, prepared);
    if (problem != NULL) {
        return skydock_internal("%s: the URL %s", request->method, problem);
    }
    prepared->shown = skydock_format("%s %s://%s%.*s", request->method, prepared->secure ? "https" : "http", prepared->authority,
                                     (int)strcspn(prepared->path, "?"), prepared->path);
    const char *exceeded = "%.100s: the limit of %d bytes of %s is exceeded";
    if (strlen(prepared->authority) > MOST_AUTHORITY) {
        return skydock_internal(exceeded, prepared->shown, MOST_AUTHORITY, "host");
    }
    if (strlen(prepared->path) > MOST_PATH) {
        return skydock_internal(exceeded, prepared->shown, MOST_PATH, "path and query");
    }
    size_t size = 0;
    for (size_t i = 0; i < request->headers.len; i++) {
        skydock_pair header = request->headers.items[i];
        if (!is_header_name(header.key)) {
            return skydock_internal("%s: the name of a header is not valid", prepared->shown);
        }
        if (is_of_the_host(header.key)) {
            return skydock_internal("%s: the header %s is set by Skydock", prepared->shown, header.key);
        }
        if (header.value == NULL || has_control(header.value)) {
            return skydock_internal("%s: the header %s has no valid value", prepared->shown, header.key);
        }
        size += strlen(header.key) + strlen(header.value) + HEADER_COST;
        skydock_add_pair(&prepared->headers, header.key, header.value);
    }
    /* Some servers require a length for methods that usually have a body. */
    if (request->body.len > 0 || request->method[0] == 'P') {
        const char *len = skydock_format("%zu", request->body.len);
        size += strlen("content-length") + strlen(len) + HEADER_COST;
        skydock_add_pair(&prepared->headers, "content-length", len);
    }
    return size > MOST_HEADERS ? skydock_internal(exceeded, prepared->shown, MOST_HEADERS, "headers") : NULL;
}
