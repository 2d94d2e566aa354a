"""20,000 events that carry the difference of a text of 20 KB, beside as many that carry the text whole."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from sfcdc_assets.emulator.events.text_difference import text_difference
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.benchmarks.against_merge import session
from sfcdc_assets_tests.benchmarks.field_kinds import Diff, Kind
from sfcdc_assets_tests.benchmarks.interleave import interleaved, wall_seconds
from sfcdc_assets_tests.benchmarks.large_entity import ENTITY, Change, LargeEntity, record_id
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

BODY = "Body__c"
LINES, TEMPLATES, EDITS = 250, 200, 3
ROUNDS = 2


class TextEntity(LargeEntity):
    """An entity with a large text."""

    events_a_commit = 2_000

    def __init__(self, *arguments: object) -> None:
        dice = np.random.default_rng(13)
        words = np.array([f"{word:x}" for word in dice.integers(16**5, 16**7, 5_000)])
        self._templates = [
            [" ".join(line) for line in words[dice.integers(0, len(words), (LINES, 10))]] for _ in range(TEMPLATES)
        ]
        super().__init__(*arguments)  # type: ignore[arg-type]

    def text(self, number: int, rounds: int) -> str:
        """The text of the record after so many rounds, in each of which some of its lines are edited."""
        lines = list(self._templates[number % TEMPLATES])
        for each in range(1, rounds + 1):
            for edit in range(EDITS):
                lines[(number * 31 + each * 7 + edit * 83) % LINES] = f"edited in record {number}, {each}, {edit}"
        return "\n".join(lines)

    def whole(self, rounds: int) -> list[Change]:
        """Every record's text, whole."""
        return [(number, {BODY: self.text(number, rounds)}) for number in range(self.rows)]

    def differences(self, rounds: int) -> list[Change]:
        """What every record's text differs in from the one before."""
        found: list[Change] = []
        for number in range(self.rows):
            difference = text_difference(self.text(number, rounds - 1), self.text(number, rounds))
            assert difference is not None
            found.append((number, {BODY: Diff(difference)}))
        return found

    def check_texts(self, rounds: int) -> None:
        """Raises `WrongAnswer` where a row, a version or a proven text is not what the events say."""
        numbers = range(self.rows)
        by_id = pl.DataFrame({"Id": [record_id(number) for number in numbers]})
        now = by_id.with_columns(pl.Series(BODY, [self.text(number, rounds) for number in numbers]).hash().alias("is"))
        was = by_id.with_columns(pl.Series(BODY, [self.text(n, rounds - 1) for n in numbers]).hash().alias("is"))
        kept = pl.scan_parquet(DeltaTable(self.warehouse.uri(f"text_fields/{ENTITY}")).file_uris())
        newest = kept.sort("position").group_by("record_id").agg(pl.col("value").last()).rename({"record_id": "Id"})
        ended = self.superseded().sort("_valid_to").group_by("Id").agg(pl.col(BODY).last())
        compared = {
            "current rows": (self.current_rows().select("Id", BODY), now),
            "texts": (newest.select("Id", pl.col("value").alias(BODY)), now),
            "ended versions": (ended, was),
        }
        for name, (found, expected) in compared.items():
            hashes = found.select("Id", pl.col(BODY).hash().alias("is")).collect().sort("Id")
            if not hashes.equals(expected.sort("Id")):
                raise WrongAnswer(f"{name} of {self.warehouse.root} differ from what the events say")

    def _kinds_of(self, fields: int) -> dict[str, Kind]:
        return {BODY: Kind("textarea", "string", "StringPlusClob", 0), **super()._kinds_of(fields)}

    def _rows_of(self, size: int) -> int:
        return size // 7_500

    def _rows(self, template: pa.Table, start: int, count: int) -> pa.Table:
        rows = super()._rows(template, start, count)
        texts = pa.array([self.text(number, 0) for number in range(start, start + count)])
        return rows.set_column(rows.column_names.index(BODY), rows.schema.field(BODY), texts)


def measure(quick: bool) -> Sequence[Figure]:
    """Two entities with the same texts; in each round all of them change in the same way."""
    rows = 200 if quick else 20_000
    done = {"differences": 0, "whole": 0}
    with session() as spark, TemporaryDirectory(prefix="benchmark.") as folder:
        entities = {name: TextEntity(Warehouse(f"{folder}/{name}"), spark, rows, 4) for name in done}

        def trial(name: str) -> float:
            of = entities[name]
            done[name] += 1
            of.land(getattr(of, name)(done[name]))
            seconds = wall_seconds(of.apply)()
            of.check_texts(done[name])
            of.clean()
            return seconds

        rounds = {name: (lambda name=name: trial(name)) for name in done}  # type: ignore[misc]
        seconds = interleaved(rounds, rounds=1 if quick else ROUNDS)
    case = f"{rows:,} differences of texts of 20 KB"
    return [Figure(case, "s", seconds["differences"], {"whole texts": seconds["whole"]}, Goal(2.0, of="whole texts"))]


STAGE = Stage(
    "Apply differences of large texts",
    measure,
    "The text of every row, of every version that ended and of every proven value, with the text that was edited.",
    "Compressing each text three times: the row, the version that ended, and the proven value.",
)
