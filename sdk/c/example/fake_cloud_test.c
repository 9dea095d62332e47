#include <string.h>

#include "fake_cloud_test.h"

static const skydock_json *parse(const char *text) {
    const skydock_json *json;
    SKYDOCK_CHECK_GOOD(skydock_json_parse(skydock_bytes_of(text), &json));
    return json;
}

static const char *member(const skydock_json *json, const char *name) {
    return skydock_json_string(skydock_json_get(json, name));
}

static size_t find(const struct fake_cloud *cloud, const char *kind, const char *id) {
    size_t at = 0;
    while (at < cloud->count && !(skydock_same(cloud->objects[at].kind, kind) && skydock_same(member(cloud->objects[at].json, "id"), id))) {
        at++;
    }
    return at;
}

const skydock_json *fake_cloud_get(const struct fake_cloud *cloud, const char *kind, const char *id) {
    size_t at = find(cloud, kind, id);
    return at < cloud->count ? cloud->objects[at].json : NULL;
}

static void append_field(skydock_text *text, const skydock_json *field) {
    skydock_append(text, ", %s: %s", skydock_json_quote(skydock_json_name(field)), skydock_json_text(field));
}

void fake_cloud_set(struct fake_cloud *cloud, const char *kind, const char *id, const char *fields) {
    size_t at = find(cloud, kind, id);
    skydock_text text = {0};
    skydock_append(&text, "{\"id\": %s", skydock_json_quote(id));
    const skydock_json *changes = parse(fields), *old = at < cloud->count ? cloud->objects[at].json : NULL;
    for (const skydock_json *field = skydock_json_first(old); field != NULL; field = skydock_json_next(field)) {
        if (!skydock_same(skydock_json_name(field), "id") && skydock_json_get(changes, skydock_json_name(field)) == NULL) {
            append_field(&text, field);
        }
    }
    for (const skydock_json *field = skydock_json_first(changes); field != NULL; field = skydock_json_next(field)) {
        append_field(&text, field);
    }
    skydock_append(&text, "}");
    cloud->objects[at].kind = kind;
    cloud->objects[at].json = parse(text.text);
    cloud->count += at == cloud->count;
}

static void answer(skydock_http_response *response, int status, const char *body) {
    response->status = status;
    response->body = skydock_bytes_of(body);
    skydock_add_pair(&response->headers, "content-type", "application/json");
}

static void list(struct fake_cloud *cloud, const char *kind, const char *query, skydock_http_response *response) {
    skydock_text items = {0};
    const char *name = skydock_after(query, "?name=");
    for (size_t i = 0; i < cloud->count; i++) {
        const skydock_json *json = cloud->objects[i].json;
        if (skydock_same(cloud->objects[i].kind, kind) && (name == NULL || skydock_same(name, member(json, "name")))) {
            skydock_append(&items, "%s%s", items.len == 0 ? "" : ", ", skydock_json_text(json));
        }
    }
    answer(response, 200, skydock_format("{\"items\": [%s], \"next\": null}", items.len == 0 ? "" : items.text));
}

static void create(struct fake_cloud *cloud, const char *kind, const char *body, skydock_http_response *response) {
    const char *name = member(parse(body), "name");
    for (size_t i = 0; i < cloud->count; i++) {
        if (skydock_same(cloud->objects[i].kind, kind) && skydock_same(member(cloud->objects[i].json, "name"), name)) {
            const char *id = member(cloud->objects[i].json, "id");
            answer(response, 409, skydock_format("{\"code\": \"exists\", \"message\": \"it exists\", \"id\": %s}", skydock_json_quote(id)));
            return;
        }
    }
    const char *id = skydock_format("new-%zu", cloud->count);
    fake_cloud_set(cloud, kind, id, "{\"blackhole\": false, \"addresses\": [\"198.19.0.1\"]}");
    fake_cloud_set(cloud, kind, id, skydock_format("{\"status\": %s}", skydock_json_quote(cloud->new_status)));
    fake_cloud_set(cloud, kind, id, body);
    answer(response, 201, skydock_json_text(fake_cloud_get(cloud, kind, id)));
    if (cloud->loses_answer) {
        cloud->loses_answer = false;
        response->error = skydock_unavailable("the connection was closed");
    }
}

static void handle(const skydock_http_request *request, skydock_http_response *response, void *data) {
    struct fake_cloud *cloud = data;
    const char *path = skydock_after(request->url, FAKE_URL "/v1/");
    size_t len = path == NULL ? 0 : strcspn(path, "/?");
    const char *kind = skydock_format("%.*s", (int)len, path == NULL ? "" : path), *id = path != NULL && path[len] == '/' ? path + len + 1 : NULL;
    skydock_append(&cloud->calls, "%s %s ", request->method, kind);
    if (cloud->broken_status != 0) {
        answer(response, cloud->broken_status, "<html>no such page</html>");
    } else if (id == NULL && skydock_same(request->method, "GET")) {
        list(cloud, kind, path + len, response);
    } else if (id == NULL) {
        create(cloud, kind, request->body.data, response);
    } else if (fake_cloud_get(cloud, kind, id) == NULL) {
        answer(response, 404, "{\"code\": \"not_found\", \"message\": \"there is nothing\", \"field\": null}");
    } else if (skydock_same(request->method, "DELETE")) {
        cloud->objects[find(cloud, kind, id)].kind = "gone";
        answer(response, 204, "");
    } else {
        if (skydock_same(request->method, "PATCH")) {
            fake_cloud_set(cloud, kind, id, request->body.data);
        }
        answer(response, 200, skydock_json_text(fake_cloud_get(cloud, kind, id)));
    }
}

void fake_cloud_start(struct fake_cloud *cloud, skydock_test_host *host) {
    *cloud = (struct fake_cloud){.new_status = "active"};
    for (int i = 1; i <= 2; i++) {
        const char *text = "{\"name\": \"node-%d\", \"state\": \"%s\", \"type\": \"small\", \"zone\": \"zone-a\", \"region\": \"sim\", \"addresses\": "
                           "[{\"kind\": \"internal\", \"address\": \"10.0.0.%d\"}, {\"kind\": \"external\", \"address\": \"198.18.0.%d\"}]}";
        fake_cloud_set(cloud, "servers", skydock_format("srv-%d", i), skydock_format(text, i, i == 1 ? "running" : "stopped", i, i));
    }
    host->http = handle;
    host->http_data = cloud;
}
