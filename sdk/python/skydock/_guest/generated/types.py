# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `types`."""

from __future__ import annotations

from wit_world.imports import skydock_provider_types_0_1_1 as wit_types

import skydock as sdk

from ..._wire import number, optional, text


def sdk_address_kind(it: wit_types.AddressKind) -> sdk.AddressKind:
    return sdk.AddressKind[it.name]


def wit_address_kind(it: sdk.AddressKind) -> wit_types.AddressKind:
    return wit_types.AddressKind[sdk.AddressKind(it).name]


def sdk_node_address(it: wit_types.NodeAddress) -> sdk.NodeAddress:
    return sdk.NodeAddress(
        kind=sdk_address_kind(it.kind),
        address=it.address,
    )


def wit_node_address(it: sdk.NodeAddress) -> wit_types.NodeAddress:
    return wit_types.NodeAddress(
        kind=wit_address_kind(it.kind),
        address=text(it.address, "address"),
    )


def sdk_taint_effect(it: wit_types.TaintEffect) -> sdk.TaintEffect:
    return sdk.TaintEffect[it.name]


def sdk_taint(it: wit_types.Taint) -> sdk.Taint:
    return sdk.Taint(
        key=it.key,
        value=it.value,
        effect=sdk_taint_effect(it.effect),
    )


def sdk_node(it: wit_types.Node) -> sdk.Node:
    return sdk.Node(
        name=it.name,
        uid=it.uid,
        provider_id=it.provider_id,
        labels=dict(it.labels),
        annotations=dict(it.annotations),
        taints=[sdk_taint(one) for one in it.taints],
        addresses=[sdk_node_address(one) for one in it.addresses],
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


def sdk_transport(it: wit_types.Transport) -> sdk.Transport:
    return sdk.Transport[it.name]


def wit_transport(it: sdk.Transport) -> wit_types.Transport:
    return wit_types.Transport[sdk.Transport(it).name]


def sdk_service_port(it: wit_types.ServicePort) -> sdk.ServicePort:
    return sdk.ServicePort(
        name=it.name,
        transport=sdk_transport(it.transport),
        app_protocol=it.app_protocol,
        port=it.port,
        target_port=it.target_port,
        node_port=it.node_port,
    )


def sdk_traffic_policy(it: wit_types.TrafficPolicy) -> sdk.TrafficPolicy:
    return sdk.TrafficPolicy[it.name]


def sdk_ip_family(it: wit_types.IpFamily) -> sdk.IpFamily:
    return sdk.IpFamily[it.name]


def sdk_ip_family_policy(it: wit_types.IpFamilyPolicy) -> sdk.IpFamilyPolicy:
    return sdk.IpFamilyPolicy[it.name]


def sdk_ip_mode(it: wit_types.IpMode) -> sdk.IpMode:
    return sdk.IpMode[it.name]


def wit_ip_mode(it: sdk.IpMode) -> wit_types.IpMode:
    return wit_types.IpMode[sdk.IpMode(it).name]


def sdk_port_status(it: wit_types.PortStatus) -> sdk.PortStatus:
    return sdk.PortStatus(
        port=it.port,
        transport=sdk_transport(it.transport),
        error=it.error,
    )


def wit_port_status(it: sdk.PortStatus) -> wit_types.PortStatus:
    return wit_types.PortStatus(
        port=number(it.port, "port", 2**16 - 1),
        transport=wit_transport(it.transport),
        error=optional(it.error, "error of a port"),
    )


def sdk_ingress(it: wit_types.Ingress) -> sdk.Ingress:
    return sdk.Ingress(
        ip=it.ip,
        hostname=it.hostname,
        ip_mode=None if it.ip_mode is None else sdk_ip_mode(it.ip_mode),
        ports=[sdk_port_status(one) for one in it.ports],
    )


def wit_ingress(it: sdk.Ingress) -> wit_types.Ingress:
    return wit_types.Ingress(
        ip=optional(it.ip, "IP address"),
        hostname=optional(it.hostname, "host name"),
        ip_mode=None if it.ip_mode is None else wit_ip_mode(it.ip_mode),
        ports=[wit_port_status(one) for one in it.ports],
    )


def sdk_load_balancer_status(it: wit_types.LoadBalancerStatus) -> sdk.LoadBalancerStatus:
    return sdk.LoadBalancerStatus(
        ingress=[sdk_ingress(one) for one in it.ingress],
    )


def wit_load_balancer_status(it: sdk.LoadBalancerStatus) -> wit_types.LoadBalancerStatus:
    return wit_types.LoadBalancerStatus(
        ingress=[wit_ingress(one) for one in it.ingress],
    )


def sdk_service(it: wit_types.Service) -> sdk.Service:
    return sdk.Service(
        namespace=it.namespace,
        name=it.name,
        uid=it.uid,
        labels=dict(it.labels),
        annotations=dict(it.annotations),
        ports=[sdk_service_port(one) for one in it.ports],
        load_balancer_ip=it.load_balancer_ip,
        load_balancer_class=it.load_balancer_class,
        source_ranges=it.source_ranges,
        external_traffic_policy=sdk_traffic_policy(it.external_traffic_policy),
        internal_traffic_policy=sdk_traffic_policy(it.internal_traffic_policy),
        health_check_node_port=it.health_check_node_port,
        client_ip_affinity_seconds=it.client_ip_affinity_seconds,
        ip_families=[sdk_ip_family(one) for one in it.ip_families],
        ip_family_policy=sdk_ip_family_policy(it.ip_family_policy),
        allocate_node_ports=it.allocate_node_ports,
        publish_not_ready_addresses=it.publish_not_ready_addresses,
        cluster_ips=it.cluster_ips,
        external_ips=it.external_ips,
        selector=dict(it.selector),
        status=sdk_load_balancer_status(it.status),
        deleting=it.deleting,
    )
