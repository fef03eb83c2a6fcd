"""Support for Fetch: fetch sessions (KIP-227), and waiting until ``min_bytes`` are available.

The parts:

- ``sessions`` caches the partitions that a client fetches, so requests and responses list only changes. Each node has
  its own cache because a client has a session with each broker.
- ``long_poll`` waits until one of several partitions has an append or a new leader. ShareFetch uses it too.

The Fetch handler combines them: it locates records, waits if there are fewer than ``min_bytes``, locates them again,
and finally reads them. If a partition was deleted or moved to another leader while the request was waiting, it gets its
error at that point.

**Ownership.** Only a request with a session's id and next epoch changes the session. A partition only knows the
watchers of waiting requests, and calls them at an append or a change of leader.

**What can never happen.** An append is missed: there is no await between locating the records and registering the
watchers. A repeated request changes a session twice: its epoch has already been used. A request that ends leaves a
watcher behind.
"""
