"""The folder SFCDC_PUSH_TOPICS: one TOML file a topic, with the fields of its record under their API names.

TOML, because Python reads it without a further package, and a query may span lines in it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from sfcdc_assets.event_channels.push_topics.definition import PushTopic
from sfcdc_assets.event_channels.push_topics.errors import TopicFileError, TopicNotSupported

SUFFIX = ".toml"


def read_definitions(folder: Path) -> dict[Path, PushTopic]:
    """File -> topic, in the order of the files' names; nothing when there is no such folder. Raises `TopicFileError`
    naming file and field."""
    found: dict[Path, PushTopic] = {}
    owners: dict[str, Path] = {}
    for file in _files(folder):
        topic = read_definition(file)
        other = owners.setdefault(topic.name.lower(), file)
        if other != file:
            problem = f"DUPLICATE_VALUE, {topic.name} is defined in {other} too, and names may not vary only by case"
            raise TopicFileError(str(file), "Name", problem, "Rename one of them, or delete its file")
        found[file] = topic
    return found


def read_definition(file: Path) -> PushTopic:
    """Return the topic of one file. Raises `TopicFileError`."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise TopicFileError(str(file), None, problem, "Correct its permissions") from error
    except (ValueError, RecursionError) as error:  # `tomllib` has these for endless numbers and lists
        raise TopicFileError(str(file), None, f"is not TOML ({error})", 'Write fields as Name = "value"') from error
    try:
        return PushTopic.of(values)
    except TopicNotSupported as error:
        raise error.in_file(str(file)) from error


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(file for file in folder.iterdir() if file.suffix == SUFFIX and not file.name.startswith("."))
