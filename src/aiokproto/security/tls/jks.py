"""Java's own keystore formats, JKS and JCEKS (``sun.security.provider.JavaKeyStore``, ``com.sun.crypto.provider``).

Both consist of a list of entries, followed by a SHA-1 digest over the password, a fixed text and the entries, so an
attacker who doesn't know the password can't change the file unnoticed. Certificates aren't encrypted. A private key is
encrypted with its own password (by convention the same as the file's): in JKS with a stream of SHA-1 digests, in JCEKS
with triple DES and a key derived with MD5. Both are weak: anyone who can read the file can recover the key. Since
version 9, Java writes PKCS#12.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from aiokproto.security.tls.der import value_bounds

JKS, JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
"""The first bytes of the two file formats."""

_WHITENER = b"Mighty Aphrodite"
_DIGEST_SIZE = 20
_KEY, _CERTIFICATE, _SECRET = 1, 2, 3
_JKS_PROTECTION = bytes.fromhex("060a2b060104012a02110101")
_JCEKS_PROTECTION = bytes.fromhex("06092b060104012a021301")
"""The object identifiers of the two encryption schemes, in DER."""

MAX_ITERATIONS = 5_000_000
"""Maximum number of iterations in JCEKS key derivation: Java's own limit."""


class FormatError(ValueError):
    """The file is damaged, or in a different format."""


class PasswordError(ValueError):
    """The password is wrong."""


class KeyEntry(NamedTuple):
    """A private key with its certificates.

    Attributes:
        alias: Its name in the store.
        protected: The encrypted key, as it is stored.
        chain: Certificates in DER, starting with the key's own.
    """

    alias: str
    protected: bytes
    chain: list[bytes]


class JavaKeyStore(NamedTuple):
    """The entries of a store."""

    keys: list[KeyEntry]
    certificates: list[bytes]


def parse(data: bytes, password: str | None) -> JavaKeyStore:
    """Return the entries of a JKS or JCEKS file.

    Args:
        data: The file.
        password: The file's password; if None, the file's integrity isn't checked, as in Java.

    Raises:
        FormatError: The file is damaged, or contains entries other than private keys and certificates.
        PasswordError: The password is wrong, or the file was changed.
    """
    if len(data) < 12 + _DIGEST_SIZE:
        raise FormatError("it is too short")
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    # Check the digest first: a file that was tampered with must not be parsed.
    if password is not None:
        expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, expected):
            raise PasswordError("its password is wrong, or the file is damaged")
    reader = _Reader(body, 4)
    version = reader.integer()
    if version not in (1, 2):
        raise FormatError(f"it has version {version}: expected 1 or 2")
    store = JavaKeyStore([], [])
    for _ in range(reader.integer()):
        tag = reader.integer()
        if tag == _SECRET:
            raise FormatError("it has a secret key, which TLS does not use: remove that entry")
        if tag not in (_KEY, _CERTIFICATE):
            raise FormatError(f"it has an entry of unknown type {tag}")
        alias = reader.text()
        reader.take(8)  # Skip the time of its creation.
        if tag == _CERTIFICATE:
            store.certificates.append(reader.certificate(version))
        else:
            protected = reader.block()
            store.keys.append(
                KeyEntry(alias, protected, [reader.certificate(version) for _ in range(reader.integer())])
            )
    if reader.left:
        raise FormatError(f"{reader.left} bytes follow its last entry")
    return store


def unprotect(protected: bytes, password: str) -> bytes:
    """Decrypt a private key, and return it in PKCS#8 (DER).

    Raises:
        FormatError: The encryption is unknown, or the key is damaged.
        PasswordError: The password is wrong.
        ImportError: JCEKS needs ``cryptography``.
    """
    # EncryptedPrivateKeyInfo (RFC 5958 §3) consists of the algorithm with its parameters, and the encrypted key.
    whole = _Der(protected).enter(0x30)
    algorithm = whole.enter(0x30)
    encrypted = whole.value(0x04)
    oid = algorithm.element(0x06)
    if oid == _JKS_PROTECTION:
        return _unprotect_jks(encrypted, password)
    if oid == _JCEKS_PROTECTION:
        parameters = algorithm.enter(0x30)
        return _unprotect_jceks(
            encrypted, password, parameters.value(0x04), int.from_bytes(parameters.value(0x02), "big")
        )
    raise FormatError("the encryption of its private key is unknown")


def _unprotect_jks(encrypted: bytes, password: str) -> bytes:
    if len(encrypted) < 2 * _DIGEST_SIZE:
        raise FormatError("its private key is too short")
    salt, body, check = encrypted[:_DIGEST_SIZE], encrypted[_DIGEST_SIZE:-_DIGEST_SIZE], encrypted[-_DIGEST_SIZE:]
    secret, stream, block = password.encode("utf-16-be"), bytearray(), salt
    while len(stream) < len(body):
        block = _sha1(secret + block)
        stream += block
    key = bytes(left ^ right for left, right in zip(body, stream, strict=False))
    if not hmac.compare_digest(check, _sha1(secret + key)):
        raise PasswordError("the password of its private key is wrong")
    return key


def _unprotect_jceks(encrypted: bytes, password: str, salt: bytes, iterations: int) -> bytes:
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    if len(salt) != 8 or not 0 < iterations <= MAX_ITERATIONS:
        raise FormatError("the encryption of its private key has invalid parameters")
    # Each half of the salt yields 16 of the 32 bytes of key and initialization vector. If both halves are equal, Java
    # is supposed to reverse the first one, but has a bug: it computes this instead.
    halves = [bytearray(salt[:4]), bytearray(salt[4:])]
    if halves[0] == halves[1]:
        first = halves[0]
        halves[0] = bytearray((first[3], first[0], first[1], first[3]))
    derived = b""
    # Java uses the password's characters as bytes, and accepts only ASCII.
    secret = password.encode("ascii", "replace")
    for half in halves:
        block = bytes(half)
        for _ in range(iterations):
            block = hashlib.md5(block + secret, usedforsecurity=False).digest()
        derived += block
    decryptor = Cipher(TripleDES(derived[:24]), modes.CBC(derived[24:])).decryptor()
    if len(encrypted) % 8 or not encrypted:
        raise FormatError("its private key is damaged")
    padded = decryptor.update(encrypted) + decryptor.finalize()
    padding = padded[-1]
    if not 1 <= padding <= 8 or padded[-padding:] != bytes([padding]) * padding or padded[:1] != b"\x30":
        raise PasswordError("the password of its private key is wrong")
    return padded[:-padding]


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


class _Reader:
    """Reads the output of Java's ``DataOutputStream``."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise FormatError(f"it ends in the middle of an entry, at byte {len(self._data)}")
        self._position += size
        return self._data[self._position - size : self._position]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(self.integer())

    def certificate(self, version: int) -> bytes:
        # Version 1 doesn't store a type: all certificates are X.509.
        kind = self.text() if version > 1 else "X.509"
        if kind != "X.509":
            raise FormatError(f"it has a certificate of type {kind[:50]!r}: expected X.509")
        return self.block()


class _Der:
    """Reads the subset of DER (X.690) that encrypted private keys use."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def enter(self, tag: int) -> _Der:
        return _Der(self.value(tag))

    def value(self, tag: int) -> bytes:
        start, end = self._bounds(tag)
        return self._data[start:end]

    def element(self, tag: int) -> bytes:
        start = self._position
        _, end = self._bounds(tag)
        return self._data[start:end]

    def _bounds(self, tag: int) -> tuple[int, int]:
        """Return the start and end of the next element's value, and move past it."""
        if self._data[self._position : self._position + 1] != bytes((tag,)):
            raise FormatError("its private key is damaged")
        try:
            start, self._position = value_bounds(self._data, self._position)
        except ValueError:
            raise FormatError("its private key is damaged") from None
        return start, self._position
