"""All errors that this package raises.

::

    KafkaError
    ├── ConfigurationError            an option is unknown, or its value cannot be used      (also ValueError)
    ├── InvalidRecordError            a record is invalid                                    (also ValueError)
    │   └── SerializationError        … because a serializer failed on it
    ├── CodecError
    │   ├── EncodeError               a message has a value that its version cannot carry
    │   └── DecodeError               bytes are not a valid message
    │       └── CorruptRecordError    … in a record batch
    │           └── CorruptBatchError … that a consumer has read
    ├── RecordDeserializationError    a deserializer failed on a record
    ├── UnsupportedCompressionError   a codec that is unknown, or whose library is missing
    ├── UnsupportedVersionError       the broker has no version of an API that fits
    ├── BrokerConnectionError         no connection, or it was lost                          (also ConnectionError)
    │   ├── BootstrapError            none of the bootstrap addresses could be used
    │   ├── NotKafkaError             the peer does not speak Kafka
    │   ├── MisroutedConnectionError  the peer is another broker, or of another cluster
    │   └── AuthenticationError       a certificate or credentials were rejected
    ├── ResponseTooLargeError         a response is longer than max_response_size
    ├── DeadlineError                 a deadline passed                                      (also TimeoutError)
    ├── PartialResponseError          some brokers did not respond
    ├── BufferFullError               try_post() would have to wait
    ├── ClientClosedError             the client is closed, or one of its tasks failed
    ├── CommitError                   the partitions are assigned to another member
    └── BrokerError                   a response has an error code
        ├── UnknownTopicError · InvalidTopicError · TopicExistsError
        ├── MessageTooLargeError (also InvalidRecordError)
        ├── OffsetOutOfRangeError
        │   └── LogTruncationError    … since it was read
        ├── AuthorizationError · FencedError · GroupError · AcquisitionLockError
        └── (others: see ``error.code``)

``except KafkaError`` catches all of them. The classes under ``BrokerError`` exist where users react differently; the
code itself is always in ``error.code``, an :class:`~aiokproto.error_codes.ErrorCode`. ``docs/errors.md`` lists the
causes and remedies of each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from aiokproto.authorization import NOTHING, Asked, Refusal, refusal
from aiokproto.error_codes import ErrorCode, Policy
from aiokproto.texts import shortened, text_of
from aiokproto.types import Record

if TYPE_CHECKING:
    from aiokproto.types import OffsetAndMetadata, TopicPartition


class Consequence(Enum):
    """What the caller should do after an error (KIP-1050)."""

    CORRECT = "correct the call, an option, a permission or the topic: the same call fails again"
    RECORD = "it is about this record or batch alone: go on with the others"
    RETRY = "the same call can succeed later"
    REPEAT = "the work since the last commit does not count: do it again"
    RESTART = "this client has come to its end: close it, and start another one"
    TAKEN_OVER = "another client has this one's identity: stop"


class KafkaError(Exception):
    """Base class of all errors of this package. It's raised directly only where no subclass fits."""

    consequence: Consequence = Consequence.CORRECT
    """What the caller should do: decide by this in ``except``, rather than by the class."""


E = TypeVar("E", bound=KafkaError)


class ConfigurationError(KafkaError, ValueError):
    """An option or argument is unknown or invalid, or the client is used in an event loop other than its own.

    The message mentions the option and the accepted values: correct the call. Nothing was sent.
    """

    consequence = Consequence.CORRECT


class InvalidRecordError(KafkaError, ValueError):
    """A record has a wrong type, timestamp, header or partition. None of it was buffered: correct the record."""

    consequence = Consequence.RECORD


class SerializationError(InvalidRecordError):
    """A key or value serializer failed: ``__cause__`` is its error. None of the record was buffered."""

    consequence = Consequence.RECORD


class CodecError(KafkaError, ValueError):
    """Base class of the codec's errors."""

    consequence = Consequence.CORRECT


class EncodeError(CodecError):
    """A message has a value that its version can't represent. The error message gives message, version and field.

    Use a version that has the field, or leave the field at its default.
    """

    consequence = Consequence.CORRECT


class DecodeError(CodecError):
    """Bytes are not a valid message of the expected type and version. The error message gives field path and position.

    If a broker's response is malformed, the cause may be a proxy, a broken network device, or a bug on either side.
    """

    consequence = Consequence.CORRECT


class CorruptRecordError(DecodeError):
    """A record batch is damaged: wrong checksum, length or structure. The message gives the offset if it's known.

    The batch is damaged where it is stored: seek past it to continue, and check the broker's disks.
    """

    consequence = Consequence.RECORD


class CorruptBatchError(CorruptRecordError):
    """A record batch that a consumer has read is damaged, so none of its records can be delivered.

    With ``on_undecodable="raise"`` the partition stops: ``consumer.seek((error.topic, error.partition),
    error.next_offset)`` continues after the batch.

    Attributes:
        topic: The topic.
        partition: The partition.
        base_offset: The first offset that could not be read.
        next_offset: The offset after the batch, as far as that can be determined: the next batch's, or the one in the
            damaged header if that is consistent.
        raw: The batch as it is stored.
    """

    consequence = Consequence.RECORD

    def __init__(
        self, message: str, topic: str, partition: int, base_offset: int, next_offset: int, raw: bytes
    ) -> None:
        super().__init__(message, topic, partition, base_offset, next_offset, raw)
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.raw = raw

    def __str__(self) -> str:
        return str(self.args[0])


class RecordDeserializationError(KafkaError):
    """A deserializer failed on a record: ``__cause__`` is its error. The next read continues after the record.

    Attributes:
        record: The record as stored: topic, partition, offset, timestamp, headers, and key and value as bytes.
        origin: Which deserializer failed, ``"key"`` or ``"value"``.
    """

    consequence = Consequence.RECORD

    def __init__(self, message: str, record: Record, origin: Literal["key", "value"]) -> None:
        super().__init__(message, record, origin)
        self.record = record
        self.origin = origin

    def __str__(self) -> str:
        return str(self.args[0])


class UnsupportedCompressionError(KafkaError):
    """A compression codec is unknown, or its library is not installed. The message says which extra installs it."""

    consequence = Consequence.CORRECT


class UnsupportedVersionError(KafkaError):
    """The broker lacks something that the call needs. The message gives the required release, and what was found."""

    consequence = Consequence.CORRECT


class BrokerConnectionError(KafkaError, ConnectionError):
    """A connection to a broker could not be made, or was lost with requests in flight.

    Producers and consumers reconnect automatically. A request that was in flight may have been executed.
    """

    consequence = Consequence.RETRY


class BootstrapError(BrokerConnectionError):
    """No bootstrap address could be used. The message lists each address and its error.

    Check ``bootstrap_servers``, that the brokers are running, and that their listeners match ``security_protocol``.
    """

    consequence = Consequence.RESTART


class NotKafkaError(BrokerConnectionError):
    """The peer does not speak the Kafka protocol, or expects TLS (or plain text) where the client does not.

    Check the port, and ``security_protocol``.
    """

    consequence = Consequence.CORRECT


class MisroutedConnectionError(BrokerConnectionError):
    """The address of a broker leads to another broker, or to another cluster (KIP-1242).

    The client starts over from ``bootstrap_servers``. If it happens again, correct the cause: the brokers'
    ``advertised.listeners``, ``address_map``, a port forward, or a load balancer.
    """

    consequence = Consequence.RETRY


class AuthenticationError(BrokerConnectionError):
    """Client or broker rejected the other's certificate or credentials. It is not retried, and ends the client.

    With TLS, the message says which option to correct: the certificate authorities (``ssl_cafile``), or the client
    certificate (``ssl_certfile``) if the broker requires one. With SASL, check ``sasl_mechanism`` and its credentials;
    the message gives mechanism, user and broker, and the broker's own message.
    """

    consequence = Consequence.RESTART


class ResponseTooLargeError(KafkaError):
    """A response is longer than ``max_response_size``; the connection was closed.

    A retry gets the same response: raise ``max_response_size``, or request less (consumer: ``fetch_max_bytes``).
    """

    consequence = Consequence.CORRECT


class DeadlineError(KafkaError, TimeoutError):
    """A deadline passed. The message says what was awaited, for how long, and what the last failure was.

    What was sent may have been executed. If the last failure is not the cause, raise the timeout that the message
    mentions.
    """

    consequence = Consequence.RETRY


class PartialResponseError(KafkaError):
    """A request was divided among brokers, some did not respond, and the response has no field for the error.

    Use ``response`` if a partial result is enough; otherwise retry.

    Attributes:
        response: The joined response of the other brokers.
        failures: One error for each broker that did not respond.
    """

    consequence = Consequence.RETRY

    def __init__(self, message: str, response: Any, failures: tuple[KafkaError, ...]) -> None:
        super().__init__(message, response, failures)
        self.response = response
        self.failures = failures

    def __str__(self) -> str:
        return str(self.args[0])


class BufferFullError(KafkaError):
    """:meth:`Producer.try_post() <aiokproto.producer.Producer.try_post>` would have to wait for memory or metadata.

    Retry later, use ``await post()``, or raise ``buffer_memory``.
    """

    consequence = Consequence.RETRY


class RecordAbortedError(KafkaError):
    """:meth:`Producer.abort() <aiokproto.producer.Producer.abort>` dropped the record, or interrupted the call.

    It was not sent; or, with ``in_flight=True``, it was sent and may be in the log.
    """

    consequence = Consequence.RECORD


class ClientClosedError(KafkaError):
    """The client is not started, is closed, or one of its internal tasks failed with the error ``__cause__``.

    A client can be started only once: create a new one.
    """

    consequence = Consequence.RESTART


class TransactionAbortedError(KafkaError):
    """A transaction was aborted, or can only be aborted: ``__cause__`` is the reason. The producer is still usable.

    Nothing of the transaction is visible to ``read_committed`` consumers. Repeat its work in a new transaction. If the
    records came from a consumer, start from its committed offsets.
    """

    consequence = Consequence.REPEAT


class TransactionOutcomeUnknownError(KafkaError):
    """The coordinator did not confirm a commit in time, so the transaction may or may not be committed.

    Call ``commit()`` again: it requests the same commit, which takes effect once. Starting a new transaction does that
    first.
    """

    consequence = Consequence.RETRY


class CommitError(KafkaError):
    """Offsets were not committed: the group has assigned the partitions to another member, or removed this one.

    The records will be processed again. If it happens often, process faster or raise ``max_poll_interval_ms``.
    """

    consequence = Consequence.REPEAT


class BrokerError(KafkaError):
    """A broker's response contains an error code. Subclasses exist where callers react differently.

    Its ``consequence`` is RETRY if Kafka classifies the code as retriable, or CORRECT otherwise; subclasses have their
    own.

    Attributes:
        code: The code, an :class:`~aiokproto.error_codes.ErrorCode`.
        context: The request: API, broker, partition or group, as far as known.
        detail: The broker's error message, or None. If it's longer than 1,000 characters, only the beginning is kept.
    """

    _kept = 1000
    _shown = 500
    """Maximum number of the detail's characters in the error message. They come from the peer."""

    def __init__(self, code: int, context: str = "", detail: str | None = None) -> None:
        # Messages repeat names from requests, which can have 32,767 characters, and a response can contain thousands of
        # messages.
        if detail is not None and len(detail) > self._kept:
            detail = shortened(detail, self._kept - len("… (1000000 characters)"))
        self.code = ErrorCode(code)
        self.context = context
        self.detail = detail
        super().__init__(code, context, detail)
        if type(self) is BrokerError and self.code.retriable:
            self.consequence = Consequence.RETRY

    def __str__(self) -> str:
        text = f"{self.code.name} ({self.code.value})"
        hint = shortened(self.detail, self._shown) if self.detail else _HINTS.get(self.code)
        if self.context:
            text = f"{shortened(self.context)}: {text}"
        return f"{text}: {hint}" if hint else text

    @property
    def retriable(self) -> bool:
        """Whether Kafka classifies the code as retriable: the same request can succeed later."""
        return self.code.retriable


class UnknownTopicError(BrokerError):
    """The topic or partition does not exist, or this client may not describe it. Create it, or grant DESCRIBE."""

    consequence = Consequence.CORRECT


class InvalidTopicError(BrokerError):
    """The topic's name is invalid: expected 1 to 249 of the characters ``a-z A-Z 0-9 . _ -``."""

    consequence = Consequence.CORRECT


class TopicExistsError(BrokerError):
    """The topic to create already exists. Often this can be ignored."""

    consequence = Consequence.CORRECT


class MessageTooLargeError(BrokerError, InvalidRecordError):
    """A record is larger than the client's or the topic's limit.

    Raise ``max_request_size`` here and ``max.message.bytes`` on the topic, or send smaller records.
    """

    consequence = Consequence.RECORD


class OffsetOutOfRangeError(BrokerError):
    """The position is outside the log, and ``auto_offset_reset`` is ``"none"``. Seek to an offset that exists."""

    consequence = Consequence.CORRECT


class LogTruncationError(OffsetOutOfRangeError):
    """Records that were delivered are no longer in the log, for example after an unclean leader election (KIP-320).

    The log may contain other records at their offsets. If you can, undo the effects of the lost records, then seek to
    ``diverged`` or to another offset. Raised with ``auto_offset_reset="none"``; otherwise the consumer continues at
    ``diverged`` and reports it to ``on_offset_reset``.

    Attributes:
        partition: The partition.
        position: The position, with the leader epoch of the record before it.
        diverged: Where the log diverges from what was delivered, with the leader epoch of the log there; None if the
            leader doesn't know.
    """

    consequence = Consequence.CORRECT

    def __init__(
        self, partition: TopicPartition, position: OffsetAndMetadata, diverged: OffsetAndMetadata | None
    ) -> None:
        agreement = (
            "the leader's log has no records of this epoch or an earlier one"
            if diverged is None
            else f"the log agrees with it only up to offset {diverged.offset} of leader epoch {diverged.leader_epoch}"
        )
        context = f"{partition} was read up to offset {position.offset} of leader epoch {position.leader_epoch}"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, context, f"the log was truncated: {agreement}")
        self.args = (partition, position, diverged)
        self.partition = partition
        self.position = position
        self.diverged = diverged


class AuthorizationError(BrokerError):
    """The client is authenticated, but may not do this. The message gives the operation, and the command to grant it.

    Attributes:
        operation: The operation as in ACLs, such as ``"WRITE"``; empty if unknown.
        resource_type: ``"topic"``, ``"group"``, ``"cluster"``, ``"transactional id"`` or ``"delegation token"``.
        resource_name: The resource; empty if unknown. The cluster is ``"kafka-cluster"``.
        resource_names: This resource, and all others of its type that were refused at the same time.
        principal: The principal that may not do it, such as ``"User:alice"``: the user name of PLAIN and SCRAM, the
            subject of a certificate or of a JSON Web Token, or ``"User:ANONYMOUS"``; empty if only the brokers know it.
    """

    consequence = Consequence.CORRECT
    # The message contains each name in the command twice, and the broker's own message.
    _shown = 5000

    def __init__(self, code: int, context: str = "", detail: str | None = None, asked: Asked = NOTHING) -> None:
        refused = refusal(ErrorCode(code), asked) or Refusal("", "", "")
        text = str(refused) if refused.resource_type else None
        said = shortened(detail) if detail else ""
        super().__init__(code, context, "; ".join(part for part in (text, said) if part) or None)
        # Copies and pickles call the constructor again with these.
        self.args = (code, context, detail, asked)
        self.operation, self.resource_type, self.resource_name, also, self.principal = refused
        self.resource_names = (self.resource_name, *also) if self.resource_name else ()

    @classmethod
    def together(cls, errors: Sequence[AuthorizationError]) -> AuthorizationError:
        """Return one error for all errors about the same operation as the first, on other topics."""
        first = errors[0]
        code, context, detail, asked = first.args
        same = (first.code, first.operation)
        names = dict.fromkeys(error.resource_name for error in errors if (error.code, error.operation) == same)
        also = tuple(name for name in names if name != first.resource_name)
        return cls(code, context, detail, asked._replace(also=also)) if also else first


class FencedError(BrokerError):
    """Another client with the same transactional id, producer id or group instance id has taken over.

    Stop this client, and give each instance its own id.
    """

    consequence = Consequence.TAKEN_OVER


class GroupError(BrokerError):
    """The group coordinator rejects this member or request. ``code`` is the reason (group id, session, protocol)."""

    consequence = Consequence.RESTART


class AcquisitionLockError(BrokerError):
    """A record of a share group is no longer locked for this member, so its acknowledgement has no effect.

    It is part of the acknowledgement's outcome. The record is delivered again. If it happens often, process faster, or
    raise the group's ``share.record.lock.duration.ms``, or ``max_processing_ms`` here.
    """

    consequence = Consequence.REPEAT


_CLASSES: dict[ErrorCode, type[BrokerError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.MESSAGE_TOO_LARGE: MessageTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: MessageTooLargeError,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.INVALID_PRODUCER_EPOCH: FencedError,
    ErrorCode.PRODUCER_FENCED: FencedError,
    ErrorCode.FENCED_INSTANCE_ID: FencedError,
    ErrorCode.ILLEGAL_GENERATION: GroupError,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: GroupError,
    ErrorCode.INVALID_GROUP_ID: GroupError,
    ErrorCode.UNKNOWN_MEMBER_ID: GroupError,
    ErrorCode.INVALID_SESSION_TIMEOUT: GroupError,
    ErrorCode.REBALANCE_IN_PROGRESS: GroupError,
    ErrorCode.MEMBER_ID_REQUIRED: GroupError,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupError,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupError,
    ErrorCode.NON_EMPTY_GROUP: GroupError,
    ErrorCode.INVALID_RECORD_STATE: AcquisitionLockError,
    ErrorCode.FENCED_MEMBER_EPOCH: GroupError,
    ErrorCode.STALE_MEMBER_EPOCH: GroupError,
    ErrorCode.UNRELEASED_INSTANCE_ID: GroupError,
    ErrorCode.UNSUPPORTED_ASSIGNOR: GroupError,
    ErrorCode.INVALID_REGULAR_EXPRESSION: GroupError,
    ErrorCode.STREAMS_INVALID_TOPOLOGY: GroupError,
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: GroupError,
    ErrorCode.STREAMS_TOPOLOGY_FENCED: GroupError,
}

_HINTS: dict[ErrorCode, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist, or this client may not see it",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ -",
    ErrorCode.MESSAGE_TOO_LARGE: "raise max_request_size here and max.message.bytes on the topic, or send less",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the cluster has fewer brokers than the replication factor asks for",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session_timeout_ms lies outside what the broker allows",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "the topic's message.format.version is older than this needs: raise it, or use enable_idempotence=False"
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the members of the group share no partition assignment strategy, or it "
    "is a share or streams group",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is longer than the broker's "
    "transaction.max.timeout.ms (15 minutes by default)",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has a later epoch: give each its own transactional_id",
    ErrorCode.FENCED_INSTANCE_ID: "another member has this group_instance_id: give each process its own",
}


def copied(error: E) -> E:
    """Return a copy of an error for another call to raise: one instance would collect the tracebacks of all calls."""
    # Don't call the constructor: the parameters of an application's class may differ from its args.
    again = type(error).__new__(type(error), *error.args)
    again.args = error.args
    again.__dict__.update(error.__dict__)
    # Keep the original visible: its traceback shows where the failure happened.
    again.__cause__ = error.__cause__ or error
    return again


def said_of(error: E, what: str) -> E:
    """Return a copy of an error whose message starts with ``what``."""
    again = copied(error)
    if isinstance(again, BrokerError):
        again.context = f"{what}: {again.context}" if again.context else what
    else:
        again.args = (f"{what}: {text_of(error)}", *error.args[1:])
    return again


def error_for(code: int, context: str = "", detail: str | None = None, asked: Asked = NOTHING) -> BrokerError:
    """Return the exception for a broker's error code.

    Args:
        code: The error code.
        context: Identifies the request and its target.
        detail: The broker's error message, or None.
        asked: The request; it determines what an authorization error is about.
    """
    known = ErrorCode(code)
    if known in _CLASSES:
        return _CLASSES[known](known, context, detail)
    if known.policy & Policy.AUTHORIZATION:
        return AuthorizationError(known, context, detail, asked)
    return BrokerError(known, context, detail)


def check(code: int, context: str = "", detail: str | None = None, asked: Asked = NOTHING) -> None:
    """Raise the exception for ``code`` unless it is 0."""
    if code:
        raise error_for(code, context, detail, asked)
