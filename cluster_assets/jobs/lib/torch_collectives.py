"""torch_collectives.py COLLECTIVE [OPTION...]: the measurement of NVIDIA's nccl-tests through torch.distributed.

Started by srun, one process per GPU; MASTER_ADDR and MASTER_PORT are the rendezvous. Sizes, timing, bandwidths, checks
and the table are those of nccl-tests 2.19.6 (src/common.cu, the collectives' own files, doc/PERFORMANCE.md), so that
nccl_verdict.py judges both. torch has one form of each collective, in place or not: the other's columns are N/A.
Messages too small to be divided among the ranks are left out. Python adds some µs to each call, as small messages show.

Needs torch 1.13 or later, and Python 3.9 or later. Exit codes: 0 measured; 1 wrong values; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

_BYTES = 4  # of an element: float32, nccl-tests' default
_ALIGNED = 16 // _BYTES  # elements: nccl-tests cuts a rank's part to a multiple of 16 bytes
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Element i of rank r has the value i % _PERIOD + r % _MARKS. Sums of 8,192 ranks stay below 2^24, up to which float32
# is exact. The period is a prime number, so that shifted data is wrong.
_PERIOD, _MARKS = 1021, 1000
_CHUNK = 1 << 24  # elements compared at once
_START = timedelta(minutes=5)  # until all ranks have loaded torch
_TIMEOUT = timedelta(minutes=30)  # of one call; torch's default of 10 would end a slow but correct measurement
# Their names since torch 2.13, and before.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Kind(NamedTuple):
    """A collective: whether the message consists of a part per rank (otherwise torch replaces it by the result)."""

    parts: bool
    redop: str
    root: int
    factor: Callable[[int], float]  # bus bandwidth / algorithm bandwidth, by the number of ranks


KINDS = {
    "all_reduce": Kind(False, "sum", -1, lambda ranks: 2 * (ranks - 1) / ranks),
    "all_gather": Kind(True, "none", -1, lambda ranks: (ranks - 1) / ranks),
    "broadcast": Kind(False, "none", 0, lambda _: 1),
    "reduce": Kind(False, "sum", 0, lambda _: 1),
    "reduce_scatter": Kind(True, "sum", -1, lambda ranks: (ranks - 1) / ranks),
    "alltoall": Kind(True, "none", -1, lambda ranks: (ranks - 1) / ranks),
}


class Collective:
    """One collective on this rank. Counts are elements of a whole message, `longest` those of the largest."""

    def __init__(self, name: str, device: torch.device, longest: int) -> None:
        self.name, self.kind, self.device = name, KINDS[name], device
        self.rank, self.ranks = int(dist.get_rank()), int(dist.get_world_size())
        self.send = torch.zeros(longest, device=device)
        self.result = torch.zeros(longest, device=device) if self.kind.parts else self.send
        self._period = (torch.arange(min(longest, _CHUNK) + _PERIOD, device=device) % _PERIOD).float()

    def whole(self, size: int) -> int:
        """The elements of a message of at most `size` bytes."""
        count = size // _BYTES
        return count // self.ranks // _ALIGNED * _ALIGNED * self.ranks if self.kind.parts else count

    def call(self, count: int, start: int = 0) -> Callable[[], object]:
        """The collective on a message that begins at element `start` of the buffers."""
        send, result, part = self.send[start : start + count], self.result[start : start + count], count // self.ranks
        return {
            "all_reduce": partial(dist.all_reduce, send),
            "broadcast": partial(dist.broadcast, send, 0),
            "reduce": partial(dist.reduce, send, 0),
            "all_gather": partial(_all_gather, result, send[:part]),
            "reduce_scatter": partial(_reduce_scatter, result[:part], send),
            "alltoall": partial(dist.all_to_all_single, result, send),
        }[self.name]

    def total(self, value: float) -> float:
        """The sum over the ranks. Waits for all of them, and for this rank's GPU."""
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return float(tensor.item())

    def seconds(self, count: int, number: int) -> float:
        """Seconds of one call, as nccl-tests takes them: by the host's clock, the mean over calls and ranks.

        The calls use different parts of the buffers, because a cache would make one part faster.
        """
        places = len(self.send) // count
        calls = [self.call(count, index % places * count) for index in range(number)]
        calls[0]()
        self.total(0)
        begun = time.perf_counter()
        for call in calls:
            call()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return self.total(time.perf_counter() - begun) / self.ranks / number

    def wrong(self, count: int) -> int:
        """The wrong values of all ranks after one call."""
        if self.kind.parts:
            self.result[:count] = -1
        for start, values in self._values(0, count):
            self.send[start : start + len(values)] = values + self.rank % _MARKS
        self.call(count)()
        found = 0
        for begin, first, length, times, plus in self._expected(count):
            for done, values in self._values(first, length):
                got = self.result[begin + done : begin + done + len(values)]
                found += int((got != values * times + plus).sum())
        return round(self.total(found))

    def _values(self, first: int, length: int) -> Iterator[tuple[int, Any]]:
        """The values of the elements from `first`, without the rank's mark, in chunks: offset and tensor."""
        for done in range(0, length, _CHUNK):
            phase = (first + done) % _PERIOD
            yield done, self._period[phase : phase + min(_CHUNK, length - done)]

    def _expected(self, count: int) -> Iterator[tuple[int, int, int, int, int]]:
        """This rank's result in pieces: where one begins, the first element of its values, its length, times, plus."""
        part, mine = count // self.ranks, count // self.ranks * self.rank
        marks = [rank % _MARKS for rank in range(self.ranks)]
        if self.name == "reduce_scatter":
            yield 0, mine, part, self.ranks, sum(marks)
        elif self.kind.parts:
            first = mine if self.name == "alltoall" else 0
            yield from ((part * rank, first, part, 1, mark) for rank, mark in enumerate(marks))
        elif self.name == "broadcast":
            yield 0, 0, count, 1, marks[0]
        elif self.name == "all_reduce" or self.rank == 0:
            yield 0, 0, count, self.ranks, sum(marks)


def table(test: Collective, least: int, most: int, factor: int, calls: int) -> int:
    """Measure the sizes and print the table. Returns the number of sizes with wrong values."""
    kind, now, bad, rates = test.kind, least, 0, []
    absent = "      N/A     N/A     N/A     N/A"
    print(f"#\n#{'out-of-place':>74}{'in-place':>33}")
    print(f"# {'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8}{'     time   algbw   busbw  #wrong' * 2}")
    print(f"# {'(B)':>11}{'(elements)':>14}{'':26}{'     (us)  (GB/s)  (GB/s)        ' * 2}", flush=True)
    while now <= most:
        count = test.whole(now)
        now *= factor
        if not count:
            continue
        seconds = test.seconds(count, calls)
        rate, wrong = count * _BYTES / seconds / 1e9, test.wrong(count)
        rates.append(rate * kind.factor(test.ranks))
        bad += wrong > 0
        shown = count // test.ranks if kind.parts else count
        found = f"  {seconds * 1e6:7.2f}  {rate:6.2f}  {rates[-1]:6.2f}  {wrong:6d}"
        columns = found + absent if kind.parts else absent + found
        print(f"{count * _BYTES:12d}  {shown:12d}  {'float':>8}  {kind.redop:>6}  {kind.root:6d}{columns}", flush=True)
    print(f"# {'Out of bounds values':<20} : {bad} {'FAILED' if bad else 'OK'}")
    print(f"# {'Avg bus bandwidth':<20} : {sum(rates) / max(len(rates), 1):g}")
    return bad


def size(text: str) -> int:
    """Bytes, also with K, M or G."""
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="torch_collectives.py", description="Measure a collective with torch.")
    parser.add_argument("collective", choices=tuple(KINDS))
    parser.add_argument("-b", dest="least", type=size, default=8, help="smallest message (default 8)")
    parser.add_argument("-e", dest="most", type=size, default=4 << 30, help="largest message (default 4G)")
    parser.add_argument("-f", dest="factor", type=int, default=2, help="factor between sizes (default 2)")
    parser.add_argument("-n", dest="calls", type=int, default=50, help="calls per size (default 50)")
    parser.add_argument("-g", dest="gpus", type=int, default=1, choices=(1,), help="GPUs per process")
    parser.add_argument("--backend", default="nccl", choices=("nccl", "gloo"), help="gloo: CPUs and TCP")
    options = parser.parse_args(arguments)
    if options.factor < 2 or options.calls < 1 or not 8 <= options.least <= options.most:
        parser.error("give -f 2 or more, -n 1 or more, and -b from 8 to the size of -e")
    try:
        rank, ranks, local = (int(os.environ[f"SLURM_{name}"]) for name in ("PROCID", "NTASKS", "LOCALID"))
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    except (KeyError, ValueError) as problem:
        parser.error(f"nccl-tests.sbatch starts this program with srun, MASTER_ADDR and MASTER_PORT: {problem}")
    device, library, name = torch.device("cpu"), "", "CPU"
    if options.backend == "nccl":
        if local >= torch.cuda.device_count():
            parser.error(f"torch sees {torch.cuda.device_count()} GPUs, and process {local} of this node needs its own")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        library, name = f" nccl={'.'.join(map(str, torch.cuda.nccl.version()))}", torch.cuda.get_device_name(device)
    print(f"#  Rank {rank} on {os.uname().nodename} device {local} {name}", flush=True)
    try:
        store = dist.TCPStore(address, port, ranks, is_master=rank == 0, timeout=_START)
    except RuntimeError as problem:
        # The lines above show which ranks started.
        sys.stderr.write(f"rank {rank}: not all {ranks} ranks met at {address}:{port}: {problem}\n")
        return 1
    dist.init_process_group(options.backend, store=store, rank=rank, world_size=ranks, timeout=_TIMEOUT)
    gc.disable()  # while the clock runs, as timeit does: to go through torch's many objects takes ms
    if rank:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    print(f"# torch version {torch.__version__} backend={options.backend}{library}")
    print(f"# Collective test starting: {options.collective}_perf")
    print(f"# minBytes {options.least} maxBytes {options.most} step: {options.factor}(factor) iters: {options.calls}")
    test = Collective(options.collective, device, options.most // _BYTES)
    bad = table(test, options.least, options.most, options.factor, options.calls)
    dist.destroy_process_group()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
