"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from aiokproto._version import __version__

# What is compiled has neither docstrings nor annotations: the pure form is the definition.
os.environ["AIOKPROTO_PURE"] = "1"

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "aiokproto"
author = "The aiokproto authors"
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "docs.extensions.directive",
    "docs.extensions.protocol",
]
html_theme = "furo"
html_title = f"aiokproto {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
project_copyright = "The aiokproto authors. Apache-2.0"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_use_ivar = True
# In the page's contents: `send()`, below `Producer`.
toc_object_entries_show_parents = "hide"
exclude_patterns = ["_build"]
