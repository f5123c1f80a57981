"""Backends for lakeconf from outside of it; `pyproject.toml` says under which `type` each is found."""
