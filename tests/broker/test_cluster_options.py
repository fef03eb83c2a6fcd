"""Wrong arguments of an embedded cluster are refused before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.broker import Cluster
from aiokproto.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"brokers": 0}, "brokers=0: expected a number of at least 1"),
        ({"brokers": "3"}, "brokers='3': expected a whole number"),
        ({"port": -1}, "port=-1: expected a number of at least 0"),
        ({"port": "9092"}, "port='9092': expected a whole number"),
        ({"port": 65534, "brokers": 3}, "port=65534 leaves no room for 3 brokers below 65536"),
        ({"port": 65536, "brokers": 1}, "port=65536 leaves no room for 1 broker below 65536"),
        ({"clock": 5}, "clock=5: expected a VirtualClock"),
        ({"security": "SSL"}, "security='SSL': expected a Security"),
        ({"as_version": 2.8}, "as_version=2.8 is no release of Kafka; expected one of 0.8.2, "),
        ({"as_version": {0: "new"}}, "as_version: 0 has the versions 'new', expected e.g. '0-7'"),
        ({"as_version": {0: 7}}, "as_version: 0 has the versions 7, expected e.g. '0-7'"),
        ({"as_version": {"Produce": "0-7"}}, "'Produce' is not an API; pass its request class, such as Produce"),
        ({"as_version": "5.0"}, "as_version='5.0' is no release of Kafka; expected one of 0.8.2, "),
    ],
)
def test_wrong_arguments(options: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{error}"):
        Cluster(**options)
