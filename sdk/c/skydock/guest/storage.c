/* Volumes and snapshots: conversions, and the functions that the host calls. The types of an interface are only there if the plugin has the
 * capability, and those of `storage` if it has one of them. */
#include "guest.h"

#if defined(SKYDOCK_SERVES_VOLUMES) || defined(SKYDOCK_SERVES_ATTACHMENTS) || defined(SKYDOCK_SERVES_VOLUME_EXPANSION) ||                  \
    defined(SKYDOCK_SERVES_VOLUME_ATTRIBUTES) || defined(SKYDOCK_SERVES_SNAPSHOTS) || defined(SKYDOCK_SERVES_STORAGE_CAPACITY)

static skydock_provider_storage_storage_error_t error_out(const skydock_error *error) {
    skydock_provider_storage_storage_error_t out = {.tag = SKYDOCK_PROVIDER_STORAGE_STORAGE_ERROR_CLOUD};
    if (error->kind <= SKYDOCK_INTERNAL) {
        out.val.cloud = skydock_error_out(error);
        return out;
    }
    /* The other cases have the same order in both, and all of them have a text. */
    out.tag = (uint8_t)(SKYDOCK_PROVIDER_STORAGE_STORAGE_ERROR_EXISTS + (error->kind - SKYDOCK_EXISTS));
    out.val.exists = skydock_text_out(error->message);
    return out;
}

/* Types of the same form have other names in each interface, so these are macros.
 *
 * Answers without a value: `errors` has one for each element, or NULL. */
#define ERRORS_OUT(ret, errors, count)                                                                                                     \
    do {                                                                                                                                   \
        (ret)->len = (count);                                                                                                              \
        (ret)->ptr = skydock_alloc((ret)->len * sizeof *(ret)->ptr);                                                                       \
        for (size_t i = 0; i < (ret)->len; i++) {                                                                                          \
            (ret)->ptr[i].is_err = (errors)[i] != NULL;                                                                                    \
            if ((errors)[i] != NULL) {                                                                                                     \
                (ret)->ptr[i].val.err = error_out((errors)[i]);                                                                            \
            }                                                                                                                              \
        }                                                                                                                                  \
    } while (0)

/* Answers with a value, which CONVERT sets. */
#define ANSWERS_OUT(ret, answers, count, CONVERT)                                                                                          \
    do {                                                                                                                                   \
        (ret)->len = (count);                                                                                                              \
        (ret)->ptr = skydock_alloc((ret)->len * sizeof *(ret)->ptr);                                                                       \
        for (size_t i = 0; i < (ret)->len; i++) {                                                                                          \
            (ret)->ptr[i].is_err = (answers)[i].error != NULL;                                                                             \
            if ((answers)[i].error != NULL) {                                                                                              \
                (ret)->ptr[i].val.err = error_out((answers)[i].error);                                                                     \
            } else {                                                                                                                       \
                CONVERT(&(answers)[i], &(ret)->ptr[i].val.ok);                                                                             \
            }                                                                                                                              \
        }                                                                                                                                  \
    } while (0)

/* A list of pairs. */
#define PAIRS_OUT(ret, pairs)                                                                                                              \
    do {                                                                                                                                   \
        skydock_provider_types_list_pair_t list = skydock_pairs_out(pairs);                                                                \
        (ret)->ptr = list.ptr;                                                                                                             \
        (ret)->len = list.len;                                                                                                             \
    } while (0)
#endif

#if defined(SKYDOCK_SERVES_VOLUMES) || defined(SKYDOCK_SERVES_ATTACHMENTS) || defined(SKYDOCK_SERVES_STORAGE_CAPACITY)
static skydock_volume_capability capability_in(const skydock_provider_storage_volume_capability_t *in) {
    return (skydock_volume_capability){(skydock_access_mode)in->mode, skydock_option_in(in->file_system)};
}
#endif

#if defined(SKYDOCK_SERVES_VOLUMES) || defined(SKYDOCK_SERVES_STORAGE_CAPACITY)
static const skydock_volume_capability *capabilities_in(const skydock_provider_storage_volume_capability_t *items, size_t len) {
    skydock_volume_capability *out = skydock_alloc(len * sizeof *out);
    for (size_t i = 0; i < len; i++) {
        out[i] = capability_in(&items[i]);
    }
    return out;
}
#endif

#if defined(SKYDOCK_SERVES_VOLUMES) || defined(SKYDOCK_SERVES_VOLUME_EXPANSION)
/* A limit that is not there is 0. */
static uint64_t limit_in(built_option_u64_t limit) {
    return limit.is_some ? limit.val : 0;
}
#endif

#if defined(SKYDOCK_SERVES_VOLUMES) || defined(SKYDOCK_SERVES_SNAPSHOTS)
static const skydock_owner *owner_in(bool is_known, const skydock_provider_storage_owner_t *in) {
    if (!is_known) {
        return NULL;
    }
    skydock_owner *out = skydock_alloc(sizeof *out);
    out->namespace_ = skydock_text_in(in->namespace_);
    out->name = skydock_text_in(in->name);
    out->annotations = skydock_pairs_in(in->annotations.ptr, in->annotations.len);
    return out;
}
#endif

#ifdef SKYDOCK_SERVES_VOLUMES
static skydock_topologies topologies_in(const skydock_provider_storage_topology_t *items, size_t len) {
    skydock_pairs *out = skydock_alloc(len * sizeof *out);
    for (size_t i = 0; i < len; i++) {
        out[i] = skydock_pairs_in(items[i].ptr, items[i].len);
    }
    return (skydock_topologies){out, len};
}

static void volume_out(const skydock_volume *in, exports_skydock_provider_volumes_volume_t *out) {
    out->id = skydock_text_out(in->id);
    out->size_bytes = in->size_bytes;
    out->topology.len = in->topology.len;
    out->topology.ptr = skydock_alloc(in->topology.len * sizeof *out->topology.ptr);
    for (size_t i = 0; i < in->topology.len; i++) {
        PAIRS_OUT(&out->topology.ptr[i], in->topology.items[i]);
    }
    PAIRS_OUT(&out->context, in->context);
    out->nodes = skydock_strings_out(in->nodes);
}

static void volume_answer_out(const skydock_volume_answer *in, exports_skydock_provider_volumes_volume_t *out) {
    volume_out(&in->volume, out);
}

void exports_skydock_provider_volumes_driver(exports_skydock_provider_volumes_driver_info_t *ret) {
    skydock_call_begins();
    skydock_driver driver = {0};
    volumes_driver(&driver);
    ret->name = skydock_text_out(driver.name);
    ret->topology_keys = skydock_strings_out(driver.topology_keys);
    ret->access_modes.len = driver.access_mode_count;
    ret->access_modes.ptr = skydock_alloc(driver.access_mode_count * sizeof *ret->access_modes.ptr);
    for (size_t i = 0; i < driver.access_mode_count; i++) {
        ret->access_modes.ptr[i] = (uint8_t)driver.access_modes[i];
    }
    ret->clones = driver.clones;
    skydock_call_ends();
}

bool exports_skydock_provider_volumes_create_volumes(exports_skydock_provider_volumes_list_new_volume_t *in,
                                                     exports_skydock_provider_volumes_list_result_volume_storage_error_t *ret,
                                                     skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_new_volume *volumes = skydock_alloc(in->len * sizeof *volumes);
    for (size_t i = 0; i < in->len; i++) {
        const exports_skydock_provider_volumes_new_volume_t *from = &in->ptr[i];
        volumes[i] = (skydock_new_volume){
            .name = skydock_text_in(from->name),
            .size_bytes = from->size_bytes,
            .limit_bytes = limit_in(from->limit_bytes),
            .capabilities = capabilities_in(from->capabilities.ptr, from->capabilities.len),
            .capability_count = from->capabilities.len,
            .parameters = skydock_pairs_in(from->parameters.ptr, from->parameters.len),
            .attributes = skydock_pairs_in(from->attributes.ptr, from->attributes.len),
            .snapshot = skydock_option_in(from->snapshot),
            .original = skydock_option_in(from->original),
            .requisite = topologies_in(from->requisite.ptr, from->requisite.len),
            .preferred = topologies_in(from->preferred.ptr, from->preferred.len),
            .claim = owner_in(from->claim.is_some, &from->claim.val),
        };
    }
    skydock_volume_answer *answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = volumes_create(volumes, in->len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? in->len : 0, volume_answer_out);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_volumes_get_volumes(built_list_string_t *in,
                                                  exports_skydock_provider_volumes_list_result_volume_storage_error_t *ret,
                                                  skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_strings ids = skydock_strings_in(in->ptr, in->len);
    skydock_volume_answer *answers = skydock_alloc(ids.len * sizeof *answers);
    const skydock_error *error = volumes_get(ids.items, ids.len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? ids.len : 0, volume_answer_out);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_volumes_list_volumes(built_string_t *maybe_page, exports_skydock_provider_volumes_volume_page_t *ret,
                                                   skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_volume_page page = {0};
    const skydock_error *error = volumes_list(maybe_page == NULL ? NULL : skydock_text_in(*maybe_page), &page);
    ret->next = skydock_option_out(page.next);
    ret->volumes.len = page.len;
    ret->volumes.ptr = skydock_alloc(page.len * sizeof *ret->volumes.ptr);
    for (size_t i = 0; i < page.len; i++) {
        volume_out(&page.volumes[i], &ret->volumes.ptr[i]);
    }
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_volumes_delete_volumes(built_list_string_t *in,
                                                     exports_skydock_provider_volumes_list_result_void_storage_error_t *ret,
                                                     skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_strings ids = skydock_strings_in(in->ptr, in->len);
    const skydock_error **answers = skydock_alloc(ids.len * sizeof *answers);
    const skydock_error *error = volumes_delete(ids.items, ids.len, answers);
    ERRORS_OUT(ret, answers, error == NULL ? ids.len : 0);
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_ATTACHMENTS
static void attachment_out(const skydock_attachment_answer *in, exports_skydock_provider_attachments_list_pair_t *out) {
    PAIRS_OUT(out, in->context);
}

bool exports_skydock_provider_attachments_attach_volumes(exports_skydock_provider_attachments_list_new_attachment_t *in,
                                                         exports_skydock_provider_attachments_list_result_list_pair_storage_error_t *ret,
                                                         skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_new_attachment *attachments = skydock_alloc(in->len * sizeof *attachments);
    for (size_t i = 0; i < in->len; i++) {
        const exports_skydock_provider_attachments_new_attachment_t *from = &in->ptr[i];
        attachments[i] = (skydock_new_attachment){
            .volume = skydock_text_in(from->volume),
            .node = skydock_text_in(from->node),
            .capability = capability_in(&from->capability),
            .context = skydock_pairs_in(from->context.ptr, from->context.len),
        };
    }
    skydock_attachment_answer *answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = attachments_attach_volumes(attachments, in->len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? in->len : 0, attachment_out);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_attachments_detach_volumes(exports_skydock_provider_attachments_list_attachment_t *in,
                                                         exports_skydock_provider_attachments_list_result_void_storage_error_t *ret,
                                                         skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_attachment *attachments = skydock_alloc(in->len * sizeof *attachments);
    for (size_t i = 0; i < in->len; i++) {
        attachments[i] = (skydock_attachment){skydock_text_in(in->ptr[i].volume), skydock_option_in(in->ptr[i].node)};
    }
    const skydock_error **answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = attachments_detach_volumes(attachments, in->len, answers);
    ERRORS_OUT(ret, answers, error == NULL ? in->len : 0);
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_VOLUME_EXPANSION
static void size_out(const skydock_size_answer *in, uint64_t *out) {
    *out = in->size_bytes;
}

bool exports_skydock_provider_volume_expansion_expand_volumes(exports_skydock_provider_volume_expansion_list_expansion_t *in,
                                                              exports_skydock_provider_volume_expansion_list_result_u64_storage_error_t *ret,
                                                              skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_expansion *expansions = skydock_alloc(in->len * sizeof *expansions);
    for (size_t i = 0; i < in->len; i++) {
        expansions[i] = (skydock_expansion){skydock_text_in(in->ptr[i].volume), in->ptr[i].size_bytes, limit_in(in->ptr[i].limit_bytes)};
    }
    skydock_size_answer *answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = volume_expansion_expand_volumes(expansions, in->len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? in->len : 0, size_out);
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_VOLUME_ATTRIBUTES
bool exports_skydock_provider_volume_attributes_modify_volumes(exports_skydock_provider_volume_attributes_list_modification_t *in,
                                                               exports_skydock_provider_volume_attributes_list_result_void_storage_error_t *ret,
                                                               skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_modification *modifications = skydock_alloc(in->len * sizeof *modifications);
    for (size_t i = 0; i < in->len; i++) {
        modifications[i].volume = skydock_text_in(in->ptr[i].volume);
        modifications[i].attributes = skydock_pairs_in(in->ptr[i].attributes.ptr, in->ptr[i].attributes.len);
    }
    const skydock_error **answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = volume_attributes_modify_volumes(modifications, in->len, answers);
    ERRORS_OUT(ret, answers, error == NULL ? in->len : 0);
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_SNAPSHOTS
static void snapshot_out(const skydock_snapshot *in, exports_skydock_provider_snapshots_snapshot_t *out) {
    out->id = skydock_text_out(in->id);
    out->volume = skydock_text_out(in->volume);
    out->size_bytes = in->size_bytes;
    out->creation_timestamp = in->creation_timestamp;
    out->ready = in->ready;
}

static void snapshot_answer_out(const skydock_snapshot_answer *in, exports_skydock_provider_snapshots_snapshot_t *out) {
    snapshot_out(&in->snapshot, out);
}

bool exports_skydock_provider_snapshots_create_snapshots(exports_skydock_provider_snapshots_list_new_snapshot_t *in,
                                                         exports_skydock_provider_snapshots_list_result_snapshot_storage_error_t *ret,
                                                         skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_new_snapshot *snapshots = skydock_alloc(in->len * sizeof *snapshots);
    for (size_t i = 0; i < in->len; i++) {
        const exports_skydock_provider_snapshots_new_snapshot_t *from = &in->ptr[i];
        snapshots[i] = (skydock_new_snapshot){
            .name = skydock_text_in(from->name),
            .volume = skydock_text_in(from->volume),
            .parameters = skydock_pairs_in(from->parameters.ptr, from->parameters.len),
            .owner = owner_in(from->owner.is_some, &from->owner.val),
        };
    }
    skydock_snapshot_answer *answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = snapshots_create(snapshots, in->len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? in->len : 0, snapshot_answer_out);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_snapshots_get_snapshots(built_list_string_t *in,
                                                      exports_skydock_provider_snapshots_list_result_snapshot_storage_error_t *ret,
                                                      skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_strings ids = skydock_strings_in(in->ptr, in->len);
    skydock_snapshot_answer *answers = skydock_alloc(ids.len * sizeof *answers);
    const skydock_error *error = snapshots_get(ids.items, ids.len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? ids.len : 0, snapshot_answer_out);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_snapshots_list_snapshots(built_string_t *maybe_page, exports_skydock_provider_snapshots_snapshot_page_t *ret,
                                                       skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_snapshot_page page = {0};
    const skydock_error *error = snapshots_list(maybe_page == NULL ? NULL : skydock_text_in(*maybe_page), &page);
    ret->next = skydock_option_out(page.next);
    ret->snapshots.len = page.len;
    ret->snapshots.ptr = skydock_alloc(page.len * sizeof *ret->snapshots.ptr);
    for (size_t i = 0; i < page.len; i++) {
        snapshot_out(&page.snapshots[i], &ret->snapshots.ptr[i]);
    }
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_snapshots_delete_snapshots(built_list_string_t *in,
                                                         exports_skydock_provider_snapshots_list_result_void_storage_error_t *ret,
                                                         skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_strings ids = skydock_strings_in(in->ptr, in->len);
    const skydock_error **answers = skydock_alloc(ids.len * sizeof *answers);
    const skydock_error *error = snapshots_delete(ids.items, ids.len, answers);
    ERRORS_OUT(ret, answers, error == NULL ? ids.len : 0);
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_STORAGE_CAPACITY
static void capacity_out(const skydock_capacity_answer *in, exports_skydock_provider_storage_capacity_capacity_t *out) {
    out->available_bytes = in->available_bytes;
    out->maximum_bytes = (built_option_u64_t){in->maximum_bytes != 0, in->maximum_bytes};
    out->minimum_bytes = (built_option_u64_t){in->minimum_bytes != 0, in->minimum_bytes};
}

bool exports_skydock_provider_storage_capacity_get_capacities(exports_skydock_provider_storage_capacity_list_capacity_request_t *in,
                                                              exports_skydock_provider_storage_capacity_list_result_capacity_storage_error_t *ret,
                                                              skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_capacity_request *requests = skydock_alloc(in->len * sizeof *requests);
    for (size_t i = 0; i < in->len; i++) {
        const exports_skydock_provider_storage_capacity_capacity_request_t *from = &in->ptr[i];
        requests[i] = (skydock_capacity_request){
            .capabilities = capabilities_in(from->capabilities.ptr, from->capabilities.len),
            .capability_count = from->capabilities.len,
            .parameters = skydock_pairs_in(from->parameters.ptr, from->parameters.len),
            .has_topology = from->topology.is_some,
        };
        if (from->topology.is_some) {
            requests[i].topology = skydock_pairs_in(from->topology.val.ptr, from->topology.val.len);
        }
    }
    skydock_capacity_answer *answers = skydock_alloc(in->len * sizeof *answers);
    const skydock_error *error = storage_capacity_get_capacities(requests, in->len, answers);
    ANSWERS_OUT(ret, answers, error == NULL ? in->len : 0, capacity_out);
    return skydock_call_ended(error, err);
}
#endif
