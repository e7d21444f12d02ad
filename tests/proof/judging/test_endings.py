"""How a run ended: the rank that stopped, where, and what made it stop."""

from __future__ import annotations

from shardfix.proof.judging.endings import RunVerdict, came_to_its_end, judge_run
from shardfix.proof.model import Proof
from shardfix.proof.observed import Built, Ending, Observed, Pass, Reader, Watched

LOADER = "train.py:41"
VALUE_ERROR = 'Traceback (most recent call last):\n  File "train.py", line 60, in <module>\nValueError: bad batch'
GLOO = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"


def loader(*steps: int, complete: tuple[bool, ...] = (), name: str = LOADER, **built: object) -> Observed:
    """A loader of which each rank read some steps in one pass."""
    whole = complete or (True,) * len(steps)
    readers = tuple(
        Reader(
            rank, Built(**built), (Pass(tuple((step,) for step in range(count)), whole[rank]),) if count >= 0 else ()
        )
        for rank, count in enumerate(steps)
    )
    return Observed(name, len(steps), readers)


def run(
    *endings: Ending, loaders: tuple[Observed, ...] = (loader(3, 3),), proofs: tuple[Proof, ...] = ()
) -> RunVerdict:
    return judge_run(Watched(len(endings), loaders, endings, 1.5), proofs)


def test_a_run_in_which_every_rank_returns_ended_well() -> None:
    verdict = run(Ending(0, "returned"), Ending(1, "exit", code=0))
    assert (verdict.verdict, verdict.cause, verdict.reasons) == ("proven", "", ("every rank came to its end",))
    assert (verdict.world, verdict.seconds) == (2, 1.5)
    assert came_to_its_end(verdict.endings)
    stopped = run(Ending(0, "stopped"), Ending(1, "stopped"))
    assert stopped.reasons == ("the run was stopped after what was asked for; no rank failed",)
    assert not came_to_its_end(stopped.endings)
    assert not came_to_its_end(())


def test_a_run_without_a_loader_is_told() -> None:
    verdict = run(Ending(0, "returned"), Ending(1, "returned"), loaders=())
    assert (verdict.verdict, verdict.cause) == ("unproven", "no-loader")


def test_a_rank_that_raises_alone_is_named_with_its_own_traceback_and_not_the_peers_it_left() -> None:
    verdict = run(
        Ending(0, "raised", 1, f"Traceback ..\n{GLOO}", LOADER, 0, 3),
        Ending(1, "raised", 1, VALUE_ERROR, LOADER, 0, 2),
    )
    assert (verdict.verdict, verdict.cause, verdict.rank) == ("refuted", "raises", 1)
    assert (verdict.loader, verdict.passes, verdict.step, verdict.text) == (LOADER, 0, 2, VALUE_ERROR)
    assert verdict.reasons == (
        "rank 1 raises ValueError: bad batch (at train.py:41, pass 0, step 2)",
        "rank 0 lost its peer (at train.py:41, pass 0, step 3)",
    )


def test_what_every_rank_raises_alike_is_not_the_sharding() -> None:
    verdict = run(Ending(0, "raised", 1, VALUE_ERROR), Ending(1, "raised", 1, VALUE_ERROR))
    assert (verdict.verdict, verdict.cause) == ("unproven", "raises")
    assert verdict.reasons == ("every rank raises ValueError: bad batch",)


def test_a_rank_that_dies_comes_before_everything_that_follows_from_it() -> None:
    verdict = run(
        Ending(0, "raised", 1, GLOO, LOADER, 0, 1), Ending(1, "signal", -9, "", LOADER, 0, 1), Ending(2, "hang")
    )
    assert (verdict.verdict, verdict.cause, verdict.rank) == ("refuted", "died", 1)
    assert verdict.reasons == ("rank 1 was ended by SIGKILL (at train.py:41, pass 0, step 1)",)


def test_a_rank_that_leaves_is_told_from_a_script_that_exits() -> None:
    verdict = run(Ending(0, "hang", text='File "train.py", line 9\nbarrier()'), Ending(1, "exit", 3))
    assert (verdict.verdict, verdict.cause, verdict.rank) == ("refuted", "exits", 1)
    assert verdict.reasons == ("rank 1 exits with code 3", "rank 0 waits: barrier()")
    verdict = run(Ending(0, "exit", 2, "usage: train.py"), Ending(1, "exit", 2, "usage: train.py"), loaders=())
    assert (verdict.verdict, verdict.reasons) == ("unproven", ("every rank exits with code 2: usage: train.py",))
    verdict = run(Ending(0, "hang"), Ending(1, "returned"))
    assert (verdict.verdict, verdict.cause, verdict.rank) == ("refuted", "exits", 1)
    assert verdict.reasons[0] == "rank 1 left the program while rank 0 still waits"
    verdict = run(Ending(0, "hang"), Ending(1, "returned", text="exit(0) at train.py:33"))
    assert verdict.reasons[0] == "rank 1 left the program by exit(0) at train.py:33 while rank 0 still waits"


def test_unequal_steps_that_hang_name_the_loader() -> None:
    hung = Ending(0, "hang", text="dist.all_reduce(loss)", loader=LOADER, step=3)
    for other in (Ending(1, "returned"), Ending(1, "hang", text="dist.barrier()")):
        verdict = run(hung, other, loaders=(loader(5, 5, name="eval.py:9"), loader(3, 2, complete=(False, True))))
        assert (verdict.verdict, verdict.cause, verdict.loader, verdict.rank) == ("refuted", "uneven", LOADER, 0)
        assert verdict.reasons[:2] == (
            "hangs at train.py:41: rank 1 has 2 steps, rank 0 makes 3",
            "rank 0 waits (at train.py:41, pass 0, step 3): dist.all_reduce(loss)",
        )


def test_timeouts_of_every_rank_are_a_hang() -> None:
    endings = [Ending(rank, "raised", 1, GLOO, LOADER, 0, 2 + (rank == 0)) for rank in range(2)]
    assert run(*endings, loaders=(loader(3, 2, complete=(False, True)),)).cause == "uneven"
    verdict = run(*endings)
    assert (verdict.cause, verdict.reasons[0]) == ("hang", "hangs: rank 0 and rank 1 wait in vain")


def test_steps_that_were_only_cut_off_are_not_called_uneven() -> None:
    hung = [Ending(rank, "hang", text="all_reduce(x)", loader=LOADER, step=2) for rank in range(2)]
    verdict = run(*hung, loaders=(loader(3, 2, complete=(False, False)),))
    assert verdict.cause == "hang"


def test_a_prepared_loader_that_one_rank_reads_is_what_hangs() -> None:
    hung = (Ending(0, "hang", text="broadcast()", loader=LOADER), Ending(1, "hang", text="barrier()"))
    verdict = run(*hung, loaders=(loader(0, -1, complete=(False, False), sharder="accelerate"),))
    assert (verdict.verdict, verdict.cause) == ("refuted", "part-only")
    assert verdict.reasons[0] == (
        "hangs at train.py:41: rank 0 alone reads a prepared loader, which waits for all ranks"
    )


def test_a_loader_that_was_judged_uneven_is_the_cause_of_a_hang_behind_it() -> None:
    proof = Proof(LOADER, "refuted", ("rank 1 makes 2 steps, rank 0 makes 3: the job would hang",), {}, cause="uneven")
    verdict = run(Ending(0, "hang"), Ending(1, "hang"), proofs=(proof,))
    assert (verdict.cause, verdict.loader) == ("uneven", LOADER)


def test_a_run_whose_time_was_over_says_so_and_is_not_called_well() -> None:
    late = [Ending(rank, "stopped", text="train.py:9\nthe time was over", loader=LOADER, step=7) for rank in range(2)]
    verdict = run(*late)
    assert (verdict.verdict, verdict.cause) == ("unproven", "out-of-time")
    assert verdict.reasons == (
        "the run was stopped because its time was over: rank 0 was still running (at train.py:41, pass 0, step 7)",
    )


def test_a_rank_that_lost_a_peer_which_was_stopped_did_not_fail() -> None:
    gone = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:42101"
    verdict = run(Ending(0, "stopped"), Ending(1, "raised", 1, gone))
    assert (verdict.verdict, verdict.cause) == ("proven", "")
    assert run(Ending(0, "stopped"), Ending(1, "raised", 1, GLOO)).cause == "hang"  # it waited in vain
