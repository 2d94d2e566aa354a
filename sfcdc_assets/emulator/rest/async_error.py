"""Errors of the first version of the Bulk API, which have codes and a form of their own."""

from __future__ import annotations

from sfcdc_assets.emulator.errors import ApiError


class AsyncError(ApiError):
    """`exceptionCode` and `exceptionMessage`
    (https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/api_asynch/asynch_api_reference_errors.htm)."""
