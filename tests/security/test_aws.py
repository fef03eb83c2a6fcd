"""AWS: signatures against botocore's, regions, credentials, and both ways to log in to MSK."""

from __future__ import annotations

import base64
import datetime
import json
import time
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.security.aws_msk_iam import AwsMskIamSaslServer, _signature
from aiokproto.broker.security.sasl_server import AuthenticationFailed
from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.runtime import utc
from aiokproto.security import AwsCredentials, AwsMskIam, AwsMskIamToken, BotocoreCredentials, OAuthBearer
from aiokproto.security.aws import presigned, query_string, region_of
from tests.security.aws import ACTION, KEYS, STATIC, by_botocore

HOST = "b-1.cluster.abc.c2.kafka.eu-central-1.amazonaws.com"

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)


@given(
    key=st.from_regex(r"[A-Z0-9]{4,20}", fullmatch=True),
    secret=TEXT,
    token=st.none() | TEXT,
    region=st.sampled_from(["us-east-1", "cn-north-1"]),
    at=st.integers(946_684_800, 4_000_000_000),
)
def test_signatures_equal_botocores(key: str, secret: str, token: str | None, region: str, at: int) -> None:
    credentials = AwsCredentials(key, secret, token)
    ours = presigned(HOST, region, "kafka-cluster", ACTION, credentials, at=at, expires=900)
    assert ours == by_botocore(HOST, region, credentials, at)


def test_query_strings_escape_all_but_unreserved_characters() -> None:
    assert query_string({"b": "a b/c=~", "B": "ä"}) == "B=%C3%A4&b=a%20b%2Fc%3D~"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-central-1"),
        ("boot-abc.c1.kafka-serverless.us-gov-west-1.amazonaws.com.", "us-gov-west-1"),
        ("B-1-Public.x.c2.KAFKA.CN-NORTH-1.amazonaws.com.cn", "cn-north-1"),
    ],
)
def test_regions_in_host_names(monkeypatch: pytest.MonkeyPatch, host: str, region: str) -> None:
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    assert region_of(host, None) == region
    assert region_of(host, "us-west-2") == "us-west-2"


@pytest.mark.parametrize(
    "host", ["broker", "127.0.0.1", "kafka.eu-central-1.amazonaws.com.evil.org", "b.s3.eu-central-1.amazonaws.com"]
)
def test_regions_of_other_hosts(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(ConfigurationError, match="sasl_aws_region is missing: the broker's name"):
        region_of(host, None)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "sa-east-1")
    assert region_of(host, None) == "sa-east-1"
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert region_of(host, None) == "us-east-2"


async def payload(credentials: Any = STATIC, host: str = HOST, **more: Any) -> dict[str, str]:
    found: dict[str, str] = json.loads(await AwsMskIam(credentials, **more).exchange(host).start())
    return found


async def later() -> AwsCredentials:
    return STATIC


@pytest.mark.parametrize("source", [STATIC, lambda: STATIC, later])
async def test_the_payload_of_msk(source: Any) -> None:
    fields = await payload(source)
    at = datetime.datetime.strptime(fields["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    assert abs(at - time.time()) < 60
    signed = by_botocore(HOST, "eu-central-1", STATIC, int(at))
    assert fields == {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "aiokproto",
        **{name.lower(): value for name, value in signed.items()},
    }
    assert fields["x-amz-expires"] == "900"
    assert KEYS["AKIA1"] not in str(fields)


async def test_temporary_credentials_send_their_token() -> None:
    fields = await payload(AwsCredentials("AKIA1", "s", "session/+="))
    assert fields["x-amz-security-token"] == "session/+="


@pytest.mark.parametrize("challenge", [b"", b"{}", b"[]", b"x", b'{"version":"other"}', b"[" * 100_000])
async def test_a_broker_that_does_not_answer_as_msk(challenge: bytes) -> None:
    exchange = AwsMskIam(STATIC).exchange(HOST)
    await exchange.start()
    with pytest.raises(AuthenticationError, match="is not that of AWS_MSK_IAM"):
        await exchange.respond(challenge)


def server() -> AwsMskIamSaslServer:
    return AwsMskIamSaslServer(KEYS, lambda: time.time_ns() // 1_000_000)


@pytest.mark.parametrize("session", [None, "token/+= ä"])
async def test_a_broker_that_verifies_accepts(session: str | None) -> None:
    exchange, broker = AwsMskIam(STATIC._replace(session_token=session)).exchange(HOST), server()
    assert await exchange.respond(broker.step(await exchange.start())) is None
    assert broker.authenticated_user is not None
    assert broker.authenticated_user.user == "AKIA1"


OLD = "20200101T000000Z"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"host": "other"}, "the signature does not match"),
        ({"x-amz-signature": "0" * 64}, "the signature does not match"),
        ({"x-amz-security-token": "x"}, "the signature does not match"),
        ({"x-amz-date": OLD}, "the signature does not match"),
        ({"x-amz-expires": "901"}, "the signature does not match"),
        ({"x-amz-signature": "ä"}, "the signature does not match"),
        ({"action": "kafka-cluster:Alter"}, "Invalid AWS_MSK_IAM payload"),
        ({"version": "2021"}, "Invalid AWS_MSK_IAM payload"),
        ({"x-amz-signedheaders": "host;x"}, "Invalid AWS_MSK_IAM payload"),
        ({"x-amz-credential": "AKIA1/20200101/eu-central-1/s3/aws4_request"}, "Invalid AWS_MSK_IAM payload"),
        ({"x-amz-algorithm": "none"}, "Invalid AWS_MSK_IAM payload"),
        ({"host": 5}, "Invalid AWS_MSK_IAM payload"),
        ({"host": None}, "Invalid AWS_MSK_IAM payload"),
    ],
)
async def test_a_broker_that_verifies_refuses(change: dict[str, Any], text: str) -> None:
    fields = {**await payload(), **change}
    with pytest.raises(AuthenticationFailed, match=text):
        server().step(json.dumps(fields).encode())


@pytest.mark.parametrize("credentials", [AwsCredentials("AKIA1", "wrong"), AwsCredentials("AKIA2", "s")])
async def test_a_broker_refuses_other_keys(credentials: AwsCredentials) -> None:
    with pytest.raises(AuthenticationFailed, match="the signature does not match the access key"):
        server().step(json.dumps(await payload(credentials)).encode())


@pytest.mark.parametrize("seconds", [901, -301])
async def test_a_broker_refuses_other_times(seconds: int) -> None:
    token = json.dumps(await payload()).encode()
    broker = AwsMskIamSaslServer(KEYS, lambda: time.time_ns() // 1_000_000 + seconds * 1000)
    with pytest.raises(AuthenticationFailed, match="has expired, or is of the future"):
        broker.step(token)


def signed(at: float, **changes: str) -> bytes:
    """Requests that the holder of the key can sign, even if this package's client wouldn't."""
    moment = utc(int(at))
    scope = f"{moment[:8]}/eu-central-1/kafka-cluster/aws4_request"
    fields = {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "x",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"AKIA1/{scope}",
        "x-amz-date": moment,
        "x-amz-signedheaders": "host",
        "x-amz-expires": "900",
        **changes,
    }
    fields["x-amz-signature"] = _signature(fields, KEYS["AKIA1"], scope).decode()
    return json.dumps(fields).encode()


DAYS = 180 * 86400


@pytest.mark.parametrize(
    ("age", "changes", "text"),
    [
        (DAYS, {"x-amz-expires": "00000000131536000"}, "must expire in 900 s or less"),
        (DAYS, {"x-amz-expires": "9" * 30}, "must expire in 900 s or less"),
        (5, {"x-amz-expires": "901"}, "must expire in 900 s or less"),
        (5, {"x-amz-expires": "0"}, "must expire in 900 s or less"),
        (5, {"x-amz-expires": "090"}, "must expire in 900 s or less"),
        (5, {"x-amz-expires": "\u0663\u0660"}, "must expire in 900 s or less"),
        (5, {"x-amz-expires": "+30"}, "must expire in 900 s or less"),
        (31, {"x-amz-expires": "30"}, "has expired, or is of the future"),
        (5, {"x-amz-date": f"{utc(int(time.time()))[:8]}T"}, "Invalid AWS_MSK_IAM payload"),
        (5, {"x-amz-date": f"{utc(int(time.time()))}x"}, "Invalid AWS_MSK_IAM payload"),
        (5, {"host": ""}, "Invalid AWS_MSK_IAM payload"),
        (5, {"host": "a\nb"}, "Invalid AWS_MSK_IAM payload"),
        (5, {"host": "a" * 256}, "Invalid AWS_MSK_IAM payload"),
    ],
)
def test_a_broker_refuses_times_and_hosts_although_the_key_has_signed_them(
    age: int, changes: dict[str, str], text: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=text):
        server().step(signed(time.time() - age, **changes))


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "::1", "fe80::1%eth0", "B-1.kafka"])
def test_a_broker_accepts_what_the_key_has_signed(host: str) -> None:
    broker = server()
    broker.step(signed(time.time() - 25, **{"x-amz-expires": "30", "host": host}))
    assert broker.authenticated_user is not None


@pytest.mark.parametrize("token", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_a_broker_refuses_an_invalid_payload(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="Invalid AWS_MSK_IAM payload"):
        server().step(token)


@pytest.mark.parametrize("left", [None, 60])
async def test_a_token_for_oauthbearer(left: int | None) -> None:
    now = time.time()
    credentials = STATIC._replace(session_token="session", expires_at=None if left is None else now + left)
    source = AwsMskIamToken("eu-central-1", lambda: credentials)
    token = await source()
    url = base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()
    assert url.startswith("https://kafka.eu-central-1.amazonaws.com/?")
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert query.pop("User-Agent") == "aiokproto"
    at = datetime.datetime.strptime(query["X-Amz-Date"] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    assert query == by_botocore("kafka.eu-central-1.amazonaws.com", "eu-central-1", credentials, int(at))
    assert token.expires_at == (at + 900 if left is None else credentials.expires_at)
    # OAUTHBEARER carries it in this form.
    assert (await OAuthBearer(source).exchange("broker").start()).startswith(b"n,,\x01auth=Bearer aHR0cHM6Ly9rYWZrYS5")


def failing() -> AwsCredentials:
    raise OSError("no metadata")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (failing, r"sasl_aws_credentials cannot be read: OSError \(its text is left out"),
        (lambda: None, "sasl_aws_credentials gave NoneType: expected AwsCredentials"),
        (lambda: ("AKIA1", "s3cret"), "sasl_aws_credentials gave tuple: expected AwsCredentials"),
        (AwsCredentials("", "s3cret"), "the access key, or its secret, is empty"),
        (AwsCredentials("AKIA1", ""), "the access key, or its secret, is empty"),
    ],
)
async def test_credentials_that_are_none(source: Any, text: str) -> None:
    with pytest.raises(BrokerConnectionError, match=text) as raised:
        await payload(source)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("arguments", [{"credentials": 5}, {"credentials": AwsCredentials}, {"region": "a b"}])
def test_arguments_that_make_no_mechanism(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="sasl_aws_"):
        AwsMskIam(**arguments)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """An environment that has credentials, and no other setting of AWS."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["AKIA1"])
    (tmp_path / "credentials").write_text("[prod]\naws_access_key_id=AKIA3\naws_secret_access_key=x\n")


@pytest.mark.usefixtures("aws")
async def test_credentials_as_the_tools_of_aws_find_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = server()
    broker.step(await AwsMskIam().exchange(HOST).start())
    assert broker.authenticated_user is not None
    assert await BotocoreCredentials()() == STATIC
    assert (await BotocoreCredentials("prod")()).access_key_id == "AKIA3"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(BrokerConnectionError, match="no AWS credentials"):
        await payload(BotocoreCredentials())


async def test_credentials_that_botocore_renews_have_their_expiry() -> None:
    """A token must not be called valid for longer than its session."""
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=700)
    renewed = RefreshableCredentials(
        "ASIA1", "s", "session", expiry, dict, "test", advisory_timeout=1, mandatory_timeout=1
    )
    with mock.patch.object(botocore.session.Session, "get_credentials", return_value=renewed):
        assert await BotocoreCredentials()() == AwsCredentials("ASIA1", "s", "session", expiry.timestamp())
        token = await AwsMskIamToken("eu-central-1", BotocoreCredentials())()
    assert token.expires_at == expiry.timestamp()


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("left", [3600, 200])
async def test_a_role_is_assumed_again_before_its_credentials_expire(left: int) -> None:
    expires_at = int(time.time()) + left
    expiration = datetime.datetime.fromtimestamp(expires_at, datetime.timezone.utc)
    answer = {
        "Credentials": {
            "AccessKeyId": "ASIA" + "1" * 12,
            "SecretAccessKey": "of the role",
            "SessionToken": "token",
            "Expiration": expiration,
        }
    }
    client = botocore.session.Session().create_client("sts", region_name="eu-central-1")
    stub = Stubber(client)
    arn = "arn:aws:iam::123456789012:role/a"
    for _ in range(1 if left > 300 else 2):
        stub.add_response(
            "assume_role", answer, {"RoleArn": arn, "RoleSessionName": "aiokproto", "ExternalId": "external"}
        )
    source = BotocoreCredentials(role_arn=arn, external_id="external", sts_region="eu-central-1")
    with stub, mock.patch.object(botocore.session.Session, "create_client", return_value=client) as create:
        found = [await source(), await source()]
    assert found == 2 * [AwsCredentials("ASIA" + "1" * 12, "of the role", "token", expires_at)]
    create.assert_called_with("sts", region_name="eu-central-1")
    stub.assert_no_pending_responses()


async def test_the_package_of_aws_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "botocore.session", None)
    with pytest.raises(ConfigurationError, match=r"pip install aiokproto\[aws\]; or give sasl_aws_credentials"):
        await payload(None)
