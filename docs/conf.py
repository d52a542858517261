"""How Sphinx makes the site: ``make docs`` stages the pages (`docs._site.stage`) and calls it."""

from __future__ import annotations

from pathlib import Path

from arcwise.version import __version__

HERE = Path(__file__).parent

project = "arcwise"
author = "The arcwise developers"
project_copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_click",
    "docs._site.extension",
]
exclude_patterns = ["_site", "conf.py"]

# Markdown as forges have it, and formulas between dollars.
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 5
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# The API: docstrings have the words, signatures the types.
autosummary_generate = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "py:obj"
nitpick_ignore_regex = [(r"py:.*", r"(?!arcwise).*")]  # other libraries: the site needs no network

smartquotes = False  # two hyphens of an option stay two

html_theme = "furo"
html_title = f"arcwise {release}"
html_static_path = ["_site/static"]
templates_path = ["_site/templates"]
html_css_files = ["site.css"]
html_js_files = ["versions.js"]
html_copy_source = False
html_domain_indices = False
html_use_index = True
html_show_sourcelink = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
pygments_style = "tango"
pygments_dark_style = "github-dark"
