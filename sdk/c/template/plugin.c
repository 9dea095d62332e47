/* A cloud provider with instances. Query your cloud (skydock_http_send_all) instead of the node's labels. */
#include <string.h>

#include "skydock/skydock.h"

static const char *region;

void plugin_info(skydock_info *info) {
    info->name = "my-cloud";
    info->version = "0.1.0";
    skydock_add_string(&info->provider_id_prefixes, "my-cloud://");
}

/* The region is the only option. */
const skydock_error *plugin_configure(const skydock_settings *settings) {
    const char *option = skydock_lookup(settings->options, "region");
    if (option != NULL && strpbrk(option, " /") != NULL) {
        return skydock_invalid("option region: expected a label value, for example north");
    }
    region = skydock_keep(option);
    return NULL;
}

/* Skydock deletes nodes that are reported as absent: only report what the cloud has confirmed. */
const skydock_error *instances_check(const skydock_node *nodes, size_t count, skydock_presence_answer *answers) {
    (void)nodes;
    for (size_t i = 0; i < count; i++) {
        answers[i].presence = SKYDOCK_RUNNING;
    }
    return NULL;
}

const skydock_error *instances_describe(const skydock_node *nodes, size_t count, skydock_instance_answer *answers) {
    for (size_t i = 0; i < count; i++) {
        const char *rack = skydock_lookup(nodes[i].labels, "my-cloud.example/rack");
        if (rack == NULL) {
            answers[i].error = skydock_not_found("the node %s has no rack label", nodes[i].name);
            continue;
        }
        answers[i].instance.provider_id = skydock_format("my-cloud://%s/%s", rack, nodes[i].name);
        answers[i].instance.zone = rack;
        answers[i].instance.region = region;
    }
    return NULL;
}
