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
html_static_path = ["_static"]
smartquotes = False  # c'' is a derivative
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
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autoclass_content = "both"
default_role = "literal"

SETTING = re.compile(r"^((?:\w+)(?:, \w+)*): ")
"""A line of a docstring that says what a setting means."""


def as_rest(app, what, name, obj, options, lines):
    """The library's docstrings are plain text with `code` in it; Sphinx wants reStructuredText.

    Indented lines after an empty one are code; lines that begin with names and a colon are a list
    of settings.
    """
    if obj is orthodrome.Status:
        lines += ["", *(f"{status.name}: {status.sentence}." for status in obj)]
    out, inside = [], None
    for line in lines:
        indented = line.startswith("    ")
        setting = SETTING.match(line) if what in ("class", "method", "function") else None
        if indented and inside is None and out and not out[-1]:
            out += ["::", ""]
            inside = "code"
        elif setting and inside is None:
            out.append("")
            inside = "list"
        elif inside and line and not indented and not setting:
            out.append("")
            inside = None
        if inside == "code":
            out.append(line)
        elif inside == "list" and setting:
            out.append(f"- ``{setting[1]}``: {escaped(line[setting.end() :])}")
        elif inside == "list":
            out.append(f"  {escaped(line.strip())}")
        else:
            out.append(escaped(line))
    lines[:] = [*out, ""]


def escaped(line):
    """Without meaning to reStructuredText, but for `code`."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*|_\\])", r"\\\1", part) for part in parts
    )


def setup(app):
    """Sphinx calls it."""
    app.connect("autodoc-process-docstring", as_rest)
    app.add_css_file("site.css")
