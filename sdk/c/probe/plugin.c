/* A plugin that uses the C library in each call, for the conformance kit: what WASI's adapter keeps must survive from one call to the next. Its
 * volumes are in volumes.c. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "skydock/skydock.h"

void plugin_info(skydock_info *info) {
    info->name = "probe";
    info->version = "0.1.0";
    skydock_add_string(&info->provider_id_prefixes, "probe://");
}

const skydock_error *plugin_configure(const skydock_settings *settings) {
    const skydock_json *json;
    bool is_valid = settings->cloud_config == NULL || skydock_json_parse(skydock_bytes_of(settings->cloud_config), &json) == NULL;
    return is_valid ? NULL : skydock_invalid("%s: expected JSON", settings->cloud_config_path);
}

static const skydock_error *use_the_library(void) {
    printf("%ld\n", (long)time(NULL));
    fprintf(stderr, "%s\n", getenv("HOME") == NULL ? "no home" : "a home");
    fflush(stdout);
    return fopen("/etc/hostname", "r") == NULL ? NULL : skydock_internal("there is a file");
}

const skydock_error *instances_check(const skydock_node *nodes, size_t count, skydock_presence_answer *answers) {
    (void)nodes;
    for (size_t i = 0; i < count; i++) {
        answers[i].error = use_the_library();
    }
    return NULL;
}

const skydock_error *instances_describe(const skydock_node *nodes, size_t count, skydock_instance_answer *answers) {
    for (size_t i = 0; i < count; i++) {
        answers[i].error = use_the_library();
        const char *id = nodes[i].provider_id;
        answers[i].instance.provider_id = id != NULL ? id : skydock_format("probe://%s", nodes[i].name);
    }
    return NULL;
}
