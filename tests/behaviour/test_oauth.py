"""Clients with tokens of an identity provider: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Broker, Security
from aiokproto.broker.security.oauthbearer import Token as Claims
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.errors import AuthenticationError, BootstrapError, ConfigurationError
from aiokproto.security import AwsCredentials, AwsMskIamToken, OAuthBearer, Token
from tests.behaviour.secured import Identified, identified_broker, skip_where_sessions_end, write_and_read
from tests.behaviour.test_authentication import Counting, ask_for_ever
from tests.behaviour.waiting import until
from tests.security.aws import STATIC, by_botocore
from tests.security.oidc import Asked, Issuer, Oidc, b64, issuing, oidc, refusing, response, verified

ENDPOINT = "sasl_oauthbearer_token_endpoint_url"


def options(cluster: Identified, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT", **more}


def credentials(cluster: Identified, provider: Oidc, **more: Any) -> dict[str, Any]:
    return options(
        cluster,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=provider.url,
        sasl_oauthbearer_client_credentials_client_id="the id",
        sasl_oauthbearer_client_credentials_client_secret="the secret",
        **more,
    )


async def create(login: dict[str, Any], topic: str) -> None:
    async with Client(**login) as client:
        new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        made = await client.request(CreateTopicsRequest(topics=[new]))
        assert made.topics[0].error_code == 0
        await until(lambda: client.metadata(), lambda found: topic in found)


async def writes_and_reads(login: dict[str, Any], topic: str) -> None:
    await create(login, topic)
    await write_and_read(login, topic)


async def test_client_credentials(identified: Identified, topic: str) -> None:
    async with oidc(issuer=identified.issuer) as provider:
        provider.answer = issuing(identified.issuer, subject="admin")
        await writes_and_reads(credentials(identified, provider, sasl_oauthbearer_scope="kafka"), topic)
    # Each client requests one token, for all its connections.
    assert provider.tokens() == 3
    assert {asked.form["scope"] for asked in provider.asked} == {"kafka"}


async def test_an_assertion_for_a_token(identified: Identified, topic: str, tmp_path: Path) -> None:
    """The JWT bearer grant, with a provider that knows the client's key."""
    client = Issuer()
    key = tmp_path / "key.pem"
    key.write_bytes(client.pem())

    def answer(asked: Asked) -> bytes | None:
        _, claims = verified(asked.form["assertion"], client.key.public_key())
        return issuing(identified.issuer, subject=claims["sub"])(asked)

    async with oidc(answer, identified.issuer) as provider:
        login = options(
            identified,
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=provider.url,
            sasl_oauthbearer_jwt_retriever_class="JwtBearerJwtRetriever",
            sasl_oauthbearer_assertion_private_key_file=key,
            sasl_oauthbearer_assertion_claim_sub="admin",
        )
        await writes_and_reads(login, topic)


@pytest.mark.parametrize("source", ["file", "function", "jaas"])
async def test_other_sources_of_tokens(identified: Identified, topic: str, tmp_path: Path, source: str) -> None:
    token = identified.issuer.token("admin")
    file = tmp_path / "token"
    file.write_text(token)
    more: dict[str, Any] = {
        "file": {"sasl_mechanism": "OAUTHBEARER", ENDPOINT: file.as_uri()},
        "function": {"sasl_mechanism": OAuthBearer(lambda: token, extensions={"pool": "a"}, authorization_id="admin")},
        "jaas": {
            ENDPOINT: file.as_uri(),
            "sasl_jaas_config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        },
    }
    await writes_and_reads(options(identified, **more[source]), topic)


def spoiled(token: str) -> str:
    head, claims, signature = token.split(".")
    return f"{head}.{claims}.{'A' * len(signature)}"


REFUSED: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "other"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "other"},
    "no issue time": {"iat": None},
    "no subject": {"sub": None},
    "an empty subject": {"sub": " "},
    "a key that is unknown": {"kid": "other"},
    "not valid yet": {"nbf": int(time.time()) + 10_000},
    "unsigned": {"algorithm": "none"},
    "expired": {"lifetime": -60},
    "the key of another algorithm": {"algorithm": "ES256", "kid": "key-1"},
}


async def start(cluster: Identified, token: Token | str) -> None:
    async with Client(**options(cluster, sasl_mechanism="OAUTHBEARER", sasl_oauth_token=lambda: token)) as client:
        await client.metadata()


@pytest.mark.parametrize("change", REFUSED)
async def test_the_broker_refuses_a_token(identified: Identified, change: str) -> None:
    # The client goes by the expiry that the function returns.
    token = Token(identified.issuer.token(**REFUSED[change]), time.time() + 1000)
    with pytest.raises(
        AuthenticationError, match=r"rejected the credentials.* \(SASL OAUTHBEARER\): status invalid_to"
    ):
        await start(identified, token)


async def test_the_broker_refuses_a_signature_and_an_opaque_token(identified: Identified) -> None:
    for token in (spoiled(identified.issuer.token()), Issuer().token(), "opaque", f"{b64(b'{}')}.{b64(b'{}')}.x"):
        with pytest.raises(AuthenticationError, match="status invalid_token") as raised:
            await start(identified, token)
        assert token not in str(raised.value)


@pytest.mark.parametrize("more", [{}, {"aud": ["other", "kafka-cluster"]}, {"scope": ["a", "b"]}, {"scope": "a b"}])
async def test_the_broker_accepts_a_token(identified: Identified, more: dict[str, Any]) -> None:
    await start(identified, identified.issuer.token("bob", **more))


async def test_the_broker_refuses_to_act_as_another(identified: Identified) -> None:
    mechanism = OAuthBearer(identified.issuer.token("alice"), authorization_id="admin")
    with pytest.raises(AuthenticationError, match=r"authorization id \(admin\) that is different from the token's"):
        async with Client(**options(identified, sasl_mechanism=mechanism)):
            raise AssertionError


async def test_a_provider_that_refuses_ends_the_start(identified: Identified) -> None:
    async with oidc(refusing()) as provider:
        with pytest.raises(AuthenticationError, match="status 401, invalid_client: no such client"):
            async with Producer(**credentials(identified, provider)):
                raise AssertionError
    assert provider.tokens() == 1


async def test_a_provider_that_is_away_is_asked_again(identified: Identified) -> None:
    """The token arrives while the start retries its bootstrap addresses."""
    quick = {"sasl_login_retry_backoff_ms": 1, "sasl_login_retry_backoff_max_ms": 1}
    patient = {"bootstrap_resolve_timeout_ms": 60_000}
    async with oidc(issuer=identified.issuer) as provider:
        success, failures = issuing(identified.issuer, subject="admin"), [response(500)] * 2
        provider.answer = lambda asked: failures.pop() if failures else success(asked)
        async with Client(**credentials(identified, provider, **quick, **patient)) as client:
            await client.metadata()
        provider.answer = lambda asked: response(500)
        with pytest.raises(BootstrapError, match=r"the token endpoint http://127.0.0.1:\d+/token gave no token: stat"):
            async with Client(**credentials(identified, provider, bootstrap_resolve_timeout_ms=0, **quick)):
                raise AssertionError


async def test_sessions_end_with_the_token_and_are_renewed_on_the_connections_in_use(
    identified: Identified, topic: str, request: pytest.FixtureRequest
) -> None:
    """A fetch is always in flight, and records arrive all the time. No connection is opened again."""
    skip_where_sessions_end(request)
    lifetime = 4.0
    async with oidc(issuer=identified.issuer) as provider:
        provider.answer = issuing(identified.issuer, subject="admin")
        login = credentials(identified, provider)
        await create(login, topic)
        provider.answer = issuing(identified.issuer, lifetime, "admin")
        hooks = Counting()
        async with Producer(hooks=hooks, linger_ms=0, **login) as producer:
            await producer.send(topic, b"0")
            async with Consumer(topic, auto_offset_reset="earliest", hooks=hooks, **login) as consumer:
                await anext(consumer)
                connections, tokens = hooks.connections, provider.tokens()
                loop = asyncio.get_running_loop()
                ends, number = loop.time() + 2 * lifetime, 0
                while loop.time() < ends:
                    number += 1
                    await producer.send(topic, b"%d" % number)
                    assert (await anext(consumer)).value == b"%d" % number
                assert hooks.connections == connections
                # Both clients request tokens repeatedly, but not once per session of each connection.
                assert 2 <= provider.tokens() - tokens <= 30


@pytest.mark.parametrize("change", ["user", "audience"])
async def test_a_running_client_raises_what_the_broker_says_about_its_token(
    identified: Identified, change: str
) -> None:
    async with oidc(issuer=identified.issuer) as provider:
        provider.answer = issuing(identified.issuer, 2, "alice")
        async with Client(**credentials(identified, provider)) as client:
            await client.metadata()

            def answer(asked: Asked) -> bytes | None:
                # The user changes each time. A new connection accepts any user, because it isn't a renewal.
                other = {"subject": f"user-{provider.tokens()}"} if change == "user" else {"aud": "other"}
                return issuing(identified.issuer, 2, **other)(asked)

            provider.answer = answer
            text = "Cannot change principals" if change == "user" else "status invalid_token"
            for _ in range(2):
                with pytest.raises(AuthenticationError, match=text):
                    await ask_for_ever(client)


# --- What only the embedded broker has ---


async def test_keys_are_loaded_again_in_intervals() -> None:
    async with oidc() as provider:
        config: dict[str, Any] = {
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": 1,
            "sasl.oauthbearer.allow.unverified.audience": True,
            "sasl.oauthbearer.allow.unverified.issuer": True,
        }
        async with Broker(security=Security("SASL_PLAINTEXT"), config=config):
            while len(provider.asked) < 3:
                provider.arrived.clear()
                await provider.arrived.wait()


async def test_tokens_for_msk(topic: str) -> None:
    """The broker verifies the signature with botocore."""

    def validate(token: str) -> Claims:
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        parts = urlsplit(url)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        at = datetime.datetime.strptime(given["X-Amz-Date"] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
        signed = by_botocore(str(parts.hostname), "eu-central-1", STATIC, int(at))
        if {**signed, "User-Agent": "aiokproto"} != given:
            raise ValueError("another signature")
        return Claims("alice", int(at + 900) * 1000)

    async with Broker(security=Security("SASL_PLAINTEXT", token_validator=validate)) as broker:
        cluster = Identified("embedded", broker.bootstrap_servers, Issuer())
        login = options(cluster, sasl_mechanism="OAUTHBEARER", sasl_oauth_token=AwsMskIamToken("eu-central-1", STATIC))
        await writes_and_reads(login, topic)
        login["sasl_oauth_token"] = AwsMskIamToken("eu-central-1", STATIC._replace(secret_access_key="other"))
        with pytest.raises(AuthenticationError, match="status invalid_token"):
            async with Client(**login):
                raise AssertionError


async def test_elliptic_keys() -> None:
    async with identified_broker() as cluster:
        await start(cluster, cluster.issuer.token(algorithm="ES256"))
        with pytest.raises(AuthenticationError, match="status invalid_token"):
            await start(cluster, Issuer().token(algorithm="ES256"))


async def test_a_new_key_is_loaded_when_a_token_names_it() -> None:
    async with oidc() as provider:
        config: dict[str, Any] = {
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            "sasl.oauthbearer.allow.unverified.audience": True,
            "sasl.oauthbearer.allow.unverified.issuer": True,
        }
        async with Broker(security=Security("SASL_PLAINTEXT"), config=config) as broker:
            cluster = Identified("embedded", broker.bootstrap_servers, provider.issuer)
            provider.issuer.key_id = "key-2"
            token = provider.issuer.token(iss=None, aud=None)
            with pytest.raises(AuthenticationError):
                await start(cluster, token)
            while True:
                try:
                    await start(cluster, token)
                except AuthenticationError:
                    continue
                break
            # The broker looks up the same unknown key only once in a while, however many tokens name it.
            for _ in range(3):
                with pytest.raises(AuthenticationError):
                    await start(cluster, provider.issuer.token(kid="never"))
            assert sum(asked.target == "/keys" for asked in provider.asked) <= 3


async def test_keys_in_a_file(tmp_path: Path) -> None:
    issuer, file = Issuer(), tmp_path / "keys.json"
    file.write_text(json.dumps(issuer.keys()))
    async with identified_broker(**{"sasl.oauthbearer.jwks.endpoint.url": file.as_uri()}) as cluster:
        await start(cluster, issuer.token())


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"sasl.oauthbearer.expected.audience": ""}, "sasl.oauthbearer.expected.audience is missing"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "sasl.oauthbearer.expected.issuer is missing"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///not/there"}, "the keys cannot be loaded: .*No such file"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://issuer"}, "expected an absolute URL"),
        (
            {
                "sasl.oauthbearer.jwks.endpoint.url": "http://127.0.0.1:1/keys",
                "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1",
            },
            "the keys cannot be loaded: ConnectionRefusedError",
        ),
    ],
)
async def test_a_broker_without_its_keys_does_not_start(config: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        async with identified_broker(**config):
            raise AssertionError


async def test_access_by_iam(topic: str) -> None:
    security = Security("SASL_PLAINTEXT", aws_access_keys={"AKIA1": "the secret"})
    async with Broker(security=security, config={"sasl.enabled.mechanisms": "AWS_MSK_IAM"}) as broker:
        cluster = Identified("embedded", broker.bootstrap_servers, Issuer())

        def login(secret: str) -> dict[str, Any]:
            keys = AwsCredentials("AKIA1", secret)
            more = {"sasl_aws_credentials": keys, "sasl_aws_region": "eu-central-1"}
            return options(cluster, sasl_mechanism="AWS_MSK_IAM", **more)

        await writes_and_reads(login("the secret"), topic)
        with pytest.raises(AuthenticationError, match="the signature does not match the access key"):
            async with Client(**login("another secret")):
                raise AssertionError
