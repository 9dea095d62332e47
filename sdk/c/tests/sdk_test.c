/* Tests of the SDK, natively. They are compiled twice: with a block of memory for each thing, and with shared blocks as in a plugin. */
#include <math.h>
#include <string.h>

#include "skydock/internal.h"
#include "skydock/skydock_test.h"

static const skydock_json *parse(const char *text) {
    const skydock_json *json = NULL;
    SKYDOCK_CHECK_GOOD(skydock_json_parse(skydock_bytes_of(text), &json));
    return json;
}

static const char *repeat(const char *text, size_t count) {
    skydock_text all = {0};
    for (size_t i = 0; i < count; i++) {
        skydock_append(&all, "%s", text);
    }
    return all.text == NULL ? "" : all.text;
}

static void texts_and_lists_grow(void) {
    skydock_strings strings = {0};
    skydock_pairs pairs = {0};
    for (size_t i = 0; i < 100; i++) {
        skydock_add_string(&strings, skydock_format("s%zu", i));
        skydock_add_pair(&pairs, skydock_format("k%zu", i), skydock_format("v%zu", i));
    }
    SKYDOCK_CHECK(strings.len == 100 && pairs.len == 100);
    SKYDOCK_CHECK_TEXT(strings.items[0], "s0");
    SKYDOCK_CHECK_TEXT(strings.items[99], "s99");
    SKYDOCK_CHECK_TEXT(skydock_lookup(pairs, "k64"), "v64");
    SKYDOCK_CHECK_TEXT(skydock_lookup(pairs, "k"), NULL);
    SKYDOCK_CHECK(strlen(repeat("0123456789", 1000)) == 10000);
    SKYDOCK_CHECK_TEXT(skydock_after("abc", "ab"), "c");
    SKYDOCK_CHECK_TEXT(skydock_after("abc", "bc"), NULL);
    SKYDOCK_CHECK_TEXT(skydock_after(NULL, "a"), NULL);
    SKYDOCK_CHECK(skydock_same(NULL, NULL) && !skydock_same(NULL, "") && skydock_same("a", skydock_format("%s", "a")));
}

static void a_list_is_copied_unless_it_has_room(void) {
    /* As the host passes it: as long as it is. */
    skydock_pair *own = skydock_alloc(3 * sizeof *own);
    for (size_t i = 0; i < 3; i++) {
        own[i] = (skydock_pair){skydock_format("k%zu", i), "v"};
    }
    const char *behind = skydock_format("%s", "behind");
    skydock_pairs given = {own, 3}, more = given;
    for (size_t i = 3; i < 40; i++) {
        skydock_add_pair(&more, skydock_format("k%zu", i), "v");
    }
    SKYDOCK_CHECK(given.items == own && more.items != own && more.len == 40);
    SKYDOCK_CHECK_TEXT(behind, "behind");
    for (size_t i = 0; i < 40; i++) {
        SKYDOCK_CHECK_TEXT(skydock_lookup(more, skydock_format("k%zu", i)), "v");
    }
    /* Two lists with the same beginning. */
    for (size_t len = 0; len < 10; len++) {
        skydock_strings one = {0};
        for (size_t i = 0; i < len; i++) {
            skydock_add_string(&one, "same");
        }
        skydock_strings other = one;
        skydock_add_string(&one, "one");
        skydock_add_string(&other, "other");
        skydock_add_string(&one, "end");
        SKYDOCK_CHECK_TEXT(one.items[len], "one");
        SKYDOCK_CHECK_TEXT(one.items[len + 1], "end");
        SKYDOCK_CHECK_TEXT(other.items[len], "other");
    }
    /* What a test has added does not matter after a call. */
    skydock_test_next_call();
    skydock_strings fresh = {0};
    skydock_add_string(&fresh, "x");
    SKYDOCK_CHECK(fresh.len == 1);
}

static void lists_about_volumes_grow(void) {
    skydock_driver driver = {0};
    skydock_volume_page volumes = {0};
    skydock_snapshot_page snapshots = {0};
    for (size_t i = 0; i < 10; i++) {
        const char *id = skydock_format("%zu", i);
        skydock_pairs zone = {0};
        skydock_add_pair(&zone, "zone", id);
        skydock_volume volume = {.id = id};
        skydock_add_topology(&volume.topology, zone);
        skydock_add_topology(&volume.topology, (skydock_pairs){0});
        skydock_add_volume(&volumes, volume);
        skydock_add_snapshot(&snapshots, (skydock_snapshot){.id = id, .size_bytes = i});
        skydock_add_access_mode(&driver, i == 9 ? SKYDOCK_MULTI_NODE_MULTI_WRITER : SKYDOCK_SINGLE_NODE_WRITER);
    }
    SKYDOCK_CHECK(volumes.len == 10 && snapshots.len == 10 && driver.access_mode_count == 10);
    SKYDOCK_CHECK_TEXT(volumes.volumes[9].id, "9");
    SKYDOCK_CHECK(volumes.volumes[9].topology.len == 2 && volumes.volumes[9].topology.items[1].len == 0);
    SKYDOCK_CHECK_TEXT(skydock_lookup(volumes.volumes[9].topology.items[0], "zone"), "9");
    SKYDOCK_CHECK(snapshots.snapshots[9].size_bytes == 9);
    SKYDOCK_CHECK(driver.access_modes[8] == SKYDOCK_SINGLE_NODE_WRITER && driver.access_modes[9] == SKYDOCK_MULTI_NODE_MULTI_WRITER);
}

static void memory_is_aligned_and_set_to_zero(void) {
    for (size_t size = 1; size < 200; size++) {
        memset(skydock_arena_take(size, 1), 0xff, size);
        unsigned char *memory = skydock_alloc(size);
        SKYDOCK_CHECK((uintptr_t)memory % _Alignof(max_align_t) == 0);
        for (size_t i = 0; i < size; i++) {
            SKYDOCK_CHECK(memory[i] == 0);
        }
    }
    char *large = skydock_alloc(1 << 20);
    large[(1 << 20) - 1] = 'x';
    skydock_test_next_call();
    char *small = skydock_alloc(16);
    SKYDOCK_CHECK(small[0] == '\0' && small[15] == '\0');
}

static void what_is_kept_outlives_a_call(void) {
    const char *kept = skydock_keep(skydock_format("%d", 42));
    SKYDOCK_CHECK(skydock_keep(NULL) == NULL);
    skydock_test_next_call();
    skydock_format("%s", repeat("x", 50));
    SKYDOCK_CHECK_TEXT(kept, "42");
}

static void an_error_has_a_case_and_a_text(void) {
    const skydock_error *error = skydock_throttled(1500, "%s is busy", "it");
    SKYDOCK_CHECK(skydock_is(error, SKYDOCK_THROTTLED) && error->retry_ms == 1500);
    SKYDOCK_CHECK_TEXT(error->message, "it is busy");
    const skydock_error *all[] = {skydock_not_found("x"), skydock_implemented_elsewhere(), skydock_conflict("x"), skydock_throttled(1, "x"),
                                  skydock_in_progress(1, "x"), skydock_denied("x"), skydock_invalid("x"), skydock_unavailable("x"), skydock_internal("x"),
                                  skydock_exists("x"), skydock_exhausted("x"), skydock_out_of_range("x"), skydock_in_use("x")};
    for (int i = 0; i < 13; i++) {
        SKYDOCK_CHECK(skydock_is(all[i], (skydock_error_case)i));
    }
    SKYDOCK_CHECK(!skydock_is(NULL, SKYDOCK_NOT_FOUND));
}

static void json_is_read(void) {
    const skydock_json *json = parse(" {\"a\": [1, -2.5e3, true, null], \"b\": {\"c\": \"x\\n\\u00fc\\ud83d\\ude00\"}, \"a2\": 9007199254740993} ");
    const skydock_json *list = skydock_json_get(json, "a");
    SKYDOCK_CHECK(skydock_json_count(json) == 3 && skydock_json_count(list) == 4);
    int64_t whole = 0;
    double number = 0;
    SKYDOCK_CHECK(skydock_json_integer(skydock_json_first(list), &whole) && whole == 1);
    SKYDOCK_CHECK(!skydock_json_integer(skydock_json_next(skydock_json_first(list)), &whole));
    SKYDOCK_CHECK(skydock_json_number(skydock_json_next(skydock_json_first(list)), &number) && fabs(number + 2500) < 0.001);
    SKYDOCK_CHECK(skydock_json_integer(skydock_json_get(json, "a2"), &whole) && whole == 9007199254740993);
    SKYDOCK_CHECK_TEXT(skydock_json_string(skydock_json_get(skydock_json_get(json, "b"), "c")), "x\nü😀");
    SKYDOCK_CHECK_TEXT(skydock_json_text(list), "[1, -2.5e3, true, null]");
    SKYDOCK_CHECK_TEXT(skydock_json_string(skydock_json_get(skydock_json_get(json, "no"), "such")), NULL);
    SKYDOCK_CHECK_TEXT(skydock_json_name(skydock_json_first(json)), "a");
    whole = 0;
    SKYDOCK_CHECK(!skydock_json_integer(parse("99999999999999999999"), &whole) && !skydock_json_integer(parse("\"1\""), &whole));
    SKYDOCK_CHECK(!skydock_json_integer(NULL, &whole) && !skydock_json_number(NULL, &number) && !skydock_json_true(NULL));
    SKYDOCK_CHECK(skydock_json_true(parse("true")) && !skydock_json_true(parse("false")));
    /* The last of two members with the same name counts. */
    SKYDOCK_CHECK_TEXT(skydock_json_text(skydock_json_get(parse("{\"a\": 1, \"a\": 2}"), "a")), "2");
}

static void json_that_is_not_valid_is_rejected_with_its_place(void) {
    static const char *const texts[] = {"",       " ",        "{",      "[1,",       "[1,]",   "{\"a\"}",      "{\"a\": 1,}", "{a: 1}",     "01",          "1.",
                                        "-",      "1e",       "+1",     "tru",       "nul",    "\"a",          "\"\\x\"",     "\"\\u12\"",  "\"\\u0000\"", "\"\\ud800\"",
                                        "\"\t\"", "[1] [2]", "{} x",   "\"\\",      "\"\\u",  "\"\\ude00\"", "[1 2]",       "{\"a\" 1}", "\"\\ud83d\\u0041\"",
                                        "'a'",    "NaN",      "[}",     "\"a\\\"", "{\"a\":", "{1: 2}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        /* A copy without NUL, so that reading beyond the end is found. */
        size_t len = strlen(texts[i]);
        skydock_bytes bytes = {memcpy(skydock_arena_take(len, 1), texts[i], len), len};
        const skydock_json *json;
        const skydock_error *error = skydock_json_parse(bytes, &json);
        SKYDOCK_CHECK(skydock_is(error, SKYDOCK_INTERNAL) && json == NULL);
        if (error == NULL) {
            SKYDOCK_CHECK_TEXT(texts[i], "rejected");
        }
    }
    const skydock_json *json;
    const skydock_error *error = skydock_json_parse(skydock_bytes_of("{\n  \"a\": x"), &json);
    SKYDOCK_CHECK_TEXT(error->message, "the JSON is not valid: expected a value at line 2 column 8");
}

static void json_is_at_most_64_levels_deep(void) {
    const skydock_json *json;
    const char *most = skydock_format("%s1%s", repeat("[", 64), repeat("]", 64));
    SKYDOCK_CHECK_GOOD(skydock_json_parse(skydock_bytes_of(most), &json));
    SKYDOCK_CHECK(skydock_is(skydock_json_parse(skydock_bytes_of(skydock_format("[%s]", most)), &json), SKYDOCK_INTERNAL));
    SKYDOCK_CHECK(skydock_is(skydock_json_parse(skydock_bytes_of(repeat("[", 100000)), &json), SKYDOCK_INTERNAL));
}

static void json_is_compared_by_its_meaning(void) {
    SKYDOCK_CHECK(skydock_json_same(parse("{\"a\": 1, \"b\": [1, 2]}"), parse("{\"b\":[1.0,2],\"a\":1}")));
    SKYDOCK_CHECK(skydock_json_same(parse("\"\\u0061\""), parse("\"a\"")));
    static const char *const pairs[][2] = {{"[1, 2]", "[2, 1]"}, {"[1]", "[1, 1]"}, {"{\"a\": 1}", "{\"b\": 1}"}, {"1", "\"1\""}, {"null", "false"},
                                           {"true", "false"},   {"{}", "[]"},      {"1", "2"},                   {"\"a\"", "\"b\""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        SKYDOCK_CHECK(!skydock_json_same(parse(pairs[i][0]), parse(pairs[i][1])));
    }
    SKYDOCK_CHECK(skydock_json_same(NULL, parse("null")));
    /* These are the same as doubles. */
    SKYDOCK_CHECK(!skydock_json_same(parse("9007199254740993"), parse("9007199254740992")));
    SKYDOCK_CHECK(!skydock_json_same(parse("18446744073709551615"), parse("18446744073709551614")));
    SKYDOCK_CHECK(skydock_json_same(parse("18446744073709551615"), parse("18446744073709551615")));
    SKYDOCK_CHECK(skydock_json_same(parse("-0"), parse("0")) && skydock_json_same(parse("1e2"), parse("100")));
}

static void a_quoted_text_is_read_back(void) {
    const char *text = "a\"b\\c\n\x01 ü";
    SKYDOCK_CHECK_TEXT(skydock_json_quote(text), "\"a\\\"b\\\\c\\u000a\\u0001 ü\"");
    SKYDOCK_CHECK_TEXT(skydock_json_string(parse(skydock_json_quote(text))), text);
    SKYDOCK_CHECK_TEXT(skydock_json_quote(NULL), "null");
}

static skydock_http_response response(int status, const char *type, const char *body) {
    skydock_http_response out = {.status = status, .body = skydock_bytes_of(body)};
    skydock_add_pair(&out.headers, "content-type", type);
    return out;
}

static void each_status_is_an_error(void) {
    static const struct {
        skydock_error_case kind;
        int statuses[9];
    } table[] = {
        {SKYDOCK_DENIED, {401, 402, 403, 407}},
        {SKYDOCK_NOT_FOUND, {404, 410}},
        {SKYDOCK_CONFLICT, {409, 412, 423}},
        {SKYDOCK_THROTTLED, {429}},
        {SKYDOCK_UNAVAILABLE, {408, 425, 500, 501, 503, 504, 599, 600}},
        {SKYDOCK_INVALID, {400, 405, 406, 411, 413, 415, 422, 431, 499}},
        {SKYDOCK_INTERNAL, {100, 199, 300, 301, 304, 399}},
    };
    for (size_t row = 0; row < sizeof table / sizeof *table; row++) {
        for (size_t i = 0; i < 9 && table[row].statuses[i] != 0; i++) {
            skydock_http_response answer = response(table[row].statuses[i], "", "");
            SKYDOCK_CHECK(skydock_is(skydock_http_error(&answer), table[row].kind));
        }
    }
    skydock_http_response good[] = {response(200, "", ""), response(204, "", ""), response(299, "", "")};
    for (size_t i = 0; i < 3; i++) {
        SKYDOCK_CHECK_GOOD(skydock_http_error(&good[i]));
    }
    skydock_http_response lost = {.error = skydock_unavailable("lost"), .status = 200};
    SKYDOCK_CHECK(skydock_http_error(&lost) == lost.error);
}

static void retry_after_sets_the_delay(void) {
    static const struct {
        const char *value;
        const char *date;
        int64_t ms; /* negative: there is none */
    } table[] = {
        {"7", NULL, 7000},
        {" 120 ", NULL, 120000},
        {"0", NULL, 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:30 GMT", 7000},
        {"Fri, 01 Mar 2024 00:00:00 GMT", "Wed, 28 Feb 2024 23:59:59 GMT", 86401000},
        {"Sun, 06 Nov 1994 08:40:00 GMT", NULL, 0},
        {"soon", NULL, -1},
        {"1.5", NULL, -1},
        {"", NULL, -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        skydock_http_response answer = response(503, "", "");
        skydock_add_pair(&answer.headers, "retry-after", table[i].value);
        if (table[i].date != NULL) {
            skydock_add_pair(&answer.headers, "date", table[i].date);
        }
        const skydock_error *error = skydock_http_error(&answer);
        SKYDOCK_CHECK(skydock_is(error, table[i].ms < 0 ? SKYDOCK_UNAVAILABLE : SKYDOCK_THROTTLED));
        SKYDOCK_CHECK(table[i].ms < 0 || (int64_t)error->retry_ms == table[i].ms);
    }
    skydock_http_response busy = response(429, "", "");
    SKYDOCK_CHECK(skydock_http_error(&busy)->retry_ms == 5000);
}

static void an_error_contains_the_message_of_the_cloud(void) {
    static const char *const bodies[] = {
        "{\"error\": {\"code\": 404, \"message\": \"no such thing\"}}",
        "{\"error\": \"no such thing\"}",
        "{\"message\": \"no such thing\", \"url\": \"x\"}",
        "{\"__type\": \"NotFound\", \"Message\": \"no such thing\"}",
        "{\"badRequest\": {\"code\": 400, \"message\": \"no such thing\"}}",
        "{\"NeutronError\": \"no such thing\"}",
        "{\"errors\": [{\"status\": 404, \"detail\": \"no such thing\"}]}",
        "<?xml version=\"1.0\"?><Response><Errors><Error><Code>X</Code><Message>no such thing</Message></Error></Errors>",
        "<e:Fault><a:faultstring lang='en'>no such thing</a:faultstring></e:Fault>",
        "{\"message\": \"no\\n\\t such\\u0001thing \"}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        skydock_http_response answer = response(400, "", bodies[i]);
        SKYDOCK_CHECK_TEXT(skydock_http_error(&answer)->message, "HTTP 400: no such thing");
    }
    static const char *const silent[] = {"", "  ", "{}", "[]", "{", "{\"message\": 1}", "{\"message\": \" \"}", "<html>x</html>", "<", "<Message", "oops"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        skydock_http_response answer = response(400, "application/json", silent[i]);
        SKYDOCK_CHECK_TEXT(skydock_http_error(&answer)->message, "HTTP 400");
    }
    skydock_http_response plain = response(400, "text/plain; charset=utf-8", "no");
    SKYDOCK_CHECK_TEXT(skydock_http_error(&plain)->message, "HTTP 400: no");
    skydock_http_response large = response(400, "text/plain", repeat("ü", 200));
    const char *message = skydock_http_error(&large)->message;
    SKYDOCK_CHECK(strlen(message) <= strlen("HTTP 400: ") + 300 && strlen(message) > 300);
    SKYDOCK_CHECK_TEXT(message + strlen(message) - 5, "ü…");
    /* No character begins here. */
    skydock_http_response bytes = response(400, "text/plain", repeat("\x80", 600));
    message = skydock_http_error(&bytes)->message;
    SKYDOCK_CHECK(strlen(message) > 300 && strlen(message) <= strlen("HTTP 400: ") + 300);
    SKYDOCK_CHECK_TEXT(message + strlen(message) - 3, "…");
}

static void a_text_is_escaped_for_a_url(void) {
    SKYDOCK_CHECK_TEXT(skydock_escape("a-Z_0.~"), "a-Z_0.~");
    SKYDOCK_CHECK_TEXT(skydock_escape("a/b?c=d&e f%ü"), "a%2Fb%3Fc%3Dd%26e%20f%25%C3%BC");
}

static const skydock_error *prepared(const char *method, const char *url, const char *header, const char *value) {
    skydock_http_request request = skydock_http(method, url);
    if (header != NULL) {
        skydock_add_pair(&request.headers, header, value);
    }
    skydock_prepared out;
    return skydock_prepare(&request, &out);
}

static void a_malformed_request_is_rejected(void) {
    skydock_http_request request = skydock_http("GET", "HTTP://cloud.example:8080?a=b#c");
    skydock_prepared out;
    SKYDOCK_CHECK_GOOD(skydock_prepare(&request, &out));
    SKYDOCK_CHECK(!out.secure);
    SKYDOCK_CHECK_TEXT(out.authority, "cloud.example:8080");
    SKYDOCK_CHECK_TEXT(out.path, "/?a=b");
    SKYDOCK_CHECK_TEXT(out.shown, "GET http://cloud.example:8080/");

    static const char *const urls[] = {NULL,          "",           "/v1",         "cloud.example/v1", "ftp://a/",       "https://",           "https:///a",
                                       "https://:80/", "https://é/", "https://a/ b", "https://a/\r\n",    "https://u:p@a/", "https://a/v1/../b", "https://a/.",
                                       "https://a/x/%2e%2E?y", "https://a/.%2e/"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        const skydock_error *error = prepared("GET", urls[i], NULL, NULL);
        SKYDOCK_CHECK(skydock_is(error, SKYDOCK_INTERNAL));
        SKYDOCK_CHECK(error == NULL || strstr(error->message, "u:p") == NULL);
    }
    SKYDOCK_CHECK_GOOD(prepared("GET", "https://a/..b/.x/...", "accept", "a\tb"));
    SKYDOCK_CHECK(skydock_is(prepared("get", "https://a/", NULL, NULL), SKYDOCK_INTERNAL));
    static const char *const headers[][2] = {{"Host", "x"}, {"content-length", "1"}, {"a b", "x"}, {"", "x"}, {"a", "x\r\nb: c"}, {"a", NULL}};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        SKYDOCK_CHECK(skydock_is(prepared("GET", "https://a/", headers[i][0], headers[i][1]), SKYDOCK_INTERNAL));
    }
}

static void requests_beyond_the_limits_of_the_host_are_rejected(void) {
    const skydock_error *error = prepared("GET", skydock_format("https://c/%s", repeat("p", 8191)), NULL, NULL);
    SKYDOCK_CHECK_GOOD(error);
    SKYDOCK_CHECK(skydock_is(prepared("GET", skydock_format("https://c/%s", repeat("p", 8192)), NULL, NULL), SKYDOCK_INTERNAL));
    SKYDOCK_CHECK_GOOD(prepared("GET", skydock_format("https://%s", repeat("c", 512)), NULL, NULL));
    SKYDOCK_CHECK(skydock_is(prepared("GET", skydock_format("https://%s", repeat("c", 513)), NULL, NULL), SKYDOCK_INTERNAL));
    SKYDOCK_CHECK_GOOD(prepared("GET", "https://c/", "a", repeat("x", 16384 - 72 - 1)));
    SKYDOCK_CHECK(skydock_is(prepared("GET", "https://c/", "a", repeat("x", 16384 - 72)), SKYDOCK_INTERNAL));
}

static void a_length_is_sent_where_a_body_is_expected(void) {
    static const struct {
        const char *method;
        const char *body;
        const char *len;
    } table[] = {{"GET", NULL, NULL}, {"DELETE", NULL, NULL}, {"DELETE", "xy", "2"}, {"POST", NULL, "0"}, {"PATCH", "{}", "2"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        skydock_http_request request = skydock_http_json(table[i].method, "https://c/", table[i].body);
        skydock_prepared out;
        SKYDOCK_CHECK_GOOD(skydock_prepare(&request, &out));
        SKYDOCK_CHECK_TEXT(skydock_lookup(out.headers, "content-length"), table[i].len);
    }
}

static void a_request_ends_before_its_call(void) {
    skydock_http_request request = {0};
    SKYDOCK_CHECK(skydock_http_limit(&request, 30000) == 29000);
    SKYDOCK_CHECK(skydock_http_limit(&request, 500) == 0);
    request.timeout_ms = 5000;
    SKYDOCK_CHECK(skydock_http_limit(&request, 30000) == 5000);
    SKYDOCK_CHECK(skydock_http_limit(&request, 3000) == 2000);
}

static void echo(const skydock_http_request *request, skydock_http_response *answer, void *data) {
    (void)data;
    answer->body = skydock_bytes_of(skydock_format("%s %s", request->method, request->url));
}

static void each_request_has_its_own_answer(void) {
    skydock_test_host *host = skydock_test_begin();
    host->http = echo;
    skydock_http_request requests[] = {skydock_http("GET", "http://a/1"), {.error = skydock_invalid("not sent")}, skydock_http("GET", "nowhere"),
                                       skydock_http("PUT", "http://a/2")};
    requests[3].max_body = 3;
    skydock_http_response answers[4];
    skydock_http_send_all(requests, 4, answers);
    SKYDOCK_CHECK_TEXT(answers[0].body.data, "GET http://a/1");
    SKYDOCK_CHECK(skydock_is(answers[1].error, SKYDOCK_INVALID));
    SKYDOCK_CHECK(skydock_is(answers[2].error, SKYDOCK_INTERNAL));
    SKYDOCK_CHECK(skydock_is(answers[3].error, SKYDOCK_INTERNAL));
    SKYDOCK_CHECK(host->request_count == 2);
    host->remaining_ms = 900;
    skydock_http_send(&requests[0], &answers[0]);
    SKYDOCK_CHECK(skydock_is(answers[0].error, SKYDOCK_UNAVAILABLE));
    host->http = NULL;
    host->remaining_ms = 30000;
    skydock_http_send(&requests[0], &answers[0]);
    SKYDOCK_CHECK(skydock_is(answers[0].error, SKYDOCK_DENIED));
}

static void the_host_of_tests_keeps_what_a_plugin_does(void) {
    skydock_test_host *host = skydock_test_begin();
    skydock_add_string(&host->writable_prefix, "cloud.example/");
    skydock_add_pair(&host->objects, "v1/Secret kube-system/x", "{}");
    SKYDOCK_CHECK(skydock_event("n1", SKYDOCK_WARNING, "Odd", "%d times", 3));
    SKYDOCK_CHECK_TEXT(host->events.items[0], "n1 Odd: 3 times");
    SKYDOCK_CHECK(skydock_annotate("shop/web", "cloud.example/a", "1") && skydock_annotate("shop/web", "cloud.example/a", NULL));
    SKYDOCK_CHECK(!skydock_annotate("shop/web", "other/a", "1"));
    SKYDOCK_CHECK_TEXT(host->annotations.items[0], "shop/web cloud.example/a=1");
    SKYDOCK_CHECK_TEXT(host->annotations.items[1], "shop/web cloud.example/a");
    const char *json;
    SKYDOCK_CHECK(skydock_read_object("v1/Secret", "kube-system", "x", &json) == SKYDOCK_READ);
    SKYDOCK_CHECK(skydock_read_object("v1/Secret", "kube-system", "y", &json) == SKYDOCK_READ_NOT_GRANTED);
    skydock_retire();
    SKYDOCK_CHECK(host->retired);
    skydock_log(SKYDOCK_LOG_INFO, "not %s", "shown");

    skydock_bytes value;
    SKYDOCK_CHECK(skydock_cache_reserve("a", skydock_bytes_of("1"), 1000, &value));
    skydock_test_next_call();
    SKYDOCK_CHECK(!skydock_cache_reserve("a", skydock_bytes_of("2"), 1000, &value));
    SKYDOCK_CHECK_TEXT(value.data, "1");
    SKYDOCK_CHECK(skydock_cache_set("a", skydock_bytes_of("3"), 1000) && skydock_cache_get("a", &value));
    SKYDOCK_CHECK_TEXT(value.data, "3");
    skydock_cache_remove("a");
    SKYDOCK_CHECK(!skydock_cache_get("a", &value) && !skydock_cache_set("", value, 1000));
}

static void a_set_of_nodes_has_targets(void) {
    skydock_node nodes[] = {{.name = "n1", .provider_id = "c://1"}, {.name = "n2"}};
    skydock_add_pair(&nodes[0].labels, "topology.kubernetes.io/zone", "z");
    skydock_node_changes changes = {.added_count = 1}, found = {0};
    const skydock_node_set *set = skydock_test_nodes(nodes, 2, &changes);
    size_t count;
    const skydock_target *targets = skydock_node_set_targets(set, &count);
    SKYDOCK_CHECK(count == 2 && skydock_node_set_size(set) == 2);
    SKYDOCK_CHECK_TEXT(targets[0].provider_id, "c://1");
    SKYDOCK_CHECK_TEXT(targets[0].zone, "z");
    SKYDOCK_CHECK_TEXT(targets[1].zone, NULL);
    SKYDOCK_CHECK(skydock_node_set_changes(set, &found) && found.added_count == 1);
    SKYDOCK_CHECK(!skydock_node_set_changes(skydock_test_nodes(nodes, 2, NULL), &found));
    SKYDOCK_CHECK(skydock_node_set_nodes(set, &count) == nodes && count == 2);
}

#define TEST(NAME) {#NAME, NAME}

int main(void) {
    static const skydock_test_case tests[] = {
        TEST(texts_and_lists_grow),
        TEST(a_list_is_copied_unless_it_has_room),
        TEST(lists_about_volumes_grow),
        TEST(memory_is_aligned_and_set_to_zero),
        TEST(what_is_kept_outlives_a_call),
        TEST(an_error_has_a_case_and_a_text),
        TEST(json_is_read),
        TEST(json_that_is_not_valid_is_rejected_with_its_place),
        TEST(json_is_at_most_64_levels_deep),
        TEST(json_is_compared_by_its_meaning),
        TEST(a_quoted_text_is_read_back),
        TEST(each_status_is_an_error),
        TEST(retry_after_sets_the_delay),
        TEST(an_error_contains_the_message_of_the_cloud),
        TEST(a_text_is_escaped_for_a_url),
        TEST(a_malformed_request_is_rejected),
        TEST(requests_beyond_the_limits_of_the_host_are_rejected),
        TEST(a_length_is_sent_where_a_body_is_expected),
        TEST(a_request_ends_before_its_call),
        TEST(each_request_has_its_own_answer),
        TEST(the_host_of_tests_keeps_what_a_plugin_does),
        TEST(a_set_of_nodes_has_targets),
    };
    return skydock_test_run(tests, sizeof tests / sizeof *tests);
}
