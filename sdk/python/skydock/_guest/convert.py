"""Conversions between the types of the SDK and those of the bindings. Enums have the same names in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from componentize_py_types import Err, Ok, Result
from wit_world.imports import skydock_provider_types_0_1_0 as wit

from .. import _types as sdk
from .._errors import CloudError, ImplementedElsewhere, Internal, RetryLater
from .._parallel import told
from .._said import line
from .._wire import millis, number, optional, text

T = TypeVar("T")
W = TypeVar("W")

_KINDS = {wit.AddressKind[kind.name]: kind for kind in sdk.AddressKind}
_WIT_KINDS = {kind: wit.AddressKind[kind.name] for kind in sdk.AddressKind}


def address(it: wit.NodeAddress) -> sdk.NodeAddress:
    return sdk.NodeAddress(_KINDS[it.kind], it.address)


def wit_addresses(addresses: Sequence[sdk.NodeAddress]) -> list[wit.NodeAddress]:
    return [wit.NodeAddress(_WIT_KINDS[it.kind], text(it.address, "address")) for it in addresses]


def node(it: wit.Node) -> sdk.Node:
    return sdk.Node(
        name=it.name,
        uid=it.uid,
        provider_id=it.provider_id,
        labels=dict(it.labels),
        annotations=dict(it.annotations),
        taints=[sdk.Taint(taint.key, taint.value, sdk.TaintEffect[taint.effect.name]) for taint in it.taints],
        addresses=[address(one) for one in it.addresses],
        pod_cidrs=it.pod_cidrs,
        ready=it.ready,
        unschedulable=it.unschedulable,
        system_uuid=it.system_uuid,
        machine_id=it.machine_id,
        architecture=it.architecture,
        operating_system=it.operating_system,
        os_image=it.os_image,
        creation_timestamp=it.creation_timestamp,
    )


def nodes(them: Sequence[wit.Node]) -> list[sdk.Node]:
    return [node(it) for it in them]


def service(it: wit.Service) -> sdk.Service:
    return sdk.Service(
        namespace=it.namespace,
        name=it.name,
        uid=it.uid,
        labels=dict(it.labels),
        annotations=dict(it.annotations),
        ports=[_port(port) for port in it.ports],
        load_balancer_ip=it.load_balancer_ip,
        load_balancer_class=it.load_balancer_class,
        source_ranges=it.source_ranges,
        external_traffic_policy=sdk.TrafficPolicy[it.external_traffic_policy.name],
        internal_traffic_policy=sdk.TrafficPolicy[it.internal_traffic_policy.name],
        health_check_node_port=it.health_check_node_port,
        client_ip_affinity_seconds=it.client_ip_affinity_seconds,
        ip_families=[sdk.IpFamily[family.name] for family in it.ip_families],
        ip_family_policy=sdk.IpFamilyPolicy[it.ip_family_policy.name],
        allocate_node_ports=it.allocate_node_ports,
        publish_not_ready_addresses=it.publish_not_ready_addresses,
        cluster_ips=it.cluster_ips,
        external_ips=it.external_ips,
        selector=dict(it.selector),
        status=_status(it.status),
        deleting=it.deleting,
    )


def _port(it: wit.ServicePort) -> sdk.ServicePort:
    transport = sdk.Transport[it.transport.name]
    return sdk.ServicePort(it.port, it.name, transport, it.app_protocol, it.target_port, it.node_port)


def _status(it: wit.LoadBalancerStatus) -> sdk.LoadBalancerStatus:
    def point(one: wit.Ingress) -> sdk.Ingress:
        mode = None if one.ip_mode is None else sdk.IpMode[one.ip_mode.name]
        ports = [sdk.PortStatus(port.port, sdk.Transport[port.transport.name], port.error) for port in one.ports]
        return sdk.Ingress(one.ip, one.hostname, mode, ports)

    return sdk.LoadBalancerStatus([point(one) for one in it.ingress])


def wit_status(it: sdk.LoadBalancerStatus) -> wit.LoadBalancerStatus:
    def point(one: sdk.Ingress) -> wit.Ingress:
        mode = None if one.ip_mode is None else wit.IpMode[one.ip_mode.name]
        ports = [_wit_port(port) for port in one.ports]
        return wit.Ingress(optional(one.ip, "IP address"), optional(one.hostname, "host name"), mode, ports)

    return wit.LoadBalancerStatus([point(one) for one in it.ingress])


def _wit_port(it: sdk.PortStatus) -> wit.PortStatus:
    transport = wit.Transport[it.transport.name]
    return wit.PortStatus(number(it.port, "port", 65535), transport, optional(it.error, "error of a port"))


def wit_error(it: CloudError) -> wit.CloudError:
    """Returns the case of an error. Its text becomes one line."""
    if isinstance(it, ImplementedElsewhere):
        return wit.CloudError_ImplementedElsewhere()
    kind = next((kind for kind in type(it).__mro__ if hasattr(wit, f"CloudError_{kind.__name__}")), Internal)
    case = getattr(wit, f"CloudError_{kind.__name__}")
    said = line(it.message) or kind.__name__
    value = wit.Retry(millis(it.retry_after), said) if isinstance(it, RetryLater) else said
    error: wit.CloudError = case(value)
    return error


def wit_results(them: Sequence[T | CloudError], into: Callable[[T], W]) -> list[Result[W, wit.CloudError]]:
    """Returns the elements of an answer. One that is not of the right type, or any exception, is an error of this element."""
    return [_wit_result(it, into) for it in them]


def _wit_result(it: T | CloudError, into: Callable[[T], W]) -> Result[W, wit.CloudError]:
    try:
        return Err(wit_error(told(it))) if isinstance(it, BaseException) else Ok(into(it))
    except Exception as error:
        return Err(wit_error(told(error)))
