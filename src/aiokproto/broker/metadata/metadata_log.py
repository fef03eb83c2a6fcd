"""The metadata log: topics, options, features and ids, which Kafka stores in ``__cluster_metadata``.

A file of JSON lines ``[kind, name, value]``. The last line for a name counts, and null removes the name. So a change
costs one line, however many topics there are. Once superseded lines outnumber the valid ones, the file is rewritten
without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aiokproto.broker.log.private_files import private, write_private
from aiokproto.errors import ConfigurationError

FILE = "cluster.jsonl"
_FILE_OF_VERSION_1 = "cluster.json"

_VERSION = ["version", "", 2]
_SLACK = 1000
"""How far superseded lines may outnumber the valid ones."""

Entry = tuple[str, str, Any]


class MetadataLog:
    """Values by kind and name, in memory and in the file. When ``put`` returns, the change is in the file.

    Attributes:
        end_offset: The offset after the last change, counting every stored change. After a restart, it's the number of
            lines in the file.
    """

    def __init__(self, root: Path) -> None:
        """Read the file in ``root``, or create it.

        Raises:
            ConfigurationError: The file is invalid, or an older release of this package wrote it.
        """
        self._path = root / FILE
        self._kinds: dict[str, dict[str, Any]] = {}
        self._lines = 0
        self.end_offset = 0
        if self._path.exists():
            self._read()
        elif (root / _FILE_OF_VERSION_1).exists():
            raise ConfigurationError(f"data_dir: {root} was written by an older release of this broker")
        else:
            self._rewrite()

    def get(self, kind: str) -> Mapping[str, Any]:
        """Return all values of a kind by name, in the order in which names were added."""
        return self._kinds.get(kind, {})

    def put(self, kind: str, name: str, value: Any) -> None:
        """Store a value of any JSON type. None removes the name."""
        self.put_all([(kind, name, value)])

    def put_all(self, entries: Iterable[Entry]) -> None:
        """Store several values with one write. An unchanged value isn't written again."""
        lines = []
        for entry in entries:
            kind, name, value = entry
            if self._kinds.get(kind, {}).get(name) != value:
                line = json.dumps(entry)
                # Store a copy: the caller may change its lists later, and the comparison above must notice.
                self._apply(kind, name, json.loads(line)[2])
                lines.append(line)
        if not lines:
            return
        self._lines += len(lines)
        self.end_offset += len(lines)
        # The limit grows with the number of valid lines, so the cost of rewriting them is spread over as many changes.
        if self._lines > 2 * sum(map(len, self._kinds.values())) + _SLACK:
            self._rewrite()
        else:
            with open(self._path, "a", opener=private) as file:
                file.write("".join(f"{line}\n" for line in lines))

    def _apply(self, kind: str, name: str, value: Any) -> None:
        if value is None:
            self._kinds.get(kind, {}).pop(name, None)
        else:
            self._kinds.setdefault(kind, {})[name] = value

    def _rewrite(self) -> None:
        entries = [[kind, name, value] for kind, values in self._kinds.items() for name, value in values.items()]
        # Replacing a file is only atomic within a directory, so put the temporary file there.
        temporary = self._path.with_suffix(".tmp")
        write_private(temporary, "".join(f"{json.dumps(entry)}\n" for entry in [_VERSION, *entries]))
        # This is atomic: a crash leaves the old file or the new one.
        temporary.replace(self._path)
        self._lines = len(entries)

    def _read(self) -> None:
        *lines, rest = self._path.read_text().split("\n")
        try:
            if not lines or json.loads(lines[0]) != _VERSION:
                raise ValueError(f"its first line is not {json.dumps(_VERSION)}")
            for line in lines[1:]:
                kind, name, value = json.loads(line)
                self._apply(kind, name, value)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"data_dir: {self._path} cannot be read: {error}") from None
        self._lines = self.end_offset = len(lines) - 1
        if rest:
            # A crash cut the last line short. The response to that change was never sent, and the next line must not be
            # appended to this one.
            self._rewrite()
