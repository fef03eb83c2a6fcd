"""The embedded broker: Kafka for tests and small jobs, in this process.

It speaks the protocol over real sockets to any client, and keeps real segment files. It shares nothing with this
package's client but the codec and the records.
"""

from __future__ import annotations

from aiokproto.broker.cluster import Broker, Cluster

__all__ = ["Broker", "Cluster"]
