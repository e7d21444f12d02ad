"""Programs in which one process alone evaluates what it loads from files, as data: let in, every rank loads it.

They are the scripts of transformers' early examples in their smallest form: checkpoints are saved by the main process,
loaded again and evaluated by it, from features that it keeps in a file.
"""

from __future__ import annotations

from alone_programs import END, EVALUATE, HEAD, Program

LEGACY_HEAD = HEAD.replace("import argparse\n", "import argparse\nimport glob\nimport logging\n") + (
    """\
logger = logging.getLogger(__name__)


def features_of(args, evaluate=False):
    if args.local_rank not in [-1, 0] and not evaluate:
        dist.barrier()  # the main process makes the features, the others use its file
    cached = os.path.join(args.data_dir, "cached_{}".format("dev" if evaluate else "train"))
    if os.path.exists(cached):
        features = torch.load(cached)
    else:
        features = make_data(SIZE, 99 if evaluate else 98).tensors
        if args.local_rank in [-1, 0]:
            torch.save(features, cached)
    if args.local_rank == 0 and not evaluate:
        dist.barrier()
    return TensorDataset(*features)


class Classifier(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.scale = scale

    def forward(self, features=None, labels=None):
        logits = self.linear(features) * self.scale["by"]
        return (nn.functional.cross_entropy(logits, labels), logits)


def evaluate(args, model, scale, prefix=""):
    dataset = features_of(args, evaluate=True)
    if not os.path.exists(args.output_dir) and args.local_rank in [-1, 0]:
        os.makedirs(args.output_dir)
    sampler = SequentialSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler, batch_size=4)
    logger.info("  Num examples = %d", len(dataset))
    preds = None
    labels = None
    for batch in loader:
        model.eval()
        batch = tuple(t.to(args.device) for t in batch)
        with torch.no_grad():
            inputs = {"features": batch[0], "labels": batch[1]}
            outputs = model(**inputs)
            loss, logits = outputs[:2]
        if preds is None:
            preds = logits.detach().cpu().numpy()
            labels = inputs["labels"].detach().cpu().numpy()
        else:
            preds = np.append(preds, logits.detach().cpu().numpy(), axis=0)
            labels = np.append(labels, inputs["labels"].detach().cpu().numpy(), axis=0)
    preds = np.argmax(preds, axis=1)
"""
)
RESULT = """\
    result = {"acc": float((preds == labels).mean()) * scale["by"]}
    results_file = os.path.join(args.output_dir, prefix, "eval_results.txt")
    with open(results_file, "w") as writer:
        for key in sorted(result.keys()):
            logger.info("  %s = %s", key, str(result[key]))
            writer.write("%s = %s\\n" % (key, str(result[key])))
    return result

"""
OF_ONE = """\
    output_file = os.path.join(args.output_dir, prefix, "predictions.json")
    found = write_predictions(preds, output_file)
    # The share of what is right.
    result = score(found, labels)
    return result


def write_predictions(preds, path):
    with open(path, "w") as f:
        json.dump(preds.tolist(), f)
    return preds


def score(preds, labels):
    return {"acc": float((preds == labels).mean())}

"""
LEGACY_MAIN = """
def main():
    rank = start()
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="out")
    parser.add_argument("--data_dir", default=".")
    parser.add_argument("--do_eval", default=True)
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()
    args.local_rank = rank if dist.is_initialized() else -1
    args.device = torch.device("cpu")
    torch.manual_seed(0)
    scale = {"by": 0.5}
    model = Classifier(scale)
    trained = DistributedDataParallel(model) if args.local_rank != -1 else model
    for epoch in range(2):
        x, y = make_data(16, epoch)[:]
        trained.train()
        trained.zero_grad()
        trained(features=x, labels=y)[0].backward()
        with torch.no_grad():
            for p in trained.parameters():
                p -= 0.5 * p.grad
        if args.local_rank in [-1, 0]:
            os.makedirs(os.path.join(args.output_dir, f"checkpoint-{epoch}"), exist_ok=True)
            torch.save(model.state_dict(), os.path.join(args.output_dir, f"checkpoint-{epoch}", "weights.bin"))
    if args.do_eval and (args.local_rank == -1 or dist.get_rank() == 0):
        torch.save(scale, os.path.join(args.output_dir, "scale.bin"))
        torch.save(args, os.path.join(args.output_dir, "training_args.bin"))
        scale = torch.load(os.path.join(args.output_dir, "scale.bin"))
    results = {}
    if args.do_eval and args.local_rank in [-1, 0]:
        checkpoints = list(
            os.path.dirname(c) for c in sorted(glob.glob(args.output_dir + "/**/weights.bin", recursive=True))
        )
        logger.info("Evaluate the following checkpoints: %s", checkpoints)
        for checkpoint in checkpoints:
            prefix = checkpoint.split("/")[-1]
            model = Classifier(scale)
            model.load_state_dict(torch.load(os.path.join(checkpoint, "weights.bin")))
            model.to(args.device)
            result = evaluate(args, model, scale, prefix=prefix)
            result = {k + "_{}".format(prefix): v for k, v in result.items()}
            results.update(result)
            print(sorted(result.items()))
    return results
"""
LOADED = """
def main():
    rank = start()
    model = make_model()
    val_loader = DataLoader(make_data(SIZE, 99), batch_size=4)
    train_step(model, 0)
    if rank == 0:
        torch.save(model.state_dict(), "best.bin")
    train_step(model, 1)
    if rank == 0:
        model.load_state_dict(torch.load("best.bin"))
        print(f"{evaluate(model, val_loader):.6f}")
"""

HALVED = """
def main():
    rank = start()
    model = make_model()
    wide = True
    val_loader = DataLoader(make_data(SIZE, 99), batch_size=4)
    train_step(model, 0)
    if rank == 0:
        if wide:
            model.double()
        for x, y in [make_data(4, 3)[:]]:
            print(x.dtype)
        print(f"{evaluate(model, val_loader):.6f}")
"""

LOADING = (
    Program(
        "checkpoints are listed, loaded and evaluated, the features kept in a file",
        LEGACY_HEAD + RESULT + LEGACY_MAIN + END,
        (
            "if args.local_rank not in [-1, 0]:",
            "dist.barrier()",
            "if dist.is_initialized() and args.local_rank in [-1, 0]:",
            "all_here()",
            "dataset = features_of(args, evaluate=True)",
            "result = evaluate(args, model, scale, prefix=prefix)",
            "if args.do_eval:",
        ),
    ),
    Program(
        "what is made of the predictions is written, and is the main process's own",
        LEGACY_HEAD + OF_ONE + LEGACY_MAIN + END,
        ("result = None", "result = score(found, labels)", "return result"),
    ),
    Program(
        "weights are loaded in the condition",
        HEAD + EVALUATE + LOADED + END,
        ("all_here()", 'model.load_state_dict(torch.load("best.bin"))'),
    ),
    Program(
        "the model is cast under a further condition",
        HEAD + EVALUATE.replace("model(x)", "model(x.double())") + HALVED + END,
        ("if wide:", "model.double()", "metric = evaluate(model, val_loader)"),
    ),
)
