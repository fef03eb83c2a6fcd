"""What Kerberos errors mean for a client, and what to do about them."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.errors import AuthenticationError, BrokerConnectionError

_BASE = 1765328384
"""The offset that Kerberos libraries add to the codes of RFC 4120, and to their own codes, which start at 128."""

CLIENT_EXPIRED, CLIENT_UNKNOWN, SERVER_UNKNOWN, POLICY, NO_ENCTYPE, REVOKED = 1, 6, 7, 12, 14, 18
CLIENT_NOT_YET_VALID, KEY_EXPIRED, PREAUTH_FAILED, INTEGRITY, TICKET_EXPIRED = 21, 23, 24, 31, 32
TICKET_NOT_YET_VALID, SKEW = 33, 37
NO_CREDENTIALS, REALM_UNKNOWN, KDC_UNREACHABLE, KEYTAB_EMPTY, NO_CCACHE = 141, 154, 156, 181, 195
CCACHE_VERSION, REALM_UNRESOLVED, NO_DEFAULT_REALM = 212, 220, 224
CCACHE_OF_ANOTHER, KEYTAB_OF_ANOTHER = 39756032, 39756033
"""GSSAPI's own codes for a credential cache or keytab of a different principal."""

_KINIT = "run kinit, or set sasl_kerberos_keytab, with which the client gets its tickets itself"
_CLOCKS = "synchronize the clocks of this machine, the KDC and the broker"
_KDC = "check that the KDC runs, that its address in krb5.conf is right, and the network"
_KEY = "the keytab does not have the principal's present key: export it again (kadmin: ktadd)"


class Meaning(NamedTuple):
    """What an error means.

    Attributes:
        remedy: What to do.
        final: Whether the KDC has refused, so retrying can't help. Repeated attempts could even lock the principal.
    """

    remedy: str
    final: bool = False


_MEANINGS = {
    CLIENT_EXPIRED: Meaning("the principal has expired: ask the administrators of Kerberos", final=True),
    CLIENT_UNKNOWN: Meaning("check sasl_kerberos_principal, and its realm", final=True),
    SERVER_UNKNOWN: Meaning(
        "brokers have the principal SERVICE/HOST: check sasl_kerberos_service_name, the host in bootstrap_servers and"
        " advertised.listeners, or set sasl_kerberos_domain_name; in krb5.conf, dns_canonicalize_hostname and rdns"
        " replace names by those of DNS, and [domain_realm] has the realms of hosts",
        final=True,
    ),
    POLICY: Meaning("the policy of the KDC forbids it", final=True),
    NO_ENCTYPE: Meaning("KDC, keytab and krb5.conf (permitted_enctypes) have no encryption type in common", final=True),
    REVOKED: Meaning("the principal is locked: ask the administrators of Kerberos", final=True),
    CLIENT_NOT_YET_VALID: Meaning(_CLOCKS),
    KEY_EXPIRED: Meaning("the principal's password has expired: change it, and export the keytab again", final=True),
    PREAUTH_FAILED: Meaning(_KEY, final=True),
    INTEGRITY: Meaning(_KEY, final=True),
    TICKET_EXPIRED: Meaning(_KINIT),
    TICKET_NOT_YET_VALID: Meaning(_CLOCKS),
    SKEW: Meaning(_CLOCKS),
    NO_CREDENTIALS: Meaning(_KINIT),
    REALM_UNKNOWN: Meaning("check the realm's spelling, and its KDC in krb5.conf or DNS"),
    KDC_UNREACHABLE: Meaning(_KDC),
    KEYTAB_EMPTY: Meaning("check sasl_kerberos_keytab, and the permissions of the file"),
    NO_CCACHE: Meaning(_KINIT),
    CCACHE_VERSION: Meaning("check sasl_kerberos_ccache or KRB5CCNAME: the file is no credential cache"),
    REALM_UNRESOLVED: Meaning(_KDC),
    NO_DEFAULT_REALM: Meaning("set default_realm in krb5.conf (KRB5_CONFIG), or name the realm: principal@REALM"),
    CCACHE_OF_ANOTHER: Meaning("sasl_kerberos_principal is not the one that the tickets are for: run kinit with it"),
    KEYTAB_OF_ANOTHER: Meaning("check sasl_kerberos_principal: `klist -k` lists those in the keytab"),
}

_UNREACHABLE_REALM = "the KDC knows no way into this realm, which the name of the broker's host led to: "
"""This also happens if the KDC doesn't know the host: libraries then guess a realm from its domain."""


def code_of(minor: int) -> int:
    """Extract the code of RFC 4120, or of the library, from GSSAPI's minor status.

    Other numbers are returned unchanged.
    """
    # Convert the number: it's signed in libraries and unsigned in GSSAPI.
    code = minor - (1 << 32) + _BASE if minor >= 1 << 31 else minor
    return code if 0 <= code < 256 else minor


def ticket_error(what: str, minor: int, text: str) -> AuthenticationError | BrokerConnectionError:
    """Return the error for a ticket that the client can't get.

    The error is final if the KDC has refused for a permanent reason. If something is expired, missing or unreachable,
    the next attempt may succeed.

    Args:
        what: What failed.
        minor: GSSAPI's minor status.
        text: The error message.
    """
    code = code_of(minor)
    meaning = _MEANINGS.get(code)
    if meaning is None:
        return BrokerConnectionError(f"{what}: {text}")
    cause = _UNREACHABLE_REALM if code == SERVER_UNKNOWN and "krbtgt/" in text else ""
    kind = AuthenticationError if meaning.final else BrokerConnectionError
    return kind(f"{what}: {text}: {cause}{meaning.remedy}")
