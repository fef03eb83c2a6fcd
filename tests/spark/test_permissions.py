"""What options of strangers can reach: nothing, unless an administrator allows it outside of the query."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.connection import CLIENT, PROVIDER_OPTIONS
from aiokproto.spark.credentials import client_options
from aiokproto.spark.options import parse_connection, parse_read_options
from aiokproto.spark.payloads.options import RegistryOptions
from aiokproto.spark.payloads.registry import Registry
from aiokproto.spark.permissions import EVERYTHING, FUNCTIONS, PATHS, URLS, VARIABLES, steps_up
from aiokproto.spark.sink.options import parse_write_options

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
OAUTH = {**BASE, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = "kafka.sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = {f"kafka.sasl.oauthbearer.client.credentials.client.{name}": "x" for name in ("id", "secret")}


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EVERYTHING:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def imported() -> Callable[[], bool]:
    sys.modules.pop("colorsys", None)
    return lambda: "colorsys" in sys.modules


def reach(**options: str) -> dict[str, Any]:
    """What a stranger's options become on the machine that connects."""
    return client_options(parse_connection(options))


def everything(folder: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """The setting that allows each thing that options can name, and the options."""
    secret = folder / "secret"
    secret.write_text("password=s3cret\n")
    (folder / "template").write_text("{}")
    signing = "kafka.sasl.oauthbearer.assertion"
    url = {**OAUTH, ENDPOINT: "https://issuer.example/token"}
    return {
        "a file": (PATHS, {**BASE, "kafka.client.id": f"${{file:{secret}}}"}),
        "a property": (PATHS, {**BASE, "kafka.client.id": f"${{file:{secret}:password}}"}),
        "a directory": (PATHS, {**BASE, "kafka.client.id": f"${{directory:{folder}:secret}}"}),
        "a token in a file": (PATHS, {**OAUTH, ENDPOINT: secret.as_uri()}),
        "an assertion": (PATHS, {**url, f"{signing}.file": str(secret)}),
        "a key": (PATHS, {**url, f"{signing}.private.key.file": str(secret)}),
        "a template": (
            PATHS,
            {
                **url,
                f"{signing}.private.key.file": "${env:KEY_FILE}",
                f"{signing}.template.file": str(folder / "template"),
            },
        ),
        "a variable": (VARIABLES, {**BASE, "kafka.client.id": "${env:STRANGERS_AIM}"}),
        "an address": (URLS, {**OAUTH, **CREDENTIALS, ENDPOINT: "https://issuer.example/token"}),
        "a function": (FUNCTIONS, {**OAUTH, "aiokproto.sasl.token": "colorsys:rgb_to_hsv"}),
        "a function for AWS": (
            FUNCTIONS,
            {
                **OAUTH,
                "kafka.sasl.mechanism": "AWS_MSK_IAM",
                "aiokproto.sasl.aws.credentials": "colorsys:rgb_to_hsv",
            },
        ),
    }


NAMES = sorted(everything(Path("/tmp")))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_reached_by_default_and_the_error_names_the_setting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: Callable[[], bool]
) -> None:
    monkeypatch.setenv("STRANGERS_AIM", "s3cret")
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "secret"))
    setting, options = everything(tmp_path)[name]
    for other, value in EVERYTHING.items():
        if other != setting:
            monkeypatch.setenv(other, value)
    with pytest.raises(ConfigurationError, match=rf"is not allowed: .* {setting}, .*spark\.executorEnv\.{setting} "):
        reach(**options)
    assert not imported()
    monkeypatch.setenv(setting, EVERYTHING[setting])
    reach(**options)


def test_no_error_tells_whether_a_file_is_there(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    texts = []
    for name in ("there", "absent"):
        with pytest.raises(ConfigurationError) as raised:
            reach(**BASE, **{"kafka.client.id": f"${{file:{tmp_path}/{name}}}"})
        texts.append(str(raised.value).replace(name, ""))
    assert texts[0] == texts[1]


def test_a_password_that_is_looked_up_later_is_checked_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("s3cret")
    options = reach(
        **BASE,
        **{
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "etl",
            "kafka.sasl.password": f"${{file:{tmp_path}/password}}",
        },
    )
    with pytest.raises(ConfigurationError, match=f"by {PATHS}"):
        options["sasl_password"]()
    monkeypatch.setenv(PATHS, str(tmp_path))
    assert options["sasl_password"]() == "s3cret"


@pytest.mark.parametrize(
    ("allowed", "path", "found"),
    [
        ("{d}/in", "{d}/in/secret", True),
        ("/nowhere, {d}/in/", "{d}/in/secret", True),
        ("{d}/in/secret", "{d}/in/secret", True),
        ("{d}/in", "{d}/in/../in/secret", True),
        ("{d}/link", "{d}/in/secret", True),
        ("{d}/in", "{d}/inner", False),
        ("{d}/in", "{d}/in/../inner", False),
        ("{d}/in", "{d}/in/leads_out", False),
        ("{d}/in", "{d}/in/loop", False),
        ("{d}/in", "{d}/in/\0", False),
        ("", "{d}/in/secret", False),
        (",", "{d}/in/secret", False),
    ],
)
def test_paths_are_allowed_with_what_is_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, path: str, found: bool
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "secret").write_text("s3cret")
    (tmp_path / "inner").write_text("s3cret")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "in" / "leads_out").symlink_to("../inner")
    (tmp_path / "in" / "loop").symlink_to("loop")
    monkeypatch.setenv(PATHS, allowed.format(d=tmp_path))
    options = {**BASE, "kafka.client.id": f"${{file:{path.format(d=tmp_path)}}}"}
    if found:
        assert reach(**options)["client_id"] == "s3cret"
    else:
        with pytest.raises(ConfigurationError, match="is not allowed"):
            reach(**options)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("ETL_.*", "ETL_PASSWORD", True),
        ("ETL_PASSWORD|OTHER", "ETL_PASSWORD", True),
        ("ETL", "ETL_PASSWORD", False),
        (".*ETL", "ETL_PASSWORD", False),
        ("", "ETL_PASSWORD", False),
    ],
)
def test_the_whole_name_of_a_variable_must_match(
    monkeypatch: pytest.MonkeyPatch, pattern: str, name: str, found: bool
) -> None:
    monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv(VARIABLES, pattern)
    options = {**BASE, "kafka.client.id": f"${{env:{name}}}"}
    if found:
        assert reach(**options)["client_id"] == "s3cret"
    else:
        with pytest.raises(ConfigurationError, match="is not allowed"):
            reach(**options)


def test_a_pattern_that_is_none_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES, "(")
    with pytest.raises(ConfigurationError, match=f"{VARIABLES} is not a regular expression"):
        reach(**BASE, **{"kafka.client.id": "${env:HOME}"})


@pytest.mark.parametrize(
    ("allowed", "url", "found"),
    [
        ("https://idp.example/token", "https://idp.example/token", True),
        ("https://idp.example/token", "https://idp.example/token?key=a", True),
        ("https://idp.example", "https://idp.example/any/path", True),
        ("https://idp.example:443/", "HTTPS://IDP.example/token", True),
        ("http://x, https://idp.example/", "https://idp.example/token", True),
        ("*", "https://any.example/", True),
        ("https://idp.example/token", "https://idp.example/tokens", False),
        ("https://idp.example/token", "https://idp.example/", False),
        ("https://idp.example/a", "https://idp.example/a/../admin", False),
        ("https://idp.example/a", "https://idp.example/a/%2e%2E/admin", False),
        ("https://idp.example/a", "https://idp.example/a/%252e%252e/admin", False),
        ("https://idp.example/a", "https://idp.example/a/%25252e%25252e/admin", False),
        ("https://idp.example/a", "https://idp.example/a/..;/admin", False),
        ("https://idp.example/a", "https://idp.example/a/%2e%2e%3bx=1/admin", False),
        ("https://idp.example/a", "https://idp.example/a/..%00/admin", False),
        ("https://idp.example/a", "https://idp.example/a/.%0a.%20/admin", False),
        ("https://idp.example/a", "https://idp.example/a/..b;/c..%3b/...", True),
        ("https://idp.example/", "http://idp.example/", False),
        ("https://idp.example/", "https://idp.example:8443/", False),
        ("https://idp.example/", "https://idp.example.evil.example/", False),
        ("https://idp.example/", "https://idp.example@evil.example/", False),
        ("", "https://idp.example/", False),
    ],
)
def test_urls_are_allowed_with_what_is_below(
    monkeypatch: pytest.MonkeyPatch, allowed: str, url: str, found: bool
) -> None:
    monkeypatch.setenv(URLS, allowed)
    # Parsing refuses some of them already: this is about what comes from a reference, too.
    options = {"sasl_oauthbearer_token_endpoint_url": url}
    registry = RegistryOptions(url=url)
    if found:
        assert client_options(options) == options
    else:
        with pytest.raises(ConfigurationError, match="is not allowed"):
            client_options(options)
        with pytest.raises(ConfigurationError, match=r"^schema\.registry\.url"):
            Registry(registry)


def test_what_is_escaped_again_and_again_is_not_followed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry can send a megabyte of it as a subject."""
    calls: list[str] = []

    def counted(text: str) -> str:
        calls.append(text)
        return unquote(text)

    monkeypatch.setattr("aiokproto.spark.permissions.unquote", counted)
    assert not steps_up("%25252541")
    calls.clear()
    assert steps_up(f"%{'25' * 1000}41")
    assert len(calls) < 20


def test_a_registry_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"^schema\.registry\.url: the URL http://10\.0\.0\.1/admin is not al"):
        Registry(RegistryOptions(url="http://10.0.0.1/admin"))
    monkeypatch.setenv(URLS, "https://registry.example")
    Registry(RegistryOptions(url="https://registry.example"))
    with pytest.raises(ConfigurationError, match="is not allowed"):
        Registry(RegistryOptions(url="https://registry.example,http://10.0.0.1/admin"))


def test_functions_are_allowed_by_their_whole_names(
    monkeypatch: pytest.MonkeyPatch, imported: Callable[[], bool]
) -> None:
    options = {**OAUTH, "aiokproto.sasl.token": "colorsys:rgb_to_hsv"}
    for allowed in ("colorsys", "colorsys:", "colorsys:hls_to_rgb", "colorsys:rgb"):
        monkeypatch.setenv(FUNCTIONS, allowed)
        with pytest.raises(ConfigurationError, match="the function colorsys:rgb_to_hsv is not allowed"):
            reach(**options)
    assert not imported()
    monkeypatch.setenv(FUNCTIONS, "a:b, colorsys:rgb_to_hsv")
    assert callable(reach(**options)["sasl_oauth_token"])


def test_no_option_of_a_query_is_one_of_the_settings() -> None:
    names = {name.lower() for name in (*CLIENT, *PROVIDER_OPTIONS)}
    assert not [name for name in names if "allow" in name and name != "kafka.sasl.oauth.allow.http"]
    for name in EVERYTHING:
        with pytest.raises(ConfigurationError, match="unknown option"):
            parse_read_options({**BASE, "subscribe": "t", name: "*"})


def test_the_driver_has_the_settings_of_its_spark_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark puts ``spark.executorEnv`` there, from the SparkConf with which the application started."""
    monkeypatch.setenv("ETL_PASSWORD", "s3cret")
    context = SimpleNamespace(_active_spark_context=SimpleNamespace(environment={VARIABLES: "ETL_.*"}))
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(SparkContext=context))
    options = {**BASE, "kafka.client.id": "${env:ETL_PASSWORD}"}
    assert reach(**options)["client_id"] == "s3cret"
    # The machine's own setting counts before it.
    monkeypatch.setenv(VARIABLES, "")
    with pytest.raises(ConfigurationError, match="is not allowed"):
        reach(**options)
    monkeypatch.delenv(VARIABLES)
    context._active_spark_context = None
    with pytest.raises(ConfigurationError, match="is not allowed"):
        reach(**options)


@pytest.mark.parametrize("named", ["", "none", " none ", "env", "env, directory"])
@pytest.mark.parametrize("option", ["kafka.client.id", "kafka.sasl.password", "schema.registry.url"])
def test_only_the_configuration_providers_that_a_query_names_are_there(named: str, option: str) -> None:
    given = {**BASE, "subscribe": "t", "topic": "t", "kafka.config.providers": named, option: "a${file:/etc/passwd}"}
    shown = named.strip() if "env" in named else "none"
    for parse in (parse_read_options, parse_write_options):
        with pytest.raises(
            ConfigurationError,
            match=rf"^{option} has a reference \$\{{file:…\}}, and kafka.config.providers names {shown}:",
        ):
            parse(given)


def test_the_class_of_a_provider_that_is_not_named_has_no_effect() -> None:
    of_java = "org.apache.kafka.common.config.provider.FileConfigProvider"
    with pytest.raises(ConfigurationError, match=r"kafka\.config\.providers\.file\.class has no effect"):
        parse_connection({**BASE, "kafka.config.providers": "env", "kafka.config.providers.file.class": of_java})
