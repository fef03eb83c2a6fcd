"""The options of a client's connections to its cluster: names, defaults, and what they become.

Names are the Java client's in snake_case. Durations are milliseconds in options, as everywhere in Kafka, and float
seconds in :class:`ClusterConfig` and all code behind it.
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
"""From a broker's host and port to the address to connect to."""

Dialer = Callable[[str, int], Awaitable[socket.socket]]
"""From host and port to a connected socket."""

HostnameMap = Callable[[str, int], "str | Awaitable[str]"]
"""From a broker's host and port to a host name."""

DEFAULT_PORT = 9092
MAX_PORT = 65535

TLS_IN_TLS = sys.version_info >= (3, 11)
"""Whether event loops can set up TLS in a connection that already has TLS."""

DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ConnectionOptions(SaslOptions, total=False):
    """Options common to every client."""

    bootstrap_servers: Required[str | Sequence[str]]
    """``"host:port,host:port"`` or a list of such strings; IPv6 as ``[::1]:9092``; the default port is 9092. A few
    brokers are enough: the client finds the others through them."""
    client_id: str
    """Name of this client in the brokers' logs, quotas and metrics. Default ``"aiokproto"``."""
    request_timeout_ms: float
    """Longest wait for the response to one request, counted from when it is sent. Default 30,000."""
    default_api_timeout_ms: float
    """Longest time for a call that may need several requests and retries. Default 60,000."""
    bootstrap_resolve_timeout_ms: float
    """How long ``start()`` retries the bootstrap addresses while none can be resolved or reached. Each attempt may take
    ``socket_connection_setup_timeout_ms``, also beyond this time. A peer that is not Kafka, or that rejects the
    client's certificate, is an error at once. 0: try each address once. Default 10,000."""
    socket_connection_setup_timeout_ms: float
    """Longest time to set up a connection, including the TLS handshake and ApiVersions. Default 10,000."""
    metadata_max_age_ms: float
    """Age at which cluster metadata is refreshed even without an error that requires it. Default 300,000."""
    metadata_max_idle_ms: float
    """Time without use after which a topic is left out of metadata refreshes. Subscribed and assigned topics always
    stay; of a pattern's topics those that exist. Default 300,000."""
    retry_backoff_ms: float
    """Wait before the first retry; doubles with each further one, with jitter. Default 100."""
    retry_backoff_max_ms: float
    """Longest wait between retries. Default 1,000."""
    reconnect_backoff_ms: float
    """Wait before the client connects again to a broker that could not be reached; doubles, with jitter. Default 50."""
    reconnect_backoff_max_ms: float
    """Longest such wait. Default 1,000."""
    connections_max_idle_ms: float
    """Time after which the client closes an idle connection. Default 540,000: less than the brokers' 600,000."""
    max_response_size: int
    """Largest response in bytes; the connection to a broker that announces more is closed. Default 128 MiB: well above
    ``fetch_max_bytes``, because a broker returns at least one whole batch, however large."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """``"PLAINTEXT"`` (the default), or with TLS (``SSL``), with authentication (``SASL``), or with both."""
    ssl_context: ssl.SSLContext | None
    """Certificates and checks for TLS, instead of the other options that begin with ``ssl``. Without any of them the
    system's certificate authorities are trusted, and the host name is verified."""
    ssl_cafile: str | Path | None
    """A PEM file with the certificate authorities to trust, instead of the system's. This and all other files of TLS
    are read again for new connections when they change."""
    ssl_certfile: str | Path | None
    """A PEM file with the client's certificate, and the intermediate ones behind it. It has the private key too, if
    ``ssl_keyfile`` is not given."""
    ssl_keyfile: str | Path | None
    """A PEM file with the private key of ``ssl_certfile``."""
    ssl_password: SecretSource | None
    """Password of the private key in ``ssl_keyfile`` or ``ssl_certfile``. This and all other passwords of TLS can be a
    file or a function, as ``sasl_password``."""
    ssl_crlfile: str | Path | None
    """A PEM file with revocation lists (CRL): brokers whose certificate is in them are rejected. There must be a list
    of the authority that signed the brokers' certificates."""
    ssl_crl_check_chain: bool | None
    """Whether the certificates of authorities in between must not be in ``ssl_crlfile`` either. There must be a list of
    each authority then. ``None`` (the default) is False."""
    ssl_check_hostname: bool | None
    """Whether the broker's certificate must name the host that the broker advertises, which by default it must. With
    ``False`` whoever has any certificate of a trusted authority can play the broker; a warning says so. Only subject
    alternative names count, not the subject's common name."""
    ssl_ciphers: str | None
    """Ciphers for TLS 1.2, in OpenSSL's form: ``"ECDHE+AESGCM"``. All ciphers of TLS 1.3 are enabled. Ciphers without
    authentication or encryption, which ``ALL`` has, are always excluded."""
    ssl_truststore_location: str | Path | None
    """A file with the certificate authorities to trust, in any format that Java reads: PEM, PKCS#12 (which needs
    ``aiokproto[tls]``), JKS or JCEKS."""
    ssl_truststore_type: str | None
    """The format of the truststore: ``"PEM"``, ``"PKCS12"``, ``"JKS"`` or ``"JCEKS"``. By default the content says
    it."""
    ssl_truststore_password: SecretSource | None
    """Password of the truststore. JKS and JCEKS are read without one, but then not checked for changes."""
    ssl_truststore_certificates: SecretSource | None
    """The certificate authorities to trust as PEM text."""
    ssl_keystore_location: str | Path | None
    """A file with the client's private key and certificates, as ``ssl_truststore_location``. It has one private
    key."""
    ssl_keystore_type: str | None
    """The format of the keystore, as ``ssl_truststore_type``."""
    ssl_keystore_password: SecretSource | None
    """Password of the keystore. PEM has none."""
    ssl_keystore_key: SecretSource | None
    """The client's private key as PEM text. A :class:`~pathlib.Path` is a file that has it."""
    ssl_keystore_certificate_chain: SecretSource | None
    """The certificates of ``ssl_keystore_key`` as PEM text, the client's own first."""
    ssl_key_password: SecretSource | None
    """Password of the private key in the keystore or in ``ssl_keystore_key``. By default the keystore's."""
    ssl_endpoint_identification_algorithm: str | None
    """``"https"`` to verify the host name, which is the default, or ``""`` for no check: Java's name for
    ``ssl_check_hostname``."""
    ssl_enabled_protocols: str | Sequence[str] | None
    """Versions of TLS, separated by commas or as a list: ``"TLSv1.2,TLSv1.3"``, which is the default."""
    ssl_cipher_suites: str | Sequence[str] | None
    """Cipher suites by their IANA names, as in Java: ``"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"``. Of TLS 1.3 all suites
    are named, or none, which excludes that version."""
    metadata_cluster_check_enable: bool
    """Whether brokers since 4.4 check that a connection has reached the broker and cluster that the metadata names
    (KIP-1242). Default ``True``."""
    client_rack: str
    """The rack of this client, as in ``broker.rack``: consumers can fetch from a closer replica (KIP-392), the leader
    of a group can assign partitions with a replica there (KIP-881), producers can write to closer leaders (KIP-1123).
    ``""`` (the default) is none."""
    broker_version: Literal["0.8.2", "0.9"] | None
    """The release of brokers before 0.10, which do not tell their versions. ``None`` (the default) asks: brokers of
    0.10 and later answer, and the older ones are recognized by requests that they answer, and others on which they
    close the connection or are silent. With a release no broker is asked."""
    address_map: AddressMap | None
    """Function, async or not, that is called with host and port before each connection, and returns the address to
    connect to. For port forwarding and tunnels. TLS still verifies the host that the broker advertises."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """How host names become addresses. All addresses of a name are tried in either case (KIP-302). With
    ``"resolve_canonical_bootstrap_servers_only"`` each address of a bootstrap server is used by its canonical name,
    which Kerberos or TLS may need for an alias of several brokers (KIP-235). TLS then verifies the name that DNS has
    for the address, so whoever answers for DNS can play a broker; a warning says so. Default ``"use_all_dns_ips"``."""
    proxy_url: str | None
    """Proxy for all connections: ``socks5://host:port`` (the client resolves the brokers' names), ``socks5h://…`` (the
    proxy does), ``http://…`` or ``https://…`` (CONNECT; the proxy resolves names), with ``user:password@`` before the
    host where it wants credentials. ``None`` (the default) is none."""
    no_proxy: str | Sequence[str] | None
    """Hosts that are reached without the proxy, separated by commas or as a list: names, with all names below them
    (``.internal``), addresses, networks (``10.0.0.0/8``), or ``*``. ``None`` (the default) is none."""
    proxy_ssl_context: ssl.SSLContext | None
    """Certificates and checks for TLS to an ``https://`` proxy. By default the system's certificate authorities, with
    the host name verified."""
    dialer: Dialer | None
    """Async function of host and port that returns a connected ``socket.socket``, for ways of your own: an SSH tunnel,
    a Unix socket. It is called for each connection, after ``address_map``; TLS is set up on its socket. ``None`` (the
    default) is none."""
    ssl_server_hostname: str | HostnameMap | None
    """Host name that TLS sends (SNI) and verifies in place of the one that the broker advertises: a name for all, or a
    function of host and port, async or not, that returns it. ``None`` (the default) is none."""
    hooks: Hooks | Sequence[Hooks] | None
    """Called about what happens in the client: connections, requests, batches, rebalances. ``None`` (the default) is
    none."""
    interceptors: Interceptor | Sequence[Interceptor] | None
    """Called for each record that is sent or delivered, and may change it. ``None`` (the default) is none."""
    enable_metrics_push: bool
    """Whether the client sends metrics about itself to the brokers, if these subscribe to any (KIP-714). Default
    ``True``."""
    application_metrics: MetricsFunction | None
    """Function that returns metrics of your application, as an iterable of :class:`~aiokproto.metrics.Metric`. The
    client sends those to which brokers subscribe together with its own (KIP-1076). It is called in the event loop
    before each push and must return soon; its errors are logged and have no other effect. ``None`` (the default) is
    none."""


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
    """None: plain text."""
    sasl: SaslMechanism | None = field(default=None, repr=False)
    """None: no authentication by SASL."""
    cluster_check: bool = True
    client_rack: str = ""
    broker_version: str | None = None
    address_map: AddressMap | None = None
    canonical_bootstrap: bool = False
    """Whether bootstrap addresses are replaced by the canonical names of their hosts."""
    proxy: Proxy | None = None
    dialer: Dialer | None = None
    server_hostname: HostnameMap | None = None
    """None: the host that the broker advertises."""
    hooks: HookCalls = NO_HOOKS
    interceptors: Interceptors = NO_INTERCEPTORS
    metrics_push: bool = True
    application_metrics: ApplicationMetrics = NO_APPLICATION_METRICS

    @property
    def principal(self) -> str:
        """Who this client is, as ACLs name it, ``"User:alice"``; empty if only the brokers know.

        With TLS and OAUTHBEARER it is known from the first connection on. Brokers can have rules that make another name
        of a certificate's subject (``ssl.principal.mapping.rules``), or take another claim of a token.
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
            own: The names of the caller's further options, to suggest one of them for a misspelt name too.

        Raises:
            ConfigurationError: An option is unknown (the error names the nearest known one), missing, or has a value
                that is not accepted.
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
        # Pass only the given options: the defaults stand in the dataclass alone.
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
    """Check that the protocol has what options of TLS and SASL are about, and advise the one that has all of it.

    Raises:
        ConfigurationError: It has not, or ``ssl_context`` is none.
    """
    # Import it here: mechanisms use the event loop, and modules without one read options too.
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
    # Without TLS a password can be read on the way, so SASL_PLAINTEXT is never the first advice.
    plain = "" if tls or protocol == "SSL" else ", or without TLS to 'SASL_PLAINTEXT'"
    given = f"{' and '.join(without_effect)} {'is' if len(without_effect) == 1 else 'are'} given"
    raise ConfigurationError(f"{given}, but security_protocol is {protocol!r}: set it to {secure!r}{plain}")


def _tls(protocol: str, options: Mapping[str, Any]) -> TlsContexts | None:
    # Import it here: modules without an event loop read options too.
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
    # Import it here: mechanisms use the event loop, and modules without one read options too.
    from aiokproto.security.options import parse_mechanism

    return parse_mechanism(options) if protocol.startswith("SASL") else None


def parse_addresses(name: str, value: object) -> tuple[Address, ...]:
    """Parse ``"host:port,[::1]:9092"``, or a list of such strings.

    Raises:
        ConfigurationError: There is no address, or one is invalid; the error names it.
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
    # Keep each once, in the given order.
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
