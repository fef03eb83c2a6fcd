"""The options of a client's connections to its cluster: names, defaults, and what they are converted to.

Names are the Java client's in snake_case. Durations are milliseconds in options, as everywhere in Kafka, and float
seconds in :class:`ClusterConfig` and all code that uses it.
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from aiokproto.config.proxy import Proxy, parse_proxy, without_credentials
from aiokproto.config.values import boolean, duration, function, integer, one_of, seconds, text, unknown_options
from aiokproto.errors import ConfigurationError
from aiokproto.hooks import NO_HOOKS, HookCalls, Hooks, parse_hooks
from aiokproto.interceptors import NO_INTERCEPTORS, Interceptor, Interceptors, parse_interceptors
from aiokproto.metrics import (
    NO_APPLICATION_METRICS,
    ApplicationMetrics,
    MetricsFunction,
    parse_application_metrics,
)
from aiokproto.security.mechanism import SaslMechanism
from aiokproto.security.option_types import SaslOptions
from aiokproto.security.secret import SecretSource
from aiokproto.security.tls.options import TLS_OPTIONS, parse_tls
from aiokproto.texts import is_unicode

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Required

    from aiokproto.security.tls.contexts import TlsContexts

Address = tuple[str, int]
"""Host and port."""

AddressMap = Callable[[str, int], "Address | Awaitable[Address]"]
"""Maps a broker's host and port to the address to connect to."""

Dialer = Callable[[str, int], Awaitable[socket.socket]]
"""Returns a socket that is connected to a host and port."""

HostnameMap = Callable[[str, int], "str | Awaitable[str]"]
"""Maps a broker's host and port to a host name."""

DEFAULT_PORT = 9092
MAX_PORT = 65535

TLS_IN_TLS = sys.version_info >= (3, 11)
"""Whether event loops can set up TLS inside a TLS connection."""

DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ConnectionOptions(SaslOptions, total=False):
    """Options common to every client."""

    bootstrap_servers: Required[str | Sequence[str]]
    """``"host:port,host:port"`` or a list of such strings; IPv6 as ``[::1]:9092``; the default port is 9092. A few
    brokers are enough: the client finds the rest of the cluster through them."""
    client_id: str
    """Name of this client in the brokers' logs, quotas and metrics. Default ``"aiokproto"``."""
    request_timeout_ms: float
    """Maximum wait for the response to one request, counted from when it is sent. Default 30,000."""
    default_api_timeout_ms: float
    """Maximum time for a call that may need several requests and retries. Default 60,000."""
    bootstrap_resolve_timeout_ms: float
    """How long ``start()`` retries the bootstrap addresses while none can be resolved or reached. Each attempt may take
    ``socket_connection_setup_timeout_ms``, even beyond this time. A peer that is not Kafka, or that rejects the
    client's certificate, raises an error at once. With 0, each address is tried once. Default 10,000."""
    socket_connection_setup_timeout_ms: float
    """Maximum time to set up a connection, including the TLS handshake and ApiVersions. Default 10,000."""
    metadata_max_age_ms: float
    """Age at which cluster metadata is refreshed even if no error requires that. Default 300,000."""
    metadata_max_idle_ms: float
    """Time without use after which a topic is left out of metadata refreshes. Subscribed and assigned topics always
    stay, and topics that match a pattern stay while they exist. Default 300,000."""
    retry_backoff_ms: float
    """Wait before the first retry; doubles with each retry, with jitter. Default 100."""
    retry_backoff_max_ms: float
    """Maximum wait between retries. Default 1,000."""
    reconnect_backoff_ms: float
    """Wait before the client connects again to a broker that could not be reached; doubles, with jitter. Default 50."""
    reconnect_backoff_max_ms: float
    """Maximum wait before the client connects again. Default 1,000."""
    connections_max_idle_ms: float
    """Time after which the client closes an idle connection. Default 540,000: less than the brokers' 600,000."""
    max_response_size: int
    """Maximum size of a response in bytes. If a broker announces a larger one, the connection is closed. Default 128
    MiB: well above ``fetch_max_bytes``, because a broker returns at least one whole batch, however large."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """``"PLAINTEXT"`` (the default); the other values add TLS (``SSL``), authentication (``SASL``), or both."""
    ssl_context: ssl.SSLContext | None
    """Certificates and checks for TLS, instead of the other options that start with ``ssl``. If none of them is given,
    the system's certificate authorities are trusted, and the host name is verified."""
    ssl_cafile: str | Path | None
    """A PEM file with the certificate authorities to trust, instead of the system's. If this or any other TLS file
    changes, it is read again for new connections."""
    ssl_certfile: str | Path | None
    """A PEM file with the client's certificate, followed by any intermediate certificates. It also contains the private
    key, if ``ssl_keyfile`` is not given."""
    ssl_keyfile: str | Path | None
    """A PEM file with the private key of ``ssl_certfile``."""
    ssl_password: SecretSource | None
    """Password of the private key in ``ssl_keyfile`` or ``ssl_certfile``. Like ``sasl_password``, this and all other
    TLS passwords can be a file or a function."""
    ssl_crlfile: str | Path | None
    """A PEM file with revocation lists (CRL): brokers whose certificate is listed are rejected. The file must include
    the list of the authority that signed the brokers' certificates."""
    ssl_crl_check_chain: bool | None
    """Whether to also reject brokers if an intermediate authority's certificate is listed in ``ssl_crlfile``. If so,
    the file must include a list of each authority. ``None`` (the default) is False."""
    ssl_check_hostname: bool | None
    """Whether the broker's certificate must name the host that the broker advertises, which by default it must. With
    ``False``, anyone with any certificate of a trusted authority can impersonate the broker, and the client logs a
    warning. Only subject alternative names count, not the subject's common name."""
    ssl_ciphers: str | None
    """Ciphers for TLS 1.2, in OpenSSL's format: ``"ECDHE+AESGCM"``. All ciphers of TLS 1.3 are enabled. Ciphers without
    authentication or encryption, which ``ALL`` includes, are always excluded."""
    ssl_truststore_location: str | Path | None
    """A file with the certificate authorities to trust, in any format that Java reads: PEM, PKCS#12 (which needs
    ``aiokproto[tls]``), JKS or JCEKS."""
    ssl_truststore_type: str | None
    """The format of the truststore: ``"PEM"``, ``"PKCS12"``, ``"JKS"`` or ``"JCEKS"``. By default it's detected from
    the content."""
    ssl_truststore_password: SecretSource | None
    """Password of the truststore. JKS and JCEKS can be read without it, but then their integrity isn't checked."""
    ssl_truststore_certificates: SecretSource | None
    """The certificate authorities to trust, as PEM text."""
    ssl_keystore_location: str | Path | None
    """A file with the client's private key and certificates, in the same formats as ``ssl_truststore_location``. It
    must contain exactly one private key."""
    ssl_keystore_type: str | None
    """The format of the keystore, like ``ssl_truststore_type``."""
    ssl_keystore_password: SecretSource | None
    """Password of the keystore. PEM files have none."""
    ssl_keystore_key: SecretSource | None
    """The client's private key as PEM text, or a :class:`~pathlib.Path` of a file that contains it."""
    ssl_keystore_certificate_chain: SecretSource | None
    """The certificates of ``ssl_keystore_key`` as PEM text, the client's own first."""
    ssl_key_password: SecretSource | None
    """Password of the private key in the keystore or in ``ssl_keystore_key``. By default the keystore's password."""
    ssl_endpoint_identification_algorithm: str | None
    """Java's name for ``ssl_check_hostname``: ``"https"`` to verify the host name, which is the default, or ``""`` for
    no check."""
    ssl_enabled_protocols: str | Sequence[str] | None
    """Versions of TLS, separated by commas or as a list: ``"TLSv1.2,TLSv1.3"``, which is the default."""
    ssl_cipher_suites: str | Sequence[str] | None
    """Cipher suites by their IANA names, as in Java: ``"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"``. List either all TLS
    1.3 suites, or none of them, which excludes that version."""
    metadata_cluster_check_enable: bool
    """Whether brokers since 4.4 check that a connection has reached the broker and cluster that the metadata says it
    should (KIP-1242). Default ``True``."""
    client_rack: str
    """The rack of this client, as in ``broker.rack``: consumers can fetch from a closer replica (KIP-392), the leader
    of a group can assign partitions with a replica there (KIP-881), producers can write to closer leaders (KIP-1123).
    ``""`` (the default) for no rack."""
    broker_version: Literal["0.8.2", "0.9"] | None
    """The release of the brokers, if it's older than 0.10, since such brokers cannot report their API versions. With
    ``None`` (the default) the client requests each broker's versions. Brokers before 0.10 don't answer that, and are
    recognized by which requests they answer, ignore, or close the connection on. With a release, versions aren't
    requested."""
    address_map: AddressMap | None
    """Function, async or not, that is called with host and port before each connection and returns the address to
    connect to. Useful for port forwarding and tunnels. TLS still verifies the host that the broker advertises."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """How host names are resolved. In either case, all addresses of a name are tried (KIP-302). With
    ``"resolve_canonical_bootstrap_servers_only"``, each address of a bootstrap server is replaced by its canonical
    name, which Kerberos or TLS may need if the server is an alias for several brokers (KIP-235). TLS then verifies the
    name that DNS returns for the address, so anyone who controls DNS can impersonate a broker, and the client logs a
    warning. Default ``"use_all_dns_ips"``."""
    proxy_url: str | None
    """Proxy for all connections: ``socks5://host:port`` (the client resolves the brokers' names), ``socks5h://…`` (the
    proxy does), ``http://…`` or ``https://…`` (CONNECT; the proxy resolves names), with ``user:password@`` before the
    host if the proxy requires credentials. ``None`` (the default) for no proxy."""
    no_proxy: str | Sequence[str] | None
    """Hosts that are reached without the proxy, separated by commas or as a list: names, with all names below them
    (``.internal``), addresses, networks (``10.0.0.0/8``), or ``*``. ``None`` (the default) for no exceptions."""
    proxy_ssl_context: ssl.SSLContext | None
    """Certificates and checks for TLS to an ``https://`` proxy. By default the system's certificate authorities are
    trusted, and the host name is verified."""
    dialer: Dialer | None
    """Async function that takes host and port and returns a connected ``socket.socket``, for custom transports such as
    an SSH tunnel or a Unix socket. It is called for each connection, after ``address_map``; TLS is set up on its
    socket. ``None`` (the default) to connect normally."""
    ssl_server_hostname: str | HostnameMap | None
    """Host name that TLS sends (SNI) and verifies instead of the one that the broker advertises: one name for all
    brokers, or a function of host and port, async or not, that returns it. ``None`` (the default) for the advertised
    name."""
    hooks: Hooks | Sequence[Hooks] | None
    """Objects that are notified of what happens in the client: connections, requests, batches, rebalances. ``None``
    (the default) for no hooks."""
    interceptors: Interceptor | Sequence[Interceptor] | None
    """Objects that are called for each record sent or delivered, and may change it. ``None`` (the default) for no
    interceptors."""
    enable_metrics_push: bool
    """Whether the client sends metrics about itself to the brokers, if they subscribe to any (KIP-714). Default
    ``True``."""
    application_metrics: MetricsFunction | None
    """Function that returns metrics of your application, as an iterable of :class:`~aiokproto.metrics.Metric`. The
    client sends the ones that brokers subscribe to along with its own (KIP-1076). The function is called in the event
    loop before each push and must return quickly; its errors are only logged. ``None`` (the default) for no application
    metrics."""


@dataclass(frozen=True)
class ClusterConfig:
    """:class:`ConnectionOptions`, validated; durations in seconds."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "aiokproto"
    request_timeout: float = 30.0
    api_timeout: float = 60.0
    bootstrap_timeout: float = 10.0
    connect_timeout: float = 10.0
    metadata_max_age: float = 300.0
    metadata_max_idle: float = 300.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0
    reconnect_backoff: float = 0.05
    reconnect_backoff_max: float = 1.0
    connections_max_idle: float = 540.0
    max_response_size: int = 128 * 1024 * 1024
    tls: TlsContexts | None = None
    """None for plain text."""
    sasl: SaslMechanism | None = field(default=None, repr=False)
    """None for no SASL authentication."""
    cluster_check: bool = True
    client_rack: str = ""
    broker_version: str | None = None
    address_map: AddressMap | None = None
    canonical_bootstrap: bool = False
    """Whether the hosts in bootstrap addresses are replaced by their canonical names."""
    proxy: Proxy | None = None
    dialer: Dialer | None = None
    server_hostname: HostnameMap | None = None
    """None for the host that the broker advertises."""
    hooks: HookCalls = NO_HOOKS
    interceptors: Interceptors = NO_INTERCEPTORS
    metrics_push: bool = True
    application_metrics: ApplicationMetrics = NO_APPLICATION_METRICS

    @property
    def principal(self) -> str:
        """The client's principal, as in ACLs: ``"User:alice"``. Empty if only the brokers know it.

        With TLS or OAUTHBEARER it is known after the first connection. Brokers may derive a different name, if they
        have rules for a certificate's subject (``ssl.principal.mapping.rules``) or use another claim of a token.
        """
        if self.sasl is not None:
            user = getattr(self.sasl, "user", None)
        else:
            subject = "" if self.tls is None else self.tls.subject
            user = _ANONYMOUS if subject == "" else subject
        return f"User:{user}" if isinstance(user, str) and user else ""

    @classmethod
    def parse(cls, options: ConnectionOptions | Mapping[str, Any], own: Iterable[str] = ()) -> ClusterConfig:
        """Validate options.

        Args:
            options: Options by name.
            own: The names of the caller's additional options, which are also suggested for misspelt names.

        Raises:
            ConfigurationError: An option is unknown (the error suggests the closest name), missing, or has an invalid
                value.
        """
        known = ConnectionOptions.__annotations__
        unknown = [name for name in options if name not in known]
        if unknown:
            raise unknown_options(unknown, (*own, *known))
        if "bootstrap_servers" not in options:
            raise ConfigurationError("bootstrap_servers is missing: one or more brokers as 'host:port'")
        servers = parse_addresses("bootstrap_servers", options["bootstrap_servers"])
        given: dict[str, Any] = {"bootstrap_servers": servers}
        for name, (attribute, check) in _CHECKS.items():
            if name in options:
                given[attribute] = check(name, options[name])  # type: ignore[literal-required,unused-ignore]
        protocol = one_of("security_protocol", options.get("security_protocol", "PLAINTEXT"), SECURITY_PROTOCOLS)
        _check_security(protocol, options)
        given["tls"] = _tls(protocol, options)
        given["sasl"] = _sasl(protocol, options)
        given["proxy"] = _proxy(options)
        # Pass only the given options: the defaults are defined only in the dataclass.
        config = cls(**given)
        _check_order("retry_backoff_max_ms", config.retry_backoff_max, "retry_backoff_ms", config.retry_backoff)
        _check_order(
            "reconnect_backoff_max_ms", config.reconnect_backoff_max, "reconnect_backoff_ms", config.reconnect_backoff
        )
        return config


_ANONYMOUS = "ANONYMOUS"
"""The principal of a client that has neither SASL nor a certificate."""


def _check_order(name: str, value: float, other: str, smaller: float) -> None:
    if value < smaller:
        raise ConfigurationError(f"{name}={value * 1000:g} is less than {other}={smaller * 1000:g}")


_TLS = ("ssl_context", *TLS_OPTIONS)


def _given(names: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    return [name for name in names if options.get(name) is not None]


def _check_security(protocol: str, options: Mapping[str, Any]) -> None:
    """Check that the protocol matches the given TLS and SASL options. If not, the error says which protocol does.

    Raises:
        ConfigurationError: It doesn't, or ``ssl_context`` isn't an SSL context.
    """
    # Import it here: mechanisms need asyncio, and options are also parsed by modules that don't.
    from aiokproto.security.options import SASL_OPTIONS

    context = options.get("ssl_context")
    if context is not None and not isinstance(context, ssl.SSLContext):
        raise ConfigurationError(f"ssl_context={context!r}: expected an ssl.SSLContext")
    tls, sasl = _given(_TLS, options), _given(("sasl_mechanism", *sorted(SASL_OPTIONS)), options)
    without_effect = (sasl[:1] if not protocol.startswith("SASL") else []) + (
        tls[:1] if not protocol.endswith("SSL") else []
    )
    if not without_effect:
        return
    secure = "SASL_SSL" if sasl or protocol.startswith("SASL") else "SSL"
    # Without TLS a password can be read in transit, so SASL_PLAINTEXT is never the first suggestion.
    plain = "" if tls or protocol == "SSL" else ", or without TLS to 'SASL_PLAINTEXT'"
    given = f"{' and '.join(without_effect)} {'is' if len(without_effect) == 1 else 'are'} given"
    raise ConfigurationError(f"{given}, but security_protocol is {protocol!r}: set it to {secure!r}{plain}")


def _tls(protocol: str, options: Mapping[str, Any]) -> TlsContexts | None:
    # Import it here: options are also parsed by modules that don't need asyncio.
    from aiokproto.security.tls.contexts import GivenContext, OptionContexts

    if not protocol.endswith("SSL"):
        return None
    given, context = _given(_TLS, options), options.get("ssl_context")
    if context is None:
        return OptionContexts(parse_tls(options))
    if len(given) > 1:
        raise ConfigurationError(f"{given[1]} has no effect: ssl_context is given; set it there")
    return GivenContext(context)


def _proxy(options: Mapping[str, Any]) -> Proxy | None:
    url, context = options.get("proxy_url"), options.get("proxy_ssl_context")
    if url is None:
        for name in ("no_proxy", "proxy_ssl_context"):
            if options.get(name) is not None:
                raise ConfigurationError(f"{name} has no effect without proxy_url")
        return None
    if options.get("dialer") is not None:
        raise ConfigurationError("proxy_url has no effect with dialer, which makes the connections itself")
    if context is not None and not isinstance(context, ssl.SSLContext):
        raise ConfigurationError(f"proxy_ssl_context={context!r}: expected an ssl.SSLContext")
    no_proxy = options.get("no_proxy")
    proxy = parse_proxy(url, "" if no_proxy is None else no_proxy, context)
    if proxy.scheme == "https" and "SSL" in str(options.get("security_protocol", "")).upper() and not TLS_IN_TLS:
        raise ConfigurationError("TLS to brokers through an https:// proxy needs Python 3.11 or later")
    return proxy


def _sasl(protocol: str, options: Mapping[str, Any]) -> SaslMechanism | None:
    # Import it here: mechanisms need asyncio, and options are also parsed by modules that don't.
    from aiokproto.security.options import parse_mechanism

    return parse_mechanism(options) if protocol.startswith("SASL") else None


def parse_addresses(name: str, value: object) -> tuple[Address, ...]:
    """Parse ``"host:port,[::1]:9092"``, or a list of such strings.

    Raises:
        ConfigurationError: There is no address, or one is invalid; the error names the invalid address.
    """
    takes = "expected 'host:port', several separated by commas, or a list"
    if isinstance(value, str):
        items: list[object] = list(value.split(","))
    elif isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        items = list(value)
    else:
        raise ConfigurationError(f"{name}={value!r}: {takes}")
    if not all(isinstance(item, str) for item in items):
        raise ConfigurationError(f"{name}={value!r}: {takes}")
    addresses = [_parse_address(name, str(item).strip()) for item in items if str(item).strip()]
    if not addresses:
        raise ConfigurationError(f"{name}={value!r} has no address: {takes}")
    # Remove duplicates, keeping the order.
    return tuple(dict.fromkeys(addresses))


def _parse_address(name: str, text: str) -> Address:
    if "://" in text:
        shown = without_credentials(text)
        raise ConfigurationError(f"{name}: {shown!r} is a URL: expected 'host:port' (TLS is security_protocol='SSL')")
    if "@" in text:
        shown = without_credentials(text)
        raise ConfigurationError(f"{name}: {shown!r} has an '@': credentials are options of their own (sasl_username)")
    if ";" in text:
        raise ConfigurationError(f"{name}: {text!r} has a semicolon: separate addresses by commas")
    host, colon, port = text, "", ""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigurationError(f"{name}: {text!r} is not an address: IPv6 is written '[::1]:9092'")
        colon, port = rest[:1], rest[1:]
    elif text.count(":") > 1:
        raise ConfigurationError(
            f"{name}: {text!r} has several colons: separate addresses by commas; IPv6 is written '[::1]:9092'"
        )
    else:
        host, colon, port = text.partition(":")
    if not host or any(character.isspace() for character in host):
        raise ConfigurationError(f"{name}: {text!r} has no usable host")
    if not colon:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= MAX_PORT):
        raise ConfigurationError(f"{name}: {text!r} has the port {port!r}: expected 1 to 65535")
    return host, int(port)


def _frame_limit(name: str, value: object) -> int:
    # A frame's length is an int32. Below 64 KiB even an ApiVersions response might not fit.
    return integer(name, value, 1 << 16, (1 << 31) - 1)


def _canonical(name: str, value: object) -> bool:
    return one_of(name, value, DNS_LOOKUPS) != DNS_LOOKUPS[0]


def _server_hostname(name: str, value: object) -> HostnameMap | None:
    if isinstance(value, str) and value:
        return lambda host, port: value
    if value == "" or not (value is None or callable(value)):
        raise ConfigurationError(f"{name}={value!r}: expected a host name, or a function that returns one")
    return cast("HostnameMap | None", value)


def _rack(name: str, value: object) -> str:
    if not isinstance(value, str) or not is_unicode(value) or len(value.encode()) > 0x7FFF:
        raise ConfigurationError(f"{name}={value!r}: expected text of at most 32767 bytes")
    return value


def _broker_version(name: str, value: str | None) -> str | None:
    return None if value is None else one_of(name, value, ("0.8.2", "0.9"))


_CHECKS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "client_id": ("client_id", text),
    "request_timeout_ms": ("request_timeout", duration),
    "default_api_timeout_ms": ("api_timeout", duration),
    "bootstrap_resolve_timeout_ms": ("bootstrap_timeout", seconds),
    "socket_connection_setup_timeout_ms": ("connect_timeout", duration),
    "metadata_max_age_ms": ("metadata_max_age", duration),
    "metadata_max_idle_ms": ("metadata_max_idle", duration),
    "retry_backoff_ms": ("retry_backoff", duration),
    "retry_backoff_max_ms": ("retry_backoff_max", duration),
    "reconnect_backoff_ms": ("reconnect_backoff", duration),
    "reconnect_backoff_max_ms": ("reconnect_backoff_max", duration),
    "connections_max_idle_ms": ("connections_max_idle", duration),
    "max_response_size": ("max_response_size", _frame_limit),
    "metadata_cluster_check_enable": ("cluster_check", boolean),
    "client_rack": ("client_rack", _rack),
    "broker_version": ("broker_version", _broker_version),
    "address_map": ("address_map", function),
    "client_dns_lookup": ("canonical_bootstrap", _canonical),
    "dialer": ("dialer", function),
    "ssl_server_hostname": ("server_hostname", _server_hostname),
    "hooks": ("hooks", parse_hooks),
    "interceptors": ("interceptors", parse_interceptors),
    "enable_metrics_push": ("metrics_push", boolean),
    "application_metrics": ("application_metrics", parse_application_metrics),
}
