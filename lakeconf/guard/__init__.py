"""The locks of a lake, and the marker file that names the catalog that owns a data path."""
