/* Volumes and snapshots in the cache, for the conformance kit: all that a plugin and the host say to each other about them. The ID of each is
 * its name. */
#include "skydock/skydock.h"

#define ZONE "topology.probe.example/zone"
#define ROOM ((uint64_t)1 << 40)
#define HOUR_MS 3600000

struct disk {
    const char *name;
    uint64_t bytes;
    const char *of; /* the node that has a volume, or NULL; the volume of a snapshot */
};

struct table {
    const char *key;
    struct disk *disks;
    size_t count;
};

/* Reads the volumes or the snapshots. There is room for as many more. */
static struct table read_table(const char *key, size_t more) {
    struct table table = {.key = key};
    const skydock_json *all = NULL;
    skydock_bytes text;
    if (skydock_cache_get(key, &text) && skydock_json_parse(text, &all) != NULL) {
        all = NULL;
    }
    table.disks = skydock_alloc((skydock_json_count(all) + more) * sizeof *table.disks);
    for (const skydock_json *each = skydock_json_first(all); each != NULL; each = skydock_json_next(each)) {
        int64_t bytes = 0;
        skydock_json_integer(skydock_json_get(each, "bytes"), &bytes);
        struct disk *disk = &table.disks[table.count++];
        disk->name = skydock_json_string(skydock_json_get(each, "name"));
        disk->bytes = (uint64_t)bytes;
        disk->of = skydock_json_string(skydock_json_get(each, "of"));
    }
    return table;
}

static void write_table(const struct table *table) {
    skydock_text text = {0};
    for (size_t i = 0; i < table->count; i++) {
        const struct disk *disk = &table->disks[i];
        skydock_append(&text, "%s{\"name\": %s, \"bytes\": %llu, \"of\": %s}", i == 0 ? "[" : ", ", skydock_json_quote(disk->name),
                       (unsigned long long)disk->bytes, skydock_json_quote(disk->of));
    }
    skydock_append(&text, "%s", table->count == 0 ? "[]" : "]");
    skydock_cache_set(table->key, skydock_bytes_of(text.text), HOUR_MS);
}

static struct disk *find(const struct table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++) {
        if (skydock_same(table->disks[i].name, name)) {
            return &table->disks[i];
        }
    }
    return NULL;
}

static struct disk *add(struct table *table, const char *name, uint64_t bytes, const char *of) {
    struct disk *disk = &table->disks[table->count++];
    *disk = (struct disk){name, bytes, of};
    return disk;
}

static void remove_disk(struct table *table, struct disk *disk) {
    *disk = table->disks[--table->count];
}

static uint64_t room_left(const struct table *volumes) {
    uint64_t used = 0;
    for (size_t i = 0; i < volumes->count; i++) {
        used += volumes->disks[i].bytes;
    }
    return used < ROOM ? ROOM - used : 0;
}

static const skydock_error *no_disk(const char *id) {
    return skydock_not_found("there is no %s", id);
}

void volumes_driver(skydock_driver *driver) {
    driver->name = "probe.csi.example.com";
    skydock_add_string(&driver->topology_keys, ZONE);
    skydock_add_access_mode(driver, SKYDOCK_SINGLE_NODE_WRITER);
}

static skydock_volume volume_of(const struct disk *disk) {
    skydock_volume volume = {.id = disk->name, .size_bytes = disk->bytes};
    skydock_pairs zone = {0};
    skydock_add_pair(&zone, ZONE, "z1");
    skydock_add_topology(&volume.topology, zone);
    skydock_add_pair(&volume.context, "serial", disk->name);
    if (disk->of != NULL) {
        skydock_add_string(&volume.nodes, disk->of);
    }
    return volume;
}

static void create_volume(struct table *volumes, const struct table *snapshots, const skydock_new_volume *new, skydock_volume_answer *answer) {
    struct disk *disk = find(volumes, new->name);
    uint64_t bytes = new->size_bytes > 0 ? new->size_bytes : 1;
    if (disk != NULL && (disk->bytes < bytes || (new->limit_bytes > 0 && disk->bytes > new->limit_bytes))) {
        answer->error = skydock_exists("%s has another size", new->name);
    } else if (disk == NULL && new->snapshot != NULL && find(snapshots, new->snapshot) == NULL) {
        answer->error = no_disk(new->snapshot);
    } else if (disk == NULL && bytes > room_left(volumes)) {
        answer->error = skydock_exhausted("there is no room for %s", new->name);
    } else {
        answer->volume = volume_of(disk != NULL ? disk : add(volumes, new->name, bytes, NULL));
    }
}

const skydock_error *volumes_create(const skydock_new_volume *volumes, size_t count, skydock_volume_answer *answers) {
    struct table table = read_table("volumes", count), snapshots = read_table("snapshots", 0);
    for (size_t i = 0; i < count; i++) {
        create_volume(&table, &snapshots, &volumes[i], &answers[i]);
    }
    write_table(&table);
    return NULL;
}

const skydock_error *volumes_get(const char *const *ids, size_t count, skydock_volume_answer *answers) {
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        const struct disk *disk = find(&table, ids[i]);
        if (disk == NULL) {
            answers[i].error = no_disk(ids[i]);
        } else {
            answers[i].volume = volume_of(disk);
        }
    }
    return NULL;
}

const skydock_error *volumes_list(const char *page, skydock_volume_page *answer) {
    (void)page;
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < table.count; i++) {
        skydock_add_volume(answer, volume_of(&table.disks[i]));
    }
    return NULL;
}

const skydock_error *volumes_delete(const char *const *ids, size_t count, const skydock_error **answers) {
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        struct disk *disk = find(&table, ids[i]);
        if (disk != NULL && disk->of != NULL) {
            answers[i] = skydock_in_use("%s is attached to %s", ids[i], disk->of);
        } else if (disk != NULL) {
            remove_disk(&table, disk);
        }
    }
    write_table(&table);
    return NULL;
}

const skydock_error *attachments_attach_volumes(const skydock_new_attachment *attachments, size_t count,
                                                skydock_attachment_answer *answers) {
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        struct disk *disk = find(&table, attachments[i].volume);
        if (disk == NULL) {
            answers[i].error = no_disk(attachments[i].volume);
        } else if (disk->of != NULL && !skydock_same(disk->of, attachments[i].node)) {
            answers[i].error = skydock_in_use("%s is attached to %s", disk->name, disk->of);
        } else {
            disk->of = attachments[i].node;
            skydock_add_pair(&answers[i].context, "devicePath", "/dev/vdb");
        }
    }
    write_table(&table);
    return NULL;
}

const skydock_error *attachments_detach_volumes(const skydock_attachment *attachments, size_t count, const skydock_error **answers) {
    (void)answers;
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        struct disk *disk = find(&table, attachments[i].volume);
        if (disk != NULL && (attachments[i].node == NULL || skydock_same(disk->of, attachments[i].node))) {
            disk->of = NULL;
        }
    }
    write_table(&table);
    return NULL;
}

const skydock_error *volume_expansion_expand_volumes(const skydock_expansion *expansions, size_t count, skydock_size_answer *answers) {
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        struct disk *disk = find(&table, expansions[i].volume);
        if (disk == NULL) {
            answers[i].error = no_disk(expansions[i].volume);
            continue;
        }
        uint64_t bytes = disk->bytes < expansions[i].size_bytes ? expansions[i].size_bytes : disk->bytes;
        if (expansions[i].limit_bytes > 0 && bytes > expansions[i].limit_bytes) {
            answers[i].error = skydock_out_of_range("%s is larger", disk->name);
        } else {
            disk->bytes = answers[i].size_bytes = bytes;
        }
    }
    write_table(&table);
    return NULL;
}

/* The disks have no properties. */
const skydock_error *volume_attributes_modify_volumes(const skydock_modification *modifications, size_t count,
                                                      const skydock_error **answers) {
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        if (find(&table, modifications[i].volume) == NULL) {
            answers[i] = no_disk(modifications[i].volume);
        } else if (modifications[i].attributes.len > 0) {
            answers[i] = skydock_invalid("there is no property %s", modifications[i].attributes.items[0].key);
        }
    }
    return NULL;
}

static skydock_snapshot snapshot_of(const struct disk *disk) {
    return (skydock_snapshot){
        .id = disk->name,
        .volume = disk->of,
        .size_bytes = disk->bytes,
        .creation_timestamp = 1700000000,
        .ready = true,
    };
}

static void create_snapshot(struct table *snapshots, const struct table *volumes, const skydock_new_snapshot *new,
                            skydock_snapshot_answer *answer) {
    struct disk *disk = find(snapshots, new->name);
    const struct disk *volume = find(volumes, new->volume);
    if (disk != NULL && !skydock_same(disk->of, new->volume)) {
        answer->error = skydock_exists("%s is a snapshot of %s", new->name, disk->of);
    } else if (disk == NULL && volume == NULL) {
        answer->error = no_disk(new->volume);
    } else {
        answer->snapshot = snapshot_of(disk != NULL ? disk : add(snapshots, new->name, volume->bytes, new->volume));
    }
}

const skydock_error *snapshots_create(const skydock_new_snapshot *snapshots, size_t count, skydock_snapshot_answer *answers) {
    struct table table = read_table("snapshots", count), volumes = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        create_snapshot(&table, &volumes, &snapshots[i], &answers[i]);
    }
    write_table(&table);
    return NULL;
}

const skydock_error *snapshots_get(const char *const *ids, size_t count, skydock_snapshot_answer *answers) {
    struct table table = read_table("snapshots", 0);
    for (size_t i = 0; i < count; i++) {
        const struct disk *disk = find(&table, ids[i]);
        if (disk == NULL) {
            answers[i].error = no_disk(ids[i]);
        } else {
            answers[i].snapshot = snapshot_of(disk);
        }
    }
    return NULL;
}

const skydock_error *snapshots_list(const char *page, skydock_snapshot_page *answer) {
    (void)page;
    struct table table = read_table("snapshots", 0);
    for (size_t i = 0; i < table.count; i++) {
        skydock_add_snapshot(answer, snapshot_of(&table.disks[i]));
    }
    return NULL;
}

const skydock_error *snapshots_delete(const char *const *ids, size_t count, const skydock_error **answers) {
    (void)answers;
    struct table table = read_table("snapshots", 0);
    for (size_t i = 0; i < count; i++) {
        struct disk *disk = find(&table, ids[i]);
        if (disk != NULL) {
            remove_disk(&table, disk);
        }
    }
    write_table(&table);
    return NULL;
}

const skydock_error *storage_capacity_get_capacities(const skydock_capacity_request *requests, size_t count,
                                                     skydock_capacity_answer *answers) {
    struct table table = read_table("volumes", 0);
    for (size_t i = 0; i < count; i++) {
        const char *zone = skydock_lookup(requests[i].topology, ZONE);
        if (!requests[i].has_topology || skydock_same(zone, "z1")) {
            answers[i].available_bytes = answers[i].maximum_bytes = room_left(&table);
        }
        answers[i].minimum_bytes = 1;
    }
    return NULL;
}
