"""The options of GSSAPI, with and without its library."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiokproto.config import ClusterConfig
from aiokproto.errors import ConfigurationError
from aiokproto.security import Gssapi

GSSAPI = {"bootstrap_servers": "localhost", "security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the package is installed."""
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))


def parse(**options: Any) -> ClusterConfig:
    return ClusterConfig.parse({**GSSAPI, **options})


@pytest.mark.parametrize("name", ["GSSAPI", "gssapi"])
def test_the_mechanism_by_its_name(library: None, name: str) -> None:
    sasl = parse(sasl_mechanism=name).sasl
    assert isinstance(sasl, Gssapi)
    assert repr(sasl) == "Gssapi(service_name='kafka', principal=None)"


def test_all_options(library: None) -> None:
    sasl = parse(
        sasl_kerberos_service_name="brokers",
        sasl_kerberos_domain_name="example.com",
        sasl_kerberos_principal="alice@EXAMPLE.COM",
        sasl_kerberos_keytab=Path("alice.keytab"),
    ).sasl
    assert repr(sasl) == "Gssapi(service_name='brokers', principal='alice@EXAMPLE.COM')"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"sasl_kerberos_keytab": "a", "sasl_kerberos_ccache": "b"},
            "keytab and sasl_kerberos_ccache are given: expected",
        ),
        ({"sasl_kerberos_service_name": ""}, "sasl_kerberos_service_name='': expected text"),
        ({"sasl_kerberos_domain_name": 5}, "sasl_kerberos_domain_name=5: expected text"),
        ({"sasl_kerberos_principal": "a\0b"}, "sasl_kerberos_principal=.*: expected text"),
        ({"sasl_kerberos_keytab": b"a"}, "sasl_kerberos_keytab: expected the path of a file, got bytes$"),
        ({"sasl_kerberos_ccache": ""}, "sasl_kerberos_ccache='': expected text"),
        ({"sasl_username": "alice"}, "sasl_username is no option of sasl_mechanism='GSSAPI'"),
        ({"sasl_mechanism": "PLAIN", "sasl_kerberos_keytab": "a"}, "sasl_kerberos_keytab is no option of .*'PLAIN'"),
        ({"sasl_kerberos_kinit_cmd": "kinit"}, "leave it out: with sasl_kerberos_keytab"),
        ({"sasl_kerberos_name": "kafka/host"}, "use sasl_kerberos_service_name and sasl_kerberos_domain_name"),
    ],
)
def test_options_that_are_not_accepted(library: None, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(**options)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"needs the package gssapi .*: pip install 'aiokproto\[gssapi\]'"):
        parse()
    with pytest.raises(ConfigurationError, match=r"pip install 'aiokproto\[gssapi\]'"):
        Gssapi(keytab="alice.keytab")
