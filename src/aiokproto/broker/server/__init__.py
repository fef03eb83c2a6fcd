"""From sockets to handlers: Kafka's ``SocketServer`` and request handler threads, in one event loop.

- ``SocketServer`` listens for one node, and has one task per connection.
- ``TlsAcceptor`` takes connections that will be encrypted, so that they are counted before their handshake.
- ``ClientConnection`` (an ``asyncio.BufferedProtocol``) splits the connection's bytes into frames.
- ``Dispatcher`` has the steps of one request, from the header to the response; its module lists them.
- ``Listener`` has the limits: connections, frame sizes, idle time.
- ``RefusalLog`` logs which connections are closed, and does not let clients flood the log.
- ``ReservedPort`` keeps the port of a stopped node, so that clients find it again after a restart.

**Order.** The connection's task reads a frame, dispatches it and sends the response before it reads the next frame.
Responses are therefore in request order, as Kafka guarantees, and a connection has at most one request in a handler. A
Fetch that waits for records delays the requests behind it on its connection, as in Kafka.

**Memory.** A frame's announced length is checked before memory is allocated, and a connection that is not authenticated
yet may send small frames only, for which all such connections share a limit. Reading pauses while a request is in a
handler, so a client that sends faster than it is served fills the socket, not the process.

**What ends a connection.** A frame that is too large or cannot be decoded; a failed authentication; an idle time above
``connections.max.idle.ms``; an injected fault; and a handler that raises anything but ``BrokerError``, which is a bug
and is logged. Other failures are error codes in responses.
"""
