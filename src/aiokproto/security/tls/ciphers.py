"""Names of ciphers: OpenSSL's names, and IANA's, which Java uses."""

from __future__ import annotations

import re
import ssl
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.texts import is_unicode

_NEVER = ":!aNULL:!eNULL"
"""Excludes ciphers without encryption, and ciphers without authentication, which allow anyone to impersonate the
broker. Both are included in ``ALL`` and ``ALL:@SECLEVEL=0``, which users set for old brokers."""

_SUITE = re.compile(r"TLS_(?:(ECDHE|DHE)_)?(ECDSA|RSA|PSK)_WITH_(.+)")
_CIPHERS = (
    (r"AES_(\d+)_GCM_SHA(\d+)", r"AES\1-GCM-SHA\2"),
    (r"AES_(\d+)_CBC_SHA", r"AES\1-SHA"),
    (r"AES_(\d+)_CBC_SHA(\d+)", r"AES\1-SHA\2"),
    (r"AES_(\d+)_CCM", r"AES\1-CCM"),
    (r"AES_(\d+)_CCM_8", r"AES\1-CCM8"),
    (r"CHACHA20_POLY1305_SHA256", r"CHACHA20-POLY1305"),
)


def checked_ciphers(name: str, value: Any) -> str:
    """Return a list of ciphers in OpenSSL's format that excludes ciphers without authentication or encryption.

    Raises:
        ConfigurationError: The value isn't text, or this OpenSSL doesn't support any of the remaining ciphers.
    """
    if not isinstance(value, str) or "\0" in value or not is_unicode(value):
        raise ConfigurationError(f"{name}={value!r}: expected text, as OpenSSL has it: 'ECDHE+AESGCM'")
    if not _is_known(value):
        raise ConfigurationError(
            f"{name}={value!r}: {ssl.OPENSSL_VERSION} has no such cipher; `openssl ciphers` lists those of TLS 1.2"
        )
    if not _is_known(value + _NEVER):
        raise ConfigurationError(f"{name}={value!r}: none of these ciphers authenticates the broker, and encrypts")
    return value + _NEVER


def _is_known(ciphers: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(ciphers)
    except ssl.SSLError:
        return False
    return True


def ciphers_of_suites(name: str, suites: list[str]) -> tuple[str | None, set[ssl.TLSVersion]]:
    """Return OpenSSL's names of the TLS 1.2 ciphers, and the versions of TLS that the suites belong to.

    Raises:
        ConfigurationError: A suite is unknown, or only some of the TLS 1.3 suites are listed: :mod:`ssl` can't exclude
            individual ones.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # This doesn't affect TLS 1.3 suites, which are always enabled.
    context.set_ciphers("ALL:COMPLEMENTOFALL")
    known = {cipher["name"]: cipher["protocol"] for cipher in context.get_ciphers()}
    newest = {cipher for cipher, protocol in known.items() if protocol == "TLSv1.3"}
    older: list[str] = []
    for suite in suites:
        if suite in newest:
            continue
        cipher = _openssl_name(suite)
        if cipher not in known:
            raise ConfigurationError(
                f"{name}: {suite!r} is no cipher suite that {ssl.OPENSSL_VERSION} has; ssl_ciphers has OpenSSL's"
            )
        older.append(cipher)
    missing = newest - set(suites)
    if missing and missing != newest:
        raise ConfigurationError(
            f"{name}: Python cannot choose among the suites of TLS 1.3: name {', '.join(sorted(missing))} too, or none"
            " of TLS 1.3"
        )
    versions = {ssl.TLSVersion.TLSv1_2} if older else set[ssl.TLSVersion]()
    if not missing:
        versions.add(ssl.TLSVersion.TLSv1_3)
    return ":".join(older) or None, versions


def _openssl_name(suite: str) -> str:
    found = _SUITE.fullmatch(suite)
    if found is None:
        return ""
    exchange, signature, rest = found.groups()
    for pattern, replacement in _CIPHERS:
        if re.fullmatch(pattern, rest):
            cipher = re.sub(pattern, replacement, rest)
            # If RSA is used for both key exchange and signature, OpenSSL's name is just the cipher.
            parts = (exchange, signature, cipher) if exchange else (signature if signature != "RSA" else None, cipher)
            return "-".join(part for part in parts if part)
    return ""
