"""Finds and validates the configuration file and builds its stores."""
