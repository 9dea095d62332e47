/* Responses: their headers, and the errors that they stand for. */
#define _DEFAULT_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/* Milliseconds until the next attempt after a 429 that does not say it. */
#define THROTTLED_MS 5000
/* Bytes of a message that an error shows, and of a body that is searched for it. */
#define MOST_SAID 300
#define MOST_SEARCHED 65536

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
    const char *found = strstr(months, skydock_copy(text + 8, 3));
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
                return skydock_copy(text + 1, (size_t)(close - text - 1));
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
    const char *text = skydock_copy(body.data, body.len), *type = skydock_http_header(response, "content-type");
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
        /* Back to the start of a character, which has at most four bytes. The text may be anything. */
        for (int i = 0; i < 3 && ((unsigned char)*out & 0xc0) == 0x80; i++) {
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
