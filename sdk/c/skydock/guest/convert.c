#include <string.h>

#include "guest.h"

const char *skydock_text_in(built_string_t text) {
    return text.len == 0 ? "" : (const char *)text.ptr;
}

const char *skydock_option_in(built_option_string_t text) {
    return text.is_some ? skydock_text_in(text.val) : NULL;
}

/* Memory for as many items; never NULL. */
#define ITEMS(TYPE, len) ((TYPE *)skydock_alloc((len) * sizeof(TYPE)))

skydock_strings skydock_strings_in(const built_string_t *items, size_t len) {
    const char **out = ITEMS(const char *, len);
    for (size_t i = 0; i < len; i++) {
        out[i] = skydock_text_in(items[i]);
    }
    return (skydock_strings){out, len};
}

skydock_pairs skydock_pairs_in(const skydock_provider_types_pair_t *items, size_t len) {
    skydock_pair *out = ITEMS(skydock_pair, len);
    for (size_t i = 0; i < len; i++) {
        out[i] = (skydock_pair){skydock_text_in(items[i].f0), skydock_text_in(items[i].f1)};
    }
    return (skydock_pairs){out, len};
}

skydock_addresses skydock_addresses_in(const skydock_provider_types_node_address_t *items, size_t len) {
    skydock_address *out = ITEMS(skydock_address, len);
    for (size_t i = 0; i < len; i++) {
        out[i] = (skydock_address){(skydock_address_kind)items[i].kind, skydock_text_in(items[i].address)};
    }
    return (skydock_addresses){out, len};
}

static const skydock_taint *taints_in(const skydock_provider_types_taint_t *items, size_t len) {
    skydock_taint *out = ITEMS(skydock_taint, len);
    for (size_t i = 0; i < len; i++) {
        out[i] = (skydock_taint){skydock_text_in(items[i].key), skydock_text_in(items[i].value), (skydock_taint_effect)items[i].effect};
    }
    return out;
}

const skydock_node *skydock_nodes_in(const skydock_provider_types_node_t *items, size_t len) {
    skydock_node *out = ITEMS(skydock_node, len);
    for (size_t i = 0; i < len; i++) {
        const skydock_provider_types_node_t *in = &items[i];
        out[i] = (skydock_node){
            .name = skydock_text_in(in->name),
            .uid = skydock_text_in(in->uid),
            .provider_id = skydock_option_in(in->provider_id),
            .labels = skydock_pairs_in(in->labels.ptr, in->labels.len),
            .annotations = skydock_pairs_in(in->annotations.ptr, in->annotations.len),
            .taints = taints_in(in->taints.ptr, in->taints.len),
            .taint_count = in->taints.len,
            .addresses = skydock_addresses_in(in->addresses.ptr, in->addresses.len),
            .pod_cidrs = skydock_strings_in(in->pod_cidrs.ptr, in->pod_cidrs.len),
            .ready = in->ready,
            .unschedulable = in->unschedulable,
            .system_uuid = skydock_text_in(in->system_uuid),
            .machine_id = skydock_text_in(in->machine_id),
            .architecture = skydock_text_in(in->architecture),
            .operating_system = skydock_text_in(in->operating_system),
            .os_image = skydock_text_in(in->os_image),
            .creation_timestamp = in->creation_timestamp,
        };
    }
    return out;
}

static const skydock_service_port *ports_in(const skydock_provider_types_service_port_t *items, size_t len) {
    skydock_service_port *out = ITEMS(skydock_service_port, len);
    for (size_t i = 0; i < len; i++) {
        out[i] = (skydock_service_port){
            .name = skydock_text_in(items[i].name),
            .transport = (skydock_transport)items[i].transport,
            .app_protocol = skydock_option_in(items[i].app_protocol),
            .port = items[i].port,
            .target_port = skydock_text_in(items[i].target_port),
            .node_port = items[i].node_port,
        };
    }
    return out;
}

static skydock_load_balancer_status status_in(const skydock_provider_types_load_balancer_status_t *in) {
    skydock_ingress *out = ITEMS(skydock_ingress, in->ingress.len);
    for (size_t i = 0; i < in->ingress.len; i++) {
        const skydock_provider_types_ingress_t *each = &in->ingress.ptr[i];
        skydock_port_status *ports = ITEMS(skydock_port_status, each->ports.len);
        for (size_t port = 0; port < each->ports.len; port++) {
            const skydock_provider_types_port_status_t *from = &each->ports.ptr[port];
            ports[port] = (skydock_port_status){from->port, (skydock_transport)from->transport, skydock_option_in(from->error)};
        }
        out[i] = (skydock_ingress){
            .ip = skydock_option_in(each->ip),
            .hostname = skydock_option_in(each->hostname),
            .ip_mode = each->ip_mode.is_some ? (skydock_ip_mode)(each->ip_mode.val + SKYDOCK_VIP) : SKYDOCK_IP_MODE_DEFAULT,
            .ports = ports,
            .port_count = each->ports.len,
        };
    }
    return (skydock_load_balancer_status){out, in->ingress.len};
}

static const skydock_ip_family *families_in(const skydock_provider_types_ip_family_t *items, size_t len) {
    skydock_ip_family *out = ITEMS(skydock_ip_family, len);
    for (size_t i = 0; i < len; i++) {
        out[i] = (skydock_ip_family)items[i];
    }
    return out;
}

const skydock_service *skydock_services_in(const skydock_provider_types_service_t *items, size_t len) {
    skydock_service *out = ITEMS(skydock_service, len);
    for (size_t i = 0; i < len; i++) {
        const skydock_provider_types_service_t *in = &items[i];
        out[i] = (skydock_service){
            .namespace_ = skydock_text_in(in->namespace_),
            .name = skydock_text_in(in->name),
            .uid = skydock_text_in(in->uid),
            .labels = skydock_pairs_in(in->labels.ptr, in->labels.len),
            .annotations = skydock_pairs_in(in->annotations.ptr, in->annotations.len),
            .ports = ports_in(in->ports.ptr, in->ports.len),
            .port_count = in->ports.len,
            .load_balancer_ip = skydock_option_in(in->load_balancer_ip),
            .load_balancer_class = skydock_option_in(in->load_balancer_class),
            .source_ranges = skydock_strings_in(in->source_ranges.ptr, in->source_ranges.len),
            .external_traffic_policy = (skydock_traffic_policy)in->external_traffic_policy,
            .internal_traffic_policy = (skydock_traffic_policy)in->internal_traffic_policy,
            .health_check_node_port = in->health_check_node_port,
            .client_ip_affinity_seconds = in->client_ip_affinity_seconds.is_some ? in->client_ip_affinity_seconds.val : 0,
            .ip_families = families_in(in->ip_families.ptr, in->ip_families.len),
            .ip_family_count = in->ip_families.len,
            .ip_family_policy = (skydock_ip_family_policy)in->ip_family_policy,
            .allocate_node_ports = in->allocate_node_ports,
            .publish_not_ready_addresses = in->publish_not_ready_addresses,
            .cluster_ips = skydock_strings_in(in->cluster_ips.ptr, in->cluster_ips.len),
            .external_ips = skydock_strings_in(in->external_ips.ptr, in->external_ips.len),
            .selector = skydock_pairs_in(in->selector.ptr, in->selector.len),
            .status = status_in(&in->status),
            .deleting = in->deleting,
        };
    }
    return out;
}

/* The length of the UTF-8 character at the start of a text, or 0 if it is not one. */
static size_t character(const unsigned char *at) {
    if (at[0] < 0x80) {
        return 1;
    }
    size_t len = at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : at[0] >= 0xf0 && at[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Not too long, no surrogates, and not beyond U+10FFFF. */
    bool is_wrong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
                    (at[0] == 0xf4 && at[1] > 0x8f);
    return is_wrong ? 0 : len;
}

built_string_t skydock_text_out(const char *text) {
    size_t len = text == NULL ? 0 : strlen(text);
    unsigned char *bytes = (unsigned char *)(len == 0 ? "" : text), *changed = NULL;
    for (size_t at = 0; at < len;) {
        size_t step = character(bytes + at);
        if (step == 0) {
            if (changed == NULL) {
                changed = skydock_alloc(len + 1);
                bytes = memcpy(changed, bytes, len);
            }
            bytes[at] = '?';
            step = 1;
        }
        at += step;
    }
    return (built_string_t){bytes, len};
}

built_option_string_t skydock_option_out(const char *text) {
    return (built_option_string_t){.is_some = text != NULL, .val = skydock_text_out(text)};
}

built_list_string_t skydock_strings_out(skydock_strings list) {
    built_string_t *out = ITEMS(built_string_t, list.len);
    for (size_t i = 0; i < list.len; i++) {
        out[i] = skydock_text_out(list.items[i]);
    }
    return (built_list_string_t){out, list.len};
}

skydock_provider_types_list_pair_t skydock_pairs_out(skydock_pairs list) {
    skydock_provider_types_pair_t *out = ITEMS(skydock_provider_types_pair_t, list.len);
    for (size_t i = 0; i < list.len; i++) {
        out[i].f0 = skydock_text_out(list.items[i].key);
        out[i].f1 = skydock_text_out(list.items[i].value);
    }
    return (skydock_provider_types_list_pair_t){out, list.len};
}

skydock_provider_types_list_node_address_t skydock_addresses_out(skydock_addresses list) {
    skydock_provider_types_node_address_t *out = ITEMS(skydock_provider_types_node_address_t, list.len);
    for (size_t i = 0; i < list.len; i++) {
        out[i].kind = (uint8_t)list.items[i].kind;
        out[i].address = skydock_text_out(list.items[i].address);
    }
    return (skydock_provider_types_list_node_address_t){out, list.len};
}

skydock_provider_types_load_balancer_status_t skydock_status_out(skydock_load_balancer_status status) {
    skydock_provider_types_ingress_t *out = ITEMS(skydock_provider_types_ingress_t, status.len);
    for (size_t i = 0; i < status.len; i++) {
        const skydock_ingress *in = &status.ingress[i];
        out[i].ip = skydock_option_out(in->ip);
        out[i].hostname = skydock_option_out(in->hostname);
        out[i].ip_mode.is_some = in->ip_mode != SKYDOCK_IP_MODE_DEFAULT;
        out[i].ip_mode.val = in->ip_mode == SKYDOCK_PROXY;
        out[i].ports.ptr = ITEMS(skydock_provider_types_port_status_t, in->port_count);
        out[i].ports.len = in->port_count;
        for (size_t port = 0; port < in->port_count; port++) {
            out[i].ports.ptr[port].port = in->ports[port].port;
            out[i].ports.ptr[port].transport = (uint8_t)in->ports[port].transport;
            out[i].ports.ptr[port].error = skydock_option_out(in->ports[port].error);
        }
    }
    return (skydock_provider_types_load_balancer_status_t){{out, status.len}};
}

skydock_provider_types_cloud_error_t skydock_error_out(const skydock_error *error) {
    skydock_provider_types_cloud_error_t out = {.tag = (uint8_t)(error->kind > SKYDOCK_INTERNAL ? SKYDOCK_INTERNAL : error->kind)};
    if (error->kind == SKYDOCK_THROTTLED || error->kind == SKYDOCK_IN_PROGRESS) {
        /* Both cases have the same type. */
        out.val.throttled = (skydock_provider_types_retry_t){error->retry_ms, skydock_text_out(error->message)};
    } else {
        out.val.internal = skydock_text_out(error->message);
    }
    return out;
}
