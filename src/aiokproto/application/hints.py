"""Names that exist in other Kafka clients but not here, and what to use instead.

The hints are added where unknown names raise an error anyway: :class:`Hints` raises for :data:`METHODS`,
:func:`refuse_arguments` for :data:`ARGUMENTS`, and ``config.values.unknown_options`` for :data:`OPTIONS`. Calls with
known names never get here.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, TypeVar

from aiokproto.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")

# --- Methods ---

_TRANSACTION = "use `async with producer.transaction() as txn`, and txn.send() in it"
_OFFSETS = "call `await txn.send_offsets(consumer)` in a transaction"
_CLOSE = "call `await {}.close()`, or use `async with`"
_TOPICS = "call `await client.metadata()` of an aiokproto.Client"
_CONNECTED = "leave it out: start() raises if no broker can be used"
_POLL = "call `await consumer.poll(timeout_ms=..., max_records=...)`, which returns a list"
_COOPERATIVE = "leave it out: the consumer follows the assignments of its group by itself"
_ACKNOWLEDGE = "call consumer.accept(record), release(), reject() or renew()"
_ADMIN = "send the request with `await client.request(...)`: docs/howto/admin.md has examples"

METHODS: Mapping[str, Mapping[str, str]] = {
    "Producer": {
        "send_and_wait": "call `await producer.send(topic, value)`",
        "produce": "call `await producer.send(topic, value)`, or post() to await the acknowledgement later",
        "produce_batch": "call `await producer.send_many(topic, records)`",
        "create_batch": "call `await producer.send_many(topic, records)`",
        "poll": "leave it out: deliveries arrive without it; await the Delivery of post()",
        "purge": "call `await producer.abort()`",
        "stop": _CLOSE.format("producer"),
        "init_transactions": "leave it out: start() acquires the producer id",
        "begin_transaction": _TRANSACTION,
        "commit_transaction": _TRANSACTION,
        "abort_transaction": f"{_TRANSACTION}; an exception aborts, and so does `await txn.abort()`",
        "send_offsets_to_transaction": _OFFSETS,
        "bootstrap_connected": _CONNECTED,
        "list_topics": _TOPICS,
        "metrics": "call `producer.stats()`",
    },
    "Consumer": {
        "getone": "call `await anext(consumer)`, or use `async for record in consumer`",
        "getmany": _POLL,
        "consume": _POLL,
        "stop": _CLOSE.format("consumer"),
        "commit_async": "call `await consumer.commit()`, in a task of its own if nothing should wait for it",
        "store_offsets": "leave it out: processed records are committed automatically, and commit() commits them now",
        "get_watermark_offsets": "call `await consumer.beginning_offsets(partition)` and end_offsets(partition)",
        "highwater": "call `await consumer.end_offsets(partition)`, or lag(partition), which sends no request",
        "last_stable_offset": 'call `await consumer.end_offsets(partition)` with isolation_level="read_committed"',
        "seek_to_committed": "seek() to what `await consumer.committed()` returns",
        "incremental_assign": _COOPERATIVE,
        "incremental_unassign": _COOPERATIVE,
        "unassign": "call `await consumer.unsubscribe()`",
        "consumer_group_metadata": _OFFSETS,
        "bootstrap_connected": _CONNECTED,
        "topics": _TOPICS,
        "list_topics": _TOPICS,
        "metrics": "call `consumer.stats()`",
    },
    "ShareConsumer": {
        "acknowledge": _ACKNOWLEDGE,
        "commit_async": "call `await consumer.commit()`, in a task of its own if nothing should wait for it",
        "commit_sync": "call `await consumer.commit()`",
        "stop": _CLOSE.format("consumer"),
    },
    "Client": dict.fromkeys(
        """
        create_topics delete_topics create_partitions describe_topics list_topics delete_records
        describe_configs alter_configs incremental_alter_configs describe_cluster list_offsets
        list_consumer_groups describe_consumer_groups delete_consumer_groups list_consumer_group_offsets
        alter_consumer_group_offsets create_acls describe_acls delete_acls
        """.split(),  # noqa: SIM905 - one name a line would be a page
        _ADMIN,
    ),
}
"""By class: method → what to do instead."""

_TIMEOUT = "pass timeout_ms, in milliseconds"
_CALLBACKS = "pass the functions on_assigned, on_revoked and on_lost"

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "Producer.flush": {"timeout": _TIMEOUT},
    "Producer.close": {"timeout": _TIMEOUT},
    "Consumer.commit": {
        "timeout": _TIMEOUT,
        "message": "pass the record: commit(record)",
        "asynchronous": "leave it out: `await` the call, or run it in a task",
    },
    "Consumer.subscribe": {
        "topics": 'pass topics as separate arguments: subscribe("a", "b")',
        "listener": _CALLBACKS,
        "on_assign": "pass on_assigned",
        "on_revoke": "pass on_revoked",
    },
}
"""By method: argument → what to pass instead.

Only gated methods can have hints: it's the gate that catches Python's ``TypeError``
(:mod:`aiokproto.application.gates`).
"""


class _HintsMeta(ABCMeta):
    """Leaves methods that only raise a hint out of the class's ``dir()``.

    It's an ABCMeta so that applications can derive from both a client and an abstract class.
    """

    def __dir__(cls) -> list[str]:
        return _existing(cls, super().__dir__())


class Hints(metaclass=_HintsMeta):
    """A base class with hints for methods of similar classes: looking one up raises an error that says what to use."""

    __slots__ = ()

    _hints: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, hints: Mapping[str, str] | None = None, **kwargs: object) -> None:
        """``hints`` maps method names to what to do instead. Methods that the class defines are left alone."""
        super().__init_subclass__(**kwargs)
        if hints is not None:
            cls._hints = hints
        # Don't use __getattr__: it would slow down attribute access, and post() is called for every record.
        for name, hint in (hints or {}).items():
            if not hasattr(cls, name):
                setattr(cls, name, _MissingMethod(name, hint))

    def __dir__(self) -> list[str]:
        return _existing(type(self), super().__dir__())


def _existing(cls: type, names: Iterable[str]) -> list[str]:
    """Leave out names whose lookup raises a hint: completion must not offer them, and proxies must not copy them."""
    hints = getattr(cls, "_hints", {})
    return [name for name in names if name not in hints or hasattr(cls, name)]


class _MissingMethod:
    """A method that does not exist: looking it up raises the hint, and ``hasattr`` is False."""

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._hint = hint

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}: {self._hint}")


def refuse_arguments(method: str, names: Iterable[str]) -> None:
    """Raise TypeError with a hint if one of the arguments is known from another client."""
    hints = ARGUMENTS.get(method, {})
    for name in names:
        if name in hints:
            raise TypeError(f"{method}() has no argument {name!r}: {hints[name]}") from None


# --- Options ---


def options_by_name(init: Callable[P, R]) -> Callable[P, R]:
    """Make a constructor raise a ``ConfigurationError`` with advice if options are passed by position."""

    @wraps(init)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        if len(args) > 1:
            name = type(args[0]).__name__
            raise ConfigurationError(
                f"{name}({type(args[1]).__name__}): pass options as keyword arguments: {name}(bootstrap_servers=...)"
            )
        return init(*args, **named)

    return checked


_OAUTH = "use sasl_oauth_token, a function that returns a token, or a pair of token and expiry in seconds"
_UNSECURED = "use sasl_oauth_token=aiokproto.security.UnsecuredToken(principal), for tests"
_CLIENT_CREDENTIALS = "use sasl_oauthbearer_client_credentials_client_"
_RETRIEVER = "leave it out, or use sasl_oauthbearer_jwt_retriever_class"
_BROKER_VALIDATES = "leave it out: brokers validate the token"
_KINIT = "leave it out: with sasl_kerberos_keytab the client gets tickets, and new ones at half of their lifetime"
_SERIALIZER = "use key_serializer and value_serializer, each a function that returns bytes"
_DESERIALIZER = "use key_deserializer and value_deserializer, each a function of bytes"
_CONTEXT = "pass ssl_context, in which ssl has settings for it"
_PROVIDERS = "leave it out: OpenSSL does what Java has providers for"
_AUTHORITIES = "leave it out, or use ssl_cafile: without it the system's certificate authorities are trusted"
_NO_VERIFICATION = "use ssl_check_hostname, or for no verification at all an ssl_context with verify_mode=ssl.CERT_NONE"
_HTTPS = "use sasl_oauth_ssl_context, which has the authorities of the token endpoint"
_PROXY = "use proxy_url, 'http://host:port' or 'socks5h://host:port'; no_proxy has the hosts without it"
_PROTOCOL = "use security_protocol: 'SSL', 'SASL_SSL' or 'SASL_PLAINTEXT'"
_AWS = "use sasl_aws_credentials, with sasl_mechanism='AWS_MSK_IAM'"
_PASSWORD = "use sasl_password, or that of a certificate's key: ssl_password"
_VERSIONS = "leave it out: versions are negotiated with each broker (broker_version is for those before Kafka 0.10)"
_CALLBACK = "await the Delivery of post(), or add_done_callback() to asyncio.ensure_future(delivery)"
_AUTO_CREATE = (
    "leave it out: for a producer the broker's auto.create.topics.enable decides; consumers never create topics"
)
_SOCKETS = "leave it out: the operating system chooses the sizes of socket buffers"
_METRICS = "use stats(), hooks, or aiokproto.prometheus and aiokproto.otel"
_LOGGED = "errors that end a client are raised from its calls; others are logged by the logger `aiokproto`"
_LEVELS = "set the level of the logger `aiokproto`, for example logging.getLogger('aiokproto').setLevel('DEBUG')"
_TOPICS = 'topics are arguments of calls: Consumer("a", "b", ...), producer.send("a", value)'
_AUTO_COMMITS = "leave it out: failed automatic commits are logged; the next call raises a fatal one"
_LIBRDKAFKA_QUEUE = "use buffer_memory (producer) or fetch_buffer_bytes (consumer), in bytes"

OPTIONS = {
    "sasl_mechanisms": "use sasl_mechanism, with one name",
    "sasl_plain_username": "use sasl_username",
    "sasl_plain_password": "use sasl_password",
    "sasl_oauth_token_provider": f"{_OAUTH}: provider.token; and sasl_oauthbearer_extensions",
    "oauth_cb": _OAUTH,
    "sasl_oauthbearer_method": _RETRIEVER,
    "sasl_oauthbearer_grant_type": _RETRIEVER,
    "sasl_oauthbearer_client_id": f"{_CLIENT_CREDENTIALS}id",
    "sasl_oauthbearer_client_secret": f"{_CLIENT_CREDENTIALS}secret",
    "sasl_oauthbearer_assertion_jwt_template_file": "use sasl_oauthbearer_assertion_template_file",
    "sasl_oauthbearer_assertion_private_key_pem": (
        "use sasl_oauthbearer_assertion_private_key_file, or aiokproto.security.Assertion(key)"
    ),
    "sasl_oauthbearer_jwt_validator_class": _BROKER_VALIDATES,
    "sasl_oauthbearer_sub_claim_name": _BROKER_VALIDATES,
    "sasl_oauthbearer_scope_claim_name": _BROKER_VALIDATES,
    "sasl_oauthbearer_expected_audience": _BROKER_VALIDATES,
    "sasl_oauthbearer_expected_issuer": _BROKER_VALIDATES,
    "sasl_oauthbearer_clock_skew_seconds": _BROKER_VALIDATES,
    "sasl_oauthbearer_jwks_endpoint_url": _BROKER_VALIDATES,
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": _BROKER_VALIDATES,
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms": _BROKER_VALIDATES,
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms": _BROKER_VALIDATES,
    "sasl_login_callback_handler_class": f"{_OAUTH}; those of Kafka are chosen by sasl_oauthbearer_... options",
    "sasl_client_callback_handler_class": "leave it out: sasl_mechanism takes an object for a mechanism of your own",
    "sasl_login_class": "leave it out: sasl_mechanism takes an object for a mechanism of your own",
    "enable_sasl_oauthbearer_unsecure_jwt": _UNSECURED,
    "sasl_kerberos_kinit_cmd": _KINIT,
    "sasl_kerberos_min_time_before_relogin": _KINIT,
    "sasl_kerberos_ticket_renew_window_factor": _KINIT,
    "sasl_kerberos_ticket_renew_jitter": _KINIT,
    "serializer": _SERIALIZER,
    "deserializer": _DESERIALIZER,
    "errors_deadletterqueue_topic_name": "use on_undecodable=DeadLetterTopic(topic, producer)",
    "ssl_ca_location": "use ssl_cafile",
    "ssl_ca_pem": "use ssl_truststore_certificates",
    "ssl_certificate_location": "use ssl_certfile",
    "ssl_certificate_pem": "use ssl_keystore_certificate_chain, with ssl_keystore_key",
    "ssl_key_location": "use ssl_keyfile, with ssl_certfile; its password is ssl_password",
    "ssl_key_pem": "use ssl_keystore_key, with ssl_keystore_certificate_chain; its password is ssl_key_password",
    "ssl_crl_location": "use ssl_crlfile",
    "ssl_curves_list": _CONTEXT,
    "ssl_sigalgs_list": _CONTEXT,
    "enable_ssl_certificate_verification": _CONTEXT,
    "ssl_protocol": "use ssl_enabled_protocols",
    "ssl_provider": _PROVIDERS,
    "ssl_providers": _PROVIDERS,
    "ssl_keymanager_algorithm": _PROVIDERS,
    "ssl_trustmanager_algorithm": _PROVIDERS,
    "ssl_secure_random_implementation": _PROVIDERS,
    "ssl_engine_factory_class": "pass ssl_context",
    "ssl_ca": "use ssl_cafile",
    "ssl_cadata": "use ssl_truststore_certificates, for PEM text",
    "ssl_ca_certificate_stores": _AUTHORITIES,
    "https_ca_location": _HTTPS,
    "https_ca_pem": _HTTPS,
    "ssl_engine_location": _CONTEXT,
    "ssl_engine_id": _CONTEXT,
    "broker_address_family": "leave it out: IPv6 and IPv4 are tried by turns",
    "ssl_cert_reqs": _NO_VERIFICATION,
    "ssl_verify": _NO_VERIFICATION,
    "verify_ssl": _NO_VERIFICATION,
    "security_providers": _PROVIDERS,
    "ssl": _PROTOCOL,
    "tls": _PROTOCOL,
    "use_ssl": _PROTOCOL,
    "sasl": "use sasl_mechanism, sasl_username and sasl_password",
    "username": "use sasl_username",
    "user": "use sasl_username",
    "password": _PASSWORD,
    "token": "use sasl_oauth_token",
    "aws_region": "use sasl_aws_region",
    "aws_profile": "use sasl_mechanism=aiokproto.security.AwsMskIam(BotocoreCredentials(profile=...))",
    "aws_access_key_id": _AWS,
    "aws_secret_access_key": _AWS,
    "aws_session_token": _AWS,
    "proxy": _PROXY,
    "http_proxy": _PROXY,
    "https_proxy": _PROXY,
    "all_proxy": _PROXY,
    "topic": _TOPICS,
    "topics": _TOPICS,
    "max_poll_records": "pass it to the call: poll(max_records=...)",
    "consumer_timeout_ms": "use `async for record in consumer.records(timeout_ms=...)`, which ends then",
    "api_version": _VERSIONS,
    "api_version_auto_timeout_ms": _VERSIONS,
    "broker_version_fallback": _VERSIONS,
    "loop": "leave it out: the running event loop is used",
    "retries": "retries end with delivery_timeout_ms (producer) or default_api_timeout_ms",
    "message_send_max_retries": "retries end with delivery_timeout_ms",
    "on_delivery": _CALLBACK,
    "dr_cb": _CALLBACK,
    "dr_msg_cb": _CALLBACK,
    "error_cb": _LOGGED,
    "stats_cb": _METRICS,
    "rebalance_cb": "pass on_assigned, on_revoked and on_lost to subscribe()",
    "exclude_internal_topics": "patterns never match internal topics",
    "enable_auto_offset_store": "use enable_auto_commit=False and commit()",
    "queue_buffering_max_messages": _LIBRDKAFKA_QUEUE,
    "queue_buffering_max_kbytes": _LIBRDKAFKA_QUEUE,
    "queued_max_messages_kbytes": _LIBRDKAFKA_QUEUE,
    "send_backoff_ms": "use retry_backoff_ms",
    "max_batch_size": "use batch_size",
    "rebalance_timeout_ms": "use max_poll_interval_ms",
    "allow_auto_create_topics": _AUTO_CREATE,
    "receive_message_max_bytes": "use max_response_size",
    "receive_buffer_bytes": _SOCKETS,
    "send_buffer_bytes": _SOCKETS,
    "socket_options": _SOCKETS,
    "bootstrap_timeout_ms": "use bootstrap_resolve_timeout_ms or default_api_timeout_ms",
    "metric_reporters": _METRICS,
    "metrics_enabled": _METRICS,
    "metrics_num_samples": _METRICS,
    "metrics_sample_window_ms": _METRICS,
    "metric_group_prefix": _METRICS,
    "selector": "leave it out: the running event loop is used",
    "kafka_client": "leave it out: the running event loop is used",
    "sasl_kerberos_name": "use sasl_kerberos_service_name and sasl_kerberos_domain_name: the two parts of the name",
    "socks5_proxy": "use proxy_url, which takes SOCKS5 and HTTP proxies",
    "enable_incremental_fetch_sessions": "leave it out: fetch sessions are always used (KIP-227)",
    "default_offset_commit_callback": _AUTO_COMMITS,
    "sasl_oauthbearer_config": _UNSECURED,
    "queued_min_messages": _LIBRDKAFKA_QUEUE,
    "message_max_bytes": "use max_request_size",
    "message_timeout_ms": "use delivery_timeout_ms",
    "request_required_acks": "use acks",
    "socket_timeout_ms": "use request_timeout_ms",
    "fetch_wait_max_ms": "use fetch_max_wait_ms",
    "fetch_message_max_bytes": "use max_partition_fetch_bytes",
    "topic_metadata_refresh_interval_ms": "use metadata_max_age_ms",
    "batch_num_messages": "use batch_size, in bytes",
    "enable_partition_eof": "use consumer.at_end(partition), or read_to_end()",
    "api_version_request": _VERSIONS,
    "metadata_recovery_strategy": "leave it out: a client whose brokers are gone starts again from bootstrap_servers",
    "metadata_recovery_rebootstrap_trigger_ms": "leave it out: bootstrap_servers come after the known brokers",
    "metadata_broker_list": "use bootstrap_servers",
    "debug": _LEVELS,
    "log_level": _LEVELS,
    "log_connection_close": _LEVELS,
    "statistics_interval_ms": _METRICS,
    "socket_keepalive_enable": "leave it out: keepalive is always on",
    "socket_nagle_disable": "leave it out: Nagle's algorithm is always off",
    "throttle_cb": "override Hooks.on_throttled, and pass hooks",
    "log_cb": _LOGGED,
    "logger": _LOGGED,
}
"""Option name, in lower case with underscores → what to use instead."""

_CLIENTS = {
    "Producer": (
        "acks batch_size buffer_memory close_timeout_ms compression_level compression_type delivery_timeout_ms"
        " enable_idempotence key_serializer linger_ms max_block_ms max_in_flight_requests_per_connection"
        " max_request_size partitioner partitioner_adaptive_partitioning_enable partitioner_availability_timeout_ms"
        " partitioner_ignore_keys partitioner_rack_aware transaction_timeout_ms"
        " transaction_two_phase_commit_enable transactional_id value_serializer"
    ),
    "Consumer": (
        "auto_commit_interval_ms auto_offset_reset enable_auto_commit fetch_buffer_bytes group_instance_id"
        " group_protocol group_remote_assignor heartbeat_interval_ms isolation_level keep_control_records"
        " key_deserializer max_partition_fetch_bytes max_poll_interval_ms new_partitions on_offset_reset on_undecodable"
        " partition_assignment_strategy session_timeout_ms value_deserializer"
    ),
    "Consumer and ShareConsumer": (
        "check_crcs fetch_max_bytes fetch_max_wait_ms fetch_min_bytes group_id max_decompressed_bytes max_record_bytes"
    ),
    "ShareConsumer": (
        "acknowledge_linger_ms acknowledgement_mode corrupt_records max_processing_ms on_acknowledged renew_locks"
        " share_acquire_mode"
    ),
}
OWNERS = {name: client for client, names in _CLIENTS.items() for name in names.split()}
"""Option that only some clients take → these clients. A configuration shared by all clients, as Java allows, contains
such options."""
