"""Says which tables need maintenance, and what it would do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from lakeconf.catalog.history import LakeSize
from lakeconf.catalog.table_name import joined_name
from lakeconf.counted import counted
from lakeconf.lake.compaction import SmallFiles, TableCompaction, merges
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance_plan import MaintenanceResult, maintain

# The default ages of `lakeconf maintain`.
_EXPIRE, _CLEAN_UP = timedelta(days=30), timedelta(days=2)


@dataclass(frozen=True)
class TableAdvice:
    """A table that a compaction would change.

    Attributes:
        plan: What the compaction would do.
        becomes: The number of files into which its small files would be merged, about; 0 if it has none to merge.
    """

    plan: TableCompaction
    becomes: int

    @property
    def steps(self) -> list[str]:
        """What would be done, in words."""
        one = self.plan
        steps = (
            (one.merged_files, f"merge {counted(one.merged_files, 'small file')} into about {self.becomes:,}"),
            (one.rewritten_files, f"rewrite {counted(one.rewritten_files, 'file')} with deleted rows"),
            (one.flushed_rows, f"write {counted(one.flushed_rows, 'row')} of the catalog to files"),
        )
        return [text for count, text in steps if count]


@dataclass(frozen=True)
class Day:
    """What a day added to a lake.

    Attributes:
        day: The day, in UTC.
        snapshots: The number of its snapshots that have not expired.
        bytes: The size of the data files at its end.
        files: The number of data files at its end.
        added_bytes: The difference of the size to the end of the day before; None if that has expired.
        added_files: The same of the number of files.
    """

    day: date
    snapshots: int
    bytes: int
    files: int
    added_bytes: int | None
    added_files: int | None


def planned_maintenance(lake: Lake) -> MaintenanceResult:
    """Returns the plan of `lakeconf maintain` with its default ages.

    Raises:
        LakeconfError: The lake is read-only.
        CatalogError: Files to remove do not provably belong to this lake.
    """
    return maintain(lake, expire_older_than=_EXPIRE, cleanup_older_than=_CLEAN_UP, dry_run=True)


def advice(lake: Lake, plan: Sequence[TableCompaction]) -> list[TableAdvice]:
    """Returns the tables that a compaction would change, those with most files to save first.

    Args:
        lake: The lake.
        plan: What the compaction would do.
    """
    small = {joined_name(one.schema, one.name): one for one in merges(lake._session.reader).small}  # noqa: SLF001 - no public method estimates it
    found = [TableAdvice(one, _becomes(one, small)) for one in plan]
    return sorted(found, key=lambda one: (one.becomes - one.plan.merged_files, one.plan.table))


def daily_growth(growth: Sequence[LakeSize]) -> list[Day]:
    """Returns the days on which a lake changed, oldest first.

    Args:
        growth: The size at each snapshot, oldest first.
    """
    found: list[Day] = []
    by_day: dict[date, list[LakeSize]] = {}
    for one in growth:
        by_day.setdefault(one.time.date(), []).append(one)
    # Snapshot 0 is the empty lake. If it has expired, nobody knows what the first day began with.
    before = (0, 0) if growth and growth[0].snapshot_id == 0 else None
    for day, sizes in sorted(by_day.items()):
        last = sizes[-1]
        added = (None, None) if before is None else (last.bytes - before[0], last.files - before[1])
        found.append(Day(day, len(sizes), last.bytes, last.files, *added))
        before = last.bytes, last.files
    return found


def _becomes(plan: TableCompaction, small: Mapping[str, SmallFiles]) -> int:
    found = small.get(plan.table)
    if found is None or not plan.merged_files:
        return 0
    # Files of one partition are merged with each other, up to the target size.
    return max(found.groups, -(-sum(found.sizes) // max(found.target, 1)))
