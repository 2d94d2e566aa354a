"""Logs as JSON: a line an object, of the same form as those of Dagster with `--log-format json` (structlog's, with
`event`, `level`, `logger` and `timestamp`), so that one collector reads both.

All that is not ASCII is escaped, so no text of an org commands a terminal in them.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

OURS = "sfcdc_assets"


class _JsonHandler(logging.StreamHandler[TextIO]):
    """The one of this module."""


def write_logs_as_json(*, of: str = "", org: str | None = None) -> None:
    """Have the loggers of this name and below it write to standard error so, and nowhere else; "" stands for all.
    Where all do already, nothing changes. `org`: a field of every line, where there are several."""
    if any(isinstance(each, _JsonHandler) for each in logging.getLogger().handlers):
        return
    import structlog  # noqa: PLC0415 - who writes text does not wait for it

    def with_org(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return event if org is None else {**event, "org": org}

    handler = _JsonHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_logger_name,
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.stdlib.ExtraAdder(),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                with_org,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logger = logging.getLogger(of)
    logger.handlers = [handler]
    logger.propagate = not of
