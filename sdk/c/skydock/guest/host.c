/* What the host offers, except HTTP. */
#include <string.h>
#include <time.h>

#include "guest.h"

uint64_t skydock_remaining_ms(void) {
    return skydock_provider_calls_remaining_ms();
}

uint64_t skydock_memory_limit(void) {
    return skydock_provider_calls_memory_limit();
}

void skydock_retire(void) {
    skydock_provider_calls_retire();
}

const char *skydock_cluster_uid(void) {
    built_string_t uid;
    return skydock_provider_cluster_uid(&uid) ? skydock_text_in(uid) : NULL;
}

bool skydock_cluster_revision(uint64_t *revision) {
    return skydock_provider_cluster_revision(revision);
}

const skydock_node *skydock_cluster_nodes(size_t *count) {
    skydock_provider_cluster_list_node_t nodes;
    skydock_provider_cluster_nodes(&nodes);
    *count = nodes.len;
    return skydock_nodes_in(nodes.ptr, nodes.len);
}

const skydock_service *skydock_cluster_services(size_t *count) {
    skydock_provider_cluster_list_service_t services;
    skydock_provider_cluster_services(&services);
    *count = services.len;
    return skydock_services_in(services.ptr, services.len);
}

const char *skydock_node_json(const char *name) {
    built_string_t in = skydock_text_out(name), json;
    return skydock_provider_cluster_node_json(&in, &json) ? skydock_text_in(json) : NULL;
}

const char *skydock_service_json(const char *namespace_, const char *name) {
    built_string_t in = skydock_text_out(namespace_), inner = skydock_text_out(name), json;
    return skydock_provider_cluster_service_json(&in, &inner, &json) ? skydock_text_in(json) : NULL;
}

static skydock_provider_node_sets_borrow_node_set_t handle(const skydock_node_set *nodes) {
    return *(const skydock_provider_node_sets_borrow_node_set_t *)nodes;
}

static const skydock_target *targets_in(const skydock_provider_node_sets_list_target_t *in) {
    skydock_target *out = skydock_alloc(in->len * sizeof *out);
    for (size_t i = 0; i < in->len; i++) {
        out[i] = (skydock_target){
            .name = skydock_text_in(in->ptr[i].name),
            .provider_id = skydock_option_in(in->ptr[i].provider_id),
            .zone = skydock_option_in(in->ptr[i].zone),
            .addresses = skydock_addresses_in(in->ptr[i].addresses.ptr, in->ptr[i].addresses.len),
        };
    }
    return out;
}

size_t skydock_node_set_size(const skydock_node_set *nodes) {
    return skydock_provider_node_sets_method_node_set_size(handle(nodes));
}

/* What was not read yet of targets in the form that the contract calls packed. */
typedef struct {
    const uint32_t *numbers;
    const char *texts;
} skydock_packed;

/* The next text with a NUL, or NULL if it is absent. */
static const char *next_text(skydock_packed *rest) {
    uint32_t length = *rest->numbers++;
    if (length == UINT32_MAX) {
        return NULL;
    }
    char *text = skydock_arena_take((size_t)length + 1, 1);
    memcpy(text, rest->texts, length);
    text[length] = '\0';
    rest->texts += length;
    return text;
}

static skydock_addresses next_addresses(skydock_packed *rest) {
    size_t count = *rest->numbers++;
    skydock_address *addresses = skydock_alloc(count * sizeof *addresses);
    for (size_t i = 0; i < count; i++) {
        addresses[i].kind = (skydock_address_kind)*rest->numbers++;
        addresses[i].address = next_text(rest);
    }
    return (skydock_addresses){addresses, count};
}

const skydock_target *skydock_node_set_targets(const skydock_node_set *nodes, size_t *count) {
    skydock_provider_node_sets_packed_targets_t packed;
    skydock_provider_node_sets_method_node_set_packed_targets(handle(nodes), &packed);
    const uint32_t *end = packed.numbers.ptr + packed.numbers.len;
    *count = 0;
    /* Three texts, the number of addresses, and two numbers for each of them. */
    for (const uint32_t *at = packed.numbers.ptr; at < end; at += 4 + 2 * at[3]) {
        ++*count;
    }

    skydock_target *targets = skydock_alloc(*count * sizeof *targets);
    skydock_packed rest = {packed.numbers.ptr, (const char *)packed.texts.ptr};
    for (size_t i = 0; i < *count; i++) {
        targets[i].name = next_text(&rest);
        targets[i].provider_id = next_text(&rest);
        targets[i].zone = next_text(&rest);
        targets[i].addresses = next_addresses(&rest);
    }
    return targets;
}

const skydock_node *skydock_node_set_nodes(const skydock_node_set *nodes, size_t *count) {
    skydock_provider_node_sets_list_node_t all;
    skydock_provider_node_sets_method_node_set_nodes(handle(nodes), &all);
    *count = all.len;
    return skydock_nodes_in(all.ptr, all.len);
}

bool skydock_node_set_changes(const skydock_node_set *nodes, skydock_node_changes *changes) {
    skydock_provider_node_sets_node_changes_t found;
    if (!skydock_provider_node_sets_method_node_set_changes(handle(nodes), &found)) {
        return false;
    }
    *changes = (skydock_node_changes){targets_in(&found.added), found.added.len, targets_in(&found.removed), found.removed.len};
    return true;
}

static skydock_bytes bytes_in(built_list_u8_t bytes) {
    return (skydock_bytes){bytes.len == 0 ? "" : (const char *)bytes.ptr, bytes.len};
}

static built_list_u8_t bytes_out(skydock_bytes bytes) {
    return (built_list_u8_t){(uint8_t *)bytes.data, bytes.len};
}

bool skydock_cache_get(const char *key, skydock_bytes *value) {
    built_string_t in = skydock_text_out(key);
    built_list_u8_t found;
    bool there = skydock_provider_cache_get(&in, &found);
    *value = there ? bytes_in(found) : (skydock_bytes){"", 0};
    return there;
}

bool skydock_cache_set(const char *key, skydock_bytes value, uint64_t ttl_ms) {
    built_string_t in = skydock_text_out(key);
    built_list_u8_t bytes = bytes_out(value);
    return skydock_provider_cache_set(&in, &bytes, ttl_ms);
}

bool skydock_cache_reserve(const char *key, skydock_bytes value, uint64_t ttl_ms, skydock_bytes *other) {
    built_string_t in = skydock_text_out(key);
    built_list_u8_t bytes = bytes_out(value), found;
    bool is_taken = skydock_provider_cache_reserve(&in, &bytes, ttl_ms, &found);
    *other = is_taken ? bytes_in(found) : (skydock_bytes){"", 0};
    return !is_taken;
}

void skydock_cache_remove(const char *key) {
    built_string_t in = skydock_text_out(key);
    skydock_provider_cache_remove(&in);
}

bool skydock_annotate(const char *name, const char *key, const char *value) {
    built_string_t object = skydock_text_out(name), in = skydock_text_out(key), text = skydock_text_out(value);
    return skydock_provider_objects_annotate(&object, &in, value == NULL ? NULL : &text);
}

skydock_read_result skydock_read_object(const char *kind, const char *namespace_, const char *name, const char **json_or_reason) {
    built_string_t in = skydock_text_out(kind), space = skydock_text_out(namespace_), object = skydock_text_out(name), json;
    skydock_provider_objects_refusal_t refusal;
    if (skydock_provider_objects_read(&in, &space, &object, &json, &refusal)) {
        *json_or_reason = skydock_text_in(json);
        return SKYDOCK_READ;
    }
    bool is_away = refusal.tag == SKYDOCK_PROVIDER_OBJECTS_REFUSAL_UNAVAILABLE;
    *json_or_reason = is_away ? skydock_text_in(refusal.val.unavailable) : NULL;
    return (skydock_read_result)(SKYDOCK_READ_NOT_GRANTED + refusal.tag);
}

bool skydock_host_event(const char *name, skydock_severity severity, const char *reason, const char *message) {
    built_string_t object = skydock_text_out(name), why = skydock_text_out(reason), text = skydock_text_out(message);
    return skydock_provider_events_publish(&object, (uint8_t)severity, &why, &text);
}

void skydock_host_log(skydock_level level, const char *message) {
    /* No conversion: it may be that there is no memory. */
    built_string_t context = {(uint8_t *)"", 0}, text = {(uint8_t *)message, strlen(message)};
    if (level != SKYDOCK_LOG_CRITICAL) {
        text = skydock_text_out(message);
    }
    wasi_logging_logging_log((uint8_t)level, &context, &text);
}

int64_t skydock_host_now(void) {
    return (int64_t)time(NULL);
}
