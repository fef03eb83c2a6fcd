"""Connections: the protocol of one (:mod:`~aiokproto.net.protocol`, no I/O), and the sockets it runs over."""
