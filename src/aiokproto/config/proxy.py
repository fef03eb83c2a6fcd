"""The options of a proxy: its URL, and the hosts that are reached without it (pure)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import unquote, urlsplit

from aiokproto.errors import ConfigurationError
from aiokproto.texts import address

SCHEMES = ("socks5", "socks5h", "http", "https")
"""The protocols of a proxy. With ``socks5`` the client resolves the brokers' names; otherwise the proxy does."""

_EXPECTED = "expected 'socks5://host:port', 'socks5h://…', 'http://…' or 'https://…', 'user:password@' before the host"

# In RFC 1929, each length is one byte.
_MAX_CREDENTIAL_BYTES = 255


@dataclass(frozen=True)
class Proxy:
    """A proxy. Its ``str()`` is the URL without the credentials.

    Attributes:
        scheme: One of :data:`SCHEMES`.
        host: Its host name or address.
        port: Its port.
        username: The user name for Basic authentication (HTTP) or RFC 1929 (SOCKS5), if any.
        password: The password; empty if the URL has none.
        ssl_context: Certificates and checks for TLS to the proxy itself; None unless the scheme is ``https``.
        bypass: The hosts that are reached without the proxy.
    """

    scheme: str
    host: str
    port: int
    username: str | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    bypass: Bypass = field(default_factory=lambda: Bypass(()))

    def __str__(self) -> str:
        return f"{self.scheme}://{address(self.host, self.port)}"


class Bypass:
    """The hosts that are reached without the proxy (``no_proxy``).

    An entry is a host name, which also covers every name below it (``internal`` and ``.internal`` cover
    ``kafka.internal``); an address; a network (``10.0.0.0/8``), which covers only addresses, since names are not
    resolved for this check; or ``*``.

    Raises:
        ConfigurationError: An entry is none of these.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in entries:
            name = entry.strip().lower()
            try:
                self._networks.append(ip_network(name.strip("[]"), strict=False))
            except ValueError:
                if not name or any(character in name for character in "/:@ "):
                    raise ConfigurationError(
                        f"no_proxy: {entry!r} is no host, address or network (as '10.0.0.0/8'), and ports do not count"
                    ) from None
                self._names.add(name.removeprefix("*").strip(".") or "*")

    def __contains__(self, host: str) -> bool:
        if "*" in self._names:
            return True
        try:
            parsed = ip_address(host)
        except ValueError:
            labels = host.lower().rstrip(".").split(".")
            return any(".".join(labels[start:]) in self._names for start in range(len(labels)))
        return any(parsed in network for network in self._networks)


def without_credentials(url: str) -> str:
    """Return a URL, valid or not, without anything that may be credentials, for errors, which get logged.

    Everything before the last "@", except the scheme, may be credentials: a password that isn't quoted can contain any
    character, and a malformed URL can start with the user name.
    """
    scheme = re.match(r"[a-z][a-z0-9+.-]*://|//", url, re.IGNORECASE)
    begin = scheme[0] if scheme else ""
    return begin + re.sub(r".*@", "…@", url.removeprefix(begin), flags=re.DOTALL)


def parse_proxy(url: object, no_proxy: object, ssl_context: ssl.SSLContext | None) -> Proxy:
    """Parse the URL of a proxy, and the exceptions.

    Raises:
        ConfigurationError: The URL, or an entry of ``no_proxy``, is invalid. The message doesn't contain credentials.
    """
    if not isinstance(url, str):
        raise ConfigurationError(f"proxy_url: {_EXPECTED}")
    shown = without_credentials(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"proxy_url={shown!r}: {_EXPECTED}") from None
    scheme, host = parts.scheme.lower(), parts.hostname
    if scheme not in SCHEMES or not host or any(map(str.isspace, host)):
        raise ConfigurationError(f"proxy_url={shown!r}: {_EXPECTED}")
    if not port:
        raise ConfigurationError(f"proxy_url={shown!r} has no port: {_EXPECTED}")
    # Anything after the first "/", "?" or "#" may be the rest of a password that isn't quoted.
    if parts.path.strip("/") or parts.query or parts.fragment or parts.netloc.count("@") > 1:
        raise ConfigurationError(
            "proxy_url has something behind its port: quote the characters '/', '?', '#' and '@' of a password"
            " (urllib.parse.quote)"
        )
    username = None if parts.username is None else unquote(parts.username)
    password = unquote(parts.password or "")
    if any(len(part.encode()) > _MAX_CREDENTIAL_BYTES for part in (username or "", password)):
        raise ConfigurationError("proxy_url: user name and password have at most 255 bytes each")
    if username is not None and ":" in username and scheme.startswith("http"):
        raise ConfigurationError("proxy_url: a user name cannot have a colon (RFC 7617)")
    if scheme == "https":
        # Import it here: few clients need the package.
        from aiokproto.security.tls.defaults import default_context

        ssl_context = ssl_context or default_context()
    elif ssl_context is not None:
        raise ConfigurationError(f"proxy_ssl_context has no effect: proxy_url begins with {scheme + '://'!r}")
    return Proxy(scheme, host, port, username, password, ssl_context, Bypass(_entries(no_proxy)))


def _entries(value: object) -> list[str]:
    if isinstance(value, str):
        return [entry for entry in value.split(",") if entry.strip()]
    if isinstance(value, Iterable):
        entries = list(value)
        if all(isinstance(entry, str) for entry in entries):
            return entries
    raise ConfigurationError(f"no_proxy={value!r}: expected 'host,10.0.0.0/8', or a list of such texts")
