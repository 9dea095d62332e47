"""Octavia's doors: VIPs that are real ports in Neutron, on appliances that are not there; and a provider with OVN's limits."""

from octavia.api.drivers.amphora_driver.v2 import driver as amphora
from octavia.network import base
from octavia.network.data_models import Interface
from octavia.network.drivers.neutron.allowed_address_pairs import AllowedAddressPairsDriver
from octavia_lib.api.drivers import exceptions


class Network(AllowedAddressPairsDriver):
    """Real VIP ports and security groups in Neutron; no server to plug them into."""

    def plug_port(self, amphora, port):
        # What makes Octavia give up, so that the load balancer is in ERROR.
        if any(self.get_subnet(fixed.subnet_id).name == "faulty" for fixed in port.fixed_ips):
            raise base.PlugNetworkException("the subnet is faulty")
        # As Nova would mark it: what is plugged is found by it.
        self.network_proxy.update_port(port.id, device_id=amphora.compute_id, device_owner="compute:nova")
        return Interface(compute_id=amphora.compute_id, network_id=port.network_id, port_id=port.id, fixed_ips=port.fixed_ips)

    def unplug_network(self, compute_id, network_id):
        pass

    def unplug_aap_port(self, vip, amphora, subnet):
        pass


class Ovn(amphora.AmphoraProviderDriver):
    """The same work under another provider's name, rejecting what OVN's provider rejects: layer 7, and other algorithms."""

    PROTOCOLS = ("TCP", "UDP", "SCTP")

    def _reject(self, what):
        text = f"OVN provider does not support {what}"
        raise exceptions.UnsupportedOptionError(user_fault_string=text, operator_fault_string=text)

    def listener_create(self, listener):
        if listener.protocol not in self.PROTOCOLS:
            self._reject(f"{listener.protocol} protocol")
        super().listener_create(listener)

    def pool_create(self, pool):
        if pool.protocol not in self.PROTOCOLS:
            self._reject(f"{pool.protocol} protocol")
        super().pool_create(pool)

    def _validate_pool_algorithm(self, pool):
        if pool.lb_algorithm != "SOURCE_IP_PORT":
            self._reject(f"{pool.lb_algorithm} algorithm")

    def l7policy_create(self, l7policy):
        self._reject("layer 7 policies")
