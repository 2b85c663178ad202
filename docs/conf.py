"""Settings of the site, which `make docs` builds from the Markdown files of docs/."""

import base64
import html
import inspect
import mimetypes
import os
import posixpath
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from memattn import __version__

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = None  # address of the repository on GitHub; without it, the site has pages that show the linked files
# Files outside docs/ that have a page of their own here. Those in help/ are shown there in full.
PAGES = {
    "README.md": "index",
    "CHANGELOG.md": "help/changelog",
    "CONTRIBUTING.md": "help/contributing",
    "data/README.md": "reference/files",
}

project = "memattn"
author = "The memattn developers"
release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
highlight_language = "none"  # of blocks that name no language
default_role = "code"  # docstrings write code between single backticks

nb_execution_mode = "off"  # notebooks are shown with the outputs that they hold
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # as GitHub names them

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
python_maximum_signature_line_length = 100
toc_object_entries = False  # the headings name the classes

html_theme = "furo"
html_title = f"memattn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

LINKS = (addnodes.pending_xref, addnodes.download_reference)


class OutsideLinks(SphinxTransform):
    """Gives links to files that are no pages a target that exists on the site or in the repository."""

    default_priority = 1  # before links are resolved

    def apply(self):
        links = self.document.findall(lambda node: isinstance(node, LINKS) and node["reftype"] == "myst")
        for node in list(links):
            target = node["reftarget"]
            if node.get("refdomain") == "doc":  # without its ending
                target = f"/{target}.md"
            path = os.path.relpath(self.env.relfn2path(target, self.env.docname)[1], ROOT)
            is_page = path.startswith("docs" + os.sep) and path.endswith((".md", ".ipynb"))
            if not is_page and (ROOT / path).exists():
                node.replace_self(self._link(node, posixpath.join(*Path(path).parts)))

    def _link(self, node, path):
        if path in PAGES:
            options = {"refdomain": "doc", "reftarget": PAGES[path], "reftype": "myst", "refexplicit": True}
            anchor = None if path == "README.md" else node.get("reftargetid")
            return addnodes.pending_xref("", *node.children, refdoc=self.env.docname, reftargetid=anchor, **options)
        if REPOSITORY:
            address = f"{REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
        else:
            address = self.app.builder.get_relative_uri(self.env.docname, f"files/{path}")
            linked_files(self.env).add(path)
        title = {"reftitle": node["reftitle"]} if node.get("reftitle") else {}
        return nodes.reference("", "", *node.children, refuri=address, **title)


def linked_files(env):
    """Returns the set of the files and folders that pages link to, and that are no pages."""
    return env.__dict__.setdefault("memattn_linked_files", set())


def pages_of_files(app):
    """Yields a page for each linked file or folder: its name, its context and its template."""
    for path in sorted(linked_files(app.env)):
        title = html.escape(path)
        yield f"files/{path}", {"title": title, "body": f"<h1>{title}</h1>{shown(app.builder, path)}"}, "page.html"


def shown(builder, path):
    """Returns HTML that shows a file or the names in a folder."""
    source = ROOT / path
    if source.is_dir():
        names = sorted(f"{entry.name}{'/' if entry.is_dir() else ''}" for entry in source.iterdir())
        return f"<ul>{''.join(f'<li>{html.escape(name)}</li>' for name in names if name[0] not in '._')}</ul>"
    kind = mimetypes.guess_type(path)[0] or ""
    if kind.startswith("image/"):
        return f'<img src="data:{kind};base64,{base64.b64encode(source.read_bytes()).decode()}" alt="">'
    language = {".py": "python", ".yaml": "yaml", ".json": "json"}.get(source.suffix, "text")
    return builder.highlighter.highlight_block(source.read_text(encoding="utf-8"), language)


def show_whole_file(app, docname, source):
    """Puts CHANGELOG.md and CONTRIBUTING.md in place of the pages that name them; their links start at the root."""
    for name, page in PAGES.items():
        if page == docname and page.startswith("help/"):
            source[0] = re.sub(r"\]\((?!https?:|#)", "](../../", (ROOT / name).read_text(encoding="utf-8"))


def add_contents(app, docname, source):
    """Makes the lists of the index the table of contents, with their headings as captions."""
    if docname == "index":
        for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
            caption, _, text = section.partition("\n")
            pages = re.findall(r"^ *- \[(.*?)\]\((\S+)\.(?:md|ipynb)\)", text, flags=re.MULTILINE)
            entries = [f"{title} <{page}>" for title, page in pages]
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""])


def constructor_signature(app, what, name, obj, options, signature, return_annotation):
    """Returns the signature of a class by its constructor, as Keras' layers hide it behind (*args, **kwargs)."""
    if what != "class":
        return None
    parameters = inspect.signature(obj).parameters.values()
    shown = [each.replace(annotation=each.empty) if each.name == "initializer" else each for each in parameters]
    return str(inspect.Signature(shown)), None


def setup(app):
    app.add_transform(OutsideLinks)
    app.connect("source-read", show_whole_file)
    app.connect("source-read", add_contents)
    app.connect("html-collect-pages", pages_of_files)
    app.connect("autodoc-process-signature", constructor_signature)
