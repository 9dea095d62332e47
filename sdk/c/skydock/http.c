/* Requests and responses, as far as they are the same in a plugin and in its tests. */
#define _DEFAULT_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/* Milliseconds that are left for the plugin after the last response. */
#define MARGIN_MS 1000
/* Milliseconds until the next attempt after a 429 that does not say it. */
#define THROTTLED_MS 5000
/* The limits of the host (wit/v0.1.0/plugin.wit), which ends calls that exceed them. */
#define MOST_AUTHORITY 512
#define MOST_PATH 8192
#define MOST_HEADERS 16384
/* What the host counts for each header in addition to its text. */
#define HEADER_COST 72
/* Bytes of a message that an error shows, and of a body that is searched for it. */
#define MOST_SAID 300
#define MOST_SEARCHED 65536

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

static const char *copy(const char *start, size_t len) {
    char *text = skydock_alloc(len + 1);
    return memcpy(text, start, len);
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
    rest = copy(rest, strcspn(rest, "#"));
    size_t authority = strcspn(rest, "/?");
    prepared->authority = copy(rest, authority);
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

const char *skydock_http_header(const skydock_http_response *response, const char *name) {
    for (size_t i = 0; i < response->headers.len; i++) {
        if (strcasecmp(response->headers.items[i].key, name) == 0) {
            return response->headers.items[i].value;
        }
    }
    return NULL;
}

static bool two_digits(const char *text, int *number) {
    if (!isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1])) {
        return false;
    }
    *number = (text[0] - '0') * 10 + text[1] - '0';
    return true;
}

/* Parses `Sun, 06 Nov 1994 08:49:37 GMT`, which is how HTTP writes dates. */
static bool http_date(const char *text, int64_t *seconds) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int day, century, year, hour, minute, second;
    if (text == NULL || strlen(text) != 29 || strcmp(text + 25, " GMT") != 0 || !two_digits(text + 5, &day) ||
        !two_digits(text + 12, &century) || !two_digits(text + 14, &year) || !two_digits(text + 17, &hour) ||
        !two_digits(text + 20, &minute) || !two_digits(text + 23, &second)) {
        return false;
    }
    const char *found = strstr(months, copy(text + 8, 3));
    if (found == NULL || (found - months) % 3 != 0) {
        return false;
    }
    /* Days since 1970 in years that begin in March, so that leap days are at the end. */
    int64_t month = (found - months) / 3 + 1, full = century * 100 + year - (month <= 2);
    int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t days = full * 365 + full / 4 - full / 100 + full / 400 + in_year - 719468;
    *seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    return true;
}

/* Milliseconds of Retry-After: a number of seconds, or a date, which is compared with that of the response. */
static bool retry_after(const skydock_http_response *response, uint64_t *delay_ms) {
    const char *value = skydock_http_header(response, "retry-after");
    if (value == NULL) {
        return false;
    }
    value += strspn(value, " ");
    if (isdigit((unsigned char)value[0])) {
        char *end;
        unsigned long long seconds = strtoull(value, &end, 10);
        *delay_ms = seconds > UINT64_MAX / 1000 ? UINT64_MAX : seconds * 1000;
        return end[strspn(end, " ")] == '\0';
    }
    int64_t until, from;
    if (!http_date(value, &until)) {
        return false;
    }
    if (!http_date(skydock_http_header(response, "date"), &from)) {
        from = skydock_host_now();
    }
    *delay_ms = until > from ? (uint64_t)(until - from) * 1000 : 0;
    return true;
}

static const char *message_of(const skydock_json *json) {
    static const char *const names[] = {"message", "Message", "faultstring", "detail", "error_description"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found = skydock_json_string(skydock_json_get(json, names[i]));
        if (found != NULL) {
            return found;
        }
    }
    return skydock_json_string(json);
}

static const char *message_in_json(skydock_bytes body) {
    const skydock_json *json;
    if (skydock_json_parse(body, &json) != NULL) {
        return NULL;
    }
    const skydock_json *places[] = {json, skydock_json_get(json, "error"), skydock_json_first(skydock_json_get(json, "errors")),
                                    skydock_json_count(json) == 1 ? skydock_json_first(json) : NULL};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *found = message_of(places[i]);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

/* The text of the first element with one of the names that clouds use. */
static const char *message_in_xml(const char *body) {
    static const char *const names[] = {"Message", "message", "faultstring"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (const char *tag = strchr(body, '<'); tag != NULL; tag = strchr(tag + 1, '<')) {
            const char *name = tag + 1, *head = name + strcspn(name, "> \t\r\n");
            const char *prefix = memchr(name, ':', (size_t)(head - name));
            name = prefix != NULL ? prefix + 1 : name;
            const char *text = strchr(head, '>'), *close = text == NULL ? NULL : strstr(text, "</");
            if (close != NULL && (size_t)(head - name) == strlen(names[i]) && strncmp(name, names[i], strlen(names[i])) == 0) {
                return copy(text + 1, (size_t)(close - text - 1));
            }
        }
    }
    return NULL;
}

/* The message of the cloud in one line, or NULL. */
static const char *said(const skydock_http_response *response) {
    skydock_bytes body = response->body;
    if (body.len == 0 || body.len > MOST_SEARCHED) {
        return NULL;
    }
    const char *text = copy(body.data, body.len), *type = skydock_http_header(response, "content-type");
    text += strspn(text, " \t\r\n");
    const char *found = NULL;
    if (*text == '{' || *text == '[') {
        found = message_in_json(body);
    } else if (*text == '<') {
        found = message_in_xml(text);
    } else if (skydock_after(type, "text/plain") != NULL) {
        found = text;
    }
    if (found == NULL) {
        return NULL;
    }
    char *line = skydock_alloc(strlen(found) + sizeof "…"), *out = line;
    for (const char *at = found; *at != '\0'; at++) {
        unsigned char letter = (unsigned char)*at;
        bool is_space = letter <= ' ' || letter == 0x7f;
        if (!is_space || (out > line && out[-1] != ' ')) {
            *out++ = is_space ? ' ' : *at;
        }
    }
    if (out - line > MOST_SAID) {
        out = line + MOST_SAID - 3;
        while (((unsigned char)*out & 0xc0) == 0x80) {
            out--;
        }
        memcpy(out, "…", sizeof "…");
        return line;
    }
    if (out > line && out[-1] == ' ') {
        out[-1] = '\0';
    }
    return *line == '\0' ? NULL : line;
}

const skydock_error *skydock_http_error(const skydock_http_response *response) {
    if (response->error != NULL) {
        return response->error;
    }
    int status = response->status;
    if (status >= 200 && status < 300) {
        return NULL;
    }
    const char *message = skydock_format("HTTP %d", status), *sentence = said(response);
    if (sentence != NULL) {
        message = skydock_format("%s: %s", message, sentence);
    }
    uint64_t delay_ms;
    if (status >= 400 && retry_after(response, &delay_ms)) {
        return skydock_throttled(delay_ms, "%s", message);
    }
    switch (status) {
    case 429:
        return skydock_throttled(THROTTLED_MS, "%s", message);
    case 401:
    case 402:
    case 403:
    case 407:
        return skydock_denied("%s", message);
    case 404:
    case 410:
        return skydock_not_found("%s", message);
    case 409:
    case 412:
    case 423:
        return skydock_conflict("%s", message);
    case 408:
    case 425:
        return skydock_unavailable("%s", message);
    default:
        break;
    }
    if (status >= 500) {
        return skydock_unavailable("%s", message);
    }
    if (status >= 400) {
        return skydock_invalid("%s", message);
    }
    return skydock_internal("%s%s", message, status >= 300 ? ": redirects are not followed" : " where an answer was expected");
}
