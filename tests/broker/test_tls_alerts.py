"""What the broker sends when a TLS handshake fails, in every version of asyncio."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from aiokproto.broker import Security
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.tls import server_context
from tests.broker.secure import Certificates
from tests.security.certificates import make

ALERT, FATAL = 21, 2


def test_a_failed_handshake_looks_like_one_that_waits_by_class_and_by_number(tmp_path: Path) -> None:
    """asyncio writes the alert only for a waiting handshake. It checks the class, or before Python 3.11 the number."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = make(tmp_path / "tls").server().wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ssl.SSLWantReadError) as raised:
        server.do_handshake()
    assert raised.value.errno == ssl.SSL_ERROR_WANT_READ
    alert = outgoing.read()
    assert (alert[0], alert[5]) == (ALERT, FATAL)
    with pytest.raises(ssl.SSLError, match=r"HTTP_REQUEST|WRONG_VERSION_NUMBER"):
        server.do_handshake()


def test_clients_cannot_negotiate_again(tmp_path: Path) -> None:
    """It costs the broker ten times as much as the client. OpenSSL 3 refuses it by default, and 1.1.1 doesn't."""
    context = server_context(Security("SSL"), BrokerOptions(Certificates(tmp_path).options()))
    assert context is not None
    assert context.options & ssl.OP_NO_RENEGOTIATION
