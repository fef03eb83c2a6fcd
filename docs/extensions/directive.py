"""The directive ``broker-apis``."""

from __future__ import annotations

import inspect

from docutils import nodes  # type: ignore[import-untyped,unused-ignore]
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from aiokproto.broker.handlers import served_apis


class BrokerApis(SphinxDirective):
    """What the embedded broker makes of each ApiKey; for pages in Markdown."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(inspect.getfile(served_apis))
        return self.parse_text_to_nodes(served_apis.markdown())


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.add_directive("broker-apis", BrokerApis)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
