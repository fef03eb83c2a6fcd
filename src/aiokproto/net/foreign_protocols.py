"""Recognize a peer that isn't a Kafka broker by the first bytes that it sends (pure).

A Kafka frame starts with its length. Read as a length, the first bytes of most protocols ("HTTP", "SSH-") exceed any
limit, and :class:`~aiokproto.net.protocol.ClientProtocol` refuses them at once. The first bytes of HTTP/2 and ZooKeeper
are plausible lengths: these peers are recognized when their frame can't be decoded, or doesn't arrive in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SHOWN = 32

# The first match counts, so the order matters.
_PROTOCOLS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), text)
    for pattern, text in (
        (rb"HTTP/\d", "an HTTP server"),
        (rb"\s*<(!doctype|html|\?xml)", "an HTTP server"),
        (rb"\x15\x03", "a TLS server"),
        # Frames of stream 0: SETTINGS, or GOAWAY.
        (rb"\0\0.\x04[\0\x01]\0\0\0", "an HTTP/2 server"),
        (rb"\0\0.\x07\0\0\0\0\0", "an HTTP/2 server"),
        (rb"SSH-", "an SSH server"),
        # ConnectResponse: length, protocol version 0, timeout, session id, a password of 16 bytes.
        (rb"\0\0\0[\x24\x25]\0\0\0\0.{12}\0\0\0\x10", "ZooKeeper"),
        (rb"Zookeeper version|imok|This ZooKeeper", "ZooKeeper"),
        (rb"E...[\0-\xff]S(FATAL|ERROR|PANIC)\0|EFATAL:", "a PostgreSQL server"),
        (rb".\0\0[\0\x01]\x0a\d+\.\d+|.\0\0[\0\x01]\xff", "a MySQL server"),
        (rb"[-]ERR |[-]NOAUTH|[-]DENIED|[-]MISCONF", "a Redis server"),
        (rb"ERROR\r\n|CLIENT_ERROR", "a memcached server"),
        (rb"AMQP", "an AMQP server, such as RabbitMQ"),
        (rb"INFO \{", "a NATS server"),
        (rb"(220|421|554)[ -][^\r\n]*(?i:ftp)", "an FTP server"),
        (rb"(220|421|554|500|502)[ -]", "an SMTP server"),
        (rb"\* (OK|BYE|PREAUTH)", "an IMAP server"),
        (rb"[+]OK", "a POP3 server"),
        (rb"RFB \d", "a VNC server"),
        (rb"\xff[\xfb-\xfe]", "a Telnet server"),
        (rb"\x05[\0\x02\xff]", "a SOCKS5 proxy"),
    )
)

_REMEDIES = {
    "a TLS server": "connect to a TLS listener with security_protocol='SSL' or 'SASL_SSL'",
    "ZooKeeper": "bootstrap_servers takes brokers, mostly at port 9092",
    "a SOCKS5 proxy": "a proxy goes into proxy_url",
}

PROXY_REMEDIES = {
    "a TLS server": "proxy_url begins with 'https://' for a proxy with TLS",
    "a SOCKS5 proxy": "proxy_url begins with 'socks5://' or 'socks5h://' for it",
}
"""What to do about a peer that should be a proxy."""

_PORTS = {
    2181: "ZooKeeper; bootstrap_servers takes brokers, mostly at port 9092",
    8081: "a schema registry",
    8082: "a REST proxy",
    8083: "Kafka Connect",
    5432: "PostgreSQL",
    6379: "Redis",
    443: "HTTPS",
    80: "HTTP",
    22: "SSH",
}


def recognize(seen: bytes) -> str | None:
    """Return what a peer is, judging by its first bytes ("an SSH server"), or None if they don't say."""
    for pattern, name in _PROTOCOLS:
        if pattern.match(seen):
            return name
    return None


def describe_bytes(seen: bytes, remedies: Mapping[str, str] = _REMEDIES) -> str:
    """Describe a peer that isn't a Kafka broker (or, with other remedies, a proxy) by the first bytes it sent."""
    name = recognize(seen)
    if name is None:
        return f"it responds with {seen[:_SHOWN]!r}"
    if name in remedies:
        return f"it responds like {name} ({remedies[name]})"
    # In text protocols, the first line names the product.
    line = seen.partition(b"\n")[0].rstrip(b"\r")[:80]
    return f"it responds like {name}" + (f" ({line.decode()!r})" if _printable(line) else "")


def usual_service(port: int) -> str:
    """Return a hint about the service that usually has this port, for a peer that does not respond.

    Empty if there's none.
    """
    return f"; port {port} is usually that of {_PORTS[port]}" if port in _PORTS else ""


def _printable(line: bytes) -> bool:
    return bool(line) and all(0x20 <= byte < 0x7F for byte in line)
