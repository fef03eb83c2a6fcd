"""Real clusters that all tests of a run share, in all its processes.

The process that started the run owns the clusters. A cluster starts when a test needs it, and stops when no test has
needed it for a while, or with the run. A test takes a lease for its duration, together with others or, if it stops
brokers or changes what others would see, alone. Worker processes take theirs through a connection, which is the lease:
if the worker dies, the lease ends.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Protocol, cast

from tests.kafka.cluster import KafkaCluster, KafkaError
from tests.kafka.config import HOST

IDLE_SECONDS = 60.0


class RunningKafka(Protocol):
    """What a test may do with a cluster that it has leased; see `tests.kafka.cluster.KafkaCluster`."""

    @property
    def broker_ids(self) -> tuple[int, ...]: ...
    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def running(self) -> set[int]: ...
    def address(self, node_id: int) -> tuple[str, int]: ...
    def data_folder(self, node_id: int) -> Path: ...
    def stop_broker(self, node_id: int, *, hard: bool = False) -> None: ...
    def start_broker(self, node_id: int) -> None: ...


class KafkaPool(Protocol):
    """Gives leases of clusters by name."""

    def lease(self, name: str, *, alone: bool = False) -> AbstractContextManager[RunningKafka]:
        """Return a context with the running cluster, which is started if it wasn't running."""
        ...


class ReadersWriter:
    """A lock that many hold together, or one alone. A caller that wants it alone comes before later ones."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writer = False
        self._writers_waiting = 0

    @contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        with self._changed:
            if alone:
                self._writers_waiting += 1
                self._changed.wait_for(lambda: not self._readers and not self._writer)
                self._writers_waiting -= 1
                self._writer = True
            else:
                self._changed.wait_for(lambda: not self._writers_waiting and not self._writer)
                self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                if alone:
                    self._writer = False
                else:
                    self._readers -= 1
                self._changed.notify_all()


class SharedCluster:
    """A cluster that starts with its first lease, and stops when it had no lease for some seconds.

    Three unused brokers take a tenth of a core, and much memory, which is more than starting them again takes.
    """

    def __init__(self, make: Callable[[], KafkaCluster], idle_seconds: float) -> None:
        self._make = make
        self._idle_seconds = idle_seconds
        self._lock = ReadersWriter()
        # This lock is held while the cluster starts or stops, and guards the attributes below.
        self._changing = threading.Lock()
        self._leases = 0
        self._cluster: KafkaCluster | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def lease(self, *, alone: bool) -> Iterator[RunningKafka]:
        with self._lock.held(alone=alone):
            cluster = self._begin()
            try:
                yield LeasedKafka(cluster, alone=alone)
            finally:
                self._end()

    def _begin(self) -> KafkaCluster:
        with self._changing:
            self._cancel()
            if self._cluster is None:
                cluster = self._make()
                cluster.start()
                self._cluster = cluster
            self._leases += 1
            return self._cluster

    def _end(self) -> None:
        with self._changing:
            self._leases -= 1
            if not self._leases:
                self._timer = threading.Timer(self._idle_seconds, self._stop_idle)
                # The run must not wait for the timer.
                self._timer.daemon = True
                self._timer.start()

    def _stop_idle(self) -> None:
        with self._changing:
            # A lease may have started, and another one ended, since the timer fired.
            if self._timer is threading.current_thread():
                self._stop()

    def stop(self) -> None:
        with self._changing:
            self._stop()

    def _stop(self) -> None:
        self._cancel()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LocalPool:
    """The owner of the clusters."""

    def __init__(self, makers: Mapping[str, Callable[[], KafkaCluster]], *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._clusters = {name: SharedCluster(make, idle_seconds) for name, make in makers.items()}

    @contextmanager
    def lease(self, name: str, *, alone: bool = False) -> Iterator[RunningKafka]:
        with self._clusters[name].lease(alone=alone) as kafka:
            yield kafka

    def stop(self) -> None:
        for cluster in self._clusters.values():
            cluster.stop()


class LeasedKafka:
    """A cluster as the holder of a lease may use it."""

    def __init__(self, cluster: KafkaCluster, *, alone: bool) -> None:
        self._cluster = cluster
        self._alone = alone
        self.broker_ids = cluster.broker_ids
        self.bootstrap_servers = cluster.bootstrap_servers
        self.address = cluster.address
        self.data_folder = cluster.data_folder

    @property
    def running(self) -> set[int]:
        return self._cluster.running

    def stop_broker(self, node_id: int, *, hard: bool = False) -> None:
        self._check_alone()
        self._cluster.stop_broker(node_id, hard=hard)

    def start_broker(self, node_id: int) -> None:
        self._check_alone()
        self._cluster.start_broker(node_id)

    def _check_alone(self) -> None:
        if not self._alone:
            raise KafkaError("other tests use this cluster meanwhile: mark a test that stops brokers `exclusive`")


class PoolServer:
    """Serves the leases of a `LocalPool` to other processes, each in its own thread."""

    def __init__(self, pool: LocalPool) -> None:
        self._pool = pool
        self._key = secrets.token_bytes(16)
        self._listener = Listener((HOST, 0), authkey=self._key)
        threading.Thread(target=self._accept, name="kafka-pool", daemon=True).start()

    @property
    def address(self) -> tuple[str, int, str]:
        """The address at which `RemotePool` finds it, and the key that it needs."""
        host, port = cast("tuple[str, int]", self._listener.address)
        return host, port, self._key.hex()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="kafka-lease", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        """Serve one lease, which lasts as long as the connection."""
        with connection, ExitStack() as stack:
            try:
                name, alone = connection.recv()
                cluster = stack.enter_context(self._pool.lease(name, alone=alone))
            except (KafkaError, OSError) as error:
                connection.send((False, error))
                return
            with suppress(EOFError, OSError):
                connection.send((True, None))
                while True:
                    connection.send(_done(cluster, *connection.recv()))


def _done(cluster: RunningKafka, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[bool, Any]:
    try:
        found = getattr(cluster, name)
        return True, found(*arguments, **options) if callable(found) else found
    except KafkaError as error:
        return False, error


class RemotePool:
    """The leases of another process's pool."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._address = (host, port)
        self._key = bytes.fromhex(key)

    @contextmanager
    def lease(self, name: str, *, alone: bool = False) -> Iterator[RunningKafka]:
        with Client(self._address, authkey=self._key) as connection:
            connection.send((name, alone))
            _answer(connection)
            yield RemoteKafka(connection)


class RemoteKafka:
    """A leased cluster of another process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Tests drive brokers from worker threads.
        self._lock = threading.Lock()

    def _ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            self._connection.send((name, arguments, options))
            return _answer(self._connection)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(self._ask("broker_ids"))

    @property
    def bootstrap_servers(self) -> str:
        return str(self._ask("bootstrap_servers"))

    @property
    def running(self) -> set[int]:
        return set(self._ask("running"))

    def address(self, node_id: int) -> tuple[str, int]:
        host, port = self._ask("address", node_id)
        return host, port

    def data_folder(self, node_id: int) -> Path:
        return Path(self._ask("data_folder", node_id))

    def stop_broker(self, node_id: int, *, hard: bool = False) -> None:
        self._ask("stop_broker", node_id, hard=hard)

    def start_broker(self, node_id: int) -> None:
        self._ask("start_broker", node_id)


def _answer(connection: Connection) -> Any:
    done, outcome = connection.recv()
    if not done:
        raise outcome
    return outcome
