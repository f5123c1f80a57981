"""Generates two months of events of a web shop: deterministic data, one CSV file per month.

Usage: python make_events.py [FOLDER]
"""

from __future__ import annotations

import csv
import datetime
import random
import sys
from itertools import accumulate
from pathlib import Path

EVENTS = 50_000
USERS = 4_000
FIRST_DAY = datetime.date(2024, 1, 1)
DAYS = 60
FOLDER = Path(".lakeconf", "events")
COLUMNS = ["event_id", "user_id", "event_type", "event_timestamp", "country", "revenue"]

EVENT_TYPES = {"page_view": 62, "search": 14, "add_to_cart": 11, "remove_from_cart": 3, "checkout": 6, "purchase": 4}
COUNTRIES = {"DE": 34, "FR": 21, "NL": 14, "IT": 12, "ES": 10, "PL": 9}
# By hour, starting at midnight: few events at night, most in the evening.
HOURS = [6, 4, 3, 2, 2, 3, 8, 15, 24, 32, 38, 41, 44, 42, 40, 39, 41, 47, 58, 70, 78, 66, 40, 17]
WEEKDAYS = [10, 10, 10, 11, 13, 17, 16]
WITHOUT_ID = 0.006


def events() -> list[list[object]]:
    """All rows, in chronological order."""
    chance = random.Random(20240101)
    days = [FIRST_DAY + datetime.timedelta(days=number) for number in range(DAYS)]
    day_weights = list(accumulate(WEEKDAYS[day.weekday()] for day in days))
    user_weights = list(accumulate(1 / rank**0.75 for rank in range(1, USERS + 1)))  # few users are very active
    rows: list[list[object]] = []
    for _ in range(EVENTS):
        (day,) = chance.choices(days, cum_weights=day_weights)
        (hour,) = chance.choices(range(24), HOURS)
        time = datetime.time(hour, chance.randrange(60), chance.randrange(60), chance.randrange(1000) * 1000)
        (user,) = chance.choices(range(1, USERS + 1), cum_weights=user_weights)
        (event_type,) = chance.choices(list(EVENT_TYPES), list(EVENT_TYPES.values()))
        (country,) = chance.choices(list(COUNTRIES), list(COUNTRIES.values()))
        identity = f"{chance.getrandbits(64):016x}"
        revenue = f"{min(chance.lognormvariate(3.6, 0.8), 4999):.2f}" if event_type == "purchase" else ""
        lost = chance.random() < WITHOUT_ID  # some trackers lose the id
        moment = datetime.datetime.combine(day, time)
        rows.append(
            ["" if lost else identity, user, event_type, moment.isoformat(" ", "milliseconds"), country, revenue]
        )
    return sorted(rows, key=lambda row: str(row[3]))


def write(folder: Path) -> list[Path]:
    """Writes the events, one file per month.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    months: dict[str, list[list[object]]] = {}
    for row in events():
        months.setdefault(str(row[3])[:7], []).append(row)
    paths = []
    for month, rows in months.items():
        path = folder / f"events-{month}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
        paths.append(path)
    return paths


if __name__ == "__main__":
    for made in write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(f"{made}: {len(made.read_text().splitlines()) - 1:,} events, {made.stat().st_size / 1e6:.1f} MB")
