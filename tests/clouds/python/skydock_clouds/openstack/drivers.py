"""What stands in for hypervisors, switches and appliances, behind the doors that OpenStack has for it (`entry_points.txt`)."""

from neutron_lib import constants as neutron
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins import constants as plugins
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api


class Switch(api.MechanismDriver):
    """Binds every port at once, without any agent, and marks it ACTIVE; and floating IPs as a layer 3 agent would."""

    def initialize(self):
        for event in (events.AFTER_CREATE, events.AFTER_UPDATE):
            registry.subscribe(self.floating_ip, resources.FLOATING_IP, event)

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(
                segment[api.ID], portbindings.VIF_TYPE_OVS, {portbindings.CAP_PORT_FILTER: True}, status=neutron.PORT_STATUS_ACTIVE
            )
            return

    def floating_ip(self, _resource, _event, _trigger, payload):
        status = neutron.FLOATINGIP_STATUS_ACTIVE if payload.latest_state["port_id"] else neutron.FLOATINGIP_STATUS_DOWN
        directory.get_plugin(plugins.L3).update_floatingip_status(payload.context, payload.resource_id, status)
