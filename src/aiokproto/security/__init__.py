"""How a client proves who it is: SASL mechanisms and their credentials.

A **mechanism** (:class:`SaslMechanism`) has a name and credentials, and starts an **exchange** (:class:`SaslExchange`)
for each authentication. The exchange turns the broker's challenges into tokens. Neither knows anything about
connections, so both can be tested as plain functions; ``net.authentication`` sends and receives the tokens. Credentials
are read again for each exchange (:class:`Secret`), so a rotated password takes effect with the next connection.

**OAUTHBEARER** (:class:`OAuthBearer`) sends a token from a **source**, which is any function. ``token`` reads and
checks the result of the source, and ``token_cache`` keeps the token for all connections until it has to be replaced.
Two of the sources here (:class:`ClientCredentials`, :class:`JwtBearer`) request a token from a ``token_endpoint`` with
one ``http_request``, for which they may sign an :class:`Assertion`. The other sources sign a token for AWS
(:class:`AwsMskIamToken`), or create an unsigned one (:class:`UnsecuredToken`).

**Options.** ``options`` creates a mechanism from options, and ``oauth_options`` does so for OAUTHBEARER. ``jaas``
parses Java's ``sasl.jaas.config``, and ``login_modules`` maps its login modules to mechanisms.

A secret never appears in an error, a log, or a ``repr``: objects leave their secrets out of their ``repr``, and errors
name an option but don't show its value. An expired token is never sent.

The option ``sasl_mechanism`` takes the name of a mechanism, with the options of that mechanism, or a
:class:`SaslMechanism`: one of the classes here, or your own.
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
