# Made by `lakeconf export dlt prod`: names of stores and variables, no secret.
# config.toml and secrets.toml of dlt are not needed, and what they say of a destination has no effect.
# A script that says destination="ducklake": python -m lakeconf.integrations.dlt prod python load.py
import dlt

from lakeconf.integrations.dlt import destination

pipeline = dlt.pipeline("lake", destination=destination("prod"), dataset_name="raw")
