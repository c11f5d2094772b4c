"""`trainyard status ENV --web`: the overview dashboard as one page, without Grafana."""
