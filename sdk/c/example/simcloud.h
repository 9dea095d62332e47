/* What the files of this provider share. */
#ifndef SIMCLOUD_H
#define SIMCLOUD_H

#include "skydock/skydock.h"

/* Beginning of the provider IDs of this cloud's servers: simcloud:///ZONE/ID. */
#define SCHEME "simcloud://"

/* The operator's configuration, which plugin_configure sets. */
extern const char *cloud_url;
extern const char *cloud_region;

/* URLs of a list, of an object, and of the objects with a name, which is the only list that does not lag behind. */
const char *list_url(const char *kind);
const char *object_url(const char *kind, const char *id);
const char *named_url(const char *kind, const char *name);

/* Reads the JSON of a success. */
const skydock_error *read_json(const skydock_http_response *response, const skydock_json **json);
/* Sends a request and reads the JSON of a success. */
const skydock_error *ask(skydock_http_request request, const skydock_json **json);
/* The cloud's error, if the response is one with this status and code, or else NULL. */
const skydock_json *problem(const skydock_http_response *response, int status, const char *code);
/* Accepts a deletion, also of what is already gone. */
const skydock_error *deleted(const skydock_http_response *response);

/* A member of an object that is a text; empty if it is not there. */
const char *text_of(const skydock_json *object, const char *name);
/* The ID of the server in a provider ID, or NULL. */
const char *server_id(const char *provider_id);
/* The UID of the cluster, which is on everything that is created here. */
const skydock_error *cluster_uid(const char **uid);
/* Whether an object is this cluster's. One whose label was removed is, too: all names have a UID of this cluster's objects. */
bool owns(const skydock_json *object, const char *cluster);

#endif
