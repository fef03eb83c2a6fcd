"""Warnings about clients without protection: an attacker can read their secrets in transit, or impersonate the brokers.

Some networks need such options, so they aren't errors. A client logs each warning once, when it starts.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

from aiokproto.config import ClusterConfig
from aiokproto.security.http_request import is_loopback

logger = logging.getLogger("aiokproto.security")

_READABLE = ("PLAIN", "OAUTHBEARER", "AWS_MSK_IAM")
"""Mechanisms that send something an eavesdropper can log in with: a password, a token, or a signature that is valid for
minutes."""


class Exposure(NamedTuple):
    """A protection that a client may lack.

    Attributes:
        found: Returns whether a client with these options lacks it.
        text: The warning: what may happen, and which option prevents it.
    """

    found: Callable[[ClusterConfig], bool]
    text: str


def _login_is_readable(config: ClusterConfig) -> bool:
    return config.sasl is not None and config.tls is None and config.sasl.name in _READABLE and _is_remote(config)


def _is_remote(config: ClusterConfig) -> bool:
    return not all(is_loopback(host) for host, _ in config.bootstrap_servers)


def _takes_any_certificate(config: ClusterConfig) -> bool:
    return config.tls is not None and not config.tls.verifies_certificate


def _takes_any_host(config: ClusterConfig) -> bool:
    return config.tls is not None and config.tls.verifies_certificate and not config.tls.verifies_host


def _trusts_name_servers(config: ClusterConfig) -> bool:
    verifies = config.tls is not None and config.tls.verifies_host
    return verifies and config.canonical_bootstrap and config.server_hostname is None


def _token_request_is_readable(config: ClusterConfig) -> bool:
    endpoint = getattr(config.sasl, "endpoint", None)
    return endpoint is not None and endpoint.readable


def _takes_any_token_endpoint(config: ClusterConfig) -> bool:
    endpoint = getattr(config.sasl, "endpoint", None)
    return endpoint is not None and not endpoint.verifies_certificate


def _takes_any_proxy(config: ClusterConfig) -> bool:
    context = config.proxy.ssl_context if config.proxy is not None else None
    return context is not None and context.verify_mode is ssl.CERT_NONE


EXPOSURES = {
    "readable login": Exposure(
        _login_is_readable,
        "the login is sent without TLS: whoever reads it on the way can log in with it; set"
        " security_protocol='SASL_SSL'",
    ),
    "any certificate": Exposure(
        _takes_any_certificate,
        "certificates of brokers are not verified: anyone on the way can play a broker; set verify_mode of ssl_context"
        " to ssl.CERT_REQUIRED",
    ),
    "any host": Exposure(
        _takes_any_host,
        "host names of brokers are not verified: whoever has any certificate of a trusted authority can play a broker;"
        " set ssl_check_hostname=True",
    ),
    "host named by DNS": Exposure(
        _trusts_name_servers,
        "TLS verifies the names of bootstrap servers that DNS has for their addresses: whoever answers for DNS can play"
        " a broker with any certificate of a trusted authority; set client_dns_lookup='use_all_dns_ips', or"
        " ssl_server_hostname",
    ),
    "readable token request": Exposure(
        _token_request_is_readable,
        "tokens are requested without TLS: anyone who reads the client secret or a token on the way can log in with it;"
        " set sasl_oauthbearer_token_endpoint_url to an https URL",
    ),
    "any token endpoint": Exposure(
        _takes_any_token_endpoint,
        "the certificate of the token endpoint is not verified: anyone on the way gets the client secret; set"
        " verify_mode of sasl_oauth_ssl_context to ssl.CERT_REQUIRED",
    ),
    "any proxy": Exposure(
        _takes_any_proxy,
        "the certificate of the proxy is not verified: anyone on the way can play it, and gets its password; set"
        " verify_mode of proxy_ssl_context to ssl.CERT_REQUIRED",
    ),
}
"""By name. Several can apply to one client."""


REPORTED_ELSEWHERE: ContextVar[bool] = ContextVar("reported_elsewhere", default=False)
"""Whether clients that start in this context stay silent: there are many of them, and another client has already
warned."""


def exposures(config: ClusterConfig) -> list[str]:
    """Return a warning for each protection that a client with these options lacks."""
    return [f"client {config.client_id!r}: {each.text}" for each in EXPOSURES.values() if each.found(config)]


def report_exposures(config: ClusterConfig) -> None:
    """Log a warning for each protection that a client with these options lacks.

    Called once per client, when it starts.
    """
    if not REPORTED_ELSEWHERE.get():
        for text in exposures(config):
            logger.warning("%s", text)
