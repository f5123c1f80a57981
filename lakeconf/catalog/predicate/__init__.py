"""The `where` of a scan: its grammar, its values and its form for each engine."""
