"""The options of TLS: which belong together, and what each mistake says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.errors import BrokerConnectionError, ConfigurationError
from aiokproto.security.tls.contexts import OptionContexts
from aiokproto.security.tls.options import TLS_OPTIONS, parse_tls
from tests.security.certificates import KEY_PASSWORD, PASSWORD, Files, make


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make(tmp_path_factory.mktemp("tls"))


async def context(**options: Any) -> ssl.SSLContext:
    config = ClusterConfig.parse({"bootstrap_servers": "a:1", "security_protocol": "SSL", **options})
    assert config.tls is not None
    return await config.tls.context()


def test_every_option_is_declared() -> None:
    assert {name for name in ConnectionOptions.__annotations__ if name.startswith("ssl_")} == {
        *TLS_OPTIONS,
        "ssl_context",
        "ssl_server_hostname",
    }


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"ssl_cafile": "a", "ssl_truststore_location": "b"},
            "ssl_cafile and ssl_truststore_location are given:",
        ),
        ({"ssl_certfile": "a", "ssl_keystore_location": "b"}, "ssl_certfile and ssl_keystore_location are given"),
        (
            {"ssl_check_hostname": True, "ssl_endpoint_identification_algorithm": ""},
            "ssl_check_hostname and ssl_endpoint_identification_algorithm are given",
        ),
        ({"ssl_ciphers": "a", "ssl_cipher_suites": "b"}, "ssl_ciphers and ssl_cipher_suites are given"),
        ({"ssl_keyfile": "a"}, "ssl_keyfile is given without ssl_certfile"),
        ({"ssl_password": "a"}, "ssl_password is given without ssl_certfile"),
        ({"ssl_truststore_password": "a"}, "ssl_truststore_password is given without ssl_truststore_location"),
        ({"ssl_keystore_key": "a"}, "ssl_keystore_key is given without ssl_keystore_certificate_chain"),
        ({"ssl_keystore_certificate_chain": "a"}, "ssl_keystore_certificate_chain is given without ssl_keystore_key"),
        (
            {"ssl_key_password": "a"},
            "ssl_key_password is given without ssl_keystore_location or ssl_keystore_key; that of ssl_keyfile is ssl_p",
        ),
        ({"ssl_truststore_type": "x", "ssl_truststore_location": "a"}, "ssl_truststore_type='x': expected 'PEM' or"),
        (
            {"ssl_truststore_type": "JKS", "ssl_truststore_certificates": "a"},
            "ssl_truststore_type='JKS': certificates given as text are 'PEM'",
        ),
        ({"ssl_check_hostname": "no"}, "ssl_check_hostname='no': expected True or False"),
        ({"ssl_endpoint_identification_algorithm": "LDAPS"}, "'LDAPS': expected 'https', or ''"),
        ({"ssl_enabled_protocols": "TLSv1.1,TLSv1.2"}, "ssl_enabled_protocols: 'TLSv1.1': expected 'TLSv1.2' and"),
        ({"ssl_enabled_protocols": 3}, "ssl_enabled_protocols=3: expected names separated by commas, or a list"),
        ({"ssl_ciphers": "NONSENSE"}, "ssl_ciphers='NONSENSE': OpenSSL"),
        ({"ssl_ciphers": 1}, "ssl_ciphers=1: expected text"),
        ({"ssl_ciphers": "aNULL:@SECLEVEL=0"}, "none of these ciphers authenticates the broker, and encrypts"),
        ({"ssl_ciphers": "eNULL:@SECLEVEL=0"}, "none of these ciphers authenticates the broker, and encrypts"),
        ({"ssl_cipher_suites": "TLS_DH_anon_WITH_AES_128_GCM_SHA256"}, "is no cipher suite that OpenSSL"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_NULL_SHA256"}, "is no cipher suite that OpenSSL"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_ROT13"}, "'TLS_RSA_WITH_ROT13' is no cipher suite that OpenSSL"),
        (
            {"ssl_cipher_suites": ["TLS_AES_128_GCM_SHA256"]},
            "among the suites of TLS 1.3: name TLS_AES_256",
        ),
        (
            {
                "ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ssl_enabled_protocols": "TLSv1.3",
            },
            "ssl_cipher_suites has no suite of ssl_enabled_protocols",
        ),
        ({"ssl_ciphers": "ALL\0:aNULL"}, "ssl_ciphers='ALL\\x00:aNULL': expected text"),
        ({"ssl_ciphers": "ALL\udcff"}, "ssl_ciphers='ALL\\udcff': expected text"),
        ({"ssl_cafile": 3}, "ssl_cafile: expected the path of a file, got int"),
        ({"ssl_cafile": ""}, "ssl_cafile: expected the path of a file, got an empty text"),
        ({"ssl_keystore_password": 3, "ssl_keystore_location": "a"}, "ssl_keystore_password: expected text"),
        (
            {"ssl_context": ssl.create_default_context(), "ssl_cafile": "a"},
            "ssl_cafile has no effect: ssl_context",
        ),
        (
            {"security_protocol": "PLAINTEXT", "ssl_cafile": "a"},
            "but security_protocol is 'PLAINTEXT'",
        ),
    ],
)
def test_options_that_do_not_belong_together(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ClusterConfig.parse({"bootstrap_servers": "a:1", "security_protocol": "SSL", **options})
    assert error in str(raised.value)


def test_a_key_in_place_of_a_file_is_not_shown(files: Files) -> None:
    key = files.text("client.key")
    with pytest.raises(ConfigurationError, match=r"ssl_certfile: expected the path of a file") as raised:
        parse_tls({"ssl_certfile": key})
    assert "PRIVATE" not in str(raised.value)


@pytest.mark.parametrize("name", ["ssl_certfile", "ssl_keyfile", "ssl_keystore_location"])
@pytest.mark.parametrize("form", [str.encode, lambda key: bytearray(key.encode()), lambda key: [key], Path])
def test_a_key_in_another_form_is_not_shown_either(files: Files, name: str, form: Callable[[str], Any]) -> None:
    key = files.text("client.key")
    beside = {"ssl_certfile": "a"} if name == "ssl_keyfile" else {}
    with pytest.raises(ConfigurationError, match=rf"{name}: expected the path of a file") as raised:
        parse_tls({**beside, name: form(key)})
    assert "PRIVATE" not in str(raised.value)


def test_all_options_can_be_spelled_in_another_way() -> None:
    with pytest.raises(ConfigurationError, match=r"^ssl\.keyfile is given without ssl\.certfile$"):
        parse_tls({"ssl_keyfile": "a"}, lambda name: name.replace("_", "."))


NOT_USABLE: dict[str, tuple[dict[str, str], str]] = {
    "no such file": ({"ssl_cafile": "nowhere.pem"}, r"ssl_cafile='.*nowhere.pem' cannot be read: no such file"),
    "a folder": ({"ssl_cafile": "."}, r"ssl_cafile='.*' cannot be read: is a directory"),
    "a file that is no PEM": ({"ssl_cafile": "noise"}, "it is neither PEM nor PKCS#12 nor JKS"),
    "an empty file": ({"ssl_cafile": "empty"}, "it is empty"),
    "a key in place of a certificate": ({"ssl_cafile": "client.key"}, "it has no CERTIFICATE, only .*PRIVATE KEY"),
    "PKCS12 in place of PEM": (
        {"ssl_cafile": "trusted.p12"},
        "it is no PEM but PKCS#12: convert it with `openssl pkcs12`",
    ),
    "a certificate in DER": ({"ssl_cafile": "ca.der"}, "it is DER: convert it to PEM with `openssl x509 -inform der`"),
    "a truststore in DER": (
        {"ssl_truststore_location": "ca.der", "ssl_truststore_password": f"={PASSWORD}"},
        "it is DER: convert it to PEM",
    ),
    "a revocation list in DER": ({"ssl_crlfile": "ca.der"}, "it is DER: .*revocation list with `openssl crl"),
    "an empty revocation list": ({"ssl_crlfile": "empty"}, "ssl_crlfile='.*': it is empty"),
    "a damaged revocation list": ({"ssl_crlfile": "damaged.crl"}, "ssl_crlfile='.*': an X509 CRL in it is damaged"),
    "half a file": ({"ssl_cafile": "half.pem"}, "it is incomplete: CERTIFICATE has no end"),
    "a damaged certificate": (
        {"ssl_cafile": "damaged.pem"},
        "(?i)a certificate in it is damaged",
    ),
    "a certificate without its key": ({"ssl_certfile": "client.pem"}, "it has no PRIVATE KEY, only CERTIFICATE"),
    "a key without its certificate": (
        {"ssl_certfile": "client.key", "ssl_keyfile": "client.key"},
        "ssl_certfile='.*client.key': it has no CERTIFICATE",
    ),
    "a key that does not fit": (
        {"ssl_certfile": "client.pem", "ssl_keyfile": "broker.key"},
        "ssl_keyfile='.*broker.key': its private key is not that of the first certificate in ssl_certfile='.*client",
    ),
    "no password": (
        {"ssl_certfile": "client.pem", "ssl_keyfile": "client.encrypted.key"},
        r"encrypted, and its password is missing \(ssl_password\)",
    ),
    "a wrong password": (
        {"ssl_certfile": "client.pem", "ssl_keyfile": "client.encrypted.key", "ssl_password": "=wrong-one"},
        r"cannot be decrypted: the password is wrong \(ssl_password\)",
    ),
    "a password that is too long": (
        {"ssl_certfile": "client.pem", "ssl_keyfile": "client.encrypted.key", "ssl_password": "=wrong-one" * 200},
        r"its password is longer than OpenSSL accepts, 1024 bytes \(ssl_password\)",
    ),
    "an old encryption": (
        {"ssl_certfile": "client.pem", "ssl_keyfile": "old.key", "ssl_password": f"={KEY_PASSWORD}"},
        r"the password is wrong, or OpenSSL has its encryption no more: .*`openssl pkcs8 .*\(ssl_password\)",
    ),
    "a truststore without its password": (
        {"ssl_truststore_location": "trusted.p12"},
        r"its password is missing, or it is no PKCS#12 \(ssl_truststore_password\)",
    ),
    "a wrong password of the truststore": (
        {"ssl_truststore_location": "trusted.p12", "ssl_truststore_password": "=wrong-one"},
        r"its password is wrong, .*\(ssl_truststore_password\)",
    ),
    "a keystore without its password": (
        {"ssl_keystore_location": "client.p12"},
        r"its password is missing \(ssl_keystore_password\)",
    ),
    "a keystore without a key": (
        {"ssl_keystore_location": "trusted.p12", "ssl_keystore_password": f"={PASSWORD}"},
        "it has no private key",
    ),
    "another type": (
        {"ssl_truststore_location": "ca.pem", "ssl_truststore_type": "=PKCS12"},
        "it is PEM: expected PKCS12; ssl_truststore_type is one of 'PEM', 'PKCS12', 'JKS', 'JCEKS', and without it",
    ),
    "another type of keystore": (
        {"ssl_keystore_location": "client.p12", "ssl_keystore_type": "=PEM"},
        r"it is no PEM but PKCS#12: convert it with `openssl pkcs12`; ssl_keystore_type is one of 'PEM', 'PKCS12'",
    ),
    "no revocation list": ({"ssl_crlfile": "ca.pem"}, "ssl_crlfile='.*ca.pem': it has no X509 CRL"),
}


# This is pbeWithMD5AndDES-CBC, which OpenSSL lacks without its legacy provider; the rest is noise.
OLD_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MCYwGwYJKoZIhvcNAQUDMA4ECAAAAAAAAAAAAgIIAAQHAAAAAAAAAA==
-----END ENCRYPTED PRIVATE KEY-----
"""


@pytest.mark.parametrize("name", NOT_USABLE)
async def test_files_that_cannot_be_used(files: Files, name: str) -> None:
    """The error has the option, the file and the remedy, but no password."""
    certificate = files.text("ca.pem")
    files["noise"].write_bytes(b"\x00\x01noise")
    files["empty"].write_bytes(b"\n")
    files["half.pem"].write_text(certificate + certificate[: len(certificate) // 2])
    files["damaged.pem"].write_text(certificate.replace(certificate[200:220], "A" * 20))
    files["ca.der"].write_bytes(ssl.PEM_cert_to_DER_cert(certificate))
    files["damaged.crl"].write_text("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n")
    files["old.key"].write_text(OLD_KEY)
    options, error = NOT_USABLE[name]
    given = {option: value[1:] if value[0] == "=" else files[value] for option, value in options.items()}
    with pytest.raises(ConfigurationError, match=error) as raised:
        await context(**given)
    assert "wrong-one" not in str(raised.value)
    assert next(iter(options)) in str(raised.value) or "ssl_keyfile" in str(raised.value)


@pytest.mark.parametrize("middle", [b"", b"\xef\xbb\xbf"])
async def test_a_byte_order_mark_hides_no_certificate(files: Files, middle: bytes) -> None:
    """Editors on Windows write one, and joined files have it in the middle."""
    both = b"\xef\xbb\xbf" + files["ca.pem"].read_bytes() + middle + files["other-ca.pem"].read_bytes()
    files["marked.pem"].write_bytes(both.replace(b"\n", b"\r\n"))
    assert len((await context(ssl_cafile=files["marked.pem"])).get_ca_certs()) == 2


async def test_files_of_passwords_and_texts_are_read_in_a_thread(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop waits for no file system."""
    threads: list[int] = []
    opened = Path.open

    def remember(path: Path, *given: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return opened(path, *given, **options)

    (tmp_path / "password").write_text(KEY_PASSWORD)
    monkeypatch.setattr(Path, "open", remember)
    await context(
        ssl_keystore_key=files["client.encrypted.key"],
        ssl_keystore_certificate_chain=files["client.pem"],
        ssl_key_password=tmp_path / "password",
    )
    assert len(threads) == 3
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("line_end", "text"),
    [
        (r"\n", r"its line ends are written as '\\n': pass real ones"),
        (" ", "are not lines of their own"),
        ("", "are not lines"),
    ],
)
@pytest.mark.parametrize("ending", [True, False])
async def test_a_key_that_has_lost_its_line_ends_is_not_shown(
    files: Files, line_end: str, text: str, ending: bool
) -> None:
    lines = files["client.key"].read_text().split("\n")
    key = line_end.join(lines if ending else lines[:-1])
    given = {"ssl_keystore_key": key, "ssl_keystore_certificate_chain": files["client.pem"].read_text()}
    with pytest.raises(ConfigurationError, match=rf"^ssl_keystore_key: it has no PRIVATE KEY, as .*{text}") as raised:
        await context(**given)
    assert not any(line in str(raised.value) for line in lines[1:-2])


@pytest.mark.parametrize("text", ["/etc/ssl/ca.pem", r"C:\kafka\ca.crt", "ca.pem"])
async def test_a_path_in_place_of_text_says_how_to_pass_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"neither PEM .*: for a file that has it, pass a pathlib\.Path$"):
        await context(ssl_truststore_certificates=text)


async def test_a_file_that_is_too_long(files: Files) -> None:
    files["long.pem"].write_bytes(bytes((4 << 20) + 1))
    with pytest.raises(ConfigurationError, match="it is longer than 4 MiB"):
        await context(ssl_cafile=files["long.pem"])


async def test_a_function_that_gives_no_password_is_tried_again(files: Files) -> None:
    """It's tried again, as with SASL, because a secret store may be down for a moment."""

    def fails() -> str:
        raise OSError("the store is down")

    options = {"ssl_certfile": files["client.pem"], "ssl_keyfile": files["client.encrypted.key"]}
    with pytest.raises(BrokerConnectionError, match=r"ssl_password cannot be read: OSError \(its"):
        await context(**options, ssl_password=fails)


async def test_what_the_options_mean(files: Files) -> None:
    ssl_context = await context()
    assert (ssl_context.verify_mode, ssl_context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (ssl_context.minimum_version, ssl_context.maximum_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    ssl_context = await context(ssl_check_hostname=False)
    assert (ssl_context.verify_mode, ssl_context.check_hostname) == (ssl.CERT_REQUIRED, False)
    ssl_context = await context(ssl_enabled_protocols="TLSv1.3")
    assert ssl_context.minimum_version is ssl.TLSVersion.TLSv1_3
    ssl_context = await context(ssl_cipher_suites=["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])
    assert ssl_context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert [each["name"] for each in ssl_context.get_ciphers() if each["protocol"] != "TLSv1.3"] == [
        "ECDHE-RSA-AES128-GCM-SHA256"
    ]
    ssl_context = await context(ssl_ciphers="ECDHE+AESGCM")
    assert {each["name"].split("-")[0] for each in ssl_context.get_ciphers() if each["protocol"] != "TLSv1.3"} == {
        "ECDHE"
    }
    ssl_context = await context(ssl_cafile=files["ca.pem"])
    assert len(ssl_context.get_ca_certs(binary_form=True)) == 1


@pytest.mark.parametrize(
    ("suite", "cipher"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
    ],
)
async def test_suites_have_the_names_of_iana(suite: str, cipher: str) -> None:
    ssl_context = await context(ssl_cipher_suites=suite)
    assert cipher in [each["name"] for each in ssl_context.get_ciphers()]


@pytest.mark.parametrize("ciphers", ["ALL", "ALL:@SECLEVEL=0", "COMPLEMENTOFALL:ALL:@SECLEVEL=0", "ECDHE+AESGCM:aNULL"])
async def test_no_list_of_ciphers_brings_those_without_authentication_or_encryption(ciphers: str) -> None:
    ssl_context = await context(ssl_ciphers=ciphers)
    described = [each["description"] for each in ssl_context.get_ciphers()]
    assert [each for each in described if "Au=None" in each or "Enc=None" in each] == []
    assert any("ECDHE-RSA" in each for each in described)


def test_no_secret_is_shown(files: Files) -> None:
    options = parse_tls(
        {
            "ssl_keystore_key": files.text("client.key"),
            "ssl_keystore_certificate_chain": files.text("client.pem"),
            "ssl_key_password": KEY_PASSWORD,
        }
    )
    shown = f"{options!r} {OptionContexts(options)!r}"
    assert "PRIVATE" not in shown
    assert KEY_PASSWORD not in shown


async def test_pkcs12_without_its_library(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ConfigurationError, match=r"PKCS#12 needs .*: pip install aiokproto\[tls\]"):
        await context(ssl_truststore_location=files["trusted.p12"], ssl_truststore_password=PASSWORD)


async def test_a_file_has_a_password(files: Files, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    ssl_context = await context(
        ssl_truststore_location=files["trusted.p12"], ssl_truststore_password=tmp_path / "password"
    )
    assert len(ssl_context.get_ca_certs()) == 1


async def test_without_memory_files_a_key_is_in_a_folder_of_ours_for_a_moment(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is how it works on systems other than Linux."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await context(ssl_certfile=files["client.both.pem"], ssl_crlfile=files["revoked.pem"])
    assert list(tmp_path.iterdir()) == []
