/* Errors of a cloud, events and log lines: everything with a formatted text. */
#include "internal.h"

static const skydock_error *error_of(skydock_error_case kind, uint64_t retry_ms, const char *message) {
    skydock_error *error = skydock_alloc(sizeof *error);
    *error = (skydock_error){kind, message, retry_ms};
    return error;
}

#define DEFINE_ERROR(NAME, KIND)                                                                                                           \
    const skydock_error *NAME(const char *format, ...) {                                                                                   \
        va_list arguments;                                                                                                                 \
        va_start(arguments, format);                                                                                                       \
        const char *message = skydock_format_list(format, arguments);                                                                      \
        va_end(arguments);                                                                                                                 \
        return error_of(KIND, 0, message);                                                                                                 \
    }

#define DEFINE_RETRY(NAME, KIND)                                                                                                           \
    const skydock_error *NAME(uint64_t retry_ms, const char *format, ...) {                                                                \
        va_list arguments;                                                                                                                 \
        va_start(arguments, format);                                                                                                       \
        const char *message = skydock_format_list(format, arguments);                                                                      \
        va_end(arguments);                                                                                                                 \
        return error_of(KIND, retry_ms, message);                                                                                          \
    }

DEFINE_ERROR(skydock_not_found, SKYDOCK_NOT_FOUND)
DEFINE_ERROR(skydock_conflict, SKYDOCK_CONFLICT)
DEFINE_RETRY(skydock_throttled, SKYDOCK_THROTTLED)
DEFINE_RETRY(skydock_in_progress, SKYDOCK_IN_PROGRESS)
DEFINE_ERROR(skydock_denied, SKYDOCK_DENIED)
DEFINE_ERROR(skydock_invalid, SKYDOCK_INVALID)
DEFINE_ERROR(skydock_unavailable, SKYDOCK_UNAVAILABLE)
DEFINE_ERROR(skydock_internal, SKYDOCK_INTERNAL)
DEFINE_ERROR(skydock_exists, SKYDOCK_EXISTS)
DEFINE_ERROR(skydock_exhausted, SKYDOCK_EXHAUSTED)
DEFINE_ERROR(skydock_out_of_range, SKYDOCK_OUT_OF_RANGE)
DEFINE_ERROR(skydock_in_use, SKYDOCK_IN_USE)

const skydock_error *skydock_implemented_elsewhere(void) {
    return error_of(SKYDOCK_IMPLEMENTED_ELSEWHERE, 0, "");
}

bool skydock_is(const skydock_error *error, skydock_error_case kind) {
    return error != NULL && error->kind == kind;
}

bool skydock_event(const char *name, skydock_severity severity, const char *reason, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = skydock_format_list(format, arguments);
    va_end(arguments);
    return skydock_host_event(name, severity, reason, message);
}

void skydock_log(skydock_level level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = skydock_format_list(format, arguments);
    va_end(arguments);
    skydock_host_log(level, message);
}
