"""How a client proves who it is: SASL mechanisms and their credentials.

A **mechanism** (:class:`SaslMechanism`) has a name and credentials, and begins one **exchange** (:class:`SaslExchange`)
per authentication: tokens for the broker out, its challenges in. Both know nothing of connections, so that they can be
tested as functions; ``net.authentication`` carries the tokens. Credentials are read anew for each exchange
(:class:`Secret`): a rotated password counts from the next connection on.

What can never happen: a secret in an error, a log, or a ``repr``. Objects that hold one have a ``repr`` without it, and
errors name the option and not its value.

The option ``sasl_mechanism`` takes a name, with the options of that mechanism, or a :class:`SaslMechanism`: one of the
classes here, or of your own.
"""

from aiokproto.security.gssapi import Gssapi
from aiokproto.security.mechanism import SaslExchange, SaslMechanism
from aiokproto.security.plain import Plain
from aiokproto.security.scram import Scram
from aiokproto.security.secret import Secret

__all__ = [
    "Gssapi",
    "Plain",
    "SaslExchange",
    "SaslMechanism",
    "Scram",
    "Secret",
]
