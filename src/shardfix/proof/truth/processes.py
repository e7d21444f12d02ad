"""How many processes read a loader: one, all, or the main one alone."""

from __future__ import annotations

from shardfix.proof.truth.cell import Before, Cell, Numbers
from shardfix.proof.truth.preludes import ACCELERATE, PLAIN

PROCESSES = (
    Cell(
        "process/no-group",
        "DistributedSampler(ds) raises where no process group is",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))\n",
        Numbers(error="(ValueError|RuntimeError): Default process group has not been initialized"),
        "it is only put in where a group is sure to be there, or guarded",
        decides=("SHD710", "SHD913"),
        world=1,
        grouped=False,
    ),
    Cell(
        "process/one",
        "num_replicas=accelerator.num_processes, rank=accelerator.process_index works in one process",
        ACCELERATE,
        """
        sampler = DistributedSampler(
            dataset, num_replicas=accelerator.num_processes, rank=accelerator.process_index, shuffle=False
        )
        loader = DataLoader(dataset, batch_size=4, sampler=sampler)
        """,
        Numbers((21,), 0, 21, ordered=True),
        "it needs no guard",
        ("accelerate",),
        ("SHD301", "SHD302"),
        world=1,
        grouped=False,
    ),
    Cell(
        "process/one-prepared",
        "a prepared loader in one process reads everything in order, and pads nothing",
        ACCELERATE,
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4))\n",
        Numbers((21,), 0, 21, ordered=True),
        "one process goes on as before",
        ("accelerate",),
        ("SHD101", "SHD201"),
        world=1,
        grouped=False,
    ),
    Cell(
        "process/one-default",
        "in one process a SequentialSampler or RandomSampler gives the order that the default or shuffle=True gives",
        PLAIN,
        """
        def order(**arguments):
            torch.manual_seed(7)
            return [int(i) for batch in DataLoader(dataset, batch_size=4, **arguments) for i in batch]


        assert order(sampler=SequentialSampler(dataset)) == order(), 'the default is another order'
        assert order(sampler=RandomSampler(dataset)) == order(shuffle=True), 'shuffle=True gives another order'
        loader = []
        """,
        Numbers(),
        "such a sampler may be taken out anywhere",
        decides=("SHD103",),
        world=1,
        grouped=False,
    ),
    Cell(
        "process/main-only-sampler",
        "an evaluation on rank 0 alone reads one part of a DistributedSampler",
        PLAIN,
        """
        loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, shuffle=False))
        if dist.get_rank() > 0:
            loader = []
        """,
        Numbers((11, 0), 0, 11),
        "it is told",
        decides=("SHD505", "SHD706"),
    ),
    Cell(
        "process/main-only-shuffled",
        "a prepared shuffled loader that rank 0 alone reads waits for the others for ever",
        ACCELERATE,
        """
        loader = accelerator.prepare(DataLoader(dataset, batch_size=4, shuffle=True))
        if not accelerator.is_main_process:
            loader = []
        """,
        Numbers(waits=(0,)),
        "it is told",
        ("accelerate",),
        ("SHD716",),
        before=(
            Before("accelerate", "0.30", Numbers((12, 0), 0, 12), "before 0.30 nothing is synchronised between ranks"),
        ),
    ),
    Cell(
        "process/main-only-ordered",
        "a prepared ordered loader that rank 0 alone reads yields rank 0's part",
        ACCELERATE,
        """
        loader = accelerator.prepare(DataLoader(dataset, batch_size=4))
        if not accelerator.is_main_process:
            loader = []
        """,
        Numbers((12, 0), 0, 12),
        "it is told",
        ("accelerate",),
        ("SHD716",),
    ),
    Cell(
        "process/uneven-steps",
        "a rank that takes one step more than the others waits for them for ever",
        PLAIN,
        """
        def steps():
            for batch in DataLoader(dataset, sampler=TakesItsPart(21)):
                dist.all_reduce(torch.zeros(1))
                yield batch


        loader = steps()
        """,
        Numbers(waits=(0,)),
        "a proof asks for the same number of steps on every rank",
        epochs=1,
    ),
    Cell(
        "process/uneven-steps-without-gradients",
        "DistributedDataParallel without gradients sends its buffers in the first step only: a rank may make one more",
        PLAIN,
        """
        def steps():
            net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.BatchNorm1d(4))
            model = torch.nn.parallel.DistributedDataParallel(net).eval()
            with torch.no_grad():
                for batch in DataLoader(dataset, sampler=TakesItsPart(21)):
                    model(torch.ones(2, 1))
                    yield batch


        loader = steps()
        """,
        Numbers((11, 10), 0, 21),
        "an evaluation of one sample a step is shared out in unequal steps",
        decides=("SHD305", "SHD506"),
        epochs=1,
    ),
    Cell(
        "process/uneven-steps-with-gradients",
        "DistributedDataParallel with gradients sends its buffers in each step, evaluating too: who makes more waits",
        PLAIN,
        """
        def steps():
            net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.BatchNorm1d(4))
            model = torch.nn.parallel.DistributedDataParallel(net).eval()
            with torch.enable_grad():
                for batch in DataLoader(dataset, sampler=TakesItsPart(21)):
                    model(torch.ones(2, 1))
                    yield batch


        loader = steps()
        """,
        Numbers(waits=(0,)),
        "an evaluation of one sample a step is not shared out then",
        decides=("SHD904",),
        epochs=1,
    ),
)
