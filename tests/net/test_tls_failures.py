"""Each way in which TLS fails, on real sockets: which error it is, and what the error says to do."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiokproto.config import ClusterConfig
from aiokproto.config.proxy import parse_proxy
from aiokproto.errors import AuthenticationError, BrokerConnectionError, NotKafkaError
from aiokproto.net.connection import Connection
from aiokproto.net.open import open_connection
from aiokproto.net.tls_errors import PROXY, refusal, tls_error
from aiokproto.net.transport import dial
from aiokproto.security.tls.defaults import default_context
from aiokproto.spark.payloads.registry import _context
from tests.net.peer import peer, raw_peer
from tests.net.test_tls import ANSWERS, CERTIFICATE, KEY
from tests.security.certificates import Files, make
from tests.timeouts import LONG_TIMEOUT


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make(tmp_path_factory.mktemp("tls"))


async def connect(port: int, host: str = "127.0.0.1", **options: Any) -> None:
    """Open a connection with options as the user gives them."""
    config = ClusterConfig.parse({"bootstrap_servers": f"{host}:{port}", "security_protocol": "SSL", **options})
    connection = await open_connection(host, port, f"{host}:{port}", config, LONG_TIMEOUT)
    connection.abort()
    await connection.wait_closed()


def proxied(cafile: str) -> ssl.SSLContext:
    context = parse_proxy("https://proxy.example:3128", "", None).ssl_context
    assert context is not None
    return context


def registry_context(cafile: str) -> ssl.SSLContext:
    return _context({"cafile": cafile, "certfile": None, "keyfile": None})


class Case(NamedTuple):
    """A listener's certificate, a client's options that are names of files, and the error's text."""

    server: str
    options: dict[str, str]
    text: str


REJECTED = {
    "unknown authority": Case("broker", {"ssl_cafile": "other-ca.pem"}, r"authority .* ssl_cafile"),
    "the system's authorities": Case("broker", {}, r"authority .* ssl_cafile"),
    "an authority that only the other side has": Case("foreign", {"ssl_cafile": "ca.pem"}, "authority"),
    "expired": Case("past", {"ssl_cafile": "ca.pem"}, "certificate has expired: .*the broker needs a new one"),
    "not yet valid": Case("future", {"ssl_cafile": "ca.pem"}, "not valid yet: check this machine's clock"),
    "another host": Case(
        "elsewhere", {"ssl_cafile": "ca.pem"}, r"does not name this IP address: .*advertised\.listeners"
    ),
    "revoked": Case("broker", {"ssl_cafile": "ca.pem", "ssl_crlfile": "revoked.pem"}, "it was revoked"),
    "no revocation list": Case(
        "foreign", {"ssl_cafile": "other-ca.pem", "ssl_crlfile": "revoked.pem"}, "ssl_crlfile has no revocation list"
    ),
}


@pytest.mark.parametrize("name", REJECTED)
async def test_a_certificate_that_the_client_rejects(files: Files, name: str) -> None:
    case = REJECTED[name]
    given: dict[str, Any] = {option: files[file] for option, file in case.options.items()}
    async with peer(ANSWERS, ssl_context=files.server(case.server)) as broker:
        with pytest.raises(
            AuthenticationError, match=rf"certificate of 127.0.0.1:{broker.port} was rejected: .*{case.text}"
        ):
            await connect(broker.port, **given)


async def test_a_certificate_that_is_signed_by_itself(tmp_path: Path) -> None:
    (tmp_path / "both.pem").write_text(KEY + CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    async with peer(ANSWERS, ssl_context=context) as broker:
        with pytest.raises(AuthenticationError, match="signed by itself and not trusted: ssl_cafile"):
            await connect(broker.port)


async def test_a_host_name_that_is_not_in_the_certificate(files: Files) -> None:
    async with peer(ANSWERS, ssl_context=files.server("elsewhere")) as broker:
        with pytest.raises(AuthenticationError, match=r"does not name this host: connect by a name that is in it"):
            await connect(broker.port, "localhost", ssl_cafile=files["ca.pem"])


async def test_a_host_name_that_is_only_in_the_subject_of_the_certificate(files: Files) -> None:
    """It can be anything; OpenSSL would accept it where there are no other names."""
    async with peer(ANSWERS, ssl_context=files.server("subject")) as broker:
        with pytest.raises(AuthenticationError, match=r"does not name this host: .*subject alternative names"):
            await connect(broker.port, "localhost", ssl_cafile=files["ca.pem"])


@pytest.mark.parametrize("make_context", [default_context, proxied, registry_context])
def test_default_contexts_look_at_alternative_names_alone(files: Files, make_context: Any) -> None:
    context = make_context(str(files["ca.pem"]))
    assert (context.check_hostname, context.hostname_checks_common_name) == (True, False)


@pytest.mark.parametrize(
    "option", [{"ssl_check_hostname": False}, {"ssl_endpoint_identification_algorithm": ""}], ids=["python", "java"]
)
async def test_the_check_of_the_host_name_can_be_switched_off(files: Files, option: dict[str, Any]) -> None:
    async with peer(ANSWERS, ssl_context=files.server("elsewhere")) as broker:
        await connect(broker.port, ssl_cafile=files["ca.pem"], **option)
        # The authority is still verified.
        with pytest.raises(AuthenticationError, match="authority"):
            await connect(broker.port, ssl_cafile=files["other-ca.pem"], **option)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_the_name_that_is_asked_for_is_the_advertised_host(files: Files, host: str) -> None:
    """Proxies that serve several brokers choose by it (SNI). An address is no name, and is not sent."""
    asked: list[str | None] = []
    context = files.server()
    context.sni_callback = lambda _, name, __: asked.append(name)
    async with peer(ANSWERS, ssl_context=context) as broker:
        await connect(broker.port, host, ssl_cafile=files["ca.pem"])
    assert asked == [host if host == "localhost" else None]


async def test_the_name_stays_the_advertised_host_when_the_address_is_another(files: Files) -> None:
    asked: list[str | None] = []
    context = files.server("elsewhere")
    context.sni_callback = lambda _, name, __: asked.append(name)
    async with peer(ANSWERS, ssl_context=context) as broker:
        address = ("127.0.0.1", broker.port)
        await connect(9092, "elsewhere.example.org", ssl_cafile=files["ca.pem"], address_map=lambda host, port: address)
    assert asked == ["elsewhere.example.org"]


@pytest.mark.parametrize("host", ["localhost.", "LOCALHOST", "127.0.0.1"])
async def test_a_host_that_the_certificate_names_otherwise_written(files: Files, host: str) -> None:
    """The dot that ends a name is for resolvers (RFC 6066): it is neither sent nor verified."""
    asked: list[str | None] = []
    context = files.server()
    context.sni_callback = lambda _, name, __: asked.append(name)
    async with peer(ANSWERS, ssl_context=context) as broker:
        address = ("127.0.0.1", broker.port)
        await connect(9092, host, ssl_cafile=files["ca.pem"], address_map=lambda host, port: address)
    assert asked == [None if host == "127.0.0.1" else host.removesuffix(".")]


NO_NAMES: dict[str, tuple[str, Any, str]] = {
    "too long": ("a" * 64, None, "is no host name that TLS could verify"),
    "an empty label": ("a..b", None, "is no host name that TLS could verify"),
    "a zone alone": ("%lo", None, "'%lo' is no host name that TLS could verify"),
    "a zero byte": ("a\0b", None, "is no host name that TLS could verify"),
    "empty": ("a", lambda host, port: "", r"ssl_server_hostname\('a', 9092\) returned '': not a host name"),
    "none": ("a", lambda host, port: None, "returned None: not a host name"),
    "an error": ("a", lambda host, port: 1 / 0, "raised ZeroDivisionError"),
}


@pytest.mark.parametrize("name", NO_NAMES)
async def test_without_a_name_to_verify_there_is_no_connection(files: Files, name: str) -> None:
    """asyncio would verify no name at all if it got an empty one."""
    host, function, text = NO_NAMES[name]
    async with peer(ANSWERS, ssl_context=files.server("elsewhere")) as broker:
        address = ("127.0.0.1", broker.port)
        options = {"address_map": lambda host, port: address, "ssl_server_hostname": function}
        with pytest.raises(BrokerConnectionError, match=text):
            await connect(9092, host, ssl_cafile=files["ca.pem"], **options)
        assert broker.connections == 0


async def test_the_server_name_can_come_from_an_async_function(files: Files) -> None:
    async def name(host: str, port: int) -> str:
        await asyncio.sleep(0)
        return "localhost"

    async with peer(ANSWERS, ssl_context=files.server()) as broker:
        address = ("127.0.0.1", broker.port)
        options = {"address_map": lambda host, port: address, "ssl_server_hostname": name}
        await connect(9092, "kafka", ssl_cafile=files["ca.pem"], **options)


async def test_cancelling_when_the_handshake_is_complete_leaves_no_socket_behind(files: Files) -> None:
    """The next socket gets the number of the closed one: an event loop that still read from that would refuse it."""
    opening: asyncio.Future[Any] | None = None

    class Cancelled(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            assert opening is not None
            opening.cancel()

    async with peer(ANSWERS, ssl_context=files.server()) as broker:
        config = ClusterConfig.parse(
            {"bootstrap_servers": broker.address, "security_protocol": "SSL", "ssl_cafile": files["ca.pem"]}
        )
        later = asyncio.get_running_loop().time() + LONG_TIMEOUT
        made = Cancelled("b", config)
        opening = asyncio.ensure_future(dial(lambda: made, "127.0.0.1", broker.port, config, deadline=later, peer="b"))
        with pytest.raises(asyncio.CancelledError):
            await opening
        await connect(broker.port, ssl_cafile=files["ca.pem"])
        await made.wait_closed()


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail.example.org ESMTP\r\n", b"SSH-2.0-x\r\n"]
)
async def test_a_listener_of_something_else(files: Files, reply: bytes) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(reply)
        await writer.drain()

    async with raw_peer(other) as port:
        with pytest.raises(NotKafkaError, match=r"does not speak TLS .*security_protocol='PLAINTEXT'"):
            await connect(port, ssl_cafile=files["ca.pem"])


async def test_a_listener_that_closes_during_the_handshake(files: Files) -> None:
    """As plain listeners of Kafka do: what TLS begins with looks to them like a request of half a gigabyte."""

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)

    async with raw_peer(plain) as port:
        with pytest.raises(BrokerConnectionError, match=r"in the TLS handshake: .*security_protocol='PLAINTEXT'"):
            await connect(port, ssl_cafile=files["ca.pem"])


async def test_versions_of_tls_that_only_one_side_has(files: Files) -> None:
    old = files.server()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with peer(ANSWERS, ssl_context=old) as broker:
        with pytest.raises(AuthenticationError, match="no version of TLS in common"):
            await connect(broker.port, ssl_cafile=files["ca.pem"], ssl_enabled_protocols="TLSv1.3")


async def test_a_server_with_old_versions_of_tls_only(files: Files) -> None:
    """TLS 1.0 in its answer, as a server that has no other would send it; OpenSSL here may not offer that any more."""

    async def ancient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        hello = b"\x03\x01" + bytes(32) + b"\0" + b"\x00\x2f" + b"\0"
        message = b"\x02" + len(hello).to_bytes(3, "big") + hello
        writer.write(b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message)
        await writer.drain()
        await reader.read()

    async with raw_peer(ancient) as port:
        with pytest.raises(AuthenticationError, match=r"only versions of TLS that are older .* TLS 1\.2"):
            await connect(port, ssl_cafile=files["ca.pem"])


async def test_a_broker_that_requires_a_certificate_is_asked_once(files: Files) -> None:
    """Its refusal is not taken for a broker that is too old for ApiVersions, which would be dialled three times."""
    accepted = 0

    async def mutual(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.read(2000)
        # The alert certificate_required, unencrypted: enough for a client that has not finished.
        writer.write(b"\x15\x03\x03\x00\x02\x02\x28")
        await writer.drain()

    async with raw_peer(mutual) as port:
        with pytest.raises(AuthenticationError, match=r"ssl_ciphers.*ssl_certfile"):
            await connect(port, ssl_cafile=files["ca.pem"])
    assert accepted == 1


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", AuthenticationError, "set ssl_certfile, or ssl_keystore_location"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", AuthenticationError, "requires a client certificate, or does not accept"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", AuthenticationError, "has expired: renew it"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", AuthenticationError, "was revoked"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", AuthenticationError, "the broker's log has the reason"),
        ("SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", AuthenticationError, "clientAuth"),
        ("TLSV1_ALERT_UNKNOWN_CA", AuthenticationError, "add that to the broker's truststore"),
        ("TLSV1_ALERT_ACCESS_DENIED", AuthenticationError, "does not allow access"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", AuthenticationError, "no cipher in common"),
        ("TLSV1_ALERT_INSUFFICIENT_SECURITY", AuthenticationError, "stronger ciphers"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", AuthenticationError, "ssl_enabled_protocols"),
        ("UNSUPPORTED_PROTOCOL", AuthenticationError, "older than this client accepts"),
        ("DH_KEY_TOO_SMALL", AuthenticationError, "Diffie-Hellman"),
        # A broker may send these for problems of its own: the client goes on trying.
        ("TLSV1_ALERT_INTERNAL_ERROR", BrokerConnectionError, "TLSV1_ALERT_INTERNAL_ERROR"),
        ("TLSV1_ALERT_USER_CANCELLED", BrokerConnectionError, "TLSV1_ALERT_USER_CANCELLED"),
        ("UNEXPECTED_EOF_WHILE_READING", BrokerConnectionError, "a listener without TLS does that"),
        ("WRONG_VERSION_NUMBER", NotKafkaError, "does not speak TLS"),
    ],
)
def test_what_openssl_says_and_what_to_do(reason: str, kind: type[BrokerConnectionError], text: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    made = tls_error("b:1", error)
    assert type(made) is kind
    assert "b:1" in str(made)
    assert text in str(made)
    # After the handshake only alerts about certificates and access count; all else is a lost connection.
    late = refusal("b:1", error)
    assert (late is not None) == ("ALERT" in reason and kind is AuthenticationError)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (66, "its security level"),
        (68, "its security level"),
        (79, "CA:TRUE"),
        (85, "VERIFY_X509_STRICT, as those of ssl.create_default_context"),
        (92, "VERIFY_X509_STRICT"),
    ],
)
def test_why_openssl_rejects_a_certificate_and_what_to_do(code: int, text: str) -> None:
    error = ssl.SSLCertVerificationError(1, "")
    error.verify_code, error.verify_message = code, "OpenSSL's words"
    assert "the certificate of b:1 was rejected: OpenSSL's words: " in str(tls_error("b:1", error))
    assert text in str(tls_error("b:1", error))
    assert "proxy_ssl_context" in str(tls_error("b:1", error, PROXY))


def test_a_lost_connection_is_no_refusal() -> None:
    assert refusal("b:1", None) is None
    assert refusal("b:1", ConnectionResetError()) is None
