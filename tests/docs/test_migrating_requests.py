"""The requests in the admin tables of the migration pages are sent as they stand there, and answered."""

from __future__ import annotations

import ast
import importlib
import re
from typing import Any

import pytest

from aiokproto import Broker, Client
from aiokproto.codec.registry import lookup
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import EncodeError
from tests.docs.migrating import PAGES, code, table

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TEXTS = {"name": "flights", "resource_name": "flights", "topic": "flights", "principal": "User:alice", "host": "*"}
LISTS: dict[str, list[Any]] = {
    **{name: [0] for name in ("partitions", "partition_indexes", "replicas")},
    **{name: ["some"] for name in ("topic_names", "group_ids", "groups", "groups_names", "coordinator_keys")},
    "transactional_ids": ["some"],
}
VALUES: dict[str, Any] = {
    **TEXTS,
    **dict.fromkeys(["group_id", "member_id", "key", "reason", "path", "client_software_name"], "some"),
    **dict.fromkeys(["client_software_version", "value"], "1"),
    **dict.fromkeys(["resource_name_filter", "principal_filter", "host_filter", "group_instance_id", "cursor"]),
    **dict.fromkeys(["validate_only", "include_synonyms"], False),
    **dict.fromkeys(["resource_type", "resource_type_filter"], 2),
    **dict.fromkeys(["resource_pattern_type", "pattern_type_filter", "operation", "permission_type"], 3),
    **dict.fromkeys(["salt", "salted_password"], b"some"),
    "feature": "group.version",
    "max_version_level": 1,
    "timeout_ms": 10_000,
    "response_partition_limit": 10,
}
"""What stands for ``…`` in the tables; elsewhere 0."""


class Filled(ast.NodeTransformer):
    """A request of a table, with values in place of ``…``."""

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        """Fill one argument."""
        name = node.arg or ""
        if ast.unparse(node.value) == "...":
            node.value = ast.Constant(VALUES.get(name, 0))
        elif ast.unparse(node.value) == "[...]":
            node.value = ast.List([ast.Constant(each) for each in LISTS.get(name, [])], ast.Load())
        else:
            self.generic_visit(node)
        return node


def requests() -> dict[str, Request[Any]]:
    """The requests of all admin tables that stand there in full."""
    cells = [row[1] for page in PAGES for row in table(page, "Admin requests")]
    spans = {found[0] for cell in cells for span in code(cell) if (found := re.search(r"\w+Request\(.*\)", span))}
    return {span: filled(span) for span in sorted(spans) if not span.endswith("(…)")}


def filled(span: str) -> Request[Any]:
    span = re.sub(r"\), node=…\)$", ")", span)
    cls = lookup(span.partition("(")[0])
    tree = Filled().visit(ast.parse(span.replace("…", "..."), mode="eval"))
    made: Request[Any] = eval(
        compile(ast.fix_missing_locations(tree), span, "eval"), dict(vars(importlib.import_module(cls.__module__)))
    )
    return made


async def test_requests_of_admin_tables_are_answered() -> None:
    found = requests()
    assert len(found) > 30
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    async with Broker(config=config) as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:
        await broker.create_topic("flights")
        for span, request in found.items():
            response = await client.request(request, node=0 if "LogDirs" in span else None)
            assert getattr(response, "error_code", 0) == ErrorCode.NONE, span


async def test_a_request_whose_fields_are_of_different_versions_is_noticed() -> None:
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:
        with pytest.raises(EncodeError):
            await client.request(filled("FindCoordinatorRequest(key_type=0, key=…)"))
