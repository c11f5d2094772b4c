"""The base class of every part of an environment file, and the value types that several parts use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from settings.model import patterns


class Part(BaseModel):
    """A part of an environment file. Immutable once parsed; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


Name = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=40)]
"""Lower-case letters, digits and hyphens, starting with a letter; two characters or more."""

QueueName = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=25)]
"""Name of a queue, compute resource or login pool: ParallelCluster allows at most 25 characters."""

StorageName = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=30)]
"""Name of a file system: ParallelCluster allows at most 30 characters."""

ClusterName = Annotated[str, StringConstraints(pattern=patterns.NAME, max_length=60)]
"""Name of a cluster: ParallelCluster allows at most 60 characters."""

Account = Annotated[str, StringConstraints(pattern=patterns.ACCOUNT)]
Region = Annotated[str, StringConstraints(pattern=patterns.REGION)]

MountPath = Annotated[str, StringConstraints(pattern=patterns.MOUNT_PATH, max_length=200)]
"""An absolute path without a trailing slash."""

FileSystemPath = Annotated[str, StringConstraints(pattern=patterns.FILE_SYSTEM_PATH, max_length=200)]
"""A path inside a file system: `/` or an absolute path without a trailing slash."""

WeeklyTime = Annotated[str, StringConstraints(pattern=patterns.WEEKLY_TIME)]
"""A weekly start time in UTC in FSx's format: day:HH:MM, Monday is 1."""

DailyTime = Annotated[str, StringConstraints(pattern=patterns.DAILY_TIME)]
"""A daily start time in UTC: HH:MM."""

LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365]
"""Retention periods that CloudWatch Logs and ParallelCluster both accept."""
