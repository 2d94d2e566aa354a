"""The rules that the protocol keeps. Each can be left out of the model, which is a mutant of it: some guarantee has to
fail then, or the model proves nothing of the rule."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """One rule; its text says what a program without it does."""

    ONE_COMMIT = "the resume point is moved first, and the events are landed in a commit of their own"
    BEFORE_OPEN_GROUP = "the stream is resumed after its last event, though more may come with the same replay id"
    OPEN_GROUP_IS_KNOWN = "events of an open replay id that come again are landed again"
    REDELIVERED_ARE_KNOWN = "events that come again after a lost checkpoint are landed again"
    SILENCE_PROVES_NOTHING = "a transaction counts as complete when nothing comes for a moment"
    LANDING_IS_REFUSED = "events are landed although somebody has landed others since"
    NO_JUMP_TO_LATEST = "a resume point that is refused is given up for the stream's latest event"
    SUSPECT_BEFORE_BREAK = "the channel's order is broken before its entities are suspect"
    BLOCKED_BY_SUSPECT = "an entity whose checkpoint was lost counts as up to date"
    APPLY_COMPLETE = "events are applied before their transaction is complete"
    STATE_COMMITS_LAST = "current_state is committed before history"
    NOTED_BEFORE_MARKED = "a record is marked as suspect before the reconciliation ledger has it"
    WRITERS_ARE_FENCED = "what another writer left is removed although that one may still be at work"
    LEFTOVERS_ARE_REMOVED = "what another writer left stays"
    BATCH_IS_REFUSED = "a batch is committed although somebody has committed another since"
    NOT_EVERY_READ = "a row that is older than its record's last event is believed"
    WATERMARK_FIRST = "the watermark is noted after the read"
    READ_STANDS_AT_WATERMARK = "a read counts as of when it is applied"
    GOES_BACK = "a copy is put in the place of rows that are newer than its watermark"
    CUT_STANDS = "a cut names tables wherever they stand"
    CUT_WAITS_FOR_ROWS_AHEAD = "a cut has rows that were read later than the stream was landed"
    TOKEN_IS_A_BATCH = "a consumer's token is a position"
    GONE_BACK_IS_KEPT = "what was there before a batch went back is forgotten"
