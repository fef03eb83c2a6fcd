"""Certificates, keys and keystores in all formats, made in a folder."""

from __future__ import annotations

import datetime
import ssl
import subprocess
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import pkcs12

from aiokproto.broker.security.tls import AlertingObject
from tests.java.starting import QUICK
from tools.setup.system import find_java

PASSWORD = "store-secret"
KEY_PASSWORD = "key-secret"
NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


class Files:
    """Paths in the folder of :func:`make`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def options(self, how: str, **more: Any) -> dict[str, Any]:
        """A client's options, which give the authorities and a client certificate in one of several ways."""
        return {"security_protocol": "SSL", **self._options()[how], **more}

    def _options(self) -> dict[str, dict[str, Any]]:
        stores = {
            kind: {
                "ssl_truststore_location": self[f"trusted.{kind}"],
                "ssl_truststore_password": PASSWORD,
                "ssl_keystore_location": self[f"client.{kind}"],
                "ssl_keystore_password": PASSWORD,
            }
            for kind in ("p12", "jks", "jceks")
        }
        stores["jks"]["ssl_key_password"] = KEY_PASSWORD
        return {
            **stores,
            "files": {
                "ssl_cafile": self["ca.pem"],
                "ssl_certfile": self["client.pem"],
                "ssl_keyfile": self["client.key"],
            },
            "encrypted": {
                "ssl_cafile": str(self["ca.pem"]),
                "ssl_certfile": str(self["client.pem"]),
                "ssl_keyfile": str(self["client.encrypted.key"]),
                "ssl_password": lambda: KEY_PASSWORD,
            },
            "one file": {"ssl_cafile": self["ca.pem"], "ssl_certfile": self["client.both.pem"]},
            "java pem": {
                "ssl_truststore_location": self["ca.pem"],
                "ssl_truststore_type": "PEM",
                "ssl_keystore_location": self["client.both.pem"],
                "ssl_keystore_type": "PEM",
            },
            "text": {
                "ssl_truststore_certificates": self.text("ca.pem"),
                "ssl_keystore_certificate_chain": self.text("client.pem"),
                "ssl_keystore_key": self["client.encrypted.key"],
                "ssl_key_password": KEY_PASSWORD,
            },
            "no certificate": {"ssl_cafile": self["ca.pem"]},
            **{
                name: {"ssl_cafile": self["ca.pem"], "ssl_certfile": self[f"{name}.both.pem"]}
                for name in ("expired", "stranger")
            },
        }

    def server(self, name: str = "broker", *, client_auth: bool = False) -> ssl.SSLContext:
        """The context of a listener with one of the certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # asyncio itself sends no alert.
        context.sslobject_class = AlertingObject
        context.load_cert_chain(self[f"{name}.both.pem"])
        if client_auth:
            context.load_verify_locations(self["ca.pem"])
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make(folder: Path) -> Files:
    """Make a certificate authority and the certificates that it signs. Another authority signs ``stranger``."""
    folder.mkdir(exist_ok=True)
    files, authority, other = Files(folder), trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(str(files["ca.pem"]))
    other.cert_pem.write_to_path(str(files["other-ca.pem"]))
    hosts = ("127.0.0.1", "localhost")
    _write(files, "broker", authority.issue_cert(*hosts))
    _write(files, "elsewhere", authority.issue_cert("elsewhere.example.org", "10.0.0.1"))
    # Only its subject names the host.
    _write(files, "subject", authority.issue_cert("broker@example.org", common_name="localhost"))
    _write(files, "foreign", other.issue_cert(*hosts))
    _write(files, "past", authority.issue_cert(*hosts, not_before=NOW - 9 * DAY, not_after=NOW - DAY))
    _write(files, "future", authority.issue_cert(*hosts, not_before=NOW + DAY, not_after=NOW + 9 * DAY))
    _write(files, "client", authority.issue_cert("client@example.org", common_name="alice"))
    _write(files, "expired", authority.issue_cert("old@example.org", not_before=NOW - 9 * DAY, not_after=NOW - DAY))
    _write(files, "stranger", other.issue_cert("client@example.org", common_name="alice"))
    (files["revoked.pem"]).write_bytes(_revocations(authority, files))
    authorities = [pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority.cert_pem.bytes()), b"ca")]
    protected = form.BestAvailableEncryption(PASSWORD.encode())
    files["trusted.p12"].write_bytes(pkcs12.serialize_java_truststore(authorities, protected))
    return files


def _write(files: Files, name: str, issued: trustme.LeafCert) -> None:
    traditional, chain = issued.private_key_pem.bytes(), b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    loaded: Any = form.load_pem_private_key(traditional, None)
    # Java reads only PKCS#8.
    key = loaded.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    files[f"{name}.key"].write_bytes(traditional)
    files[f"{name}.pkcs8.key"].write_bytes(key)
    files[f"{name}.pem"].write_bytes(chain)
    files[f"{name}.both.pem"].write_bytes(key + chain)
    encryption = form.BestAvailableEncryption(KEY_PASSWORD.encode())
    files[f"{name}.encrypted.key"].write_bytes(
        loaded.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption)
    )
    certificate, *more = x509.load_pem_x509_certificates(chain)
    store = pkcs12.serialize_key_and_certificates(
        name.encode(), loaded, certificate, more, form.BestAvailableEncryption(PASSWORD.encode())
    )
    files[f"{name}.p12"].write_bytes(store)


def _revocations(authority: trustme.CA, files: Files) -> bytes:
    signer: Any = form.load_pem_private_key(authority.private_key_pem.bytes(), None)
    certificate = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    revoked = x509.load_pem_x509_certificate(files["broker.pem"].read_bytes())
    entry = x509.RevokedCertificateBuilder().serial_number(revoked.serial_number).revocation_date(NOW - DAY).build()
    builder = x509.CertificateRevocationListBuilder().issuer_name(certificate.subject)
    builder = builder.last_update(NOW - DAY).next_update(NOW + DAY).add_revoked_certificate(entry)
    return builder.sign(signer, SHA256()).public_bytes(form.Encoding.PEM)


def add_java_stores(files: Files, *names: str) -> None:
    """Let Java's keytool write JKS and JCEKS stores with these keys and certificates."""
    java = find_java()
    assert java is not None, "the caller has checked"
    # keytool ignores the variable with the options of `java`.
    keytool = [str(Path(java).with_name("keytool")), *(f"-J{option}" for option in QUICK.split())]

    def run(*arguments: str) -> None:
        subprocess.run([*keytool, *arguments], check=True, capture_output=True, timeout=60)

    for kind in ("jks", "jceks"):
        trusted = str(files[f"trusted.{kind}"])
        where = ("-keystore", trusted, "-storetype", kind, "-storepass", PASSWORD)
        run("-importcert", "-noprompt", "-alias", "ca", "-file", str(files["ca.pem"]), *where)
        for name in names:
            # The key in JKS has a password of its own, as is common.
            key_password = KEY_PASSWORD if kind == "jks" else PASSWORD
            source = ("-srckeystore", str(files[f"{name}.p12"]), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD)
            target = ("-destkeystore", str(files[f"{name}.{kind}"]), "-deststoretype", kind)
            passwords = ("-deststorepass", PASSWORD, "-destkeypass", key_password, "-srcalias", name)
            run("-importkeystore", "-noprompt", *source, *target, *passwords)
