"""The pages of the protocol reference."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from aiokproto.codec.registry import api_keys, api_name, payload_names
from aiokproto.error_codes import ErrorCode
from docs.extensions.protocol_pages import pages, write_pages


def test_every_message_has_its_section() -> None:
    """Each is on one page, and each of an API on the API's page."""
    texts = "\n".join(pages().values())
    titles = re.findall(r"^## (\w+)$", texts, re.MULTILINE)
    messages = [f"{api_name(key)}{kind}" for key in api_keys() for kind in ("Request", "Response")]
    assert sorted(titles) == sorted([*messages, *payload_names()])
    assert re.findall(r"^## (\w+)$", pages()["apis/fetch.md"], re.MULTILINE) == ["FetchRequest", "FetchResponse"]


def test_every_page_starts_with_its_title_and_purpose() -> None:
    for name, text in pages().items():
        title, empty, purpose, *_ = text.splitlines()
        assert re.fullmatch(r"# [A-Z].*", title), name
        assert empty == ""
        assert re.match(r"[A-Z`]", purpose), name


def test_links_lead_somewhere() -> None:
    made = pages()
    for name, text in made.items():
        for target in re.findall(r"\]\(([^)#]+\.md)", text):
            path = PurePosixPath(name).parent / target
            assert str(path) in made or target == "../errors.md", f"{name}: {target}"
    anchors = set(re.findall(r"^\((message-\w+)\)=$", "\n".join(made.values()), re.MULTILINE))
    linked = set(re.findall(r"\.md#(message-\w+)\)", "\n".join(made.values())))
    assert linked
    assert linked <= anchors


def test_a_field_and_its_history() -> None:
    page = pages()["apis/fetch.md"]
    assert "| `cluster_id` | `string` | 12-18 | all of them | 0 | `null` | ignorable | " in page
    assert "| `topics[].partitions[].fetch_offset` | `int64` | all |  |  | `0` |  | " in page
    assert "- **2**: same fields\n- **3**: added `max_bytes`: int32\n" in page
    assert "removed `topics[].topic`: string; added `topics[].topic_id`: uuid" in page
    assert "Fetch Request (Version: 18) => max_wait_ms" in page
    assert "versions 0-6, flexible 2-6, unstable 6." in pages()["apis/init_producer_id.md"]


def test_tables_have_as_many_cells_as_their_heads() -> None:
    """A bar in a cell would shift the cells after it."""
    for name, text in pages().items():
        for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
            assert len({row.count("|") for row in table.splitlines()}) == 1, name


def test_every_error_code_is_listed() -> None:
    page = pages()["errors.md"]
    assert all(f"| {code.value} | {code.name} |" in page for code in ErrorCode)
    assert "| 6 | NOT_LEADER_OR_FOLLOWER | worth another attempt, metadata is out of date |" in page


def test_pages_are_the_same_each_time() -> None:
    assert pages() == pages()


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "protocol"
    write_pages(folder)
    (folder / "apis" / "gone.md").write_text("# Gone\n")
    (folder / "errors.md").write_text("# Changed\n")
    kept = (folder / "index.md").stat().st_mtime_ns
    write_pages(folder)
    assert {page.relative_to(folder).as_posix(): page.read_text() for page in folder.rglob("*.md")} == pages()
    assert (folder / "index.md").stat().st_mtime_ns == kept
