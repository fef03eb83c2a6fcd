"""How a client proves who it is: SASL mechanisms and their credentials.

A **mechanism** (:class:`SaslMechanism`) has a name and credentials, and begins one **exchange** (:class:`SaslExchange`)
per authentication: tokens for the broker out, its challenges in. Both know nothing of connections, so that they can be
tested as functions; ``net.authentication`` carries the tokens. Credentials are read anew for each exchange
(:class:`Secret`): a rotated password counts from the next connection on.

**OAUTHBEARER** (:class:`OAuthBearer`) sends a token of its **source**, which is any function. ``token`` reads and
checks what the source gives, ``token_cache`` keeps it for all connections until it has to be replaced. The sources here
ask a ``token_endpoint`` by one ``http_request`` (:class:`ClientCredentials`, :class:`JwtBearer`), for which they may
sign an :class:`Assertion`; sign for AWS (:class:`AwsMskIamToken`); or sign nothing (:class:`UnsecuredToken`).

**Options.** ``options`` makes a mechanism of options by name, ``oauth_options`` those of OAUTHBEARER; ``jaas`` reads
Java's ``sasl.jaas.config``, and ``login_modules`` says what its login modules are here.

What can never happen: a secret in an error, a log, or a ``repr``. Objects that hold one have a ``repr`` without it, and
errors name the option and not its value. And a token that has expired is never sent.

The option ``sasl_mechanism`` takes a name, with the options of that mechanism, or a :class:`SaslMechanism`: one of the
classes here, or of your own.
"""

from aiokproto.security.assertion import Assertion
from aiokproto.security.aws import AwsCredentials, BotocoreCredentials
from aiokproto.security.aws_msk_iam import AwsMskIam, AwsMskIamToken
from aiokproto.security.client_credentials import ClientCredentials, JwtBearer
from aiokproto.security.gssapi import Gssapi
from aiokproto.security.mechanism import SaslExchange, SaslMechanism
from aiokproto.security.oauth_bearer import OAuthBearer
from aiokproto.security.plain import Plain
from aiokproto.security.scram import Scram
from aiokproto.security.secret import Secret
from aiokproto.security.token import Token
from aiokproto.security.token_cache import RefreshWindow
from aiokproto.security.token_endpoint import TokenEndpoint
from aiokproto.security.unsecured import UnsecuredToken

__all__ = [
    "Assertion",
    "AwsCredentials",
    "AwsMskIam",
    "AwsMskIamToken",
    "BotocoreCredentials",
    "ClientCredentials",
    "Gssapi",
    "JwtBearer",
    "OAuthBearer",
    "Plain",
    "RefreshWindow",
    "SaslExchange",
    "SaslMechanism",
    "Scram",
    "Secret",
    "Token",
    "TokenEndpoint",
    "UnsecuredToken",
]
