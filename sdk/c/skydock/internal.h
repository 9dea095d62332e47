/* What the files of the SDK share. Not for plugins. */
#ifndef SKYDOCK_INTERNAL_H
#define SKYDOCK_INTERNAL_H

#include <stdarg.h>

#include "skydock.h"

/* Memory for this call, with an alignment; not set to zero. */
void *skydock_arena_take(size_t size, size_t align);
/* Frees everything of the call. */
void skydock_arena_reset(void);
/* Frees what skydock_keep has kept, at the end of a test. */
void skydock_arena_forget_kept(void);

/* Makes room for one more item of a list, of which there are `len`. The list may be any, also one of the host, which is then copied. */
void *skydock_grow(const void *items, size_t len, size_t size);
/* A text of these bytes. */
const char *skydock_copy(const char *start, size_t len);
const char *skydock_format_list(const char *format, va_list arguments);

/* A request whose URL was taken apart. */
typedef struct {
    bool secure;
    const char *authority;
    const char *path;  /* with the query */
    const char *shown; /* method and URL without query, for messages */
    skydock_pairs headers;
} skydock_prepared;

/* Checks a request in the same way in a plugin and in its tests. */
const skydock_error *skydock_prepare(const skydock_http_request *request, skydock_prepared *prepared);
/* Milliseconds that a request may take, given those until the call ends. */
uint64_t skydock_http_limit(const skydock_http_request *request, uint64_t remaining_ms);
size_t skydock_http_max_body(const skydock_http_request *request);

/* What is different in a plugin (guest/) and in tests (test.c). */
void skydock_host_send_all(const skydock_http_request *requests, size_t count, skydock_http_response *responses);
bool skydock_host_event(const char *name, skydock_severity severity, const char *reason, const char *message);
void skydock_host_log(skydock_level level, const char *message);
/* Seconds since 1970. */
int64_t skydock_host_now(void);

#endif
