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
    """Explain a CODE, with an example and its fix, or the value, origin and meaning of a KEY.

    \b
        lakeconf explain LC012
        lakeconf explain stores.prod.storage_backend.region
        lakeconf explain stores.prod
        lakeconf explain time_column
        lakeconf explain pipeline.models.raw.events
    """
    if re.fullmatch(r"[a-z]{2}\d+", what, re.IGNORECASE):
        text = explanation(what).rstrip()
        if format_name == "json":
            show_json({"code": what.upper(), "text": text})
        else:
            show_lines(text)
    elif what.split(".")[0] == "pipeline" or ("." not in what and what != "stores"):
        _explain_pipeline(what, source, format_name)
    else:
        _show_values(explain_key(init(source), what), format_name)


def _explain_pipeline(what: str, source: str | None, format_name: str) -> None:
    # Slow to import, and only needed for these keys.
    from lakeconf.pipelines.explained_keys import described_keys, model_values

    if "." in what.removeprefix("pipeline.models.") and what.startswith("pipeline.models."):
        _show_values(model_values(init(source), what), format_name)
        return
    found = described_keys(what)
    if format_name == "json":
        show_json([{"key": one.key, "kinds": one.kinds, "is": one.meaning, "example": one.example} for one in found])
    elif len({one.key for one in found}) == 1:
        for one in found:
            show(style(one.key, bold=True))
            show(f"  kinds    {one.kinds}")
            show(f"  is       {one.meaning}")
            show(f"  example  {one.example}")
    else:
        show_table([("key", "kinds", "meaning"), *((one.key, one.kinds, one.meaning) for one in found)])


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
