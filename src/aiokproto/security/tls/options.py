"""The TLS options, and their checks, individually and in combination. Files aren't read here.

There are two families of names: the Python clients' (``ssl_cafile``, files in PEM) and the Java client's
(``ssl_truststore_location``, all formats). Both include options for the certificate authorities, the client's own
certificate, the host name check and the ciphers, but each of these can be set only in one family.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.security.secret import Secret
from aiokproto.security.tls.ciphers import checked_ciphers, ciphers_of_suites
from aiokproto.security.tls.stores import TYPES

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

TLS_OPTIONS = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_crlfile",
    "ssl_crl_check_chain",
    "ssl_check_hostname",
    "ssl_ciphers",
    "ssl_truststore_location",
    "ssl_truststore_type",
    "ssl_truststore_password",
    "ssl_truststore_certificates",
    "ssl_keystore_location",
    "ssl_keystore_type",
    "ssl_keystore_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_key_password",
    "ssl_endpoint_identification_algorithm",
    "ssl_enabled_protocols",
    "ssl_cipher_suites",
)
"""All TLS options except ``ssl_context``."""

_NEEDS = {
    "ssl_keyfile": ("ssl_certfile",),
    "ssl_password": ("ssl_certfile",),
    "ssl_crl_check_chain": ("ssl_crlfile",),
    "ssl_truststore_password": ("ssl_truststore_location",),
    "ssl_truststore_type": ("ssl_truststore_location", "ssl_truststore_certificates"),
    "ssl_keystore_password": ("ssl_keystore_location",),
    "ssl_keystore_type": ("ssl_keystore_location", "ssl_keystore_key"),
    "ssl_keystore_key": ("ssl_keystore_certificate_chain",),
    "ssl_keystore_certificate_chain": ("ssl_keystore_key",),
    "ssl_key_password": ("ssl_keystore_location", "ssl_keystore_key"),
}
"""By option: other options, at least one of which must be given with it."""

_EXCLUSIVE = (
    ("ssl_cafile", "ssl_truststore_location", "ssl_truststore_certificates"),
    ("ssl_certfile", "ssl_keystore_location", "ssl_keystore_key"),
    ("ssl_check_hostname", "ssl_endpoint_identification_algorithm"),
    ("ssl_ciphers", "ssl_cipher_suites"),
)
"""Groups of options with the same meaning. Only one option of a group may be given."""

_FILES = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_crlfile",
    "ssl_truststore_location",
    "ssl_keystore_location",
)
_SECRETS = (
    "ssl_password",
    "ssl_truststore_password",
    "ssl_truststore_certificates",
    "ssl_keystore_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_key_password",
)


@dataclass(frozen=True)
class StoreOptions:
    """The options that describe a file or text with certificates or a private key.

    Attributes:
        option: The option for the file or text itself.
        kind: Its type; None to detect the type from the content.
        password: The option for its password; empty if it can't have one.
        key_password: The option for the private key's password.
        kind_option: The option for its type; empty if there's no such option.
    """

    option: str
    kind: str | None = None
    password: str = ""
    key_password: str = ""
    kind_option: str = ""


@dataclass(frozen=True)
class TlsOptions:
    """The checked TLS options. Options are named the way the user spells them.

    Attributes:
        trusted: The certificate authorities; None for the system's.
        key: The private key; None if there's no client certificate.
        chain: The option for the key's certificates, if they aren't stored with the key; otherwise empty.
        crl: The option for revocation lists, or empty.
        crl_chain: Whether the certificates of intermediate authorities are also looked up in the lists.
        check_hostname: Whether the broker's certificate must name the host.
        lowest: Lowest version of TLS.
        highest: Highest version.
        ciphers: OpenSSL's names of the TLS 1.2 ciphers; None for the defaults.
        files: The path of each file, by option.
        secrets: Passwords, and certificates and keys that are given as text, by option.
    """

    trusted: StoreOptions | None = None
    key: StoreOptions | None = None
    chain: str = ""
    crl: str = ""
    crl_chain: bool = False
    check_hostname: bool = True
    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    highest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
    ciphers: str | None = None
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    secrets: Mapping[str, Secret] = field(default_factory=dict[str, Secret])


def parse_tls(options: Mapping[str, Any], spell: Callable[[str], str] = str) -> TlsOptions:
    """Check TLS options.

    Args:
        options: The values of :data:`TLS_OPTIONS`, by name. None means that the option isn't given.
        spell: Returns the user's spelling of an option's name. By default it's unchanged.

    Raises:
        ConfigurationError: A value is invalid, or options can't be combined. The error doesn't contain secrets.
    """
    given = {name: options[name] for name in TLS_OPTIONS if options.get(name) is not None}
    for alternatives in _EXCLUSIVE:
        both = [spell(name) for name in alternatives if name in given]
        if len(both) > 1:
            raise ConfigurationError(f"{' and '.join(both)} are given: expected one of them, as they say the same")
    for name, others in _NEEDS.items():
        if name in given and not any(other in given for other in others):
            # Add a hint: librdkafka uses the same name for both passwords.
            other = f"; that of {spell('ssl_keyfile')} is {spell('ssl_password')}" if name == "ssl_key_password" else ""
            raise ConfigurationError(f"{spell(name)} is given without {' or '.join(map(spell, others))}{other}")
    lowest, highest, ciphers = _versions(given, spell)
    return TlsOptions(
        trusted=_trusted(given, spell),
        key=_key(given, spell),
        chain=_chain(given, spell),
        crl=spell("ssl_crlfile") if "ssl_crlfile" in given else "",
        crl_chain=_boolean("ssl_crl_check_chain", given, spell, default=False),
        check_hostname=_check_hostname(given, spell),
        lowest=lowest,
        highest=highest,
        ciphers=ciphers,
        files={spell(name): _path(spell(name), given[name]) for name in _FILES if name in given},
        secrets={spell(name): Secret(spell(name), given[name]) for name in _SECRETS if name in given},
    )


def _trusted(given: Mapping[str, Any], spell: Callable[[str], str]) -> StoreOptions | None:
    if "ssl_cafile" in given:
        return StoreOptions(spell("ssl_cafile"), "PEM")
    if "ssl_truststore_certificates" in given:
        return StoreOptions(spell("ssl_truststore_certificates"), _text_type("ssl_truststore_type", given, spell))
    if "ssl_truststore_location" in given:
        kind = _type("ssl_truststore_type", given, spell)
        password, kind_option = spell("ssl_truststore_password"), spell("ssl_truststore_type")
        return StoreOptions(spell("ssl_truststore_location"), kind, password, kind_option=kind_option)
    return None


def _key(given: Mapping[str, Any], spell: Callable[[str], str]) -> StoreOptions | None:
    if "ssl_certfile" in given:
        option = "ssl_keyfile" if "ssl_keyfile" in given else "ssl_certfile"
        return StoreOptions(spell(option), "PEM", key_password=spell("ssl_password"))
    if "ssl_keystore_key" in given:
        text = _text_type("ssl_keystore_type", given, spell)
        return StoreOptions(spell("ssl_keystore_key"), text, key_password=spell("ssl_key_password"))
    if "ssl_keystore_location" in given:
        kind = _type("ssl_keystore_type", given, spell)
        password, key_password = spell("ssl_keystore_password"), spell("ssl_key_password")
        return StoreOptions(spell("ssl_keystore_location"), kind, password, key_password, spell("ssl_keystore_type"))
    return None


def _chain(given: Mapping[str, Any], spell: Callable[[str], str]) -> str:
    # If `ssl_certfile` is given alone, it contains both the key and the chain.
    name = "ssl_certfile" if "ssl_keyfile" in given else "ssl_keystore_certificate_chain"
    return spell(name) if name in given else ""


def _type(name: str, given: Mapping[str, Any], spell: Callable[[str], str]) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value.upper() not in TYPES:
        raise ConfigurationError(f"{spell(name)}={value!r}: expected {' or '.join(map(repr, TYPES))}")
    return value.upper()


def _text_type(name: str, given: Mapping[str, Any], spell: Callable[[str], str]) -> str:
    if _type(name, given, spell) not in (None, "PEM"):
        raise ConfigurationError(f"{spell(name)}={given[name]!r}: certificates given as text are 'PEM'")
    return "PEM"


def _check_hostname(given: Mapping[str, Any], spell: Callable[[str], str]) -> bool:
    if "ssl_endpoint_identification_algorithm" in given:
        algorithm = given["ssl_endpoint_identification_algorithm"]
        if not isinstance(algorithm, str) or algorithm.lower() not in ("", "https"):
            name = spell("ssl_endpoint_identification_algorithm")
            raise ConfigurationError(f"{name}={algorithm!r}: expected 'https', or '' for no check of the host name")
        return bool(algorithm)
    return _boolean("ssl_check_hostname", given, spell, default=True)


def _boolean(name: str, given: Mapping[str, Any], spell: Callable[[str], str], *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise ConfigurationError(f"{spell(name)}={value!r}: expected True or False")
    return value


def _versions(
    given: Mapping[str, Any], spell: Callable[[str], str]
) -> tuple[ssl.TLSVersion, ssl.TLSVersion, str | None]:
    """Return the lowest and highest version of TLS, and the TLS 1.2 ciphers."""
    name = "ssl_enabled_protocols"
    words = words_of(spell(name), given.get(name, ""))
    unknown = [word for word in words if word not in _VERSIONS]
    if unknown:
        expected = " and ".join(map(repr, _VERSIONS))
        raise ConfigurationError(f"{spell(name)}: {unknown[0]!r}: expected {expected} (others: pass ssl_context)")
    versions = {_VERSIONS[word] for word in words} or set(_VERSIONS.values())
    ciphers: str | None = None
    if "ssl_ciphers" in given:
        ciphers = checked_ciphers(spell("ssl_ciphers"), given["ssl_ciphers"])
    elif "ssl_cipher_suites" in given:
        suites = words_of(spell("ssl_cipher_suites"), given["ssl_cipher_suites"])
        if suites:
            ciphers, of_suites = ciphers_of_suites(spell("ssl_cipher_suites"), suites)
            versions &= of_suites
            if not versions:
                raise ConfigurationError(f"{spell('ssl_cipher_suites')} has no suite of {spell(name)}")
    return min(versions), max(versions), ciphers


def words_of(name: str, value: Any) -> list[str]:
    """Parse a list that is given as a sequence of strings, or as one string separated by commas."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value):
        return [word.strip() for word in value]
    raise ConfigurationError(f"{name}={value!r}: expected names separated by commas, or a list")


def _path(name: str, value: Any) -> Path:
    # Passing PEM text instead of a file is a common mistake. Don't show the text: it may be a private key.
    if isinstance(value, (str, os.PathLike)) and "-----BEGIN" in str(value):
        raise ConfigurationError(f"{name}: expected the path of a file; PEM text has options of its own")
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        # Leave the value out for the same reason.
        got = "an empty text" if value == "" else type(value).__name__
        raise ConfigurationError(f"{name}: expected the path of a file, got {got}")
    return Path(value)
