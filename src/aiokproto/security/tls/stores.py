"""Certificates and private keys in files: PEM, PKCS#12, JKS and JCEKS. Pure: it takes the contents of files.

The type of a file is detected from its content. A type in the options must match that, except that JKS and PKCS12 are
interchangeable, as in Java (``keystore.type.compat``).
"""

from __future__ import annotations

import binascii
import re
import ssl
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from aiokproto.security.tls.jks import JCEKS, JKS, FormatError, JavaKeyStore, PasswordError, parse, unprotect

TYPES = ("PEM", "PKCS12", "JKS", "JCEKS")

MAX_SIZE = 4 << 20
"""Maximum length of a file, in bytes. For comparison, the system's bundle of certificate authorities takes up a quarter
of a megabyte."""

_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")
_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"
# Restrict labels, because errors show them: in PEM that has lost its line breaks, the whole private key would look like
# a label.
_BEGIN_LINE = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,50})-----")
_MAX_PATH = 4096
# Editors on Windows write this mark for UTF-8. In concatenated files it can also be in the middle.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The object identifier of PBES2 (RFC 8018), and the version in every PKCS#12 file (RFC 7292), in DER.
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
_VERSION_3 = b"\x02\x01\x03"

Subject = Literal["file", "type", "password", "key password"]


class StoreError(ValueError):
    """A file can't be used.

    Attributes:
        subject: What the user has to correct: the file, its type, its password, or the password of the private key.
    """

    def __init__(self, text: str, subject: Subject = "file") -> None:
        super().__init__(text)
        self.subject: Subject = subject


class Block(NamedTuple):
    """A section of a PEM file: its label (``CERTIFICATE``), and all its lines."""

    label: str
    text: bytes


class PrivateKey(NamedTuple):
    """A private key with the certificates that belong to it.

    Attributes:
        pem: The key.
        encrypted: Whether it needs a password.
        outdated: Whether it's encrypted with PBES1, which OpenSSL 3 usually can't decrypt.
        chain: The certificates in DER, starting with the key's own; empty if the file contains only the key.
    """

    pem: bytes
    encrypted: bool
    chain: list[bytes]
    outdated: bool = False


def blocks(data: bytes) -> list[Block]:
    """Return the sections of a PEM file (RFC 7468).

    Raises:
        StoreError: A section has no end, so the file is incomplete.
    """
    return list(_blocks(data))


def _blocks(data: bytes) -> Iterator[Block]:
    label, lines = "", list[bytes]()
    for line in data.splitlines():
        line = line.strip().removeprefix(_BYTE_ORDER_MARK)
        if begun := _BEGIN_LINE.fullmatch(line):
            if label:
                break
            label, lines = begun[1].decode("ascii"), [line]
        elif label:
            lines.append(line)
            if line == _END + label.encode() + _DASHES:
                yield Block(label, b"\n".join(lines) + b"\n")
                label = ""
    if label:
        # Raise an error, although OpenSSL skips such a section: if the file is half-written, half of its certificates
        # are missing.
        raise StoreError(f"it is incomplete: {label} has no end")


def type_of(data: bytes) -> str:
    """Return the file's type (:data:`TYPES`), or ``"DER"`` for a certificate or key in DER; ``""`` if it's unknown."""
    if data.startswith(JKS):
        return "JKS"
    if data.startswith(JCEKS):
        return "JCEKS"
    if _BEGIN in data:
        return "PEM"
    if not data.startswith(b"\x30"):
        return ""
    # Skip the length: one byte, and possibly more bytes, whose number is in the first one.
    start = 2 + (data[1] & 0x7F if len(data) > 1 and data[1] > 0x80 else 0)
    return "PKCS12" if _VERSION_3.startswith(data[start : start + len(_VERSION_3)]) else "DER"


def read_certificates(data: bytes, kind: str | None, password: str | None) -> list[bytes]:
    """Return the certificates (DER) in a file, typically of certificate authorities.

    Args:
        data: The file.
        kind: Its type; None to accept any type.
        password: The file's password; if None, the integrity of Java's formats isn't checked.

    Raises:
        StoreError: The file has a different type, is damaged, or doesn't contain certificates.
    """
    found = _checked_type(data, kind)
    if found == "PEM":
        certificates = _pem_certificates(blocks(data))
        if not certificates:
            raise StoreError(f"it has no CERTIFICATE, {_labels(data)}")
        return certificates
    if found == "PKCS12":
        store = _pkcs12(data, password)
        entries = ([store.cert] if store.cert else []) + list(store.additional_certs)
        certificates = [_der(entry.certificate) for entry in entries]
    else:
        parsed = _java(data, password)
        # As in Java, the certificate of a private key is trusted, too.
        certificates = [*parsed.certificates, *(entry.chain[0] for entry in parsed.keys if entry.chain)]
    if not certificates:
        raise StoreError("it has no certificates")
    return certificates


def read_private_key(data: bytes, kind: str | None, password: str | None, key_password: str | None) -> PrivateKey:
    """Return the private key in a file, with its certificates.

    Args:
        data: The file.
        kind: Its type; None to accept any type.
        password: The file's password, which PKCS#12, JKS and JCEKS need.
        key_password: The key's own password; None if it's the same as the file's.

    Raises:
        StoreError: The file has a different type, is damaged, doesn't contain exactly one private key, or a password is
            wrong.
    """
    found = _checked_type(data, kind)
    if found == "PEM":
        return _pem_key(data)
    if password is None:
        raise StoreError("its password is missing", "password")
    if found == "PKCS12":
        return _pkcs12_key(data, password)
    keys = _java(data, password).keys
    if len(keys) != 1:
        names = ", ".join(sorted(entry.alias for entry in keys))
        raise StoreError(
            f"it has {len(keys)} private keys ({names}): expected one" if keys else "it has no private key"
        )
    try:
        der = unprotect(keys[0].protected, password if key_password is None else key_password)
    except PasswordError as error:
        raise StoreError(str(error), "key password") from None
    except FormatError as error:
        raise StoreError(str(error)) from None
    except ImportError:
        raise StoreError(_needs_cryptography("a private key in JCEKS")) from None
    return PrivateKey(_pem("PRIVATE KEY", der), encrypted=False, chain=keys[0].chain)


def read_revocations(data: bytes) -> bytes:
    """Return the certificate revocation lists in a file, in PEM.

    Raises:
        StoreError: The file doesn't contain any.
    """
    _checked_type(data, "PEM")
    lists = [block.text for block in blocks(data) if block.label == "X509 CRL"]
    if not lists:
        raise StoreError(f"it has no X509 CRL, {_labels(data)}")
    return b"".join(lists)


def to_pem(certificates: list[bytes]) -> bytes:
    """Convert certificates from DER to PEM."""
    return b"".join(_pem("CERTIFICATE", certificate) for certificate in certificates)


def _checked_type(data: bytes, kind: str | None) -> str:
    found = type_of(data)
    if not found:
        raise StoreError(
            "it is empty" if not data.strip() else f"it is neither PEM nor PKCS#12 nor JKS{_of_text(data)}"
        )
    if found == "DER":
        raise StoreError(
            "it is DER: convert it to PEM with `openssl x509 -inform der`, a private key with `openssl pkey -inform"
            " der`, a revocation list with `openssl crl -inform der`"
        )
    if kind is None or kind == found or {kind, found} == {"JKS", "PKCS12"}:
        return found
    if kind == "PEM" and found == "PKCS12":
        raise StoreError("it is no PEM but PKCS#12: convert it with `openssl pkcs12`", "type")
    raise StoreError(f"it is {found}: expected {kind}", "type")


def _pem_certificates(found: list[Block]) -> list[bytes]:
    try:
        return [
            ssl.PEM_cert_to_DER_cert(_pem_label(block.text.decode("ascii")))
            for block in found
            if block.label in _CERTIFICATES
        ]
    except (ValueError, binascii.Error):
        raise StoreError("a CERTIFICATE in it is damaged") from None


def _pem_content(text: bytes) -> bytes:
    """Return the content between the first and the last line; empty if it's damaged."""
    try:
        return binascii.a2b_base64(b"".join(text.splitlines()[1:-1]))
    except binascii.Error:
        return b""


def _pem_label(text: str) -> str:
    return text.replace("X509 CERTIFICATE", "CERTIFICATE")


def _pem_key(data: bytes) -> PrivateKey:
    found = blocks(data)
    keys = [block for block in found if block.label.endswith("PRIVATE KEY")]
    if not keys:
        raise StoreError(f"it has no PRIVATE KEY, {_labels(data)}")
    if len(keys) > 1:
        raise StoreError(f"it has {len(keys)} private keys: expected one")
    pkcs8 = keys[0].label == "ENCRYPTED PRIVATE KEY"
    encrypted = pkcs8 or b"Proc-Type: 4,ENCRYPTED" in keys[0].text
    outdated = pkcs8 and _PBES2 not in _pem_content(keys[0].text)
    return PrivateKey(keys[0].text, encrypted, _pem_certificates(found), outdated)


def _pkcs12_key(data: bytes, password: str) -> PrivateKey:
    from cryptography.hazmat.primitives import serialization as form

    store = _pkcs12(data, password)
    if store.key is None:
        raise StoreError("it has no private key")
    pem = store.key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    entries = ([store.cert] if store.cert else []) + list(store.additional_certs)
    return PrivateKey(pem, encrypted=False, chain=[_der(entry.certificate) for entry in entries])


def _pkcs12(data: bytes, password: str | None) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise StoreError(_needs_cryptography("PKCS#12")) from None
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        # The library raises the same error for all causes. Blame the password: a file that starts like PKCS#12 usually
        # is PKCS#12.
        if password is None:
            raise StoreError("its password is missing, or it is no PKCS#12", "password") from None
        raise StoreError("its password is wrong, or it is no PKCS#12, or damaged", "password") from None


def _java(data: bytes, password: str | None) -> JavaKeyStore:
    try:
        return parse(data, password)
    except PasswordError as error:
        raise StoreError(str(error), "password") from None
    except FormatError as error:
        raise StoreError(str(error)) from None


def _der(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return bytes(certificate.public_bytes(Encoding.DER))


def _of_text(data: bytes) -> str:
    """Return a hint if text that should be PEM looks like the path of a file."""
    path = len(data) <= _MAX_PATH and b"\n" not in data.strip() and (b"/" in data or b"\\" in data or b".pem" in data)
    return ": for a file that has it, pass a pathlib.Path" if path else ""


def _labels(data: bytes) -> str:
    found = ", ".join(dict.fromkeys(block.label for block in blocks(data)))
    if found:
        return f"only {found}"
    # PEM in environment variables can contain JSON escapes, or its lines may have been joined by a shell.
    if rb"\n" in data:
        return "as its line ends are written as '\\n': pass real ones"
    return "as '-----BEGIN …-----' and '-----END …-----' are not lines of their own"


def _needs_cryptography(what: str) -> str:
    return f"{what} needs the package cryptography: pip install aiokproto[tls]"


def _pem(label: str, der: bytes) -> bytes:
    text = binascii.b2a_base64(der, newline=False)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN %s-----" % label.encode(), *lines, b"-----END %s-----" % label.encode(), b""])
