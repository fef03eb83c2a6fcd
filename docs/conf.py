"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

from aiokproto._version import __version__

project = "aiokproto"
author = "The aiokproto authors"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"aiokproto {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
exclude_patterns = ["_build"]
