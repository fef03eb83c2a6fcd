"""Authentication, authorization and delegation tokens. Pure, except for :mod:`tls`, :mod:`settings`, :mod:`jwks` and
the file of :mod:`security_state`.

- **Connecting.** ``settings`` defines the arguments of the ``Cluster``. ``mechanisms`` derives the SASL mechanisms from
  these arguments and the options, and ``effects`` refuses options that would have no effect. ``tls`` makes the TLS
  context and determines the principal of a client certificate.
- **Authentication.** ``sasl`` is the state machine of one connection. It drives a ``sasl_server`` mechanism: ``plain``,
  ``scram``, ``oauthbearer`` or ``aws_msk_iam``. ``jwt`` validates signed tokens with the keys that ``jwks`` loads.
  ``credentials`` stores the SCRAM credentials, ``tokens`` the delegation tokens (KIP-48).
- **Authorization.** ``acls`` and ``authorizer`` decide as Kafka's ``StandardAuthorizer`` does. Handlers declare with
  ``Required`` which operations their API needs, and ``authorization`` splits a request into the permitted part and
  refusals for the rest.
- ``session`` holds what a node knows about one connection, ``security_state`` what all nodes share.

**Who writes what.** ``SecurityState`` is the only writer of ACLs, credentials, tokens and quotas. Each change rewrites
``security.json`` before the response is sent. A temporary file replaces the old one, so a crash leaves one of the two,
never half a file. Passwords given in code are never written.

**What can never happen.** A handler never sees the part of a request that its client has no permission for. The
exceptions are APIs that declare, with ``otherwise``, that their handler checks permissions, because Kafka's response
isn't just an error. A connection never changes its principal: re-authentication (KIP-368) must prove the same principal
with the same mechanism. An API without a declaration is only for brokers (CLUSTER_ACTION), so a new API is closed until
it gets one.
"""
