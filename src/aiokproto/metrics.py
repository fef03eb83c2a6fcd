"""Metrics of the application that a client pushes to its brokers along with its own (KIP-1076). Pure."""

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
    """A metric and its value.

    Attributes:
        name: The full name, such as ``"com.example.orders.open"``. Brokers subscribe to prefixes of names.
        value: The value. For a sum it's the total since the start, which never decreases.
        is_sum: Whether it's a monotonic sum; otherwise it's a gauge.
        attributes: Identify what the value belongs to, such as a broker or a queue.
    """

    name: str
    value: float
    is_sum: bool = False
    attributes: Mapping[str, str] = {}


MetricsFunction = Callable[[], Iterable[Metric]]
"""Returns the current metrics of the application. The client calls it in the event loop, before each push."""


class ApplicationMetrics:
    """Calls the application's function. Its errors are only logged (the 1st, 10th, 100th...)."""

    def __init__(self, function: MetricsFunction | None = None) -> None:
        self._function = function
        self._failures = FailureLog("application_metrics")

    def __call__(self) -> list[Metric]:
        """Return the metrics, without the invalid ones."""
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
        # Keep the metrics so far: the function may be a generator that fails partway.
        except BaseException as error:  # noqa: BLE001 - the application's code; FailureLog logs it
            self._failures.log(error)
        return found


NO_APPLICATION_METRICS = ApplicationMetrics()


def _problem(metric: object) -> str:
    """Return why a metric can't be pushed; empty if it can."""
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
        isinstance(text, str) for pair in attributes.items() for text in pair
    ):
        return "attributes are texts"
    return ""


def parse_application_metrics(name: str, value: object) -> ApplicationMetrics:
    """Parse the option ``name``: a function, or None.

    Raises:
        ConfigurationError: The value isn't a function.
    """
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name}={value!r}: expected a function that returns metrics, or None")
    return NO_APPLICATION_METRICS if value is None else ApplicationMetrics(cast("MetricsFunction", value))
