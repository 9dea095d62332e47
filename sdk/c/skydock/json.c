/* JSON (RFC 8259): a reader, and the quotes of a writer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MOST_LEVELS 64

struct skydock_json {
    skydock_json_kind kind;
    bool is_true;
    const char *name;       /* of a member */
    const char *string;     /* of a string */
    const char *source;     /* the value as it was written */
    size_t source_len;
    const skydock_json *first;
    const skydock_json *next;
    size_t count;
};

struct reader {
    const char *start;
    const char *at;
    const char *end;
    const char *problem;
};

static bool fail(struct reader *reader, const char *problem) {
    if (reader->problem == NULL) {
        reader->problem = problem;
    }
    return false;
}

static void skip_space(struct reader *reader) {
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL && *reader->at != '\0') {
        reader->at++;
    }
}

static bool take(struct reader *reader, char wanted) {
    if (reader->at < reader->end && *reader->at == wanted) {
        reader->at++;
        return true;
    }
    return false;
}

static bool take_word(struct reader *reader, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0) {
        return fail(reader, "expected a value");
    }
    reader->at += len;
    return true;
}

static bool digits(struct reader *reader) {
    const char *before = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        reader->at++;
    }
    return reader->at > before || fail(reader, "expected a digit");
}

static bool number(struct reader *reader) {
    take(reader, '-');
    if (!take(reader, '0') && !digits(reader)) {
        return false;
    }
    if (take(reader, '.') && !digits(reader)) {
        return false;
    }
    if (take(reader, 'e') || take(reader, 'E')) {
        if (!take(reader, '+')) {
            take(reader, '-');
        }
        return digits(reader);
    }
    return true;
}

static bool hex4(struct reader *reader, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        const char *all = "0123456789abcdef0123456789ABCDEF";
        const char *found = reader->at < reader->end && *reader->at != '\0' ? strchr(all, *reader->at) : NULL;
        if (found == NULL) {
            return fail(reader, "expected four hexadecimal digits");
        }
        *unit = *unit * 16 + (uint32_t)(found - all) % 16;
    }
    return true;
}

static char *put_utf8(char *out, uint32_t point) {
    if (point < 0x80) {
        *out++ = (char)point;
    } else if (point < 0x800) {
        *out++ = (char)(0xc0 | point >> 6);
        *out++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *out++ = (char)(0xe0 | point >> 12);
        *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        *out++ = (char)(0x80 | (point & 0x3f));
    } else {
        *out++ = (char)(0xf0 | point >> 18);
        *out++ = (char)(0x80 | (point >> 12 & 0x3f));
        *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        *out++ = (char)(0x80 | (point & 0x3f));
    }
    return out;
}

/* The escape after a backslash. */
static bool escape(struct reader *reader, char **out) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (take(reader, 'u')) {
        uint32_t unit, low;
        if (!hex4(reader, &unit)) {
            return false;
        }
        if (unit == 0) {
            return fail(reader, "a NUL in a string is not supported");
        }
        if (unit >= 0xd800 && unit < 0xdc00) {
            if (!take(reader, '\\') || !take(reader, 'u') || !hex4(reader, &low) || low < 0xdc00 || low > 0xdfff) {
                return fail(reader, "expected the second half of a surrogate pair");
            }
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        } else if (unit >= 0xdc00 && unit < 0xe000) {
            return fail(reader, "expected the first half of a surrogate pair");
        }
        *out = put_utf8(*out, unit);
        return true;
    }
    const char *found = reader->at < reader->end && *reader->at != '\0' ? strchr(letters, *reader->at) : NULL;
    if (found == NULL) {
        return fail(reader, "this escape does not exist");
    }
    reader->at++;
    *(*out)++ = meanings[found - letters];
    return true;
}

static const char *string(struct reader *reader) {
    if (!take(reader, '"')) {
        fail(reader, "expected a string");
        return NULL;
    }
    /* A decoded string is never longer. */
    const char *close = reader->at;
    while (close < reader->end && *close != '"') {
        close += *close == '\\' ? 2 : 1;
    }
    size_t most = close < reader->end ? (size_t)(close - reader->at) : 0;
    char *text = skydock_alloc(most + 1);
    char *out = text;
    while (reader->at < reader->end && *reader->at != '"') {
        if (close >= reader->end) {
            break;
        }
        if ((unsigned char)*reader->at < 0x20) {
            fail(reader, "a control character in a string must be escaped");
            return NULL;
        }
        if (take(reader, '\\')) {
            if (!escape(reader, &out)) {
                return NULL;
            }
        } else {
            *out++ = *reader->at++;
        }
    }
    if (!take(reader, '"')) {
        fail(reader, "the string does not end");
        return NULL;
    }
    return text;
}

static skydock_json *value(struct reader *reader, int levels);

static bool elements(struct reader *reader, skydock_json *parent, char close, int levels) {
    const skydock_json **place = &parent->first;
    skip_space(reader);
    if (take(reader, close)) {
        return true;
    }
    if (levels == 0) {
        return fail(reader, "there are too many levels");
    }
    do {
        const char *name = NULL;
        skip_space(reader);
        if (close == '}') {
            name = string(reader);
            skip_space(reader);
            if (name == NULL || !(take(reader, ':') || fail(reader, "expected a colon"))) {
                return false;
            }
        }
        skydock_json *element = value(reader, levels - 1);
        if (element == NULL) {
            return false;
        }
        element->name = name;
        *place = element;
        place = &element->next;
        parent->count++;
        skip_space(reader);
    } while (take(reader, ','));
    return take(reader, close) || fail(reader, "expected a comma or the end of the list");
}

static skydock_json *value(struct reader *reader, int levels) {
    skip_space(reader);
    skydock_json *json = skydock_alloc(sizeof *json);
    json->source = reader->at;
    char first = reader->at < reader->end ? *reader->at : '\0';
    bool valid;
    switch (first) {
    case '{':
    case '[':
        reader->at++;
        json->kind = first == '{' ? SKYDOCK_JSON_OBJECT : SKYDOCK_JSON_ARRAY;
        valid = elements(reader, json, first == '{' ? '}' : ']', levels);
        break;
    case '"':
        json->kind = SKYDOCK_JSON_STRING;
        json->string = string(reader);
        valid = json->string != NULL;
        break;
    case 't':
    case 'f':
        json->kind = SKYDOCK_JSON_BOOL;
        json->is_true = first == 't';
        valid = take_word(reader, first == 't' ? "true" : "false");
        break;
    case 'n':
        valid = take_word(reader, "null");
        break;
    default:
        json->kind = SKYDOCK_JSON_NUMBER;
        valid = (first == '-' || (first >= '0' && first <= '9') || fail(reader, "expected a value")) && number(reader);
    }
    json->source_len = (size_t)(reader->at - json->source);
    return valid ? json : NULL;
}

const skydock_error *skydock_json_parse(skydock_bytes text, const skydock_json **json) {
    struct reader reader = {text.data, text.data, text.data + text.len, NULL};
    *json = value(&reader, MOST_LEVELS);
    skip_space(&reader);
    if (*json != NULL && reader.at < reader.end) {
        fail(&reader, "expected the end");
    }
    if (reader.problem == NULL) {
        return NULL;
    }
    *json = NULL;
    size_t line = 1, column = 1;
    for (const char *at = reader.start; at < reader.at; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
    }
    return skydock_internal("the JSON is not valid: %s at line %zu column %zu", reader.problem, line, column);
}

skydock_json_kind skydock_json_kind_of(const skydock_json *json) {
    return json == NULL ? SKYDOCK_JSON_NULL : json->kind;
}

const skydock_json *skydock_json_get(const skydock_json *json, const char *name) {
    const skydock_json *found = NULL;
    for (const skydock_json *each = skydock_json_first(json); each != NULL; each = each->next) {
        found = skydock_same(each->name, name) ? each : found;
    }
    return found;
}

const skydock_json *skydock_json_first(const skydock_json *json) {
    return json == NULL ? NULL : json->first;
}

const skydock_json *skydock_json_next(const skydock_json *json) {
    return json == NULL ? NULL : json->next;
}

size_t skydock_json_count(const skydock_json *json) {
    return json == NULL ? 0 : json->count;
}

const char *skydock_json_name(const skydock_json *json) {
    return json == NULL ? NULL : json->name;
}

const char *skydock_json_string(const skydock_json *json) {
    return json == NULL ? NULL : json->string;
}

bool skydock_json_true(const skydock_json *json) {
    return json != NULL && json->is_true;
}

bool skydock_json_integer(const skydock_json *json, int64_t *number) {
    if (skydock_json_kind_of(json) != SKYDOCK_JSON_NUMBER) {
        return false;
    }
    char *end;
    errno = 0;
    long long parsed = strtoll(skydock_json_text(json), &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *number = parsed;
    return true;
}

bool skydock_json_number(const skydock_json *json, double *number) {
    if (skydock_json_kind_of(json) != SKYDOCK_JSON_NUMBER) {
        return false;
    }
    *number = strtod(skydock_json_text(json), NULL);
    return true;
}

/* True if both numbers are the same. Whole ones may have more digits than a double. */
static bool same_number(const skydock_json *one, const skydock_json *other) {
    const char *text = skydock_json_text(one), *other_text = skydock_json_text(other), *digits = "-0123456789";
    double number = 0, other_number = 0;
    skydock_json_number(one, &number);
    skydock_json_number(other, &other_number);
    bool both_whole = text[strspn(text, digits)] == '\0' && other_text[strspn(other_text, digits)] == '\0';
    return both_whole && number != 0 ? strcmp(text, other_text) == 0 : number == other_number;
}

bool skydock_json_same(const skydock_json *one, const skydock_json *other) {
    if (skydock_json_kind_of(one) != skydock_json_kind_of(other) || skydock_json_count(one) != skydock_json_count(other)) {
        return false;
    }
    switch (skydock_json_kind_of(one)) {
    case SKYDOCK_JSON_NULL:
        return true;
    case SKYDOCK_JSON_BOOL:
        return one->is_true == other->is_true;
    case SKYDOCK_JSON_STRING:
        return skydock_same(one->string, other->string);
    case SKYDOCK_JSON_NUMBER:
        return same_number(one, other);
    default:
        break;
    }
    const skydock_json *beside = other->first;
    for (const skydock_json *each = one->first; each != NULL; each = each->next) {
        const skydock_json *match = one->kind == SKYDOCK_JSON_OBJECT ? skydock_json_get(other, each->name) : beside;
        if (match == NULL || !skydock_json_same(each, match)) {
            return false;
        }
        beside = beside == NULL ? NULL : beside->next;
    }
    return true;
}

const char *skydock_json_text(const skydock_json *json) {
    if (json == NULL) {
        return "null";
    }
    return skydock_copy(json->source, json->source_len);
}

const char *skydock_json_quote(const char *text) {
    if (text == NULL) {
        return "null";
    }
    size_t len = strlen(text);
    /* At most six characters for one, two quotes and the NUL. */
    char *quoted = skydock_alloc(len <= (SIZE_MAX - 3) / 6 ? 6 * len + 3 : SIZE_MAX);
    char *out = quoted;
    *out++ = '"';
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char letter = (unsigned char)*at;
        if (letter == '"' || letter == '\\') {
            *out++ = '\\';
            *out++ = *at;
        } else if (letter < 0x20) {
            memcpy(out, "\\u00", 4);
            out[4] = "0123456789abcdef"[letter >> 4];
            out[5] = "0123456789abcdef"[letter & 15];
            out += 6;
        } else {
            *out++ = *at;
        }
    }
    *out = '"';
    return quoted;
}
