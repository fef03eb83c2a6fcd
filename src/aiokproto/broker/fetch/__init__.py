"""What Fetch needs besides the log: fetch sessions (KIP-227), and waiting until ``min_bytes`` are available.

The parts:

- ``sessions`` caches the partitions that a client fetches, so that requests and responses name only what changed. Each
  node has its own cache, because a client has a session with each broker.
- ``long_poll`` waits until one of some partitions has an append or a new leader. ShareFetch uses it too.

The handler of Fetch joins them: it locates records, waits if there are fewer than ``min_bytes``, locates them again,
and reads them last. A partition that was deleted, or has moved to another leader, while the request waited gets its
error then.

**Who writes what.** Only a request with a session's id and next epoch changes the session. A partition calls the
watchers of waiting requests at an append or a change of leader; it knows nothing else of them.

**What can never happen.** An append is missed: nothing awaits between locating the records and registering the
watchers. A repeated request changes a session twice: its epoch is used up. A waiting request leaves a watcher behind,
for whatever reason it ends.
"""
