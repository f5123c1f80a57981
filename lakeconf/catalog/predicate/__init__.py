"""The `where` of a scan: parses it, types its literals, and renders it for engines."""
