"""A zipped body is what requests makes of it, however it is cut into pieces."""

from __future__ import annotations

import gzip
import io

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from urllib3 import HTTPResponse

from sfcdc_assets.salesforce.gzip_body import body_of

PIECE = 7


def answer(body: bytes, encoding: str = "gzip") -> requests.Response:
    headers = {"Content-Encoding": encoding} if encoding else {}
    response = requests.Response()
    response.raw = HTTPResponse(io.BytesIO(body), headers=headers, preload_content=False)
    response.headers.update(headers)
    return response


@given(texts=st.lists(st.binary(max_size=300), max_size=3), after=st.binary(max_size=9), size=st.integers(1, 400))
def test_a_body_is_what_requests_makes_of_it(texts: list[bytes], after: bytes, size: int) -> None:
    """Of any number of members, with anything after them."""
    zipped = b"".join(map(gzip.compress, texts)) + (after if texts and not after.startswith(b"\x1f") else b"")
    expected = b"".join(texts)
    assert b"".join(answer(zipped).iter_content(size)) == expected
    assert b"".join(body_of(answer(zipped), size)) == expected


@given(text=st.binary(max_size=300))
def test_a_body_that_is_not_zipped_is_as_it_was_sent(text: bytes) -> None:
    assert b"".join(body_of(answer(text, ""), PIECE)) == text


@given(text=st.binary(min_size=1, max_size=300), data=st.data())
def test_a_zipped_body_that_breaks_off_is_an_answer_that_broke(text: bytes, data: st.DataObject) -> None:
    zipped = gzip.compress(text)
    cut = data.draw(st.integers(1, len(zipped) - 1))
    with pytest.raises(requests.exceptions.ChunkedEncodingError, match="ends within"):
        b"".join(body_of(answer(zipped[:cut]), PIECE))


def test_bytes_that_are_no_zipped_body_are_refused() -> None:
    with pytest.raises(requests.exceptions.ContentDecodingError):
        b"".join(body_of(answer(b"Id,Name\n001,Acme\n"), PIECE))
