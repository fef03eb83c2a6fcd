"""DescribeTransactions (ApiKey 65): state and partitions of transactions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, int16, int32, int64, string


class TopicData(Struct):
    topic: string
    partitions: list[int32]


class TransactionState(Struct):
    error_code: int16
    transactional_id: string
    transaction_state: string
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64
    producer_id: int64
    producer_epoch: int16
    topics: list[TopicData]


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int32
    transaction_states: list[TransactionState]


class DescribeTransactionsRequest(
    Request[DescribeTransactionsResponse], key=65, versions="0", flexible="0+", route=Route.TRANSACTION
):
    transactional_ids: list[string]
