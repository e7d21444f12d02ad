"""Judge loaders that were watched as they are: what each rank read, against what there was to read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from shardfix.proof.model import CONDITIONS, Proof, RankRun, ShardMap
from shardfix.proof.observed import Observed
from shardfix.wording import join, plural

from .causes import root
from .checklist import checklist_of, checklist_of_unread
from .clues import explained
from .faults import (
    ENOUGH,
    Fault,
    Quota,
    Reference,
    order_faults,
    per_rank_batch,
    quota,
    share_faults,
    steps_faults,
    visits,
)
from .glimpses import (
    cut_faults,
    differs_from_run_to_run,
    draws_a_part,
    frozen_by_its_word,
    frozen_stream,
    other_contents,
    own_subsets_fault,
    parts_of_parts,
    shards_of_own_subsets,
    stream_faults,
    worker_copies,
)
from .ledger import Ledger
from .rows import full_batch, named, names_of, reading, who_reads
from .seen import Seen, is_sharded, seen_of

NOT_READ = "it was never read"
_HANGS = ": the job would hang"


def judge_observed(
    observed: Observed, *, role: str = "unknown", padding_removed: bool = False, finished: bool = False
) -> Proof:
    """The verdict on one loader as it was read.

    Args:
        observed: what each rank read, pass by pass.
        role: ``train``, ``eval`` or ``unknown``; padding reaches a metric only in an evaluation.
        padding_removed: the program takes padded samples out of its metric (``gather_for_metrics``, by index).
        finished: the program came to its own end on every rank and nothing was cut, so that unequal steps did not hang
            it and what it read is all that it reads.
    """
    if not reading(observed):
        conditions = dict.fromkeys(CONDITIONS, f"not judged: {NOT_READ}")
        made = sorted(reader.rank for reader in observed.readers)
        told = (f"made by {named(made)} of {observed.world}",) if made else ()
        checks = checklist_of_unread(observed.readers[0].built) if observed.readers else ()
        return Proof(
            observed.loader, "unproven", (NOT_READ,), conditions, cause="never-read", told=told, checklist=checks
        )
    judge = Judge(observed, role=role, padding_removed=padding_removed, finished=finished)
    proof = judge.proof()
    checks = checklist_of(observed, judge.seen, proof, role, padding_removed=padding_removed)
    return replace(proof, checklist=checks)


class Judge:
    """One loader as it is judged: what was seen of it, and what has been found so far."""

    def __init__(self, observed: Observed, *, role: str, padding_removed: bool, finished: bool) -> None:
        self.observed = observed
        self.role = role
        self.padding_removed = padding_removed
        self.finished = finished
        self.seen: Seen = seen_of(observed, role)
        self.ledger = Ledger()
        self.told: list[str] = [who_reads(observed, self.seen.rows), *not_consumed(observed, self.seen)]
        self.padded = 0
        self.shown = self.seen.whole[0] if self.seen.whole else 0  # the pass that the map shows

    def proof(self) -> Proof:
        ledger = self.ledger
        if len(self.seen.rows.rows) == 1 and self.observed.world > 1 and not self.observed.replicas:
            self.judge_sole_reader()
        else:
            self.judge_rows()
        self.judge_alone()
        ledger.not_judged["control"] = "there is no earlier version to compare with"
        ledger.not_judged.setdefault("preserved", "it was not run in one process")
        if self.padded and self.role == "eval" and not self.padding_removed and not ledger.failed:
            text = f"{plural(self.padded, 'padded sample')} of a pass would be counted twice in the metric"
            ledger.leave_open("disjoint", text)
        if self.seen.stream and ledger.failed:
            self.told.append("the items of a stream are numbered in the order in which they were first seen")
        return Proof(
            site=self.observed.loader,
            verdict=ledger.verdict(),
            reasons=tuple(self.with_names(text) for text in self.reasons()),
            conditions={name: self.with_names(text) for name, text in ledger.conditions().items()},
            padded=self.padded,
            map_after=self.shard_map(),
            cause=root(ledger.codes),
            told=tuple(self.told),
        )

    # --- one rank only ---

    def judge_sole_reader(self) -> None:
        """A loader of the main process: right where it reads everything, a part only where it is sharded."""
        seen, ledger = self.seen, self.ledger
        row = seen.rows.rows[0]
        only = f"only {row.name} of {self.observed.world}"
        shards = row.reader.built.shard[0] if row.reader.built.shard else 1
        read = [len(visits(seen.run.ranks[0], number)) for number in seen.whole]
        draws = seen.reference.draws if seen.reference else None
        part = seen.built.sharder == "accelerate" or shards > 1
        if seen.reference and draws and read and not seen.reference.drop_last:
            part = (part or seen.alone is not None) and min(read) < draws
        if part and (seen.whole or shards > 1):
            how = f"{read[0]} of {draws} samples" if read and draws else f"one part of {max(shards, 2)}"
            ledger.judged.update(CONDITIONS[:2])
            ledger.fail("covered", f"{only} reads it, and it is sharded: {row.name} reads {how}", "part-only")
        elif not seen.whole:
            ledger.leave_open("covered", f"{only} came to read it, and not to its end")
        elif self.role == "train":
            ledger.leave_open("covered", f"{only} reads a loader that trains")
        elif seen.built.sharder == "accelerate" or shards > 1:
            ledger.leave_open(
                "covered", f"{only} reads it, and it is sharded: all of it only because there is so little"
            )
        else:
            ledger.not_judged["same steps"] = "one rank reads it"
            ledger.tell("covered", f"{row.name} alone reads everything: a loader of the main process")
            self.judge_shares()
            self.judge_order()

    # --- conditions 1 to 3 ---

    def judge_rows(self) -> None:
        seen, ledger = self.seen, self.ledger
        if seen.rows.differs:
            ledger.fail("disjoint", seen.rows.differs, "replica-differs")
        self.judge_shares()
        if seen.holdings != "same" and not ledger.failed:
            self.judge_holdings()
        if seen.whole and not ledger.failed:
            self.judge_coverage()
        if not seen.whole:
            ledger.leave_open("covered", "no pass came to its end, so whether everything is read was not seen")
            for condition in ("disjoint", "same steps"):
                ledger.not_judged[condition] = "no pass came to its end"
        self.judge_order()

    def judge_shares(self) -> None:
        """Who reads what, pass by pass."""
        seen = self.seen
        found: dict[str, tuple[Fault, int]] = {}
        for number in range(seen.rows.passes):
            whole = number in seen.whole
            for fault in self.whole_faults(number) if whole else cut_faults(seen, number, self.ledger):
                found.setdefault(fault.code, (fault, number))
        parts = parts_of_parts(seen)
        if parts is not None and not found:
            found[parts.code] = (parts, seen.whole[0])
        if not found and shards_of_own_subsets(seen):
            self.add(own_subsets_fault(seen))
        if found:
            self.shown = min(number for _, number in found.values())
        for fault in explained([fault for fault, _ in found.values()], seen.run, seen.clues):
            self.add(fault)
        if seen.whole:
            self.ledger.judged.update(CONDITIONS[:3] if len(seen.rows.rows) > 1 else CONDITIONS[:2])

    def whole_faults(self, number: int) -> list[Fault]:
        """The faults of a pass that came to its end on every rank."""
        seen = self.seen
        reads = seen.reads(number)
        nothing = Reference((), 0, 0, False, (), exact=False)
        found = list(steps_faults(seen.run, number, seen.reference or nothing))
        if seen.reference is None:
            return [*found, *stream_faults(seen, number, self.ledger)]
        copies = worker_copies(seen, reads)
        if copies:
            return [*found, copies]
        if differs_from_run_to_run(seen, reads):
            text = "its items are not those that one process reads: they differ from run to run"
            self.ledger.leave_open("covered", text)
            return found
        if number == seen.whole[0]:
            self.tell_rule(reads, seen.reference)
        return [*found, *share_faults(seen.run, number, reads, seen.reference)]

    def tell_rule(self, reads: Sequence[Sequence[int]], reference: Reference) -> None:
        """The padding and the tail of a pass."""
        if reference.replacement:
            return
        counts = Counter(index for read in reads for index in read)
        most = Counter(reference.epochs[0]) if reference.exact else None
        self.padded = sum(max(0, count - (most[index] if most else 1)) for index, count in counts.items())
        if self.padded:
            self.ledger.tell("disjoint", f"{self.padded} padded")
        left = reference.draws - len(counts)
        if self.rule().dropped and left > 0:
            self.ledger.tell("covered", f"drop_last leaves out {left} of {reference.draws}")
        if not counts:
            dropping = reference.drop_last or reference.sampler_drop_last
            why = f"drop_last leaves nothing of {plural(reference.draws, 'sample')}" if dropping else "it is empty"
            if self.seen.alone is not None and reference.steps and any(reference.epochs):
                text = f"no rank makes a step where one process makes {reference.steps}: {why}"
                self.ledger.fail("same steps", text, "no-steps")
            else:
                self.ledger.leave_open("same steps", f"no step was made: {why}")

    def rule(self) -> Quota:
        """The owner's rule in numbers; nothing is allowed where it is not known what there is to read."""
        seen = self.seen
        if seen.reference is None:
            return Quota(0, 0, 0)
        return quota(seen.reference, seen.run.declared, seen.run.world, per_rank_batch(seen.run))

    def add(self, fault: Fault) -> None:
        """Take a fault into the ledger, or leave it open where there is a reason to doubt it."""
        ledger, built = self.ledger, self.seen.built
        contents = other_contents(self.seen) if fault.code in ("unsharded", "overlap", "wrong-rank") else ""
        steps = fault.text.removesuffix(_HANGS)
        asked_for = built.sharder == "accelerate" and not built.even_batches
        if contents:
            ledger.leave_open(fault.condition, f"{fault.text}, {contents}")
        elif fault.code == "uneven" and built.sampler.startswith("UnrepeatedDistributedSampler"):
            ledger.tell("same steps", f"{steps}: predicting has no collective in its loop")
        elif fault.code == "uneven" and (self.finished or asked_for):
            why = "it did not hang here" if self.finished else "even_batches=False"
            text = f"{steps} ({why}): training needs Join (join_uneven_inputs) or no collective in the loop"
            ledger.leave_open("same steps", text)
        else:
            ledger.fail(fault.condition, fault.text, fault.code)

    def judge_holdings(self) -> None:
        """Datasets that differ by rank: parts that are sharded again, or parts, or data made at random."""
        seen = self.seen
        own, whole = [row.reader.built.samples or 0 for row in seen.rows.rows], seen.samples_alone
        if seen.holdings == "parts" and whole and is_sharded(seen.rows) and sum(own) < whole + len(own):
            text = f"rank 0's dataset holds {own[0]} of {whole} samples, and its loader is sharded again"
            self.ledger.fail("covered", f"sharded twice: {text}", "sharded-twice")
        elif seen.holdings == "unlike" and whole == own[0]:
            self.told.append("the ranks hold other data under the same ids (made at random?): judged by ids")
        else:
            text = f"the ranks hold datasets of their own, {join([str(samples) for samples in own])} samples"
            of = f" where one process has {whole}" if whole else ""
            self.ledger.leave_open("covered", f"{text}{of}: whether they make up the whole can't be seen")

    def judge_coverage(self) -> None:
        """Whether the ranks read everything, where no reference says it by number."""
        seen = self.seen
        reads = seen.reads(seen.whole[0])
        read = {index for of_row in reads for index in of_row}
        samples = seen.built.samples
        part = draws_a_part(seen)
        if part:
            self.ledger.leave_open("covered", f"{part}: whether that is meant, or its own part, was not seen")
        elif seen.by_hand and seen.holdings == "same":
            if len(read) == samples:
                self.ledger.tell("covered", f"every rank's own subset, together all {samples} samples")
            else:
                text = f"every rank reads a subset of its own, together {len(read)} of {samples} samples"
                self.ledger.leave_open("covered", f"{text}: which ones are meant to be read was not seen")
        elif seen.reference is None:
            told = {row.reader.built.samples for row in seen.rows.rows}
            if samples is not None and told == {samples} and len(read) == samples and max(map(len, reads)) < samples:
                self.ledger.tell("covered", f"as many items as its length tells, {samples}")
                return
            of = f" of {samples}" if samples is not None else ""
            text = f"{plural(len(read), 'item' if seen.stream else 'sample')}{of}, none of them on two ranks"
            unknown = "what one process reads was not seen, so what is missing isn't known"
            self.ledger.leave_open("covered", f"{text}; {unknown}")

    # --- condition 4 ---

    def judge_order(self) -> None:
        """The order of the passes, as far as all of them came."""
        seen, ledger, reference = self.seen, self.ledger, self.seen.reference
        frozen = frozen_stream(seen) if self.role != "eval" else None
        if frozen is not None:
            ledger.judged.add("epochs")
            ledger.fail(frozen.condition, frozen.text, frozen.code)
            return
        if reference is None or seen.stream:
            unsaid = "its sampler does not say whether it shuffles"
            ledger.not_judged["epochs"] = "a stream's order is its own" if seen.stream else unsaid
            return
        steps = min(len(epoch) for rank in seen.run.ranks for epoch in rank.epochs)
        if len(seen.whole) == seen.rows.passes:
            run = seen.run
        else:
            cut = tuple(RankRun(rank.rank, tuple(epoch[:steps] for epoch in rank.epochs)) for rank in seen.run.ranks)
            run = replace(seen.run, ranks=cut)
        frozen = frozen_by_its_word(seen) if reference.shuffled else None
        if frozen is not None:
            ledger.judged.add("epochs")
            for fault in explained([frozen], run, seen.clues):
                ledger.fail(fault.condition, fault.text, fault.code)
            return
        if any(len(set(visits(rank, number))) < ENOUGH for rank in run.ranks for number in range(seen.rows.passes)):
            ledger.not_judged["epochs"] = f"fewer than {ENOUGH} draws a rank"
            return
        if reference.shuffled and seen.rows.passes == 1:
            if self.finished or seen.built.shard is None:
                ledger.not_judged["epochs"] = "there is one pass"
            elif not ledger.failed:
                ledger.leave_open("epochs", "only one pass was seen, so whether its order changes is not known")
        elif reference.shuffled or reference.order or reference.replacement:
            ledger.judged.add("epochs")
        else:
            ledger.not_judged["epochs"] = "its sampler does not say whether it shuffles"
        for fault in explained(order_faults(run, reference), run, seen.clues):
            code = "reordered" if fault.code == "shuffled-eval" and self.role != "eval" else fault.code
            ledger.fail(fault.condition, fault.text, code)

    # --- conditions 5 and 6 ---

    def judge_alone(self) -> None:
        """What one process reads, where it was run too: batches of the same size."""
        seen, ledger = self.seen, self.ledger
        ledger.not_judged["one process"] = "it was not run in one process"
        if seen.alone is None or not any(one.complete for one in seen.alone.passes):
            return
        ledger.judged.add("one process")
        was, now = full_batch(seen.alone), full_batch(seen.rows.rows[0].reader)
        if was is None or now is None:
            ledger.not_judged["preserved"] = "no full batch was seen"
            return
        ledger.judged.add("preserved")
        sized = seen.built.batch_size is not None or seen.alone.built.batch_size is not None
        declared = (seen.alone.built.batch_size, seen.built.batch_size)
        dealt_out = declared == (was, now) and now * len(seen.rows.rows) == was
        if dealt_out and seen.built.sharder not in ("fabric", "lightning"):  # which drop a batch sampler
            ledger.tell("preserved", f"the program divides its batch of {was} by the ranks")
        elif now != was and not seen.built.split_batches and sized:
            text = f"rank 0's batches hold {plural(now, 'sample')}, those of one process {was}"
            ledger.fail("preserved", text, "batch-size")

    # --- the verdict in words and as a picture ---

    def with_names(self, text: str) -> str:
        """A text in which the rows go by their own names; there is no original, but what one process reads."""
        names = names_of(self.seen.rows)
        text = text.replace("the original", "one process")
        return re.sub(r"\brank (\d+)\b", lambda hit: names.get(int(hit[1]), hit[0]), text) if names else text

    def reasons(self) -> tuple[str, ...]:
        seen, ledger = self.seen, self.ledger
        if ledger.failed:
            first = ledger.texts[ledger.codes.index(root(ledger.codes))]
            why = first[: first.find(": ") + 2]  # said once, where several faults have it
            others = [texts[0] for texts in ledger.failed.values() if texts[0] != first]
            return (first, *dict.fromkeys(text.removeprefix(why) for text in others))
        if ledger.open:
            return tuple(dict.fromkeys(texts[0] for texts in ledger.open.values()))
        world = len(seen.rows.rows)
        number = len({index for read in seen.reads(self.shown) for index in read})
        what = "item" if seen.stream else "sample"
        if world == 1:
            who = seen.rows.rows[0].name if self.observed.world > 1 else "one process"
            return (f"{who} reads all {number} {what}s",)
        who = (
            f"{world} data-parallel ranks"
            if self.observed.replicas not in (0, self.observed.world)
            else f"{world} ranks"
        )
        if seen.reference is not None and seen.reference.replacement:
            return (f"{who} share the {seen.reference.draws} draws of a pass",)
        tail = f", {self.padded} padded" if self.padded else ""
        dropped = ledger.told.get("covered", ()) if self.rule().dropped else ()
        much = f"{number} {what}s, none twice" if dropped else f"every one of {number} {what}s once"
        return (f"{who} read {much}{tail}", *dropped[:1])

    def shard_map(self) -> ShardMap:
        """Who read what in the pass that shows the fault, else in the first whole one."""
        seen, number = self.seen, self.shown
        ranks = tuple(rank.epochs[number] for rank in seen.run.ranks)
        expected = {index for read in seen.reads(number) for index in read}
        reference = seen.reference
        if reference is not None and not reference.replacement and number in seen.whole:
            expected |= {index for epoch in reference.epochs for index in epoch} | set(reference.order)
            whole = seen.built.samples if seen.built.samples == seen.built.subset and not seen.stream else None
            if whole and seen.holdings == "same" and (whole == reference.draws or "covered" in self.ledger.failed):
                expected |= set(range(whole))
        shuffles = reference is not None and reference.shuffled
        orders = [tuple(visits(seen.run.ranks[0], epoch)[:8]) for epoch in range(seen.rows.passes)]
        rule = self.rule()
        return ShardMap(
            world=seen.run.world,
            size=len(expected),
            ranks=ranks,
            expected=tuple(sorted(expected)),
            padding=rule.padding,
            dropped=rule.dropped,
            orders=tuple(orders) if shuffles else (),
            epoch=number,
            names=tuple(names_of(seen.rows).values()),
            stream=seen.stream,
        )


def not_consumed(observed: Observed, seen: Seen) -> list[str]:
    """What a reader should know of how the loader was read: what was left, and which ranks stand for which."""
    rows = seen.rows
    told = []
    cut = [number for number in range(rows.passes) if number not in seen.whole]
    if cut:
        steps = [len(row.reader.passes[cut[0]].batches) for row in rows.rows]
        after = plural(steps[0], "step") if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)} steps"
        which = "every pass" if len(cut) == rows.passes else f"pass {join([str(number) for number in cut])}"
        told.append(f"{which} was left after {after}: what comes later was not consumed")
    more = [row.name for row in rows.rows if len(row.reader.passes) > rows.passes]
    if more:
        told.append(f"{join(more)} began more passes than the {rows.passes} that are compared")
    if seen.redrawn:
        told.append("one process held another subset of as many samples, drawn anew in each run: not compared")
    if any(len(row.ranks) > 1 for row in rows.rows):
        told.append("; ".join(f"{row.name} is {named(row.ranks)}" for row in rows.rows))
    silent = sorted({*range(observed.world)} - {rank for row in rows.rows for rank in row.ranks})
    if silent and len(rows.rows) > 1:
        told.append(f"{named(silent)} never read it")
    return told
