/* The host of unit tests. Not part of a plugin. */
#ifndef __wasm__

#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "skydock_test.h"

/* Entries of the cache of a test. */
#define MOST_ENTRIES 256

struct entry {
    char *key;
    char *value;
    size_t len;
};

static skydock_test_host host;
static struct entry entries[MOST_ENTRIES];
static size_t failures;

static void forget(struct entry *entry) {
    free(entry->key);
    free(entry->value);
    *entry = (struct entry){0};
}

void skydock_test_end(void) {
    for (size_t i = 0; i < MOST_ENTRIES; i++) {
        forget(&entries[i]);
    }
    skydock_arena_reset();
    skydock_arena_forget_kept();
    host = (skydock_test_host){0};
}

skydock_test_host *skydock_test_begin(void) {
    skydock_test_end();
    host.cluster_uid = "cluster-1";
    host.has_revision = true;
    host.remaining_ms = 30000;
    return &host;
}

void skydock_test_next_call(void) {
    host.events = host.annotations = (skydock_strings){0};
    skydock_arena_reset();
}

uint64_t skydock_remaining_ms(void) {
    return host.remaining_ms;
}

uint64_t skydock_memory_limit(void) {
    return (uint64_t)128 << 20;
}

void skydock_retire(void) {
    host.retired = true;
}

const char *skydock_cluster_uid(void) {
    return host.cluster_uid;
}

bool skydock_cluster_revision(uint64_t *revision) {
    *revision = host.revision;
    return host.has_revision;
}

const skydock_node *skydock_cluster_nodes(size_t *count) {
    *count = host.node_count;
    return host.nodes;
}

const skydock_service *skydock_cluster_services(size_t *count) {
    *count = host.service_count;
    return host.services;
}

const char *skydock_node_json(const char *name) {
    for (size_t i = 0; i < host.node_count; i++) {
        if (skydock_same(host.nodes[i].name, name)) {
            return skydock_format("{\"metadata\": {\"name\": %s}}", skydock_json_quote(name));
        }
    }
    return NULL;
}

const char *skydock_service_json(const char *namespace_, const char *name) {
    for (size_t i = 0; i < host.service_count; i++) {
        if (skydock_same(host.services[i].namespace_, namespace_) && skydock_same(host.services[i].name, name)) {
            return skydock_format("{\"metadata\": {\"namespace\": %s, \"name\": %s}}", skydock_json_quote(namespace_),
                                  skydock_json_quote(name));
        }
    }
    return NULL;
}

struct skydock_node_set {
    const skydock_node *nodes;
    size_t count;
    const skydock_node_changes *changes;
};

const skydock_node_set *skydock_test_nodes(const skydock_node *nodes, size_t count, const skydock_node_changes *changes) {
    skydock_node_set *set = skydock_alloc(sizeof *set);
    *set = (skydock_node_set){nodes, count, changes};
    return set;
}

size_t skydock_node_set_size(const skydock_node_set *nodes) {
    return nodes->count;
}

const skydock_node *skydock_node_set_nodes(const skydock_node_set *nodes, size_t *count) {
    *count = nodes->count;
    return nodes->nodes;
}

const skydock_target *skydock_node_set_targets(const skydock_node_set *nodes, size_t *count) {
    skydock_target *targets = skydock_alloc(nodes->count * sizeof *targets);
    for (size_t i = 0; i < nodes->count; i++) {
        const skydock_node *node = &nodes->nodes[i];
        targets[i] = (skydock_target){node->name, node->provider_id, skydock_lookup(node->labels, "topology.kubernetes.io/zone"),
                                      node->addresses};
    }
    *count = nodes->count;
    return targets;
}

bool skydock_node_set_changes(const skydock_node_set *nodes, skydock_node_changes *changes) {
    if (nodes->changes != NULL) {
        *changes = *nodes->changes;
    }
    return nodes->changes != NULL;
}

/* The entry of a key, or else a free one. NULL if the key is not valid, or the cache is full. Entries do not expire during a test. */
static struct entry *find(const char *key) {
    struct entry *unused = NULL;
    size_t len = strlen(key);
    for (size_t i = 0; i < MOST_ENTRIES && len >= 1 && len <= 256; i++) {
        if (skydock_same(entries[i].key, key)) {
            return &entries[i];
        }
        unused = unused == NULL && entries[i].key == NULL ? &entries[i] : unused;
    }
    return unused;
}

bool skydock_cache_get(const char *key, skydock_bytes *value) {
    struct entry *entry = find(key);
    *value = (skydock_bytes){"", 0};
    if (entry == NULL || entry->key == NULL) {
        return false;
    }
    char *copy = skydock_alloc(entry->len + 1);
    *value = (skydock_bytes){memcpy(copy, entry->value, entry->len), entry->len};
    return true;
}

bool skydock_cache_set(const char *key, skydock_bytes value, uint64_t ttl_ms) {
    struct entry *entry = find(key);
    if (entry == NULL || value.len > 65536 || ttl_ms == 0) {
        return false;
    }
    forget(entry);
    entry->key = strdup(key);
    entry->value = malloc(value.len + 1);
    if (entry->key == NULL || entry->value == NULL) {
        abort();
    }
    memcpy(entry->value, value.data, value.len);
    entry->len = value.len;
    return true;
}

bool skydock_cache_reserve(const char *key, skydock_bytes value, uint64_t ttl_ms, skydock_bytes *other) {
    if (skydock_cache_get(key, other)) {
        return false;
    }
    return skydock_cache_set(key, value, ttl_ms);
}

void skydock_cache_remove(const char *key) {
    struct entry *entry = find(key);
    if (entry != NULL) {
        forget(entry);
    }
}

bool skydock_host_event(const char *name, skydock_severity severity, const char *reason, const char *message) {
    (void)severity;
    skydock_add_string(&host.events, skydock_format("%s %s: %s", name, reason, message));
    return true;
}

bool skydock_annotate(const char *name, const char *key, const char *value) {
    for (size_t i = 0; i < host.writable_prefix.len; i++) {
        if (skydock_after(key, host.writable_prefix.items[i]) != NULL) {
            const char *text = value == NULL ? skydock_format("%s %s", name, key) : skydock_format("%s %s=%s", name, key, value);
            skydock_add_string(&host.annotations, text);
            return true;
        }
    }
    return false;
}

skydock_read_result skydock_read_object(const char *kind, const char *namespace_, const char *name, const char **json_or_reason) {
    *json_or_reason = skydock_lookup(host.objects, skydock_format("%s %s/%s", kind, namespace_, name));
    return *json_or_reason == NULL ? SKYDOCK_READ_NOT_GRANTED : SKYDOCK_READ;
}

void skydock_host_log(skydock_level level, const char *message) {
    if (host.prints_log || level == SKYDOCK_LOG_CRITICAL) {
        fprintf(stderr, "log: %s\n", message);
    }
}

int64_t skydock_host_now(void) {
    return (int64_t)time(NULL);
}

void skydock_host_send_all(const skydock_http_request *requests, size_t count, skydock_http_response *responses) {
    for (size_t i = 0; i < count; i++) {
        skydock_prepared prepared;
        if (responses[i].error == NULL) {
            responses[i].error = skydock_prepare(&requests[i], &prepared);
        }
        if (responses[i].error != NULL) {
            continue;
        }
        if (skydock_http_limit(&requests[i], host.remaining_ms) == 0) {
            responses[i].error = skydock_unavailable("%s: it was not sent because the deadline of the call has passed", prepared.shown);
        } else if (host.http == NULL) {
            responses[i].error = skydock_denied("%s: the test answers no requests", prepared.shown);
        } else {
            host.request_count++;
            responses[i].status = 200;
            host.http(&requests[i], &responses[i], host.http_data);
            if (responses[i].body.len > skydock_http_max_body(&requests[i])) {
                responses[i].error = skydock_internal("%s: the body of the answer exceeds the limit of %zu bytes", prepared.shown,
                                                      skydock_http_max_body(&requests[i]));
            }
        }
    }
}

void skydock_test_check(bool condition, const char *text, const char *file, int line) {
    if (!condition) {
        printf("%s:%d: expected %s\n", file, line, text);
        failures++;
    }
}

void skydock_test_check_text(const char *actual, const char *expected, const char *file, int line) {
    if (!skydock_same(actual, expected)) {
        printf("%s:%d: expected %s\n  but it is %s\n", file, line, expected == NULL ? "NULL" : expected, actual == NULL ? "NULL" : actual);
        failures++;
    }
}

void skydock_test_check_good(const skydock_error *error, const char *file, int line) {
    if (error != NULL) {
        printf("%s:%d: expected success, but there is an error: %s\n", file, line, error->message);
        failures++;
    }
}

int skydock_test_run(const skydock_test_case *tests, size_t count) {
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        failures = 0;
        skydock_test_begin();
        tests[i].run();
        printf("test %s ... %s\n", tests[i].name, failures == 0 ? "ok" : "FAILED");
        failed += failures > 0;
    }
    skydock_test_end();
    printf("\ntest result: %s. %zu passed; %zu failed; 0 ignored\n", failed == 0 ? "ok" : "FAILED", count - failed, failed);
    return failed == 0 ? 0 : 1;
}

#endif
