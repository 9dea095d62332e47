/* Routes to the Pods of nodes. */
#include <string.h>

#include "simcloud.h"

#define KIND "routes"

/* The node to which a route leads: that of the server. The name in the label may be that of another server by now, so it counts only until
 * the node has a provider ID. */
static const char *target_of(const skydock_json *route, const skydock_node *nodes, size_t count) {
    const char *target = text_of(route, "target"), *label = text_of(skydock_json_get(route, "labels"), "node");
    for (size_t i = 0; i < count; i++) {
        const char *id = nodes[i].provider_id;
        if (id == NULL ? skydock_same(nodes[i].name, label) : skydock_same(server_id(id), target)) {
            return nodes[i].name;
        }
    }
    return NULL;
}

/* The token of a page is the cloud's. */
const skydock_error *routes_list(const char *page, skydock_route_page *answer) {
    const char *cluster;
    const skydock_error *error = cluster_uid(&cluster);
    if (error != NULL) {
        return error;
    }
    const char *label = skydock_escape(skydock_format("cluster=%s", cluster));
    const char *url = skydock_format("%s?label=%s&limit=100", list_url(KIND), label);
    if (page != NULL) {
        url = skydock_format("%s&page_token=%s", url, skydock_escape(page));
    }
    const skydock_json *body;
    error = ask(skydock_http("GET", url), &body);
    if (error != NULL) {
        return error;
    }
    const skydock_json *items = skydock_json_get(body, "items");
    if (skydock_json_kind_of(items) != SKYDOCK_JSON_ARRAY) {
        return skydock_internal("the answer is not a list of routes");
    }
    size_t count;
    const skydock_node *nodes = skydock_cluster_nodes(&count);
    for (const skydock_json *route = skydock_json_first(items); route != NULL; route = skydock_json_next(route)) {
        /* It leads to a server, and not to an address: it may stay if that changes. */
        skydock_add_route(answer, (skydock_route){
                                      .name = text_of(route, "id"),
                                      .target_node = target_of(route, nodes, count),
                                      .destination_cidr = text_of(route, "cidr"),
                                      .blackhole = skydock_json_true(skydock_json_get(route, "blackhole")),
                                  });
    }
    answer->next = skydock_json_string(skydock_json_get(body, "next"));
    return NULL;
}

/* The route to create. The name follows from the node's UID and the IP family, of which a node has one CIDR each. */
static const skydock_error *wanted_for(const skydock_new_route *route, const char *cluster, const char **wanted) {
    if (route->target_provider_id == NULL) {
        return skydock_not_found("the node %s has no provider ID yet", route->target_node);
    }
    const char *target = server_id(route->target_provider_id);
    if (target == NULL) {
        return skydock_invalid("%s is not a valid provider ID", route->target_provider_id);
    }
    const char *family = strchr(route->destination_cidr, ':') != NULL ? "ipv6" : "ipv4";
    *wanted = skydock_format("{\"name\": %s, \"cidr\": %s, \"target\": %s, \"labels\": {\"cluster\": %s, \"node\": %s}}",
                             skydock_json_quote(skydock_format("k8s-%s-%s", route->name_hint, family)),
                             skydock_json_quote(route->destination_cidr), skydock_json_quote(target), skydock_json_quote(cluster),
                             skydock_json_quote(route->target_node));
    return NULL;
}

/* Reads the answer to a create. A route with the same name may be the one of an earlier create whose answer was lost, or that the list did
 * not show yet. */
static const skydock_error *created(const char *wanted, const skydock_http_response *response) {
    const char *id = skydock_json_string(skydock_json_get(problem(response, 409, "exists"), "id"));
    if (id == NULL) {
        return skydock_http_error(response);
    }
    const skydock_json *existing, *spec;
    const skydock_error *error = ask(skydock_http("GET", object_url(KIND, id)), &existing);
    error = error == NULL ? skydock_json_parse(skydock_bytes_of(wanted), &spec) : error;
    if (error != NULL) {
        return error;
    }
    for (const skydock_json *field = skydock_json_first(spec); field != NULL; field = skydock_json_next(field)) {
        if (!skydock_json_same(skydock_json_get(existing, skydock_json_name(field)), field)) {
            return skydock_conflict("the route %s is in the way", id);
        }
    }
    return NULL;
}

void routes_create(const skydock_new_route *routes, size_t count, const skydock_error **answers) {
    const char *cluster, **wanted = skydock_alloc(count * sizeof *wanted);
    skydock_http_request *requests = skydock_alloc(count * sizeof *requests);
    skydock_http_response *responses = skydock_alloc(count * sizeof *responses);
    const skydock_error *error = cluster_uid(&cluster);
    for (size_t i = 0; i < count; i++) {
        const skydock_error *wrong = error != NULL ? error : wanted_for(&routes[i], cluster, &wanted[i]);
        requests[i] = skydock_http_json("POST", list_url(KIND), wanted[i]);
        requests[i].error = wrong;
    }
    skydock_http_send_all(requests, count, responses);
    for (size_t i = 0; i < count; i++) {
        answers[i] = created(wanted[i], &responses[i]);
    }
}

void routes_delete(const skydock_route *routes, size_t count, const skydock_error **answers) {
    skydock_http_request *requests = skydock_alloc(count * sizeof *requests);
    skydock_http_response *responses = skydock_alloc(count * sizeof *responses);
    for (size_t i = 0; i < count; i++) {
        requests[i] = skydock_http("DELETE", object_url(KIND, routes[i].name));
    }
    skydock_http_send_all(requests, count, responses);
    for (size_t i = 0; i < count; i++) {
        answers[i] = deleted(&responses[i]);
    }
}
