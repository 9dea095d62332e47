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
        /* Only a new node has no provider ID, and is looked up by its name. */
        const char *id = nodes[i].provider_id;
        const char *rack = skydock_lookup(nodes[i].labels, "my-cloud.example/rack");
        answers[i].instance.provider_id = id != NULL ? id : skydock_format("my-cloud://%s", nodes[i].name);
        answers[i].instance.zone = rack != NULL ? rack : "rack-1";
        answers[i].instance.region = region;
    }
    return NULL;
}
