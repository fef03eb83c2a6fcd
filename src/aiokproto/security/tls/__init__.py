"""TLS for clients: creates an :class:`ssl.SSLContext` from options, files and passwords, for each new connection.

* :mod:`~aiokproto.security.tls.options` checks the options, without reading files.
* :mod:`~aiokproto.security.tls.contexts` decides when files are read: before a connection is made, in a thread, and
  only if they have changed. So certificates that are renewed on disk take effect with the next connection.
* :mod:`~aiokproto.security.tls.build` creates the context.
* :mod:`~aiokproto.security.tls.stores` reads keys and certificates: PEM, PKCS#12, and Java's JKS and JCEKS
  (:mod:`~aiokproto.security.tls.jks`).
* :mod:`~aiokproto.security.tls.subject` formats the subject of a certificate as in ACLs.

A half-written or broken file never replaces working certificates. Passwords and keys never appear in an error, a log or
a ``repr``. The event loop never waits for the file system.

The embedded broker also uses ``build``, ``stores`` and ``subject``, with Kafka's own names for the options.
"""
