"""What one record holds stops neither its entity nor its channel."""

from __future__ import annotations

from sfcdc_assets.streams.cometd import subscription
from sfcdc_assets_tests.pipeline.emulated_pipeline import ids
from sfcdc_assets_tests.pipeline.story import story


def test_half_a_surrogate_pair_over_cometd_is_a_replacement_character_and_the_rest_goes_on(tmp_path, monkeypatch):
    written = subscription._in_order
    monkeypatch.setattr(subscription, "_in_order", lambda body: written(body).replace(b"HALF", b"\xed\xa0\xbd"))
    with story(tmp_path / "org", ("Account", "Contact")) as pipeline:
        monkeypatch.setenv("SFCDC_TRANSPORT", "cometd")
        pipeline.sync()
        first, second = ids(pipeline.org, "Account")[:2]
        for record_id, site in ((first, "cut HALF"), (second, "plain")):
            with pipeline.org.transaction() as work:
                work.update("Account", record_id, {"Site": site})
        pipeline.sync()
        rows = {row["Id"]: row for row in pipeline.scan("current_state/Account")}
        assert rows[second]["Site"] == "plain"
        assert rows[first]["Site"] == "cut \ufffd"
        assert not rows[first]["_in_doubt"]
