/* Requests to the cloud. */
#include <string.h>

#include "simcloud.h"

const char *list_url(const char *kind) {
    return skydock_format("%s/v1/%s", cloud_url, kind);
}

const char *object_url(const char *kind, const char *id) {
    return skydock_format("%s/%s", list_url(kind), skydock_escape(id));
}

const char *named_url(const char *kind, const char *name) {
    return skydock_format("%s?name=%s", list_url(kind), skydock_escape(name));
}

const skydock_error *read_json(const skydock_http_response *response, const skydock_json **json) {
    const skydock_error *error = skydock_http_error(response);
    return error != NULL ? error : skydock_json_parse(response->body, json);
}

const skydock_error *ask(skydock_http_request request, const skydock_json **json) {
    skydock_http_response response;
    skydock_http_send(&request, &response);
    return read_json(&response, json);
}

/* The status alone is not enough: a proxy, or a wrong URL, answers 404, too. */
const skydock_json *problem(const skydock_http_response *response, int status, const char *code) {
    const skydock_json *body;
    if (response->error != NULL || response->status != status || skydock_json_parse(response->body, &body) != NULL) {
        return NULL;
    }
    return skydock_same(skydock_json_string(skydock_json_get(body, "code")), code) ? body : NULL;
}

const skydock_error *deleted(const skydock_http_response *response) {
    return problem(response, 404, "not_found") != NULL ? NULL : skydock_http_error(response);
}

const char *text_of(const skydock_json *object, const char *name) {
    const char *text = skydock_json_string(skydock_json_get(object, name));
    return text == NULL ? "" : text;
}

const char *server_id(const char *provider_id) {
    const char *zone = skydock_after(provider_id, SCHEME "/");
    const char *id = zone == NULL ? NULL : strchr(zone, '/');
    return id == NULL || id[1] == '\0' || strchr(id + 1, '/') != NULL ? NULL : id + 1;
}

const skydock_error *cluster_uid(const char **uid) {
    *uid = skydock_cluster_uid();
    return *uid == NULL ? skydock_unavailable("the UID of the cluster is not known yet") : NULL;
}

bool owns(const skydock_json *object, const char *cluster) {
    const char *owner = skydock_json_string(skydock_json_get(skydock_json_get(object, "labels"), "cluster"));
    return owner == NULL || skydock_same(owner, cluster);
}
