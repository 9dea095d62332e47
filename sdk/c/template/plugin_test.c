#include "skydock/skydock_test.h"

static const skydock_error *configure(const char *region) {
    skydock_settings settings = {.cluster_name = "test"};
    skydock_add_pair(&settings.options, "region", region);
    return plugin_configure(&settings);
}

static void a_rack_is_a_zone(void) {
    SKYDOCK_CHECK_GOOD(configure("north"));
    skydock_node nodes[] = {{.name = "n1"}, {.name = "n2", .provider_id = "my-cloud://7"}};
    skydock_add_pair(&nodes[0].labels, "my-cloud.example/rack", "r7");
    skydock_instance_answer answers[2] = {0};
    SKYDOCK_CHECK_GOOD(instances_describe(nodes, 2, answers));
    SKYDOCK_CHECK_TEXT(answers[0].instance.provider_id, "my-cloud://n1");
    SKYDOCK_CHECK_TEXT(answers[0].instance.zone, "r7");
    SKYDOCK_CHECK_TEXT(answers[0].instance.region, "north");
    SKYDOCK_CHECK_TEXT(answers[1].instance.provider_id, "my-cloud://7");
    SKYDOCK_CHECK(answers[1].instance.zone != NULL);
}

static void the_configuration_is_checked(void) {
    SKYDOCK_CHECK(skydock_is(configure("not a label"), SKYDOCK_INVALID));
}

int main(void) {
    static const skydock_test_case tests[] = {
        {"a_rack_is_a_zone", a_rack_is_a_zone},
        {"the_configuration_is_checked", the_configuration_is_checked},
    };
    return skydock_test_run(tests, sizeof tests / sizeof *tests);
}
