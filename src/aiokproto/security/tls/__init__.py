"""TLS of clients: from options, files and passwords to an :class:`ssl.SSLContext`, for each new connection.

* :mod:`~aiokproto.security.tls.options` checks the options, without reading files.
* :mod:`~aiokproto.security.tls.contexts` decides when files are read: before a connection is made, in a thread, and
  only if they have changed. So certificates that are renewed on disk take effect with the next connection.
* :mod:`~aiokproto.security.tls.build` makes the context.
* :mod:`~aiokproto.security.tls.stores` reads keys and certificates: PEM, PKCS#12, and Java's JKS and JCEKS
  (:mod:`~aiokproto.security.tls.jks`).
* :mod:`~aiokproto.security.tls.subject` formats the subject of a certificate as ACLs have it.

A half-written or broken file never replaces certificates that work. A password or a key never appears in an error, a
log or a ``repr``. The event loop never waits for a file system.

The embedded broker uses ``build``, ``stores`` and ``subject``, too, with Kafka's own spelling of the options.
"""
