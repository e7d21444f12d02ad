"""Make up CUDA devices on a CPU: what asks for one gets the CPU's tensors, and what manages one does nothing."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from .hooks import After
from .recorder import Recorder

NOTHING = (
    *("set_device", "synchronize", "empty_cache", "ipc_collect", "init", "manual_seed", "manual_seed_all", "seed"),
    *("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats", "set_rng_state_all"),
    *("set_per_process_memory_fraction", "set_rng_state", "set_stream", "set_sync_debug_mode", "seed_all"),
    *("reset_max_memory_cached", "set_device_index"),
)
ZERO = (
    *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached"),
    *("max_memory_cached", "utilization", "temperature", "initial_seed", "get_sync_debug_mode"),
)


def hooks(recorder: Recorder) -> dict[str, After]:
    devices = recorder.options.cuda
    return {
        "torch": lambda module: change_torch(module, devices),
        "torch.nn.parallel.distributed": change_ddp,
    }


def change_ddp(module: Any) -> None:
    """In ``torch.nn.parallel.distributed``: a model on the CPU has no device ids."""
    ddp = module.DistributedDataParallel
    init = ddp.__init__
    signature = inspect.signature(init)

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        given.pop("device_ids", None)
        given.pop("output_device", None)
        init(**given)

    ddp.__init__ = __init__


def change_torch(torch: Any, devices: int) -> None:
    """In ``torch``, once all of it is imported."""
    to_cpu = functools.partial(_to_cpu, torch)
    _change_tensors(torch, to_cpu)
    _change_modules(torch, to_cpu)
    _change_constructors(torch, to_cpu)
    _change_cuda(torch, devices)
    _change_amp(torch)


def _to_cpu(torch: Any, value: Any) -> Any:
    """A CUDA device, in whichever way it is written, as the CPU; anything else as it is."""
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


def _mapped(function: Any, to_cpu: Any, numbers: bool = False) -> Any:
    """``function`` with its CUDA devices on the CPU; ``numbers``: a bare number is a device too."""

    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        if numbers and len(args) > 1 and isinstance(args[1], int) and not isinstance(args[1], bool):
            args = (args[0], "cpu", *args[2:])
        args = tuple(to_cpu(one) for one in args)
        if isinstance(kwargs.get("device"), int) and not isinstance(kwargs["device"], bool):
            kwargs["device"] = "cpu"
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return function(*args, **{name: to_cpu(value) for name, value in kwargs.items()})

    return changed


def _itself(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self


def _change_tensors(torch: Any, to_cpu: Any) -> None:
    tensor = torch.Tensor
    tensor.to = _mapped(tensor.to, to_cpu, numbers=True)
    tensor.cuda = _itself
    tensor.pin_memory = _itself
    tensor.record_stream = lambda self, stream: None
    for name in ("new_tensor", "new_zeros", "new_ones", "new_full", "new_empty", "type"):
        setattr(tensor, name, _mapped(getattr(tensor, name), to_cpu))
    tensor.type = _with_types_of_cpu(tensor.type)
    packed = torch.nn.utils.rnn.PackedSequence
    packed.cuda = _itself
    packed.pin_memory = _itself


def _with_types_of_cpu(function: Any) -> Any:
    @functools.wraps(function)
    def changed(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return function(self, dtype, *args, **kwargs)

    return changed


def _change_modules(torch: Any, to_cpu: Any) -> None:
    module = torch.nn.Module
    module.to = _mapped(module.to, to_cpu, numbers=True)
    module.cuda = _itself

    def init_parallel(self: Any, inner: Any, *args: Any, **kwargs: Any) -> None:
        module.__init__(self)
        self.module, self.device_ids = inner, []  # as torch does where there is no device

    torch.nn.DataParallel.__init__ = init_parallel
    sync = torch.nn.SyncBatchNorm  # runs on a GPU only
    sync.convert_sync_batchnorm = classmethod(lambda cls, module, process_group=None: module)


def _change_constructors(torch: Any, to_cpu: Any) -> None:
    from torch.utils import _device

    for function in list(_device._device_constructors()):
        name = getattr(function, "__name__", "")
        if getattr(torch, name, None) is function:
            setattr(torch, name, _mapped(function, to_cpu))
    _device._device_constructors.cache_clear()
    for name in ("set_default_device", "as_tensor", "randint_like", "zeros_like", "ones_like", "rand_like"):
        if hasattr(torch, name) and not hasattr(getattr(torch, name), "__wrapped__"):
            setattr(torch, name, _mapped(getattr(torch, name), to_cpu))
    for name in ("randn_like", "empty_like", "full_like"):
        setattr(torch, name, _mapped(getattr(torch, name), to_cpu))
    load = torch.load

    @functools.wraps(load)
    def load_(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        del map_location  # wherever it was, there is the CPU only
        return load(f, "cpu", *args, **kwargs)

    torch.load = load_
    context = _device.DeviceContext
    enter = context.__init__
    context.__init__ = lambda self, device: enter(self, to_cpu(device))  # type: ignore[method-assign]
    torch.Generator = _GeneratorOnCpu.of(torch.Generator, to_cpu)


class _GeneratorOnCpu:
    @staticmethod
    def of(generator: Any, to_cpu: Any) -> Any:
        """A subclass whose instances are torch's own generators, so that ``isinstance`` holds both ways."""

        class Meta(type(generator)):  # type: ignore[misc]
            def __call__(cls, device: Any = "cpu") -> Any:
                return generator(to_cpu(device))

            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, generator)

        return Meta("Generator", (generator,), {"__module__": "torch"})


def _change_cuda(torch: Any, devices: int) -> None:
    cuda = torch.cuda
    for name in NOTHING:
        if hasattr(cuda, name):
            setattr(cuda, name, _giving(None))
    for name in ZERO:
        if hasattr(cuda, name):
            setattr(cuda, name, _giving(0))
    current = [0]

    def set_device(device: Any) -> None:
        number = device if isinstance(device, int) else torch.device(device).index
        current[0] = number or 0

    cuda.set_device = set_device
    cuda.current_device = lambda: current[0]
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: True
    cuda.is_current_stream_capturing = lambda: False
    cuda.device_count = lambda: devices
    cuda.get_device_name = lambda device=None: "CPU"
    cuda.get_device_capability = lambda device=None: (8, 0)
    cuda.is_bf16_supported = lambda *args, **kwargs: True
    cuda.mem_get_info = lambda device=None: (1 << 34, 1 << 34)
    cuda.memory_summary = lambda *args, **kwargs: ""
    cuda.memory_stats = lambda *args, **kwargs: {}
    cuda.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    cuda.get_rng_state_all = lambda: [torch.get_rng_state()] * devices
    cuda.device = _Nowhere
    cuda.stream = _Nowhere
    cuda.Stream = cuda.Event = _Nowhere
    cuda.current_stream = cuda.default_stream = lambda *args, **kwargs: _Nowhere()
    cuda.get_device_properties = lambda device=None: _Properties()
    for name in ("FloatTensor", "LongTensor", "IntTensor", "DoubleTensor", "HalfTensor", "ByteTensor", "BoolTensor"):
        setattr(cuda, name, getattr(torch, name))
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.is_available = lambda: True
        accelerator.device_count = lambda: devices
        accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
        accelerator.set_device_index = accelerator.set_device_idx = set_device
        accelerator.current_device_index = accelerator.current_device_idx = lambda: current[0]
        accelerator.synchronize = _giving(None)
        accelerator.current_stream = lambda device=None: _Nowhere()
        if hasattr(accelerator, "empty_cache"):
            accelerator.empty_cache = _giving(None)


def _giving(value: Any) -> Any:
    """A function of its own for each name: torch._dynamo tells functions apart by identity."""

    def give(*args: Any, **kwargs: Any) -> Any:
        return value

    return give


class _Properties:
    name = "CPU"
    total_memory = 1 << 34
    major, minor = 8, 0
    multi_processor_count = 1


class _Nowhere:
    """A stream, an event or a device context where all work is done when it is asked for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Nowhere:
        return self

    def __exit__(self, *args: Any) -> None:
        return None

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def elapsed_time(self, other: Any) -> float:
        return 0.0

    def record_event(self, event: Any = None) -> _Nowhere:
        return event if event is not None else _Nowhere()

    def record(self, stream: Any = None) -> None:
        return None

    synchronize = wait = wait_event = wait_stream = record


def _change_amp(torch: Any) -> None:
    """Mixed precision of a GPU is left out: what is computed is not what is proven."""
    init = torch.autocast.__init__

    @functools.wraps(init)
    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            init(self, "cpu", dtype=torch.bfloat16, enabled=False)
        else:
            init(self, device_type, *args, **kwargs)

    torch.autocast.__init__ = __init__
    scaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else sys.modules["torch.cuda.amp"].GradScaler
    init_scaler = scaler.__init__

    @functools.wraps(init_scaler)
    def without_scale(self: Any, *args: Any, **kwargs: Any) -> None:
        init_scaler(self, enabled=False)

    scaler.__init__ = without_scale
    if scaler is not torch.cuda.amp.GradScaler:
        torch.cuda.amp.GradScaler.__init__ = without_scale
