/* The provider: its identity and its configuration. */
#include <stdlib.h>
#include <string.h>

#include "simcloud.h"

const char *cloud_url;
const char *cloud_region;

void plugin_info(skydock_info *info) {
    info->name = "simcloud";
    info->version = "0.1.0-c";
    skydock_add_string(&info->provider_id_prefixes, SCHEME);
    if (cloud_url != NULL) {
        skydock_add_string(&info->wanted_hosts, cloud_url);
    }
}

/* A URL with a port, and without a path. */
static bool is_url(const char *url) {
    const char *host = skydock_after(url, "https://");
    host = host == NULL ? skydock_after(url, "http://") : host;
    const char *colon = host == NULL ? NULL : strrchr(host, ':');
    if (colon == NULL || colon == host || strpbrk(host, "/?#@") != NULL || colon[1] == '\0') {
        return false;
    }
    return strspn(colon + 1, "0123456789") == strlen(colon + 1) && strlen(colon + 1) <= 5 && atol(colon + 1) <= 65535;
}

/* There is no token in the file: the host adds that to each request. */
const skydock_error *plugin_configure(const skydock_settings *settings) {
    const char *file = settings->cloud_config_path != NULL ? settings->cloud_config_path : "the cloud configuration";
    const skydock_json *config;
    const skydock_error *error = skydock_json_parse(skydock_bytes_of(settings->cloud_config), &config);
    if (error != NULL) {
        return skydock_invalid("%s: %s", file, error->message);
    }
    const char *known[] = {"url", "region"};
    if (skydock_json_kind_of(config) != SKYDOCK_JSON_OBJECT) {
        return skydock_invalid("%s: expected an object with `url` and `region`", file);
    }
    for (const skydock_json *field = skydock_json_first(config); field != NULL; field = skydock_json_next(field)) {
        const char *name = skydock_json_name(field);
        if (!skydock_same(name, known[0]) && !skydock_same(name, known[1])) {
            return skydock_invalid("%s: there is a field other than `url` and `region`", file);
        }
    }
    const char *url = text_of(config, "url"), *region = text_of(config, "region");
    if (!is_url(url)) {
        return skydock_invalid("%s: `url`: expected a URL with a port and no path, as in `https://cloud.example:443`", file);
    }
    if (region[0] == '\0') {
        return skydock_invalid("%s: `region` is empty or missing", file);
    }
    cloud_url = skydock_keep(url);
    cloud_region = skydock_keep(region);
    return NULL;
}
