"""The options of SASL that every client takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path

    from aiokproto.security.aws import AwsCredentialsSource
    from aiokproto.security.mechanism import SaslMechanism
    from aiokproto.security.secret import SecretSource
    from aiokproto.security.token import TokenSource


class SaslOptions(TypedDict, total=False):
    """A part of :class:`~aiokproto.config.ConnectionOptions`."""

    sasl_mechanism: str | SaslMechanism | None
    """How the client authenticates with ``SASL_PLAINTEXT`` and ``SASL_SSL``: ``"PLAIN"``, ``"SCRAM-SHA-256"``,
    ``"SCRAM-SHA-512"``, ``"OAUTHBEARER"``, ``"AWS_MSK_IAM"``, ``"GSSAPI"``, or an object: see
    :mod:`aiokproto.security`."""
    sasl_username: SecretSource | None
    """User name, for PLAIN and SCRAM."""
    sasl_password: SecretSource | None
    """Password, for PLAIN and SCRAM. User name and password can also be a :class:`~pathlib.Path` of a file that has
    it, or a function, async or not, that returns it. Both are read again for each connection."""
    sasl_jaas_config: str | None
    """Java's option: the login module of PLAIN, SCRAM, OAUTHBEARER or AWS_MSK_IAM with its values. Other options
    override them."""
    sasl_oauth_token: TokenSource | None
    """For OAUTHBEARER: a function, async or not, that returns a token (text, a :class:`~aiokproto.security.Token`, or
    a pair of token and expiry in seconds since the epoch), a :class:`~pathlib.Path` of a file, or a token."""
    sasl_oauthbearer_extensions: Mapping[str, str] | None
    """For OAUTHBEARER: further values for the broker (KIP-342). Their names have only letters."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """For OAUTHBEARER: the token endpoint of the identity provider, ``https``, or ``http`` on this machine; or a file
    that has the token, such as ``file:///path``."""
    sasl_oauthbearer_jwt_retriever_class: str | None
    """How the token is requested: ``"ClientCredentialsJwtRetriever"``, ``"JwtBearerJwtRetriever"`` (KIP-1139), or
    ``"FileJwtRetriever"``, with or without Java's package name. ``None`` (the default) is the first, or the last for a
    file."""
    sasl_oauthbearer_client_credentials_client_id: SecretSource | None
    """The client's id at the token endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: SecretSource | None
    """The client's secret at the token endpoint. A file or a function is read for each request."""
    sasl_oauthbearer_scope: str | None
    """The scopes of the token, separated by spaces."""
    sasl_oauthbearer_header_urlencode: bool | None
    """Whether the client's id and secret are URL-encoded for the header ``Authorization`` (RFC 6749). ``None`` (the
    default) is False."""
    sasl_oauthbearer_assertion_file: str | Path | None
    """A file with an assertion for the token endpoint, instead of a secret (KIP-1258), or for the JWT bearer grant."""
    sasl_oauthbearer_assertion_private_key_file: str | Path | None
    """A file with the private key, in PEM, with which the client signs assertions. Needs the extra ``oauth``."""
    sasl_oauthbearer_assertion_private_key_passphrase: SecretSource | None
    """The passphrase of the private key."""
    sasl_oauthbearer_assertion_algorithm: str | None
    """``"RS256"`` or ``"ES256"``. ``None`` (the default) is RS256."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """The claim ``aud`` of assertions: the token endpoint, or the identity provider."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """The claim ``iss`` of assertions: the client."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """The claim ``sub`` of assertions: the client, or the user whom the token is for."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int | None
    """How long an assertion is valid. ``None`` (the default) is 300."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | None
    """How long before its creation an assertion is already valid, since clocks differ. ``None`` (the default) is 60."""
    sasl_oauthbearer_assertion_claim_jti_include: bool | None
    """Whether assertions have a unique id, the claim ``jti``. ``None`` (the default) is False."""
    sasl_oauthbearer_assertion_template_file: str | Path | None
    """A file with header and claims of assertions, as JSON: ``{"header": {…}, "payload": {…}}``."""
    sasl_oauth_ssl_context: ssl.SSLContext | None
    """Certificates and checks for the token endpoint. ``None`` (the default) is the system's certificate authorities,
    with the host name verified."""
    sasl_oauth_allow_http: bool | None
    """Whether the token endpoint can be ``http``, without encryption, on another machine. ``None`` (the default) is
    False."""
    sasl_login_connect_timeout_ms: float | None
    """Longest time to connect to the token endpoint, for each attempt. ``None`` (the default) is 10,000."""
    sasl_login_read_timeout_ms: float | None
    """Longest time for the response of the token endpoint, for each attempt. ``None`` (the default) is 10,000."""
    sasl_login_retry_backoff_ms: float | None
    """Wait before the second request to the token endpoint. It doubles with each further one, with jitter. ``None``
    (the default) is 100."""
    sasl_login_retry_backoff_max_ms: float | None
    """Longest such wait, and the time after which no further request starts. ``None`` (the default) is 10,000."""
    sasl_login_refresh_window_factor: float | None
    """The part of a token's lifetime after which it is replaced, 0.5 to 1. ``None`` (the default) is 0.8."""
    sasl_login_refresh_window_jitter: float | None
    """The largest random part that is added, 0 to 0.25. ``None`` (the default) is 0.05."""
    sasl_login_refresh_min_period_seconds: float | None
    """Shortest time between two replacements, 0 to 900. ``None`` (the default) is 60."""
    sasl_login_refresh_buffer_seconds: float | None
    """A token is replaced at least this long before its expiry, 0 to 3600. This and the shortest time are ignored for
    tokens with a lifetime shorter than both together. ``None`` (the default) is 300."""
    sasl_aws_credentials: AwsCredentialsSource | None
    """For AWS_MSK_IAM: :class:`~aiokproto.security.AwsCredentials`, or a function, async or not, that returns them.
    ``None`` (the default) is the credentials that AWS's tools use; this needs the extra ``aws``."""
    sasl_aws_region: str | None
    """For AWS_MSK_IAM: the cluster's region. ``None`` (the default) is the one in the broker's host name, or in the
    environment."""
    sasl_kerberos_service_name: str | None
    """For GSSAPI: the first part of the brokers' principals. ``None`` (the default) is ``"kafka"``."""
    sasl_kerberos_domain_name: str | None
    """For GSSAPI: the second part of the brokers' principals, if all have the same. ``None`` (the default) is the host
    that each broker advertises."""
    sasl_kerberos_principal: str | None
    """For GSSAPI: the client's principal. ``None`` (the default) is the first one in the keytab, or the principal of
    the tickets in the credential cache."""
    sasl_kerberos_keytab: str | Path | None
    """For GSSAPI: a file with keys of the principal, with which the client gets tickets, and new ones before they
    expire. With ``None`` (the default) the client uses the tickets of ``kinit``."""
    sasl_kerberos_ccache: str | Path | None
    """For GSSAPI: the credential cache with tickets: a file, or with its type, as in ``KCM:``. ``None`` (the
    default) is the cache of the environment."""
