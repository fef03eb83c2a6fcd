"""IP addresses as they are compared: however they are written (pure)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Return an IP address. One of IPv4 that is mapped into IPv6 is itself, and zones are left out.

    Raises:
        ValueError: It is none.
    """
    # The zone of a link-local address is of the broker's machine.
    found = ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
