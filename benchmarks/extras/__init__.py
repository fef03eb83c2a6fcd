"""Measurements other than throughput, one file each, of the asyncio clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.extras import growth, loaded, stalls, topics, trip
from benchmarks.loops import Loop
from benchmarks.work import Data


@dataclass(frozen=True)
class Extra:
    """A measurement.

    Attributes:
        title: What the table calls it.
        run: Measures; stores the figures in the work, with their units.
        data: The data to measure with.
        messages: The number of messages that it writes, or finds in its topic.
        reads: Whether the topic is filled beforehand.
        options: Settings of the work; measured with each of these.
        clients: The asyncio clients to measure; all if empty.
        crowded: Whether it needs a broker of its own, with as many topics as the option of that name says.
        long: Whether it takes minutes, and is only measured with ``--long``.
    """

    title: str
    run: Loop
    data: Sequence[Data]
    messages: int
    reads: bool = False
    options: Sequence[Mapping[str, float]] = field(default=({},))
    clients: Sequence[str] = ()
    crowded: bool = False
    long: bool = False


OURS = ("aiokproto", "aiokproto-pure")
KIB = 1024
PLAIN, PACKED = Data(KIB), Data(KIB, "zstd")
SMALL = Data(100)

EXTRAS: Mapping[str, Extra] = {
    "loaded": Extra("latency under load", loaded.run, [PLAIN], loaded.MESSAGES),
    "trip": Extra("from a send to its reader", trip.run, [SMALL], trip.MESSAGES),
    "stalls-produce": Extra("stalls while producing", stalls.produce, [PLAIN, PACKED], stalls.MESSAGES),
    "stalls-consume": Extra("stalls while consuming", stalls.consume, [PLAIN, PACKED], stalls.MESSAGES, reads=True),
    "growth": Extra("memory growth", growth.run, [SMALL], growth.MESSAGES, clients=OURS, long=True),
    "topics": Extra(
        "a send among many topics",
        topics.run,
        [SMALL],
        topics.MESSAGES,
        options=[{"topics": 1}, {"topics": 10_000}],
        clients=(*OURS, "aiokafka"),
        crowded=True,
        long=True,
    ),
}
