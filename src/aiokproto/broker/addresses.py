"""Normalizes IP addresses, so different spellings of the same address compare equal (pure)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Return a normalized IP address: IPv4-mapped IPv6 addresses become IPv4, and the zone is dropped.

    Raises:
        ValueError: ``text`` isn't an IP address.
    """
    # A link-local address's zone names an interface of the broker's machine. It says nothing about the client.
    found = ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
