"""OpenStack on loopback: real services, a fake hypervisor, no agents, no message broker."""
