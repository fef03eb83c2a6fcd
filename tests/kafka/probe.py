"""Requests to a broker that is starting.

They are written out by hand, because the harness must work even if the codec under test doesn't.
"""

from __future__ import annotations

import socket
import struct

API_VERSIONS, METADATA = 18, 3


def answers(address: tuple[str, int]) -> bool:
    """Return whether the broker completes an ApiVersions handshake (v0: an error code, then an array)."""
    reply = _ask(address, API_VERSIONS, 0, b"")
    return reply is not None and struct.unpack_from(">h", reply)[0] == 0


def connects(address: tuple[str, int]) -> bool:
    """Return whether something accepts connections there."""
    try:
        socket.create_connection(address, timeout=2).close()
    except OSError:
        return False
    return True


def answers_metadata(address: tuple[str, int]) -> bool:
    """Return whether the broker answers Metadata v0, as brokers before 0.10 do, which have no ApiVersions."""
    return _ask(address, METADATA, 0, struct.pack(">i", 0)) is not None


def known_brokers(address: tuple[str, int]) -> set[int]:
    """Return the node ids in this broker's metadata (Metadata v1 for no topics); empty while it has none."""
    reply = _ask(address, METADATA, 1, struct.pack(">i", 0))
    if reply is None:
        return set()
    nodes, position = set(), 4
    for _ in range(struct.unpack_from(">i", reply)[0]):
        node_id, host_length = struct.unpack_from(">ih", reply, position)
        position += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", reply, position)
        position += 2 + max(rack_length, 0)
        nodes.add(node_id)
    return nodes


def _ask(address: tuple[str, int], api_key: int, version: int, body: bytes) -> bytes | None:
    """Return the response's body, or None if no broker answers."""
    request = struct.pack(">hhih", api_key, version, 1, -1) + body
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (length,) = struct.unpack(">i", _read(connection, 4))
            return _read(connection, length)[4:]
    except (OSError, EOFError):
        return None


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
