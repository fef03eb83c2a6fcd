"""Secrets in options: where they are looked up, and what never shows them."""

from __future__ import annotations

import pickle
import re
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.config import ClusterConfig
from aiokproto.errors import ConfigurationError
from aiokproto.security import UnsecuredToken
from aiokproto.security.jaas import parse_jaas
from aiokproto.spark.credentials import SENSITIVE, checkable, client_options, fingerprint, java_name, resolve
from aiokproto.spark.options import parse_connection, parse_read_options, parse_stream_options
from aiokproto.spark.sink.options import parse_write_options

SECRET = "bread-and-butter"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="etl" password="{}";'
JAAS = "kafka.sasl.jaas.config"
SASL = {"kafka.bootstrap.servers": "h:1", "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}

token = UnsecuredToken("etl")
number = 5


def connection(**options: str) -> dict[str, Any]:
    given = {**SASL, **{name.replace("__", "."): value for name, value in options.items()}}
    return dict(parse_connection({name: value for name, value in given.items() if value}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text(
        f"# a comment\n! another\n\nkafka.password = {SECRET}\nwith\\ space:x\\u0041\\ny\nlong=one,\\\n    two\nempty\n"
    )
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${{file:{}:kafka.password}}", SECRET),
        ("${{file:{}:with space}}", "xA\ny"),
        ("${{file:{}:long}}", "one,two"),
        ("${{file:{}:empty}}", ""),
        ("a${{file:{}:kafka.password}}b${{env:OTHER}}", f"a{SECRET}bother"),
        ("${{vault:{}:x}}", "${{vault:{}:x}}"),
    ],
)
def test_references_are_those_of_kafkas_configuration_providers(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: str
) -> None:
    monkeypatch.setenv("OTHER", "other")
    assert resolve("o", text.format(file)) == (found.format(file) if "{" in found else found)


def test_a_file_can_be_the_secret(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\r\n")
    assert resolve("o", f"${{file:{tmp_path}/password}}") == SECRET
    assert resolve("o", f"${{directory:{tmp_path}:password}}") == SECRET


def test_what_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^o: the environment variable ABSENT_1 is not set \(for executors:"):
        resolve("o", "${env:ABSENT_1}")
    with pytest.raises(ConfigurationError, match=rf"^o: {file} has no property absent$"):
        resolve("o", f"${{file:{file}:absent}}")
    given = {"bootstrap_servers": f"${{file:{file}.gone}}"}
    with pytest.raises(ConfigurationError, match=r"^kafka.bootstrap.servers cannot be resolved: .*No such file"):
        client_options(given)
    file.write_bytes(b"\xff" * 10)
    with pytest.raises(ConfigurationError, match="cannot be resolved"):
        client_options({"bootstrap_servers": f"${{file:{file}}}"})
    file.write_text("x" * ((1 << 20) + 1))
    with pytest.raises(ConfigurationError, match="is longer than"):
        client_options({"bootstrap_servers": f"${{file:{file}}}"})


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.sampled_from("\"'"))
def test_any_password_can_be_in_the_quotes_of_a_login_module(password: str, quote: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANY_PASSWORD", password)
        text = PLAIN.replace('"', quote).format("${env:ANY_PASSWORD}")
        assert parse_jaas(resolve(JAAS, text)).options["password"] == password
        # What is before the reference within the quotes, and before these, changes nothing.
        text = text.replace("${", "it is: ${").replace("required", "required /* it's */ a='b\\'c'")
        assert parse_jaas(resolve(JAAS, text)).options["password"] == f"it is: {password}"


def test_quotes_in_other_options_are_characters_of_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_PASSWORD", "a\\b'c")
    assert resolve("schema.registry.basic.auth.user.info", "o'neil:'${env:ANY_PASSWORD}") == "o'neil:'a\\b'c"


def test_what_a_reference_finds_is_not_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_PASSWORD", "${env:ANY_PASSWORD}")
    assert resolve("o", "${env:ANY_PASSWORD}") == "${env:ANY_PASSWORD}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${env:A:B}", "env takes no path: expected ${env:NAME}"),
        ("${directory:name}", "directory takes a path and a name: expected ${directory:/path:name}"),
        ("${directory::name}", "directory takes a path and a name: expected ${directory:/path:name}"),
        ("${directory:/run:}", "directory takes a path and a name: expected ${directory:/path:name}"),
        ("${directory:/run:../etc/passwd}", "../etc/passwd is not the name of a file in /run"),
        ("${directory:/run:/etc/passwd}", "/etc/passwd is not the name of a file in /run"),
        ("${directory:/run:..}", ".. is not the name of a file in /run"),
        ("${file:${env:HOME}/x}", "a reference within a reference is not resolved"),
        ("${file:/run/${env:HOME}:x}", "a reference within a reference is not resolved"),
    ],
)
def test_references_that_cannot_be(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^o: {re.escape(problem)}"):
        resolve("o", text)


def test_a_directory_can_have_links(tmp_path: Path) -> None:
    """Kubernetes mounts secrets as links to files of a hidden folder."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "password").write_text(SECRET)
    (tmp_path / "password").symlink_to("..data/password")
    assert resolve("o", f"${{directory:{tmp_path}:password}}") == SECRET


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("# C:\\\nkey=x", "x"),
        ("key=a\\\n   b\\\n # c", "ab# c"),
        ("key=x\\", "x"),
        ("key=x\\\\\nother=y", "x\\"),
        ("key=x\\\r\n y\r\nother=z", "xy"),
        ("key=x\u2028\x85\x1cy", "x\u2028\x85\x1cy"),
        ("key=\\ud83d\\ude00", "\U0001f600"),
        ("key : = x ", "= x "),
        ("key=first\nkey=last", "last"),
        ("\n \t\f\n\f key x", "x"),
    ],
)
def test_properties_are_read_as_by_java(file: Path, content: str, value: str) -> None:
    file.write_bytes(content.encode())
    assert resolve("o", f"${{file:{file}:key}}") == value


@pytest.mark.parametrize("option", ["kafka.sasl.jaas.config", "kafka.sasl.password"])
def test_no_error_shows_bytes_of_a_file(file: Path, option: str) -> None:
    file.write_bytes(b"bread\xff\xfe")
    name = option.removeprefix("kafka.").replace(".", "_")
    with pytest.raises((ConfigurationError, ValueError)) as caught:
        client_options({name: f"${{file:{file}}}"})[name]()
    shown = "".join(traceback.format_exception(caught.value))
    assert f"{file}: it is not UTF-8" in shown
    assert "0xff" not in shown
    assert "bread" not in repr(caught.value)


def test_passwords_are_looked_up_for_each_authentication(file: Path) -> None:
    options = client_options(
        connection(kafka__sasl__username="etl", kafka__sasl__password=f"${{file:{file}:kafka.password}}")
    )
    ClusterConfig.parse(options)
    assert options["sasl_password"]() == SECRET
    file.write_text("kafka.password=rotated\n")
    assert options["sasl_password"]() == "rotated"


def test_references_are_resolved_where_a_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that parses the options may not have them."""
    options = connection(kafka__sasl__jaas__config=PLAIN.format("${env:LATER}"))
    assert "${env:LATER}" in options["sasl_jaas_config"]
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.jaas\.config: the environment variable LATER"):
        client_options(options)
    monkeypatch.setenv("LATER", SECRET)
    assert SECRET in client_options(options)["sasl_jaas_config"]
    whole = connection(kafka__sasl__jaas__config="${env:WHOLE}", kafka__bootstrap__servers="${env:SERVERS}")
    monkeypatch.setenv("WHOLE", PLAIN.format(SECRET))
    monkeypatch.setenv("SERVERS", "h:1,i:2")
    assert ClusterConfig.parse(client_options(whole)).bootstrap_servers == (("h", 1), ("i", 2))


def test_options_are_checked_at_once_as_far_as_they_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.password is missing"):
        connection(kafka__sasl__username="${env:LATER}")
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.jaas\.config: it does not end with a semicolon"):
        connection(kafka__sasl__jaas__config=PLAIN.format("${env:LATER}").removesuffix(";"))
    assert checkable({"sasl_jaas_config": "${env:ALL}"}) is None


def test_functions_are_imported_where_a_client_is_made() -> None:
    name = f"{__name__}:token"
    options = connection(kafka__sasl__mechanism="OAUTHBEARER", aiokproto__sasl__token=name)
    assert options["sasl_oauth_token"] == name
    assert client_options(options)["sasl_oauth_token"] is token
    ClusterConfig.parse(client_options(options))
    for text, problem in (
        ("tests.absent:f", "cannot be imported: No module named 'tests.absent'"),
        (f"{__name__}:absent", "cannot be imported: .* has no attribute 'absent'"),
        (f"{__name__}:number", "int is no function"),
    ):
        options = connection(kafka__sasl__mechanism="OAUTHBEARER", aiokproto__sasl__token=text)
        with pytest.raises(ConfigurationError, match=rf"aiokproto\.sasl\.token='{text}'.*{problem}"):
            client_options(options)
    with pytest.raises(ConfigurationError, match=r"aiokproto\.sasl\.token='f': must be the name of a function"):
        connection(kafka__sasl__mechanism="OAUTHBEARER", aiokproto__sasl__token="f")
    aws = connection(kafka__sasl__mechanism="AWS_MSK_IAM", aiokproto__sasl__aws__credentials=name)
    assert client_options(aws)["sasl_aws_credentials"] is token


def test_a_module_that_raises_is_an_error_of_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_that_raises.py").write_text("raise RuntimeError('not here')")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = connection(kafka__sasl__mechanism="OAUTHBEARER", aiokproto__sasl__token="module_that_raises:f")
    with pytest.raises(
        ConfigurationError, match=r"^aiokproto\.sasl\.token=.* cannot be imported: RuntimeError \(its text is left out"
    ):
        client_options(options)


def test_configuration_providers_need_not_be_configured() -> None:
    of_java = "org.apache.kafka.common.config.provider.FileConfigProvider"
    connection(kafka__config__providers="file, env", **{"kafka.config.providers.file.class": of_java}, **LOGIN)
    with pytest.raises(ConfigurationError, match=r"kafka\.config\.providers='vault': 'vault' is not there: env, file"):
        connection(kafka__config__providers="vault")
    with pytest.raises(ConfigurationError, match="must be org"):
        connection(**{"kafka.config.providers.file.class": "com.example.Vault"})


@pytest.mark.parametrize("text", ["${secret:kafka/etl}", "${vault:path:key}", "a${Env:X}b", "${env:A}${aws:B}"])
@pytest.mark.parametrize("option", ["kafka.sasl.password", "kafka.sasl.jaas.config", "kafka.ssl.keystore.password"])
def test_a_reference_to_another_provider_is_no_secret(option: str, text: str) -> None:
    given = {**SASL, "subscribe": "t", "topic": "t", option: PLAIN.format(text) if "jaas" in option else text}
    for parse in (parse_read_options, parse_stream_options, parse_write_options):
        with pytest.raises(ConfigurationError, match=rf"^{option} has a .* none of env, file, directory$"):
            parse(given)


LOGIN = {"kafka.sasl.username": "etl", "kafka.sasl.password": SECRET}


@pytest.mark.parametrize("secret", sorted(SENSITIVE))
def test_no_repr_and_no_error_shows_a_secret(secret: str) -> None:
    option = java_name(secret)
    given = {**SASL, "subscribe": "t", "topic": "t", option: SECRET}
    for parse in (parse_read_options, parse_stream_options, parse_write_options):
        try:
            shown = repr(parse(given))
        except ConfigurationError as error:
            shown = str(error)
        assert SECRET not in shown


def test_secrets_of_every_parser_are_hidden_and_pickled() -> None:
    given = {**SASL, **LOGIN, "subscribe": "t", "topic": "t"}
    read, stream, write = parse_read_options(given), parse_stream_options(given), parse_write_options(given)
    assert SECRET not in f"{read} {stream} {write}"
    copy = pickle.loads(pickle.dumps(read))
    assert copy.connection == read.connection
    assert client_options(copy.connection)["sasl_password"] == SECRET


def test_a_pickle_has_the_reference_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATER", SECRET)
    options = parse_read_options({**SASL, "kafka.sasl.jaas.config": PLAIN.format("${env:LATER}"), "subscribe": "t"})
    client_options(options.connection)
    assert SECRET.encode() not in pickle.dumps(options)


def test_clients_are_kept_by_their_secrets_too() -> None:
    one, other = (connection(kafka__sasl__username="etl", kafka__sasl__password=text) for text in ("a", "b"))
    assert fingerprint(client_options(one)) == fingerprint(client_options(dict(one)))
    assert fingerprint(client_options(one)) != fingerprint(client_options(other))
    first, second = (connection(kafka__sasl__username="etl", kafka__sasl__password=f"${{env:{n}}}") for n in "AB")
    assert fingerprint(client_options(first)) != fingerprint(client_options(second))
