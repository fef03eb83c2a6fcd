"""Authentication, authorization and delegation tokens. Pure, except for :mod:`tls`, :mod:`settings`, :mod:`jwks` and
the file of :mod:`security_state`.

- **Connecting.** ``settings`` are the arguments of the ``Cluster``. ``mechanisms`` are those that follow from them and
  the options, and ``effects`` refuses options that would have none. ``tls`` makes the TLS context and the principal of
  a client certificate.
- **Authentication.** ``sasl`` is the state machine of one connection. It drives a ``sasl_server`` mechanism: ``plain``,
  ``scram``, ``oauthbearer`` or ``aws_msk_iam``. ``jwt`` validates signed tokens by the keys that ``jwks`` loads.
  ``credentials`` are the SCRAM credentials, ``tokens`` the delegation tokens (KIP-48).
- **Authorization.** ``acls`` and ``authorizer`` decide as Kafka's ``StandardAuthorizer`` does. Handlers
  declare with ``Required`` which operations their API needs, and ``authorization`` splits a request into the permitted
  part and refusals for the rest.
- ``session`` is what a node knows of one connection; ``security_state`` is what all nodes share.

**Who writes what.** ``SecurityState`` is the only writer of ACLs, credentials, tokens and quotas. Each change rewrites
``security.json`` before the response is sent: to a temporary file that replaces the old one, so that a crash leaves
either of the two, never a part. Passwords given in code are never written.

**What can never happen.** A handler never sees the part of a request that its client has no permission for, except for
the APIs that the table leaves to their handlers, because Kafka's response to them has more than an error. A connection
never changes its principal: re-authentication (KIP-368) must prove the same one with the same mechanism. An API without
a row in the table is only for brokers (CLUSTER_ACTION), so that a new API is closed until it gets a row.
"""
