"""Java's own keystores: read as keytool has written them, and every damage is an error."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key
from cryptography.x509 import load_der_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.security.tls import jks
from aiokproto.security.tls.stores import StoreError, read_certificates, read_private_key
from tests.security.certificates import KEY_PASSWORD, PASSWORD

# Java 17's keytool wrote these: a P-256 key and its certificate, valid for a hundred years, for tests only.
JKS = base64.b64decode(
    """
/u3+7QAAAAIAAAABAAAAAQACbWUAAAGiDZPX9QAAAH8wfTAOBgorBgEEASoCEQEBBQAEay2LumjJKCpl5Y497wqhNJbLRJ+eWwyuFdUve2ubpa
9elF9GgNihmvczfivutaCR1JGFA5e1ksnvpewt+0mwjnxBrI7ByEMIvnHm+j9So1brHXYihfxKqANBE/3Dk/bMW/bJSN+pG4/8LfdwAAAAAQAF
WC41MDkAAAE2MIIBMjCB2qADAgECAgkAmPdXd6vV+lAwCgYIKoZIzj0EAwIwDTELMAkGA1UEAxMCbWUwIBcNMjYxMTI0MTI0MjAyWhgPMjEyNj
EwMzExMjQyMDJaMA0xCzAJBgNVBAMTAm1lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXEHAbY1ftgVMV3eUpx0Htl0BRE6DfJNYvVddA1I1
dQMjqJRSMcnR66g4eMKDQe9qqcanfAg8a740lSAu9XwCHKMhMB8wHQYDVR0OBBYEFClZ5sOnY+jr+truLTGcQO+sFdfcMAoGCCqGSM49BAMCA0
cAMEQCICXdIBiaRv+aJe8TKKeW7icTDIQ/J+CCcs/CoDopKl9LAiA8ED40UE4s9Q9K9ngYJJzo4qIiJfQvuTSxgyFL6WVb0hoezLYa3eLYR9IB
Fd4grMZtbDTK
"""
)
JCEKS = base64.b64decode(
    """
zs7OzgAAAAIAAAABAAAAAQACbWUAAAGiDZPidwAAAGowaDAcBgkrBgEEASoCEwEwDwQIHJnNVxqWDEsCAwMNQARI5ynIL/GXYi0sZcFnO7d5YK
8ImDR7+PMQhhW/4a7MtTELK27Lngevx1HUmB7ur7/cjSyRwLZ8gGyaE6d/W0XwImF8lzwSzy7xAAAAAQAFWC41MDkAAAE1MIIBMTCB2aADAgEC
AghuoPCiP6/fFTAKBggqhkjOPQQDAjANMQswCQYDVQQDEwJtZTAgFw0yNjExMjQxMjQyMDRaGA8yMTI2MTAzMTEyNDIwNFowDTELMAkGA1UEAx
MCbWUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASMhnKprmhXsFF+ONC0fup8PV2tqcgaLAsuI2b9EDLo3pTQlru/2cQ5uYJ7bOPbIv0v75fV
bDU2htbQUTwjpaY1oyEwHzAdBgNVHQ4EFgQU4sk3X8qsD+gtfNqeD73VQBtSgGAwCgYIKoZIzj0EAwIDRwAwRAIgHYHNa+DSGLE3U29eBFFrhA
i+K/QU5TRi/Xrx2dNKTkQCIH3poKsNGX8LCm6Tz5qw1KgDlpefQ6du7OJLAPEHWsc8TNhfTQk7h8/cGUYvoTly4pjMmbs=
"""
)
STORES = pytest.mark.parametrize("data", [JKS, JCEKS], ids=["JKS", "JCEKS"])


@STORES
def test_a_key_with_its_certificate(data: bytes) -> None:
    store = jks.parse(data, PASSWORD)
    assert store.certificates == []
    (entry,) = store.keys
    assert entry.alias == "me"
    (certificate,) = map(load_der_x509_certificate, entry.chain)
    assert certificate.subject.rfc4514_string() == "CN=me"
    key = load_der_private_key(jks.unprotect(entry.protected, KEY_PASSWORD), None)
    assert key.public_key() == certificate.public_key()


@STORES
def test_wrong_passwords(data: bytes) -> None:
    with pytest.raises(jks.PasswordError, match="its password is wrong"):
        jks.parse(data, "x")
    (entry,) = jks.parse(data, None).keys
    for wrong in ("x", "", PASSWORD):
        with pytest.raises(jks.PasswordError, match="the password of its private key is wrong"):
            jks.unprotect(entry.protected, wrong)


@STORES
@given(at=st.integers(4, 700), bit=st.integers(0, 7))
def test_any_changed_bit_is_found_with_the_password(data: bytes, at: int, bit: int) -> None:
    changed = bytearray(data)
    changed[at % len(data)] ^= 1 << bit
    with pytest.raises(jks.PasswordError):
        jks.parse(bytes(changed), PASSWORD)


@STORES
@given(noise=st.binary(max_size=60), at=st.integers(4, 700), cut=st.integers(0, 700))
def test_any_content_of_a_file_raises_our_own_error(data: bytes, noise: bytes, at: int, cut: int) -> None:
    """Without the password the file is parsed unchecked."""
    changed = data[:at] + noise + data[at + len(noise) :][: -cut or None]
    for read in (lambda: read_certificates(changed, None, None), lambda: jks.parse(changed, None)):
        try:
            read()
        except (StoreError, jks.FormatError):
            continue
    try:
        jks.unprotect(changed[-cut:], KEY_PASSWORD)
    except (jks.FormatError, jks.PasswordError):
        pass


@pytest.mark.parametrize("salt", [b"abcdabcd", b"abcdefgh"])
def test_the_key_of_jceks_needs_a_salt_of_eight_bytes(salt: bytes) -> None:
    with pytest.raises(jks.PasswordError):
        jks._unprotect_jceks(bytes(16), "x", salt, 1)
    for wrong, iterations in ((salt[:7], 1), (salt, 0), (salt, jks.MAX_ITERATIONS + 1)):
        with pytest.raises(jks.FormatError, match="invalid parameters"):
            jks._unprotect_jceks(bytes(16), "x", wrong, iterations)


@STORES
def test_the_key_has_its_own_password(data: bytes) -> None:
    key = read_private_key(data, None, PASSWORD, KEY_PASSWORD)
    assert key.pem.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert not key.encrypted
    with pytest.raises(StoreError, match="private key is wrong") as raised:
        read_private_key(data, None, PASSWORD, None)
    assert raised.value.subject == "key password"


def _entry(tag: int) -> bytes:
    return jks.JKS + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + tag.to_bytes(4, "big") + bytes(40)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (jks.JKS, "too short"),
        (jks.JKS + bytes(40), "version 0: expected 1 or 2"),
        (_entry(3), "a secret key, which TLS does not use"),
        (_entry(9), "an entry of unknown type 9"),
        (_entry(2), "a certificate of type '': expected X.509"),
        (jks.JKS + (2).to_bytes(4, "big") + bytes(44), "20 bytes follow its last entry"),
        (JKS[:200] + bytes(20), "ends in the middle of an entry, at byte 200"),
    ],
)
def test_damaged_stores(data: bytes, text: str) -> None:
    with pytest.raises(jks.FormatError, match=text):
        jks.parse(data, None)
