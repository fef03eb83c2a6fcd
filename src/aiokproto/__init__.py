"""The whole Kafka protocol for asyncio.

The public names below are loaded on first use (PEP 562): ``import aiokproto`` costs almost nothing, and using the codec
alone never imports asyncio or the client.
"""

from __future__ import annotations

from importlib import import_module

from aiokproto._version import __version__

# Type checkers recognize this name. Importing typing would take longer than importing a message's module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from aiokproto.accelerator import accelerated
    from aiokproto.broker import Broker, Cluster
    from aiokproto.client import Client
    from aiokproto.consumer import Consumer
    from aiokproto.errors import KafkaError
    from aiokproto.exactly_once import ExactlyOnce
    from aiokproto.producer import Producer
    from aiokproto.share import ShareConsumer
    from aiokproto.types import Record, TopicPartition

__all__ = [
    "Broker",
    "Client",
    "Cluster",
    "Consumer",
    "ExactlyOnce",
    "KafkaError",
    "Producer",
    "Record",
    "ShareConsumer",
    "TopicPartition",
    "__version__",
    "accelerated",
]

_HOME = {
    "Broker": "aiokproto.broker",
    "Client": "aiokproto.client",
    "Cluster": "aiokproto.broker",
    "Consumer": "aiokproto.consumer",
    "ExactlyOnce": "aiokproto.exactly_once",
    "KafkaError": "aiokproto.errors",
    "Producer": "aiokproto.producer",
    "Record": "aiokproto.types",
    "ShareConsumer": "aiokproto.share",
    "TopicPartition": "aiokproto.types",
    "accelerated": "aiokproto.accelerator",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Store it in the module's namespace, so the next access is a plain attribute lookup.
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
