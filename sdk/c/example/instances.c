/* Servers behind nodes. */
#include "simcloud.h"

/* What was found for a node: a server, or an error. Without either, the cloud is certain that there is no such server. */
struct found {
    const skydock_error *error;
    const skydock_json *server;
};

static const skydock_error *no_server(const skydock_node *node) {
    return skydock_not_found("no server belongs to the node %s", node->name);
}

static skydock_http_request request_for(const skydock_node *node) {
    if (node->provider_id == NULL) {
        return skydock_http("GET", named_url("servers", node->name));
    }
    const char *id = server_id(node->provider_id);
    if (id == NULL) {
        return (skydock_http_request){.error = skydock_invalid("%s is not a valid provider ID", node->provider_id)};
    }
    return skydock_http("GET", object_url("servers", id));
}

static struct found read_answer(const skydock_node *node, const skydock_http_response *response) {
    struct found found = {0};
    if (node->provider_id != NULL && problem(response, 404, "not_found") != NULL) {
        return found;
    }
    const skydock_json *body;
    found.error = read_json(response, &body);
    if (found.error != NULL) {
        return found;
    }
    if (node->provider_id != NULL) {
        found.server = body;
        return found;
    }
    const skydock_json *items = skydock_json_get(body, "items");
    if (skydock_json_count(items) > 1) {
        found.error = skydock_invalid("%zu servers have the name %s: rename all but one", skydock_json_count(items), node->name);
    } else if (skydock_json_kind_of(items) != SKYDOCK_JSON_ARRAY) {
        found.error = skydock_internal("the answer is not a list of servers");
    }
    found.server = skydock_json_first(items);
    return found;
}

/* Finds the server of each node: by its provider ID, or else by its name. */
static const struct found *find(const skydock_node *nodes, size_t count) {
    skydock_http_request *requests = skydock_alloc(count * sizeof *requests);
    skydock_http_response *responses = skydock_alloc(count * sizeof *responses);
    struct found *found = skydock_alloc(count * sizeof *found);
    for (size_t i = 0; i < count; i++) {
        requests[i] = request_for(&nodes[i]);
    }
    skydock_http_send_all(requests, count, responses);
    for (size_t i = 0; i < count; i++) {
        found[i] = read_answer(&nodes[i], &responses[i]);
    }
    return found;
}

const skydock_error *instances_check(const skydock_node *nodes, size_t count, skydock_presence_answer *answers) {
    const struct found *found = find(nodes, count);
    for (size_t i = 0; i < count; i++) {
        const char *state = text_of(found[i].server, "state");
        answers[i].error = found[i].error;
        if (found[i].error != NULL) {
            continue;
        }
        if (found[i].server == NULL && nodes[i].provider_id != NULL) {
            answers[i].presence = SKYDOCK_ABSENT;
        } else if (found[i].server == NULL) {
            /* Its server may have another name. */
            answers[i].error = no_server(&nodes[i]);
        } else if (skydock_same(state, "running")) {
            answers[i].presence = SKYDOCK_RUNNING;
        } else if (skydock_same(state, "stopped")) {
            answers[i].presence = SKYDOCK_STOPPED;
        } else {
            answers[i].error = skydock_internal("the state of the server of the node %s is not known", nodes[i].name);
        }
    }
    return NULL;
}

static const skydock_error *describe(const skydock_node *node, const struct found *found, skydock_instance *instance) {
    const skydock_json *server = found->server;
    if (found->error != NULL) {
        return found->error;
    }
    if (server == NULL) {
        return no_server(node);
    }
    const char *id = text_of(server, "id"), *zone = text_of(server, "zone"), *region = text_of(server, "region");
    if (!skydock_same(region, cloud_region)) {
        return skydock_not_found("the server %s is in another region: %s", id, region);
    }
    instance->provider_id = skydock_format(SCHEME "/%s/%s", zone, id);
    instance->instance_type = text_of(server, "type");
    instance->zone = zone;
    instance->region = region;
    const skydock_json *address = skydock_json_first(skydock_json_get(server, "addresses"));
    for (; address != NULL; address = skydock_json_next(address)) {
        bool is_external = skydock_same(text_of(address, "kind"), "external");
        skydock_add_address(&instance->addresses, is_external ? SKYDOCK_EXTERNAL_IP : SKYDOCK_INTERNAL_IP, text_of(address, "address"));
    }
    skydock_add_address(&instance->addresses, SKYDOCK_HOSTNAME, text_of(server, "name"));
    return NULL;
}

const skydock_error *instances_describe(const skydock_node *nodes, size_t count, skydock_instance_answer *answers) {
    const struct found *found = find(nodes, count);
    for (size_t i = 0; i < count; i++) {
        answers[i].error = describe(&nodes[i], &found[i], &answers[i].instance);
    }
    return NULL;
}
