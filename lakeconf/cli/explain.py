"""`lakeconf explain`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from lakeconf.cli.options import config_option, format_option
from lakeconf.cli.output import show, show_json, show_lines, show_table, style
from lakeconf.config.explain_code import explanation
from lakeconf.config.explain_key import KeyOrigin, explain_key
from lakeconf.config.model import init


@click.command("explain", short_help="Explain an error code or a configuration key.")
@click.argument("what", metavar="CODE|KEY")
@format_option
@config_option
def command(what: str, source: str | None, format_name: str) -> None:
    """Explain a CODE, with an example and its fix, or the value, origin and meaning of a store's KEY.

    \b
        lakeconf explain LC012
        lakeconf explain stores.prod.storage_backend.region
        lakeconf explain stores.prod
    """
    if re.fullmatch(r"[a-z]{2}\d+", what, re.IGNORECASE):
        text = explanation(what).rstrip()
        if format_name == "json":
            show_json({"code": what.upper(), "text": text})
        else:
            show_lines(text)
    else:
        _show_values(explain_key(init(source), what), format_name)


def _show_values(found: Sequence[KeyOrigin], format_name: str) -> None:
    if format_name == "json":
        show_json([{"key": one.key, "value": one.value, "from": one.origin, "is": one.description} for one in found])
    elif len(found) == 1:
        (one,) = found
        show(f"{style(one.key, bold=True)} = {one.value}")
        show(f"  from  {one.origin}")
        show(f"  is    {one.description}")
    else:
        show_table([("key", "value", "from"), *((one.key, one.value, one.origin) for one in found)])
