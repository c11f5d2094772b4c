"""What every part of an environment file shares: frozen, no unknown keys, and the small value types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from settings.model import patterns


class NotSoundError(AttributeError):
    """A field was asked for that did not validate. Only the faults of a file are worked out on such a model."""


class Part(BaseModel):
    """A part of an environment file. Immutable once parsed; a key that it does not know is a fault."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name in type(self).model_fields:
                raise NotSoundError(name)
            return super().__getattr__(name)


Name = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=40)]
"""A name: lower-case letters, digits and hyphens, starting with a letter, two characters or more."""

QueueName = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=25)]
"""A name of a queue, compute resource or pool: ParallelCluster takes at most 25 characters."""

StorageName = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=30)]
"""A name of a file system: ParallelCluster takes at most 30 characters."""

ClusterName = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=60)]
"""A cluster's name: ParallelCluster takes at most 60 characters."""

MountPath = Annotated[str, StringConstraints(pattern=patterns.MOUNT_PATH, max_length=200)]
"""An absolute path without a slash at the end."""

FileSystemPath = Annotated[str, StringConstraints(pattern=patterns.FILE_SYSTEM_PATH, max_length=200)]
"""A path inside a file system: `/` or an absolute path without a slash at the end."""

WeeklyTime = Annotated[str, StringConstraints(pattern=patterns.WEEKLY_TIME)]
"""A weekly start time in UTC as FSx writes it: day:HH:MM, Monday is 1."""

DailyTime = Annotated[str, StringConstraints(pattern=patterns.DAILY_TIME)]
"""A daily start time in UTC: HH:MM."""
