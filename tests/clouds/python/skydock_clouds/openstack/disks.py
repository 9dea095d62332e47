"""Cinder's door: a backend whose volumes are records in the database alone. It is not in `drivers`, which loads Neutron."""

from cinder import exception
from cinder.volume import driver


class Disks(driver.VolumeDriver):
    """Does everything at once, and stores nothing."""

    VERSION = "1"

    def do_setup(self, context):
        pass

    def check_for_setup_error(self):
        pass

    def _update_volume_stats(self):
        self._stats = {
            "volume_backend_name": "disks", "vendor_name": "Skydock", "driver_version": self.VERSION, "storage_protocol": "fake",
            "total_capacity_gb": "infinite", "free_capacity_gb": "infinite", "multiattach": False,
        }

    def create_volume(self, volume):
        # What puts a volume into ERROR, from whatever it is made.
        if volume.volume_type.name == "faulty":
            raise exception.VolumeBackendAPIException(data="the type is faulty")

    def create_volume_from_snapshot(self, volume, snapshot):
        self.create_volume(volume)

    def create_cloned_volume(self, volume, original):
        self.create_volume(volume)

    def delete_volume(self, volume):
        pass

    def extend_volume(self, volume, size):
        pass

    def retype(self, context, volume, new_type, difference, host):
        return True, None

    def create_snapshot(self, snapshot):
        pass

    def delete_snapshot(self, snapshot):
        pass

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector):
        # Nova's fake hypervisor accepts any.
        return {"driver_volume_type": "fake", "data": {"volume_id": volume.id, "access_mode": "rw"}}

    def terminate_connection(self, volume, connector, **how):
        pass
