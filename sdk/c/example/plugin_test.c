#include <string.h>

#include "fake_cloud_test.h"
#include "simcloud.h"

static struct fake_cloud cloud;

static const skydock_error *configure(const char *config) {
    skydock_settings settings = {.cluster_name = "test", .cloud_config = config};
    return plugin_configure(&settings);
}

static skydock_test_host *start(void) {
    skydock_test_host *host = skydock_test_begin();
    fake_cloud_start(&cloud, host);
    SKYDOCK_CHECK_GOOD(configure("{\"url\": \"" FAKE_URL "\", \"region\": \"sim\"}"));
    return host;
}

static skydock_node node(const char *name, const char *provider_id) {
    return (skydock_node){.name = name, .uid = name, .provider_id = provider_id};
}

static const skydock_node_set *nodes_of(const char *server) {
    skydock_node *one = skydock_alloc(sizeof *one);
    *one = node("node", skydock_format(SCHEME "/zone-a/%s", server));
    return skydock_test_nodes(one, 1, NULL);
}

static skydock_service service(void) {
    static const skydock_service_port ports[] = {{.name = "http", .port = 80, .target_port = "8080", .node_port = 30080},
                                                 {.name = "dns", .transport = SKYDOCK_UDP, .port = 53, .target_port = "53", .node_port = 30053}};
    static const skydock_ip_family families[] = {SKYDOCK_IPV4};
    return (skydock_service){.namespace_ = "shop", .name = "web", .uid = "u1", .ports = ports, .port_count = 2, .ip_families = families, .ip_family_count = 1};
}

static const char *field(const char *kind, const char *id, const char *name) {
    return skydock_json_text(skydock_json_get(fake_cloud_get(&cloud, kind, id), name));
}

static const char *calls(void) {
    const char *made = cloud.calls.text == NULL ? "" : cloud.calls.text;
    cloud.calls = (skydock_text){0};
    return made;
}

static void an_invalid_configuration_is_rejected(void) {
    SKYDOCK_CHECK_GOOD(configure("{\"url\": \"http://c:80\", \"region\": \"r\"}"));
    SKYDOCK_CHECK_TEXT(cloud_url, "http://c:80");
    static const char *const texts[] = {
        "",
        "[]",
        "{\"url\": \"http://c:80\"}",
        "{\"url\": \"http://c:80\", \"region\": \"\"}",
        "{\"url\": \"http://c:80\", \"region\": \"r\", \"token\": \"secret\"}",
        "{\"url\": \"http://c\", \"region\": \"r\"}",
        "{\"url\": \"http://c:80/\", \"region\": \"r\"}",
        "{\"url\": \"http://c/x:80\", \"region\": \"r\"}",
        "{\"url\": \"http://:80\", \"region\": \"r\"}",
        "{\"url\": \"http://c:70000\", \"region\": \"r\"}",
        "{\"url\": \"ftp://c:80\", \"region\": \"r\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const skydock_error *error = configure(texts[i]);
        SKYDOCK_CHECK(skydock_is(error, SKYDOCK_INVALID));
        SKYDOCK_CHECK(error == NULL || strstr(error->message, "secret") == NULL);
    }
}

static void a_provider_id_contains_the_server(void) {
    SKYDOCK_CHECK_TEXT(server_id("simcloud:///zone-a/srv-1"), "srv-1");
    static const char *const others[] = {"simcloud://zone-a/srv-1", "simcloud:///srv-1", "simcloud:///zone-a/", "simcloud:///a/b/c", "aws:///a/i-1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        SKYDOCK_CHECK_TEXT(server_id(others[i]), NULL);
    }
    SKYDOCK_CHECK_TEXT(server_id(NULL), NULL);
}

static void a_server_is_described(void) {
    start();
    fake_cloud_set(&cloud, "servers", "srv-9", "{\"name\": \"far\", \"region\": \"other\", \"zone\": \"z\"}");
    skydock_node nodes[] = {node("node-1", NULL), node("any", "simcloud:///zone-a/srv-2"), node("node-7", NULL), node("far", NULL),
                            node("odd", "aws:///x/y")};
    skydock_instance_answer answers[5] = {0};
    SKYDOCK_CHECK_GOOD(instances_describe(nodes, 5, answers));
    SKYDOCK_CHECK_GOOD(answers[0].error);
    const skydock_instance *instance = &answers[0].instance;
    SKYDOCK_CHECK_TEXT(instance->provider_id, "simcloud:///zone-a/srv-1");
    SKYDOCK_CHECK_TEXT(instance->zone, "zone-a");
    SKYDOCK_CHECK_TEXT(instance->region, "sim");
    SKYDOCK_CHECK_TEXT(instance->instance_type, "small");
    SKYDOCK_CHECK(instance->addresses.len == 3);
    SKYDOCK_CHECK_TEXT(instance->addresses.items[1].address, "198.18.0.1");
    SKYDOCK_CHECK(instance->addresses.items[1].kind == SKYDOCK_EXTERNAL_IP);
    SKYDOCK_CHECK(instance->addresses.items[2].kind == SKYDOCK_HOSTNAME);
    SKYDOCK_CHECK_TEXT(answers[1].instance.provider_id, "simcloud:///zone-a/srv-2");
    SKYDOCK_CHECK(skydock_is(answers[2].error, SKYDOCK_NOT_FOUND));
    SKYDOCK_CHECK(skydock_is(answers[3].error, SKYDOCK_NOT_FOUND));
    SKYDOCK_CHECK(skydock_is(answers[4].error, SKYDOCK_INVALID));
}

static void a_server_with_an_ambiguous_name_is_invalid(void) {
    start();
    fake_cloud_set(&cloud, "servers", "srv-9", "{\"name\": \"node-1\"}");
    skydock_node one = node("node-1", NULL);
    skydock_instance_answer answer = {0};
    SKYDOCK_CHECK_GOOD(instances_describe(&one, 1, &answer));
    SKYDOCK_CHECK(skydock_is(answer.error, SKYDOCK_INVALID));
}

static void only_the_cloud_can_say_that_a_server_is_absent(void) {
    start();
    skydock_node nodes[] = {node("a", "simcloud:///zone-a/srv-1"), node("b", "simcloud:///zone-a/srv-2"), node("c", "simcloud:///zone-a/srv-3"),
                            node("node-9", NULL)};
    skydock_presence_answer answers[4] = {0};
    SKYDOCK_CHECK_GOOD(instances_check(nodes, 4, answers));
    SKYDOCK_CHECK(answers[0].presence == SKYDOCK_RUNNING && answers[0].error == NULL);
    SKYDOCK_CHECK(answers[1].presence == SKYDOCK_STOPPED && answers[1].error == NULL);
    SKYDOCK_CHECK(answers[2].presence == SKYDOCK_ABSENT && answers[2].error == NULL);
    SKYDOCK_CHECK(skydock_is(answers[3].error, SKYDOCK_NOT_FOUND));
    static const int statuses[] = {404, 500, 200};
    for (size_t i = 0; i < 3; i++) {
        cloud.broken_status = statuses[i];
        skydock_presence_answer broken[4] = {0};
        SKYDOCK_CHECK_GOOD(instances_check(nodes, 4, broken));
        SKYDOCK_CHECK(broken[2].error != NULL && broken[2].presence != SKYDOCK_ABSENT);
    }
}

static void a_load_balancer_is_created_changed_and_deleted(void) {
    start();
    skydock_service web = service();
    skydock_load_balancer_status status = {0};
    bool exists = false;
    SKYDOCK_CHECK_GOOD(load_balancers_get(&web, &exists, &status));
    SKYDOCK_CHECK(!exists);
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-1"), &status));
    SKYDOCK_CHECK(status.len == 1);
    SKYDOCK_CHECK_TEXT(status.ingress[0].ip, "198.19.0.1");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "name"), "\"k8s-u1\"");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "targets"), "[\"srv-1\"]");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "labels"), "{\"cluster\": \"cluster-1\", \"service\": \"shop/web\"}");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "listeners"),
                       "[{\"protocol\": \"tcp\", \"port\": 80, \"target_port\": 30080}, {\"protocol\": \"udp\", \"port\": 53, \"target_port\": 30053}]");

    skydock_add_string(&web.source_ranges, "203.0.113.0/24");
    web.external_traffic_policy = SKYDOCK_LOCAL;
    web.health_check_node_port = 32000;
    web.port_count = 1;
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-2"), &(skydock_load_balancer_status){0}));
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "allowed_cidrs"), "[\"203.0.113.0/24\"]");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "health_check_port"), "32000");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "targets"), "[\"srv-2\"]");

    for (int i = 0; i < 2; i++) {
        SKYDOCK_CHECK_GOOD(load_balancers_ensure_deleted(&web));
        SKYDOCK_CHECK(fake_cloud_get(&cloud, "load-balancers", "new-2") == NULL);
    }
}

static void an_unchanged_service_writes_nothing(void) {
    start();
    skydock_service web = service();
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}));
    calls();
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}));
    SKYDOCK_CHECK_GOOD(load_balancers_update_nodes(&web, nodes_of("srv-1")));
    SKYDOCK_CHECK_TEXT(calls(), "GET load-balancers GET load-balancers ");
}

static void a_change_of_nodes_leaves_the_rest_to_ensure(void) {
    start();
    skydock_service web = service();
    SKYDOCK_CHECK(skydock_is(load_balancers_update_nodes(&web, nodes_of("srv-1")), SKYDOCK_NOT_FOUND));
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}));
    skydock_add_string(&web.source_ranges, "203.0.113.0/24");
    SKYDOCK_CHECK_GOOD(load_balancers_update_nodes(&web, nodes_of("srv-2")));
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "targets"), "[\"srv-2\"]");
    SKYDOCK_CHECK_TEXT(field("load-balancers", "new-2", "allowed_cidrs"), "[]");
}

static void nothing_waits_for_the_cloud(void) {
    start();
    skydock_service web = service();
    cloud.new_status = "pending";
    const skydock_error *error = load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0});
    SKYDOCK_CHECK(skydock_is(error, SKYDOCK_IN_PROGRESS) && error->retry_ms == 1000);
    SKYDOCK_CHECK(skydock_is(load_balancers_update_nodes(&web, nodes_of("srv-1")), SKYDOCK_IN_PROGRESS));
    fake_cloud_set(&cloud, "load-balancers", "new-2", "{\"status\": \"error\"}");
    SKYDOCK_CHECK(skydock_is(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}), SKYDOCK_UNAVAILABLE));
    SKYDOCK_CHECK_GOOD(load_balancers_ensure_deleted(&web));
}

static void a_create_whose_answer_was_lost_is_found(void) {
    start();
    skydock_service web = service();
    cloud.loses_answer = true;
    SKYDOCK_CHECK(skydock_is(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}), SKYDOCK_UNAVAILABLE));
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}));
    SKYDOCK_CHECK(cloud.count == 3);
}

static void what_belongs_to_another_cluster_is_not_touched(void) {
    skydock_test_host *host = start();
    skydock_service web = service();
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}));
    host->cluster_uid = "cluster-2";
    bool exists = false;
    SKYDOCK_CHECK_GOOD(load_balancers_get(&web, &exists, &(skydock_load_balancer_status){0}));
    SKYDOCK_CHECK(!exists);
    SKYDOCK_CHECK(skydock_is(load_balancers_ensure(&web, nodes_of("srv-1"), &(skydock_load_balancer_status){0}), SKYDOCK_INVALID));
    SKYDOCK_CHECK_GOOD(load_balancers_ensure_deleted(&web));
    SKYDOCK_CHECK(fake_cloud_get(&cloud, "load-balancers", "new-2") != NULL);
    host->cluster_uid = NULL;
    SKYDOCK_CHECK(skydock_is(load_balancers_ensure_deleted(&web), SKYDOCK_UNAVAILABLE));
}

static void what_the_cloud_cannot_do_is_invalid(void) {
    start();
    skydock_service good = service();
    SKYDOCK_CHECK_GOOD(load_balancers_ensure(&good, nodes_of("srv-1"), &(skydock_load_balancer_status){0}));
    skydock_service_port sctp = {.transport = SKYDOCK_SCTP, .port = 1, .node_port = 2}, none = {.port = 1};
    skydock_ip_family ipv6 = SKYDOCK_IPV6;
    skydock_service bad[] = {service(), service(), service(), service()};
    bad[0].load_balancer_ip = "192.0.2.1";
    bad[1].ports = &sctp;
    bad[1].port_count = 1;
    bad[2].ports = &none;
    bad[2].port_count = 1;
    bad[3].ip_families = &ipv6;
    for (size_t i = 0; i < 4; i++) {
        SKYDOCK_CHECK(skydock_is(load_balancers_ensure(&bad[i], nodes_of("srv-1"), &(skydock_load_balancer_status){0}), SKYDOCK_INVALID));
    }
}

static skydock_new_route new_route(const char *cidr) {
    return (skydock_new_route){
        .name_hint = "n1", .target_node = "node-1", .target_provider_id = "simcloud:///zone-a/srv-1", .destination_cidr = cidr};
}

static void a_route_is_created_listed_and_deleted(void) {
    skydock_test_host *host = start();
    skydock_node nodes[] = {node("other", NULL), node("node-1", "simcloud:///zone-a/srv-1")};
    host->nodes = nodes;
    host->node_count = 2;
    skydock_new_route wanted[] = {new_route("10.244.0.0/24"), new_route("fd00::/64"), new_route("10.244.1.0/24"), {.target_node = "x"}};
    for (int again = 0; again < 2; again++) {
        const skydock_error *answers[4] = {0};
        routes_create(wanted, 4, answers);
        SKYDOCK_CHECK_GOOD(answers[0]);
        SKYDOCK_CHECK_GOOD(answers[1]);
        /* It has the name of the first. */
        SKYDOCK_CHECK(skydock_is(answers[2], SKYDOCK_CONFLICT));
        SKYDOCK_CHECK(skydock_is(answers[3], SKYDOCK_NOT_FOUND));
    }
    skydock_route_page page = {0};
    SKYDOCK_CHECK_GOOD(routes_list(NULL, &page));
    SKYDOCK_CHECK(page.len == 2 && page.next == NULL);
    SKYDOCK_CHECK_TEXT(page.routes[0].target_node, "node-1");
    SKYDOCK_CHECK_TEXT(page.routes[1].destination_cidr, "fd00::/64");
    for (int again = 0; again < 2; again++) {
        const skydock_error *gone[2] = {0};
        routes_delete(page.routes, 2, gone);
        SKYDOCK_CHECK_GOOD(gone[0]);
        SKYDOCK_CHECK_GOOD(gone[1]);
    }
    skydock_route_page empty = {0};
    SKYDOCK_CHECK_GOOD(routes_list(NULL, &empty));
    SKYDOCK_CHECK(empty.len == 0);
}

static void nothing_is_kept_from_one_call_to_the_next(void) {
    skydock_test_host *host = start();
    host->http = NULL;
    skydock_test_next_call();
    skydock_node one = node("node-1", NULL);
    skydock_instance_answer answer = {0};
    SKYDOCK_CHECK_GOOD(instances_describe(&one, 1, &answer));
    SKYDOCK_CHECK(skydock_is(answer.error, SKYDOCK_DENIED));
    skydock_info info = {0};
    plugin_info(&info);
    SKYDOCK_CHECK_TEXT(info.wanted_hosts.items[0], FAKE_URL);
}

#define TEST(NAME) {#NAME, NAME}

int main(void) {
    static const skydock_test_case tests[] = {
        TEST(an_invalid_configuration_is_rejected),
        TEST(a_provider_id_contains_the_server),
        TEST(a_server_is_described),
        TEST(a_server_with_an_ambiguous_name_is_invalid),
        TEST(only_the_cloud_can_say_that_a_server_is_absent),
        TEST(a_load_balancer_is_created_changed_and_deleted),
        TEST(an_unchanged_service_writes_nothing),
        TEST(a_change_of_nodes_leaves_the_rest_to_ensure),
        TEST(nothing_waits_for_the_cloud),
        TEST(a_create_whose_answer_was_lost_is_found),
        TEST(what_belongs_to_another_cluster_is_not_touched),
        TEST(what_the_cloud_cannot_do_is_invalid),
        TEST(a_route_is_created_listed_and_deleted),
        TEST(nothing_is_kept_from_one_call_to_the_next),
    };
    return skydock_test_run(tests, sizeof tests / sizeof *tests);
}
