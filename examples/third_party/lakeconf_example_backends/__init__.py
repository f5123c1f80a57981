"""Third-party backends for lakeconf; `pyproject.toml` defines the `type` of each."""
