/* Unit tests of a plugin, without Skydock: a host in memory. Compile the plugin, its tests and all C files in this folder with the compiler of
 * your machine, for example with `cc -g -fsanitize=address,undefined`. */
#ifndef SKYDOCK_TEST_H
#define SKYDOCK_TEST_H

#include "skydock.h"

/* Answers a request. The response is empty at first, with status 200. To have a request fail, set its error. */
typedef void skydock_test_http(const skydock_http_request *request, skydock_http_response *response, void *data);

/* What the plugin sees of the host. Set it as the test needs it. */
typedef struct {
    const char *cluster_uid; /* NULL: not known yet */
    bool has_revision;
    uint64_t revision;
    const skydock_node *nodes;
    size_t node_count;
    const skydock_service *services;
    size_t service_count;
    uint64_t remaining_ms;
    skydock_pairs objects;           /* "KIND NAMESPACE/NAME" and the JSON; what is not there is not granted */
    skydock_strings writable_prefix; /* of annotations that may be written */
    skydock_test_http *http;         /* NULL: every request is denied */
    void *http_data;
    bool prints_log; /* to standard error */

    /* What the plugin has done. */
    skydock_strings events;      /* "NAME REASON: MESSAGE" */
    skydock_strings annotations; /* "NAME KEY=VALUE", or "NAME KEY" for one that is removed */
    size_t request_count;
    bool retired;
} skydock_test_host;

/* Starts a test with an empty host: 30 s for a call, and the UID `cluster-1`. Frees everything of the test before. */
skydock_test_host *skydock_test_begin(void);
/* Ends the last test, and frees everything. */
void skydock_test_end(void);
/* Frees the memory of the calls so far, as Skydock does between two calls: what the plugin still uses then is found by a sanitizer. Nothing
 * that tests have from the SDK may be used afterwards, and the lists of the host are empty. */
void skydock_test_next_call(void);
/* The nodes of a load balancer, for the call. `changes` may be NULL. */
const skydock_node_set *skydock_test_nodes(const skydock_node *nodes, size_t count, const skydock_node_changes *changes);

/* Fails the test unless the condition is true. */
#define SKYDOCK_CHECK(condition) skydock_test_check((condition), #condition, __FILE__, __LINE__)
/* Fails the test unless both texts are the same. */
#define SKYDOCK_CHECK_TEXT(actual, expected) skydock_test_check_text((actual), (expected), __FILE__, __LINE__)
/* Fails the test if there is an error, and shows it. */
#define SKYDOCK_CHECK_GOOD(error) skydock_test_check_good((error), __FILE__, __LINE__)

void skydock_test_check(bool condition, const char *text, const char *file, int line);
void skydock_test_check_text(const char *actual, const char *expected, const char *file, int line);
void skydock_test_check_good(const skydock_error *error, const char *file, int line);

typedef struct {
    const char *name;
    void (*run)(void);
} skydock_test_case;

/* Runs the tests, and prints their names. Returns what main returns. */
int skydock_test_run(const skydock_test_case *tests, size_t count);

#endif
