"""Writes data sources and dashboards into the Amazon Managed Grafana workspace of /etc/trainyard/monitoring.env.

    publish_dashboards.py FOLDER

CloudFormation has no type for either. The token lives for ten minutes and is deleted at the end. Exit status 1: the
workspace is not ready or refused something; the service that runs this tries again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = "trainyard"
TOKEN_S = 600


def aws(*words: str) -> dict[str, Any]:
    """The answer of one call of the Grafana service."""
    command = ["aws", "grafana", *words, "--workspace-id", os.environ["GRAFANA_ID"], "--output", "json"]
    done = subprocess.run([*command, "--region", os.environ["REGION"]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"aws grafana {words[0]}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found


def send(token: str, method: str, path: str, content: object) -> None:
    """One call of Grafana's HTTP API."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    url = f"https://{os.environ['GRAFANA_ENDPOINT']}/api/{path}"
    request = urllib.request.Request(url, json.dumps(content).encode(), headers, method=method)
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - always https


def publish(token: str, folder: Path) -> int:
    """Creates or replaces the sources and all dashboards; returns how many dashboards."""
    region = os.environ["REGION"]
    # The workspace's role. Grafana refuses unknown names only when a panel asks (grafana-aws-sdk, ToAuthType).
    signed = {"sigV4Auth": True, "sigV4AuthType": "ec2_iam_role", "sigV4Region": region, "httpMethod": "POST"}
    sources: list[dict[str, Any]] = [
        {"type": "prometheus", "url": os.environ["WORKSPACE_URL"], "isDefault": True, "jsonData": signed},
        {"type": "cloudwatch", "jsonData": {"authType": "ec2_iam_role", "defaultRegion": region}},
    ]
    for source in sources:
        uid = source["type"]
        source |= {"name": f"Trainyard {uid}", "uid": uid, "access": "proxy"}
        try:
            send(token, "PUT", f"datasources/uid/{uid}", source)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            send(token, "POST", "datasources", source)
    files = sorted(folder.glob("*.json"))
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        send(token, "POST", "dashboards/db", {"dashboard": {**content, "id": None}, "overwrite": True})
    return len(files)


def main(folder: Path) -> int:
    try:
        listed = aws("list-workspace-service-accounts").get("serviceAccounts", [])
        found = next((item["id"] for item in listed if item["name"] == ACCOUNT), None)
        account = found or aws("create-workspace-service-account", "--name", ACCOUNT, "--grafana-role", "ADMIN")["id"]
        whose = ("--service-account-id", account)
        name = f"publish-{int(time.time())}"
        made = aws("create-workspace-service-account-token", *whose, "--name", name, "--seconds-to-live", str(TOKEN_S))
        token = made["serviceAccountToken"]
        try:
            count = publish(token["key"], folder)
        finally:
            aws("delete-workspace-service-account-token", *whose, "--token-id", token["id"])
    except (OSError, KeyError, ValueError) as error:  # URLError is an OSError
        print(f"monitoring: dashboards not published: {error}", file=sys.stderr)
        return 1
    print(f"monitoring: {count} dashboards published", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
