"""Whether bootstrapping can still succeed, and the error if no address could be used (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    ConfigurationError,
    KafkaError,
    NotKafkaError,
    copied,
)
from aiokproto.failures import Action, Situation, classify
from aiokproto.security.mechanism import NoTokenError

STARTING = Situation(MetadataRequest.api_key, starting=True)

Failures = Sequence[tuple[BrokerNode, KafkaError]]


def definitive(failures: Failures) -> bool:
    """Whether no address can succeed later: each failed in a way that a retry does not change."""
    if any(isinstance(error, ConfigurationError) for _, error in failures):
        return True
    return all(classify(error, STARTING) in {Action.FAIL, Action.STOP} for _, error in failures)


def bootstrap_error(failures: Failures, attempts: int, elapsed: float) -> BrokerConnectionError | ConfigurationError:
    """Return one error that lists every address with its cause.

    It is NotKafkaError or AuthenticationError if that is the cause at all addresses, else BootstrapError. An error in
    the options, such as a certificate that cannot be read, has nothing to do with addresses and is returned itself.
    """
    for _, error in failures:
        if isinstance(error, ConfigurationError):
            return copied(error)
    kind: type[BrokerConnectionError] = BootstrapError
    # Only if all agree: with mixed causes one address may be mistyped while the cluster behind the others is merely
    # down.
    for candidate in (NotKafkaError, AuthenticationError):
        if all(isinstance(error, candidate) for _, error in failures):
            kind = candidate
    tried = f" after {attempts} attempts in {elapsed:.3g} s" if attempts > 1 else ""
    each = "; ".join(f"{node}: {error}" for node, error in failures)
    if kind is AuthenticationError:
        check = "; check the credentials and certificates"
    elif all(isinstance(error, NoTokenError) for _, error in failures):
        # The addresses are right, and the cause says what is not.
        check = ""
    else:
        check = "; check bootstrap_servers and security_protocol"
    error = kind(f"no bootstrap address could be used{tried}: {each}{check}")
    # One of several, for the traceback; the text has all.
    error.__cause__ = failures[-1][1]
    return error
