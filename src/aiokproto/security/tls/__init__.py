"""TLS of clients: from options, files and passwords to an :class:`ssl.SSLContext`, for each new connection.

* :mod:`~aiokproto.security.tls.options` checks which options are given and which belong together: nothing is read yet.
* :mod:`~aiokproto.security.tls.contexts` decides when files are read: before a connection is made, in a thread, and
  only if they have changed. So certificates that are renewed on disk count from the next connection on.
* :mod:`~aiokproto.security.tls.build` makes the context.
* :mod:`~aiokproto.security.tls.stores` reads keys and certificates: PEM, PKCS#12, and Java's JKS and JCEKS
  (:mod:`~aiokproto.security.tls.jks`).
* :mod:`~aiokproto.security.tls.subject` names the subject of a certificate as ACLs do.

What can never happen: a half-written or broken file replaces certificates that work; a password or a key appears in an
error, a log or a ``repr``; the event loop waits for a file system.

The embedded broker uses ``build``, ``stores`` and ``subject`` too, with Kafka's own spelling of the options.
"""
