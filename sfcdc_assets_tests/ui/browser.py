"""The headless browser of the tests, and where the pictures of the docs go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from sfcdc_assets_tests.documentation import ROOT

SCREENSHOTS = bool(os.environ.get("SCREENSHOTS"))
PATIENCE_MS = 120_000
"""Of every expectation and action that names no time of its own; Playwright's own is 5 s."""
_IMAGES = ROOT / "docs" / "images"
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

without_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH to look with")


@contextmanager
def opened_page(profile: Path, width: int, height: int, **options: Any) -> Iterator[Page]:
    """A page of a browser with a profile of its own; `options` are those of a Playwright context."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=shutil.which("chromium"),
            headless=True,
            args=_FLAGS,
            viewport={"width": width, "height": height},
            **options,
        )
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        try:
            yield context.pages[0]
        finally:
            context.close()


def image(name: str) -> Path:
    """Where a picture of the docs goes."""
    _IMAGES.mkdir(parents=True, exist_ok=True)
    return _IMAGES / name
