"""The meaning of Kerberos' errors. ``tests/kerberos`` has the errors that a KDC can be made to report."""

from __future__ import annotations

import pytest

from aiokproto.errors import AuthenticationError, BrokerConnectionError, KafkaError
from aiokproto.security.kerberos_errors import code_of, ticket_error

BASE = (1 << 32) - 1765328384


@pytest.mark.parametrize(
    ("minor", "code"),
    [(BASE + 7, 7), (BASE + 156, 156), (BASE + 255, 255), (2529638919, 7), (39756033, 39756033), (2, 2), (0, 0)],
)
def test_codes_of_the_protocol_and_of_the_library(minor: int, code: int) -> None:
    assert code_of(minor) == code


def test_codes_of_others_stay_as_they_are() -> None:
    for minor in (BASE - 1, BASE + 256, (1 << 32) - 1):
        assert code_of(minor) == minor


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (6, AuthenticationError, "check sasl_kerberos_principal, and its realm"),
        (7, AuthenticationError, "check sasl_kerberos_service_name"),
        (12, AuthenticationError, "the policy of the KDC forbids it"),
        (14, AuthenticationError, "have no encryption type in common"),
        (18, AuthenticationError, "the principal is locked"),
        (23, AuthenticationError, "password has expired"),
        (24, AuthenticationError, "export it again"),
        (21, BrokerConnectionError, "synchronize the clocks"),
        (32, BrokerConnectionError, "run kinit, or set sasl_kerberos_keytab"),
        (33, BrokerConnectionError, "synchronize the clocks"),
        (37, BrokerConnectionError, "synchronize the clocks"),
        (154, BrokerConnectionError, "check the realm's spelling"),
        (156, BrokerConnectionError, "check that the KDC runs"),
        (220, BrokerConnectionError, "check that the KDC runs"),
    ],
)
def test_what_to_do(code: int, error: type[KafkaError], text: str) -> None:
    """A refusal of the KDC is final. Temporary problems are tried again."""
    made = ticket_error("no Kerberos ticket for kafka/host", BASE + code, "what the library says")
    assert type(made) is error
    assert str(made).startswith("no Kerberos ticket for kafka/host: what the library says: ")
    assert text in str(made)


@pytest.mark.parametrize("minor", [0, 13, BASE + 29, BASE + 60, 4711])
def test_an_error_without_advice_is_tried_again(minor: int) -> None:
    made = ticket_error("no ticket", minor, "what the library says")
    assert (type(made), str(made)) == (BrokerConnectionError, "no ticket: what the library says")


def test_a_realm_that_the_name_of_the_host_led_to() -> None:
    made = ticket_error("no ticket", BASE + 7, "Server krbtgt/TEST@REALM not found in Kerberos database")
    assert "the KDC knows no way into this realm" in str(made)
    assert "check sasl_kerberos_service_name" in str(made)
