"""How lakes, tables and snapshots look in a notebook. Names and values are untrusted: all of them are escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from lakeconf.catalog.snapshot import Snapshot
from lakeconf.logs import escaped

# The most rows of a table in HTML; the last line counts the others.
MOST_ROWS = 100


class Snapshots(list[Snapshot]):
    """A list of snapshots that notebooks show as a table."""

    def _repr_html_(self) -> str:
        newest = [
            (one.snapshot_id, f"{one.time:%Y-%m-%d %H:%M:%S} UTC", one.changes, one.author or "", one.message or "")
            for one in reversed(self)
        ]
        return html_table("Snapshots, newest first", ("snapshot", "time", "changes", "author", "message"), newest)


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """An HTML table with a caption; numbers are right-aligned."""
    head = "".join(f"<th>{_text(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    rest = f'<tr><td colspan="{len(header)}">and {more} more</td></tr>' if more > 0 else ""
    caption = f'<caption style="text-align: left">{_text(title)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}{rest}</tbody></table>"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Some names as a text, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(escaped, names[:most])) + more


def _cell(value: object) -> str:
    align = "right" if isinstance(value, int) else "left"
    return f'<td style="text-align: {align}">{_text(value)}</td>'


def _text(value: object) -> str:
    return html.escape(escaped(str(value)))
