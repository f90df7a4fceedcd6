"""Reads a project's files with `ast` and finds its training loops."""

from ampify.index.build import build_project, sites_aside

__all__ = ["build_project", "sites_aside"]
