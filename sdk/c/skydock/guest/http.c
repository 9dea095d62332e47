/* Requests through wasi:http, several at the same time in one thread. */
#include <string.h>

#include "guest.h"

/* Bytes of a body that are read at a time. */
#define CHUNK 65536

struct chunk {
    struct chunk *next;
    const char *data;
    size_t len;
};

/* A request in flight. Both directions proceed together, because a cloud may answer before it has read the complete request. */
struct flight {
    bool is_open;
    size_t index;
    skydock_prepared prepared;
    uint64_t limit_ms;
    uint64_t deadline; /* on the monotonic clock, in nanoseconds */
    size_t max_body;

    bool is_sending;
    skydock_bytes rest;
    wasi_http_types_own_outgoing_body_t sent;
    wasi_http_types_own_output_stream_t out;
    wasi_io_poll_own_pollable_t out_ready;

    bool is_waiting;
    wasi_http_types_own_future_incoming_response_t future;
    bool is_reading;
    wasi_http_types_own_incoming_body_t body;
    wasi_http_types_own_input_stream_t in;
    wasi_io_poll_own_pollable_t ready; /* of the future, then of the stream */
    struct chunk *first;
    struct chunk **place;
    size_t len;
};

static void stop_sending(struct flight *flight) {
    if (flight->is_sending) {
        wasi_io_poll_pollable_drop_own(flight->out_ready);
        wasi_io_streams_output_stream_drop_own(flight->out);
        flight->is_sending = false;
    }
}

/* Gives everything back that is open, children before their parents. */
static void stop(struct flight *flight) {
    if (flight->is_sending) {
        stop_sending(flight);
        wasi_http_types_outgoing_body_drop_own(flight->sent);
    }
    if (flight->is_waiting || flight->is_reading) {
        wasi_io_poll_pollable_drop_own(flight->ready);
    }
    if (flight->is_waiting) {
        wasi_http_types_future_incoming_response_drop_own(flight->future);
    }
    if (flight->is_reading) {
        wasi_io_streams_input_stream_drop_own(flight->in);
        wasi_http_types_incoming_body_drop_own(flight->body);
    }
    flight->is_waiting = flight->is_reading = flight->is_open = false;
}

/* Creates the head of a request. False if the host rejects it. */
static bool head(const skydock_http_request *request, const skydock_prepared *prepared, wasi_http_types_own_outgoing_request_t *made) {
    wasi_http_types_own_fields_t fields = wasi_http_types_constructor_fields();
    bool good = true;
    for (size_t i = 0; i < prepared->headers.len; i++) {
        skydock_pair header = prepared->headers.items[i];
        built_string_t name = skydock_text_out(header.key);
        wasi_http_types_field_value_t value = {(uint8_t *)header.value, strlen(header.value)};
        wasi_http_types_header_error_t error;
        good = wasi_http_types_method_fields_append(wasi_http_types_borrow_fields(fields), &name, &value, &error) && good;
    }
    *made = wasi_http_types_constructor_outgoing_request(fields);
    wasi_http_types_borrow_outgoing_request_t it = wasi_http_types_borrow_outgoing_request(*made);
    /* Any method can be passed as text, but the host compares its own names. */
    static const struct {
        const char *name;
        uint8_t tag;
    } methods[] = {{"GET", WASI_HTTP_TYPES_METHOD_GET},       {"HEAD", WASI_HTTP_TYPES_METHOD_HEAD},     {"POST", WASI_HTTP_TYPES_METHOD_POST},
                   {"PUT", WASI_HTTP_TYPES_METHOD_PUT},       {"PATCH", WASI_HTTP_TYPES_METHOD_PATCH},   {"DELETE", WASI_HTTP_TYPES_METHOD_DELETE},
                   {"OPTIONS", WASI_HTTP_TYPES_METHOD_OPTIONS}};
    wasi_http_types_method_t method = {0};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (skydock_same(request->method, methods[i].name)) {
            method.tag = methods[i].tag;
        }
    }
    wasi_http_types_scheme_t scheme = {.tag = prepared->secure ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP};
    built_string_t authority = skydock_text_out(prepared->authority), path = skydock_text_out(prepared->path);
    return good && wasi_http_types_method_outgoing_request_set_method(it, &method) &&
           wasi_http_types_method_outgoing_request_set_scheme(it, &scheme) &&
           wasi_http_types_method_outgoing_request_set_authority(it, &authority) &&
           wasi_http_types_method_outgoing_request_set_path_with_query(it, &path);
}

/* Passes a request to the host, without options for its timeouts: the operator's rules contain those. */
static const skydock_error *begin(struct flight *flight, const skydock_http_request *request) {
    const skydock_error *error = skydock_prepare(request, &flight->prepared);
    if (error != NULL) {
        return error;
    }
    flight->limit_ms = skydock_http_limit(request, skydock_remaining_ms());
    if (flight->limit_ms == 0) {
        return skydock_unavailable("%s: it was not sent because the deadline of the call has passed", flight->prepared.shown);
    }
    flight->max_body = skydock_http_max_body(request);
    flight->rest = request->body;
    flight->first = NULL;
    flight->place = &flight->first;
    flight->len = 0;
    wasi_http_types_own_outgoing_request_t made;
    bool good = head(request, &flight->prepared, &made), has_body = request->body.len > 0, has_stream = false;
    wasi_http_types_borrow_outgoing_request_t it = wasi_http_types_borrow_outgoing_request(made);
    if (good && has_body) {
        good = wasi_http_types_method_outgoing_request_body(it, &flight->sent);
        has_stream = good;
        good = good && wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(flight->sent), &flight->out);
    }
    if (!good) {
        if (has_stream) {
            wasi_http_types_outgoing_body_drop_own(flight->sent);
        }
        wasi_http_types_outgoing_request_drop_own(made);
        return skydock_internal("%s: Skydock rejected the request: it is malformed", flight->prepared.shown);
    }
    if (has_body) {
        flight->out_ready = wasi_io_streams_method_output_stream_subscribe(wasi_io_streams_borrow_output_stream(flight->out));
        flight->is_sending = true;
    }
    wasi_http_types_error_code_t code;
    if (!wasi_http_outgoing_handler_handle(made, NULL, &flight->future, &code)) {
        stop(flight);
        return skydock_failure(flight->prepared.shown, &code);
    }
    flight->ready =
        wasi_http_types_method_future_incoming_response_subscribe(wasi_http_types_borrow_future_incoming_response(flight->future));
    flight->is_waiting = flight->is_open = true;
    flight->deadline = wasi_clocks_monotonic_clock_now() + flight->limit_ms * 1000000;
    return NULL;
}

/* Sends as much of the body as the host accepts. Whether it accepts all of it is not a failure in itself: the response says why. */
static const skydock_error *send_more(struct flight *flight) {
    wasi_io_streams_borrow_output_stream_t out = wasi_io_streams_borrow_output_stream(flight->out);
    bool is_closed = false;
    while (flight->rest.len > 0 && !is_closed) {
        uint64_t room;
        wasi_io_streams_stream_error_t error;
        if (!wasi_io_streams_method_output_stream_check_write(out, &room, &error)) {
            is_closed = true;
        } else if (room == 0) {
            return NULL;
        } else {
            size_t len = room < flight->rest.len ? (size_t)room : flight->rest.len;
            built_list_u8_t bytes = {(uint8_t *)flight->rest.data, len};
            is_closed = !wasi_io_streams_method_output_stream_write(out, &bytes, &error);
            flight->rest.data += len;
            flight->rest.len -= len;
        }
        if (is_closed && error.tag == WASI_IO_STREAMS_STREAM_ERROR_LAST_OPERATION_FAILED) {
            wasi_io_error_error_drop_own(error.val.last_operation_failed);
        }
    }
    stop_sending(flight);
    if (is_closed) {
        wasi_http_types_outgoing_body_drop_own(flight->sent);
        return NULL;
    }
    wasi_http_types_error_code_t code;
    bool is_finished = wasi_http_types_static_outgoing_body_finish(flight->sent, NULL, &code);
    return is_finished ? NULL : skydock_failure(flight->prepared.shown, &code);
}

static void read_head(wasi_http_types_borrow_incoming_response_t from, skydock_http_response *response) {
    response->status = wasi_http_types_method_incoming_response_status(from);
    wasi_http_types_own_headers_t headers = wasi_http_types_method_incoming_response_headers(from);
    wasi_http_types_list_tuple2_field_name_field_value_t entries;
    wasi_http_types_method_fields_entries(wasi_http_types_borrow_fields(headers), &entries);
    for (size_t i = 0; i < entries.len; i++) {
        char *name = (char *)skydock_format("%s", entries.ptr[i].f0.len == 0 ? "" : (const char *)entries.ptr[i].f0.ptr);
        for (char *at = name; *at != '\0'; at++) {
            *at = *at >= 'A' && *at <= 'Z' ? (char)(*at + 'a' - 'A') : *at;
        }
        skydock_add_pair(&response->headers, name, entries.ptr[i].f1.len == 0 ? "" : (const char *)entries.ptr[i].f1.ptr);
    }
    wasi_http_types_fields_drop_own(headers);
}

/* Reads the head of the response when it has arrived. */
static const skydock_error *open(struct flight *flight, skydock_http_response *response) {
    wasi_http_types_result_result_own_incoming_response_error_code_void_t got;
    if (!wasi_http_types_method_future_incoming_response_get(wasi_http_types_borrow_future_incoming_response(flight->future), &got)) {
        return NULL;
    }
    wasi_io_poll_pollable_drop_own(flight->ready);
    wasi_http_types_future_incoming_response_drop_own(flight->future);
    flight->is_waiting = false;
    if (got.is_err) {
        return skydock_internal("%s: Skydock returned the answer twice", flight->prepared.shown);
    }
    if (got.val.ok.is_err) {
        return skydock_failure(flight->prepared.shown, &got.val.ok.val.err);
    }
    wasi_http_types_own_incoming_response_t arrived = got.val.ok.val.ok;
    wasi_http_types_borrow_incoming_response_t it = wasi_http_types_borrow_incoming_response(arrived);
    read_head(it, response);
    bool has_body = wasi_http_types_method_incoming_response_consume(it, &flight->body);
    bool good = has_body && wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(flight->body), &flight->in);
    wasi_http_types_incoming_response_drop_own(arrived);
    if (!good) {
        if (has_body) {
            wasi_http_types_incoming_body_drop_own(flight->body);
        }
        return skydock_internal("%s: Skydock returned no body of the answer", flight->prepared.shown);
    }
    flight->ready = wasi_io_streams_method_input_stream_subscribe(wasi_io_streams_borrow_input_stream(flight->in));
    flight->is_reading = true;
    return NULL;
}

static skydock_bytes join(const struct flight *flight) {
    char *body = skydock_arena_take(flight->len + 1, 1), *out = body;
    for (const struct chunk *chunk = flight->first; chunk != NULL; chunk = chunk->next) {
        memcpy(out, chunk->data, chunk->len);
        out += chunk->len;
    }
    *out = '\0';
    return (skydock_bytes){body, flight->len};
}

/* Reads what has arrived of the body. True if that was all. */
static bool read_more(struct flight *flight, skydock_http_response *response) {
    for (;;) {
        built_list_u8_t bytes;
        wasi_io_streams_stream_error_t error;
        if (wasi_io_streams_method_input_stream_read(wasi_io_streams_borrow_input_stream(flight->in), CHUNK, &bytes, &error)) {
            if (bytes.len == 0) {
                return false;
            }
            if (bytes.len > flight->max_body - flight->len) {
                response->error = skydock_internal("%s: the body of the answer exceeds the limit of %zu bytes", flight->prepared.shown,
                                                   flight->max_body);
                return true;
            }
            struct chunk *chunk = skydock_alloc(sizeof *chunk);
            *chunk = (struct chunk){NULL, (const char *)bytes.ptr, bytes.len};
            *flight->place = chunk;
            flight->place = &chunk->next;
            flight->len += bytes.len;
        } else if (error.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED) {
            response->body = join(flight);
            return true;
        } else {
            wasi_http_types_error_code_t code;
            bool is_known = wasi_http_types_http_error_code(wasi_io_error_borrow_error(error.val.last_operation_failed), &code);
            wasi_io_error_error_drop_own(error.val.last_operation_failed);
            response->error = is_known ? skydock_failure(flight->prepared.shown, &code)
                                       : skydock_unavailable("%s: the answer is incomplete", flight->prepared.shown);
            return true;
        }
    }
}

/* Continues as far as possible without waiting. True if the request has ended. */
static bool step(struct flight *flight, uint64_t now, skydock_http_response *response) {
    if (flight->is_sending) {
        response->error = send_more(flight);
    }
    if (response->error == NULL && flight->is_waiting) {
        response->error = open(flight, response);
    }
    if (response->error != NULL || (flight->is_reading && read_more(flight, response))) {
        return true;
    }
    /* Last: a response that has arrived counts. */
    if (now >= flight->deadline) {
        response->error =
            skydock_unavailable("%s: no answer within %llu ms", flight->prepared.shown, (unsigned long long)flight->limit_ms);
        return true;
    }
    return false;
}

/* Waits until a request can continue, or reaches its deadline. */
static void wait(const struct flight *flights) {
    wasi_io_poll_borrow_pollable_t all[2 * SKYDOCK_HTTP_AT_ONCE + 1];
    size_t count = 0;
    uint64_t deadline = UINT64_MAX;
    for (size_t i = 0; i < SKYDOCK_HTTP_AT_ONCE; i++) {
        if (!flights[i].is_open) {
            continue;
        }
        deadline = flights[i].deadline < deadline ? flights[i].deadline : deadline;
        all[count++] = wasi_io_poll_borrow_pollable(flights[i].ready);
        if (flights[i].is_sending) {
            all[count++] = wasi_io_poll_borrow_pollable(flights[i].out_ready);
        }
    }
    wasi_io_poll_own_pollable_t timer = wasi_clocks_monotonic_clock_subscribe_instant(deadline);
    all[count++] = wasi_io_poll_borrow_pollable(timer);
    wasi_io_poll_list_borrow_pollable_t list = {all, count};
    built_list_u32_t ready;
    wasi_io_poll_poll(&list, &ready);
    wasi_io_poll_pollable_drop_own(timer);
}

void skydock_host_send_all(const skydock_http_request *requests, size_t count, skydock_http_response *responses) {
    struct flight flights[SKYDOCK_HTTP_AT_ONCE] = {0};
    size_t next = 0, open_count = 0;
    while (next < count || open_count > 0) {
        bool has_ended = false;
        for (size_t i = 0; i < SKYDOCK_HTTP_AT_ONCE; i++) {
            while (!flights[i].is_open && next < count) {
                flights[i].index = next++;
                skydock_http_response *response = &responses[flights[i].index];
                if (response->error == NULL) {
                    response->error = begin(&flights[i], &requests[flights[i].index]);
                }
                open_count += flights[i].is_open;
            }
        }
        uint64_t now = wasi_clocks_monotonic_clock_now();
        for (size_t i = 0; i < SKYDOCK_HTTP_AT_ONCE; i++) {
            if (flights[i].is_open && step(&flights[i], now, &responses[flights[i].index])) {
                stop(&flights[i]);
                open_count--;
                has_ended = true;
            }
        }
        /* A request that has ended makes room for the next, which is started before waiting. */
        if (open_count > 0 && !(has_ended && next < count)) {
            wait(flights);
        }
    }
}
