"""The producer's options: their validation and internal form."""

from __future__ import annotations

from inspect import signature
from typing import Literal, NamedTuple, cast, get_args

from aiokproto.config.values import boolean, duration, integer, one_of, positive, seconds, text
from aiokproto.errors import ConfigurationError, UnsupportedCompressionError
from aiokproto.producer.limits import BATCH_OVERHEAD, BufferLimits
from aiokproto.producer.partitioner import Partitioner
from aiokproto.records import Compression, compress
from aiokproto.records.varint import INT32_MAX

BATCH_SIZE = 128 * 1024
"""Default of ``batch_size``. Java's default is 16 KiB because it allocates a batch's full size when it opens the batch.
Here a batch grows with its records, and with eight times as many records per batch, the Python overhead per record is
smaller."""
TRANSACTION_TIMEOUT_MS = 60_000
"""Default of ``transaction_timeout_ms``."""
MAX_IN_FLIGHT = 5
"""Brokers remember a producer's last five batches per partition. With more in flight, they'd miss duplicates."""
LOWEST_LEVEL = -131_072
"""The lowest compression level of any codec (zstd)."""

PartitionerName = Literal[
    "default",
    "murmur2_random",
    "murmur2",
    "consistent_random",
    "consistent",
    "fnv1a_random",
    "fnv1a",
    "random",
    "round_robin",
]
"""The names that ``partitioner`` accepts. "murmur2_random" is librdkafka's name for the default."""

_ACKS: dict[object, int] = {"all": -1, "-1": -1, "0": 0, "1": 1, -1: -1, 0: 0, 1: 1}


class ProducerConfig(NamedTuple):
    """A producer's options. Times are in seconds.

    Attributes:
        acks: 0, 1, or -1 for all.
        idempotent: Whether brokers detect and drop duplicates.
        insists: Whether ``enable_idempotence=True`` was given. If so, brokers without idempotence are an error.
        limits: The limits of the accumulator.
        compression: The codec of batches.
        compression_level: The codec's level, or None for its default.
        max_block: How long a call waits for metadata and buffer memory.
        close_timeout_ms: Deadline of ``close()`` in milliseconds. None waits as long as records may take.
        partitioner: Its name, or the partitioner itself.
        ignore_keys: Whether the default partitioner treats all records as records without a key.
        adaptive: Whether the default partitioner avoids partitions with a backlog.
        availability_timeout: The default partitioner avoids a broker that has had no capacity for this long; 0 disables
            it.
        rack_aware: Whether the default partitioner prefers the client's rack.
        transactional_id: The transactional id, or None without transactions.
        transaction_timeout_ms: The coordinator aborts a transaction that is open for longer.
        two_phase_commit: Whether transactions can be prepared and have no timeout (KIP-939).
    """

    acks: int
    idempotent: bool
    insists: bool
    limits: BufferLimits
    compression: Compression
    compression_level: int | None
    max_block: float
    close_timeout_ms: float | None
    partitioner: PartitionerName | Partitioner
    ignore_keys: bool
    adaptive: bool
    availability_timeout: float
    rack_aware: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    two_phase_commit: bool

    @classmethod
    def parse(
        cls,
        *,
        acks: int | str,
        enable_idempotence: bool | None,
        linger_ms: float,
        batch_size: int,
        buffer_memory: int,
        compression_type: str,
        compression_level: int | None,
        max_request_size: int,
        delivery_timeout_ms: float,
        max_in_flight_requests_per_connection: int,
        partitioner: PartitionerName | Partitioner,
        partitioner_ignore_keys: bool,
        partitioner_adaptive_partitioning_enable: bool,
        partitioner_availability_timeout_ms: float,
        partitioner_rack_aware: bool,
        max_block_ms: float,
        close_timeout_ms: float | None,
        transactional_id: str | None,
        transaction_timeout_ms: int | None,
        two_phase_commit: bool,
    ) -> ProducerConfig:
        """Check all options.

        Raises:
            ConfigurationError: An option is invalid, or two contradict each other. The message names the option.
        """
        in_flight = positive("max_in_flight_requests_per_connection", max_in_flight_requests_per_connection)
        request_size = integer("max_request_size", max_request_size, BATCH_OVERHEAD + 1)
        memory = integer("buffer_memory", buffer_memory, BATCH_OVERHEAD + 1)
        limits = BufferLimits(
            # Lower it silently: the default of batch_size must not forbid a small max_request_size or buffer_memory.
            batch_size=min(integer("batch_size", batch_size), request_size, memory),
            buffer_memory=memory,
            max_request_size=request_size,
            linger=seconds("linger_ms", linger_ms),
            delivery_timeout=duration("delivery_timeout_ms", delivery_timeout_ms),
            in_flight=in_flight,
        )
        if limits.linger > limits.delivery_timeout:
            raise ConfigurationError(
                f"delivery_timeout_ms={delivery_timeout_ms!r} is less than linger_ms={linger_ms!r}"
            )
        level = acks_level(acks)
        codec, codec_level = _compression(compression_type, compression_level)
        idempotent = _idempotence(enable_idempotence, level, in_flight)
        if transactional_id is not None:
            text("transactional_id", transactional_id)
            if not idempotent:
                raise ConfigurationError(
                    'transactional_id needs idempotence: acks="all", max_in_flight_requests_per_connection of at most '
                    f"{MAX_IN_FLIGHT}, and enable_idempotence not False"
                )
        timeout_ms = _transaction_timeout(transactional_id, transaction_timeout_ms, two_phase_commit)
        return cls(
            acks=level,
            idempotent=idempotent,
            insists=bool(enable_idempotence),
            limits=limits,
            compression=codec,
            compression_level=codec_level,
            max_block=seconds("max_block_ms", max_block_ms),
            # Checked like the others, but kept in milliseconds for close().
            close_timeout_ms=None if close_timeout_ms is None else seconds("close_timeout_ms", close_timeout_ms) * 1000,
            partitioner=_partitioner(partitioner, partitioner_ignore_keys),
            ignore_keys=boolean("partitioner_ignore_keys", partitioner_ignore_keys),
            adaptive=boolean("partitioner_adaptive_partitioning_enable", partitioner_adaptive_partitioning_enable),
            availability_timeout=seconds("partitioner_availability_timeout_ms", partitioner_availability_timeout_ms),
            rack_aware=boolean("partitioner_rack_aware", partitioner_rack_aware),
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            two_phase_commit=two_phase_commit,
        )


def _partitioner(partitioner: str | Partitioner, ignore_keys: bool) -> PartitionerName | Partitioner:
    if not isinstance(partitioner, str):
        _check_partitioner(partitioner)
        chosen: PartitionerName | Partitioner = partitioner
    else:
        chosen = cast("PartitionerName", one_of("partitioner", partitioner, get_args(PartitionerName)))
    if ignore_keys and chosen not in ("default", "murmur2_random"):
        raise ConfigurationError(
            f"partitioner_ignore_keys=True is for the default partitioner, not partitioner={partitioner!r}"
        )
    return chosen


def _transaction_timeout(transactional_id: str | None, timeout_ms: int | None, two_phase: bool) -> int:
    boolean("transaction_two_phase_commit_enable", two_phase)
    if two_phase and transactional_id is None:
        raise ConfigurationError("transaction_two_phase_commit_enable=True needs a transactional_id")
    if timeout_ms is not None and transactional_id is None:
        raise ConfigurationError(f"transaction_timeout_ms={timeout_ms!r} needs a transactional_id")
    if two_phase and timeout_ms is not None:
        raise ConfigurationError(
            f"transaction_timeout_ms={timeout_ms!r}: with transaction_two_phase_commit_enable=True transactions have "
            "no timeout"
        )
    if two_phase:
        return INT32_MAX
    return TRANSACTION_TIMEOUT_MS if timeout_ms is None else integer("transaction_timeout_ms", timeout_ms, 1, INT32_MAX)


def _check_partitioner(partitioner: Partitioner) -> None:
    if not callable(partitioner):
        raise ConfigurationError(
            f"partitioner={partitioner!r}: expected a callable, or one of "
            + ", ".join(map(repr, get_args(PartitionerName)))
        )
    try:
        accepted = signature(partitioner)
    except ValueError:
        # Some callables written in C have no signature.
        return
    try:
        accepted.bind("topic", None, None, range(1), [0])
    except TypeError as error:
        raise ConfigurationError(
            f"partitioner={partitioner!r} cannot be called with (topic, key, value, partitions, available): {error}"
        ) from None


def acks_level(acks: int | str) -> int:
    """Return ``acks`` as in Produce requests: 0, 1, or -1 for all."""
    if isinstance(acks, bool) or not isinstance(acks, int | str) or acks not in _ACKS:
        raise ConfigurationError(f'acks={acks!r}: expected 0, 1, -1 or "all" (the same as -1)')
    return _ACKS[acks]


def _idempotence(wanted: bool | None, acks: int, in_flight: int) -> bool:
    """Return whether the producer is idempotent. As in Java, it is by default if the other options allow it.

    Raises:
        ConfigurationError: ``enable_idempotence=True`` contradicts another option.
    """
    if wanted is not None:
        boolean("enable_idempotence", wanted)
    if wanted and acks != -1:
        raise ConfigurationError(f'enable_idempotence=True needs acks="all", not acks={acks}')
    if wanted and in_flight > MAX_IN_FLIGHT:
        raise ConfigurationError(
            f"enable_idempotence=True needs max_in_flight_requests_per_connection of at most {MAX_IN_FLIGHT}, "
            f"not {in_flight}"
        )
    # None turns idempotence on if the other options allow it, and silently off otherwise. True insists, and raises
    # above.
    return acks == -1 and in_flight <= MAX_IN_FLIGHT if wanted is None else wanted


def _compression(name: str, level: int | None) -> tuple[Compression, int | None]:
    codec = Compression.parse(one_of("compression_type", name, [codec.name.lower() for codec in Compression]))
    if level is not None:
        if codec is Compression.NONE:
            raise ConfigurationError(f"compression_level={level!r}: there is no compression; set compression_type")
        integer("compression_level", level, LOWEST_LEVEL)
    # Try the codec here, so a missing library or an invalid level is an error before any record is accepted.
    try:
        compress(codec, b"aiokproto", level)
    except UnsupportedCompressionError as error:
        raise ConfigurationError(f"compression_type={name!r}: {error}") from error
    except Exception as error:
        raise ConfigurationError(f"compression_level={level!r}: {name} has no such level ({error})") from error
    return codec, level
