"""The report as one HTML page that needs no network: overview, loops drawn, changes with what is said of them."""

from ampify.report.html.page import html_report

__all__ = ["html_report"]
