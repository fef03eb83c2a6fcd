"""``security.json`` is written behind changes: in a thread, once for many, and before a change is acknowledged."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.broker.security import security_state
from aiokproto.broker.security.security_state import SecurityFile
from aiokproto.broker.security.tokens import MAX_OWNED
from aiokproto.codec.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokproto.codec.messages.create_acls import CreateAclsRequest
from aiokproto.codec.messages.create_delegation_token import CreateDelegationTokenRequest
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokproto.codec.messages.expire_delegation_token import ExpireDelegationTokenRequest
from aiokproto.codec.messages.renew_delegation_token import RenewDelegationTokenRequest
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_harness import refused
from tests.broker.secure import AUTHORIZER, READ, TOPIC, USERS, acl, guarded, logged_in
from tests.broker.test_delegation_tokens import ALICE, BOB, SECRET, Store


class Thread:
    """Does work when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self.failure: OSError | None = None

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((work, done))
        return done

    def finish(self) -> None:
        work, done = self.waiting.pop()
        if self.failure is not None:
            done.set_exception(self.failure)
        else:
            work()
            done.set_result(None)


class Numbers:
    """A file that stores a number."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "numbers.json"
        self.thread = Thread()
        self.number = 0
        self.file = SecurityFile(cast("Any", self), cast("Any", self.thread), self.path)

    def snapshot(self) -> Callable[[], str]:
        now = self.number
        return lambda: str(now)

    def change(self) -> asyncio.Task[None]:
        self.number += 1
        self.file.changed()
        return asyncio.ensure_future(self.file.saved())

    async def written(self) -> str:
        """Finish the write that is under way."""
        while not self.thread.waiting:
            await asyncio.sleep(0)
        self.thread.finish()
        for _ in range(5):
            await asyncio.sleep(0)
        return self.path.read_text()


async def test_what_changes_during_a_write_is_in_the_next_one(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    first = numbers.change()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [numbers.change() for _ in range(100)]
    assert await numbers.written() == "1"
    assert first.done()
    assert not any(other.done() for other in others)
    assert await numbers.written() == "101"
    assert all(other.done() for other in others)
    assert not numbers.thread.waiting
    await numbers.file.saved()
    assert not numbers.thread.waiting


async def test_a_file_that_cannot_be_written_fails_those_who_wait_and_is_tried_again(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    numbers.thread.failure = OSError("no space left")
    waiting = [numbers.change() for _ in range(2)]
    while not numbers.thread.waiting:
        await asyncio.sleep(0)
    numbers.thread.finish()
    for each in waiting:
        with pytest.raises(OSError, match="no space left"):
            await each
    numbers.thread.failure = None
    again = numbers.change()
    assert await numbers.written() == "3"
    await again


async def test_a_request_that_ends_does_not_end_the_write_of_others(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    first, second = numbers.change(), numbers.change()
    while not numbers.thread.waiting:
        await asyncio.sleep(0)
    first.cancel()
    assert await numbers.written() == "2"
    await second


async def test_whatever_is_acknowledged_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And written in a thread."""
    threads: list[int] = []
    replace = security_state.replace_file

    def counted(path: Path, text: str) -> None:
        threads.append(threading.get_ident())
        replace(path, text)

    monkeypatch.setattr(security_state, "replace_file", counted)
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin", "delegation.token.secret.key": SECRET}
    broker = Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=config, data_dir=tmp_path)

    def stored() -> dict[str, list[object]]:
        found: dict[str, list[object]] = json.loads((tmp_path / "security.json").read_text())
        return found

    async with broker, logged_in(broker, "admin") as wire:
        await wire.ask(CreateAclsRequest(creations=[acl(TOPIC, "t", READ)]), 3)
        assert len(stored()["acls"]) == 1
        quota = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name="alice")],
            ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)],
        )
        await wire.ask(AlterClientQuotasRequest(entries=[quota], validate_only=False))
        assert len(stored()["client_quotas"]) == 1
        added = ScramCredentialUpsertion(name="new", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
        await wire.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[added]))
        assert len(stored()["scram_credentials"]) == 1
        token = await wire.ask(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
        (kept,) = stored()["delegation_tokens"]
        await wire.ask(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1_000_000))
        assert stored()["delegation_tokens"] != [kept]
        await wire.ask(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))
        assert stored()["delegation_tokens"] == []
        deletion = ScramCredentialDeletion(name="new", mechanism=1)
        await wire.ask(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))
        assert stored()["scram_credentials"] == []
        every = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        await wire.ask(DeleteAclsRequest(filters=[every]), 3)
        assert stored()["acls"] == []
    assert len(threads) == 8
    assert threading.get_ident() not in threads


async def test_a_request_with_many_changes_writes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(security_state, "replace_file", lambda path, text: written.append(text))
    broker = guarded()
    async with broker, logged_in(broker, "admin") as wire:
        quotas = [
            AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type="user", entity_name=f"user{number}")],
                ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)],
            )
            for number in range(50)
        ]
        await wire.ask(AlterClientQuotasRequest(entries=quotas, validate_only=False))
        assert len(written) == 1
        await wire.ask(AlterClientQuotasRequest(entries=quotas, validate_only=True))
        assert len(written) == 1


def test_nobody_takes_all_delegation_tokens() -> None:
    store = Store()
    token = store.tokens.create(ALICE, ALICE, [], -1)
    for _ in range(MAX_OWNED - 1):
        store.tokens.create(ALICE, ALICE, [], -1)
    for requester in (ALICE, BOB):
        with refused(ErrorCode.POLICY_VIOLATION):
            store.tokens.create(ALICE, requester, [], -1)
    store.tokens.create(BOB, ALICE, [], -1)
    store.tokens.expire(store.tokens.hmac(token), -1, ALICE)
    store.tokens.create(ALICE, ALICE, [], -1)
    again = Store()
    again.tokens.load_json(json.loads(json.dumps(list(store.tokens.to_json()))))
    with refused(ErrorCode.POLICY_VIOLATION):
        again.tokens.create(ALICE, ALICE, [], -1)
    store.now += 30 * 86_400_000
    assert store.tokens.sweep()
    assert not store.tokens._owned
