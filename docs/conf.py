"""How the documentation is built: `make docs`, warnings are errors."""

import re

import orthodrome

project = "orthodrome"
author = "The orthodrome developers"
copyright = author
version = release = orthodrome.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "orthodrome"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e8f", "color-brand-content": "#0b6e8f"},
    "dark_css_variables": {"color-brand-primary": "#5fb7d4", "color-brand-content": "#5fb7d4"},
}

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst-nb.lexer"]  # of cells that were not executed, as in the tests

nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_execution_in_temp = True  # cells write files
nb_execution_show_tb = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
default_role = "literal"

SETTING = re.compile(r"^( *)((?:\w+)(?:, \w+)*): ")
"""A line of a docstring that says what a setting means."""


def as_rest(app, what, name, obj, options, lines):
    """The library's docstrings are plain text with `code` in it; Sphinx wants reStructuredText."""
    out, in_list = [], False
    for line in lines:
        parts = re.split(r"(`[^`]*`)", line)
        line = "".join(f"`{part}`" if part.startswith("`") else re.sub(r"([*|_\\])", r"\\\1", part) for part in parts)
        found = SETTING.match(line.replace("\\_", "_"))
        if found and what in ("class", "method", "function"):
            indent, names = found.groups()
            rest = line.replace("\\_", "_")[found.end() :]
            if not in_list:
                out.append("")
            out.append(f"{indent}- ``{names}``: {rest}")
            in_list = True
        elif in_list and line.startswith("    "):
            out.append(f"  {line.strip()}")
        else:
            if in_list and line.strip():
                out.append("")
            in_list = False if line.strip() else in_list
            out.append(line)
    lines[:] = out


def setup(app):
    """Sphinx calls it."""
    app.connect("autodoc-process-docstring", as_rest)
