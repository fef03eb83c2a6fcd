"""All code of the application that the library calls, and what happens when it misbehaves.

``python -m tests.callbacks.page`` writes the page ``docs/callbacks.md`` from it; ``test_walk`` proves each cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import trustme

from aiokproto.application.calls import CallbackError
from aiokproto.broker import Security
from aiokproto.broker.security.oauthbearer import Token as ValidToken
from aiokproto.errors import (
    BrokerConnectionError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    RecordDeserializationError,
    SerializationError,
)
from aiokproto.running.runner import NotAwaitableError
from aiokproto.security import AwsCredentials
from tests.callbacks import connecting, consuming, producing, sharing
from tests.callbacks.cases import BugError, Case, Misbehaving, a_coroutine
from tests.callbacks.environment import MakeSecurity, Scenario


class Effect(Enum):
    """What happens; the text is the page's."""

    RAISED = "raises"
    ENDED = "ends"
    LOGGED = "logged"
    AGAIN = "called again"
    NOTHING = "no effect"
    HELD = "waits"
    LEFT = "left alone"
    OWN = "yours"
    STOPPED = "yours, cancelled"


class Cell(NamedTuple):
    """What happens in a case, and the error that is raised."""

    effect: Effect
    error: type[BaseException] | None = None

    def __str__(self) -> str:
        """As the page has it."""
        if self.error is None:
            return self.effect.value
        name = "the exception" if self.error is BugError else f"`{self.error.__name__}`"
        return f"{self.effect.value} {name}"


def raises(error: type[BaseException]) -> Cell:
    return Cell(Effect.RAISED, error)


ENDS = Cell(Effect.ENDED, ClientClosedError)
LOGGED, AGAIN, NOTHING = Cell(Effect.LOGGED), Cell(Effect.AGAIN), Cell(Effect.NOTHING)
HELD, LEFT, OWN, STOPPED = Cell(Effect.HELD), Cell(Effect.LEFT), Cell(Effect.OWN), Cell(Effect.STOPPED)
THE_EXCEPTION, CALLBACK = raises(BugError), raises(CallbackError)

Cells = tuple[Cell | None, Cell | None, Cell | None, Cell | None, Cell | None, Cell | None]
ORDER = (Case.RAISES, Case.OTHERS, Case.HANGS, Case.SWALLOWS, Case.ITSELF, Case.WRONG)
"""Of the cells of a row. What ends the program always does."""


@dataclass(frozen=True)
class Callback:
    """One row.

    Attributes:
        name: As the page names it.
        options: What takes it, as :func:`tests.callbacks.options.callable_options` names these.
        called: Where it is called.
        cells: In the order of :data:`ORDER`; None where a function that is not awaited would block the event loop.
        walk: Makes it misbehave, on an embedded broker.
        good: What it does otherwise.
        wrong: A value of the wrong type, or what makes one.
        security: Of the embedded broker.
        proof: The test of the cells where it is not walked: ``file::name``.
    """

    name: str
    options: tuple[str, ...]
    called: str
    cells: Cells
    walk: Scenario | None = None
    good: Callable[..., Any] = lambda *given: None
    wrong: Any = a_coroutine
    security: MakeSecurity | None = None
    proof: str = ""

    def cases(self) -> list[tuple[Case, Cell]]:
        """The cases with a cell."""
        return [(case, cell) for case, cell in zip(ORDER, self.cells, strict=True) if cell is not None]


@dataclass(frozen=True)
class Group:
    """A section of the page."""

    title: str
    rows: tuple[Callback, ...] = field(default_factory=tuple)


def _in_a_run(own: tuple[Cell, Cell, Cell], wrong: Cell) -> Cells:
    """What is awaited in a handler's task: its failures, and otherwise as the handler itself."""
    return (own[0], own[1], HELD, LEFT, own[2], wrong)


IN_A_RUN = (THE_EXCEPTION, CALLBACK, raises(ClientClosedError))
_NONE = raises(BrokerConnectionError)
NOT_CONNECTED: Cells = (_NONE, _NONE, _NONE, _NONE, _NONE, _NONE)
CREDENTIALS: Cells = (AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN)
"""A connection is tried again, with its backoff, until the deadline of the call that needs it."""


def _of_alice(misbehaving: Misbehaving) -> Security:
    return Security("SASL_PLAINTEXT", users={"alice": "secret"})


def _valid(token: str = "") -> ValidToken:
    return ValidToken("alice", int(time.time() * 1000) + 10**9)


HANDLERS = Group(
    "Handlers",
    (
        Callback(
            "`Consumer.run(handler)`",
            ("Consumer.run(handler)",),
            "for each record or batch, in a task of the run",
            _in_a_run(IN_A_RUN, raises(NotAwaitableError)),
            consuming.handler,
            wrong=object,
        ),
        Callback(
            "the same, with `retry` and `handler_timeout_ms`",
            ("Consumer.run(handler)",),
            "the same",
            (AGAIN, AGAIN, AGAIN, LEFT, raises(ClientClosedError), raises(NotAwaitableError)),
            consuming.handler_in_time,
            wrong=object,
        ),
        Callback(
            "`order`",
            ("Consumer.run(order)",),
            "for each record that is taken, in the run's own task",
            (THE_EXCEPTION, CALLBACK, None, None, raises(ClientClosedError), raises(TypeError)),
            consuming.order,
            good=lambda record: record.key,
            wrong=list,
        ),
        Callback(
            "`Retry(on)`",
            ("Retry(on)",),
            "after a call of the handler has failed",
            (THE_EXCEPTION, CALLBACK, None, None, raises(ClientClosedError), CALLBACK),
            consuming.retry_on,
            good=lambda error: True,
        ),
        Callback(
            "`dead_letter.write`",
            ("Consumer.run(dead_letter)",),
            "when a record is given up",
            _in_a_run(IN_A_RUN, raises(TypeError)),
            consuming.dead_letter,
            wrong=object,
        ),
        Callback(
            "`DeadLetterTopic(topic)`",
            ("DeadLetterTopic(topic)",),
            "for each dead letter",
            (THE_EXCEPTION, CALLBACK, None, None, raises(ClientClosedError), CALLBACK),
            consuming.dead_letter_topic,
            good=lambda record: "d",
        ),
        Callback(
            "`post_bytes` of `DeadLetterTopic(producer)`",
            ("DeadLetterTopic(producer)",),
            "for each dead letter",
            _in_a_run(IN_A_RUN, raises(TypeError)),
            consuming.dead_letter_producer,
            good=consuming.delivered,
            wrong=None,
        ),
        Callback(
            "`post_bytes` of `RetryTopics(producer)`",
            ("RetryTopics(producer)",),
            "for each record that is to wait",
            _in_a_run(IN_A_RUN, raises(TypeError)),
            consuming.retry_topics_producer,
            good=consuming.delivered,
            wrong=None,
        ),
        Callback(
            "`ShareConsumer.run(handler)`",
            ("ShareConsumer.run(handler)",),
            "for each record, in a task of the run",
            (AGAIN, AGAIN, HELD, LEFT, raises(ClientClosedError), raises(NotAwaitableError)),
            sharing.share_handler,
            wrong=object,
        ),
        Callback(
            "`on_error`",
            ("ShareConsumer.run(on_error)",),
            "after a call of the handler has failed",
            (THE_EXCEPTION, CALLBACK, None, None, raises(ClientClosedError), CALLBACK),
            sharing.on_error,
            good=lambda record, error: "release",
        ),
        Callback(
            "`ExactlyOnce.run(process)`",
            ("ExactlyOnce.run(process)",),
            "for each batch, in your task; what is raised aborts the transaction",
            (THE_EXCEPTION, CALLBACK, HELD, OWN, STOPPED, NOTHING),
            producing.process,
            wrong=object,
        ),
    ),
)

RECORDS = Group(
    "Records",
    (
        Callback(
            "`key_serializer`, `value_serializer`",
            ("Producer(key_serializer)", "Producer(value_serializer)"),
            "in `send` and its like",
            (raises(SerializationError), raises(SerializationError), None, None, STOPPED, raises(SerializationError)),
            producing.serializer,
            good=str.encode,
        ),
        Callback(
            "the same, as coroutine functions",
            ("Producer(key_serializer)", "Producer(value_serializer)"),
            "the same, within `max_block_ms`",
            (
                raises(SerializationError),
                raises(SerializationError),
                raises(DeadlineError),
                OWN,
                STOPPED,
                raises(SerializationError),
            ),
            producing.awaited_serializer,
            good=str.encode,
            wrong=object,
        ),
        Callback(
            "`partitioner`",
            ("Producer(partitioner)",),
            "in `send` and its like",
            (THE_EXCEPTION, CALLBACK, None, None, STOPPED, CALLBACK),
            producing.partitioner,
            good=lambda topic, key, value, partitions, available: 0,
        ),
        Callback(
            "`key_deserializer`, `value_deserializer`",
            ("Consumer(key_deserializer)", "Consumer(value_deserializer)"),
            "in `async for` and `poll`; `on_undecodable` decides about exceptions",
            (raises(RecordDeserializationError), CALLBACK, None, None, STOPPED, raises(ConfigurationError)),
            consuming.deserializer,
            good=bytes.decode,
        ),
        Callback(
            "the same, as coroutine functions",
            ("Consumer(key_deserializer)", "Consumer(value_deserializer)"),
            "the same, within `default_api_timeout_ms`",
            (raises(RecordDeserializationError), CALLBACK, raises(DeadlineError), OWN, STOPPED, NOTHING),
            consuming.awaited_deserializer,
            good=bytes.decode,
            wrong=object,
        ),
        Callback(
            "the same, in `Consumer.run()`",
            ("Consumer(key_deserializer)", "Consumer(value_deserializer)"),
            "in the run's own task",
            (
                raises(RecordDeserializationError),
                CALLBACK,
                raises(DeadlineError),
                LEFT,
                raises(ClientClosedError),
                NOTHING,
            ),
            consuming.deserializer_in_a_run,
            good=bytes.decode,
            wrong=object,
        ),
        Callback(
            "`Interceptor.on_send`",
            ("ConnectionOptions[interceptors]",),
            "in `send` and its like; the record goes on as it was",
            (LOGGED, LOGGED, None, None, STOPPED, LOGGED),
            producing.on_send,
            good=lambda record: record,
        ),
        Callback(
            "`Interceptor.on_acknowledgement`",
            ("ConnectionOptions[interceptors]",),
            "when a record has its outcome",
            (LOGGED, LOGGED, None, None, ENDS, LOGGED),
            producing.on_acknowledgement,
        ),
        Callback(
            "`Interceptor.on_records`",
            ("ConnectionOptions[interceptors]",),
            "before records are delivered, which are then those of before",
            (LOGGED, LOGGED, None, None, STOPPED, LOGGED),
            producing.on_records,
            good=lambda records: records,
        ),
    ),
)

GROUPS = Group(
    "Groups",
    (
        Callback(
            "`on_assigned`, `on_revoked`, `on_lost`, as plain functions",
            ("Consumer.subscribe(on_assigned)", "Consumer.subscribe(on_revoked)", "Consumer.subscribe(on_lost)"),
            "in the task of the group; a result is ignored",
            (ENDS, ENDS, None, None, ENDS, NOTHING),
            consuming.on_assigned_plain,
            wrong=object,
        ),
        Callback(
            "`on_assigned`, as a coroutine function",
            ("Consumer.subscribe(on_assigned)",),
            "in the task of the group; the partitions wait",
            (ENDS, ENDS, HELD, HELD, ENDS, NOTHING),
            consuming.on_assigned,
            wrong=object,
        ),
        Callback(
            "`on_revoked`, the same",
            ("Consumer.subscribe(on_revoked)",),
            "the same; the group waits",
            (ENDS, ENDS, HELD, HELD, ENDS, NOTHING),
            consuming.on_revoked,
            wrong=object,
        ),
        Callback(
            "`on_lost`, the same",
            ("Consumer.subscribe(on_lost)",),
            "the same",
            (ENDS, ENDS, HELD, HELD, ENDS, NOTHING),
            consuming.on_lost,
            wrong=object,
        ),
        Callback(
            "`Assignor.assign`",
            ("Consumer(partition_assignment_strategy)",),
            "in the leader, while the group is joined",
            (ENDS, ENDS, None, None, AGAIN, ENDS),
            consuming.assign,
        ),
        Callback(
            "`Assignor.assign` with `in_thread`",
            ("Consumer(partition_assignment_strategy)",),
            "the same, in a thread, which has no task",
            (ENDS, ENDS, None, None, NOTHING, ENDS),
            consuming.assign_in_thread,
        ),
        Callback(
            "`Assignor.user_data`",
            ("Consumer(partition_assignment_strategy)",),
            "before the group is joined",
            (ENDS, ENDS, None, None, AGAIN, ENDS),
            consuming.user_data,
        ),
        Callback(
            "`Assignor.on_assignment`",
            ("Consumer(partition_assignment_strategy)",),
            "after the group was joined",
            (ENDS, ENDS, None, None, AGAIN, ENDS),
            consuming.on_assignment,
        ),
        Callback(
            "`on_offset_reset`",
            ("Consumer(on_offset_reset)",),
            "in a task of the consumer",
            (ENDS, ENDS, None, None, ENDS, ENDS),
            consuming.on_offset_reset,
        ),
        Callback(
            "`on_acknowledged`",
            ("ShareConsumer(on_acknowledged)",),
            "in a task of the share consumer",
            (ENDS, ENDS, None, None, ENDS, ENDS),
            sharing.on_acknowledged,
        ),
        Callback(
            "`ShareMember(assigned)`",
            ("ShareMember(assigned)",),
            "in `ShareMember.run()`, which raises",
            (THE_EXCEPTION, CALLBACK, None, None, STOPPED, CALLBACK),
            sharing.share_member_assigned,
        ),
        Callback(
            "`StreamsListener.assigned`, `revoked`, `lost`",
            ("StreamsMember(listener)",),
            "in `StreamsMember.run()`, which raises",
            (THE_EXCEPTION, CALLBACK, NOTHING, LEFT, CALLBACK, NOTHING),
            sharing.streams_assigned,
            wrong=object,
        ),
        Callback(
            "its other methods, as plain functions",
            ("StreamsMember(listener)",),
            "with a response, in a task of the member",
            (THE_EXCEPTION, CALLBACK, None, None, raises(ClientClosedError), CALLBACK),
            sharing.streams_status,
        ),
        Callback(
            "`StreamsListener.status_changed`, `endpoints_changed`, as coroutine functions",
            ("StreamsMember(listener)",),
            "one after the other, in a task of the member",
            (THE_EXCEPTION, CALLBACK, NOTHING, LEFT, CALLBACK, NOTHING),
            sharing.awaited_streams_status,
            wrong=object,
        ),
    ),
)

CONNECTIONS = Group(
    "Connections and observation",
    (
        Callback(
            "`address_map`",
            ("ConnectionOptions[address_map]",),
            "before each connection, within its deadline",
            CREDENTIALS,
            connecting.address_map,
            good=lambda host, port: (host, port),
            wrong=None,
        ),
        Callback(
            "`dialer`",
            ("ConnectionOptions[dialer]",),
            "the same; the connection is tried again after the error",
            NOT_CONNECTED,
            connecting.dialer,
            good=lambda host, port: "a socket",
            wrong=None,
        ),
        Callback(
            "`ssl_server_hostname`",
            ("ConnectionOptions[ssl_server_hostname]",),
            "the same",
            NOT_CONNECTED,
            connecting.ssl_server_hostname,
            good=lambda host, port: "b",
            wrong=None,
        ),
        Callback(
            "passwords, keys and certificates of TLS",
            (
                "ConnectionOptions[ssl_password]",
                "ConnectionOptions[ssl_truststore_password]",
                "ConnectionOptions[ssl_truststore_certificates]",
                "ConnectionOptions[ssl_keystore_password]",
                "ConnectionOptions[ssl_keystore_key]",
                "ConnectionOptions[ssl_keystore_certificate_chain]",
                "ConnectionOptions[ssl_key_password]",
                "Secret(source)",
            ),
            "the same",
            NOT_CONNECTED,
            connecting.ssl_secret,
            good=lambda: trustme.CA().cert_pem.bytes().decode(),
            wrong=None,
        ),
        Callback(
            "secrets of SASL",
            (
                "SaslOptions[sasl_username]",
                "SaslOptions[sasl_password]",
                "SaslOptions[sasl_oauthbearer_client_credentials_client_id]",
                "SaslOptions[sasl_oauthbearer_client_credentials_client_secret]",
                "SaslOptions[sasl_oauthbearer_assertion_private_key_passphrase]",
                "Plain(username)",
                "Plain(password)",
                "Scram(username)",
                "Scram(password)",
                "ClientCredentials(client_id)",
                "ClientCredentials(client_secret)",
                "ClientCredentials(assertion)",
                "JwtBearer(assertion)",
                "Assertion(key)",
                "Assertion(passphrase)",
            ),
            "for each authentication",
            CREDENTIALS,
            connecting.sasl_password,
            good=lambda: "secret",
            wrong=None,
            security=_of_alice,
        ),
        Callback(
            "`sasl_oauth_token`",
            ("SaslOptions[sasl_oauth_token]", "OAuthBearer(token)"),
            "when there is no token that is valid for long enough",
            CREDENTIALS,
            connecting.sasl_oauth_token,
            good=lambda: "t",
            wrong=None,
            security=lambda misbehaving: Security("SASL_PLAINTEXT", token_validator=_valid),
        ),
        Callback(
            "`sasl_aws_credentials`",
            ("SaslOptions[sasl_aws_credentials]", "AwsMskIam(credentials)", "AwsMskIamToken(credentials)"),
            "for each authentication",
            CREDENTIALS,
            connecting.sasl_aws_credentials,
            good=lambda: AwsCredentials("id", "secret"),
            wrong=None,
            security=lambda misbehaving: Security("SASL_PLAINTEXT", aws_access_keys={"id": "secret"}),
        ),
        Callback(
            "`sasl_mechanism`",
            ("SaslOptions[sasl_mechanism]",),
            "for each authentication",
            (AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, Cell(Effect.ENDED, ConfigurationError)),
            connecting.sasl_mechanism,
            good=lambda: b"\0alice\0secret",
            wrong=object,
            security=_of_alice,
        ),
        Callback(
            "`hooks`",
            ("ConnectionOptions[hooks]",),
            "in the middle of the client's work",
            (LOGGED, LOGGED, None, None, ENDS, LOGGED),
            producing.hook,
        ),
        Callback(
            "`application_metrics`",
            ("ConnectionOptions[application_metrics]",),
            "before each push to a broker",
            (LOGGED, LOGGED, None, None, NOTHING, LOGGED),
            producing.application_metrics,
            good=lambda: (),
        ),
    ),
)

OTHERS = Group(
    "Embedded broker and Spark",
    (
        Callback(
            "`when` of faults",
            ("RequestFilter[when]",),
            "in the broker, for each request that the rule could match",
            (LOGGED, LOGGED, None, None, NOTHING, LOGGED),
            connecting.when,
            good=lambda info: True,
        ),
        Callback(
            "`faults.intercept(function)`",
            ("Faults.intercept(function)",),
            "in the broker, in place of a request",
            (LOGGED, LOGGED, NOTHING, NOTHING, NOTHING, LOGGED),
            connecting.intercept,
            wrong=object,
        ),
        Callback(
            "`Security(token_validator)`",
            ("Security(token_validator)",),
            "in the broker, for each authentication",
            (LOGGED, LOGGED, None, None, NOTHING, LOGGED),
            connecting.token_validator,
            good=_valid,
            security=lambda misbehaving: Security("SASL_PLAINTEXT", token_validator=misbehaving.plain),
        ),
        Callback(
            "`ThreadedCluster.call(function)`",
            ("ThreadedCluster.call(function)",),
            "in the cluster's thread; the caller gets the result",
            (THE_EXCEPTION, raises(CancelledError), OWN, OWN, raises(CancelledError), NOTHING),
            proof="tests/callbacks/test_threads.py::test_what_a_call_raises_is_raised_where_it_was_made",
        ),
        Callback(
            "`transform` of `load()` and `rerun()`",
            ("load(transform)", "rerun(transform)"),
            "in Spark's driver, in your thread",
            (THE_EXCEPTION, None, None, None, None, raises(ConfigurationError)),
            proof="tests/spark/loads/test_load.py::test_a_load_that_fails_leaves_nothing_that_counts",
        ),
    ),
)

TABLE = (HANDLERS, RECORDS, GROUPS, CONNECTIONS, OTHERS)
