"""A snapshot holds one page at a time: what it needs does not grow with the object."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest

from sfcdc_assets.emulator.rest import query_job
from sfcdc_assets.snapshot import pages
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

PAGE = 150


def peak_bytes(pipeline: EmulatedPipeline) -> tuple[int, int]:
    """The most that Python and that Arrow held while the job `snapshot` ran, the emulated org included."""
    ordinary, measured = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(measured)
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        run = pipeline.launch("snapshot", "Contact")
        assert run.success, pipeline.failure(run)
        return tracemalloc.get_traced_memory()[1] - before, measured.max_memory() or 0
    finally:
        pa.set_memory_pool(ordinary)


def pages_of(pipeline: EmulatedPipeline) -> int:
    return sum(1 for _ in pipeline.warehouse.glob("snapshot/Contact/_snapshot=[0-9]*/*.parquet"))


def test_memory_does_not_grow_with_the_object(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS_PER_PAGE", PAGE)
    monkeypatch.setattr(pages, "FEWEST_ROWS_PER_PAGE", PAGE)
    monkeypatch.setattr(query_job, "_BLOCK", PAGE)  # the emulated org, in this process, works on so many rows at a time
    pipeline = make_pipeline("Contact", records=0)
    pipeline.instance.add_dynamic_partitions("salesforce_entity", ["Contact"])
    tracemalloc.start()
    try:
        pipeline.org.populate({"Contact": 5 * PAGE})
        peak_bytes(pipeline)  # imports and caches of the first time
        python_of_few, arrow_of_few = peak_bytes(pipeline)
        few = pages_of(pipeline) // 2
        pipeline.org.populate({"Contact": 15 * PAGE}, seed=2)
        python_of_many, arrow_of_many = peak_bytes(pipeline)
        many = pages_of(pipeline) - 2 * few
    finally:
        tracemalloc.stop()
    print(f"peak bytes of Python {python_of_few:,} and {python_of_many:,}, of Arrow {arrow_of_few:,} {arrow_of_many:,}")
    assert (few, many) == (5, 20)
    assert python_of_many < 1.3 * python_of_few
    assert arrow_of_many < 1.3 * arrow_of_few
