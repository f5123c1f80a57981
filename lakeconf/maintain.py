"""Everything that keeps a lake in order, in its order: first as a plan, then done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakeconf.lake import Lake
from lakeconf.upkeep import Upkeep


@dataclass(frozen=True)
class Maintenance:
    """What upkeep would do, or has done.

    Attributes:
        dry_run: True where nothing was done.
        compacted: Files and bytes before and after the compaction; None where it was not done.
        expired: The versions of the snapshots that go.
        removed: The paths of the files that go.
    """

    dry_run: bool
    compacted: Upkeep | None
    expired: tuple[int, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        lines = []
        if self.compacted is not None:
            done = self.compacted
            lines.append(
                f"compact   {done.files_before:,} files ({_size(done.bytes_before)}) became "
                f"{done.files_after:,} ({_size(done.bytes_after)})"
            )
        verb = "would be " if self.dry_run else ""
        lines.append(f"expire    {_count(self.expired, 'snapshot')} {verb}forgotten{_range(self.expired)}")
        lines.append(f"clean up  {_count(self.removed, 'file')} {verb}removed")
        return "\n".join(lines)


def maintain(
    lake: Lake,
    *,
    expire_older_than: timedelta,
    cleanup_older_than: timedelta,
    keep: int = 1,
    dry_run: bool = False,
    force: bool = False,
) -> Maintenance:
    """Compacts a lake, forgets old snapshots, and removes the files that nobody needs any more.

    Args:
        lake: The lake.
        expire_older_than: The age from which snapshots are forgotten.
        cleanup_older_than: The age from which files that were given up are removed: longer than the longest job.
        keep: How many of the newest snapshots stay in any case.
        dry_run: True to change nothing. What the compaction would do is not known then, and the files that only
            expired snapshots need are not among those that would be removed.
        force: True to accept ages of less than a day, if nobody else uses the lake.

    Returns:
        What was done, or would be.

    Raises:
        LakeconfError: The lake is read-only.
        CommitError: The catalog stayed locked.
    """
    compacted = None if dry_run else lake.compact()
    expired = lake.expire_snapshots(older_than=expire_older_than, keep=keep, dry_run=dry_run, force=force)
    removed = lake.cleanup(older_than=cleanup_older_than, dry_run=dry_run, force=force)
    return Maintenance(dry_run, compacted, tuple(expired), tuple(removed))


def _count(items: tuple[object, ...], name: str) -> str:
    return f"{len(items):,} {name}{'' if len(items) == 1 else 's'}"


def _range(versions: tuple[int, ...]) -> str:
    return f" (versions {versions[0]} to {versions[-1]})" if len(versions) > 1 else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
