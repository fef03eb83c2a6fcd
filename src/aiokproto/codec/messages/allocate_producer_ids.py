"""AllocateProducerIds (ApiKey 67): a broker asks for a block of producer ids."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, ProducerId, Request, Response, Route, int16, int32, int64


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    """The reserved block of producer ids. Errors: see `AllocateProducerIdsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: ProducerId = 0
    """First id of the block."""
    producer_id_len: int32 = 0
    """Number of ids in the block."""


class AllocateProducerIdsRequest(
    Request[AllocateProducerIdsResponse], key=67, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Reserve a block of producer ids, which the broker then assigns in InitProducerId responses (KIP-730).

    Sent by brokers to the controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH.
    """

    broker_id: BrokerId = 0
    """Broker that receives the block."""
    broker_epoch: int64 = -1
    """Epoch of the broker's registration; -1: unknown."""
