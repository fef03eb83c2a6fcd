"""Connections to brokers, from the socket up.

Reading order: :mod:`~aiokproto.net.transport` (dial TCP or TLS) → :mod:`~aiokproto.net.open` (exchange versions) →
:mod:`~aiokproto.net.connection` (pipelining, deadlines, throttling) over :mod:`~aiokproto.net.protocol` (correlation
ids and frames, without I/O) and :mod:`~aiokproto.net.in_flight` (requests that wait for a response).
"""
