"""From sockets to handlers: Kafka's ``SocketServer`` and request handler threads, in one event loop.

- ``SocketServer`` listens for one node, and runs one task per connection.
- ``TlsAcceptor`` accepts connections before their TLS handshake, so they count towards the limits from the start.
- ``ClientConnection`` (an ``asyncio.BufferedProtocol``) splits the connection's bytes into frames.
- ``Dispatcher`` takes a request through its steps, from the header to the response; its module lists them.
- ``Listener`` enforces the limits: connections, frame sizes, idle time.
- ``RefusalLog`` logs which connections are closed and why, without letting clients flood the log.
- ``ReservedPort`` keeps the port of a stopped node, so clients can find the node again after a restart.

**Order.** The connection's task reads a frame, dispatches it and sends the response before it reads the next frame.
Responses are therefore in request order, as Kafka guarantees, and a connection has at most one request in a handler. As
in Kafka, a Fetch that waits for records delays the requests behind it on the same connection.

**Memory.** The broker checks a frame's announced length before it allocates memory. A connection that hasn't
authenticated yet may only send small frames, and all such connections share a memory limit. Reading pauses while a
request is in a handler, so a client that sends faster than it's served fills the socket's buffer, not the process's
memory.

**What ends a connection.** A frame that is too large or can't be decoded; a failed authentication; idling for
``connections.max.idle.ms``; an injected fault; and a handler that raises anything but ``BrokerError``, which is a bug
and is logged. Other failures are error codes in responses.
"""
