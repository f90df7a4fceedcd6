"""Notebooks as programs: the code of their cells in one text, and that text back into the cells it came from."""

from ampify.notebook.document import BrokenNotebook
from ampify.notebook.program import Cell, Notebook, read_notebook

__all__ = ["BrokenNotebook", "Cell", "Notebook", "read_notebook"]
