"""The protocol reference: pages made from the declarations each time the documentation is built."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from docs.extensions.protocol_pages import write_pages


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "protocol"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
