/* The part of simcloud that this provider uses, in memory. */
#ifndef FAKE_CLOUD_TEST_H
#define FAKE_CLOUD_TEST_H

#include "skydock/skydock_test.h"

#define FAKE_URL "http://127.0.0.1:8080"

struct fake_cloud {
    struct {
        const char *kind;
        const skydock_json *json;
    } objects[64];
    size_t count;
    const char *new_status; /* of load balancers that are created */
    bool loses_answer;      /* of the next create */
    int broken_status;      /* if not 0, every answer has this status, and is not the cloud's */
    skydock_text calls;     /* "METHOD KIND", each with a space after it */
};

/* Starts a cloud with two servers, of which the second is stopped, and lets requests reach it. */
void fake_cloud_start(struct fake_cloud *cloud, skydock_test_host *host);
/* The object with this ID, or NULL. */
const skydock_json *fake_cloud_get(const struct fake_cloud *cloud, const char *kind, const char *id);
/* Changes fields of an object, or creates it. */
void fake_cloud_set(struct fake_cloud *cloud, const char *kind, const char *id, const char *fields);

#endif
