"""Lets moto behave like AWS, where programs notice the difference."""

from moto.core.exceptions import ServiceException

# The free addresses that a subnet of a load balancer must have.
ROOM = 8


class Rejected(ServiceException):
    """An error of AWS."""


def invalid(message):
    return Rejected("InvalidConfigurationRequest", message)


def checked_subnets(backend, ids):
    """Rejects subnets that are full, or in the same zone as another one."""
    from moto.ec2.models import ec2_backends

    ec2, zones = ec2_backends[backend.account_id][backend.region_name], set()
    for subnet in map(ec2.get_subnet, ids):
        if subnet.available_ip_address_count < ROOM:
            raise Rejected("InvalidSubnet", f"Not enough IP space available in {subnet.id}.")
        if subnet.availability_zone in zones:
            raise invalid("A load balancer cannot be attached to multiple subnets in the same Availability Zone")
        zones.add(subnet.availability_zone)


def network():
    from moto.elbv2.models import ELBv2Backend as Backend

    def relate(self):
        """moto notes the load balancer of a target group only when a listener is created."""
        for group in self.target_groups.values():
            group.load_balancer_arns = []
        for balancer in self.load_balancers.values():
            actions = [action for listener in balancer.listeners.values() for action in listener.default_actions]
            for arn in {arn for action in actions for arn in self._get_target_group_arns_from(action.data)}:
                if arn in self.target_groups:
                    self.target_groups[arn].load_balancer_arns.append(balancer.arn)

    def relating(name):
        inner = getattr(Backend, name)

        def outer(self, *args, **options):
            answer = inner(self, *args, **options)
            relate(self)
            return answer

        setattr(Backend, name, outer)

    http_only = Backend.modify_listener

    def modify_listener(self, arn, port=None, protocol=None, ssl_policy=None, certificates=None, actions=None):
        listener = http_only(self, arn, port, None, ssl_policy, certificates, actions)
        chosen = [one["CertificateArn"] for one in certificates or []]
        if protocol is None:
            protocol = listener.protocol
        if protocol in ("TLS", "HTTPS"):
            if not chosen and not listener.certificates:
                raise Rejected("CertificateNotFound", "A certificate must be specified for TLS listeners")
            for one in chosen:
                if not self._certificate_exists(certificate_arn=one):
                    raise Rejected("CertificateNotFound", f"Certificate {one} not found")
            listener.certificates = chosen or listener.certificates
            listener.certificate = listener.certificates[0]
        else:
            listener.certificates, listener.certificate, listener.ssl_policy = [], None, None
        listener.protocol = protocol
        return listener

    create = Backend.create_load_balancer

    def create_load_balancer(self, *args, **options):
        mapped = [one["SubnetId"] for one in options.get("subnet_mappings") or []]
        checked_subnets(self, (options.get("subnet_ids") or []) + mapped)
        return create(self, *args, **options)

    set_groups = Backend.set_security_groups

    def set_security_groups(self, arn, groups):
        balancer = self.load_balancers.get(arn)
        if balancer and balancer.type == "network" and bool(balancer.security_groups) != bool(groups):
            raise invalid("Security groups of a network load balancer can be neither added to one without any nor removed completely")
        return set_groups(self, arn, groups)

    Backend.modify_listener = modify_listener
    Backend.create_load_balancer = create_load_balancer
    Backend.set_security_groups = set_security_groups
    for name in ("create_listener", "modify_listener", "delete_listener", "delete_load_balancer"):
        relating(name)


def classic():
    from moto.elb.models import ELBBackend as Backend
    from moto.elb.models import FakeListener

    # moto uses the protocol of clients on both sides.
    FakeListener.instance_protocol = property(lambda self: getattr(self, "behind", self.protocol))

    def note(balancer, ports):
        given = {int(port["LoadBalancerPort"]): port.get("InstanceProtocol") for port in ports}
        for listener in balancer.listeners:
            if given.get(int(listener.load_balancer_port)):
                listener.behind = given[int(listener.load_balancer_port)].upper()

    create, add = Backend.create_load_balancer, Backend.create_load_balancer_listeners

    def create_load_balancer(self, name, zones, ports, *args, **options):
        checked_subnets(self, options.get("subnets") or [])
        balancer = create(self, name, zones, ports, *args, **options)
        note(balancer, ports)
        return balancer

    def create_load_balancer_listeners(self, name, ports):
        balancer = add(self, name, ports)
        note(balancer, ports)
        return balancer

    def delete_load_balancer_listeners(self, name, ports):
        """moto deletes none of several."""
        balancer, gone = self.get_load_balancer(name), {int(port) for port in ports}
        balancer.listeners = [one for one in balancer.listeners if int(one.load_balancer_port) not in gone]
        return balancer

    attach, detach = Backend.attach_load_balancer_to_subnets, Backend.detach_load_balancer_from_subnets

    def attach_load_balancer_to_subnets(self, name, subnets):
        there = self.get_load_balancer(name).subnets
        checked_subnets(self, [*there, *(one for one in subnets if one not in there)])
        return attach(self, name, subnets)

    def detach_load_balancer_from_subnets(self, name, subnets):
        if set(self.get_load_balancer(name).subnets) <= set(subnets):
            raise invalid("A load balancer cannot be attached to zero subnets in VPC")
        return detach(self, name, subnets)

    for one in (create_load_balancer, create_load_balancer_listeners, delete_load_balancer_listeners,
                attach_load_balancer_to_subnets, detach_load_balancer_from_subnets):
        setattr(Backend, one.__name__, one)


def interfaces():
    from moto.ec2.models import EC2Backend as Backend
    from moto.ec2.models.route_tables import Route

    def check(backend, instance):
        if instance and len(backend.get_instance(instance).nics) > 1:
            raise Rejected("InvalidInstanceID", f"There are multiple interfaces attached to instance '{instance}'. "
                           "Please specify an interface ID for the operation instead.")

    def instance_id(route):
        instance = route.instance or (route.interface and route.interface.instance)
        return instance.id if instance else None

    create, replace, modify = Backend.create_route, Backend.replace_route, Backend.modify_instance_attribute

    def create_route(self, *args, **options):
        check(self, options.get("instance_id"))
        return create(self, *args, **options)

    def replace_route(self, *args, **options):
        check(self, options.get("instance_id"))
        return replace(self, *args, **options)

    def modify_instance_attribute(self, instance_id, key, value):
        check(self, instance_id if key == "source_dest_check" else None)
        return modify(self, instance_id, key, value)

    Route.instance_id = property(instance_id)
    for one in (create_route, replace_route, modify_instance_attribute):
        setattr(Backend, one.__name__, one)


def signatures():
    from moto.core.authorization import ActionAuthenticatorMixin as Check

    check = Check._authenticate_and_authorize_action

    def check_what_was_sent(self, *args, **options):
        """AWS verifies the bytes that were sent. moto encodes the form again, with `+` also for a space that was sent as `%20`."""
        sent = self.normalized_request.environ["wsgi.input"]
        sent.seek(0)
        self.raw_body = sent.read()
        return check(self, *args, **options)

    Check._authenticate_and_authorize_action = check_what_was_sent


def correct():
    signatures()
    interfaces()
    network()
    classic()
