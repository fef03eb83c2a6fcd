"""Metrics of the application, which a client pushes to its brokers together with its own (KIP-1076). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import NamedTuple, cast

from aiokproto.application.calls import check_not_awaitable
from aiokproto.errors import ConfigurationError
from aiokproto.hooks import FailureLog
from aiokproto.texts import repr_of

_INT64 = 2**63


class Metric(NamedTuple):
    """One metric with its value.

    Attributes:
        name: Its full name, such as ``"com.example.orders.open"``: brokers subscribe to names by their beginning.
        value: The value. Of a sum the total since the start, which never falls.
        is_sum: A monotonic sum; otherwise a gauge.
        attributes: What the value belongs to, as a broker or a queue.
    """

    name: str
    value: float
    is_sum: bool = False
    attributes: Mapping[str, str] = {}


MetricsFunction = Callable[[], Iterable[Metric]]
"""Returns the application's metrics as they are now. Called in the event loop, before each push."""


class ApplicationMetrics:
    """The function of the application, whose errors are logged (the 1st, 10th, 100th time) and have no other effect."""

    def __init__(self, function: MetricsFunction | None = None) -> None:
        self._function = function
        self._failures = FailureLog("application_metrics")

    def __call__(self) -> list[Metric]:
        """Return the metrics; those that are none are left out."""
        found: list[Metric] = []
        if self._function is None:
            return found
        try:
            metrics = self._function()
            check_not_awaitable(metrics, "application_metrics")
            for metric in metrics:
                if problem := _problem(metric):
                    self._failures.log(ValueError(f"{repr_of(metric)}: {problem}"))
                else:
                    found.append(metric)
        # The generator of the application: what it has returned before is good.
        except BaseException as error:  # noqa: BLE001 - the application's code; FailureLog logs it
            self._failures.log(error)
        return found


NO_APPLICATION_METRICS = ApplicationMetrics()


def _problem(metric: object) -> str:
    """Return why it cannot be pushed; empty if it can."""
    if not isinstance(metric, Metric):
        return "expected an aiokproto.metrics.Metric"
    name, value, is_sum, attributes = metric
    if not isinstance(name, str) or not name:
        return "the name is no text"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "the value is no number"
    if not (-_INT64 <= value < _INT64 if isinstance(value, int) else isfinite(value)):
        return "the value is not finite, or has more than 64 bits"
    if is_sum and value < 0:
        return "a sum is never negative"
    if not isinstance(attributes, Mapping) or not all(
        isinstance(each, str) for pair in attributes.items() for each in pair
    ):
        return "attributes are texts"
    return ""


def parse_application_metrics(name: str, value: object) -> ApplicationMetrics:
    """Return the function that the user has passed as option ``name``.

    Raises:
        ConfigurationError: It is none.
    """
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name}={value!r}: expected a function that returns metrics, or None")
    return NO_APPLICATION_METRICS if value is None else ApplicationMetrics(cast("MetricsFunction", value))
