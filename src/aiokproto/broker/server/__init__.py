"""From sockets to handlers.

``ClientConnection`` (an ``asyncio.BufferedProtocol``) cuts a connection's bytes into frames. ``SocketServer`` listens
for one node and has one task per connection, which reads a frame, dispatches it and sends the response before it reads
the next: responses are in request order by construction, as Kafka guarantees. ``Listener`` has the limits (connections,
frame sizes, idle time), ``Dispatcher`` the steps of one request, and ``ReservedPort`` keeps a stopped node's port.
"""
