"""Dashboard of GPU hours and their price on demand."""

from __future__ import annotations

from settings import Environment
from settings.instances import instance_types
from settings.model.cluster import Queue
from settings.prices import hourly_usd
from trainyard.dashboards.cluster import ABSENT, FREE_GPUS
from trainyard.dashboards.model import Dashboard, Variable, figure, lines, stacked, table

_UNUSED = '(1 - DCGM_FI_DEV_GPU_UTIL{hpc_job!=""} / 100)'
_KINDS = {
    "allocated": ("GPUs that jobs held.", "sum by (queue) (slurm_node_gpus_allocated)"),
    "idle": ("GPUs of running nodes that no job held.", f"sum by (queue) ({FREE_GPUS})"),
    "wasted": ("GPUs that jobs held, times the share that they did not use.", f"sum by (queue) {_UNUSED}"),
}


def gpu_hour_usd(environment: Environment, queue: Queue) -> float | None:
    """Price of an hour of one GPU of the queue's dearest type; None if unknown."""
    prices = hourly_usd(environment, queue, sorted(_gpu_types(queue)))
    known = [price / instance_types()[name].gpus for name, price in prices.items() if price is not None]
    return max(known) if len(known) == len(prices) else None


def _gpu_types(queue: Queue) -> set[str]:
    types = instance_types()
    names = {name for compute in queue.compute for name in compute.instance_types}
    return {name for name in names if name in types and types[name].gpus}


def cost(environment: Environment) -> Dashboard:
    """The dashboard. The price of each queue is a variable, which a reader can change; NaN if it is unknown."""
    queues = [queue for queue in environment.cluster.queues if _gpu_types(queue)]
    prices = {queue.name: gpu_hour_usd(environment, queue) for queue in queues}
    variables = {
        queue: Variable(
            f"usd_{queue.replace('-', '_')}",
            f"USD per GPU hour, {queue}",
            "text",
            "NaN" if price is None else f"{price:.4g}",
        )
        for queue, price in prices.items()
    }
    usd = " or ".join(
        f'label_replace(vector(${price.name}), "queue", "{queue}", "", "")' for queue, price in variables.items()
    )
    usd = usd or "vector(NaN)"
    running = f"sum by (queue) (slurm_node_gpus unless on (node) {ABSENT})"
    # A sample each minute, so the sum of a minute's samples over 60 is hours.
    hours = {name: f"sum_over_time(({series})[$__range:1m]) / 60" for name, (_, series) in _KINDS.items()}
    priced = {name: f"({expr}) * on (queue) ({usd})" for name, expr in hours.items()}
    note = "On-demand prices without discounts, from the variables above; NaN where the price is unknown."
    # fmt: off
    return Dashboard(
        "cost", "Cost", "GPU hours of the time range, and their price. Head node, storage and traffic are not in it.", {
            "GPU hours": tuple(figure(f"Hours {name}", "short", text, f"sum({hours[name]})")
                               for name, (text, _) in _KINDS.items()),
            "Price": tuple(figure(f"USD {name}", "currencyUSD", f"{text} {note}", f"sum({priced[name]})")
                           for name, (text, _) in _KINDS.items()),
            "By queue": (
                stacked("GPUs of running nodes", "short", "Nodes that start or stop cost too.", {"{{queue}}": running}),
                lines("USD per hour", "currencyUSD", f"GPUs of running nodes. {note}",
                      {"{{queue}}": f"{running} * on (queue) ({usd})"}),
                table("Queues", f"GPU hours of the time range. {note}", ("queue",),
                      {f"Hours {name}": expr for name, expr in hours.items()}
                      | {f"USD {name}": expr for name, expr in priced.items()},
                      {f"USD {name}": "currencyUSD" for name in priced}),
                table("Jobs that waste most", "The job's GPUs, times the share that they do not use now.", ("hpc_job",),
                      {"GPUs unused": f"topk(10, sum by (hpc_job) {_UNUSED})"}),
            ),
        }, tuple(variables.values()))
    # fmt: on
