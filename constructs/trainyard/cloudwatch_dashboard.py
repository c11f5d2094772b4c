"""The dashboard of an environment whose metrics are in CloudWatch only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from settings.model import Environment
from trainyard.cloudwatch_alarms import agent_namespace, metric

_UTILIZATION = "nvidia_smi_utilization_gpu"
_WIDTH = 12
"""Columns of a widget; a row has 24."""


class CloudWatchDashboard(Construct):
    """GPUs by the nodes' CloudWatch agent, file systems, S3 queues and alarms, on one page.

    ParallelCluster's own dashboard has the head node, its logs and errors of nodes: this one links to it.
    The agent aggregates the GPUs of a node (steps/metrics.sh, aggregation_dimensions): one line for each node, of which
    a widget shows at most 100 (SEARCH, CloudWatch guide).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        alarms: Sequence[cloudwatch.Alarm],
        lustre: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self._namespace, region = agent_namespace(environment), environment.region
        clusters = f"{environment.cluster_name}-{region}"
        link = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#dashboards:name={clusters}"
        dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"trainyard-{environment.name}",
            default_interval=Duration.hours(3),
        )
        text = f"**{environment.name}**: head node, logs and node errors are in [ParallelCluster's dashboard]({link})."
        dashboard.add_widgets(cloudwatch.TextWidget(markdown=text, width=2 * _WIDTH, height=1))
        dashboard.add_widgets(cloudwatch.AlarmStatusWidget(alarms=list(alarms), width=2 * _WIDTH, height=3))
        dashboard.add_widgets(
            self._gpus("GPU utilisation of each node, mean, %", _UTILIZATION, "Average"),
            self._gpus("GPU utilisation of each node, its least used GPU, %", _UTILIZATION, "Minimum"),
            self._gpus("GPU memory in use, the fullest GPU of each node, MiB", "nvidia_smi_memory_used", "Maximum"),
            self._gpus("GPU temperature, the hottest GPU of each node, °C", "nvidia_smi_temperature_gpu", "Maximum"),
        )
        for name, file_system in lustre.items():
            dashboard.add_widgets(
                self._file_system(f"{name}: free bytes", file_system, "FreeDataStorageCapacity"),
                self._file_system(f"{name}: bytes a minute", file_system, "DataReadBytes", "DataWriteBytes"),
            )

    def _gpus(self, title: str, name: str, statistic: str) -> cloudwatch.GraphWidget:
        search = f"SEARCH('{{\"{self._namespace}\",InstanceId}} MetricName=\"{name}\"', '{statistic}', 60)"
        expression = cloudwatch.MathExpression(
            expression=search, using_metrics={}, label="", period=Duration.minutes(1)
        )
        return cloudwatch.GraphWidget(title=title, left=[expression], width=_WIDTH)

    def _file_system(self, title: str, file_system: str, *names: str) -> cloudwatch.GraphWidget:
        metrics = [metric("AWS/FSx", name, {"FileSystemId": file_system}, "Sum", minutes=1) for name in names]
        return cloudwatch.GraphWidget(title=title, left=metrics, width=_WIDTH)
