/* Write a cloud provider for Skydock in C: SDK version 0.1.0, for the contract skydock:provider@0.1.1.
 *
 * You write the functions under "What a plugin is made of". Everything else here is there to be called.
 *
 * Memory: whatever Skydock gives you, and whatever the SDK returns, is valid until your function has returned, and is freed then. You
 * never free it. What must outlive a call is kept with skydock_keep. All texts end with a NUL; NULL means that a text is absent.
 *
 * Errors: a function returns NULL for success, or an error such as skydock_not_found("no server %s", id).
 */
#ifndef SKYDOCK_H
#define SKYDOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SKYDOCK_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define SKYDOCK_PRINTF(text, first)
#endif

/* ---- Errors ---- */

/* Why Skydock retries, or does not, follows from the case alone. The text is for people: one sentence, without secrets. */
typedef enum {
    SKYDOCK_NOT_FOUND,
    SKYDOCK_IMPLEMENTED_ELSEWHERE,
    SKYDOCK_CONFLICT,
    SKYDOCK_THROTTLED,
    SKYDOCK_IN_PROGRESS,
    SKYDOCK_DENIED,
    SKYDOCK_INVALID,
    SKYDOCK_UNAVAILABLE,
    SKYDOCK_INTERNAL,
    /* Only elements of calls about volumes and snapshots have these. Everywhere else, they are internal. */
    SKYDOCK_EXISTS,
    SKYDOCK_EXHAUSTED,
    SKYDOCK_OUT_OF_RANGE,
    SKYDOCK_IN_USE,
} skydock_error_case;

typedef struct {
    skydock_error_case kind;
    const char *message;
    uint64_t retry_ms; /* of throttled and in-progress */
} skydock_error;

/* The cloud answered that the object does not exist. Never use it if the cloud could not be asked. */
const skydock_error *skydock_not_found(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* Another implementation owns this object: it is ignored until it changes. */
const skydock_error *skydock_implemented_elsewhere(void);
/* Another writer changed the object at the same time: retried soon. */
const skydock_error *skydock_conflict(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* The cloud asks for fewer requests: retried after this delay. */
const skydock_error *skydock_throttled(uint64_t retry_ms, const char *format, ...) SKYDOCK_PRINTF(2, 3);
/* Accepted, and not finished yet: retried after this delay. Return it rather than wait. */
const skydock_error *skydock_in_progress(uint64_t retry_ms, const char *format, ...) SKYDOCK_PRINTF(2, 3);
/* Credentials or permissions are missing: retried with back-off. */
const skydock_error *skydock_denied(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* The object or the configuration asks for something that this cloud cannot do: not retried until it changes. */
const skydock_error *skydock_invalid(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* The cloud cannot be reached or answers with a server error: retried with back-off. */
const skydock_error *skydock_unavailable(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* Anything else: retried with back-off. */
const skydock_error *skydock_internal(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* Something else has this name: a volume of another size or with other content, or a snapshot of another volume. */
const skydock_error *skydock_exists(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* The cloud has no room for it, a quota is used up, or the node has as many volumes as it can have. */
const skydock_error *skydock_exhausted(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* The cloud does not offer this size. */
const skydock_error *skydock_out_of_range(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* It is attached to another node, or something else depends on it, so that nothing can be done. */
const skydock_error *skydock_in_use(const char *format, ...) SKYDOCK_PRINTF(1, 2);

/* True if there is an error, and it is of this case. */
bool skydock_is(const skydock_error *error, skydock_error_case kind);

/* ---- Memory and text ---- */

/* Bytes, followed by a NUL that is not counted. */
typedef struct {
    const char *data;
    size_t len;
} skydock_bytes;

typedef struct {
    const char *const *items;
    size_t len;
} skydock_strings;

typedef struct {
    const char *key;
    const char *value;
} skydock_pair;

typedef struct {
    const skydock_pair *items;
    size_t len;
} skydock_pairs;

/* Memory for this call, set to zero. The program ends if there is none. */
void *skydock_alloc(size_t size);
/* A formatted text, as by printf. */
const char *skydock_format(const char *format, ...) SKYDOCK_PRINTF(1, 2);
/* A copy of a text that outlives the call, for the configuration. It is never freed, so use it in plugin_configure only. */
const char *skydock_keep(const char *text);
/* The value of a key, or NULL. */
const char *skydock_lookup(skydock_pairs pairs, const char *key);
/* The text after the prefix, or NULL if it does not start with it. */
const char *skydock_after(const char *text, const char *prefix);
/* True if both texts are the same, or both are NULL. */
bool skydock_same(const char *one, const char *other);
void skydock_add_string(skydock_strings *list, const char *text);
void skydock_add_pair(skydock_pairs *list, const char *key, const char *value);

/* A text that grows: start with {0}. `text` ends with a NUL, and is NULL while nothing was appended. */
typedef struct {
    char *text;
    size_t len;
    size_t size;
} skydock_text;

void skydock_append(skydock_text *text, const char *format, ...) SKYDOCK_PRINTF(2, 3);

/* ---- Nodes ---- */

typedef enum {
    SKYDOCK_HOSTNAME,
    SKYDOCK_INTERNAL_IP,
    SKYDOCK_EXTERNAL_IP,
    SKYDOCK_INTERNAL_DNS,
    SKYDOCK_EXTERNAL_DNS,
} skydock_address_kind;

typedef struct {
    skydock_address_kind kind;
    const char *address;
} skydock_address;

typedef struct {
    const skydock_address *items;
    size_t len;
} skydock_addresses;

void skydock_add_address(skydock_addresses *list, skydock_address_kind kind, const char *address);

typedef enum { SKYDOCK_NO_SCHEDULE, SKYDOCK_PREFER_NO_SCHEDULE, SKYDOCK_NO_EXECUTE } skydock_taint_effect;

typedef struct {
    const char *key;
    const char *value; /* empty if the taint has none */
    skydock_taint_effect effect;
} skydock_taint;

/* A Kubernetes Node. The names are those of its API. */
typedef struct {
    const char *name;
    const char *uid;
    const char *provider_id; /* NULL until the node is initialized */
    skydock_pairs labels;
    skydock_pairs annotations;
    const skydock_taint *taints;
    size_t taint_count;
    skydock_addresses addresses;
    skydock_strings pod_cidrs;
    bool ready;
    bool unschedulable;
    const char *system_uuid;
    const char *machine_id;
    const char *architecture;
    const char *operating_system;
    const char *os_image;
    uint64_t creation_timestamp; /* seconds since 1970 */
} skydock_node;

/* What most clouds need to find the instance of a node. */
typedef struct {
    const char *name;
    const char *provider_id; /* NULL until the node is initialized */
    const char *zone;        /* NULL if the node has none */
    skydock_addresses addresses;
} skydock_target;

/* The nodes of a load balancer, lent for one call. There may be thousands: they are copied only when asked for. */
typedef struct skydock_node_set skydock_node_set;

size_t skydock_node_set_size(const skydock_node_set *nodes);
/* The nodes, ordered by name, at a tenth of the cost of skydock_node_set_nodes. */
const skydock_target *skydock_node_set_targets(const skydock_node_set *nodes, size_t *count);
const skydock_node *skydock_node_set_nodes(const skydock_node_set *nodes, size_t *count);

typedef struct {
    const skydock_target *added;
    size_t added_count;
    const skydock_target *removed;
    size_t removed_count;
} skydock_node_changes;

/* The difference from the last successful call for the Service. False if it is not known: then use the complete set. */
bool skydock_node_set_changes(const skydock_node_set *nodes, skydock_node_changes *changes);

/* ---- Services ---- */

typedef enum { SKYDOCK_TCP, SKYDOCK_UDP, SKYDOCK_SCTP } skydock_transport;
typedef enum { SKYDOCK_CLUSTER, SKYDOCK_LOCAL } skydock_traffic_policy;
typedef enum { SKYDOCK_IPV4, SKYDOCK_IPV6 } skydock_ip_family;
typedef enum { SKYDOCK_SINGLE_STACK, SKYDOCK_PREFER_DUAL_STACK, SKYDOCK_REQUIRE_DUAL_STACK } skydock_ip_family_policy;
/* SKYDOCK_IP_MODE_DEFAULT is the default of Kubernetes, which is VIP. */
typedef enum { SKYDOCK_IP_MODE_DEFAULT, SKYDOCK_VIP, SKYDOCK_PROXY } skydock_ip_mode;

typedef struct {
    const char *name;
    skydock_transport transport;
    const char *app_protocol; /* or NULL */
    uint16_t port;
    const char *target_port; /* a number, or the name of a port */
    uint16_t node_port;      /* 0 if none is allocated */
} skydock_service_port;

typedef struct {
    uint16_t port;
    skydock_transport transport;
    const char *error; /* CamelCase reason, or NULL if the port works */
} skydock_port_status;

/* A point at which a load balancer receives traffic: by address or by name. */
typedef struct {
    const char *ip;
    const char *hostname;
    skydock_ip_mode ip_mode;
    const skydock_port_status *ports;
    size_t port_count;
} skydock_ingress;

/* The complete status of a load balancer. Without ingress, it exists and does not have an address yet. */
typedef struct {
    const skydock_ingress *ingress;
    size_t len;
} skydock_load_balancer_status;

/* Adds an address; `mode` says how traffic to it arrives. */
void skydock_add_ingress_ip(skydock_load_balancer_status *status, const char *ip, skydock_ip_mode mode);
void skydock_add_ingress_hostname(skydock_load_balancer_status *status, const char *hostname);

/* A Kubernetes Service. The names are those of its API. */
typedef struct {
    const char *namespace_;
    const char *name;
    const char *uid; /* use it in names of cloud resources */
    skydock_pairs labels;
    skydock_pairs annotations;
    const skydock_service_port *ports;
    size_t port_count;
    const char *load_balancer_ip;    /* or NULL */
    const char *load_balancer_class; /* or NULL */
    skydock_strings source_ranges;   /* empty: all clients */
    skydock_traffic_policy external_traffic_policy;
    skydock_traffic_policy internal_traffic_policy;
    uint16_t health_check_node_port;     /* 0 if there is none */
    uint32_t client_ip_affinity_seconds; /* 0 without affinity */
    const skydock_ip_family *ip_families;
    size_t ip_family_count;
    skydock_ip_family_policy ip_family_policy;
    bool allocate_node_ports;
    bool publish_not_ready_addresses;
    skydock_strings cluster_ips;
    skydock_strings external_ips;
    skydock_pairs selector;
    skydock_load_balancer_status status;
    bool deleting;
} skydock_service;

/* ---- What a plugin is made of ---- */

/* Every plugin has plugin_info and plugin_configure. It has a capability if it defines the functions of its group, all of them.
 * Nothing may be remembered between calls that cannot be found again in the cloud: copies of the plugin start and end at any time. */

typedef enum { SKYDOCK_OVERLAP_ANY, SKYDOCK_OVERLAP_PER_INTERFACE, SKYDOCK_OVERLAP_NONE } skydock_overlap;

typedef struct {
    const char *name;                     /* of the provider: lower-case letters, digits and dashes */
    const char *version;                  /* of the plugin, for people */
    skydock_strings provider_id_prefixes; /* of the provider IDs that are its own */
    skydock_strings wanted_hosts;         /* what it wants to reach: scheme://host:port */
    uint32_t max_batch;                   /* nodes, routes or elements about volumes in one call; 0 for the default */
    skydock_strings unused;               /* capabilities that it does not serve with this configuration */
    skydock_overlap overlap;              /* which calls may run at the same time */
    skydock_strings annotation_prefixes;  /* of the keys of annotations that it writes */
} skydock_info;

typedef struct {
    const char *cluster_name;
    skydock_strings cluster_cidrs;
    const char *cloud_config;      /* contents of the file of --cloud-config, or NULL */
    const char *cloud_config_path; /* for messages, or NULL */
    skydock_pairs options;
} skydock_settings;

/* Fills in the identity, which is empty at first. The cloud cannot be called. */
void plugin_info(skydock_info *info);
/* Takes and checks the configuration. The cloud cannot be called. Name what is wrong, and never quote it. */
const skydock_error *plugin_configure(const skydock_settings *settings);

/* Instances: the servers behind nodes. The answers are in the order of the nodes. The error that is returned is for a call that fails
 * as a whole; one that concerns a single node belongs into its answer. */

/* SKYDOCK_ABSENT has Skydock delete the node: only if the cloud is certain. */
typedef enum { SKYDOCK_RUNNING, SKYDOCK_STOPPED, SKYDOCK_ABSENT } skydock_presence;

typedef struct {
    const skydock_error *error;
    skydock_presence presence;
} skydock_presence_answer;

typedef struct {
    const char *provider_id; /* all texts may be NULL */
    const char *instance_type;
    const char *zone;
    const char *region;
    skydock_addresses addresses; /* if empty, the node keeps its addresses */
    skydock_pairs labels;
    skydock_pairs annotations;
} skydock_instance;

typedef struct {
    const skydock_error *error;
    skydock_instance instance;
} skydock_instance_answer;

const skydock_error *instances_check(const skydock_node *nodes, size_t count, skydock_presence_answer *answers);
const skydock_error *instances_describe(const skydock_node *nodes, size_t count, skydock_instance_answer *answers);

/* Load balancers. Each function may be called again with the same arguments, also after its answer was lost. None waits. */

/* Sets `exists` and `status` if the load balancer of the Service exists. Changes nothing. */
const skydock_error *load_balancers_get(const skydock_service *service, bool *exists, skydock_load_balancer_status *status);
/* Creates or updates it, with these nodes as targets. */
const skydock_error *load_balancers_ensure(const skydock_service *service, const skydock_node_set *nodes,
                                           skydock_load_balancer_status *status);
/* Sets the targets, and nothing else. Not-found if it does not exist. */
const skydock_error *load_balancers_update_nodes(const skydock_service *service, const skydock_node_set *nodes);
/* Deletes it with everything that belongs to it. Succeeds if nothing exists. */
const skydock_error *load_balancers_ensure_deleted(const skydock_service *service);

/* Routes to the Pods of nodes. The answers are in the order of the routes. */

typedef struct {
    const char *name;        /* the cloud's own name or ID */
    const char *target_node; /* or NULL, if the cloud does not know */
    bool has_target_addresses;
    skydock_addresses target_addresses; /* only with has_target_addresses */
    const char *destination_cidr;
    bool blackhole; /* its instance does not exist */
} skydock_route;

typedef struct {
    const char *name_hint; /* UID of the node; both IP families share it */
    const char *target_node;
    const char *target_provider_id; /* NULL before initialization */
    skydock_addresses target_addresses;
    const char *destination_cidr;
} skydock_new_route;

typedef struct {
    const skydock_route *routes;
    size_t len;
    const char *next; /* token of the next page, or NULL after the last */
} skydock_route_page;

void skydock_add_route(skydock_route_page *page, skydock_route route);

/* Lists this cluster's routes: the first page if `page` is NULL, or else the page with this token. */
const skydock_error *routes_list(const char *page, skydock_route_page *answer);
/* Creates routes. One that exists is a success. */
void routes_create(const skydock_new_route *routes, size_t count, const skydock_error **answers);
/* Deletes routes. One that does not exist is a success. */
void routes_delete(const skydock_route *routes, size_t count, const skydock_error **answers);

/* Zones of nodes, for plugins that know them without instances. */

typedef struct {
    const skydock_error *error;
    const char *zone;   /* or NULL */
    const char *region; /* or NULL */
} skydock_zone_answer;

const skydock_error *zones_locate(const skydock_node *nodes, size_t count, skydock_zone_answer *answers);

/* Periodic work. Sets the milliseconds until the next call. */
const skydock_error *maintenance_maintain(uint64_t *next_ms);

/* Volumes, as the controller part of a CSI driver: csi-provisioner, csi-attacher, csi-resizer and csi-snapshotter ask it. The node part of
 * that driver is not a plugin: IDs, topology and contexts are in the form that it expects. The other capabilities about volumes need this
 * one.
 *
 * Each function may be called again with the same arguments, also after its answer was lost. None waits: an element is in progress until the
 * cloud has finished. The answers are in the order of the elements, and the error that is returned is for a call that fails as a whole.
 * After exists, exhausted, out-of-range, in-use, not-found and invalid, Kubernetes forgets what it has asked for: to create something must
 * fail in one of these ways only if nothing of it is left in the cloud. What belongs to another cluster is never listed, copied, changed or
 * deleted. */

/* On how many nodes a volume is used, and what for. */
typedef enum {
    SKYDOCK_SINGLE_NODE_WRITER,
    SKYDOCK_SINGLE_NODE_READER_ONLY,
    SKYDOCK_MULTI_NODE_READER_ONLY,
    SKYDOCK_MULTI_NODE_SINGLE_WRITER,
    SKYDOCK_MULTI_NODE_MULTI_WRITER,
} skydock_access_mode;

/* How Pods use a volume. */
typedef struct {
    skydock_access_mode mode;
    const char *file_system; /* empty for the default of the driver's node part; NULL for a block device */
} skydock_volume_capability;

/* Parts of the cloud from which volumes can be reached: each has keys and values of node labels. */
typedef struct {
    const skydock_pairs *items;
    size_t len;
} skydock_topologies;

void skydock_add_topology(skydock_topologies *list, skydock_pairs topology);

/* The object of a user for which something is created. */
typedef struct {
    const char *namespace_;
    const char *name;
    skydock_pairs annotations; /* empty if they are not known */
} skydock_owner;

typedef struct {
    const char *name;                        /* of the CSI driver: a DNS name in lower case, at most 63 bytes */
    skydock_strings topology_keys;           /* of volumes; empty if all nodes can reach all volumes */
    const skydock_access_mode *access_modes; /* how volumes can be used; at least one */
    size_t access_mode_count;
    bool clones; /* a volume can be created as a copy of another one */
} skydock_driver;

void skydock_add_access_mode(skydock_driver *driver, skydock_access_mode mode);

typedef struct {
    const char *id; /* the cloud's ID, volumeHandle of the PersistentVolume */
    uint64_t size_bytes;
    skydock_topologies topology; /* from where it can be reached; empty if all nodes can */
    skydock_pairs context;       /* for the node part of the driver: no secrets, and the same in each answer */
    skydock_strings nodes;       /* CSI node IDs of the nodes that it is attached to */
} skydock_volume;

typedef struct {
    const skydock_error *error;
    skydock_volume volume;
} skydock_volume_answer;

/* A volume that the cluster needs. */
typedef struct {
    const char *name;     /* unique, at most 128 bytes; it has to be found again in the cloud */
    uint64_t size_bytes;  /* minimum; 0 leaves it to the plugin */
    uint64_t limit_bytes; /* maximum; 0 if there is none */
    const skydock_volume_capability *capabilities;
    size_t capability_count;      /* at least one */
    skydock_pairs parameters;     /* of the StorageClass */
    skydock_pairs attributes;     /* of the VolumeAttributesClass, which take precedence */
    const char *snapshot;         /* ID of the snapshot that it begins with the content of, or NULL */
    const char *original;         /* ID of the volume that it begins as a copy of, or NULL */
    skydock_topologies requisite; /* from one of which it must be reachable; empty if any will do */
    skydock_topologies preferred; /* some of them, the best first */
    const skydock_owner *claim;   /* its PersistentVolumeClaim, or NULL if it is not known */
} skydock_new_volume;

typedef struct {
    const skydock_volume *volumes;
    size_t len;
    const char *next; /* token of the next page, or NULL after the last */
} skydock_volume_page;

void skydock_add_volume(skydock_volume_page *page, skydock_volume volume);

/* Fills in the driver, which is empty at first. The cloud cannot be called. */
void volumes_driver(skydock_driver *driver);
/* Creates volumes. There is never a second one with the same name: one that exists and is as requested is the answer. */
const skydock_error *volumes_create(const skydock_new_volume *volumes, size_t count, skydock_volume_answer *answers);
const skydock_error *volumes_get(const char *const *ids, size_t count, skydock_volume_answer *answers);
/* Lists this cluster's volumes: the first page if `page` is NULL, or else the page with this token. */
const skydock_error *volumes_list(const char *page, skydock_volume_page *answer);
/* Deletes volumes. One that does not exist is a success, and one that is attached is in use. */
const skydock_error *volumes_delete(const char *const *ids, size_t count, const skydock_error **answers);

/* Attachments of volumes to the instances of nodes. */

typedef struct {
    const char *volume; /* its ID */
    const char *node;   /* CSI node ID */
    skydock_volume_capability capability;
    skydock_pairs context; /* of the volume, as it was when the volume was created */
} skydock_new_attachment;

typedef struct {
    const char *volume; /* its ID */
    const char *node;   /* CSI node ID, or NULL for all nodes that it is attached to */
} skydock_attachment;

typedef struct {
    const skydock_error *error;
    skydock_pairs context; /* what the node part of the driver needs to find the device */
} skydock_attachment_answer;

/* Attaches volumes. An element succeeds when the instance has the device. */
const skydock_error *attachments_attach_volumes(const skydock_new_attachment *attachments, size_t count,
                                                skydock_attachment_answer *answers);
/* Detaches volumes. One that is not attached is a success, and one that is attached to another node stays there. */
const skydock_error *attachments_detach_volumes(const skydock_attachment *attachments, size_t count, const skydock_error **answers);

/* Larger volumes. */

typedef struct {
    const char *volume;   /* its ID */
    uint64_t size_bytes;  /* minimum */
    uint64_t limit_bytes; /* maximum; 0 if there is none */
} skydock_expansion;

typedef struct {
    const skydock_error *error;
    uint64_t size_bytes;
} skydock_size_answer;

/* Expands volumes. Volumes never shrink. */
const skydock_error *volume_expansion_expand_volumes(const skydock_expansion *expansions, size_t count, skydock_size_answer *answers);

/* Properties of volumes that change. */

typedef struct {
    const char *volume;       /* its ID */
    skydock_pairs attributes; /* of the VolumeAttributesClass */
} skydock_modification;

/* Modifies volumes. With an unknown property, nothing is changed, and the element is invalid. */
const skydock_error *volume_attributes_modify_volumes(const skydock_modification *modifications, size_t count,
                                                      const skydock_error **answers);

/* Snapshots of volumes, from which volumes can be created. */

typedef struct {
    const char *id;              /* the cloud's ID, snapshotHandle of the VolumeSnapshotContent */
    const char *volume;          /* ID of the volume, also if that does not exist any more */
    uint64_t size_bytes;         /* minimum size of a volume that is created from it */
    uint64_t creation_timestamp; /* when it was cut, in seconds since 1970 */
    bool ready;                  /* volumes can be created from it */
} skydock_snapshot;

typedef struct {
    const skydock_error *error;
    skydock_snapshot snapshot;
} skydock_snapshot_answer;

/* A snapshot that the cluster needs. */
typedef struct {
    const char *name;           /* unique, at most 128 bytes; it has to be found again in the cloud */
    const char *volume;         /* its ID */
    skydock_pairs parameters;   /* of the VolumeSnapshotClass */
    const skydock_owner *owner; /* its VolumeSnapshot, or NULL if it is not known */
} skydock_new_snapshot;

typedef struct {
    const skydock_snapshot *snapshots;
    size_t len;
    const char *next; /* token of the next page, or NULL after the last */
} skydock_snapshot_page;

void skydock_add_snapshot(skydock_snapshot_page *page, skydock_snapshot snapshot);

/* Creates snapshots. An element succeeds as soon as the snapshot is cut. There is never a second one with the same name. */
const skydock_error *snapshots_create(const skydock_new_snapshot *snapshots, size_t count, skydock_snapshot_answer *answers);
const skydock_error *snapshots_get(const char *const *ids, size_t count, skydock_snapshot_answer *answers);
/* Lists this cluster's snapshots, page by page. */
const skydock_error *snapshots_list(const char *page, skydock_snapshot_page *answer);
/* Deletes snapshots. One that does not exist is a success. */
const skydock_error *snapshots_delete(const char *const *ids, size_t count, const skydock_error **answers);

/* Room for volumes. */

typedef struct {
    const skydock_volume_capability *capabilities; /* how volumes would be used */
    size_t capability_count;                       /* 0 if it does not matter */
    skydock_pairs parameters;                      /* of the StorageClass */
    bool has_topology;
    skydock_pairs topology; /* the part of the cloud, only with has_topology; otherwise, all parts together */
} skydock_capacity_request;

typedef struct {
    const skydock_error *error;
    uint64_t available_bytes; /* for all further volumes together */
    uint64_t maximum_bytes;   /* of one volume; 0 if only available_bytes limits it */
    uint64_t minimum_bytes;   /* of one volume; 0 if there is none */
} skydock_capacity_answer;

const skydock_error *storage_capacity_get_capacities(const skydock_capacity_request *requests, size_t count,
                                                     skydock_capacity_answer *answers);

/* ---- The host ---- */

/* Milliseconds until the host ends this call. Return skydock_in_progress before that. */
uint64_t skydock_remaining_ms(void);
/* Bytes of memory that this copy of the plugin may have. */
uint64_t skydock_memory_limit(void);
/* Replaces this copy of the plugin after the call. */
void skydock_retire(void);

/* UID of the cluster, or NULL while it is not known: it belongs on everything that is created. */
const char *skydock_cluster_uid(void);
/* A number that grows when a node or Service changes. False while the caches are not filled. */
bool skydock_cluster_revision(uint64_t *revision);
const skydock_node *skydock_cluster_nodes(size_t *count);
const skydock_service *skydock_cluster_services(size_t *count);
/* The object as JSON, or NULL if it does not exist or is not this plugin's. */
const char *skydock_node_json(const char *name);
const char *skydock_service_json(const char *namespace_, const char *name);

/* The store that all copies of the plugin share. Keys have 1 to 256 bytes, values at most 64 KiB. */
bool skydock_cache_get(const char *key, skydock_bytes *value);
/* False if a limit is exceeded. */
bool skydock_cache_set(const char *key, skydock_bytes value, uint64_t ttl_ms);
/* Sets the value if the key has none, and returns true; otherwise sets `other` to the existing value. Who finds their own value holds
 * the key, too. */
bool skydock_cache_reserve(const char *key, skydock_bytes value, uint64_t ttl_ms, skydock_bytes *other);
void skydock_cache_remove(const char *key);
/* The bytes of a text. */
skydock_bytes skydock_bytes_of(const char *text);

typedef enum { SKYDOCK_NORMAL, SKYDOCK_WARNING } skydock_severity;

/* Publishes an event on an object of the call: NAME of a node, or NAMESPACE/NAME of a Service. */
bool skydock_event(const char *name, skydock_severity severity, const char *reason, const char *format, ...) SKYDOCK_PRINTF(4, 5);
/* Sets an annotation on an object of the call, or removes it if `value` is NULL. False if the plugin may not write it. */
bool skydock_annotate(const char *name, const char *key, const char *value);

typedef enum { SKYDOCK_READ, SKYDOCK_READ_NOT_GRANTED, SKYDOCK_READ_NOT_THERE, SKYDOCK_READ_UNAVAILABLE } skydock_read_result;

/* Reads `v1/Secret`, `v1/ConfigMap` or `v1/Namespace` as JSON. Otherwise, sets the reason if the API server could not be asked. */
skydock_read_result skydock_read_object(const char *kind, const char *namespace_, const char *name, const char **json_or_reason);

typedef enum { SKYDOCK_LOG_TRACE, SKYDOCK_LOG_DEBUG, SKYDOCK_LOG_INFO, SKYDOCK_LOG_WARN, SKYDOCK_LOG_ERROR, SKYDOCK_LOG_CRITICAL } skydock_level;

void skydock_log(skydock_level level, const char *format, ...) SKYDOCK_PRINTF(2, 3);

/* ---- HTTP ---- */

/* Most requests in flight at a time. The others of skydock_http_send_all wait. */
#define SKYDOCK_HTTP_AT_ONCE 8

/* A request. Start with {0} or skydock_http_get and so on. The host adds credentials, and the egress rules decide what is reachable. */
typedef struct {
    const char *method; /* GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS */
    const char *url;
    skydock_pairs headers;
    skydock_bytes body;
    uint64_t timeout_ms;        /* 0: until shortly before the call ends, which is always the limit */
    size_t max_body;            /* bytes of the answer's body; 0: 16 MiB */
    const skydock_error *error; /* if set, nothing is sent, and the response has this error */
} skydock_http_request;

/* A response, or the reason why there is none: denied, unavailable or internal. A status such as 404 is a response. */
typedef struct {
    const skydock_error *error;
    int status;
    skydock_pairs headers; /* names in lower case */
    skydock_bytes body;
} skydock_http_response;

/* A request without body. */
skydock_http_request skydock_http(const char *method, const char *url);
/* A request with JSON. */
skydock_http_request skydock_http_json(const char *method, const char *url, const char *json);
/* Sends a request, and waits for its response. */
void skydock_http_send(const skydock_http_request *request, skydock_http_response *response);
/* Sends requests at the same time, and waits for all responses, which are in the same order. */
void skydock_http_send_all(const skydock_http_request *requests, size_t count, skydock_http_response *responses);
/* A text for the path or the query of a URL, percent-encoded. A path with the segments `.` or `..` is never sent. */
const char *skydock_escape(const char *text);
/* The first header with this name, ignoring case, or NULL. */
const char *skydock_http_header(const skydock_http_response *response, const char *name);
/* NULL if the status is 200 to 299; otherwise the error that the status stands for, with the cloud's message:
 *
 *   429, and any from 400 on with Retry-After   throttled, for that time, or 5 s
 *   401, 402, 403, 407                          denied
 *   404, 410                                    not-found
 *   409, 412, 423                               conflict
 *   408, 425, from 500 on                       unavailable
 *   others from 400 on                          invalid
 *   below 400                                   internal
 */
const skydock_error *skydock_http_error(const skydock_http_response *response);

/* ---- JSON ---- */

/* A value. All functions accept NULL, so that a path of names can be followed without checks in between. */
typedef struct skydock_json skydock_json;

typedef enum {
    SKYDOCK_JSON_NULL,
    SKYDOCK_JSON_BOOL,
    SKYDOCK_JSON_NUMBER,
    SKYDOCK_JSON_STRING,
    SKYDOCK_JSON_ARRAY,
    SKYDOCK_JSON_OBJECT,
} skydock_json_kind;

/* Parses a text (RFC 8259, at most 64 levels deep). Returns an error that says where it is not valid. */
const skydock_error *skydock_json_parse(skydock_bytes text, const skydock_json **json);
/* NULL counts as SKYDOCK_JSON_NULL. */
skydock_json_kind skydock_json_kind_of(const skydock_json *json);
/* The member of an object, or NULL. If the name is there twice, the last one counts. */
const skydock_json *skydock_json_get(const skydock_json *json, const char *name);
/* The first element of an array, or member of an object; NULL if there is none. */
const skydock_json *skydock_json_first(const skydock_json *json);
/* The element or member after this one. */
const skydock_json *skydock_json_next(const skydock_json *json);
/* The number of elements or members. */
size_t skydock_json_count(const skydock_json *json);
/* The name of a member, or NULL. */
const char *skydock_json_name(const skydock_json *json);
/* The text of a string, or NULL. */
const char *skydock_json_string(const skydock_json *json);
/* False if it is not a whole number of this type. */
bool skydock_json_integer(const skydock_json *json, int64_t *number);
bool skydock_json_number(const skydock_json *json, double *number);
/* True only for `true`. */
bool skydock_json_true(const skydock_json *json);
/* True if both are the same; the order of members does not matter. */
bool skydock_json_same(const skydock_json *one, const skydock_json *other);
/* The value as JSON text. */
const char *skydock_json_text(const skydock_json *json);
/* A text as a JSON string, with its quotes; NULL as null. With skydock_append, this is how JSON is written. */
const char *skydock_json_quote(const char *text);

#ifdef __cplusplus
}
#endif

#endif
