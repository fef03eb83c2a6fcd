"""Creates an :class:`ssl.SSLContext` from options and the contents of their files and texts."""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aiokproto.errors import ConfigurationError
from aiokproto.security.tls.defaults import by_alternative_names
from aiokproto.security.tls.options import StoreOptions, TlsOptions
from aiokproto.security.tls.stores import (
    TYPES,
    StoreError,
    read_certificates,
    read_private_key,
    read_revocations,
    to_pem,
)


class ClientContext(ssl.SSLContext):
    """A client's context that remembers the client's own certificate (DER); Python's class doesn't provide it."""

    certificate: bytes | None = None


_MISMATCH = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")


def client_context(options: TlsOptions, contents: Mapping[str, bytes], secrets: Mapping[str, str]) -> ClientContext:
    """Return the context of a client. This blocks: reading the system's authorities takes 10 ms.

    Args:
        options: The options.
        contents: The contents of the options' files, by option.
        secrets: Passwords and texts, by option.

    Raises:
        ConfigurationError: A file or text can't be used. The error names the option and the file, and doesn't contain
            secrets.
    """
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    by_alternative_names(context)
    context.check_hostname = options.check_hostname
    # As in Java, a trusted certificate ends the chain even if it isn't a root. Don't set Python's VERIFY_X509_STRICT:
    # it requires extensions that keytool and many scripts leave out when they create a company's own authorities.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if options.trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    context.certificate = _load(context, options, contents, secrets)
    if options.crl:
        with _reported(options, StoreOptions(options.crl)):
            load_revocations(context, contents[options.crl])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN if options.crl_chain else ssl.VERIFY_CRL_CHECK_LEAF
    return context


def server_context(options: TlsOptions, contents: Mapping[str, bytes], secrets: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context of a listener. See :func:`client_context` for arguments and errors."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _load(context, options, contents, secrets)
    return context


def load_revocations(context: ssl.SSLContext, data: bytes) -> None:
    """Add the revocation lists in a file. If there are several of the same authority, OpenSSL uses the latest.

    Raises:
        StoreError: The file doesn't contain a list, or one is damaged.
    """
    with _as_file(read_revocations(data)) as path:
        try:
            context.load_verify_locations(path)
        except ssl.SSLError:
            raise StoreError("an X509 CRL in it is damaged") from None


def _load(
    context: ssl.SSLContext, options: TlsOptions, contents: Mapping[str, bytes], secrets: Mapping[str, str]
) -> bytes | None:
    """Load everything that clients and listeners have in common. Return the context's own certificate."""
    context.minimum_version, context.maximum_version = options.lowest, options.highest
    if options.ciphers is not None:
        context.set_ciphers(options.ciphers)
    if options.trusted is not None:
        _load_trusted(context, options, options.trusted, _content(options.trusted.option, contents, secrets), secrets)
    return None if options.key is None else _load_key(context, options, options.key, contents, secrets)


def _load_trusted(
    context: ssl.SSLContext, options: TlsOptions, store: StoreOptions, data: bytes, secrets: Mapping[str, str]
) -> None:
    with _reported(options, store):
        certificates = read_certificates(data, store.kind, secrets.get(store.password))
        try:
            context.load_verify_locations(cadata=b"".join(certificates))
        except ssl.SSLError as error:
            raise StoreError(f"a certificate in it is damaged ({error.reason})") from None


def _load_key(
    context: ssl.SSLContext,
    options: TlsOptions,
    store: StoreOptions,
    contents: Mapping[str, bytes],
    secrets: Mapping[str, str],
) -> bytes:
    password = secrets.get(store.key_password)
    with _reported(options, store):
        key = read_private_key(
            _content(store.option, contents, secrets), store.kind, secrets.get(store.password), password
        )
        if key.encrypted and password is None:
            raise StoreError("its private key is encrypted, and its password is missing", "key password")
    chain, chain_store = key.chain, StoreOptions(options.chain or store.option, "PEM")
    with _reported(options, chain_store):
        if options.chain:
            chain = read_certificates(_content(options.chain, contents, secrets), "PEM", None)
        if not chain:
            raise StoreError("it has no certificate for its private key")
    with _reported(options, store), _as_file(key.pem + to_pem(chain)) as path:
        try:
            # Always pass a password, or OpenSSL prompts for one on the terminal.
            context.load_cert_chain(path, password=password or "")
        except ssl.SSLError as error:
            if error.reason in _MISMATCH:
                where = f" in {_named(options, options.chain)}" if options.chain else ""
                raise StoreError(
                    f"its private key is not that of the first certificate{where}: the client's own comes first"
                ) from None
            if key.encrypted:
                old = ", or OpenSSL has its encryption no more: write it anew with `openssl pkcs8 -topk8 -v2 aes256`"
                raise StoreError(
                    f"its private key cannot be decrypted: the password is wrong{old if key.outdated else ''}",
                    "key password",
                ) from None
            raise StoreError(f"its private key or a certificate cannot be used ({error.reason or error})") from None
        except ValueError:
            raise StoreError("its password is longer than OpenSSL accepts, 1024 bytes", "key password") from None
    return chain[0]


def _content(option: str, contents: Mapping[str, bytes], secrets: Mapping[str, str]) -> bytes:
    return contents[option] if option in contents else secrets[option].encode()


@contextmanager
def _reported(options: TlsOptions, store: StoreOptions) -> Iterator[None]:
    """Convert a StoreError to an error that names the option and the file."""
    try:
        yield
    except StoreError as error:
        about = {"password": store.password, "key password": store.key_password}.get(error.subject)
        # By default, a key in PKCS#12, JKS or JCEKS has the same password as the file.
        asks = f" ({about})" if about else ""
        if error.subject == "type" and store.kind_option:
            known = ", ".join(map(repr, TYPES))
            asks = f"; {store.kind_option} is one of {known}, and without it the file says what it is"
        raise ConfigurationError(f"{_named(options, store.option)}: {error}{asks}") from None


def _named(options: TlsOptions, option: str) -> str:
    return f"{option}={str(options.files[option])!r}" if option in options.files else option


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Write data to a temporary file: OpenSSL reads private keys and revocation lists only from files.

    On Linux the file is in memory. Elsewhere it's in a folder that no other user can read, and is removed afterwards.
    """
    if sys.platform == "linux" and Path("/proc/self/fd").exists():
        descriptor = os.memfd_create("aiokproto", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="aiokproto-") as folder:
            path = Path(folder) / "pem"
            path.write_bytes(data)
            yield str(path)
