/* The functions that the host calls; those about volumes are in storage.c. skydock plugin build says with SKYDOCK_SERVES_… which
 * capabilities the plugin has. */
#include <stdlib.h>

#include "guest.h"

static bool call_has_ended;

void skydock_call_begins(void) {
    if (call_has_ended) {
        call_has_ended = false;
        skydock_arena_reset();
    }
}

void skydock_call_ends(void) {
    call_has_ended = true;
}

/* Memory for what the host passes: arguments, before a call, and results of its functions. Replaces the weak one of the bindings. */
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    skydock_call_begins();
    unsigned char *memory = skydock_arena_take(size + 1, align);
    memory[size] = '\0';
    for (size_t i = 0; i < old_size && i < size; i++) {
        memory[i] = ((unsigned char *)old)[i];
    }
    return memory;
}

/* Memory for the adapter of WASI 0.1, which keeps it. */
__attribute__((export_name("cabi_realloc_adapter"))) void *skydock_realloc_adapter(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size;
    (void)align; /* malloc's is the largest */
    void *memory = realloc(old, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

/* What the bindings call instead of free (-Dfree=skydock_free_nothing). */
void skydock_free_nothing(void *memory) {
    (void)memory;
}

/* The bindings refer to it, so that an object file with the type of the component is linked. skydock plugin build adds the type itself. */
void __component_type_object_force_link_built(void) {
}

bool skydock_call_ended(const skydock_error *error, skydock_provider_types_cloud_error_t *out) {
    if (error != NULL) {
        *out = skydock_error_out(error);
    }
    skydock_call_ends();
    return error == NULL;
}

void exports_skydock_provider_plugin_info(exports_skydock_provider_plugin_plugin_info_t *ret) {
    skydock_call_begins();
    skydock_info info = {0};
    plugin_info(&info);
    ret->name = skydock_text_out(info.name);
    ret->version = skydock_text_out(info.version);
    ret->provider_id_prefixes = skydock_strings_out(info.provider_id_prefixes);
    ret->wanted_hosts = skydock_strings_out(info.wanted_hosts);
    ret->max_batch = info.max_batch;
    ret->unused = skydock_strings_out(info.unused);
    ret->overlap = (uint8_t)info.overlap;
    ret->annotation_prefixes = skydock_strings_out(info.annotation_prefixes);
    skydock_call_ends();
}

bool exports_skydock_provider_plugin_configure(exports_skydock_provider_plugin_settings_t *in, skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_settings settings = {
        .cluster_name = skydock_text_in(in->cluster_name),
        .cluster_cidrs = skydock_strings_in(in->cluster_cidrs.ptr, in->cluster_cidrs.len),
        .cloud_config = skydock_option_in(in->cloud_config),
        .cloud_config_path = skydock_option_in(in->cloud_config_path),
        .options = skydock_pairs_in(in->options.ptr, in->options.len),
    };
    return skydock_call_ended(plugin_configure(&settings), err);
}

#ifdef SKYDOCK_SERVES_INSTANCES
bool exports_skydock_provider_instances_check(exports_skydock_provider_instances_list_node_t *nodes,
                                              exports_skydock_provider_instances_list_result_presence_cloud_error_t *ret,
                                              skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_presence_answer *answers = skydock_alloc(nodes->len * sizeof *answers);
    const skydock_error *error = instances_check(skydock_nodes_in(nodes->ptr, nodes->len), nodes->len, answers);
    ret->len = error == NULL ? nodes->len : 0;
    ret->ptr = skydock_alloc(ret->len * sizeof *ret->ptr);
    for (size_t i = 0; i < ret->len; i++) {
        ret->ptr[i].is_err = answers[i].error != NULL;
        if (answers[i].error != NULL) {
            ret->ptr[i].val.err = skydock_error_out(answers[i].error);
        } else {
            ret->ptr[i].val.ok = (uint8_t)answers[i].presence;
        }
    }
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_instances_describe(exports_skydock_provider_instances_list_node_t *nodes,
                                                 exports_skydock_provider_instances_list_result_instance_cloud_error_t *ret,
                                                 skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_instance_answer *answers = skydock_alloc(nodes->len * sizeof *answers);
    const skydock_error *error = instances_describe(skydock_nodes_in(nodes->ptr, nodes->len), nodes->len, answers);
    ret->len = error == NULL ? nodes->len : 0;
    ret->ptr = skydock_alloc(ret->len * sizeof *ret->ptr);
    for (size_t i = 0; i < ret->len; i++) {
        ret->ptr[i].is_err = answers[i].error != NULL;
        if (answers[i].error != NULL) {
            ret->ptr[i].val.err = skydock_error_out(answers[i].error);
            continue;
        }
        const skydock_instance *in = &answers[i].instance;
        exports_skydock_provider_instances_instance_t *out = &ret->ptr[i].val.ok;
        out->provider_id = skydock_option_out(in->provider_id);
        out->instance_type = skydock_option_out(in->instance_type);
        out->zone = skydock_option_out(in->zone);
        out->region = skydock_option_out(in->region);
        skydock_provider_types_list_node_address_t addresses = skydock_addresses_out(in->addresses);
        out->addresses.ptr = addresses.ptr;
        out->addresses.len = addresses.len;
        skydock_provider_types_list_pair_t labels = skydock_pairs_out(in->labels), annotations = skydock_pairs_out(in->annotations);
        out->labels.ptr = labels.ptr;
        out->labels.len = labels.len;
        out->annotations.ptr = annotations.ptr;
        out->annotations.len = annotations.len;
    }
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_LOAD_BALANCERS
/* A node set is the handle that the host lends. */
static const skydock_node_set *lent(skydock_provider_node_sets_borrow_node_set_t nodes) {
    skydock_provider_node_sets_borrow_node_set_t *kept = skydock_alloc(sizeof *kept);
    *kept = nodes;
    return (const skydock_node_set *)kept;
}

bool exports_skydock_provider_load_balancers_get(skydock_provider_types_service_t *service,
                                                 exports_skydock_provider_load_balancers_option_load_balancer_status_t *ret,
                                                 skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_load_balancer_status status = {0};
    ret->is_some = false;
    const skydock_error *error = load_balancers_get(skydock_services_in(service, 1), &ret->is_some, &status);
    ret->val = skydock_status_out(status);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_load_balancers_ensure(skydock_provider_types_service_t *service,
                                                    skydock_provider_node_sets_borrow_node_set_t nodes,
                                                    skydock_provider_types_load_balancer_status_t *ret,
                                                    skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_load_balancer_status status = {0};
    const skydock_error *error = load_balancers_ensure(skydock_services_in(service, 1), lent(nodes), &status);
    *ret = skydock_status_out(status);
    /* The host demands that what it has lent is given back. */
    skydock_provider_node_sets_node_set_drop_borrow(nodes);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_load_balancers_update_nodes(skydock_provider_types_service_t *service,
                                                          skydock_provider_node_sets_borrow_node_set_t nodes,
                                                          skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    const skydock_error *error = load_balancers_update_nodes(skydock_services_in(service, 1), lent(nodes));
    skydock_provider_node_sets_node_set_drop_borrow(nodes);
    return skydock_call_ended(error, err);
}

bool exports_skydock_provider_load_balancers_ensure_deleted(skydock_provider_types_service_t *service,
                                                            skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    return skydock_call_ended(load_balancers_ensure_deleted(skydock_services_in(service, 1)), err);
}
#endif

#ifdef SKYDOCK_SERVES_ROUTES
bool exports_skydock_provider_routes_list_routes(built_string_t *maybe_page, exports_skydock_provider_routes_route_page_t *ret,
                                                 skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_route_page page = {0};
    const skydock_error *error = routes_list(maybe_page == NULL ? NULL : skydock_text_in(*maybe_page), &page);
    ret->next = skydock_option_out(page.next);
    ret->routes.len = page.len;
    ret->routes.ptr = skydock_alloc(page.len * sizeof *ret->routes.ptr);
    for (size_t i = 0; i < page.len; i++) {
        exports_skydock_provider_routes_route_t *out = &ret->routes.ptr[i];
        out->name = skydock_text_out(page.routes[i].name);
        out->target_node = skydock_option_out(page.routes[i].target_node);
        out->target_addresses.is_some = page.routes[i].has_target_addresses;
        skydock_provider_types_list_node_address_t addresses = skydock_addresses_out(page.routes[i].target_addresses);
        out->target_addresses.val.ptr = addresses.ptr;
        out->target_addresses.val.len = addresses.len;
        out->destination_cidr = skydock_text_out(page.routes[i].destination_cidr);
        out->blackhole = page.routes[i].blackhole;
    }
    return skydock_call_ended(error, err);
}

static void answer_routes(const skydock_error *const *answers, size_t count,
                          exports_skydock_provider_routes_list_result_void_cloud_error_t *ret) {
    ret->len = count;
    ret->ptr = skydock_alloc(count * sizeof *ret->ptr);
    for (size_t i = 0; i < count; i++) {
        ret->ptr[i].is_err = answers[i] != NULL;
        if (answers[i] != NULL) {
            ret->ptr[i].val.err = skydock_error_out(answers[i]);
        }
    }
    skydock_call_ends();
}

void exports_skydock_provider_routes_create_routes(exports_skydock_provider_routes_list_new_route_t *in,
                                                   exports_skydock_provider_routes_list_result_void_cloud_error_t *ret) {
    skydock_call_begins();
    skydock_new_route *routes = skydock_alloc(in->len * sizeof *routes);
    for (size_t i = 0; i < in->len; i++) {
        routes[i] = (skydock_new_route){
            .name_hint = skydock_text_in(in->ptr[i].name_hint),
            .target_node = skydock_text_in(in->ptr[i].target_node),
            .target_provider_id = skydock_option_in(in->ptr[i].target_provider_id),
            .target_addresses = skydock_addresses_in(in->ptr[i].target_addresses.ptr, in->ptr[i].target_addresses.len),
            .destination_cidr = skydock_text_in(in->ptr[i].destination_cidr),
        };
    }
    const skydock_error **answers = skydock_alloc(in->len * sizeof *answers);
    routes_create(routes, in->len, answers);
    answer_routes(answers, in->len, ret);
}

void exports_skydock_provider_routes_delete_routes(exports_skydock_provider_routes_list_route_t *in,
                                                   exports_skydock_provider_routes_list_result_void_cloud_error_t *ret) {
    skydock_call_begins();
    skydock_route *routes = skydock_alloc(in->len * sizeof *routes);
    for (size_t i = 0; i < in->len; i++) {
        const exports_skydock_provider_routes_route_t *from = &in->ptr[i];
        routes[i] = (skydock_route){
            .name = skydock_text_in(from->name),
            .target_node = skydock_option_in(from->target_node),
            .has_target_addresses = from->target_addresses.is_some,
            .destination_cidr = skydock_text_in(from->destination_cidr),
            .blackhole = from->blackhole,
        };
        if (from->target_addresses.is_some) {
            routes[i].target_addresses = skydock_addresses_in(from->target_addresses.val.ptr, from->target_addresses.val.len);
        }
    }
    const skydock_error **answers = skydock_alloc(in->len * sizeof *answers);
    routes_delete(routes, in->len, answers);
    answer_routes(answers, in->len, ret);
}
#endif

#ifdef SKYDOCK_SERVES_ZONES
bool exports_skydock_provider_zones_locate(exports_skydock_provider_zones_list_node_t *nodes,
                                           exports_skydock_provider_zones_list_result_zone_cloud_error_t *ret,
                                           skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    skydock_zone_answer *answers = skydock_alloc(nodes->len * sizeof *answers);
    const skydock_error *error = zones_locate(skydock_nodes_in(nodes->ptr, nodes->len), nodes->len, answers);
    ret->len = error == NULL ? nodes->len : 0;
    ret->ptr = skydock_alloc(ret->len * sizeof *ret->ptr);
    for (size_t i = 0; i < ret->len; i++) {
        ret->ptr[i].is_err = answers[i].error != NULL;
        if (answers[i].error != NULL) {
            ret->ptr[i].val.err = skydock_error_out(answers[i].error);
        } else {
            ret->ptr[i].val.ok.zone = skydock_option_out(answers[i].zone);
            ret->ptr[i].val.ok.region = skydock_option_out(answers[i].region);
        }
    }
    return skydock_call_ended(error, err);
}
#endif

#ifdef SKYDOCK_SERVES_MAINTENANCE
bool exports_skydock_provider_maintenance_maintain(uint64_t *ret, skydock_provider_types_cloud_error_t *err) {
    skydock_call_begins();
    *ret = 0;
    return skydock_call_ended(maintenance_maintain(ret), err);
}
#endif
