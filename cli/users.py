"""`trainyard user`: the people file of an environment, and people on a running cluster."""

from __future__ import annotations

import argparse

from cli.exits import DONE, NO
from cli.files import read, say
from cli.verdicts import aws_session


def user(options: argparse.Namespace) -> int:
    """Add, remove and list the users of a cluster, and apply them without an update of it.

    trainyard user add staging ada --key ~/.ssh/id_ed25519.pub --administrator --on aws
    trainyard user remove staging ada --on aws
    trainyard user list staging
    trainyard user apply staging --plan --on aws
    """
    from settings import environment_file

    file = environment_file(options.environment).resolve()
    if options.action == "list":
        return _list(options)
    from ops import people

    if options.action == "add":
        uid = people.add(
            file,
            options.name,
            keys=options.key,
            teams=options.team,
            administrator=options.administrator,
            quota=options.home_quota_gib,
        )
        say(f"Added {options.name} ({uid}) to {people.people_file(file)}")
        teams = [team.name for team in read(options.environment)[1].teams]
        if teams and not options.team and not options.administrator:
            say(f"Without a team {options.name} cannot submit jobs. Teams: {', '.join(teams)}.")
    elif options.action == "remove":
        uid = people.remove(file, options.name)
        say(f"Removed {options.name} ({uid}) in {people.people_file(file)}. The home and all files stay.")
    if getattr(options, "no_apply", False):
        return DONE
    return _apply(options)


def _apply(options: argparse.Namespace) -> int:
    """Publish the people and have them applied. A file that was changed stays so, whatever happens here."""
    from ops import people
    from ops.problem import Problem

    _, environment = read(options.environment)
    changed, plan = options.action != "apply", getattr(options, "plan", False)
    again = f"trainyard user apply {options.environment}{' --on aws' * (options.on == 'aws')}"
    try:
        with aws_session(options, environment) as session:
            if not plan:
                people.publish(session, environment)
            lines, good = people.report(people.ask(session, environment, "plan" if plan else "apply"))
    except (people.NotDeployed, Problem) as reason:
        words = f"Nothing was applied: {reason}"
        if changed and (isinstance(reason, people.NotDeployed) or options.on == "local"):
            say(f"{words}\nOn AWS: {again.removesuffix(' --on aws')} --on aws, or with the next deployment.")
            return DONE
        raise Problem(f"{words}\nAfter that: {again}") from reason
    for line in lines:
        say(line)
    if not plan and environment.people.home_quotas():
        say(f"Quotas of homes change with the next deployment: cdk deploy storage -c env={options.environment}")
    return DONE if good else NO


def _list(options: argparse.Namespace) -> int:
    from ops import people

    file, environment = read(options.environment)
    people.people_file(file)
    table = [("NAME", "UID", "TEAMS AND GROUPS", "KEYS", "QUOTA", ""), *people.rows(environment)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return DONE
