"""Post what has changed in an entity to a webhook: `python webhook.py WAREHOUSE ENTITY URL TOKEN_FILE`, from cron.

The token is written after the receiver has taken everything, so a call that fails is made again: give the receiver the
`Id` and `_position` to recognise what it has. For Kafka, send each row in the place of the request (see the docs).
"""

from __future__ import annotations

import sys
from pathlib import Path

import requests

from sfcdc_assets import changes_since

ROWS_A_REQUEST = 500


def post(warehouse: str, entity: str, url: str, token_file: Path) -> int:
    """Post the changes; returns how many there were."""
    token = token_file.read_text().strip() if token_file.exists() else None
    told, after = changes_since(warehouse, entity, token, versions=token is not None)
    for start in range(0, told.num_rows, ROWS_A_REQUEST):
        rows = told.slice(start, ROWS_A_REQUEST).to_pylist()
        answer = requests.post(url, json={"entity": entity, "changes": _as_json(rows)}, timeout=30)
        answer.raise_for_status()
    token_file.write_text(after)
    return told.num_rows


def _as_json(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return rows with times and dates as ISO 8601."""
    return [{name: _value(value) for name, value in row.items()} for row in rows]


def _value(value: object) -> object:
    if isinstance(value, dict):
        return {name: _value(each) for name, each in value.items()}
    return value.isoformat() if hasattr(value, "isoformat") else value


if __name__ == "__main__":
    print(post(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
