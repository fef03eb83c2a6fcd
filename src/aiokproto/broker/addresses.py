"""IP addresses in one form, so that they can be compared however they are written (pure)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Return an IP address. An IPv4 address that is mapped into IPv6 becomes the IPv4 address, and zones are left out.

    Raises:
        ValueError: The text isn't an IP address.
    """
    # The zone of a link-local address belongs to the broker's machine, and says nothing about the client.
    found = ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
