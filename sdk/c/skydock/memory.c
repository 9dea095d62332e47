/* Memory that lives as long as a call, and texts in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* In a plugin, small things share blocks of this size. In tests, each has a block of its own, so that tools that watch memory see it. */
#ifndef SKYDOCK_BLOCK
#ifdef __wasm__
#define SKYDOCK_BLOCK 65536
#else
#define SKYDOCK_BLOCK 0
#endif
#endif

/* What follows is aligned for everything. */
struct block {
    _Alignas(max_align_t) struct block *next;
    size_t size;
    size_t used;
};

static struct block *blocks;
/* Texts that outlive calls. */
static struct block *kept;

/* A list that has room for more items than it has. */
struct list {
    struct list *next;
    const void *items;
    size_t len;
    size_t room;
};

/* The lists of this call; the one that was extended last is the first. */
static struct list *lists;

static struct block *add(struct block **list, size_t size) {
    struct block *block = size <= SIZE_MAX - sizeof *block ? malloc(sizeof *block + size) : NULL;
    if (block == NULL) {
        skydock_host_log(SKYDOCK_LOG_CRITICAL, "the plugin has no memory left");
        abort();
    }
    *block = (struct block){*list, size, 0};
    *list = block;
    return block;
}

static void drop(struct block **list) {
    while (*list != NULL) {
        struct block *next = (*list)->next;
        free(*list);
        *list = next;
    }
}

static char *start_of(struct block *block) {
    return (char *)(block + 1);
}

void *skydock_arena_take(size_t size, size_t align) {
    if (blocks != NULL) {
        size_t padding = -(uintptr_t)(start_of(blocks) + blocks->used) & (align - 1);
        size_t left = blocks->size - blocks->used;
        if (padding <= left && size <= left - padding) {
            char *memory = start_of(blocks) + blocks->used + padding;
            blocks->used += padding + size;
            return memory;
        }
    }
    struct block *block = add(&blocks, size > SKYDOCK_BLOCK ? size : SKYDOCK_BLOCK);
    block->used = size;
    return start_of(block);
}

void skydock_arena_reset(void) {
    lists = NULL;
    /* One block stays, so that small calls need no allocation. */
    struct block *spare = NULL;
    while (blocks != NULL && spare == NULL) {
        struct block *next = blocks->next;
        if (SKYDOCK_BLOCK > 0 && blocks->size == SKYDOCK_BLOCK) {
            spare = blocks;
        } else {
            free(blocks);
        }
        blocks = next;
    }
    drop(&blocks);
    if (spare != NULL) {
        spare->next = NULL;
        spare->used = 0;
        blocks = spare;
    }
}

void skydock_arena_forget_kept(void) {
    drop(&kept);
}

void *skydock_alloc(size_t size) {
    return memset(skydock_arena_take(size, _Alignof(max_align_t)), 0, size);
}

const char *skydock_keep(const char *text) {
    if (text == NULL) {
        return NULL;
    }
    size_t size = strlen(text) + 1;
    return memcpy(start_of(add(&kept, size)), text, size);
}

/* The list with these items, which becomes the first, or NULL. */
static struct list *find_list(const void *items) {
    for (struct list **place = &lists; *place != NULL; place = &(*place)->next) {
        struct list *list = *place;
        if (list->items == items) {
            *place = list->next;
            list->next = lists;
            return lists = list;
        }
    }
    return NULL;
}

void *skydock_grow(const void *items, size_t len, size_t size) {
    struct list *list = len > 0 ? find_list(items) : NULL;
    /* Anything else may be a list of the host or of the plugin, which has no room, or a copy of one that has grown since. */
    if (list != NULL && list->len == len && len < list->room) {
        list->len++;
        return (void *)items;
    }
    size_t room = len < 2 ? 4 : len <= SIZE_MAX / 2 ? 2 * len : SIZE_MAX;
    char *grown = skydock_alloc(room <= SIZE_MAX / size ? room * size : SIZE_MAX);
    if (len > 0) {
        memcpy(grown, items, len * size);
    }
    if (list == NULL || list->len != len) {
        list = skydock_alloc(sizeof *list);
        list->next = lists;
        lists = list;
    }
    list->items = grown;
    list->len = len + 1;
    list->room = room;
    return grown;
}

const char *skydock_format_list(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    size_t size = len < 0 ? 1 : (size_t)len + 1;
    char *text = skydock_alloc(size);
    if (len > 0) {
        vsnprintf(text, size, format, again);
    }
    va_end(again);
    return text;
}

const char *skydock_copy(const char *start, size_t len) {
    char *text = skydock_alloc(len + 1);
    return memcpy(text, start, len);
}

const char *skydock_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = skydock_format_list(format, arguments);
    va_end(arguments);
    return text;
}

void skydock_append(skydock_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *more = skydock_format_list(format, arguments);
    va_end(arguments);
    size_t len = strlen(more);
    if (text->size - text->len <= len) {
        size_t size = 2 * (text->len + len) + 64;
        char *grown = skydock_alloc(size);
        if (text->len > 0) {
            memcpy(grown, text->text, text->len);
        }
        text->text = grown;
        text->size = size;
    }
    memcpy(text->text + text->len, more, len + 1);
    text->len += len;
}

const char *skydock_lookup(skydock_pairs pairs, const char *key) {
    for (size_t i = 0; i < pairs.len; i++) {
        if (strcmp(pairs.items[i].key, key) == 0) {
            return pairs.items[i].value;
        }
    }
    return NULL;
}

const char *skydock_after(const char *text, const char *prefix) {
    size_t len = strlen(prefix);
    return text != NULL && strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

bool skydock_same(const char *one, const char *other) {
    return one == other || (one != NULL && other != NULL && strcmp(one, other) == 0);
}

skydock_bytes skydock_bytes_of(const char *text) {
    return (skydock_bytes){text == NULL ? "" : text, text == NULL ? 0 : strlen(text)};
}

void skydock_add_string(skydock_strings *list, const char *text) {
    const char **items = skydock_grow(list->items, list->len, sizeof *items);
    items[list->len++] = text;
    list->items = items;
}

void skydock_add_pair(skydock_pairs *list, const char *key, const char *value) {
    skydock_pair *items = skydock_grow(list->items, list->len, sizeof *items);
    items[list->len++] = (skydock_pair){key, value};
    list->items = items;
}

void skydock_add_address(skydock_addresses *list, skydock_address_kind kind, const char *address) {
    skydock_address *items = skydock_grow(list->items, list->len, sizeof *items);
    items[list->len++] = (skydock_address){kind, address};
    list->items = items;
}

static void add_ingress(skydock_load_balancer_status *status, skydock_ingress ingress) {
    skydock_ingress *items = skydock_grow(status->ingress, status->len, sizeof *items);
    items[status->len++] = ingress;
    status->ingress = items;
}

void skydock_add_ingress_ip(skydock_load_balancer_status *status, const char *ip, skydock_ip_mode mode) {
    add_ingress(status, (skydock_ingress){.ip = ip, .ip_mode = mode});
}

void skydock_add_ingress_hostname(skydock_load_balancer_status *status, const char *hostname) {
    add_ingress(status, (skydock_ingress){.hostname = hostname});
}

void skydock_add_route(skydock_route_page *page, skydock_route route) {
    skydock_route *items = skydock_grow(page->routes, page->len, sizeof *items);
    items[page->len++] = route;
    page->routes = items;
}

void skydock_add_topology(skydock_topologies *list, skydock_pairs topology) {
    skydock_pairs *items = skydock_grow(list->items, list->len, sizeof *items);
    items[list->len++] = topology;
    list->items = items;
}

void skydock_add_access_mode(skydock_driver *driver, skydock_access_mode mode) {
    skydock_access_mode *items = skydock_grow(driver->access_modes, driver->access_mode_count, sizeof *items);
    items[driver->access_mode_count++] = mode;
    driver->access_modes = items;
}

void skydock_add_volume(skydock_volume_page *page, skydock_volume volume) {
    skydock_volume *items = skydock_grow(page->volumes, page->len, sizeof *items);
    items[page->len++] = volume;
    page->volumes = items;
}

void skydock_add_snapshot(skydock_snapshot_page *page, skydock_snapshot snapshot) {
    skydock_snapshot *items = skydock_grow(page->snapshots, page->len, sizeof *items);
    items[page->len++] = snapshot;
    page->snapshots = items;
}
