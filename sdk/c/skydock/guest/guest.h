/* Conversions between the bindings that wit-bindgen generates (built.h) and the types of skydock.h. Texts are not copied: cabi_realloc
 * leaves room for a NUL after each, and memory lives until the next call. */
#ifndef SKYDOCK_GUEST_H
#define SKYDOCK_GUEST_H

#include "../internal.h"
#include "built.h"

/* From the host. */
const char *skydock_text_in(built_string_t text);
const char *skydock_option_in(built_option_string_t text);
skydock_strings skydock_strings_in(const built_string_t *items, size_t len);
skydock_pairs skydock_pairs_in(const skydock_provider_types_pair_t *items, size_t len);
skydock_addresses skydock_addresses_in(const skydock_provider_types_node_address_t *items, size_t len);
const skydock_node *skydock_nodes_in(const skydock_provider_types_node_t *items, size_t len);
const skydock_service *skydock_services_in(const skydock_provider_types_service_t *items, size_t len);

/* To the host. Bytes that are not UTF-8 are replaced, because the host would end the call. */
built_string_t skydock_text_out(const char *text);
built_option_string_t skydock_option_out(const char *text);
built_list_string_t skydock_strings_out(skydock_strings list);
skydock_provider_types_list_pair_t skydock_pairs_out(skydock_pairs list);
skydock_provider_types_list_node_address_t skydock_addresses_out(skydock_addresses list);
skydock_provider_types_load_balancer_status_t skydock_status_out(skydock_load_balancer_status status);
/* A case that only elements of calls about volumes have is internal. */
skydock_provider_types_cloud_error_t skydock_error_out(const skydock_error *error);

/* The error that a code of wasi:http stands for. `request` is its method and URL. */
const skydock_error *skydock_failure(const char *request, const wasi_http_types_error_code_t *code);

/* Called first in every export: frees what is left of the call before, unless cabi_realloc has done it for the arguments. */
void skydock_call_begins(void);
/* Called last in every export. The answer is still read afterwards. */
void skydock_call_ends(void);
/* The same for a call that can fail as a whole. True if it succeeded. */
bool skydock_call_ended(const skydock_error *error, skydock_provider_types_cloud_error_t *out);

#endif
