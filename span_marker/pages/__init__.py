"""Reports as web pages: one file each that needs no other, without scripts, in light and in dark."""

from span_marker.pages.rendering import Table, render_page

__all__ = ["Table", "render_page"]
