"""A Kerberos realm: an MIT KDC in a folder, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.kafka.config import HOST

REALM = "AIOKPROTO.TEST"
START_SECONDS = 60.0
# Administrators' programs aren't on every user's path.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


class KdcError(Exception):
    """A program of Kerberos failed; the text has its output."""


def missing() -> str | None:
    """Return what this machine lacks to run a KDC, or None."""
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if lacking:
        return f"{' and '.join(lacking)} not found: install MIT Kerberos (Debian: krb5-kdc krb5-admin-server krb5-user)"
    return None


class Kdc:
    """A realm with its KDC in a folder. `start` makes both. Another process can use them with the same folder.

    ``options`` override those in the section ``[libdefaults]`` of ``krb5.conf``.
    """

    def __init__(self, folder: Path, port: int = 0, options: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._port = port
        self._options = dict(options or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def krb5_conf(self) -> Path:
        return self._folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which Kerberos' library and programs find this realm, and none of this machine's
        tickets."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self._folder / 'default.ccache'}",
            "KRB5_CLIENT_KTNAME": f"FILE:{self._folder / 'default.keytab'}",
            "KRB5RCACHENAME": f"file2:{self._folder / 'replays'}",
        }

    def start(self) -> int:
        """Make the realm, and start its KDC. Return the KDC's process id."""
        self._folder.mkdir(parents=True, exist_ok=True)
        defaults = {
            "default_realm": REALM,
            # Names are used as they are, so that no test depends on this machine's DNS.
            "dns_lookup_kdc": "false",
            "dns_lookup_realm": "false",
            "dns_canonicalize_hostname": "false",
            "rdns": "false",
            "dns_uri_lookup": "false",
            **self._options,
        }
        lines = "".join(f"    {name} = {value}\n" for name, value in defaults.items())
        self.krb5_conf.write_text(
            f"[libdefaults]\n{lines}[realms]\n    {REALM} = {{\n        kdc = {HOST}:{self._port}\n    }}\n"
        )
        (self._folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n    kdc_listen = {HOST}:{self._port}\n    kdc_tcp_listen = {HOST}:{self._port}\n"
            f"[realms]\n    {REALM} = {{\n        database_name = {self._folder / 'principal'}\n"
            f"        key_stash_file = {self._folder / 'stash'}\n"
            f"        acl_file = {self._folder / 'kadm5.acl'}\n    }}\n"
            f"[logging]\n    kdc = FILE:{self._folder / 'kdc.log'}\n    default = FILE:{self._folder / 'kdc.log'}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the database")
        return self.run()

    def run(self) -> int:
        """Start the KDC of an existing realm. Return its process id."""
        program = shutil.which("krb5kdc", path=_PATH)
        assert program is not None, "checked by missing()"
        with (self._folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                [program, "-n", "-r", REALM],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection((HOST, self._port), START_SECONDS).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise KdcError(f"the KDC did not start:\n{(self._folder / 'console.log').read_text()}") from None
                time.sleep(0.01)
            else:
                return self._process.pid

    def stop(self) -> None:
        """Kill the KDC. The realm stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def add(self, principal: str, *options: str) -> None:
        """Add a principal with random keys, with options of kadmin's ``addprinc``."""
        self.kadmin(f"addprinc -randkey {' '.join(options)} {principal}")

    def keytab(self, name: str, *principals: str) -> Path:
        """Write the keys of principals into a keytab."""
        file = self._folder / f"{name}.keytab"
        self.kadmin(f"ktadd -norandkey -k {file} {' '.join(principals)}")
        return file

    def kadmin(self, query: str) -> str:
        """Administer the realm."""
        return self._run("kadmin.local", "-r", REALM, "-q", query)

    def kinit(self, name: str, principal: str, keytab: Path, *options: str) -> Path:
        """Get a ticket. Return the file of the credential cache."""
        file = self._folder / f"{name}.ccache"
        self._run("kinit", "-c", f"FILE:{file}", "-k", "-t", str(keytab), *options, principal)
        return file

    def _run(self, program: str, *arguments: str) -> str:
        path = shutil.which(program, path=_PATH)
        assert path is not None, "checked by missing()"
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            [path, *arguments], env=environment, capture_output=True, text=True, timeout=START_SECONDS
        )
        # kadmin.local always exits with 0, and reports an error as "command: cause".
        if done.returncode or (program == "kadmin.local" and ": " in done.stderr):
            raise KdcError(f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout
