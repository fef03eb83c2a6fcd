"""Everything this package raises.

::

    KafkaError
    ├── ConfigurationError            an option is unknown, or its value cannot be used      (also ValueError)
    ├── InvalidRecordError            a record that cannot be sent as it is                  (also ValueError)
    ├── CodecError
    │   ├── EncodeError               a message that its version cannot carry
    │   └── DecodeError               bytes that are not what they were said to be
    │       └── CorruptRecordError    … in a record batch
    ├── UnsupportedCompressionError   a codec that is unknown, or whose library is missing
    ├── UnsupportedVersionError       the broker has no version of an API that fits
    ├── BrokerConnectionError         no connection, or it was lost                          (also ConnectionError)
    │   ├── BootstrapError            none of the bootstrap addresses could be used
    │   ├── NotKafkaError             what answers on that port does not speak Kafka
    │   └── AuthenticationError       one side refused who the other is
    ├── ResponseTooLargeError         an answer is longer than max_response_size
    ├── DeadlineError                 a deadline passed; names what was waited for           (also TimeoutError)
    ├── PartialResponseError          some of the brokers asked gave no answer
    ├── BufferFullError               the producer's byte budget is used up
    ├── ClientClosedError             the client was closed, or one of its tasks died
    ├── CommitError                   offsets of partitions that are no longer ours
    └── BrokerError                   a broker answered with an error code
        ├── UnknownTopicError · InvalidTopicError · TopicExistsError
        ├── MessageTooLargeError (also InvalidRecordError) · OffsetOutOfRangeError
        ├── AuthorizationError · FencedError · GroupError
        └── (others: see ``error.code``)

``except KafkaError`` catches all of it. The classes under ``BrokerError`` exist where users react differently; the
code itself is always in ``error.code``, an :class:`~aiokproto.error_codes.ErrorCode`.
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from aiokproto.error_codes import ErrorCode, Policy


class KafkaError(Exception):
    """Base of all errors of this package."""


E = TypeVar("E", bound=KafkaError)


class ConfigurationError(KafkaError, ValueError):
    """An option is unknown, or its value cannot be used. The text names the option and what it takes."""


class InvalidRecordError(KafkaError, ValueError):
    """A record cannot be sent as given: wrong type, bad timestamp, unusable partition."""


class CodecError(KafkaError, ValueError):
    """Base of what the codec raises."""


class EncodeError(CodecError):
    """A message holds a value which the version it is written in cannot carry. Names message, version and field."""


class DecodeError(CodecError):
    """Bytes are not what they were said to be. Names message, version, field path and position."""


class CorruptRecordError(DecodeError):
    """A record batch is damaged: bad checksum, length or structure. Names the offset where it is known."""


class UnsupportedCompressionError(KafkaError):
    """A compression type is unknown, or the library it needs is not installed."""


class UnsupportedVersionError(KafkaError):
    """The broker supports no version of an API that this client, or this call, can use."""


class BrokerConnectionError(KafkaError, ConnectionError):
    """A connection to a broker could not be made, or was lost with requests under way."""


class BootstrapError(BrokerConnectionError):
    """None of the bootstrap addresses could be used. The text has every address with what went wrong there."""


class NotKafkaError(BrokerConnectionError):
    """What answers on that port does not speak the Kafka protocol, or speaks TLS where plain text was expected."""


class AuthenticationError(BrokerConnectionError):
    """One side did not accept who the other is: a certificate that is not trusted, or credentials that are refused."""


class ResponseTooLargeError(KafkaError):
    """A broker announced an answer longer than ``max_response_size``, and lost its connection. It would answer
    the same again: raise the option, or ask for less (a consumer by ``fetch_max_bytes``)."""


class DeadlineError(KafkaError, TimeoutError):
    """A deadline passed. The text says what was waited for, how long, and the last failure seen."""


class PartialResponseError(KafkaError):
    """A request was divided among brokers, some gave no answer, and the response has no place to say so.

    Attributes:
        response: What the others answered, joined; of the class that answers the request.
        failures: Why there is no answer from the rest, an error for each.
    """

    def __init__(self, message: str, response: Any, failures: tuple[KafkaError, ...]) -> None:
        super().__init__(message, response, failures)
        self.response = response
        self.failures = failures

    def __str__(self) -> str:
        return str(self.args[0])


class BufferFullError(KafkaError):
    """The producer's byte budget is used up and the caller asked not to wait."""


class ClientClosedError(KafkaError):
    """The client is closed, or a task it lives by has died; then ``__cause__`` is what killed it."""


class CommitError(KafkaError):
    """Offsets could not be committed since the group has given the partitions to someone else, or the group is gone."""


class BrokerError(KafkaError):
    """A broker answered with an error code.

    Attributes:
        code: The code, an :class:`~aiokproto.error_codes.ErrorCode`.
        context: What was asked, of whom: API, broker, topic-partition or group, as far as known.
        detail: The broker's own message, where it gave one.
    """

    def __init__(self, code: int, context: str = "", detail: str | None = None) -> None:
        self.code = ErrorCode(code)
        self.context = context
        self.detail = detail
        super().__init__(code, context, detail)

    def __str__(self) -> str:
        text = f"{self.code.name} ({self.code.value})"
        hint = self.detail or _HINTS.get(self.code)
        if self.context:
            text = f"{self.context}: {text}"
        return f"{text}: {hint}" if hint else text

    @property
    def retriable(self) -> bool:
        """Whether the same request can succeed later."""
        return self.code.retriable


class UnknownTopicError(BrokerError):
    """The topic, or that partition of it, does not exist, or this client may not see it."""


class InvalidTopicError(BrokerError):
    """The topic's name is not one that Kafka takes."""


class TopicExistsError(BrokerError):
    """The topic to be created is already there."""


class MessageTooLargeError(BrokerError, InvalidRecordError):
    """A record, or a batch that cannot be split further, is larger than client or broker allow."""


class OffsetOutOfRangeError(BrokerError):
    """The log has no such offset, and ``auto_offset_reset`` says not to choose another."""


class AuthorizationError(BrokerError):
    """The client is known but may not do this. The context names the resource."""


class FencedError(BrokerError):
    """Another instance with the same identity (producer epoch, group instance id) has taken over."""


class GroupError(BrokerError):
    """The group refuses this member or this request."""


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
}

_HINTS: dict[ErrorCode, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist, or this client may not see it",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ -",
    ErrorCode.MESSAGE_TOO_LARGE: "raise max_request_size here and max.message.bytes on the topic, or send less",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the cluster has fewer brokers than the replication factor asks for",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session_timeout_ms lies outside what the broker allows",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the members of the group share no partition assignment strategy",
}


def copied(error: E) -> E:
    """The same error for another call: an instance that is raised in several places collects all their tracebacks."""
    again = copy(error)
    again.__cause__ = error.__cause__ or error
    return again


def error_for(code: int, context: str = "", detail: str | None = None) -> BrokerError:
    """The exception for a broker's error code; ``context`` says what was asked and of whom."""
    known = ErrorCode(code)
    if known in _CLASSES:
        return _CLASSES[known](known, context, detail)
    if known.policy & Policy.AUTHORIZATION:
        return AuthorizationError(known, context, detail)
    return BrokerError(known, context, detail)


def check(code: int, context: str = "", detail: str | None = None) -> None:
    """Raise the exception for ``code`` unless it is 0."""
    if code:
        raise error_for(code, context, detail)
