"""The account of speculative decoding against what the server counted and what was measured."""

from __future__ import annotations

import pytest

from rpcwire.compare import compare
from rpcwire.findings.speculation import speculation
from tests.bundled import told
from tests.findings.lab import diagnosed, path


@pytest.mark.parametrize("name", ["v7.0-qwen35-mtp", "v7.0-mtp-partial"])
def test_acceptance_is_what_the_server_counted(name: str) -> None:
    account = diagnosed(name).speculation
    assert account is not None
    requests = told(name)["requests"]
    drafted = sum(r["draft_n"] for r in requests)
    accepted = sum(r["draft_n_accepted"] for r in requests)
    assert account.acceptance == pytest.approx(accepted / drafted, abs=0.03)
    assert account.drafts_per_round * account.rounds == pytest.approx(drafted)


def test_a_run_without_drafts_has_no_account() -> None:
    assert diagnosed("v7.0-qwen35-plain").speculation is None
    assert diagnosed("version-mismatch").speculation is None


@pytest.mark.parametrize("name", ["v7.0-qwen35-mtp", "mtp-accepted", "mtp-two-workers"])
def test_figures_agree_with_one_another(name: str) -> None:
    account = diagnosed(name).speculation
    token_ms = diagnosed(name).token_ms
    assert account is not None
    assert token_ms is not None
    assert account.tokens_per_round == pytest.approx(
        1 + account.acceptance * account.drafts_per_round, rel=0.01
    )
    even = account.plain_ms * (1 + account.break_even_acceptance * account.drafts_per_round)
    assert even == pytest.approx(account.round_ms)
    assert (account.speedup > 1) == (account.tokens_per_round > account.break_even_tokens)
    assert account.speedup == pytest.approx(
        account.plain_ms * account.tokens_per_round / account.round_ms
    )
    times = [c.ms for c in account.causes]
    assert times == sorted(times, reverse=True)
    assert len(times) >= 3


def test_a_model_of_a_plain_token_is_near_a_measured_one() -> None:
    account = diagnosed("v7.0-qwen35-mtp").speculation
    plain = diagnosed("v7.0-qwen35-plain").token_ms
    assert account is not None
    assert plain is not None
    assert account.plain_source == "modelled"
    # It takes the time of a verify pass, of four rows, for that of one: an upper bound.
    assert plain < account.plain_ms < 1.6 * plain


def test_the_other_run_gives_the_plain_token_where_there_is_one() -> None:
    found = compare(path("v7.0-qwen35-plain"), path("v7.0-qwen35-mtp"))
    account = found.b.speculation
    assert account is not None
    assert account.plain_ms == found.a.ms
    assert account.speedup < 0.5
    assert "Not worth it" in account.verdict


def test_drafts_that_are_all_kept_pay_with_a_short_round() -> None:
    facts = diagnosed("mtp-accepted").facts
    account = speculation(facts, plain_ms=100.0)
    assert account is not None
    assert account.speedup > 1
    assert account.verdict.startswith("Worth it")


def test_workers_before_the_last_one_reuse_their_graphs() -> None:
    """Only the device that target and head share resends: what the remedy of graph-resent says."""
    one = {f.id: f for f in diagnosed("v7.0-qwen35-mtp").findings}["graph-resent"]
    two = {f.id: f for f in diagnosed("mtp-two-workers").findings}["graph-resent"]
    assert two.cost.bytes_per_token < one.cost.bytes_per_token / 2
