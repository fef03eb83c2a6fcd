"""The directives ``options``, which lists the options of a class or of ``ConnectionOptions``, and ``broker-apis``."""

from __future__ import annotations

import inspect
from importlib import import_module

from docutils import nodes  # type: ignore[import-untyped,unused-ignore]
from docutils.parsers.rst import directives  # type: ignore[import-untyped,unused-ignore]
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from aiokproto.broker import served_apis
from docs.extensions.options import Option, connection_options, options_of


class Options(SphinxDirective):
    """``.. options:: aiokproto.producer.Producer``

    With ``:no-index:`` the options cannot be linked to: for a class whose options another one has too.
    """

    required_arguments = 1
    option_spec = {"no-index": directives.flag}  # noqa: RUF012 - as the base class has it

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        cls = getattr(import_module(module), name)
        found = connection_options() if name == "ConnectionOptions" else options_of(cls)
        # Or a change of the class would leave the page as it was last built.
        self.env.note_dependency(inspect.getfile(cls))
        # The texts are the class's own, so their references start from it.
        self.env.ref_context.update({"py:module": module, "py:class": name})
        try:
            no_index = "no-index" in self.options
            return self.parse_text_to_nodes("\n".join(_described(option, no_index) for option in found))
        finally:
            del self.env.ref_context["py:module"], self.env.ref_context["py:class"]


def _described(option: Option, no_index: bool) -> str:
    kind = f"``{option.kind}``" + (f", {option.unit}" if option.unit else "")
    default = "must be given" if option.default is None else f"``{option.default}``"
    flags = "   :no-index:\n" if no_index else ""
    return f".. confval:: {option.name}\n   :type: {kind}\n   :default: {default}\n{flags}\n   {option.meaning}\n"


class BrokerApis(SphinxDirective):
    """What the embedded broker makes of each ApiKey; for pages in Markdown."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(inspect.getfile(served_apis))
        return self.parse_text_to_nodes(served_apis.markdown())


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.add_directive("options", Options)
    app.add_directive("broker-apis", BrokerApis)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
