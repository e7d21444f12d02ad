"""Judge loaders that were watched as they are: what each rank read, against what there was to read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .causes import Clues, explained, root
from .faults import (
    ENOUGH,
    Fault,
    Quota,
    Reference,
    duplicate_fault,
    in_epoch,
    join,
    order_faults,
    per_rank_batch,
    plural,
    quota,
    share_faults,
    some,
    steps_faults,
    visits,
)
from .ledger import Ledger
from .model import CONDITIONS, Observation, Proof, RankRun, ShardMap
from .observed import Built, Observed, Reader
from .seen import (
    PLAIN,
    Holdings,
    Rows,
    clues_of,
    holdings_of,
    ids_are_own,
    is_sharded,
    named,
    names_of,
    numbers_of,
    observation_of,
    reading,
    reference_of,
    rows_of,
    who_reads,
)

NOT_READ = "it was never read"


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
        return Proof(observed.loader, "unproven", (NOT_READ,), conditions, cause="never-read", told=told)
    return Judged(observed, role=role, padding_removed=padding_removed, finished=finished).proof()


class Judged:
    """One loader as it is judged: what was seen, what is to be read, and what was found so far."""

    def __init__(self, observed: Observed, *, role: str, padding_removed: bool, finished: bool) -> None:
        self.observed = observed
        self.role = role
        self.padding_removed = padding_removed
        self.finished = finished
        rows = rows_of(observed)
        alone = usable(observed.alone)
        self.holdings: Holdings = holdings_of(rows, alone)
        self.samples_alone = alone.built.samples if alone is not None else None
        own_ids = ids_are_own(rows, alone)
        rows, self.alone = numbers_of(rows, alone)
        self.rows: Rows = rows
        self.built: Built = rows.built
        self.run: Observation = observation_of(rows, self.built.samples or 0)
        self.clues: Clues = clues_of(rows)
        self.reference: Reference | None = reference_of(rows, self.alone, role, own_ids=own_ids)
        self.by_hand = 0  # samples of the ranks' own subsets together, where these are how the program shards
        if self.reference is not None and not self.reference.epochs and not self.reference.replacement:
            self.by_hand = split_by_hand(rows, self.run, self.holdings)
            if self.by_hand:
                self.reference = replace(self.reference, draws=self.by_hand, distinct=None)
        self.whole = [number for number in range(rows.passes) if rows.complete(number)]
        self.ledger = Ledger()
        self.told: list[str] = [who_reads(observed, rows)]
        self.padded = 0
        self.shown = self.whole[0] if self.whole else 0  # the pass that the map shows

    def proof(self) -> Proof:
        self.tell_what_was_not_consumed()
        if len(self.rows.rows) == 1 and self.observed.world > 1 and not self.observed.replicas:
            self.judge_sole_reader()
        else:
            self.judge_rows()
        self.judge_alone()
        ledger = self.ledger
        ledger.not_judged["control"] = "there is no earlier version to compare with"
        ledger.not_judged.setdefault("preserved", "it was not run in one process")
        if self.padded and self.role == "eval" and not self.padding_removed and not ledger.failed:
            text = f"{plural(self.padded, 'padded sample')} of a pass would be counted twice in the metric"
            ledger.leave_open("disjoint", text)
        verdict = ledger.verdict()
        return Proof(
            site=self.observed.loader,
            verdict=verdict,
            reasons=tuple(self.named(text) for text in self.reasons()),
            conditions={name: self.named(text) for name, text in ledger.conditions().items()},
            padded=self.padded,
            map_after=self.shard_map(),
            cause=root(ledger.codes) if verdict == "refuted" else "",
            told=tuple(self.told),
        )

    def named(self, text: str) -> str:
        """A text in which the rows have their own names."""
        names = names_of(self.rows)
        return re.sub(r"\brank (\d+)\b", lambda hit: names.get(int(hit[1]), hit[0]), text) if names else text

    def tell_what_was_not_consumed(self) -> None:
        rows = self.rows
        cut = [number for number in range(rows.passes) if number not in self.whole]
        if cut:
            steps = [len(row.reader.passes[cut[0]].batches) for row in rows.rows]
            after = plural(steps[0], "step") if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)} steps"
            which = "every pass" if len(cut) == rows.passes else f"pass {join([str(number) for number in cut])}"
            self.told.append(f"{which} was left after {after}: what comes later was not consumed")
        passes = {row.name: len(row.reader.passes) for row in rows.rows}
        if len(set(passes.values())) > 1:
            more = [name for name, count in passes.items() if count > rows.passes]
            self.told.append(f"{join(more)} began more passes than the {rows.passes} that are compared")
        if self.built.kind == "stream":
            self.told.append("the items of a stream are numbered in the order in which they were first seen")
        if len(rows.rows) < len([rank for row in rows.rows for rank in row.ranks]):
            same = [f"{row.name} is ranks {join([str(rank) for rank in row.ranks])}" for row in rows.rows]
            self.told.append("; ".join(same))
        silent = sorted({*range(self.observed.world)} - {rank for row in rows.rows for rank in row.ranks})
        if silent and len(rows.rows) > 1:
            self.told.append(f"{named(silent)} never read it")

    # --- one rank only ---

    def judge_sole_reader(self) -> None:
        """A loader of the main process: right where it reads everything, a part only where it is sharded."""
        reader = self.rows.rows[0].reader
        ledger = self.ledger
        shards = reader.built.shard[0] if reader.built.shard else 1
        name = self.rows.rows[0].name
        read = [len(visits(self.run.ranks[0], number)) for number in self.whole]
        draws = self.reference.draws if self.reference else None
        part = self.built.sharder == "accelerate" or shards > 1
        if self.reference and draws and read and not self.reference.drop_last:
            part = part or (self.alone is not None and min(read) < draws)
            part = part and min(read) < draws
        if part and (self.whole or shards > 1):
            how = f"{read[0]} of {draws} samples" if read and draws else f"one part of {max(shards, 2)}"
            text = f"only {name} of {self.observed.world} reads it, and it is sharded: {name} reads {how}"
            ledger.judged.update(("disjoint", "covered"))
            ledger.fail("covered", text, "part-only")
            return
        if not self.whole:
            ledger.leave_open("covered", f"only {name} of {self.observed.world} came to read it, and not to its end")
            return
        if self.role == "train":
            ledger.leave_open("covered", f"only {name} of {self.observed.world} reads a loader that trains")
            return
        ledger.judged.update(("disjoint", "covered"))
        ledger.not_judged["same steps"] = "one rank reads it"
        ledger.tell("covered", f"{name} alone reads everything: a loader of the main process")
        self.judge_shares()
        self.judge_order()

    # --- every rank ---

    def judge_rows(self) -> None:
        ledger = self.ledger
        if self.rows.differs:
            ledger.fail("disjoint", self.rows.differs, "replica-differs")
        self.judge_shares()
        if self.holdings != "same" and not ledger.failed:
            self.judge_holdings()
        if self.whole and not ledger.failed:
            self.judge_coverage()
        if not self.whole:
            ledger.leave_open("covered", "no pass came to its end, so whether everything is read was not seen")
            ledger.not_judged["same steps"] = "no pass came to its end"
        self.judge_order()

    def judge_holdings(self) -> None:
        """Datasets that differ by rank: parts that are sharded again, or parts, or data made at random."""
        built = [row.reader.built for row in self.rows.rows]
        own, whole = sum(one.samples or 0 for one in built), self.samples_alone
        if self.holdings == "parts" and whole and is_sharded(self.rows) and own < whole + len(built):
            text = f"rank 0's dataset holds {built[0].samples} of {whole} samples, and its loader is sharded again"
            self.ledger.fail("covered", f"sharded twice: {text}", "sharded-twice")
        elif self.holdings == "unlike" and whole == built[0].samples:
            self.told.append("the ranks hold other data under the same ids (made at random?): judged by ids")
        else:
            text = f"the ranks hold datasets of their own, {join([str(one.samples) for one in built])} samples"
            of = f" where one process has {whole}" if whole else ""
            self.ledger.leave_open("covered", f"{text}{of}: whether they make up the whole can't be seen")

    def judge_coverage(self) -> None:
        """Whether the ranks read everything, where no reference says it by number."""
        read = {index for rank in self.run.ranks for index in visits(rank, self.whole[0])}
        samples = self.built.samples
        if self.by_hand and self.holdings == "same":
            if len(read) == samples:
                self.ledger.tell("covered", f"every rank's own subset, together all {samples} samples")
            else:
                text = f"every rank reads a subset of its own, together {len(read)} of {samples} samples"
                self.ledger.leave_open("covered", f"{text}: which ones are meant to be read was not seen")
        elif self.reference is None:
            of_ranks = [row.reader.built.samples for row in self.rows.rows]
            shares = [len(visits(rank, self.whole[0])) for rank in self.run.ranks]
            if samples is not None and set(of_ranks) == {samples} and len(read) == samples and max(shares) < samples:
                self.ledger.tell("covered", f"as many items as its length tells, {samples}")
                return
            told = f" of {samples} that its length tells" if samples is not None else ""
            text = f"{plural(len(read), 'item')}{told}, none of them on two ranks"
            self.ledger.leave_open(
                "covered", f"{text}; what one process reads was not seen, so what is missing isn't known"
            )

    def judge_shares(self) -> None:
        """Conditions 1 to 3, pass by pass."""
        found: dict[str, tuple[Fault, int]] = {}
        for number in range(self.rows.passes):
            one = self.of_whole_pass(number) if number in self.whole else self.of_cut_pass(number)
            for fault in one:
                found.setdefault(fault.code, (fault, number))
        found = self.with_own_parts(found)
        ordered = explained([fault for fault, _ in found.values()], self.run, self.clues)
        if ordered:
            self.shown = min(number for _, number in found.values())
        for fault in ordered:
            self.add(fault)
        if self.whole:
            self.ledger.judged.update(CONDITIONS[:3] if len(self.rows.rows) > 1 else CONDITIONS[:2])

    def of_whole_pass(self, number: int) -> list[Fault]:
        reads = [visits(rank, number) for rank in self.run.ranks]
        if self.reference is None:
            return [*self.uneven(number, None), *self.of_stream(number, reads)]
        found = list(self.uneven(number, self.reference))
        copies = self.worker_copies(reads)
        if copies:
            return [*found, copies]
        if self.built.kind == "stream" and self.is_random(reads):
            return found
        found += share_faults(self.run, number, reads, self.reference)
        if number == self.whole[0]:
            self.tell_rule(reads)
        return found

    def uneven(self, number: int, reference: Reference | None) -> list[Fault]:
        nothing = Reference((), 0, 0, False, (), exact=False)
        return list(steps_faults(self.run, number, reference or nothing))

    def tell_rule(self, reads: Sequence[Sequence[int]]) -> None:
        """The padding and the tail of the first whole pass."""
        assert self.reference is not None
        rule = self.rule()
        if self.reference.replacement:
            return
        counts = Counter(index for read in reads for index in read)
        most = Counter(self.reference.epochs[0]) if self.reference.exact else None
        self.padded = sum(max(0, count - (most[index] if most else 1)) for index, count in counts.items())
        if self.padded:
            self.ledger.tell("disjoint", f"{self.padded} padded")
        left = self.reference.draws - len(counts)
        if rule.dropped and left > 0:
            self.ledger.tell("covered", f"drop_last leaves out {left} of {self.reference.draws}")
        if not counts:
            dropping = self.reference.drop_last or self.reference.sampler_drop_last
            why = f"drop_last leaves nothing of {plural(self.reference.draws, 'sample')}" if dropping else "it is empty"
            self.ledger.leave_open("same steps", f"no step was made: {why}")

    def rule(self) -> Quota:
        assert self.reference is not None
        return quota(self.reference, self.run.declared, self.run.world, per_rank_batch(self.run))

    def of_cut_pass(self, number: int) -> list[Fault]:
        """What a pass shows that was not read to its end: who reads the same."""
        reads = [visits(rank, number) for rank in self.run.ranks]
        if len(reads) < 2:
            return []
        nothing_shards = self.nothing_shards()
        if nothing_shards:
            return [Fault("unsharded", "disjoint", f"{nothing_shards} (left after {some_steps(self.run, number)})")]
        if self.built.replacement or (self.reference is not None and self.reference.replacement):
            return []
        if self.reference is None:
            return self.of_stream(number, reads)
        if self.built.shard is None and not self.built.sharder and len(reads[0]) > 1 and all_same(reads):
            text = f"every rank reads the same {len(reads[0])} samples{in_epoch(number)}"
            return [Fault("unsharded", "disjoint", text)]
        counts = Counter(index for read in reads for index in read)
        once = 1
        if self.reference.exact:
            once = max(Counter(self.reference.epochs[0]).values(), default=1)
        too_often = {index: count - once for index, count in counts.items() if count > once}
        rule = self.rule()
        if sum(too_often.values()) <= rule.padding:
            return []
        shared = sorted(index for index in too_often if sum(index in set(read) for read in reads) > 1)
        return [duplicate_fault(reads, number, too_often, shared, 0, rule)]

    def nothing_shards(self) -> str:
        """Where only torch's own parts stand between the dataset and every rank, so that each would read it all."""
        built = [row.reader.built for row in self.rows.rows]
        if any(one.kind != "map" or one.sampler not in PLAIN or one.shard or one.sharder for one in built):
            return ""
        if any(one.dispatched for one in built) or self.holdings != "same":
            return ""
        lengths = {(one.samples, one.subset, one.draws) for one in built}
        digests = {one.subset_digest for one in built}
        first = built[0]
        if len(lengths) > 1 or len(digests) > 1 or first.draws is None:
            return ""
        if first.subset != first.samples and "" in digests:
            return ""
        return f"nothing shards it: on every rank {first.sampler} draws all {first.draws} samples"

    def of_stream(self, number: int, reads: Sequence[Sequence[int]]) -> list[Fault]:
        """What streams show where one process was not seen: who reads the same; what they hold is not known."""
        counts = Counter(index for read in reads for index in read)
        if not counts:
            return []
        copied = self.worker_copies(reads)
        if copied:
            return [copied]
        within = sum(count - 1 for read in reads for count in Counter(read).values())
        if len(reads) < 2:
            return []
        if len(reads[0]) > 1 and all(Counter(read) == Counter(reads[0]) for read in reads):
            text = f"every rank reads the same {len(reads[0])} items{in_epoch(number)}"
            return [Fault("unsharded", "disjoint", text)]
        shared = sorted(index for index in counts if sum(index in set(read) for read in reads) > 1)
        extra = sum(counts[index] - 1 for index in shared)
        longest = max(map(len, reads))
        allowed = self.stream_padding()
        if extra <= allowed:
            return []
        if within or extra * 4 < longest:
            self.ledger.leave_open(
                "disjoint", f"{plural(len(shared), 'item')} of the ranks are equal; they may be so in the data"
            )
            return []
        too_often = {index: counts[index] - 1 for index in shared}
        return [duplicate_fault(reads, number, too_often, shared, 0, Quota(longest, allowed, 0))]

    def worker_copies(self, reads: Sequence[Sequence[int]]) -> Fault | None:
        """Every item as often as there are workers: each of these yields the whole stream."""
        copies = self.built.workers
        counts = [count for read in reads for count in Counter(read).values()]
        if self.built.kind != "stream" or copies < 2 or len(counts) < 3 or any(count % copies for count in counts):
            return None
        text = f"each of {copies} workers yields the whole stream: rank 0 reads {some(reads[0])}"
        return Fault("worker-copies", "disjoint", text)

    def stream_padding(self) -> int:
        """How many items accelerate may repeat to fill the last step."""
        if not self.built.sharder.startswith("accelerate"):
            return 0
        world = len(self.rows.rows)
        return world - 1 if self.run.declared.dispatched else world * per_rank_batch(self.run) - 1

    def is_random(self, reads: Sequence[Sequence[int]]) -> bool:
        """Whether a stream yields other items in each program, so that one process's say nothing of the ranks'."""
        if self.reference is None or not self.reference.epochs:
            return False
        known = {index for epoch in self.reference.epochs for index in epoch}
        read = {index for of_rank in reads for index in of_rank}
        if not read or len(read & known) * 2 > len(read):
            return False
        self.ledger.leave_open("covered", "its items are not those that one process reads: they differ from run to run")
        return True

    def with_own_parts(self, found: dict[str, tuple[Fault, int]]) -> dict[str, tuple[Fault, int]]:
        """Faults that the loaders' own words show, beside those of what was read."""
        subsets = {subset for subset in self.clues.subsets if subset}
        shared = bool(self.clues.sharder) or any(shard and shard[0] > 1 for shard in self.clues.shards)
        reads = [set(visits(rank, number)) for rank in self.run.ranks for number in range(self.rows.passes)]
        if len(subsets) > 1 and shared and not found and any(reads):
            text = "each rank shards a subset of its own"
            return {"missing": (Fault("missing", "covered", text), self.shown)}
        return found

    def add(self, fault: Fault) -> None:
        """Take a fault into the ledger, or leave it open where there is a reason to doubt it."""
        ledger = self.ledger
        contents = self.other_contents()
        if contents and fault.code in ("unsharded", "overlap", "wrong-rank"):
            ledger.leave_open(fault.condition, f"{fault.text}, {contents}")
        elif (
            fault.code == "uneven" and self.run.ranks and self.built.sampler.startswith("UnrepeatedDistributedSampler")
        ):
            ledger.tell("same steps", f"{fault.text.removesuffix(': the job would hang')}: predicting needs no more")
        elif fault.code == "uneven" and (self.finished or self.deals_uneven()):
            why = "it did not hang here" if self.finished else "even_batches=False"
            text = f"{fault.text.removesuffix(': the job would hang')} ({why}): training needs Join"
            ledger.leave_open("same steps", f"{text} (join_uneven_inputs) or no collective in the loop")
        else:
            ledger.fail(fault.condition, fault.text, fault.code)

    def deals_uneven(self) -> bool:
        return self.built.sharder == "accelerate" and not self.built.even_batches

    def other_contents(self) -> str:
        """Why equal ids may not be equal data: the first steps yield something else on each rank."""
        if all(row.reader.built.data_digest for row in self.rows.rows) or self.samples_alone is not None:
            return ""  # the datasets are known to be the same
        contents = [row.reader.passes[0].contents for row in self.rows.rows if row.reader.passes]
        first = [row.reader.passes[0].batches[:1] for row in self.rows.rows if row.reader.passes]
        if not all(contents) or any(batches != first[0] for batches in first):
            return ""
        if len({one[0] for one in contents}) == 1:
            return ""
        return "but what these ids yield differs: a dataset of each rank's own, or random transforms"

    # --- condition 4 ---

    def judge_order(self) -> None:
        """The order of the passes, as far as all of them came."""
        if self.reference is None or self.built.kind == "stream":
            self.ledger.not_judged["epochs"] = "a stream's order is its own"
            return
        steps = min(len(seen.batches) for row in self.rows.rows for seen in row.reader.passes[: self.rows.passes])
        cut = not all(number in self.whole for number in range(self.rows.passes))
        ranks = [
            RankRun(rank.rank, tuple(epoch[:steps] if cut else epoch for epoch in rank.epochs))
            for rank in self.run.ranks
        ]
        run = replace(self.run, ranks=tuple(ranks))
        drawn = min(len(set(visits(rank, number))) for rank in ranks for number in range(self.rows.passes))
        if drawn < ENOUGH:
            self.ledger.not_judged["epochs"] = f"fewer than {ENOUGH} draws a rank"
            return
        if self.reference.replacement and self.rows.passes > 1:
            self.ledger.judged.add("epochs")
        elif self.reference.shuffled and self.rows.passes == 1:
            if self.finished or self.built.shard is None:
                self.ledger.not_judged["epochs"] = "there is one pass"
            elif not self.ledger.failed:
                self.ledger.leave_open("epochs", "only one pass was seen, so whether its order changes is not known")
        elif self.reference.shuffled or self.reference.order:
            self.ledger.judged.add("epochs")
        else:
            self.ledger.not_judged["epochs"] = "its sampler does not say whether it shuffles"
        if self.built.shuffled is None and self.reference.shuffled is False and not self.reference.order:
            return
        for fault in explained(order_faults(run, self.reference), run, self.clues):
            if fault.code == "shuffled-eval" and self.role != "eval":
                self.ledger.fail("epochs", fault.text, "reordered")
            else:
                self.ledger.fail(fault.condition, fault.text, fault.code)

    # --- conditions 5 and 6 ---

    def judge_alone(self) -> None:
        """What one process reads, where it was run too: everything, in batches of the same size."""
        ledger = self.ledger
        ledger.not_judged["one process"] = "it was not run in one process"
        alone = self.alone
        if alone is None or not any(seen.complete for seen in alone.passes):
            return
        ledger.judged.add("one process")
        was = full_batch(alone)
        now = [full_batch(row.reader) for row in self.rows.rows]
        if was is None or None in now:
            ledger.not_judged["preserved"] = "no full batch was seen"
            return
        ledger.judged.add("preserved")
        shared = self.built.split_batches
        if now[0] is not None and not shared and now[0] != was and self.built.batch_size is not None:
            text = f"rank 0's batches hold {plural(now[0], 'sample')}, those of one process {was}"
            ledger.fail("preserved", text, "batch-size")

    # --- in words ---

    def reasons(self) -> tuple[str, ...]:
        ledger = self.ledger
        if ledger.failed:
            first = ledger.texts[ledger.codes.index(root(ledger.codes))]
            return tuple(dict.fromkeys([first, *(texts[0] for texts in ledger.failed.values())]))
        if ledger.open:
            return tuple(dict.fromkeys(texts[0] for texts in ledger.open.values()))
        world = len(self.rows.rows)
        number = len({index for rank in self.run.ranks for index in visits(rank, self.shown)})
        what = "item" if self.built.kind == "stream" else "sample"
        if world == 1:
            who = self.rows.rows[0].name if self.observed.world > 1 else "one process"
            return (f"{who} reads all {number} {what}s",)
        if self.reference is not None and self.reference.replacement:
            return (f"{world} ranks share the {self.reference.draws} draws of a pass",)
        tail = f", {self.padded} padded" if self.padded else ""
        dropped = ledger.told.get("covered", ())
        much = f"{number} {what}s, none twice" if dropped else f"every one of {number} {what}s once"
        who = (
            f"{world} data-parallel ranks"
            if self.observed.replicas not in (0, self.observed.world)
            else f"{world} ranks"
        )
        return (f"{who} read {much}{tail}", *dropped[:1])

    def shard_map(self) -> ShardMap | None:
        """Who read what in the pass that shows the fault, else in the first whole one."""
        run, number = self.run, self.shown
        if number >= self.rows.passes:
            return None
        ranks = tuple(rank.epochs[number] for rank in run.ranks)
        read = {index for batches in ranks for batch in batches for index in batch}
        expected = set(read)
        if self.reference is not None and not self.reference.replacement and number in self.whole:
            expected |= {index for epoch in self.reference.epochs for index in epoch}
            expected |= set(self.reference.order)
        rule = self.rule() if self.reference is not None else Quota(0, 0, 0)
        orders = [tuple(visits(run.ranks[0], epoch)[:8]) for epoch in range(self.rows.passes)]
        return ShardMap(
            world=run.world,
            size=len(expected),
            ranks=ranks,
            expected=tuple(sorted(expected)),
            padding=rule.padding if not self.ledger.failed else 0,
            dropped=rule.dropped,
            orders=tuple(orders) if self.reference is not None and self.reference.shuffled else (),
            epoch=number,
            names=tuple(names_of(self.rows).values()),
            stream=self.built.kind == "stream",
        )


def usable(alone: Reader | None) -> Reader | None:
    """The reader of one process, where it read anything, and not one part of several even there."""
    if alone is None or not alone.passes or (alone.built.shard or (1, 0))[0] > 1:
        return None
    return alone


def split_by_hand(rows: Rows, run: Observation, holdings: Holdings) -> int:
    """How many samples the ranks' subsets hold together where every rank has one of its own and nothing else shards."""
    built = [row.reader.built for row in rows.rows]
    if len(built) < 2 or any(one.shard or one.sharder for one in built) or not rows.passes:
        return 0
    own = [one.subset if one.subset is not None else one.samples for one in built]
    digests = {one.subset_digest for one in built}
    if not (len(digests) > 1 or len(set(own)) > 1 or holdings != "same") or None in own:
        return 0
    reads = [set(visits(rank, 0)) for rank in run.ranks]
    return sum(length or 0 for length in own) if sum(map(len, reads)) == len(set().union(*reads)) else 0


def all_same(reads: Sequence[Sequence[int]]) -> bool:
    return all(list(read) == list(reads[0]) for read in reads)


def some_steps(run: Observation, number: int) -> str:
    return plural(max(len(rank.epochs[number]) for rank in run.ranks), "step")


def full_batch(reader: Reader) -> int | None:
    """The size of a batch that another one follows, so that it is a full one."""
    return next((len(seen.batches[0]) for seen in reader.passes if len(seen.batches) > 1), None)
