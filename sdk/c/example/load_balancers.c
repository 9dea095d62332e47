/* Load balancers of Services. Each has a name that follows from the Service's UID: a create whose answer was lost is found by it. */
#include "simcloud.h"

/* When to look again at a load balancer that is being created. */
#define CREATING_MS 1000
#define KIND "load-balancers"

static const char *name_of(const skydock_service *service) {
    return skydock_format("k8s-%s", service->uid);
}

/* The load balancer with the name, or NULL. */
static const skydock_error *find(const skydock_service *service, const skydock_json **found) {
    const skydock_json *page;
    const skydock_error *error = ask(skydock_http("GET", named_url(KIND, name_of(service))), &page);
    *found = NULL;
    if (error != NULL) {
        return error;
    }
    const skydock_json *items = skydock_json_get(page, "items");
    if (skydock_json_kind_of(items) != SKYDOCK_JSON_ARRAY) {
        return skydock_internal("the answer is not a list of load balancers");
    }
    *found = skydock_json_first(items);
    return NULL;
}

/* As `find`, without those of other clusters. */
static const skydock_error *find_own(const skydock_service *service, const skydock_json **found) {
    const char *cluster;
    const skydock_error *error = cluster_uid(&cluster);
    error = error == NULL ? find(service, found) : error;
    if (error == NULL && *found != NULL && !owns(*found, cluster)) {
        *found = NULL;
    }
    return error;
}

/* The IDs of the nodes' servers as JSON. Nodes without a provider ID come with a later call; others are another cloud's. */
static const char *targets_of(const skydock_node_set *nodes) {
    skydock_text text = {0};
    size_t count;
    const skydock_target *targets = skydock_node_set_targets(nodes, &count);
    for (size_t i = 0; i < count; i++) {
        const char *id = server_id(targets[i].provider_id);
        if (id != NULL) {
            skydock_append(&text, "%s%s", text.len == 0 ? "" : ", ", skydock_json_quote(id));
        }
    }
    return skydock_format("[%s]", text.len == 0 ? "" : text.text);
}

static const skydock_error *listeners_of(const skydock_service *service, skydock_text *text) {
    for (size_t i = 0; i < service->port_count; i++) {
        const skydock_service_port *port = &service->ports[i];
        if (port->transport == SKYDOCK_SCTP) {
            return skydock_invalid("port %d: SCTP is not supported", port->port);
        }
        if (port->node_port == 0) {
            return skydock_invalid("port %d has no node port: set allocateLoadBalancerNodePorts", port->port);
        }
        skydock_append(text, "%s{\"protocol\": \"%s\", \"port\": %d, \"target_port\": %d}", i == 0 ? "" : ", ",
                       port->transport == SKYDOCK_TCP ? "tcp" : "udp", port->port, port->node_port);
    }
    return NULL;
}

/* The load balancer that a Service asks for. */
static const skydock_error *wanted_for(const skydock_service *service, const skydock_node_set *nodes, const skydock_json **wanted) {
    if (service->load_balancer_ip != NULL) {
        return skydock_invalid("the address %s cannot be requested: remove loadBalancerIP", service->load_balancer_ip);
    }
    const char *cluster;
    skydock_text listeners = {0}, families = {0}, cidrs = {0};
    const skydock_error *error = cluster_uid(&cluster);
    error = error == NULL ? listeners_of(service, &listeners) : error;
    if (error != NULL) {
        return error;
    }
    for (size_t i = 0; i < service->ip_family_count; i++) {
        skydock_append(&families, "%s\"%s\"", i == 0 ? "" : ", ", service->ip_families[i] == SKYDOCK_IPV4 ? "ipv4" : "ipv6");
    }
    for (size_t i = 0; i < service->source_ranges.len; i++) {
        skydock_append(&cidrs, "%s%s", i == 0 ? "" : ", ", skydock_json_quote(service->source_ranges.items[i]));
    }
    bool is_local = service->external_traffic_policy == SKYDOCK_LOCAL && service->health_check_node_port != 0;
    const char *owner = skydock_format("%s/%s", service->namespace_, service->name);
    skydock_text text = {0};
    skydock_append(&text, "{\"name\": %s, \"ip_families\": [%s], \"listeners\": [%s], \"targets\": %s, \"allowed_cidrs\": [%s], ",
                   skydock_json_quote(name_of(service)), families.len == 0 ? "" : families.text, listeners.len == 0 ? "" : listeners.text,
                   targets_of(nodes), cidrs.len == 0 ? "" : cidrs.text);
    skydock_append(&text, "\"health_check_port\": %s, \"labels\": {\"cluster\": %s, \"service\": %s}}",
                   is_local ? skydock_format("%d", service->health_check_node_port) : "null", skydock_json_quote(cluster),
                   skydock_json_quote(owner));
    return skydock_json_parse(skydock_bytes_of(text.text), wanted);
}

/* Checks that the load balancer is neither being created nor broken. */
static const skydock_error *settled(const skydock_json *current) {
    const char *status = text_of(current, "status"), *id = text_of(current, "id");
    if (skydock_same(status, "active")) {
        return NULL;
    }
    if (skydock_same(status, "pending")) {
        return skydock_in_progress(CREATING_MS, "the load balancer %s is being created", id);
    }
    return skydock_unavailable("the load balancer %s is broken: create the Service again", id);
}

/* Sends those of the fields that are different from the current state, if there are any. */
static const skydock_error *update(const skydock_json **current, const skydock_json *wanted, const char *const *fields, size_t count) {
    skydock_text changes = {0};
    for (size_t i = 0; i < count; i++) {
        const skydock_json *value = skydock_json_get(wanted, fields[i]);
        if (!skydock_json_same(skydock_json_get(*current, fields[i]), value)) {
            skydock_append(&changes, "%s\"%s\": %s", changes.len == 0 ? "{" : ", ", fields[i], skydock_json_text(value));
        }
    }
    if (changes.len == 0) {
        return NULL;
    }
    skydock_append(&changes, "}");
    return ask(skydock_http_json("PATCH", object_url(KIND, text_of(*current, "id")), changes.text), current);
}

static void read_status(const skydock_json *current, skydock_load_balancer_status *status) {
    const skydock_json *address = skydock_json_first(skydock_json_get(current, "addresses"));
    for (; address != NULL; address = skydock_json_next(address)) {
        skydock_add_ingress_ip(status, skydock_json_string(address), SKYDOCK_IP_MODE_DEFAULT);
    }
}

const skydock_error *load_balancers_get(const skydock_service *service, bool *exists, skydock_load_balancer_status *status) {
    const skydock_json *found;
    const skydock_error *error = find_own(service, &found);
    if (error == NULL && found != NULL) {
        *exists = true;
        read_status(found, status);
    }
    return error;
}

const skydock_error *load_balancers_ensure(const skydock_service *service, const skydock_node_set *nodes,
                                           skydock_load_balancer_status *status) {
    static const char *const fields[] = {"listeners", "targets", "allowed_cidrs", "health_check_port", "labels"};
    const skydock_json *wanted, *current;
    const skydock_error *error = wanted_for(service, nodes, &wanted);
    error = error == NULL ? find(service, &current) : error;
    if (error != NULL) {
        return error;
    }
    const char *cluster = text_of(skydock_json_get(wanted, "labels"), "cluster");
    if (current == NULL) {
        /* If another host creates it at the same time, this is a conflict, and the retry finds it. */
        error = ask(skydock_http_json("POST", list_url(KIND), skydock_json_text(wanted)), &current);
    } else if (!owns(current, cluster)) {
        error = skydock_invalid("the load balancer %s is another cluster's", text_of(current, "id"));
    }
    error = error == NULL ? settled(current) : error;
    if (error == NULL && !skydock_json_same(skydock_json_get(current, "ip_families"), skydock_json_get(wanted, "ip_families"))) {
        error = skydock_invalid("the IP families of a load balancer cannot be changed: create the Service again");
    }
    error = error == NULL ? update(&current, wanted, fields, sizeof fields / sizeof *fields) : error;
    if (error == NULL) {
        read_status(current, status);
    }
    return error;
}

const skydock_error *load_balancers_update_nodes(const skydock_service *service, const skydock_node_set *nodes) {
    static const char *const fields[] = {"targets"};
    const skydock_json *wanted, *current;
    const skydock_error *error = find_own(service, &current);
    if (error == NULL && current == NULL) {
        return skydock_not_found("no load balancer %s", name_of(service));
    }
    error = error == NULL ? settled(current) : error;
    if (error == NULL) {
        error = skydock_json_parse(skydock_bytes_of(skydock_format("{\"targets\": %s}", targets_of(nodes))), &wanted);
    }
    return error == NULL ? update(&current, wanted, fields, 1) : error;
}

const skydock_error *load_balancers_ensure_deleted(const skydock_service *service) {
    const skydock_json *current;
    const skydock_error *error = find_own(service, &current);
    if (error != NULL || current == NULL) {
        return error;
    }
    skydock_http_request request = skydock_http("DELETE", object_url(KIND, text_of(current, "id")));
    skydock_http_response response;
    skydock_http_send(&request, &response);
    return deleted(&response);
}
