"""All maintenance steps of a lake, in order; either planned or executed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakeconf.lake.compaction import TableCompaction
from lakeconf.lake.lake import Lake
from lakeconf.lake.maintenance import CompactionResult
from lakeconf.logs import escaped
from lakeconf.wording import byte_size, counted


@dataclass(frozen=True)
class MaintenanceResult:
    """A maintenance plan, or the result of its execution."""

    dry_run: bool  # True for a plan, False for a result
    expired: tuple[int, ...]  # the versions of expired snapshots
    removed: tuple[str, ...]  # the paths of removed files
    compaction: tuple[TableCompaction, ...] = ()  # the tables that the compaction would change; empty in a result
    compacted: CompactionResult | None = None  # files and bytes before and after the compaction; None in a plan
    more_removed: bool = False  # True if the run would also remove files that become unneeded during the run itself
    skipped: str | None = None  # the reason why files of crashed writers are not searched for; None if they are
    unknown: tuple[str, ...] = ()  # those of the removed files that the catalog does not know

    @property
    def changes(self) -> bool:
        """True if there is anything to do."""
        return bool(self.compaction or self.expired or self.removed or self.compacted)

    def __str__(self) -> str:
        lines = [f"compact   {escaped(str(compaction))}" for compaction in self.compaction]
        if self.compacted is not None:
            done = self.compacted
            lines.append(
                f"compact   the lake had {done.files_before:,} files ({byte_size(done.bytes_before)}), and has "
                f"{done.files_after:,} ({byte_size(done.bytes_after)})"
            )
            if not done.complete:
                lines.append("          the deadline ended it early: the next run continues")
        elif not lines:
            lines.append("compact   nothing to merge, rewrite or flush")
        verb = "would be " if self.dry_run else ""
        lines.append(f"expire    {counted(len(self.expired), 'snapshot')} {verb}expired{_range(self.expired)}")
        more = ", plus files that this run makes obsolete" if self.more_removed else ""
        lines.append(f"clean up  {counted(len(self.removed), 'file')} {verb}removed{more}")
        if self.dry_run:
            lines += [f"          {escaped(path)}" for path in self.removed]
        if self.dry_run and self.unknown:
            lines.append(
                f"          the catalog does not know {counted(len(self.unknown), 'file')}: killed writes leave such "
                "files; or, if the catalog was restored from a backup, they have rows of later commits "
                "(docs/operations.md: Back up)"
            )
        if self.skipped is not None:
            lines.append(f"          not searching for files of crashed writers: {self.skipped}")
        return "\n".join(lines)


def maintain(
    lake: Lake,
    *,
    expire_older_than: timedelta,
    cleanup_older_than: timedelta,
    keep: int = 1,
    dry_run: bool = False,
    force: bool = False,
) -> MaintenanceResult:
    """Compacts a lake, expires old snapshots, and removes files that are no longer needed."""
    removal = lake.maintenance.plan_cleanup(older_than=cleanup_older_than, force=force)
    expired = lake.maintenance.expire_snapshots(older_than=expire_older_than, keep=keep, dry_run=True, force=force)
    plan: tuple[TableCompaction, ...] = ()
    compacted, removed, gives_up = None, removal.paths, False
    if dry_run:
        plan = tuple(lake.maintenance.plan_compaction())
        gives_up = cleanup_older_than <= timedelta(0) and bool(plan or expired)
    else:
        compacted = lake.maintenance.compact()
        expired = lake.maintenance.expire_snapshots(older_than=expire_older_than, keep=keep, force=force)
        removed = lake.maintenance.cleanup(older_than=cleanup_older_than, force=force)
    return MaintenanceResult(
        dry_run, tuple(expired), tuple(removed), plan, compacted, gives_up, removal.skipped, removal.orphans
    )


def _range(versions: tuple[int, ...]) -> str:
    return f" (versions {versions[0]} to {versions[-1]})" if len(versions) > 1 else ""
