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
    """The SASL options of :class:`~aiokproto.config.ConnectionOptions`."""

    sasl_mechanism: str | SaslMechanism | None
    """How the client authenticates with ``SASL_PLAINTEXT`` and ``SASL_SSL``: ``"PLAIN"``, ``"SCRAM-SHA-256"``,
    ``"SCRAM-SHA-512"``, ``"OAUTHBEARER"``, ``"AWS_MSK_IAM"``, ``"GSSAPI"``, or a mechanism object (see
    :mod:`aiokproto.security`)."""
    sasl_username: SecretSource | None
    """User name, for PLAIN and SCRAM."""
    sasl_password: SecretSource | None
    """Password, for PLAIN and SCRAM. User name and password can each also be the :class:`~pathlib.Path` of a file that
    contains it, or a function, async or not, that returns it. Files are read, and functions called, for each
    connection."""
    sasl_jaas_config: str | None
    """Java's option: the login module of PLAIN, SCRAM, OAUTHBEARER or AWS_MSK_IAM, with its values. Other options
    override these values."""
    sasl_oauth_token: TokenSource | None
    """For OAUTHBEARER: a function, async or not, that returns a token (text, a :class:`~aiokproto.security.Token`, or a
    pair of token and expiry in seconds since the epoch), the :class:`~pathlib.Path` of a file, or a token."""
    sasl_oauthbearer_extensions: Mapping[str, str] | None
    """For OAUTHBEARER: additional values for the broker (KIP-342). Their names may contain only letters."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """For OAUTHBEARER: the URL of the identity provider's token endpoint (``https``, or ``http`` on this machine), or
    of a file that contains the token, such as ``file:///path``."""
    sasl_oauthbearer_jwt_retriever_class: str | None
    """How the client gets the token: ``"ClientCredentialsJwtRetriever"``, ``"JwtBearerJwtRetriever"`` (KIP-1139), or
    ``"FileJwtRetriever"``, with or without Java's package name. ``None`` (the default) is ``"FileJwtRetriever"`` for a
    file, and otherwise ``"ClientCredentialsJwtRetriever"``."""
    sasl_oauthbearer_client_credentials_client_id: SecretSource | None
    """The client's id at the token endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: SecretSource | None
    """The client's secret at the token endpoint. A file or a function is read for each request."""
    sasl_oauthbearer_scope: str | None
    """The scopes of the token, separated by spaces."""
    sasl_oauthbearer_header_urlencode: bool | None
    """Whether the client's id and secret are URL-encoded in the header ``Authorization`` (RFC 6749). ``None`` (the
    default) is False."""
    sasl_oauthbearer_assertion_file: str | Path | None
    """A file with an assertion for the token endpoint, instead of a secret (KIP-1258), or for the JWT bearer grant."""
    sasl_oauthbearer_assertion_private_key_file: str | Path | None
    """A file with the private key, in PEM, that the client signs assertions with. Needs the extra ``oauth``."""
    sasl_oauthbearer_assertion_private_key_passphrase: SecretSource | None
    """The passphrase of the private key."""
    sasl_oauthbearer_assertion_algorithm: str | None
    """``"RS256"`` or ``"ES256"``. ``None`` (the default) is RS256."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """The claim ``aud`` of assertions: the token endpoint, or the identity provider."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """The claim ``iss`` of assertions: the client."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """The claim ``sub`` of assertions: the client, or the user that the token is for."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int | None
    """How long an assertion is valid. ``None`` (the default) is 300."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | None
    """How long before its creation an assertion is already valid, to allow for clock skew. ``None`` (the default) is
    60."""
    sasl_oauthbearer_assertion_claim_jti_include: bool | None
    """Whether assertions have a unique id, the claim ``jti``. ``None`` (the default) is False."""
    sasl_oauthbearer_assertion_template_file: str | Path | None
    """A file with header and claims of assertions, as JSON: ``{"header": {…}, "payload": {…}}``."""
    sasl_oauth_ssl_context: ssl.SSLContext | None
    """Certificates and checks for the token endpoint. With ``None`` (the default) the system's certificate authorities
    are trusted, and the host name is verified."""
    sasl_oauth_allow_http: bool | None
    """Whether the token endpoint may be ``http``, that is, unencrypted, on another machine. ``None`` (the default) is
    False."""
    sasl_login_connect_timeout_ms: float | None
    """Maximum time to connect to the token endpoint, per attempt. ``None`` (the default) is 10,000."""
    sasl_login_read_timeout_ms: float | None
    """Maximum time for the token endpoint's response, per attempt. ``None`` (the default) is 10,000."""
    sasl_login_retry_backoff_ms: float | None
    """Wait before the first retry of a request to the token endpoint; doubles with each retry, with jitter. ``None``
    (the default) is 100."""
    sasl_login_retry_backoff_max_ms: float | None
    """Maximum wait between requests to the token endpoint, and the time after which no more requests are started.
    ``None`` (the default) is 10,000."""
    sasl_login_refresh_window_factor: float | None
    """The fraction of a token's lifetime after which it is replaced, 0.5 to 1. ``None`` (the default) is 0.8."""
    sasl_login_refresh_window_jitter: float | None
    """The maximum random fraction that is added to the factor, 0 to 0.25. ``None`` (the default) is 0.05."""
    sasl_login_refresh_min_period_seconds: float | None
    """Minimum time between two replacements, 0 to 900. ``None`` (the default) is 60."""
    sasl_login_refresh_buffer_seconds: float | None
    """A token is replaced at least this long before its expiry, 0 to 3600. This and the minimum time are ignored for
    tokens whose lifetime is shorter than the sum of both. ``None`` (the default) is 300."""
    sasl_aws_credentials: AwsCredentialsSource | None
    """For AWS_MSK_IAM: :class:`~aiokproto.security.AwsCredentials`, or a function, async or not, that returns them.
    ``None`` (the default) for the credentials that AWS's tools use, which needs the extra ``aws``."""
    sasl_aws_region: str | None
    """For AWS_MSK_IAM: the cluster's region. ``None`` (the default) is the one in the broker's host name, or in the
    environment."""
    sasl_kerberos_service_name: str | None
    """For GSSAPI: the first part of the brokers' principals. ``None`` (the default) is ``"kafka"``."""
    sasl_kerberos_domain_name: str | None
    """For GSSAPI: the second part of the brokers' principals, if it's the same for all of them. ``None`` (the default)
    is the host that each broker advertises."""
    sasl_kerberos_principal: str | None
    """For GSSAPI: the client's principal. ``None`` (the default) is the first principal in the keytab, or the
    credential cache's principal."""
    sasl_kerberos_keytab: str | Path | None
    """For GSSAPI: a file with keys of the principal. The client uses it to get tickets, and new ones before they
    expire. With ``None`` (the default) the client uses tickets from ``kinit``."""
    sasl_kerberos_ccache: str | Path | None
    """For GSSAPI: the credential cache with tickets, as a file, or with a type, as in ``KCM:``. ``None`` (the default)
    is the cache of the environment."""
