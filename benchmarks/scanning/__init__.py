"""Parts of `spark_scan.py`."""
